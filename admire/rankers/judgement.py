"""Results of rankers: the answers of a chat model, and the scores computed from them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import ConfigDict, Field, PlainSerializer, SkipValidation, computed_field

from admire.core.errors import UserError
from admire.core.schema import STRICT, UNLESS_EMPTY, UNLESS_NONE
from admire.data.items import Item, SenseLabel
from admire.data.limits import without_invalid
from admire.rankers.scorer import Scores, comparable
from admire.senses.sense import Sense

log = logging.getLogger("admire")


@dataclass(frozen=True)
class Answer:
    """What a chat model answers to one question about an item's candidates.

    Attributes:
        shown: the names of the candidates in the order in which the chat model saw them.
        order: these names, best first; empty if the answer could not be read, or if the
            candidates are equal.
        sense, meaning: what is meant, if the question asks for it; the meaning in its words.
        reasons: why, by candidate.
        grades: the probability of ``idiomatic``, ``literal`` and ``neither``, if it was graded.
        likelihoods: the mean log-probability of a token of each text after the candidate, by role.
        reply: the reply, of a ranker that reads it in its scores.
        unread: the reply, if it could not be read.
        cut: whether that reply was cut off.
    """

    shown: tuple[str, ...]
    order: tuple[str, ...] = ()
    sense: Annotated[SenseLabel | None, UNLESS_EMPTY] = None
    meaning: Annotated[str | None, UNLESS_EMPTY] = None
    reasons: Annotated[Mapping[str, Mapping[str, str]], UNLESS_EMPTY] = field(default_factory=dict)
    grades: Annotated[Mapping[str, float], UNLESS_EMPTY] = field(default_factory=dict)
    likelihoods: Annotated[Mapping[str, float], UNLESS_EMPTY] = field(default_factory=dict)
    reply: Annotated[str, UNLESS_EMPTY] = ""
    unread: Annotated[str | None, UNLESS_NONE] = None
    cut: Annotated[bool, UNLESS_EMPTY] = False


class Part(NamedTuple):
    """A part of candidates' scores.

    Attributes:
        of: the compared track, or a ranker or run.
        text: the role of the text, see :data:`TEXTS`; ``unlike compound`` if similarity lowers the
            score. None for a ranker.
        encoder: the encoder that compared, if the run has several.
    """

    of: str
    text: str | None
    values: Scores
    encoder: str | None = None


def as_counted(parts: Sequence[Part], scores: Scores, of: int) -> list[Part]:
    """Return the parts of one ranker's scores as parts of the mean of those of ``of`` rankers."""
    spread = np.round(scores, 9).std()
    return [
        part._replace(values=(part.values - part.values.mean()) / (spread or 1.0) / of)
        for part in parts
    ]


@dataclass(frozen=True)
class Judgement:
    """The scores that one ranker gives an item's candidates, for one chat model.

    Attributes:
        llm: the chat model; empty for a baseline.
        scores: of the candidates, in the item's order; higher is better.
        agreement: how far the answers agree, from 0 to 1; None where no two can be compared.
        sense: which one is meant, if the answers say it. Run folders do not keep it, nor what
            follows.
        encoder: what compared, of a ranker that judges by several encoders.
        parts: what adds up to the scores; without them the ranker is one part, standardised.
        compared: which candidates were compared with another one; None if all were.
        leads: the scores in units that are comparable between items, if there are such.
        cells: further columns of scores.csv. A judgement that has them is in that file alone.
        by_sense: the scores if the sense were this one, of an unsure sense with meanings for both.
    """

    __pydantic_config__ = STRICT | ConfigDict(extra="ignore")  # a file also has ``unread``

    ranker: str
    llm: str
    scores: Annotated[
        tuple[float, ...],
        PlainSerializer(lambda scores: np.round(scores, 9).tolist(), return_type=list[float]),
    ]
    answers: tuple[Answer, ...]
    agreement: float | None = None
    sense: Annotated[Sense | None, Field(exclude=True)] = None
    encoder: Annotated[str, Field(exclude=True)] = ""
    parts: Annotated[tuple[Part, ...], SkipValidation, Field(exclude=True)] = ()
    cells: Annotated[Mapping[str, Scores], SkipValidation, Field(exclude=True)] = field(
        default_factory=dict
    )
    compared: Annotated[Sequence[bool] | None, SkipValidation, Field(exclude=True)] = None
    leads: Annotated[Scores | None, SkipValidation, Field(exclude=True)] = None
    by_sense: Annotated[Mapping[SenseLabel, tuple[float, ...]], Field(exclude=True)] = field(
        default_factory=dict
    )

    @property
    def points(self) -> Scores:
        """The scores on a scale that rankers share, shape (candidates,)."""
        scores = np.array(self.scores)
        return scores if self.parts else comparable(scores)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def unread(self) -> int:
        """The number of answers that could not be read."""
        return sum(answer.unread is not None for answer in self.answers)

    @property
    def meaning(self) -> str | None:
        """The meaning from the first answer that agrees with the chosen sense."""
        meant = self.sense and self.sense.label
        return next((a.meaning for a in self.answers if a.sense == meant and a.meaning), None)


def refuse_answers(name: str, answers: Sequence[Answer]) -> UserError:
    """Return the error about a chat model none of whose answers could be read."""
    if all(answer.cut for answer in answers):
        return UserError(
            f"{name}: all {len(answers)} replies were cut off, even with twice the tokens. Does "
            "it think first? Turn that off (llama-server --reasoning-budget 0), or use another "
            "model.",
            "llms",
        )
    example = on_one_line(answers[0].unread)[:80]
    return UserError(
        f"{name}: none of the {len(answers)} replies could be parsed (the first is “{example}”). "
        "Does its server support response_format with a JSON schema? A small model works "
        "better with one candidate at a time: use the ranker pointwise.",
        "rankers",
        "llms",
        "llm_url",
    )


def warn_of_unread(judged: Iterable[tuple[Item, Judgement]], name: str) -> None:
    """Warn about items without an answer that could be read."""
    for item, judgement in judged:
        if 0 < judgement.unread == len(judgement.answers):
            text = "%s: no reply about '%s' could be parsed; its candidates get equal scores."
            log.warning(text, name, item.compound)


def on_one_line(value: object) -> str:
    """Return a text without line breaks and double spaces; empty if it is not a string."""
    return " ".join(without_invalid(value).split()) if isinstance(value, str) else ""
