"""Exact search: all vectors of a collection, in memory or in plain files, and their moments."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any
from zipfile import is_zipfile

import numpy as np
import numpy.typing as npt

from admire.base.choices import TRACKS
from admire.base.machine import cores
from admire.data.items import Candidate
from admire.models.encoders import Vectors
from admire.tasks.collections.encoding import Encoded, Mask

BLOCK = 8192
"""How many vectors are read at once: 12 MB at 384 dimensions."""

Places = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Moments:
    """Sums over vectors; those of a collection's parts add up to those of the whole.

    They give the mean and the deviation of any query's cosines with the whole collection.

    Attributes:
        count: how many vectors there are.
        sums: of the vectors, shape (width,).
        products: of their outer products, shape (width, width).
    """

    count: int
    sums: npt.NDArray[np.float64]
    products: npt.NDArray[np.float64]

    def plus(self, other: Moments, times: int = 1) -> Moments:
        """With the vectors of another part, or, -1 times, without them."""
        return Moments(
            self.count + times * other.count,
            self.sums + times * other.sums,
            self.products + times * other.products,
        )

    def of(self, query: npt.ArrayLike) -> tuple[float, float]:
        """Mean and deviation of the query's cosines; the deviation is 1 if all are equal."""
        vector = np.asarray(query, dtype=float)
        mean = float(vector @ self.sums) / self.count
        variance = float(vector @ self.products @ vector) / self.count - mean**2
        return mean, variance**0.5 if variance > 1e-12 else 1.0


def moments(vectors: Vectors, there: Mask) -> Moments:
    """The moments of those vectors, shape (n, width), that are there; the others are zeros."""
    part = vectors.astype(float)
    return Moments(int(there.sum()), part.sum(axis=0), part.T @ part)


@dataclass(frozen=True)
class Track:
    """The vectors of a collection's pictures, or of its captions.

    Attributes:
        vectors: opens them, shape (things, width). Those on disk are mapped into memory for as
            long as they are used, and the pages that were read go with them.
        there: which things have one; None if all do.
        moments: of those that are there.
    """

    vectors: Callable[[], Vectors]
    there: Mask | None
    moments: Moments


@dataclass(frozen=True)
class Query:
    """What a track's vectors are compared with: d scores vector · d − offset."""

    vector: Vectors
    offset: float


def tracks_in_memory(encoded: Encoded) -> dict[str, Track]:
    """Tracks of vectors in memory."""
    return {
        name: Track(partial(np.asarray, vectors), _some(there), moments(vectors, there))
        for (name, vectors), there in zip(
            encoded.vectors.items(), encoded.there.values(), strict=True
        )
    }


def _some(there: Mask) -> Mask | None:
    return None if there.all() else there


def search_all(
    tracks: Mapping[str, Track], size: int, queries: Mapping[str, Query], k: int
) -> tuple[Places, Scores]:
    """The k best of all things, best first, by several threads; of equal ones the first.

    Args:
        size: how many things there are.
        queries: by track.
    """

    def look(start: int) -> tuple[Places, Scores]:
        places = np.arange(start, min(start + BLOCK, size))
        return best(places, _scores(tracks, queries, slice(start, start + BLOCK), len(places)), k)

    places, scores = np.zeros(0, dtype=np.int64), np.zeros(0)
    with ThreadPoolExecutor(cores()) as pool:
        for some, theirs in pool.map(look, range(0, size, BLOCK)):
            both = np.concatenate([places, some]), np.concatenate([scores, theirs])
            places, scores = best(*both, k)
    return places, scores


def search_some(
    tracks: Mapping[str, Track], places: Places, queries: Mapping[str, Query], k: int
) -> tuple[Places, Scores]:
    """As :func:`search_all`, among the things at some places."""
    return best(places, _scores(tracks, queries, places, len(places)), k)


def best(places: Places, scores: Scores, k: int) -> tuple[Places, Scores]:
    """The k best of some scores, best first; of equal ones those that come first."""
    if len(scores) > k:
        kept = scores >= np.partition(scores, -k)[-k]
        places, scores = places[kept], scores[kept]
    order = np.lexsort((places, -scores))[:k]
    return places[order], scores[order]


