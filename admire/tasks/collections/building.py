"""Making an index, adding to it, taking from it: what is encoded stays, whatever happens."""

from __future__ import annotations

import json
import logging
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from admire.base.choices import Device, EngineName
from admire.base.errors import UserError
from admire.base.schema import check_setting
from admire.base.storage import (
    check_folder,
    mark_folder,
    only_writer,
    replace_folder,
    temporary_folder,
    unwritable,
    write_whole,
)
from admire.base.workers import Workers, check_same, over_workers
from admire.models.encoders import TextEncoder, open_encoder
from admire.tasks.collections import shards as sharding
from admire.tasks.collections.index import FORMAT, named, read_record
from admire.tasks.collections.shards import (
    Moments,
    Stored,
    copy_shard,
    digest,
    reason,
    write_moments,
    write_shard,
)
from admire.tasks.collections.sources import Thing, check_new, read_things

log = logging.getLogger("admire")

UNFINISHED = "unfinished index"
"""What the marker of a folder says that an index is being made in."""

Unit = tuple[Path, Sequence[Thing]]
"""A shard that is to be written: its folder, and what it is to hold."""

WriteShards = Callable[[Iterable[Unit], TextEncoder], None]
"""Writes shards as :func:`write_here` does."""


def write_here(units: Iterable[Unit], encoder: TextEncoder) -> None:
    """Write shards in this process, one after the other; copies of pictures are then removed."""
    done = 0
    for folder, things in units:
        write_shard(folder, things, encoder)
        remove_copies(things)
        done += len(things)
        log.info("%d things encoded.", done)


def write_over(workers: Workers, device: Device = "auto") -> WriteShards:
    """What writes shards by several processes, each of which opens the encoder by its name.

    Shards and pictures are in folders that all of their machines share.
    """

    def write(units: Iterable[Unit], encoder: TextEncoder) -> None:
        done = 0
        opener = partial(open_writer, named(encoder), device)
        log.info("%d workers encode shards of %d things.", workers.count, sharding.SHARD)
        with closing(over_workers(units, opener, workers)) as written:
            for things in written:
                remove_copies(things)
                done += len(things)
                log.info("%d things encoded.", done)

    return write


def open_writer(made: Mapping[str, str], device: Device) -> Callable[[Unit], Sequence[Thing]]:
    """What writes shards in one of several processes, and gives back their things.

    Args:
        made: name and identity of the encoder.

    Raises:
        UserError: the encoder cannot be opened, or is another one on this machine.
    """
    encoder = open_encoder(made["name"], device=device)
    check_same("encoder", made["identity"], encoder.identity)

    def write(unit: Unit) -> Sequence[Thing]:
        folder, things = unit
        write_shard(folder, things, encoder)
        return things

    return write


def remove_copies(things: Iterable[Thing]) -> None:
    """Remove the copies of pictures that are inside other files."""
    for thing in things:
        if thing.unpacked:
            thing.unpacked.unlink(missing_ok=True)


