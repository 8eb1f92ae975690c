"""Making an index, adding to it, taking from it; whatever happens, what is encoded stays."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

from admire.base.choices import EngineName
from admire.base.errors import UserError
from admire.base.schema import check_setting
from admire.base.storage import (
    check_folder,
    mark_folder,
    only_writer,
    replace_folder,
    unwritable,
)
from admire.models.encoders import TextEncoder
from admire.tasks.collections.encoding import (
    EncodeBatches,
    EncoderRecord,
    encode_here,
    tracks_of,
)
from admire.tasks.collections.entries import Entry, check_new, digest, read_entries
from admire.tasks.collections.index import Record, check_encoder, read_record, write_record
from admire.tasks.collections.lance_table import Table

log = logging.getLogger("admire")

BATCH = 2048
"""How many entries are encoded and added at once."""

DISK_ERRORS = (OSError, RuntimeError, ValueError, sqlite3.Error)
"""What a full or damaged disk raises; LanceDB has no errors of its own."""

UNFINISHED = "unfinished index"
"""What the marker of a folder says that an index is being made in."""


@dataclass(frozen=True)
class Changes:
    """How an index was changed.

    Attributes:
        entries: how many there are now.
        new, gone: how many are there that were not, and are not that were.
        left_out: how many of the source could not be used.
    """

    entries: int
    new: int
    gone: int
    left_out: int


def write_index(
    source: Path,
    encoder: TextEncoder,
    out: Path,
    *,
    engine: EngineName = "exact",
    encode: EncodeBatches = encode_here,
    skip_bad: bool = False,
) -> Changes:
    """Encode a collection and write an index folder, which appears when it is complete.

    Until then it is made in ``OUT.unfinished``, batch by batch. A call that was interrupted can be
    repeated: what is in the table is not encoded again.

    Args:
        source: see :func:`admire.tasks.collections.read_entries`.
        encode: encodes the batches.
        skip_bad: leave out entries that cannot be used, and count them.

    Raises:
        UserError: something of the source cannot be used, there is nothing to search, another
            process writes the same index, or the folder holds something else or cannot be written.
    """
    check_setting("engine", engine, EngineName)
    check_folder(out, "index")
    work = out.resolve().with_name(f"{out.resolve().name}.unfinished")
    with only_writer(out):
        check_folder(work, UNFINISHED)
        record = Record(encoder=EncoderRecord.of(encoder), engine=engine)
        _begin(work, record)
        try:
            changes = _add_new(work, record, source, encoder, encode, skip_bad)
        except UserError:
            if not Table(work).size:  # nothing is lost
                shutil.rmtree(work, ignore_errors=True)
            raise
        with replace_folder(out, "index") as part:
            part.rmdir()
            work.rename(part)
    return changes


def add_to_index(
    source: Path,
    encoder: TextEncoder,
    index: Path,
    *,
    encode: EncodeBatches = encode_here,
    skip_bad: bool = False,
) -> Changes:
    """Add a collection to an index. Only what is new, by its content, is encoded.

    An entry that has the name of one in the index, and comes from the same source, replaces it.

    Raises:
        UserError: as for :func:`write_index`; or the index was made with another encoder, or has
            another entry of the same name from another source.
    """
    with only_writer(index):
        record = read_record(index)
        check_encoder(index, record.encoder, encoder)
        check_folder(index, "index")
        return _add_new(index, record, source, encoder, encode, skip_bad)


def remove_from_index(names: Sequence[str], index: Path) -> Changes:
    """Take entries out of an index, by their names or shell patterns (``cats/*``).

    Raises:
        UserError: nothing has such a name, nothing would be left, or the folder cannot be written.
    """
    with only_writer(index):
        record = read_record(index)
        check_folder(index, "index")
        matched: dict[str, set[int]] = {name: set() for name in names}
        patterns = [name for name in names if any(sign in name for sign in "*?[")]
        with _writing(index):
            table = Table(index)
            table.restore(record.version)  # an addition may have been stopped
            before = table.size
            for batch in table.batches(["id"]):
                for row, name in batch.select(["_rowid", "id"]).to_pandas().itertuples(index=False):
                    for pattern in {name, *patterns} & matched.keys():
                        if pattern == name or fnmatchcase(name, pattern):
                            matched[pattern].add(row)
            for name, rows in matched.items():
                if not rows:
                    raise UserError(f"{index}: holds nothing called '{name}'.", "remove")
            gone = sorted(set().union(*matched.values()))
            if len(gone) == before:
                raise UserError(f"{index}: nothing would be left. Remove the folder.", "remove")
            table.delete(gone)
            _complete(index, record, table)
        return Changes(before - len(gone), 0, len(gone), 0)


def default_encoder(source: Path, *, skip_bad: bool = False) -> str:
    """Return the encoder for a source where none is named, by whether it begins with a picture."""
    if source.is_dir() and not any(source.glob("*.parquet")):
        return "sight"
    with TemporaryDirectory(prefix="admire-", ignore_cleanup_errors=True) as unpacked:
        skip = (lambda error: None) if skip_bad else _refuse
        first = next(read_entries(source, Path(unpacked), skip), None)
    return "sight" if first and first.image else "e5"


def _begin(work: Path, record: Record) -> None:
    """Make the folder of an unfinished index; empty one of another encoder."""
    try:
        if (work / "index.json").is_file():
            with suppress(UserError):  # it is damaged
                if read_record(work).encoder == record.encoder:
                    log.info("%s: goes on with what is there.", work)
                    return
            log.warning("%s: was begun with another encoder, and begins anew.", work)
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        mark_folder(work, UNFINISHED, ("index.json", "table", "unpacked"))
        write_record(work, record)
    except OSError as error:
        raise unwritable(work, error) from None


class _Contents:
    """The names in an index, in a database on disk, so that memory does not grow with them.

    A row has an entry's name and digest, its source, why it is left out, its row in the table
    (null if it is new), whether it is part of the complete index, and whether it was seen in the
    source that is read now.
    """

    def __init__(self, table: Table, version: int):
        self._db = sqlite3.connect("", check_same_thread=False)
        self.close = self._db.close
        self._db.execute("CREATE TABLE contents (id, digest, source, problem, row, complete, seen)")
        values = f":id, :digest, :source, :problem, :_rowid, :base < {version}, 0"
        for batch in table.batches(["id", "digest", "source", "problem", "base"], where=None):
            self._db.executemany(f"INSERT INTO contents VALUES ({values})", batch.to_pylist())
        self._db.execute("CREATE INDEX ids ON contents (id)")

    def new(
        self, entries: Iterable[Entry], source: str, skip: Callable[[UserError], object]
    ) -> Iterator[Entry]:
        """Yield the entries that are not in the index, and note all of them as seen."""
        for entry in entries:
            try:
                new = self._note(entry, source)
            except UserError as error:
                skip(error)
                new = False
            if new:
                yield entry
            else:
                _remove_copy(entry)

    def _note(self, entry: Entry, source: str) -> bool:
        """Note an entry as seen; return whether it is not in the index."""
        rows = self._db.execute(
            "SELECT source, complete AND problem IS NULL, seen FROM contents WHERE id = ?",
            (entry.name,),
        ).fetchall()
        check_new(entry, any(seen for *_, seen in rows))
        update = "UPDATE contents SET seen = 1 WHERE id = ? AND digest = ?"
        if rows and self._db.execute(update, (entry.name, _digest(entry))).rowcount:
            return False
        for origin, counts, _ in rows:
            if counts and origin != source:
                raise UserError(
                    f"{entry.where}: '{entry.name}' is in the index already, from {origin}. "
                    "Remove that one first (--remove), or give this one another name."
                )
        self._db.execute("INSERT INTO contents (id, seen) VALUES (?, 1)", (entry.name,))
        return True

    def skip(self, error: UserError) -> None:
        """Note why an entry of the source is left out before it has a name."""
        self._db.execute("INSERT INTO contents (problem, seen) VALUES (?, 1)", (str(error),))

    def leave_out(self, name: str, problem: str) -> None:
        """Note why a new entry is left out."""
        update = "UPDATE contents SET problem = ? WHERE id = ? AND seen"
        self._db.execute(update, (problem, name))

    def left_out(self) -> tuple[int, str, str]:
        """Return how many entries of the source are left out; the name of the first, and why."""
        count, _, name, problem = self._db.execute(
            "SELECT COUNT(*), MIN(rowid), id, problem FROM contents "
            "WHERE seen AND problem IS NOT NULL"
        ).fetchone()
        return count, name or "", problem or ""

    def obsolete(self) -> list[tuple[int, bool, bool]]:
        """Return rows to delete, whether each has vectors, and whether it was complete.

        They are replaced by others of the same name, or were left by an addition that was stopped,
        and are no longer in its source.
        """
        return self._db.execute(
            "SELECT row, problem IS NULL, complete FROM contents AS old "
            "WHERE NOT seen AND row IS NOT NULL AND "
            "(NOT complete OR EXISTS (SELECT 1 FROM contents WHERE id = old.id AND seen))"
        ).fetchall()


def _refuse(error: UserError) -> NoReturn:
    """Refuse a source with an entry that cannot be used."""
    raise UserError(str(error), *error.settings, "skip_bad")


def _digest(entry: Entry) -> str:
    """Return an entry's digest, or nothing if its picture cannot be read, as in the table."""
    try:
        return digest(entry)
    except UserError:
        return ""


def _remove_copy(entry: Entry) -> None:
    """Remove the copy of a picture that is inside another file."""
    if entry.unpacked:
        entry.unpacked.unlink(missing_ok=True)


def _add_new(
    folder: Path,
    record: Record,
    source: Path,
    encoder: TextEncoder,
    encode: EncodeBatches,
    skip_bad: bool,
) -> Changes:
    """Encode the entries of a source that are not in an index yet, and complete the index."""
    origin = os.path.abspath(source)
    folder = folder.resolve()  # workers may start elsewhere
    unpacked = folder / "unpacked"
    shutil.rmtree(unpacked, ignore_errors=True)  # of a process that was killed
    with _writing(folder):
        table = Table(folder)
        before = Table(folder, record.version).size if record.version else 0
        contents = _Contents(table, record.version)
        unpacked.mkdir()
    with closing(contents):
        try:
            with _writing(folder, (sqlite3.Error,)):
                skip = contents.skip if skip_bad else _refuse
                new = contents.new(read_entries(source, unpacked, skip), origin, skip)
                batches = iter(lambda: tuple(islice(new, BATCH)), ())
                for batch in encode(batches, encoder):
                    with _writing(folder):
                        table.add(batch, origin, record.version, tracks_of(encoder))
                    for entry in batch.entries:
                        _remove_copy(entry)
                    for entry, _, problem in batch.left_out:
                        contents.leave_out(entry.name, problem)
                        _remove_copy(entry)
                    log.info("%d entries in the index.", table.size)
        finally:
            shutil.rmtree(unpacked, ignore_errors=True)
        if not source.exists():
            raise UserError(f"{source}: has gone. When it is back, the same command goes on.")
        left_out, name, problem = contents.left_out()
        obsolete = contents.obsolete()
    entries = table.size - sum(encoded for _, encoded, _ in obsolete)
    if not entries:
        raise UserError(f"{source}: nothing of it can be indexed. {problem}")
    if left_out:
        first = f" The first is '{name}'." if name else ""
        log.warning("%s: %d left out.%s %s", source, left_out, first, problem)
    with _writing(folder):
        table.delete([row for row, _, _ in obsolete])
        _complete(folder, record, table)
    gone = sum(encoded and complete for _, encoded, complete in obsolete)
    return Changes(entries, entries - before + gone, gone, left_out)


def _complete(folder: Path, record: Record, table: Table) -> None:
    """Let the table's newest state count, if it has changed, and tidy the table."""
    if table.version == record.version:
        return
    new, indexed = not record.version, record.engine == "lance"
    record.version = table.version
    write_record(folder, record)
    record.trained = table.optimize(indexed=indexed, trained=record.trained, new=new)
    record.version = table.version
    write_record(folder, record)


@contextmanager
def _writing(folder: Path, errors: tuple[type[Exception], ...] = DISK_ERRORS) -> Iterator[None]:
    """Turn errors of the disk into a user's."""
    try:
        yield
    except errors as error:
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise UserError(
            f"{folder}: cannot be written ({reason}). Free space, or index again if it is damaged."
        ) from error
