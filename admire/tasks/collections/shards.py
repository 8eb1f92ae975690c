"""Shards: parts of a collection with their vectors, each written whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, cast
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from admire.base.choices import TRACKS
from admire.base.errors import UserError
from admire.base.files import parse_json, regular
from admire.base.machine import cores
from admire.base.storage import write_whole
from admire.data.items import Candidate
from admire.models.encoders import ImageEncoder, TextEncoder, Vectors
from admire.tasks.collections.sources import Thing

SHARD = 8192
"""How many things a shard has: 12 MB of vectors at 384 dimensions."""

BLOCK = 65_536
"""How many vectors are summed at once: 200 MB of float64 at 384 dimensions."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Moments:
    """Sums over a collection's vectors; those of its parts add up to those of the whole.

    They give the mean and the deviation of any query's cosines with the whole collection.

    Attributes:
        count: how many vectors there are.
        sums: of the vectors, shape (width,).
        products: of their outer products, shape (width, width).
    """

    count: int
    sums: npt.NDArray[np.float64]
    products: npt.NDArray[np.float64]

    def __add__(self, other: Moments) -> Moments:
        sums, products = self.sums + other.sums, self.products + other.products
        return Moments(self.count + other.count, sums, products)

    def of(self, query: npt.ArrayLike) -> tuple[float, float]:
        """Mean and deviation of the query's cosines; the deviation is 1 if all are equal."""
        vector = np.asarray(query, dtype=float)
        mean = float(vector @ self.sums) / self.count
        variance = float(vector @ self.products @ vector) / self.count - mean**2
        return mean, variance**0.5 if variance > 1e-12 else 1.0


def moments(vectors: Vectors) -> Moments:
    """The moments of vectors, shape (n, width), computed block by block."""
    width = vectors.shape[1]
    found = Moments(len(vectors), np.zeros(width), np.zeros((width, width)))
    for start in range(0, len(vectors), BLOCK):
        part = np.asarray(vectors[start : start + BLOCK]).astype(float)
        found += Moments(0, part.sum(axis=0), part.T @ part)
    return found


def write_moments(
    path: Path, known: Mapping[str, Moments], more: Mapping[str, Mask] | None = None
) -> None:
    """Write the moments of each track, and more arrays beside them."""
    arrays: dict[str, Any] = dict(more or {})
    for track, one in known.items():
        arrays[f"{track}_count"] = one.count
        arrays[f"{track}_sums"] = one.sums
        arrays[f"{track}_products"] = one.products
    with write_whole(path, "wb") as file:
        np.savez(file, **arrays)


def read_moments(path: Path) -> dict[str, Moments]:
    """What :func:`write_moments` wrote."""
    with np.load(path) as stored:
        if any(one.compress_type for one in stored.zip.infolist()):  # it may swell a thousandfold
            raise ValueError("it is compressed")
        found = {
            track: Moments(
                int(stored[f"{track}_count"]), stored[f"{track}_sums"], stored[f"{track}_products"]
            )
            for track in TRACKS
            if f"{track}_count" in stored
        }
    for one in found.values():
        if one.count < 1 or one.sums.ndim != 1 or one.products.shape != 2 * one.sums.shape:
            raise ValueError("its moments do not belong together")
        if not (np.isfinite(one.sums).all() and np.isfinite(one.products).all()):
            raise ValueError("a moment is not finite")
    return found


class Shard(Protocol):
    """Some things of a collection with their vectors.

    Attributes:
        counts: of its things, under ``things``, and of the vectors in each track that it has.
    """

    @property
    def counts(self) -> Mapping[str, int]: ...

    def vectors(self, track: str) -> Vectors:
        """Unit vectors, shape (things, width); zeros for what a thing lacks."""
        ...

    def there(self, track: str) -> Mask | None:
        """Which things have a vector in the track; None where all have."""
        ...

    def things(self, rows: Sequence[int]) -> list[Candidate]:
        """The things in these rows."""
        ...


