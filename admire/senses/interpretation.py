"""How a chat model understands items: each one's sense and, where wanted, its meaning."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Literal

from admire.base.choices import Meanings, Ranker, SenseMethod
from admire.base.errors import UserError
from admire.data.items import Item
from admire.models.llm import ChatModel, ask_each
from admire.prompts import Prompts
from admire.senses import Detector, open_detector
from admire.senses.meaning import DEFINITIONS, TEXTS, UNSAID, Meaning, gloss, meaning
from admire.senses.recorded import Recorded
from admire.senses.sense import Sense, given
from admire.senses.uses import Use
from admire.senses.votes import vote

log = logging.getLogger("admire")


Glosses = Literal["all", "idiomatic", "none"]
"""Whose gloss is asked for: of all items, of those taken as idiomatic, or of none."""


@dataclass(frozen=True)
class Interpretation:
    """How one chat model understands one item: which sense is meant, and what each one means."""

    llm: str
    sense: Sense
    idiomatic: Meaning = UNSAID
    literal: Meaning = UNSAID

    @property
    def gloss(self) -> str | None:
        """The first definition of the idiomatic sense."""
        return next(iter(self.idiomatic.definitions), None)

    @property
    def meant(self) -> str | None:
        """The first definition of the sense that is meant."""
        meaning = self.idiomatic if self.sense.label == "idiomatic" else self.literal
        return next(iter(meaning.definitions), None)

    def texts(self) -> dict[str, str]:
        """What there is to compare candidates with, by role; see :data:`TEXTS`."""
        said: list[str | None] = []
        for one in (self.idiomatic, self.literal):
            said += [*one.definitions, None, None][:DEFINITIONS]
            said.append(one.scene)
        roles = zip(TEXTS, said, strict=False)  # the compound is the last role
        return {role: text for role, text in roles if text}


def sense_method(
    wanted: SenseMethod, llm: ChatModel, rankers: Collection[Ranker] = ()
) -> SenseMethod | Literal["listwise"]:
    """What ``auto`` is for this chat model; any other method is itself.

    Recorded replies have votes of their own.

    Args:
        rankers: of the run; where ``listwise`` is among them, its replies say the sense.
    """
    if wanted != "auto":
        return wanted
    if llm.name == "embedded":
        return "detector"
    return "listwise" if "listwise" in rankers and not isinstance(llm, Recorded) else "vote"


def interpret(
    items: Sequence[Item],
    llms: Sequence[ChatModel],
    prompts: Prompts,
    *,
    sense: SenseMethod = "auto",
    votes: int = 5,
    seed: int = 0,
    detector: Detector | None = None,
    meanings: Meanings = "both",
    glosses: Glosses = "idiomatic",
    known: Mapping[str, Sequence[Sense]] | None = None,
) -> list[list[Interpretation]]:
    """How each chat model understands each item: a list for each model, in the items' order.

    A sense that does not depend on the chat model is decided once for all of them.

    Args:
        sense: how the sense is decided.
        votes: how often a model is asked for a sense, with the method ``vote``.
        detector: what the method ``detector`` asks; None is the built-in one.
        meanings: what is asked for; see :data:`admire.base.choices.Meanings`.
        glosses: the items whose gloss is asked for; ``both`` meanings are asked for of all items,
            unless this is ``none``.
        known: senses that are decided already, by the chat model's name.

    Raises:
        UserError: a model cannot be asked, or nothing tells an item's sense; the message names
            the item.
    """
    for llm in llms:
        if isinstance(llm, Recorded):
            llm.check(items)  # before a detector reads all of them
    common: dict[str, Sequence[Sense]] = {}
    found = []
    for llm in llms:
        method = sense_method(sense, llm)
        senses: Sequence[Sense]
        if known and llm.name in known:
            senses = known[llm.name]
        elif method == "vote":
            senses = _votes(items, llm, prompts, votes, seed)
        else:
            if method not in common:
                common[method] = _without_asking(items, method, detector, prompts)
            senses = common[method]
        if glosses == "none":
            idiomatic, literal = {}, {}
        elif meanings == "both":
            idiomatic = _asked(items, "idiomatic", llm, prompts, seed)
            literal = _asked(items, "literal", llm, prompts, seed)
        else:
            wanted = [
                item
                for item, one in zip(items, senses, strict=True)
                if glosses == "all" or one.label == "idiomatic"
            ]
            idiomatic, literal = _asked(wanted, "gloss", llm, prompts, seed), {}
        found.append(
            [
                Interpretation(
                    llm.name, one, idiomatic.get(item, UNSAID), literal.get(item, UNSAID)
                )
                for item, one in zip(items, senses, strict=True)
            ]
        )
    return found


def true_queries(
    items: Sequence[Item], llm: ChatModel, prompts: Prompts, *, seed: int = 0
) -> list[str]:
    """What the items are compared with if the sense is known: the gloss, or the compound.

    Raises:
        UserError: an item's type is not given, or the model cannot be asked.
    """
    (readings,) = interpret(items, [llm], prompts, sense="given", seed=seed, meanings="gloss")
    return [reading.gloss or item.phrase for item, reading in zip(items, readings, strict=True)]


def _without_asking(
    items: Sequence[Item], method: str, detector: Detector | None, prompts: Prompts
) -> list[Sense]:
    if method == "given":
        return [given(item) for item in items]
    check_contexts(items)
    uses = [
        # Of Subtask B, what the sequence shows is read as if it were the sentence.
        Use(replace(item, sentence=prompts.about(item, "sequence")) if item.sequence else item)
        for item in items
    ]
    return (detector or open_detector()).classify(uses)


def check_contexts(items: Sequence[Item]) -> None:
    """Refuse items that have neither a sentence nor a sequence with captions.

    Raises:
        UserError: there is one.
    """
    for item in items:
        if not item.sentence.strip() and not any(one.caption for one in item.sequence):
            raise UserError(
                f"'{item.compound}': has no sentence and no sequence with captions, so nothing "
                "tells its sense. Let it be given.",
                "sense",
            )


def _asked(
    items: Sequence[Item],
    what: Literal["gloss", "idiomatic", "literal"],
    llm: ChatModel,
    prompts: Prompts,
    seed: int,
) -> dict[Item, Meaning]:
    """What the model says of the items; those whose prompt is the same are asked about once."""
    if isinstance(llm, Recorded):
        return llm.meanings(items, what)

    def ask(item: Item) -> Meaning:
        if what == "gloss":
            return gloss(item, llm, prompts, seed=seed)
        return meaning(item, what, llm, prompts, seed=seed)

    asked = {item: prompts.about(item, what) for item in items}
    first = {prompt: item for item, prompt in reversed(asked.items())}
    called = "literal meanings" if what == "literal" else "meanings"
    answers = ask_each(ask, list(first.values()), llm, called, called=attrgetter("compound"))
    known = dict(zip(first, answers, strict=True))
    for prompt, item in first.items():
        if known[prompt] == UNSAID:
            log.warning("%s gave no %s of '%s'.", llm.name, called.removesuffix("s"), item.compound)
    return {item: known[prompt] for item, prompt in asked.items()}


def _votes(
    items: Sequence[Item], llm: ChatModel, prompts: Prompts, votes: int, seed: int
) -> list[Sense]:
    if isinstance(llm, Recorded):
        senses = llm.senses(items)
    else:
        check_contexts(items)
        senses = vote(items, llm, prompts, votes=votes, seed=seed)
    for item, sense in zip(items, senses, strict=True):
        if sense.label is None:
            log.warning("%s: no vote on '%s' could be read.", llm.name, item.compound)
    return senses
