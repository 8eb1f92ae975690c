"""Listwise: a chat model sees all candidates at once, in several orders, and puts them in order.

The K orders that it gives are aggregated: permutation self-consistency (Tang et al. 2023,
arXiv 2310.07712). A preference for a place or a letter cancels out, because every candidate stands
in every place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema, create_model

from admire.base.errors import UserError
from admire.data.items import Candidate, Item, SenseLabel
from admire.models.llm import ChatModel, Question
from admire.prompts import Prompts
from admire.rankers.aggregate import aggregate, agreement, places
from admire.rankers.judgement import (
    Answer,
    Judgement,
    Line,
    StructuredReply,
    ask_by_item,
    ask_twice,
    reply_schema,
)
from admire.rankers.presentation import LETTERS, show, shuffled, tracks_shown
from admire.rankers.set_summary import summarise_set
from admire.rankers.settings import Settings
from admire.senses.interpretation import Interpretation
from admire.senses.votes import count_votes

SENSES: tuple[SenseLabel, ...] = ("idiomatic", "literal")
ROLES = ("meant", "related", "other", "other_related", "unrelated")
"""What a candidate can be: it shows the meant sense, something related to it, the other sense,
something related to that, or nothing of these."""


def judge_listwise(
    items: Sequence[Item],
    llm: ChatModel,
    prompts: Prompts,
    settings: Settings,
    readings: Sequence[Interpretation] | None = None,
) -> list[Judgement]:
    """Ask a chat model to order each item's candidates, ``settings.shuffles`` times.

    One reply writes down, in this order: an example of literal and of idiomatic use, the sense, the
    meaning; for each candidate what matters in it, what that expresses and its role; and the order.
    The temperature is 0, so that replies differ by the order shown and not by sampling. If a reply
    cannot be read, or its order is no permutation, the question is asked once more, at a
    temperature above 0.

    Args:
        readings: which sense is meant in each item; None lets the majority of the replies decide.

    Raises:
        UserError: the model cannot be asked, cannot see what it must, or an item has more
            candidates than there are letters.
    """
    tracks = tracks_shown(summarise_set(items), llm, settings.track)
    for item in items:
        check_letters(item)

    def ask(turn: tuple[int, int, tuple[Candidate, ...]]) -> Answer:
        place, number, candidates = turn
        item, sense = items[place], readings[place].sense.label if readings else None
        names = dict(zip(LETTERS, [candidate.name for candidate in candidates], strict=False))
        parts = show(
            prompts, "listwise", item, candidates, tracks, settings.image_side, sense=sense
        )
        question = Question(
            parts,
            temperature=0.0,
            max_tokens=300 + 100 * len(candidates),
            seed=settings.seed + number,
            schema=schema(names, sense),
            purpose="ranking",
        )
        read = partial(read_order, names=names, sense=sense)
        return ask_twice(
            llm, question, read, tuple(names.values()), item, next_seed=settings.shuffles
        )

    turns = [
        (place, number, candidates)
        for place, item in enumerate(items)
        for number, candidates in enumerate(shuffled(item, settings.shuffles, settings.seed))
    ]
    by_item = ask_by_item(ask, turns, items, llm, "Ordering candidates")
    return [
        _judged(item, llm, answers, readings[k] if readings else None)
        for k, (item, answers) in enumerate(zip(items, by_item, strict=True))
    ]


def check_letters(item: Item) -> None:
    """Raise a UserError for an item with more candidates than there are letters."""
    if len(item.candidates) > len(LETTERS):
        raise UserError(
            f"'{item.compound}' has over {len(LETTERS)} candidates. Rank them pointwise.", "rankers"
        )


def _judged(
    item: Item, llm: ChatModel, answers: tuple[Answer, ...], reading: Interpretation | None
) -> Judgement:
    names = [candidate.name for candidate in item.candidates]
    orders = [answer.order for answer in answers if answer.unread is None]
    stood = places(orders, names)
    scores = tuple(aggregate(stood).tolist()) if orders else (0.0,) * len(names)
    sense = reading.sense if reading else None
    if not (sense and sense.label):
        sense = count_votes([answer.sense for answer in answers])
    return Judgement("listwise", llm.name, scores, answers, agreement(stood), sense)


def _object(value: object) -> object:
    return value if isinstance(value, dict) else {}


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
def order_reply(letters: tuple[str, ...], states_sense: bool) -> type[StructuredReply]:
    """Return the model of a reply about candidates with these letters."""
    reason: Any = (Annotated[Reason, BeforeValidator(_object)], Reason())
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
        **({} if states_sense else senses),
        meaning=(Line, ""),
        candidates=(Annotated[reasons, BeforeValidator(_object)], reasons()),
        order=order,
    )


def schema(letters: Iterable[str], sense: SenseLabel | None = None) -> dict[str, Any]:
    """Return the JSON schema of a reply about candidates with these letters.

    Args:
        sense: the one that is meant, if the reply is not to say it.
    """
    return reply_schema(order_reply(tuple(letters), sense is not None))


def read_order(
    reply: str, names: Mapping[str, str], sense: SenseLabel | None = None
) -> Answer | None:
    """Read a reply about candidates with these names by letter; None if it has no full order.

    Args:
        sense: the one that is meant, if the question says so.
    """
    reply_read: Any = order_reply(tuple(names), sense is not None).read(reply, "order")
    if reply_read is None or sorted(reply_read.order) != sorted(names):
        return None
    label = "" if sense else reply_read.sense.lower()
    reasons = {
        names[letter]: {field: text for field, text in reason if text}
        for letter, reason in reply_read.candidates
    }
    return Answer(
        tuple(names.values()),
        tuple(names[letter] for letter in reply_read.order),
        sense or next((choice for choice in SENSES if choice == label), None),
        reply_read.meaning or None,
        {name: fields for name, fields in reasons.items() if fields},
    )
