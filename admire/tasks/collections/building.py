"""Making an index, adding to it, taking from it: what is encoded stays, whatever happens."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path

from admire.base.choices import EngineName
from admire.base.errors import UserError
from admire.base.schema import check_setting
from admire.base.storage import (
    check_folder,
    mark_folder,
    only_writer,
    replace_folder,
    temporary_folder,
    unwritable,
)
from admire.models.encoders import TextEncoder
from admire.tasks.collections.encoding import (
    EncodeBatches,
    digest,
    encode_here,
    named,
    tracks_of,
)
from admire.tasks.collections.exact import open_files, write_files
from admire.tasks.collections.index import (
    Maker,
    Record,
    check_encoder,
    read_record,
    write_record,
)
from admire.tasks.collections.sources import Thing, check_new, read_things
from admire.tasks.collections.table import Table

log = logging.getLogger("admire")

BATCH = 2048
"""How many things are encoded and added at once."""

UNFINISHED = "unfinished index"
"""What the marker of a folder says that an index is being made in."""


@dataclass(frozen=True)
class Changes:
    """What became of an index.

    Attributes:
        things: how many there are now.
        new, gone: how many are there that were not, and are not that were.
        left_out: how many of the source could not be encoded.
    """

    things: int
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
) -> Changes:
    """Encode a collection and write an index folder, which appears when it is complete.

    Until then it is made in ``OUT.unfinished``, batch by batch. A call that was interrupted can be
    repeated: what is in the table is not encoded again.

    Args:
        source: see :func:`admire.tasks.collections.sources.read_things`.
        encode: encodes the batches.

    Raises:
        UserError: something of the source cannot be used, there is nothing to search, another
            process writes the same index, or the folder holds something else or cannot be written.
    """
    check_setting("engine", engine, EngineName)
    check_folder(out, "index")
    work = out.resolve().with_name(f"{out.resolve().name}.unfinished")
    with only_writer(out):
        check_folder(work, UNFINISHED)
        record = Record(encoder=Maker(**named(encoder)), engine=engine)
        _begin(work, record)
        try:
            changes = _bring_up_to_date(work, record, source, encoder, encode)
        except UserError:
            if not Table(work).size:  # nothing is lost
                shutil.rmtree(work, ignore_errors=True)
            raise
        with replace_folder(out, "index") as part:
            part.rmdir()
            work.rename(part)
    return changes


def add_to_index(
    source: Path, encoder: TextEncoder, index: Path, *, encode: EncodeBatches = encode_here
) -> Changes:
    """Add a collection to an index. Only what is new, by its content, is encoded.

    A thing that has the name of one in the index, and comes from the same source, takes its place.

    Raises:
        UserError: as for :func:`write_index`; or the index was made with another encoder, or has
            another thing of the same name from another source.
    """
    with only_writer(index):
        record = read_record(index)
        check_encoder(index, record.encoder.model_dump(), encoder)
        check_folder(index, "index")
        return _bring_up_to_date(index, record, source, encoder, encode)


def remove_from_index(names: Sequence[str], index: Path) -> Changes:
    """Take things out of an index, by their names or shell patterns (``cats/*``).

    Raises:
        UserError: nothing has such a name, nothing would be left, or the folder cannot be written.
    """
    with only_writer(index):
        record = read_record(index)
        check_folder(index, "index")
        with _writing(index):
            table = Table(index)
            before, removed, matched = 0, [], set()
            plain = set(names)
            patterns = [name for name in names if any(sign in name for sign in "*?[")]
            for places, theirs in table.names():
                for place, name in zip(places, theirs, strict=True):
                    if place >= record.places:  # an addition was stopped
                        removed.append(place)
                        continue
                    before += 1
                    fits = {one for one in patterns if fnmatchcase(name, one)} | ({name} & plain)
                    if fits:
                        matched |= fits
                        removed.append(place)
            for name in names:
                if name not in matched:
                    raise UserError(f"{index}: holds nothing called '{name}'.", "remove")
            if len(removed) == table.size:
                raise UserError(
                    f"{index}: nothing would be left. Remove the folder itself.", "remove"
                )
            table.remove(removed)
            _complete(index, record, table, thorough=True)
            return Changes(table.size, 0, before - table.size, 0)


def default_encoder(source: Path) -> str:
    """The encoder for a source where none is named: by whether it begins with a picture.

    Raises:
        UserError: the source cannot be read.
    """
    if source.is_dir() and not any(source.glob("*.parquet")):
        return "sight"
    unpacked = temporary_folder()
    try:
        first = next(read_things(source, unpacked))
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)
    return "sight" if first.image else "e5"


def _begin(work: Path, record: Record) -> None:
    """Make the folder of an unfinished index; one of another encoder or engine is emptied."""
    try:
        if (work / "index.json").is_file():
            with suppress(UserError):  # it is damaged
                if read_record(work).encoder == record.encoder:
                    log.info("%s: goes on with what is there.", work)
                    return
            log.warning("%s: was begun with another encoder, and begins anew.", work)
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        mark_folder(work, UNFINISHED, ("index.json", "table", "search", "unpacked"))
        write_record(work, record)
    except OSError as error:
        raise unwritable(work, error) from None


class _Contents:
    """What an index holds, by name, in a database on disk: memory does not grow with it.

    A row has a thing's place in the index, null if it is new or left out; its source; why it is
    left out; and whether it was seen in the source that is read now.
    """

    def __init__(self, table: Table):
        self._db = sqlite3.connect("", check_same_thread=False)
        self._db.execute(
            "CREATE TABLE contents (id TEXT, digest TEXT, place INT, source TEXT, why TEXT, "
            "seen INT DEFAULT 0)"
        )
        self.close = self._db.close
        for columns in table.contents():
            self._db.executemany(
                "INSERT INTO contents VALUES (?, ?, ?, ?, ?, 0)", zip(*columns, strict=True)
            )
        self._db.execute("CREATE INDEX ids ON contents (id)")

    def new(self, things: Iterable[Thing], source: str, places: int) -> Iterator[Thing]:
        """Those things that are not there.

        Args:
            places: what has a place from here on does not count, unless it is seen.

        Raises:
            UserError: a name stands twice, or is that of a thing of another source.
        """
        for thing in things:
            there = self._db.execute(
                "SELECT rowid, digest, place, source, seen FROM contents WHERE id = ?",
                (thing.name,),
            ).fetchall()
            check_new(thing, any(seen for *_, seen in there))
            content = _digest(thing) if there else None
            for row, before, place, origin, _ in there:
                if before == content:
                    self._db.execute("UPDATE contents SET seen = 1 WHERE rowid = ?", (row,))
                    _remove_copies([thing])
                    break
                if place is not None and place < places and origin != source:
                    raise UserError(
                        f"{thing.where}: '{thing.name}' is in the index already, from {origin}. "
                        "Remove that one first (--remove), or give this one another name."
                    )
            else:
                self._db.execute("INSERT INTO contents (id, seen) VALUES (?, 1)", (thing.name,))
                yield thing

    def leave_out(self, name: str, why: str) -> None:
        """Note why a new thing is left out."""
        self._db.execute("UPDATE contents SET why = ? WHERE id = ? AND seen", (why, name))

    def left_out(self) -> tuple[int, str, str]:
        """How many things of the source are left out; the first one's name, and why."""
        condition = "FROM contents WHERE seen AND why IS NOT NULL"
        (count,) = self._db.execute(f"SELECT COUNT(*) {condition}").fetchone()
        name, why = self._db.execute(
            f"SELECT id, why {condition} ORDER BY rowid LIMIT 1"
        ).fetchone() or ("", "")
        return count, name, why

    def gone(self, places: int) -> list[int]:
        """The places of things that others of the same name replace, and of those from ``places``
        on that were not seen."""
        rows = self._db.execute(
            "SELECT place FROM contents AS old WHERE NOT seen AND place IS NOT NULL "
            "AND (place >= ? OR EXISTS (SELECT 1 FROM contents WHERE id = old.id AND seen))",
            (places,),
        )
        return [place for (place,) in rows]

    def count(self, places: int) -> int:
        """How many things have places below this one."""
        condition = "SELECT COUNT(*) FROM contents WHERE place < ?"
        return int(self._db.execute(condition, (places,)).fetchone()[0])

    def next_place(self) -> int:
        """The place of the next thing that is added."""
        return int(
            self._db.execute("SELECT COALESCE(MAX(place) + 1, 0) FROM contents").fetchone()[0]
        )


def _digest(thing: Thing) -> str:
    """The thing's digest, or nothing where its picture cannot be read, as in the table."""
    try:
        return digest(thing)
    except UserError:
        return ""


def _remove_copies(things: Iterable[Thing]) -> None:
    """Remove the copies of pictures that are inside other files."""
    for thing in things:
        if thing.unpacked:
            thing.unpacked.unlink(missing_ok=True)


def _bring_up_to_date(
    folder: Path, record: Record, source: Path, encoder: TextEncoder, encode: EncodeBatches
) -> Changes:
    """Encode what of a source is not in an index yet, and complete the index."""
    origin = os.path.abspath(source)
    folder = folder.resolve()  # workers may start elsewhere
    unpacked = folder / "unpacked"
    shutil.rmtree(unpacked, ignore_errors=True)  # of a process that was killed
    with _writing(folder), _temporary_errors():
        table = Table(folder)
        contents = _Contents(table)
        unpacked.mkdir()
    with closing(contents):
        try:
            place = contents.next_place()
            with _temporary_errors():
                new = contents.new(read_things(source, unpacked), origin, record.places)
                for batch in encode(_batches(new), encoder):
                    with _writing(folder):
                        table.add(batch, place, origin, tracks_of(encoder))
                    place += len(batch.things)
                    _remove_copies(batch.things)
                    for thing, _, why in batch.left_out:
                        contents.leave_out(thing.name, why)
                        _remove_copies([thing])
                    log.info("%d things in the index.", table.size)
        finally:
            shutil.rmtree(unpacked, ignore_errors=True)
        if not source.exists():
            raise UserError(
                f"{source}: has gone while it was indexed. When it is back, the same command goes "
                "on."
            )
        left_out, name, why = contents.left_out()
        gone, before = contents.gone(record.places), contents.count(record.places)
    if len(gone) == table.size:
        raise UserError(f"{source}: nothing of it can be indexed. {why}")
    if left_out:
        log.warning("%s: %d left out. The first is '%s'. %s", source, left_out, name, why)
    with _writing(folder):
        table.remove(gone)
        new_ones = table.size - before + sum(1 for one in gone if one < record.places)
        _complete(folder, record, table, thorough=False)
        return Changes(table.size, new_ones, before + new_ones - table.size, left_out)


def _batches(things: Iterator[Thing]) -> Iterator[tuple[Thing, ...]]:
    while batch := tuple(islice(things, BATCH)):
        yield batch


def _complete(folder: Path, record: Record, table: Table, *, thorough: bool) -> None:
    """Write what exact search needs of the table, and then the record, if the table has changed."""
    search = folder / "search"
    before, old = search / str(record.version), None
    with suppress(OSError, ValueError, KeyError):  # missing or damaged: all is read again
        old = open_files(before)
        if table.version == record.version:
            return
    record.trained = table.tidy(
        indexed=record.engine == "lance", trained=record.trained, thorough=thorough
    )
    record.version, places = table.version, table.places()
    now = search / str(record.version)
    shutil.rmtree(now, ignore_errors=True)  # of a process that was killed
    write_files(now, places, table.blocks(record.places if old else 0), old)
    record.places = int(places[-1]) + 1
    write_record(folder, record)
    for path in search.iterdir():
        if path != now:
            shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Turn errors of the disk, which LanceDB raises as its own, into a user's."""
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise UserError(
            f"{folder}: cannot be written ({reason}). Free space on the disk; if the index is "
            "damaged, index again."
        ) from error


@contextmanager
def _temporary_errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise UserError(
            f"The folder for temporary files cannot be written ({error}). Free space on its disk, "
            "or set TMPDIR to another folder."
        ) from error
