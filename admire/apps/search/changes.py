"""Making an index, adding to it, removing from it; an interrupted change is undone by the next."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NoReturn

from admire.apps.search.encoding import EncodeBatches, EncoderRecord, encode_batches, tracks_of
from admire.apps.search.entries import Entry, check_new, digest, read_entries
from admire.apps.search.index import (
    Record,
    check_encoder,
    open_index,
    read_record,
    reason_of,
    write_record,
)
from admire.apps.search.lance_table import Table
from admire.core.errors import UserError
from admire.core.storage import check_folder, only_writer, replace_folder, split_sheet
from admire.encoders import TextEncoder
from admire.rankers.run_encoders import encoder_attribute
from admire.rankers.settings import Settings

log = logging.getLogger("admire")

BATCH = 2048  #: how many entries are encoded and added at once

MEMORY = 64 * 2**20
"""With so many bytes of pictures from Parquet files, a batch is complete with fewer entries."""

DISK_ERRORS = (OSError, RuntimeError, ValueError, sqlite3.Error)
"""What a full or damaged disk raises; LanceDB has no errors of its own."""


@dataclass(frozen=True)
class Changes:
    """How many entries an index has now, and how many were new, gone or replaced, and left out."""

    entries: int
    new: int
    gone: int
    left_out: int


def write_index(
    source: Path,
    encoder: TextEncoder,
    out: Path,
    *,
    encode: EncodeBatches = encode_batches,
    skip_bad: bool = False,
    replace: bool = False,
) -> Changes:
    """Encode a collection and write an index folder, which appears when it is complete.

    Args:
        source: see :func:`admire.apps.search.read_entries`.
        skip_bad: leave out entries that cannot be used, and count them.
        replace: whether an index of another source or kind may be replaced.

    Raises:
        UserError: something of the source cannot be used, or the folder cannot be written.
    """
    if not replace:
        _check_source(out, source, skip_bad=skip_bad)
    with replace_folder(out, "index") as part:
        record = Record(encoder=EncoderRecord.of(encoder))
        return _add(part, record, Table(part), source, encoder, encode, skip_bad)


def _check_source(out: Path, source: Path, *, skip_bad: bool) -> None:
    """Refuse to replace an index that has entries of another source or begins with another kind."""
    try:
        open_index(out)
    except UserError:  # there is none, or it is damaged
        return
    sources, firsts = set[str](), []
    for batch in Table(out).batches(["source", "image"]):
        sources.update(batch["source"].to_pylist())
        firsts.append(bool(batch["image"][0].as_py()))
    if others := sources - {os.path.abspath(source)}:
        raise UserError(
            f"{out}: is an index of {min(others)}. Choose another place, add to it, or replace it.",
            *("out", "add", "replace"),
        )
    if firsts[0] != (pictures := has_pictures(source, skip_bad=skip_bad)):
        before, now = ("texts", "pictures") if pictures else ("pictures", "texts")
        reason = f"is an index of {before}, and {source} has {now}"
        raise UserError(f"{out}: {reason}. Choose another place, or replace it.", "out", "replace")


def add_to_index(
    source: Path,
    encoder: TextEncoder,
    index: Path,
    *,
    encode: EncodeBatches = encode_batches,
    skip_bad: bool = False,
) -> Changes:
    """Add a collection to an index. Only what is new, by its content, is encoded.

    An entry that has the name of one in the index, and comes from the same source, replaces it.

    Raises:
        UserError: as for :func:`write_index`; the index was made with another encoder, or has an
            entry of the same name from another source.
    """
    with _opened(index) as (record, table):
        check_encoder(index, record.encoder, encoder)
        return _add(index, record, table, source, encoder, encode, skip_bad)


def remove_from_index(names: Sequence[str], index: Path) -> Changes:
    """Remove entries from an index, by their names or shell patterns (``cats/*``).

    Raises:
        UserError: nothing has such a name, nothing would be left, or the folder cannot be written.
    """
    with _opened(index) as (record, table), _writing(index):
        matched: dict[str, list[int]] = {name: [] for name in names}
        patterns = [name for name in matched if {*name} & {*"*?["}]
        for batch in table.batches(["id"]):
            for row, name in zip(*batch.select(["_rowid", "id"]).to_pydict().values(), strict=True):
                fitting = {name, *(pattern for pattern in patterns if fnmatchcase(name, pattern))}
                for match in fitting & matched.keys():
                    matched[match].append(row)
        for name, rows in matched.items():
            if not rows:
                raise UserError(f"{index}: contains nothing called '{name}'.", "remove")
        gone = sorted(set().union(*matched.values()))
        left = table.size - len(gone)
        if not left:
            raise UserError(f"{index}: nothing would be left. Remove the folder.", "remove")
        table.delete(gone)
        _complete(index, record, table)
    return Changes(left, 0, len(gone), 0)


def has_pictures(source: Path, *, skip_bad: bool = False) -> bool:
    """Return whether a source begins with a picture."""
    if source.is_dir() and not any(source.glob("*.parquet")):
        return True
    first = next(read_entries(source, (lambda error: None) if skip_bad else _refuse), None)
    return bool(first and first.image)


def default_encoder(source: Path, *, skip_bad: bool = False) -> str:
    """Return the encoder for a source where none is named: the default one, and if the source
    begins with a picture the one that encodes pictures in the same space."""
    encoder, pictures = Settings.encoder[0], has_pictures(source, skip_bad=skip_bad)
    return encoder_attribute(encoder, "companion", encoder) if pictures else encoder


@contextmanager
def _opened(index: Path) -> Iterator[tuple[Record, Table]]:
    """Open an index to change it, and undo a change that was interrupted."""
    with only_writer(index):
        record = read_record(index)
        check_folder(index, "index")
        with _writing(index):
            table = Table(index)
            table.restore(record.version)
        yield record, table


class _Names:
    """The names in an index and in a source, on disk; ``seen`` is None, "same" or "new"."""

    def __init__(self, table: Table):
        self._db = sqlite3.connect("", check_same_thread=False)
        self.close = self._db.close
        self._db.execute("CREATE TABLE names (id PRIMARY KEY, digest, source, row, seen)")
        insert = "INSERT OR REPLACE INTO names VALUES (:id, :digest, :source, :_rowid, NULL)"
        for batch in table.batches(["id", "digest", "source"]):
            self._db.executemany(insert, batch.to_pylist())

    def new(
        self, entries: Iterable[Entry], source: str, skip: Callable[[UserError], object]
    ) -> Iterator[Entry]:
        """Yield the entries of the source that are not in the index; skip those of taken names."""
        for entry in entries:
            query = "SELECT digest, source, seen FROM names WHERE id = ?"
            content, origin, seen = self._db.execute(query, (entry.name,)).fetchone() or [None] * 3
            try:
                check_new(entry, bool(seen))
                same = content is not None and content == digest(entry)
                if origin not in (None, source) and not same:
                    raise UserError(
                        f"{entry.where}: '{entry.name}' is in the index already, from {origin}. "
                        "Remove that one first (--remove), or give this one another name."
                    )
            except UserError as error:
                skip(error)
                continue
            self._db.execute(
                "INSERT INTO names (id, seen) VALUES (:id, :seen) "
                "ON CONFLICT DO UPDATE SET seen = :seen",
                {"id": entry.name, "seen": "same" if same else "new"},
            )
            if not same:
                yield entry

    def replaced(self) -> list[int]:
        """Return the table's rows that others of the same name replace."""
        query = "SELECT row FROM names WHERE seen = 'new' AND row IS NOT NULL"
        return [row for (row,) in self._db.execute(query)]


def _refuse(error: UserError) -> NoReturn:
    """Refuse a source with an entry that cannot be used."""
    raise UserError(str(error), *error.settings, "skip_bad")


def _batches(entries: Iterable[Entry]) -> Iterator[Sequence[Entry]]:
    """Yield entries in batches of at most :data:`BATCH`, or about :data:`MEMORY`."""
    batch, size = list[Entry](), 0
    for entry in entries:
        batch.append(entry)
        size += len(entry.content or b"")
        if len(batch) == BATCH or size >= MEMORY:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _add(
    folder: Path,
    record: Record,
    table: Table,
    source: Path,
    encoder: TextEncoder,
    encode: EncodeBatches,
    skip_bad: bool,
) -> Changes:
    """Encode the entries of a source that are not in an index yet, and complete the index."""
    origin, before = os.path.abspath(source), table.size
    left_out: list[UserError | str] = []
    skip = left_out.append if skip_bad else _refuse
    with _writing(folder):
        names = _Names(table)
    with closing(names), _writing(folder, (sqlite3.Error,)):
        for batch in encode(_batches(names.new(read_entries(source, skip), origin, skip)), encoder):
            with _writing(folder):
                table.add(batch, origin, tracks_of(encoder))
            left_out += batch.left_out
            log.info("%d entries in the index.", table.size)
        replaced = names.replaced()
    if not split_sheet(source)[0].exists():
        raise UserError(f"{source}: has gone. When it is back, run the same command again.")
    added = table.size - before
    if table.size == len(replaced):
        raise UserError(f"{source}: nothing of it can be indexed. {next(iter(left_out), '')}")
    if left_out:
        log.warning("%s: %d left out, such as %s", source, len(left_out), left_out[0])
    with _writing(folder):
        table.delete(replaced)
        _complete(folder, record, table)
        return Changes(table.size, added, len(replaced), len(left_out))


def _complete(folder: Path, record: Record, table: Table) -> None:
    """Make the table's newest state the index's, and optimize the table.

    The state counts before that, because optimizing removes old ones.
    """
    new = not record.version
    record.version = table.version
    write_record(folder, record)
    record.trained = table.optimize(record.trained, new=new)
    record.version = table.version
    write_record(folder, record)


@contextmanager
def _writing(folder: Path, errors: tuple[type[Exception], ...] = DISK_ERRORS) -> Iterator[None]:
    """Turn errors of the disk into a user's."""
    try:
        yield
    except errors as error:
        raise UserError(
            f"{folder}: cannot be written ({reason_of(error)}). Free space, or index again if it "
            "is damaged."
        ) from error
