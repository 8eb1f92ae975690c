"""Recorded replies in place of a chat model's: of a file, or of a run that is there already."""

from __future__ import annotations

import hashlib
import logging
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from admire.base.errors import UserError
from admire.base.files import json_rows, read_table
from admire.base.schema import read_as
from admire.data.items import Item, SenseLabel
from admire.data.rows import parse_order
from admire.prompts import Prompts
from admire.senses.meaning import DEFINITIONS, UNSAID, Meaning, clean_gloss
from admire.senses.sense import Sense, majority
from admire.senses.source import Wanted

log = logging.getLogger("admire")

VOTE_COLUMNS = ("votes_idiomatic", "votes_literal")
ITEM_COLUMNS = (*VOTE_COLUMNS, "order")
"""What a row can say of an item alone, not of a compound in any sentence."""


def _lower(cell: object) -> str:
    return str(cell).strip().lower()


class _Row(BaseModel):
    """A row of a file of replies, without its empty cells."""

    model_config = ConfigDict(str_strip_whitespace=True)

    compound: str
    sentence: str = ""
    sense: Annotated[SenseLabel | None, BeforeValidator(_lower)] = None
    meaning: str = ""
    scene: str = ""
    votes_idiomatic: Annotated[int, Field(ge=0)] | None = None
    votes_literal: Annotated[int, Field(ge=0)] | None = None
    order: Any = None


NAMED, SHOWN = 3, 60
"""How many items a message names, and how many characters of their sentences it shows."""

Key = tuple[str, str]
"""A compound and its sentence, which is "" for what is said of the compound alone."""


@dataclass
class Said:
    """What is recorded of an item, or of a compound in any sentence.

    Attributes:
        orders: the candidates from best to worst and where that is written, by the candidates'
            names: items may differ in their candidates alone.
    """

    sense: Sense | None = None
    meanings: dict[SenseLabel, Meaning] = field(default_factory=dict)
    orders: dict[frozenset[str], tuple[tuple[str, ...], str]] = field(default_factory=dict)


@dataclass
class Recorded:
    """What a chat model, a person or a run said of items before.

    It is a :class:`admire.senses.source.Source` that looks items up by compound and sentence.
    """

    llm = None

    name: str
    identity: str
    said: dict[Key, Said]

    def senses(
        self,
        items: Iterable[Item],
        prompts: Prompts | None = None,
        *,
        votes: int = 0,
        seed: int = 0,
    ) -> list[Sense]:
        """The recorded sense of each item.

        Raises:
            UserError: there is none for some items, which the message names.
        """
        found, missing = [], []
        for item in items:
            sense = self._of(item).sense
            if sense:
                found.append(sense)
            else:
                missing.append(item)
        if missing:
            raise UserError(
                f"{self.name} lacks the sense of {_named(missing)}. Take the sense from the data "
                "(given) or let the detector decide it (detector).",
                "llms",
                "sense",
            )
        return found

    def meanings(
        self,
        items: Sequence[Item],
        what: Wanted,
        prompts: Prompts | None = None,
        *,
        seed: int = 0,
        known: object = None,
    ) -> dict[Item, Meaning]:
        """What each item's compound means in a sense; a gloss is the first idiomatic definition.

        What is said of the item itself goes before what is said of its compound in any sentence. A
        warning names what lacks a meaning, unless the other sense is recorded as the one that is
        meant.
        """
        label: SenseLabel = "literal" if what == "literal" else "idiomatic"
        found = {item: self._meaning(item, label) for item in items}
        if what == "gloss":
            found = {item: Meaning(one.definitions[:1]) for item, one in found.items()}
        missing = [
            item
            for item, one in found.items()
            if not one and ((sense := self._of(item).sense) is None or sense.label == label)
        ]
        if missing:
            log.warning("%s lacks the %s meaning of %s.", self.name, label, _named(missing))
        return found

    def order(self, item: Item) -> tuple[str, ...] | None:
        """The recorded order of an item's candidates, from best to worst; None without one.

        Raises:
            UserError: the order is one of other candidates.
        """
        names = [candidate.name for candidate in item.candidates]
        orders = self._of(item).orders
        if orders and frozenset(names) not in orders:
            order, where = next(iter(orders.values()))
            parse_order(list(order), names, where, column="order")
        return orders[frozenset(names)][0] if orders else None

    def check(self, items: Iterable[Item]) -> None:
        """Refuse items of which nothing at all is recorded.

        Raises:
            UserError: there are some, which the message names.
        """
        unknown = [item for item in items if not any(key in self.said for key in _keys(item))]
        if unknown:
            raise UserError(f"{self.name} says nothing of {_named(unknown)}.", "llms")

    def _of(self, item: Item) -> Said:
        return self.said.get(_keys(item)[0], Said())

    def _meaning(self, item: Item, label: SenseLabel) -> Meaning:
        there = (self.said[key].meanings.get(label) for key in _keys(item) if key in self.said)
        return next(filter(None, there), UNSAID)


def _keys(item: Item) -> tuple[Key, Key]:
    """Where the item is looked up, and then its compound."""
    return key_of(item.compound, item.sentence), key_of(item.compound)


def key_of(compound: str, sentence: str = "") -> Key:
    """Where replies about a compound in a sentence are kept."""
    return compound.casefold().strip(), " ".join(sentence.split())


