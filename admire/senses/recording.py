"""What is known of items without asking: the base class of recordings, runs and dictionaries."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import ClassVar, NamedTuple, Protocol

from admire.core.errors import UserError
from admire.core.registry import Identified
from admire.data.items import Item, SenseLabel
from admire.senses.meaning import NO_MEANING, Meaning
from admire.senses.sense import Sense, likelier


class Known(NamedTuple):
    """What a recording knows of an item: the sense, its name, or None; and meanings of the senses,
    or definitions as texts."""

    sense: Sense | SenseLabel | None = None
    meanings: Mapping[SenseLabel, Meaning | str] = MappingProxyType({})

    @property
    def decided(self) -> Sense | None:
        """The intended sense; None if unknown."""
        if isinstance(self.sense, str):
            return likelier({"idiomatic": 1.0, "literal": 0.0}[self.sense], "recorded")
        return self.sense

    def meaning(self, label: SenseLabel, *, one: bool = False) -> Meaning:
        """Return the meaning of a sense, or one definition of it; empty if unknown."""
        meaning = self.meanings.get(label, NO_MEANING)
        meaning = Meaning((meaning,)) if isinstance(meaning, str) else meaning
        return replace(meaning, definitions=meaning.definitions[:1], scene=None) if one else meaning


class Recording(Identified, Protocol):
    """A source that replaces a chat model and is not asked, such as replies of people.

    A derived class only needs :meth:`known`; ``judges_senses`` says whether it knows senses.
    """

    judges_senses: bool = True
    describes_both_senses: bool = True
    free: bool = True
    plugs_in_as: ClassVar[Sequence[str]] = ("admire.senses.Recording", "known")

    def known(self, item: Item) -> Known:
        """Return what is known of an item."""
        raise NotImplementedError

    def order(self, item: Item) -> Sequence[str]:
        """Return the names of an item's candidates, best first; none if no order is known."""
        return ()

    def check(self, items: Sequence[Item], purposes: Collection[str]) -> None:
        """Refuse items without what is needed besides meanings: "senses", "ranking"."""
        uses = [item for item in items if item.has_sense] if "senses" in purposes else []
        if unknown := [item for item in uses if not self.known(item).sense]:
            raise UserError(
                f"{self.name} has no sense for {describe_uses(unknown)}. Use detector or given.",
                *("llms", "sense"),
            )
        if "ranking" in purposes and (rest := [item for item in items if not self.order(item)]):
            others = f" and {len(rest) - 1} more" if len(rest) > 1 else ""
            raise UserError(
                f"{self.name} has no order for '{rest[0].compound}'{others}. Rank by embeddings.",
                *("llms", "rankers"),
            )


def describe_uses(items: Sequence[Item]) -> str:
    """Return the items by compound and sentence, the first three of many."""
    shorten = partial(textwrap.shorten, width=60, placeholder="…")
    return first_three([f"'{item.compound}' in “{shorten(item.sentence)}”" for item in items])


def name_compounds(items: Iterable[Item]) -> str:
    """Return the first compounds of these items, and the number of further ones."""
    return first_three([f"'{name}'" for name in dict.fromkeys(item.compound for item in items)])


def first_three(names: Sequence[str]) -> str:
    """Return the first three names, and the number of further ones."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