def _scores(
    tracks: Mapping[str, Track], queries: Mapping[str, Query], rows: slice | Places, count: int
) -> Scores:
    """The scores of some things. What a thing lacks adds 0."""
    total = np.zeros(count)
    for name, query in queries.items():
        vectors = tracks[name].vectors()[rows]
        # einsum: threads of BLAS, several to a product, wait long for each other on a busy machine
        scores = np.einsum("ij,j->i", vectors, query.vector).astype(float) - query.offset
        there = tracks[name].there
        total += scores if there is None else np.where(there[rows], scores, 0.0)
    return total


# --------------------------------------------------------------------------------------- on disk


@dataclass(frozen=True)
class Block:
    """Some things of an index with their vectors.

    Attributes:
        places: their places in the index, which grow with each thing that is added.
        lines: ``[name, path, caption]`` of each, as JSON.
        encoded: their vectors.
    """

    places: Places
    lines: Sequence[bytes]
    encoded: Encoded


def write_files(folder: Path, places: Places, blocks: Iterable[Block], old: Files | None) -> None:
    """Write what exact search needs, in the order of the things' places.

    - ``things.jsonl``: ``[name, path, caption]`` a line, and ``spans.npy``: where each line starts
      and ends;
    - ``places.npy``: the things' places;
    - ``image.npy``, ``caption.npy``: unit vectors, float32, zeros for what a thing lacks;
    - ``moments.npz``: the moments of each track, and which things have it.

    Args:
        places: of all things that are to be there, ascending.
        blocks: those that are not in the old files.
        old: the files before; what is in them need not be read again, nor summed.

    Raises:
        OSError: the folder cannot be written.
    """
    size = len(places)
    spans = np.zeros((size, 2), dtype=np.int64)
    arrays: dict[str, Any] = {}
    total: dict[str, Moments] = old.moments_without(places) if old else {}
    folder.mkdir(parents=True)
    with ExitStack() as stack:
        lines: IO[bytes] = stack.enter_context((folder / "things.jsonl").open("wb"))
        files: dict[str, tuple[IO[bytes], int]] = {}

        def write(block: Block) -> None:
            rows = np.searchsorted(places, block.places)
            ends = lines.tell() + np.cumsum([len(line) for line in block.lines])
            spans[rows, 1], spans[rows, 0] = ends, np.append(lines.tell(), ends[:-1])
            lines.write(b"".join(block.lines))
            for track, vectors in block.encoded.vectors.items():
                if track not in files:
                    file: IO[bytes] = stack.enter_context((folder / f"{track}.npy").open("wb"))
                    files[track] = file, _write_header(file, size, vectors.shape[1])
                    arrays[f"{track}_there"] = np.zeros(size, dtype=bool)
                arrays[f"{track}_there"][rows] = block.encoded.there[track]
                _write_rows(*files[track], rows, vectors)

        for block in old.blocks(places) if old else ():
            write(block)
        for block in blocks:
            write(block)
            for track, vectors in block.encoded.vectors.items():
                part = moments(vectors, block.encoded.there[track])
                total[track] = total[track].plus(part) if track in total else part
        for track, (vectors_file, start) in files.items():  # the last things may lack the track
            vectors_file.truncate(start + 4 * size * len(total[track].sums))
            vectors_file.flush()
            os.fsync(vectors_file.fileno())
    np.save(folder / "places.npy", places)
    np.save(folder / "spans.npy", spans)
    for track, one in total.items():
        arrays[f"{track}_count"] = one.count
        arrays[f"{track}_sums"] = one.sums
        arrays[f"{track}_products"] = one.products
    np.savez(folder / "moments.npz", **arrays)


def _write_header(file: IO[bytes], size: int, width: int) -> int:
    """Begin a file of float32 vectors, and return where the vectors start."""
    header = {"descr": "<f4", "fortran_order": False, "shape": (size, width)}
    np.lib.format.write_array_header_1_0(file, header)
    return file.tell()


