"""How a chat model understands items: each one's sense and, where wanted, its meaning."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Literal

from admire.items import Item
from admire.llm import ChatModel, ask_each
from admire.meaning import gloss
from admire.prompts import Prompts
from admire.senses import BUILT_IN, open_detector
from admire.senses.sense import Sense, given
from admire.senses.task2a import Use
from admire.senses.votes import vote

log = logging.getLogger("admire")

SenseMethod = Literal["auto", "vote", "detector", "given"]
"""How the sense is decided: ``vote`` asks the chat model, ``detector`` reads it off the embedded
model's hidden state, ``given`` takes the data's own. ``auto`` is the detector for the embedded
chat model, which calls nearly every use idiomatic when it is asked, and votes for every other."""


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
    llm: ChatModel,
    prompts: Prompts,
    *,
    sense: SenseMethod = "auto",
    votes: int = 5,
    seed: int = 0,
    detector: Path = BUILT_IN,
    glosses: Literal["all", "idiomatic", "none"] = "idiomatic",
) -> list[Interpretation]:
    """One chat model's interpretation of each item, in the items' order.

    ``glosses`` says for which items the meaning is asked: all, those taken as idiomatic, or none.
    ``detector`` is the file or folder that the method of that name reads.

    Raises:
        UserError: the model cannot be asked; the message names the item.
    """
    method = sense_method(sense, llm)
    if method == "detector":
        senses = open_detector(detector).classify([Use(item) for item in items])
    elif method == "given":
        senses = [given(item) for item in items]
    else:
        senses = _votes(items, llm, prompts, votes, seed)
    wanted = [
        k
        for k, found in enumerate(senses)
        if glosses == "all" or (glosses == "idiomatic" and found.label == "idiomatic")
    ]

    def meaning(item: Item) -> str | None:
        return gloss(item, llm, prompts, seed=seed)

    unknown = [items[k] for k in wanted]
    answers = ask_each(meaning, unknown, llm, "meanings", called=attrgetter("compound"))
    meanings = dict(zip(wanted, answers, strict=True))
    for k, text in meanings.items():
        if text is None:
            log.warning("%s gave no meaning of '%s'.", llm.name, items[k].compound)
    return [Interpretation(llm.name, found, meanings.get(k)) for k, found in enumerate(senses)]


def true_queries(
    items: Sequence[Item], llm: ChatModel, prompts: Prompts, *, seed: int = 0
) -> list[str]:
    """What the items are compared with if the sense is known: the gloss, or the compound.

    Raises:
        UserError: an item's type is not given, or the model cannot be asked.
    """
    readings = interpret(items, llm, prompts, sense="given", seed=seed)
    return [reading.gloss or item.compound for item, reading in zip(items, readings, strict=True)]


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