@dataclass(frozen=True)
class Held:
    """A shard in memory.

    Attributes:
        held: all its things.
        encoded: their vectors by track.
        masks: which things have a vector, by track.
    """

    held: Sequence[Candidate]
    encoded: Mapping[str, Vectors]
    masks: Mapping[str, Mask]

    @property
    def counts(self) -> Mapping[str, int]:
        """See :class:`Shard`."""
        return {"things": len(self.held)} | {t: int(m.sum()) for t, m in self.masks.items()}

    def vectors(self, track: str) -> Vectors:
        """See :class:`Shard`."""
        return self.encoded[track]

    def there(self, track: str) -> Mask | None:
        """See :class:`Shard`."""
        return None if self.masks[track].all() else self.masks[track]

    def things(self, rows: Sequence[int]) -> list[Candidate]:
        """See :class:`Shard`."""
        return [self.held[row] for row in rows]

    def moments(self) -> dict[str, Moments]:
        """The moments of each track."""
        return {track: moments(known[self.masks[track]]) for track, known in self.encoded.items()}


@dataclass(frozen=True)
class Stored:
    """A shard on disk.

    Its folder holds ``things.jsonl`` (a thing a line, in the order of the vectors), ``image.npy``
    and ``caption.npy`` (vectors, where there are any), ``moments.npz`` (the track's moments, and
    which things are there), and ``left_out.jsonl`` (things that could not be encoded, and why).

    Attributes:
        known: the counts, where they are known without reading the files.
    """

    folder: Path
    known: Mapping[str, int] | None = None

    @property
    def counts(self) -> Mapping[str, int]:
        """See :class:`Shard`."""
        return self.known or self._counted

    @cached_property
    def _counted(self) -> dict[str, int]:
        """What the files hold; damaged ones raise errors of all kinds."""
        size = sum(1 for _ in self.rows())
        found = {"things": size}
        with np.load(self.folder / "moments.npz") as stored:
            for track in TRACKS:
                if f"{track}_count" in stored:
                    if self.vectors(track).shape != (size, len(stored[f"{track}_sums"])):
                        raise ValueError("its files do not belong together")
                    found[track] = int(stored[f"{track}_count"])
        return found

    def vectors(self, track: str) -> Vectors:
        """See :class:`Shard`. They stay on disk until they are used."""
        path = self.folder / f"{track}.npy"
        if track not in self._layouts:
            first = np.load(path, mmap_mode="r")
            self._layouts[track] = first.dtype, first.offset, first.shape
        dtype, offset, shape = self._layouts[track]
        with path.open("rb") as file:  # a quarter of the time that np.load takes
            return cast(Vectors, np.memmap(file, dtype, "r", offset, shape))

    @cached_property
    def _layouts(self) -> dict[str, tuple[Any, int, tuple[int, ...]]]:
        """Type, offset and shape of each track's vectors, as far as they have been used."""
        return {}

    def there(self, track: str) -> Mask | None:
        """See :class:`Shard`."""
        if self.counts[track] == self.counts["things"]:
            return None
        path = self.folder / "moments.npz"
        try:
            with np.load(path) as stored:
                mask: Mask = stored[f"{track}_there"]
            if mask.shape != (self.counts["things"],) or mask.dtype != bool:
                raise ValueError("it is of other things")
        except Exception as error:  # a damaged file makes NumPy raise nearly anything
            raise _broken(path, error) from None
        return mask

    def moments(self) -> dict[str, Moments]:
        """The moments of each track."""
        path = self.folder / "moments.npz"
        try:
            return read_moments(path)
        except Exception as error:  # as above
            raise _broken(path, error) from None

    def things(self, rows: Sequence[int]) -> list[Candidate]:
        """See :class:`Shard`."""
        content = (self.folder / "things.jsonl").read_bytes()
        ends = np.flatnonzero(np.frombuffer(content, dtype=np.uint8) == ord("\n"))
        starts = np.concatenate([[0], ends + 1])
        try:
            return [_thing(_checked(content[starts[row] : ends[row]])) for row in rows]
        except (ValueError, IndexError) as error:
            raise _broken(self.folder / "things.jsonl", error) from None

    def rows(self) -> Iterator[dict[str, Any]]:
        """``id``, ``image``, ``caption`` and ``digest`` of each thing."""
        return _rows(self.folder / "things.jsonl")

    def left_out(self) -> Iterator[dict[str, Any]]:
        """``id``, ``digest`` and ``why`` of each thing that could not be encoded."""
        return _rows(self.folder / "left_out.jsonl")


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with regular(path).open("rb") as file:
            for line in file:
                yield _checked(line)
    except (OSError, ValueError) as error:
        raise _broken(path, error) from None


