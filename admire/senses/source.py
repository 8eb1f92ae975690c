"""Where senses and meanings come from: a chat model that is asked, or what was said before."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Literal, Protocol, runtime_checkable

from admire.base.errors import UserError
from admire.data.items import Item
from admire.models.llm import ChatModel, ask_each
from admire.prompts import Prompts
from admire.senses.dictionaries.entries import UNKNOWN, Known
from admire.senses.meaning import (
    HINTS,
    UNSAID,
    WORD_HINTS,
    Meaning,
    gloss,
    meaning,
    template,
)
from admire.senses.sense import Sense
from admire.senses.votes import vote

log = logging.getLogger("admire")

Wanted = Literal["gloss", "idiomatic", "literal"]
"""What is wanted: the paper's gloss, one definition of the idiomatic sense, or all of a sense."""


@runtime_checkable
class Source(Protocol):
    """What says in which sense a compound is used in its sentence, and what it means.

    Attributes:
        name: what the user calls it.
        identity: everything that it says depends on.
        llm: the chat model that answers other questions, too; None where there is none.
    """

    @property
    def name(self) -> str: ...
    @property
    def identity(self) -> str: ...
    @property
    def llm(self) -> ChatModel | None: ...

    def check(self, items: Iterable[Item]) -> None:
        """Refuse items of which it can say nothing, before anything is asked.

        Raises:
            UserError: there are some, which the message names.
        """
        ...

    def senses(
        self, items: Iterable[Item], prompts: Prompts, *, votes: int, seed: int
    ) -> list[Sense]:
        """The sense of each item.

        Raises:
            UserError: one cannot be decided.
        """
        ...

    def meanings(
        self,
        items: Sequence[Item],
        what: Wanted,
        prompts: Prompts,
        *,
        seed: int,
        known: Mapping[Item, Known],
    ) -> dict[Item, Meaning]:
        """What each item's compound means in a sense.

        Args:
            known: what dictionaries say.

        Raises:
            UserError: a chat model cannot be asked.
        """
        ...

    def order(self, item: Item) -> tuple[str, ...] | None:
        """The order of an item's candidates that was recorded; None without one."""
        ...


@dataclass(frozen=True)
class Asked:
    """A chat model as a source: it votes on senses and writes meanings."""

    llm: ChatModel

    @property
    def name(self) -> str:
        return self.llm.name

    @property
    def identity(self) -> str:
        return self.llm.identity

    def check(self, items: Iterable[Item]) -> None:
        """A chat model can be asked about any item."""

    def senses(
        self, items: Iterable[Item], prompts: Prompts, *, votes: int, seed: int
    ) -> list[Sense]:
        items = list(items)
        check_contexts(items)
        return vote(items, self.llm, prompts, votes=votes, seed=seed)

    def meanings(
        self,
        items: Sequence[Item],
        what: Wanted,
        prompts: Prompts,
        *,
        seed: int,
        known: Mapping[Item, Known] | None = None,
    ) -> dict[Item, Meaning]:
        """Items with the same prompt are asked about once."""
        known = known or {}

        def ask(item: Item) -> Meaning:
            if what == "gloss":
                return gloss(item, self.llm, prompts, seed=seed)
            hint = hints(item, known.get(item, UNKNOWN), what)
            return meaning(item, what, self.llm, prompts, seed=seed, hint=hint)

        prompt_of = {
            item: prompts.about(
                item,
                what if what == "gloss" else template(item, what),
                hint=hints(item, known.get(item, UNKNOWN), what),
            )
            for item in items
        }
        # Sorted, because a server need not read again what a prompt shares with the one before.
        first = {prompt: item for item, prompt in sorted(prompt_of.items(), key=itemgetter(1))}
        noun = "literal meaning" if what == "literal" else "meaning"
        answers = ask_each(
            ask,
            list(first.values()),
            self.llm,
            f"Writing the {noun}",
            called=attrgetter("compound"),
        )
        said = dict(zip(first, answers, strict=True))
        for prompt, item in first.items():
            if said[prompt] == UNSAID:
                log.warning("%s gave no %s of '%s'.", self.name, noun, item.compound)
        return {item: said[prompt] for item, prompt in prompt_of.items()}

    def order(self, item: Item) -> None:
        """None: its rankers ask it."""


def hints(item: Item, known: Known, what: Wanted) -> tuple[str, ...]:
    """What a prompt shows of what dictionaries say; the paper's gloss is asked for without."""
    if what == "gloss":
        return ()
    count = WORD_HINTS if item.word else HINTS
    return tuple(entry.gloss for entry in known.of(what)[:count])


def as_source(llm: ChatModel | Source) -> Source:
    """A chat model as a source; any other source as it is."""
    return llm if isinstance(llm, Source) else Asked(llm)


def check_contexts(items: Iterable[Item]) -> None:
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