def _named(items: Iterable[Item]) -> str:
    """The items by compound and sentence, the first few of many."""
    shown = [
        f"'{item.compound}' in “{textwrap.shorten(item.sentence, SHOWN, placeholder='…')}”"
        for item in items
    ]
    more = f" and {len(shown) - NAMED} more" if len(shown) > NAMED else ""
    return ", ".join(shown[:NAMED]) + more


def open_replies(path: Path) -> Recorded:
    """Read recorded replies from a CSV, a TSV or a JSONL file.

    The columns are ``compound``, ``sentence``, ``sense``, ``meaning``, ``scene``, and
    :data:`ITEM_COLUMNS`; any but ``compound`` may be empty or absent. A row with a sentence speaks
    of that item: ``sense``, or votes for each sense; ``order``, the candidates' names from best to
    worst, as a list or written as one; ``meaning`` and ``scene`` of the row's sense there. A row
    without a sentence gives a meaning, a scene or both of the compound in that sense. Several rows
    may: two definitions are kept and the first scene. Meanings are cleaned as a chat model's are.

    Raises:
        UserError: the file, row and column that cannot be used or contradict an earlier row.
    """
    if path.suffix not in (".csv", ".tsv", ".jsonl"):
        raise UserError(f"{path}: expected a .csv, .tsv or .jsonl file of replies.", "llms")
    found: dict[Key, _Entry] = {}
    for number, cells in _rows(path):
        filled = {
            name: cell for name, cell in cells.items() if cell is not None and f"{cell}".strip()
        }
        row = read_as(_Row, filled, f"{path}, row {number}")
        where = f"{path}, row {number} ('{row.compound}')"
        entry = found.setdefault(key_of(row.compound, row.sentence), _Entry())
        votes = row.votes_idiomatic, row.votes_literal
        order = parse_order(row.order, (), where, column="order") if row.order else None
        if row.sentence:
            entry.tell("sense", row.sense, number, where)
            for column, count in zip(VOTE_COLUMNS, votes, strict=True):
                entry.tell(column, count, number, where)
            if order:
                entry.tell("order", order, number, where, of=frozenset(order))
            entry.sense(where)
        else:
            for column in ITEM_COLUMNS:
                if column in row.model_fields_set:
                    raise UserError(
                        f"{where}, {column}: speaks of an item, but the row has no sentence."
                    )
        if row.meaning or row.scene:
            label = row.sense or majority(*(count or 0 for count in votes))
            if not label:
                raise UserError(f"{where}, sense: is empty. Say which sense the meaning is of.")
            entry.explain(label, clean_gloss(row.meaning, row.compound), row.scene)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    said = {key: entry.said(path) for key, entry in found.items()}
    return Recorded(f"recorded:{path}", f"recorded:{digest}", said)


def _rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    if path.suffix == ".jsonl":
        return json_rows(path)
    rows = read_table(path, ("compound",)).to_dict("records")
    return enumerate(cast(list[dict[str, Any]], rows), start=1)


class _Entry:
    """What the rows of a file say of one item or compound, and where."""

    def __init__(self) -> None:
        self.told: dict[object, tuple[Any, int]] = {}
        self.definitions: dict[SenseLabel, list[str]] = {"idiomatic": [], "literal": []}
        self.scenes: dict[SenseLabel, str] = {}

    def tell(
        self, column: str, value: object, row: int, where: str, of: frozenset[str] | None = None
    ) -> None:
        """Keep what a row says, unless it is nothing; an order is one of these candidates."""
        if value is None:
            return
        before, first = self.told.setdefault(of or column, (value, row))
        if before != value:
            raise UserError(
                f"{where}, {column}: is {_shown(value)}, but row {first} says {_shown(before)} of "
                "the same sentence."
            )

    def explain(self, label: SenseLabel, definition: str | None, scene: str) -> None:
        if definition and definition not in self.definitions[label]:
            self.definitions[label].append(definition)
        if scene:
            self.scenes.setdefault(label, scene)

    def sense(self, where: str) -> Sense | None:
        """The sense and its votes, as far as the rows have told them.

        Raises:
            UserError: the votes are for the other sense.
        """
        label: SenseLabel | None = self.told.get("sense", (None,))[0]
        idiomatic, literal = (self.told.get(column, (0,))[0] for column in VOTE_COLUMNS)
        if not idiomatic + literal:
            vote = int(label == "idiomatic")  # as of a sense that the data gives
            return Sense(label, float(vote), vote, 1 - vote) if label else None
        voted = majority(idiomatic, literal)
        if label and label != voted and idiomatic != literal:
            raise UserError(
                f"{where}, sense: is {label}, but the votes are {idiomatic} idiomatic and "
                f"{literal} literal."
            )
        return Sense(label or voted, idiomatic / (idiomatic + literal), idiomatic, literal)

    def said(self, path: Path) -> Said:
        meanings = {
            label: Meaning(tuple(definitions[:DEFINITIONS]), self.scenes.get(label))
            for label, definitions in self.definitions.items()
        }
        orders = {
            of: (value, f"{path}, row {row}")
            for of, (value, row) in self.told.items()
            if isinstance(of, frozenset)
        }
        return Said(self.sense(str(path)), meanings, orders)


def _shown(value: object) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str(value)