def _checked(line: bytes) -> dict[str, Any]:
    """The row in a line of a shard's file."""
    row = parse_json(line)
    if not isinstance(row, dict) or not {"id", "digest"} <= row.keys():
        raise ValueError("a row lacks something")
    if not all(isinstance(row[name], str) for name in ("id", "digest")):
        raise ValueError("a row holds something else than texts")
    if not all(isinstance(row.get(name), str | None) for name in ("image", "caption", "why")):
        raise ValueError("a row holds something else than texts")
    return row


def _broken(path: Path, error: Exception) -> UserError:
    return UserError(f"{path}: is damaged ({reason(error)}). Index again.", "index")


def reason(error: Exception) -> str:
    """Why a file of an index cannot be read, without what NumPy says of objects of Python."""
    said = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return said if said and " object at 0x" not in said else "its content cannot be read"


def _thing(row: Mapping[str, Any]) -> Candidate:
    image = row.get("image")
    return Candidate(row["id"], Path(image) if image else None, row.get("caption"))


# -------------------------------------------------------------------------------------- writing


def write_shard(folder: Path, things: Sequence[Thing], encoder: TextEncoder) -> None:
    """Encode things, and write them as a :class:`Stored` shard, which appears when it is whole.

    A folder that is there already is left as it is. Things whose picture is damaged, and those
    that have nothing that the encoder reads, are written down as left out.

    Raises:
        UserError: the encoder fails otherwise, or the folder cannot be written.
    """
    digests = _each(digest, things)
    left_out = {k: str(found) for k, found in enumerate(digests) if isinstance(found, UserError)}
    left_out |= _unfit(things, encoder)
    kept, vectors = [], None
    while vectors is None:
        kept = [k for k in range(len(things)) if k not in left_out]
        try:
            vectors = encode([things[k] for k in kept], encoder)
        except UserError:
            damaged = _damaged(things, kept)
            if not damaged:
                raise
            left_out |= damaged
    rows = [_row(things[k], str(digests[k])) for k in kept]
    whys = [
        {
            "id": things[k].name,
            "digest": "" if isinstance(digests[k], UserError) else digests[k],
            "why": why.replace(str(things[k].file), str(things[k].image)),
        }
        for k, why in sorted(left_out.items())
    ]
    _store(folder, rows, vectors, whys)


def copy_shard(shard: Stored, rows: Iterable[int], left_out: Iterable[str], folder: Path) -> None:
    """Write some rows of a shard, and some of what it leaves out, by name, as another one.

    Raises:
        UserError: the folder cannot be written.
    """
    kept = sorted(rows)
    known = list(shard.rows())
    masks: dict[str, Mask] = {}
    vectors: dict[str, Vectors] = {}
    for track in shard.counts.keys() - {"things"}:
        there = shard.there(track)
        mask = np.ones(len(known), dtype=bool) if there is None else there
        if mask[kept].any():
            masks[track], vectors[track] = mask[kept], np.asarray(shard.vectors(track)[kept])
    names = set(left_out)
    whys = [one for one in shard.left_out() if one["id"] in names]
    things = [_thing(known[row]) for row in kept]
    _store(folder, [known[row] for row in kept], Held(things, vectors, masks), whys)


def digest(thing: Thing) -> str:
    """What tells a thing's content from others: 128 bits of its picture and caption.

    Raises:
        UserError: the picture cannot be read.
    """
    from admire.data.pictures import read_bytes

    content = hashlib.sha256()
    if thing.file:
        content.update(hashlib.sha256(read_bytes(thing.file)).digest())
    content.update((thing.caption or "").encode())
    return content.hexdigest()[:32]


