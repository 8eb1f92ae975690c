"""Recorded replies in place of a chat model's: of a file, or of a run that is there already."""

from __future__ import annotations

import hashlib
import logging
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast, get_args

from admire.base.errors import UserError
from admire.base.files import json_rows, read_table
from admire.data.items import Item, SenseLabel, parse_order
from admire.prompts import Prompts
from admire.senses.meaning import DEFINITIONS, UNSAID, Meaning, clean_gloss
from admire.senses.sense import Sense, majority
from admire.senses.source import Wanted

log = logging.getLogger("admire")

TEXT_COLUMNS = ("compound", "sentence", "sense", "meaning", "scene")
VOTE_COLUMNS = ("votes_idiomatic", "votes_literal")
ITEM_COLUMNS = (*VOTE_COLUMNS, "order")
"""What a row can say of an item alone, not of a compound in any sentence."""

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
        self, items: Sequence[Item], what: Wanted, prompts: Prompts | None = None, *, seed: int = 0
    ) -> dict[Item, Meaning]:
        """What each item's compound means in a sense; a gloss is the first idiomatic definition.

        What is said of the item itself goes before what is said of its compound in any sentence.

        """
        label: SenseLabel = "literal" if what == "literal" else "idiomatic"
        found = {item: self._meaning(item, label) for item in items}
        if what == "gloss":
            found = {item: Meaning(one.definitions[:1]) for item, one in found.items()}
        missing = [item for item, one in found.items() if not one]
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

    The columns are :data:`TEXT_COLUMNS` and :data:`ITEM_COLUMNS`, of which any but ``compound`` may
    be empty or absent. A row with a sentence speaks of that item: ``sense``, or votes for each
    sense; ``order``, the candidates' names from best to worst, as a list or written as one;
    ``meaning`` and ``scene`` of the row's sense there. A row without a sentence gives a meaning, a
    scene or both of the compound in that sense. Several rows may: two definitions are kept and the
    first scene. Meanings are cleaned as a chat model's are.

    Raises:
        UserError: the file, row and column that cannot be used or contradict an earlier row.
    """
    if path.suffix not in (".csv", ".tsv", ".jsonl"):
        raise UserError(f"{path}: expected a .csv, .tsv or .jsonl file of replies.", "llms")
    found: dict[Key, _Entry] = {}
    for number, row in _rows(path):
        compound = row["compound"]
        where = f"{path}, row {number} ('{compound}')"
        entry = found.setdefault(key_of(compound, row["sentence"]), _Entry())
        label = _label(row["sense"], where)
        votes = {column: _votes(row[column], column, where) for column in VOTE_COLUMNS}
        order = parse_order(row["order"], (), where, column="order") if row["order"] else None
        if row["sentence"]:
            entry.tell("sense", label, number, where)
            for column, count in votes.items():
                entry.tell(column, count, number, where)
            if order:
                entry.tell("order", order, number, where, of=frozenset(order))
            entry.sense(where)
        else:
            for column in ITEM_COLUMNS:
                if row[column] != "":
                    raise UserError(
                        f"{where}, {column}: speaks of an item, but the row has no sentence."
                    )
        if row["meaning"] or row["scene"]:
            label = label or majority(*(votes[column] or 0 for column in VOTE_COLUMNS))
            if not label:
                raise UserError(f"{where}, sense: is empty. Say which sense the meaning is of.")
            entry.explain(label, clean_gloss(row["meaning"], compound), row["scene"])
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    said = {key: entry.said(path) for key, entry in found.items()}
    return Recorded(f"recorded:{path}", f"recorded:{digest}", said)


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows with every column: stripped texts, or what a JSONL file has of an item's."""
    for number, row in _read(path):
        cells: dict[str, Any] = {}
        for column in (*TEXT_COLUMNS, *ITEM_COLUMNS):
            cell = row.get(column)
            if not isinstance(cell, str | None) and column in TEXT_COLUMNS:
                raise UserError(f"{path}, row {number}, {column}: is not a text.")
            cells[column] = (cell or "").strip() if isinstance(cell, str | None) else cell
        if not cells["compound"]:
            raise UserError(f"{path}, row {number}, compound: is empty.")
        yield number, cells


def _read(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    if path.suffix == ".jsonl":
        yield from json_rows(path)
        return
    for number, row in enumerate(read_table(path, ("compound",)).to_dict("records"), start=1):
        yield number, {str(column): cell for column, cell in row.items()}


def _label(cell: str, where: str) -> SenseLabel | None:
    label = cell.lower() or None
    if label not in (None, *get_args(SenseLabel)):
        raise UserError(f"{where}, sense: is '{cell}', not idiomatic or literal.")
    return cast(SenseLabel | None, label)


def _votes(cell: object, column: str, where: str) -> int | None:
    if cell == "":
        return None
    try:
        count = float(cast(str, cell))  # pandas writes 5.0 where a column has empty cells too
    except (TypeError, ValueError, OverflowError):
        count = -1
    if isinstance(cell, bool) or count < 0 or not count.is_integer():
        raise UserError(f"{where}, {column}: is '{cell}', not a number of votes.")
    return int(count)


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