def _write_rows(file: IO[bytes], start: int, rows: Places, vectors: Vectors) -> None:
    """Write vectors to their rows, which mostly follow each other."""
    cuts = np.flatnonzero(np.diff(rows) != 1) + 1
    for first, part in zip(rows[np.append(0, cuts)], np.split(vectors, cuts), strict=True):
        file.seek(start + int(first) * part[0].nbytes)
        file.write(np.ascontiguousarray(part, dtype="<f4").data)


@dataclass(frozen=True)
class Files:
    """What :func:`write_files` wrote. The files stay open, so it does not matter if another process
    changes the index and removes them.

    Attributes:
        tracks: the vectors.
        places: of the things, ascending.
    """

    tracks: Mapping[str, Track]
    places: Places
    spans: Places
    lines: IO[bytes]

    def things(self, rows: Sequence[int]) -> list[Candidate]:
        """The things in these rows."""
        found = []
        for line in self._lines(rows):
            name, image, caption = json.loads(line)
            found.append(Candidate(name, Path(image) if image else None, caption))
        return found

    def _lines(self, rows: Any) -> list[bytes]:
        content = memoryview(np.memmap(self.lines, np.uint8, "r"))  # type: ignore[arg-type]
        return [bytes(content[start:end]) for start, end in self.spans[rows].tolist()]

    def _parts(self, wanted: Mask) -> Iterator[tuple[Places, Encoded]]:
        """Some rows with their vectors, block by block."""
        for start in range(0, len(wanted), BLOCK):
            rows = start + np.flatnonzero(wanted[start : start + BLOCK])
            if len(rows):
                vectors = {name: track.vectors()[rows] for name, track in self.tracks.items()}
                there = {
                    name: np.ones(len(rows), bool) if track.there is None else track.there[rows]
                    for name, track in self.tracks.items()
                }
                yield rows, Encoded(vectors, there)

    def blocks(self, places: Places) -> Iterator[Block]:
        """Those things that have these places."""
        for rows, encoded in self._parts(np.isin(self.places, places)):
            yield Block(self.places[rows], self._lines(rows), encoded)

    def moments_without(self, places: Places) -> dict[str, Moments]:
        """The moments of those things that have these places, as all without the others."""
        total = {name: track.moments for name, track in self.tracks.items()}
        for _, encoded in self._parts(~np.isin(self.places, places)):
            for name, vectors in encoded.vectors.items():
                total[name] = total[name].plus(moments(vectors, encoded.there[name]), -1)
        return total


def open_files(folder: Path) -> Files:
    """Open what :func:`write_files` wrote.

    Raises:
        OSError, ValueError, KeyError: files are missing, damaged, or of different collections.
    """
    if not is_zipfile(folder / "moments.npz"):
        raise ValueError("moments.npz is missing or cut off")
    places = np.load(folder / "places.npy", mmap_mode="r")
    spans = np.load(folder / "spans.npy", mmap_mode="r")
    tracks: dict[str, Track] = {}
    with np.load(folder / "moments.npz") as stored:
        for track in TRACKS:
            if not stored.get(f"{track}_count"):
                continue
            names = ("count", "sums", "products")
            count, sums, products = (stored[f"{track}_{name}"] for name in names)
            there = stored[f"{track}_there"]
            vectors = np.load(folder / f"{track}.npy", mmap_mode="r")
            if vectors.shape != (len(places), len(sums)) or there.shape != places.shape:
                raise ValueError("its files do not belong together")
            file = (folder / f"{track}.npy").open("rb")
            opener: Any = partial(
                np.memmap, file, vectors.dtype, "r", vectors.offset, vectors.shape
            )
            tracks[track] = Track(opener, _some(there), Moments(int(count), sums, products))
    if not tracks or spans.shape != (len(places), 2):
        raise ValueError("its files do not belong together")
    return Files(tracks, places, spans, (folder / "things.jsonl").open("rb"))