@dataclass(frozen=True)
class Changes:
    """What became of an index.

    Attributes:
        things: how many there are now.
        new, gone: how many are there that were not, and are not that were.
        left_out: how many could not be encoded.
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
    write: WriteShards = write_here,
) -> Changes:
    """Encode a collection and write an index folder, which appears when it is complete.

    Until then it is made in ``OUT.unfinished``, shard by shard. A call that was interrupted can be
    repeated: it goes on with the shards that are missing.

    Args:
        source: see :func:`admire.tasks.collections.sources.read_things`.
        write: what writes the shards.

    Raises:
        UserError: something of the source cannot be used, there is nothing to search, another
            process writes the same index, or the folder holds something else or cannot be written.
    """
    check_setting("engine", engine, EngineName)
    _check_engine(engine)
    check_folder(out, "index")
    work = out.resolve().with_name(f"{out.resolve().name}.unfinished")
    with only_writer(out):
        check_folder(work, UNFINISHED)
        record = _plan(encoder, engine)
        _begin(work, record)
        try:
            changes = _bring_up_to_date(work, record, source, encoder, write)
        except UserError:
            if not any((work / "shards").glob("*/*.npy")):  # nothing is lost
                shutil.rmtree(work, ignore_errors=True)
            raise
        with replace_folder(out, "index") as part:
            part.rmdir()
            work.rename(part)
    return changes


def add_to_index(
    source: Path, encoder: TextEncoder, index: Path, *, write: WriteShards = write_here
) -> Changes:
    """Add a collection to an index. Only what is new, by its content, is encoded.

    A thing that has the name of one in the index, and comes from the same source, takes its place.

    Raises:
        UserError: as for :func:`write_index`; or the index was made with another encoder, or has
            another thing of the same name from another source.
    """
    with only_writer(index):
        record = read_record(index)
        check_encoder(index, record["encoder"], encoder)
        _check_engine(record["engine"])
        check_folder(index, "index")
        return _bring_up_to_date(index, record, source, encoder, write)


def remove_from_index(names: Sequence[str], index: Path) -> Changes:
    """Take things out of an index, by their names or shell patterns (``cats/*``).

    Raises:
        UserError: nothing has such a name, nothing would be left, or the folder cannot be written.
    """
    with only_writer(index):
        record = read_record(index)
        _check_engine(record["engine"])
        check_folder(index, "index")
        before, found = _size(record), set()
        masks = []
        for entry in record["shards"]:
            mask: list[bool] = []
            for row in _stored(index, entry["name"]).rows():
                fits = {name for name in names if row["id"] == name or fnmatchcase(row["id"], name)}
                found |= fits
                mask.append(not fits)
            if len(mask) != entry["things"]:
                raise _damaged(index, entry["name"], ValueError("rows are missing"))
            masks.append(np.array(mask, dtype=bool))
        for name in names:
            if name not in found:
                raise UserError(f"{index}: holds nothing called '{name}'.", "remove")
        if not any(mask.any() for mask in masks):
            raise UserError(f"{index}: nothing would be left. Remove the folder itself.", "remove")
        free = _free_names(index)
        kept = []
        for entry, stays in zip(record["shards"], masks, strict=True):
            left_out = [one["id"] for one in _stored(index, entry["name"]).left_out()]
            kept += _kept(index, entry, np.flatnonzero(stays).tolist(), left_out, free)
        record["shards"] = kept
        _commit(index, record)
    return Changes(_size(record), 0, before - _size(record), 0)


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


def check_encoder(index: Path | None, made: Mapping[str, str], encoder: TextEncoder) -> None:
    """Refuse an encoder that did not make an index's vectors.

    Raises:
        UserError: it is another one.
    """
    if made["identity"] != encoder.identity:
        raise UserError(
            f"{index or 'The index'}: was made with the encoder '{made['name']}' "
            f"({made['identity']}), not with '{encoder.name}' ({encoder.identity}).",
            "encoder",
        )


# ------------------------------------------------------------------------ what is there, and new


def _plan(encoder: TextEncoder, engine: EngineName) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "encoder": named(encoder),
        "engine": engine,
        "sources": [],
        "shards": [],
        "whole": 0,
    }


def _begin(work: Path, record: Mapping[str, Any]) -> None:
    """Make the folder of an unfinished index; one of another encoder is emptied."""
    try:
        if (work / "index.json").is_file():
            with suppress(UserError):  # it is damaged
                if read_record(work)["encoder"] == record["encoder"]:
                    log.info("%s: goes on with what is there.", work)
                    return
            log.warning("%s: was begun with another encoder, and begins anew.", work)
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        mark_folder(work, UNFINISHED, ("index.json", "shards", "whole"))
        (work / "shards").mkdir()
        (work / "whole").mkdir()
        _write_record(work, record)
    except OSError as error:
        raise unwritable(work, error) from None


class _Known:
    """What an index holds, by name, in a database on disk: memory does not grow with it.

    A row says in which shard and row of it a thing is, of which source (None in shards that are
    not yet in the record), whether it was seen in the source, and whether it was left out.
    """

    def __init__(self) -> None:
        self._db = sqlite3.connect("", check_same_thread=False)
        self._db.execute(
            "CREATE TABLE known (id TEXT, digest TEXT, shard TEXT, row INT, source INT, "
            "seen INT, left_out INT, PRIMARY KEY (id, digest)) WITHOUT ROWID"
        )
        self._db.execute("CREATE INDEX places ON known (shard)")
        self.close = self._db.close

    def take(self, name: str, source: int | None, stored: Stored) -> int:
        """Take in what a shard holds, and tell how many things that are."""
        rows: list[tuple[dict[str, Any], int | None, int]]
        rows = [(one, k, 0) for k, one in enumerate(stored.rows())]
        count = len(rows)
        rows += [(one, None, 1) for one in stored.left_out()]
        self._db.executemany(
            "INSERT OR IGNORE INTO known VALUES (?, ?, ?, ?, ?, 0, ?)",
            [(one["id"], one["digest"], name, k, source, out) for one, k, out in rows],
        )
        return count

    def new(self, things: Iterable[Thing], source: int, sources: Sequence[str]) -> Iterator[Thing]:
        """Those things that are not there. What they replace is forgotten.

        Raises:
            UserError: a name stands twice, or is that of a thing of another source.
        """
        for thing in things:
            there = self._db.execute(
                "SELECT digest, source, seen FROM known WHERE id = ?", (thing.name,)
            ).fetchall()
            check_new(thing, any(seen for *_, seen in there))
            found = _digest(thing) if there else "new"
            replaced = {other for one, other, _ in there if one != found and other is not None}
            for other in replaced - {source}:
                raise UserError(
                    f"{thing.where}: '{thing.name}' is in the index already, from "
                    f"{sources[other]}. Remove that one first (--remove), or give this one "
                    "another name."
                )
            self._db.execute(
                "DELETE FROM known WHERE id = ? AND digest != ? AND source IS NOT NULL",
                (thing.name, found),
            )
            if any(one == found for one, *_ in there):
                self._db.execute(
                    "UPDATE known SET seen = 1 WHERE id = ? AND digest = ?", (thing.name, found)
                )
                remove_copies([thing])
                continue
            self._db.execute(
                "INSERT INTO known VALUES (?, ?, NULL, NULL, NULL, 1, 0)", (thing.name, found)
            )
            yield thing

    def kept(self, shard: str) -> tuple[list[int], list[str]]:
        """Which rows of a shard stay, and which of its left out things, by name."""
        found = self._db.execute(
            "SELECT row, id, left_out FROM known WHERE shard = ? "
            "AND (seen OR source IS NOT NULL) ORDER BY row",
            (shard,),
        ).fetchall()
        return [k for k, _, out in found if not out], [name for _, name, out in found if out]


def _digest(thing: Thing) -> str:
    """The thing's digest, or nothing where its picture cannot be read, as in a shard's record."""
    try:
        return digest(thing)
    except UserError:
        return ""


def _bring_up_to_date(
    folder: Path,
    record: dict[str, Any],
    source: Path,
    encoder: TextEncoder,
    write: WriteShards,
) -> Changes:
    """Encode what of a source is not in a folder yet, and put all into its record."""
    place = os.path.abspath(source)
    sources = list(dict.fromkeys([*record["sources"], place]))
    number, before = sources.index(place), _size(record)
    entries = {str(entry["name"]): entry for entry in record["shards"]}
    pending = [name for name in _names(folder) if name not in entries and _is_whole(folder, name)]
    folder = folder.resolve()  # workers may start elsewhere
    unpacked = folder / "shards" / "unpacked"
    free = _free_names(folder)
    made: list[str] = []

    def units() -> Iterator[Unit]:
        while things := tuple(islice(new, sharding.SHARD)):
            made.append(next(free))
            yield folder / "shards" / made[-1], things

    for path in (unpacked, *(folder / "shards").glob(".*.part")):  # of a process that was killed
        shutil.rmtree(path, ignore_errors=True)
    with closing(_Known()) as known:
        for name in (*entries, *pending):
            origin = entries[name]["source"] if name in entries else None
            try:
                count = known.take(name, origin, _stored(folder, name))
                if name in entries and count != entries[name]["things"]:
                    raise ValueError("rows are missing")
            except (OSError, ValueError, KeyError) as error:
                raise _damaged(folder, name, error) from None
        try:
            unpacked.mkdir(parents=True)
            new = known.new(read_things(source, unpacked), number, sources)
            write(units(), encoder)
            if not source.exists():
                raise UserError(
                    f"{source}: has gone while it was indexed. When it is back, the same command "
                    "goes on."
                )
        except OSError as error:
            raise unwritable(folder, error) from error
        except sqlite3.Error as error:
            raise UserError(
                f"The folder for temporary files cannot be written ({error}). Free space on its "
                "disk, or set TMPDIR to another folder."
            ) from error
        finally:
            shutil.rmtree(unpacked, ignore_errors=True)
        there = [
            one
            for name, entry in entries.items()
            for one in _kept(folder, entry, *known.kept(name), free)
        ]
        added = [
            one
            for name in pending
            for one in _kept(folder, _entry(folder, name, number), *known.kept(name), free)
        ]
    added += [_entry(folder, name, number) for name in made]
    added.sort(key=lambda entry: int(entry["name"]))
    left_out = (one for entry in added for one in _stored(folder, entry["name"]).left_out())
    first, lacking = next(left_out, None), 1 + sum(1 for _ in left_out)
    record["shards"] = [entry for entry in (*there, *added) if entry["things"]]
    record["sources"] = sources
    if not record["shards"]:
        why = first["why"] if first else ""
        raise UserError(f"{source}: nothing of it can be indexed. {why}")
    if first:
        log.warning(
            "%s: %d left out. The first is '%s'. %s", source, lacking, first["id"], first["why"]
        )
    _commit(folder, record)
    new_ones = sum(int(entry["things"]) for entry in added)
    gone = before + new_ones - _size(record)
    return Changes(_size(record), new_ones, gone, lacking if first else 0)


# ---------------------------------------------------------------------------- shards and record


def _names(folder: Path) -> list[str]:
    """The names of all shards that are there."""
    names = [path.name for path in (folder / "shards").iterdir() if path.name.isdecimal()]
    return sorted(names, key=int)


def _free_names(folder: Path) -> Iterator[str]:
    """Names that no shard has: those of shards that are missing first."""
    taken, number = set(_names(folder)), 0
    while True:
        if f"{number:05}" not in taken:
            yield f"{number:05}"
        number += 1


def _stored(folder: Path, name: str) -> Stored:
    return Stored(folder / "shards" / name)


def _entry(folder: Path, name: str, source: int) -> dict[str, Any]:
    """What the record says of a shard.

    Raises:
        UserError: it is damaged.
    """
    try:
        return {"name": name, "source": source, **_stored(folder, name).counts}
    except UserError:
        raise
    except Exception as error:  # a damaged file makes NumPy raise nearly anything
        raise _damaged(folder, name, error) from None


def _damaged(folder: Path, name: str, error: Exception) -> UserError:
    return UserError(f"{folder / 'shards' / name}: is damaged ({reason(error)}). Index again.")


def _is_whole(folder: Path, name: str) -> bool:
    """Whether a shard that nothing names yet can be used; else it is removed."""
    try:
        _entry(folder, name, 0)
    except UserError as error:
        log.warning("%s It is made again.", str(error).removesuffix(" Index again."))
        shutil.rmtree(folder / "shards" / name, ignore_errors=True)
        return False
    return True


def _kept(
    folder: Path,
    entry: dict[str, Any],
    rows: Sequence[int],
    left_out: Sequence[str],
    free: Iterator[str],
) -> list[dict[str, Any]]:
    """The record of a shard of which only these rows stay: it is copied, unless all of them do."""
    stored = _stored(folder, entry["name"])
    if len(rows) == entry["things"] and len(left_out) == sum(1 for _ in stored.left_out()):
        return [entry]
    if not rows:
        return []
    name = next(free)
    copy_shard(stored, rows, left_out, folder / "shards" / name)
    return [_entry(folder, name, entry["source"])]


def _size(record: Mapping[str, Any]) -> int:
    return sum(int(entry["things"]) for entry in record["shards"])


def _commit(folder: Path, record: dict[str, Any]) -> None:
    """Write what belongs to all shards, then the record, and remove what it does not name."""
    names = [str(entry["name"]) for entry in record["shards"]]
    known: dict[str, Moments] = {}
    for name in names:
        for track, one in _stored(folder, name).moments().items():
            known[track] = known[track] + one if track in known else one
    before, record["whole"] = record["whole"], record["whole"] + 1
    whole = folder / "whole" / str(record["whole"])
    try:
        shutil.rmtree(whole, ignore_errors=True)
        whole.mkdir(parents=True)
        write_moments(whole / "moments.npz", known)
        if record["engine"] == "lance":
            from admire.tasks.collections.lance import build_lance

            build_lance(whole, known, [_stored(folder, name) for name in names])
    except OSError as error:
        record["whole"] = before
        raise unwritable(whole, error) from error
    _write_record(folder, record)
    for path in (folder / "shards").iterdir():
        if path.name not in names:
            shutil.rmtree(path, ignore_errors=True)
    for path in (folder / "whole").iterdir():
        if path != whole:
            shutil.rmtree(path, ignore_errors=True)


def _write_record(folder: Path, record: Mapping[str, Any]) -> None:
    with write_whole(folder / "index.json") as file:
        json.dump(record, file, indent=1)


def _check_engine(engine: str) -> None:
    """Refuse the engine ``lance`` before anything is encoded, if its packages are missing."""
    if engine == "lance":
        import admire.tasks.collections.lance  # noqa: F401
