"""How a chat model understands items: each one's sense and, where wanted, its meaning."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal

from admire.choices import SenseMethod
from admire.items import Item
from admire.llm import ChatModel, ask_each
from admire.meaning import gloss
from admire.prompts import Prompts
from admire.senses import Detector, open_detector
from admire.senses.sense import Sense, given
from admire.senses.task2a import Use
from admire.senses.votes import vote

log = logging.getLogger("admire")


Glosses = Literal["all", "idiomatic", "none"]
"""Whose meaning is asked for: of all items, of those taken as idiomatic, or of none."""


@dataclass(frozen=True)
class Interpretation:
    """How one chat model understands one item. ``gloss`` is None where it has none to offer."""

    llm: str
    sense: Sense
    gloss: str | None


def sense_method(wanted: SenseMethod, llm: ChatModel) -> SenseMethod:
    """What ``auto`` is for this chat model; any other method is itself."""
    if wanted != "auto":
        return wanted
    return "detector" if llm.name == "embedded" else "vote"


def interpret(
    items: Sequence[Item],
    llms: Sequence[ChatModel],
    prompts: Prompts,
    *,
    sense: SenseMethod = "auto",
    votes: int = 5,
    seed: int = 0,
    detector: Detector | None = None,
    glosses: Glosses = "idiomatic",
) -> list[list[Interpretation]]:
    """How each chat model understands each item: a list for each model, in the items' order.

    A sense that does not depend on the chat model is decided once for all of them.

    Args:
        sense: how the sense is decided.
        votes: how often a model is asked for a sense, with the method ``vote``.
        detector: what the method ``detector`` asks; None is the built-in one.
        glosses: the items whose meaning is asked for.

    Raises:
        UserError: a model cannot be asked; the message names the item.
    """
    common: dict[SenseMethod, list[Sense]] = {}
    found = []
    for llm in llms:
        method = sense_method(sense, llm)
        if method == "vote":
            senses = _votes(items, llm, prompts, votes, seed)
        else:
            if method not in common:
                common[method] = _without_asking(items, method, detector)
            senses = common[method]
        meanings = _meanings(items, senses, llm, prompts, glosses, seed)
        found.append(
            [Interpretation(llm.name, one, meanings.get(k)) for k, one in enumerate(senses)]
        )
    return found


def true_queries(
    items: Sequence[Item], llm: ChatModel, prompts: Prompts, *, seed: int = 0
) -> list[str]:
    """What the items are compared with if the sense is known: the gloss, or the compound.

    Raises:
        UserError: an item's type is not given, or the model cannot be asked.
    """
    (readings,) = interpret(items, [llm], prompts, sense="given", seed=seed)
    return [reading.gloss or item.compound for item, reading in zip(items, readings, strict=True)]


def _without_asking(
    items: Sequence[Item], method: SenseMethod, detector: Detector | None
) -> list[Sense]:
    if method == "given":
        return [given(item) for item in items]
    return (detector or open_detector()).classify([Use(item) for item in items])


def _meanings(
    items: Sequence[Item],
    senses: Sequence[Sense],
    llm: ChatModel,
    prompts: Prompts,
    glosses: Glosses,
    seed: int,
) -> dict[int, str | None]:
    """The glosses that are wanted, by the item's place; None where the model gave none."""
    wanted = [
        k
        for k, sense in enumerate(senses)
        if glosses == "all" or (glosses == "idiomatic" and sense.label == "idiomatic")
    ]

    def meaning(item: Item) -> str | None:
        return gloss(item, llm, prompts, seed=seed)

    asked = [items[k] for k in wanted]
    answers = ask_each(meaning, asked, llm, "meanings", called=attrgetter("compound"))
    meanings = dict(zip(wanted, answers, strict=True))
    for k, text in meanings.items():
        if text is None:
            log.warning("%s gave no meaning of '%s'.", llm.name, items[k].compound)
    return meanings


def _votes(
    items: Sequence[Item], llm: ChatModel, prompts: Prompts, votes: int, seed: int
) -> list[Sense]:
    def decide(item: Item) -> Sense:
        return vote(item, llm, prompts, votes=votes, seed=seed)

    senses = ask_each(decide, items, llm, "senses", called=attrgetter("compound"))
    for item, sense in zip(items, senses, strict=True):
        if sense.label is None:
            log.warning("%s: no vote on '%s' could be read.", llm.name, item.compound)
    return senses
