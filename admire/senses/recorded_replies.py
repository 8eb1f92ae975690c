"""Recorded replies of a chat model, a person or a run: in memory, and read from a file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

from admire.core.errors import UserError
from admire.core.files import TABLES, check_spelling, json_rows, numbered_rows, read_table
from admire.core.registry import register
from admire.core.schema import read_as
from admire.core.storage import file_sha256, suffix_of
from admire.data.items import Item, SenseLabel
from admire.data.limits import limited
from admire.data.schema import Definition, SenseCell, parse_order
from admire.senses.meaning import DEFINITIONS, NO_MEANING, Meaning, clean_gloss
from admire.senses.recording import Known, Recording, describe_uses
from admire.senses.sense import Sense, likelier, majority

VOTE_COLUMNS = ("votes_idiomatic", "votes_literal")
ITEM_COLUMNS = (*VOTE_COLUMNS, "order")
"""Columns about an item only, not about a compound in any sentence."""


class _Row(BaseModel, str_strip_whitespace=True):
    compound: Annotated[str, *limited("compound")]
    sentence: Annotated[str, *limited("sentence")] = ""
    sense: SenseCell = None
    meaning: Definition = ""
    scene: Annotated[str, *limited("scene")] = ""
    votes_idiomatic: Annotated[int, Field(ge=0)] | None = None
    votes_literal: Annotated[int, Field(ge=0)] | None = None
    order: Any = None


Key = tuple[str, str]
"""A compound and its sentence, which is "" for replies about the compound in any sentence."""


@dataclass
class RecordedReply:
    """The recorded replies about an item, or about a compound in any sentence.

    Orders, with their places in the file, are by the set of the candidates' names, in which items
    may differ only.
    """

    sense: Sense | None = None
    meanings: dict[SenseLabel, Meaning] = field(default_factory=dict)
    orders: dict[frozenset[str], tuple[tuple[str, ...], str]] = field(default_factory=dict)


class Recorded(Recording):
    """Earlier replies; those about an item precede those about its compound in any sentence."""

    def __init__(self, name: str, identity: str, replies: dict[Key, RecordedReply]):
        self.name, self.identity, self.replies = name, identity, replies

    def known(self, item: Item) -> Known:
        """See :class:`Recording`."""
        about, anywhere = (self.replies.get(key, RecordedReply()) for key in _keys(item))
        meanings: dict[SenseLabel, Meaning | str] = {}
        for label, meaning in (*about.meanings.items(), *anywhere.meanings.items()):
            if meaning:
                meanings.setdefault(label, meaning)
        return Known(about.sense, meanings)

    def order(self, item: Item) -> tuple[str, ...]:
        """See :class:`Recording`."""
        orders = self.replies.get(_keys(item)[0], RecordedReply()).orders
        if not orders:
            return ()
        names = item.names
        order, where = orders.get(frozenset(names), next(iter(orders.values())))
        return parse_order(list(order), names, where, column="order")

    def check(self, items: Sequence[Item], purposes: Collection[str]) -> None:
        """See :class:`Recording`; items without any recorded reply are refused."""
        if unknown := [item for item in items if self.replies.keys().isdisjoint(_keys(item))]:
            raise UserError(f"{self.name} has no replies about {describe_uses(unknown)}.", "llms")
        super().check(items, purposes)


def _keys(item: Item) -> tuple[Key, Key]:
    """Return the keys of the replies about an item, and about its compound in any sentence."""
    return key_of(item.compound, item.sentence), key_of(item.compound)


def key_of(compound: str, sentence: str = "") -> Key:
    """Return the key of replies about a compound in a sentence, or in any."""
    return compound.casefold().strip(), " ".join(sentence.split())


@register("chat", "recorded", takes="FILE")
def open_recording(file: str) -> Recorded:
    """Replies of people or of a chat model, in a file."""
    return open_replies(Path(file).expanduser())


def open_replies(path: Path) -> Recorded:
    """Read recorded replies from a table or a JSONL file.

    The columns are ``compound``, ``sentence``, ``sense``, ``meaning``, ``scene`` and
    :data:`ITEM_COLUMNS`; any but the first may be empty or absent. A row with a sentence is about
    that item: its sense or votes; ``order``, the candidates' names from best to worst; and
    ``meaning`` and ``scene`` in that sense. A row without a sentence has the latter for the
    compound anywhere. Of several rows, two definitions and the first scene are used.
    """
    nested = suffix_of(path) == ".jsonl"
    if not nested and suffix_of(path) not in TABLES:
        expected = f"{', '.join(TABLES)} or .jsonl"
        raise UserError(f"{path}: expected a {expected} file of replies.", "llms")
    rows = json_rows(path) if nested else numbered_rows(read_table(path, ("compound",)))
    replies: defaultdict[Key, RecordedReply] = defaultdict(RecordedReply)
    stated: defaultdict[Key, _Stated] = defaultdict(dict)
    for number, cells in rows:
        check_spelling(f"{path}, row {number}", tuple(cells), tuple(_Row.model_fields))
        filled = {k: cell for k, cell in cells.items() if cell is not None and f"{cell}".strip()}
        row = read_as(_Row, filled, f"{path}, row {number}")
        key = key_of(row.compound, row.sentence)
        _add(replies[key], stated[key], row, path, number)
    return Recorded(f"recorded:{path}", f"recorded:{file_sha256(path)}", dict(replies))


_Stated = dict[object, tuple[Any, int]]
"""An item's sense and votes by column, and its orders by their candidates, with their rows."""


