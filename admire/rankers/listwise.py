"""Listwise: a chat model ranks all candidates at once, shown in several orders, which are
aggregated: permutation self-consistency (Tang et al. 2023, arXiv 2310.07712).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator, Field, WithJsonSchema, create_model

from admire.core.errors import UserError
from admire.core.registry import register
from admire.data.items import Item, SenseLabel
from admire.llm.chat import Capabilities, Question
from admire.llm.conversation import Conversation
from admire.rankers.aggregate import aggregate, agreement, places
from admire.rankers.judgement import Answer, Judgement
from admire.rankers.presentation import (
    LETTERS,
    Line,
    StructuredReply,
    ask_for_answers,
    show,
    shuffled,
)
from admire.rankers.ranker import Ranker
from admire.rankers.settings import SetSummary
from admire.senses.interpretation import Interpretation
from admire.senses.votes import count_votes

SENSES: tuple[SenseLabel, ...] = ("idiomatic", "literal")
ROLES = ("meant", "related", "other", "other_related", "unrelated")
"""What a candidate can be: it shows the meant sense, something related to it, the other sense,
something related to that, or nothing of these."""


@register("ranker", "listwise", needs=("key",), citation="Tang et al. 2023, arXiv 2310.07712")
class Listwise(Ranker):
    """All candidates at once, in several orders, which are aggregated.

    Every candidate occurs in every position, so a preference for a position or a letter cancels
    out. The temperature is 0, so that replies differ by the order shown and not by sampling.
    Without an interpretation, the majority of the replies decides the sense.
    """

    task = "Ordering candidates"
    decides_senses = True
    uses_meanings = False

    def check(self, summary: SetSummary, llm: Capabilities) -> None:
        if summary.largest and len(summary.largest.candidates) > len(LETTERS):
            raise UserError(
                f"'{summary.largest.compound}' has over {len(LETTERS)} candidates. Use the ranker "
                "pointwise.",
                "rankers",
            )

    def scores(self, item: Item, reading: Interpretation | None) -> Conversation[Judgement]:
        sense = reading.sense if reading and reading.sense.label else None
        label, settings, questions = sense.label if sense else None, self.settings, []
        letters = tuple(LETTERS[: len(item.candidates)])
        schema = order_reply(letters, sense_given=label is not None).strict_schema()
        for number, candidates in enumerate(shuffled(item, settings.shuffles, settings.seed)):
            names = tuple(candidate.name for candidate in candidates)
            parts = show(
                *(self.prompts, "listwise", item, candidates, self.tracks, settings.image_side),
                sense=label,
            )
            question = Question(
                parts,
                max_tokens=300 + 100 * len(candidates),
                seed=settings.seed + number,
                schema=schema,
                shown=names,
            )
            questions.append(question)

        def read(question: Question, reply: str) -> Answer | None:
            names = dict(zip(LETTERS, question.shown, strict=False))
            return read_order(reply, names, states_sense=label is None)

        answers = yield from ask_for_answers(questions, read, item, next_seed=settings.shuffles)
        orders = [answer.order for answer in answers if answer.unread is None]
        placed = places(orders, item.names)
        points = aggregate(placed) if orders else np.zeros(len(item.names))
        if sense:  # the question names it, so the reply does not
            answers = tuple(
                answer if answer.unread is not None else replace(answer, sense=sense.label)
                for answer in answers
            )
        else:
            sense = count_votes([answer.sense for answer in answers])
        agreed = agreement(placed)
        return Judgement(self.name, "", tuple(points.tolist()), answers, agreed, sense)


def _letters(value: object) -> list[str]:
    """Return the letters in an order: a list, or a text such as "B > C > A"."""
    text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    return [letter.upper() for letter in re.findall(r"\b[A-Za-z]\b", text)]


def _one_of(words: Sequence[str]) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "enum": list(words)})


class Reason(StructuredReply):
    """What a reply says about one candidate."""

    elements: Line = ""
    expresses: Line = ""
    role: Annotated[Line, _one_of(ROLES)] = ""


@cache
def order_reply(letters: tuple[str, ...], sense_given: bool) -> type[StructuredReply]:
    """Return the model of a reply about candidates with these letters."""
    lenient = BeforeValidator(lambda value: value if isinstance(value, dict) else {})
    reason: Any = (Annotated[Reason, lenient], Reason())
    reasons: Any = create_model(
        "Reasons", __base__=StructuredReply, **dict.fromkeys(letters, reason)
    )
    senses: dict[str, Any] = {
        "literal_use": (Line, ""),
        "idiomatic_use": (Line, ""),
        "sense": (Annotated[Line, _one_of(SENSES)], ""),
    }
    order = Annotated[
        list[Annotated[str, _one_of(letters)]],
        Field(min_length=len(letters), max_length=len(letters)),
        BeforeValidator(_letters),
    ]
    return create_model(
        "Order",
        __base__=StructuredReply,
        **({} if sense_given else senses),
        meaning=(Line, ""),
        candidates=(Annotated[reasons, lenient], reasons()),
        order=order,
    )


def read_order(reply: str, names: Mapping[str, str], states_sense: bool = True) -> Answer | None:
    """Parse a reply about candidates with these names by letter; None without a complete order."""
    reply_read: Any = order_reply(tuple(names), not states_sense).read(reply, "order")
    if reply_read is None or sorted(reply_read.order) != sorted(names):
        return None
    label = reply_read.sense.lower() if states_sense else ""
    reasons = {
        names[letter]: {field: text for field, text in reason if text}
        for letter, reason in reply_read.candidates
    }
    return Answer(
        tuple(names.values()),
        tuple(names[letter] for letter in reply_read.order),
        next((choice for choice in SENSES if choice == label), None),
        reply_read.meaning or None,
        {name: fields for name, fields in reasons.items() if fields},
    )