def encode(things: Sequence[Thing] | Sequence[Candidate], encoder: TextEncoder) -> Held:
    """Things with their vectors, in the tracks that they have and the encoder reads.

    Raises:
        UserError: a picture cannot be read, or the encoder fails.
    """
    encoded: dict[str, Vectors] = {}
    masks: dict[str, Mask] = {}
    for track in _tracks(encoder):
        mask = np.array([bool(getattr(thing, track)) for thing in things], dtype=bool)
        if not mask.any():
            continue
        if track == "image":
            files = [one.file if isinstance(one, Thing) else one.image for one in things]
            images = [file for file in files if file]
            found = cast(ImageEncoder, encoder).encode_images(images)
        else:
            captions = [thing.caption for thing in things if thing.caption]
            found = encoder.encode_texts(captions, role="document")
        encoded[track] = np.zeros((len(things), found.shape[1]), dtype=np.float32)
        encoded[track][mask] = found
        masks[track] = mask
    return Held(things, encoded, masks)


def _tracks(encoder: TextEncoder) -> tuple[str, ...]:
    return TRACKS if isinstance(encoder, ImageEncoder) else ("caption",)


def _unfit(things: Sequence[Thing], encoder: TextEncoder) -> dict[int, str]:
    """Why the encoder cannot read some things, by their places."""
    why = f"has no caption, and the encoder '{encoder.name}' reads no pictures"
    tracks = _tracks(encoder)
    return {
        k: f"{thing.image}: {why}."
        for k, thing in enumerate(things)
        if not any(getattr(thing, track) for track in tracks)
    }


def _damaged(things: Sequence[Thing], places: Sequence[int]) -> dict[int, str]:
    """What is wrong with the pictures of some things, by their places."""
    from admire.data.pictures import read_image

    def look(thing: Thing) -> None:
        if thing.file:
            read_image(thing.file)

    looked = zip(places, _each(look, [things[k] for k in places]), strict=True)
    return {k: str(error) for k, error in looked if isinstance(error, UserError)}


def _each(function: Any, things: Sequence[Thing]) -> list[Any]:
    """What the function gives for each thing, or the user's error that it ends in, by threads."""

    def tried(thing: Thing) -> Any:
        try:
            return function(thing)
        except UserError as error:
            return error

    with ThreadPoolExecutor(cores()) as pool:
        return list(pool.map(tried, things))


def _row(thing: Thing, content: str) -> dict[str, Any]:
    image = str(thing.image) if thing.image else None
    return {"id": thing.name, "image": image, "caption": thing.caption, "digest": content}


def _store(
    folder: Path,
    rows: Iterable[Mapping[str, Any]],
    encoded: Held,
    left_out: Iterable[Mapping[str, Any]],
) -> None:
    """Write a :class:`Stored` shard of these rows, vectors and things that were left out.

    Raises:
        UserError: the folder cannot be written.
    """
    with _whole_folder(folder) as part:
        for track, vectors in encoded.encoded.items():
            with write_whole(part / f"{track}.npy", "wb") as file:
                np.save(file, vectors)
        masks = {f"{track}_there": mask for track, mask in encoded.masks.items()}
        write_moments(part / "moments.npz", encoded.moments(), masks)
        for name, lines in (("things", rows), ("left_out", left_out)):
            with write_whole(part / f"{name}.jsonl") as file:
                for line in lines:
                    file.write(json.dumps(line, ensure_ascii=False) + "\n")


@contextmanager
def _whole_folder(folder: Path) -> Iterator[Path]:
    """A folder to write into, which gets its name when it is complete, unless that is taken."""
    part = folder.with_name(f".{folder.name}.{uuid4().hex}.part")
    try:
        part.mkdir(parents=True)
        yield part
        if not folder.exists():
            os.rename(part, folder)
    except OSError as error:
        if not folder.exists():  # else another process was faster
            raise UserError(
                f"{folder}: cannot be written ({error.strerror or error}). Free space on the disk."
            ) from error
    except UserError as error:
        raise UserError(str(error).replace(str(part), str(folder)), *error.settings) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