def _add(reply: RecordedReply, stated: _Stated, row: _Row, path: Path, number: int) -> None:
    """Add a row to the replies; refuse it if it contradicts an earlier row or lacks a column."""
    where = f"{path}, row {number} ('{row.compound}')"
    votes = row.votes_idiomatic, row.votes_literal
    order = parse_order(row.order, (), where, column="order") if row.order else None
    if row.sentence:
        for column, value in zip(("sense", *VOTE_COLUMNS), (row.sense, *votes), strict=True):
            _state(stated, column, value, number, where)
        if order:
            _state(stated, frozenset(order), order, number, where)
            reply.orders.setdefault(frozenset(order), (order, f"{path}, row {number}"))
        reply.sense = _sense(stated, where)
    elif misplaced := [column for column in ITEM_COLUMNS if column in row.model_fields_set]:
        raise UserError(f"{where}, {misplaced[0]}: needs a sentence in the same row.")
    if row.meaning or row.scene:
        label = row.sense or majority(*(count or 0 for count in votes))
        if not label:
            raise UserError(f"{where}, sense: is empty. Give the sense of the meaning.")
        before = reply.meanings.get(label, NO_MEANING)
        definitions, own = before.definitions, clean_gloss(row.meaning, row.compound)
        if own and own not in definitions:
            definitions = (*definitions, own)[:DEFINITIONS]
        reply.meanings[label] = Meaning(definitions, before.scene or row.scene or None)


def _state(stated: _Stated, key: object, value: Any, number: int, where: str) -> None:
    """Store a row's value, unless it is None; refuse one that differs from an earlier row's."""
    if value is None:
        return
    before, first = stated.setdefault(key, (value, number))
    if before != value:
        column = key if isinstance(key, str) else "order"
        new, old = (", ".join(v) if column == "order" else v for v in (value, before))
        raise UserError(f"{where}, {column}: is {new}, but row {first} has {old}.")


def _sense(stated: _Stated, where: str) -> Sense | None:
    """Return the sense by the votes and labels so far; refuse a label that is outvoted."""
    label: SenseLabel | None = stated.get("sense", (None, 0))[0]
    idiomatic, literal = (stated.get(column, (0, 0))[0] for column in VOTE_COLUMNS)
    if not idiomatic + literal:
        return likelier(label == "idiomatic", "recorded") if label else None
    winner = majority(idiomatic, literal)
    if label and label != winner and idiomatic != literal:
        raise UserError(f"{where}, sense: is {label}, but the votes are {idiomatic}:{literal}.")
    return Sense(label or winner, idiomatic / (idiomatic + literal), idiomatic, literal)
