"""Results of rankers: the answers of a chat model, and the scores computed from them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Self

import numpy as np
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    computed_field,
)

from admire.core.errors import UserError
from admire.core.schema import STRICT, UNLESS_EMPTY, UNLESS_NONE
from admire.data.items import Item, SenseLabel
from admire.data.limits import LIMITS, without_invalid
from admire.llm import ChatModel, Question, evict
from admire.prompts.quotations import data_of, json_objects, without_objects
from admire.senses.sense import Sense

log = logging.getLogger("admire")


@dataclass(frozen=True)
class Answer:
    """What a chat model answers to one question about an item's candidates.

    Attributes:
        shown: the names of the candidates in the order in which the chat model saw them.
        order: these names, best first; empty if the answer could not be read, or if the
            candidates are equal.
        sense: the sense that the model takes to be meant, if the question asks for it.
        meaning: what the compound means there, in the model's words.
        reasons: why, by candidate.
        grades: the probability of ``idiomatic``, ``literal`` and ``neither``, if it was graded.
        likelihoods: the mean log-probability of a token of each text after the candidate, by the
            text's role, if these were asked for.
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


def _rounded(scores: tuple[float, ...]) -> list[float]:
    return [float(score) for score in np.round(scores, 9)]


@dataclass(frozen=True)
class Judgement:
    """The scores that one ranker gives an item's candidates by the answers of one chat model.

    Attributes:
        scores: of the candidates, in the item's order; higher is better.
        answers: one for each question, in the order of the questions.
        agreement: how far the answers agree, from 0 to 1; None where no two can be compared.
        sense: which one is meant, if the answers say it; run folders do not keep it.
    """

    __pydantic_config__ = STRICT | ConfigDict(extra="ignore")  # a file also has ``unread``

    ranker: str
    llm: str
    scores: Annotated[tuple[float, ...], PlainSerializer(_rounded)]
    answers: tuple[Answer, ...]
    agreement: float | None = None
    sense: Annotated[Sense | None, Field(exclude=True)] = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def unread(self) -> int:
        """The number of answers that could not be read."""
        return sum(answer.unread is not None for answer in self.answers)

    @property
    def meaning(self) -> str | None:
        """The meaning from the first answer that agrees with the chosen sense."""
        meant = self.sense and self.sense.label
        meanings = (answer.meaning for answer in self.answers if answer.sense == meant)
        return next(filter(None, meanings), None)


def ask_twice(
    llm: ChatModel,
    question: Question,
    read: Callable[[str], Answer | None],
    candidates: tuple[str, ...],
    item: Item,
    *,
    next_seed: int = 1,
) -> Answer:
    """Ask a question, and ask it again if the first reply cannot be parsed.

    The second has another seed and a temperature above 0, and twice as many tokens if the first
    reply was cut off. A JSON object that a reply quotes from a caption or sentence is not an
    answer; see :func:`admire.prompts.quotations.without_objects`.

    Args:
        next_seed: added to the seed for the second question.
    """
    data = data_of(item)
    reply = llm.ask(question)
    answer = read(without_objects(reply.text, data))
    if answer is None:
        tokens, seed = question.max_tokens * (2 if reply.cut else 1), question.seed + next_seed
        # At a temperature of 0, another seed would give the same reply.
        again = replace(question, temperature=0.7, max_tokens=tokens, seed=seed)
        reply = llm.ask(again)
        answer = read(without_objects(reply.text, data))
        if answer is None:
            evict(llm, question, again)
    unread = without_invalid(reply.text[: LIMITS["reply"]])
    return answer or Answer(candidates, unread=unread, cut=reply.cut)


def check_answers(
    items: Sequence[Item], judgements: Sequence[Judgement], llm: ChatModel, *, first: bool = True
) -> None:
    """Warn about items without a valid answer.

    Args:
        first: whether these are the first items of a run.

    Raises:
        UserError: they are, and none of them has a valid answer.
    """
    answers = [judgement.answers for judgement in judgements]
    lost = [all(answer.unread is not None for answer in row) for row in answers]
    if items and all(lost) and first:
        count = sum(map(len, answers))
        if all(answer.cut for row in answers for answer in row):
            raise UserError(
                f"{llm.name}: all {count} replies were cut off, even with twice the tokens. Does "
                "it think first? Turn that off (llama-server --reasoning-budget 0), or use another "
                "model.",
                "llms",
            )
        example = on_one_line(answers[0][0].unread)[:80]
        raise UserError(
            f"{llm.name}: none of the {count} replies could be parsed (the first is “{example}”). "
            "Does its server support response_format with a JSON schema? A small model works "
            "better with one candidate at a time: use the ranker pointwise.",
            "rankers",
            "llms",
            "llm_url",
        )
    for item, is_lost in zip(items, lost, strict=True):
        if is_lost:
            text = "%s: no reply about '%s' could be parsed; its candidates get equal scores."
            log.warning(text, llm.name, item.compound)


def on_one_line(value: object) -> str:
    """Return a text without line breaks and double spaces; empty if it is not a string."""
    return " ".join(without_invalid(value).split()) if isinstance(value, str) else ""


Line = Annotated[str, BeforeValidator(lambda value: on_one_line(value)[: LIMITS["definition"]])]
"""A text in a reply, on one line and cut; anything but a string becomes empty."""


class StructuredReply(BaseModel):
    """A structured reply: :func:`reply_schema` asks for it strictly, :meth:`read` is lenient.

    Fields that a reply may lack have a default here; the schema requires them nonetheless.
    """

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    @classmethod
    def read(cls, reply: str, key: str) -> Self | None:
        """Return the JSON object in a reply that has this key.

        Markdown fences, thoughts before it and words around it are ignored. None if no object fits
        the model, or if several differ.
        """
        objects = list(json_objects(reply))
        starts = [0, *(last for _, last, _ in objects)]
        ends = [*(first for first, _, _ in objects), len(reply)]
        # A </think> within an object is a quotation.
        outside = zip(starts, ends, strict=True)
        thought = max(reply.rfind("</think>", start, end) for start, end in outside)
        values = [value for first, _, value in objects if first >= thought and key in value]
        if not values or any(value != values[0] for value in values):
            return None
        try:
            return cls.model_validate(values[0])
        except ValidationError:
            return None


KEYWORDS = ("type", "properties", "enum", "items", "minimum", "maximum", "minItems", "maxItems")


def reply_schema(reply: type[StructuredReply]) -> dict[str, Any]:
    """Return a reply's JSON schema in OpenAI's strict dialect, without titles and references.

    Each object has exactly its properties. Keywords have a fixed order: the text of the schema is
    part of questions and of their cache keys.
    """
    whole = reply.model_json_schema()

    def strict(node: dict[str, Any]) -> dict[str, Any]:
        if "$ref" in node:
            node = whole["$defs"][node["$ref"].rpartition("/")[2]]
        kept = {keyword: node[keyword] for keyword in KEYWORDS if keyword in node}
        if "items" in kept:
            kept["items"] = strict(kept["items"])
        if "properties" in kept:
            properties = {name: strict(schema) for name, schema in kept["properties"].items()}
            kept["properties"] = properties
            kept |= {"required": list(properties), "additionalProperties": False}
        return kept

    return strict(whole)
