"""An index: a collection's shards, what belongs to all of them, and exact search in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from admire.base.choices import TRACKS
from admire.base.errors import UserError
from admire.base.files import parse_json, regular
from admire.base.machine import cores
from admire.data.items import Candidate
from admire.models.encoders import TextEncoder, Vectors
from admire.tasks.collections.shards import (
    Mask,
    Moments,
    Shard,
    Stored,
    encode,
    read_moments,
    reason,
)

FORMAT = 2
"""Of index folders; the first held texts only, and no shards."""

Places = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Asked:
    """What a track's vectors are compared with: d scores query · d − offset."""

    query: Vectors
    offset: float


class Engine(Protocol):
    """Finds the things with the highest scores, exactly or approximately."""

    def search(self, asked: Mapping[str, Asked], k: int) -> tuple[Places, Scores]:
        """Positions and scores of the k best, best first, for what each track is asked."""
        ...


@dataclass(frozen=True)
class Exact:
    """Compares every vector. Those on disk are read shard by shard, a shard a processor."""

    shards: Sequence[Shard]

    def search(self, asked: Mapping[str, Asked], k: int) -> tuple[Places, Scores]:
        """See :class:`Engine`. Of equal scores the first is taken."""

        def look(shard: Shard, first: int) -> tuple[Places, Scores]:
            scores = _all_scores(shard, asked)
            return best(first + np.arange(len(scores)), scores, k)

        places, scores = np.zeros(0, dtype=np.int64), np.zeros(0)
        firsts = accumulate((shard.counts["things"] for shard in self.shards), initial=0)
        with ThreadPoolExecutor(cores()) as pool:
            for some, found in pool.map(look, self.shards, firsts):
                both = np.concatenate([places, some]), np.concatenate([scores, found])
                places, scores = best(*both, k)
        return places, scores


def best(places: Places, scores: Scores, k: int) -> tuple[Places, Scores]:
    """The k best of some scores, best first; of equal ones those that come first."""
    if len(scores) > k:
        kept = scores >= np.partition(scores, -k)[-k]
        places, scores = places[kept], scores[kept]
    order = np.lexsort((places, -scores))[:k]
    return places[order], scores[order]


def _all_scores(shard: Shard, asked: Mapping[str, Asked]) -> Scores:
    """The scores of a shard's things."""
    total = np.zeros(shard.counts["things"])
    for track in asked.keys() & shard.counts.keys():
        total += _scores(np.asarray(shard.vectors(track)), asked[track], shard.there(track))
    return total


def score_places(
    shards: Sequence[Shard], asked: Mapping[str, Asked], places: Places
) -> tuple[Places, Scores]:
    """The exact scores of things at some positions, in the order of the positions."""
    places = np.sort(places)
    total = np.zeros(len(places))
    for shard, (low, high), first in located(shards, places):
        rows = places[low:high] - first
        for track in asked.keys() & shard.counts.keys():
            vectors = np.asarray(shard.vectors(track)[rows])
            total[low:high] += _scores(vectors, asked[track], np.any(vectors != 0, axis=1))
    return places, total


def _scores(vectors: Vectors, asked: Asked, there: Mask | None) -> Scores:
    # einsum: threads of BLAS, several to a product, wait long for each other on a busy machine
    found: Scores = np.einsum("ij,j->i", vectors, asked.query).astype(float) - asked.offset
    return found if there is None else np.where(there, found, 0.0)


def located(
    shards: Sequence[Shard], places: Places
) -> Iterator[tuple[Shard, tuple[int, int], int]]:
    """Where sorted positions lie: the shard, from where to where in them, its first position."""
    first = 0
    for shard in shards:
        last = first + shard.counts["things"]
        low, high = np.searchsorted(places, [first, last]).tolist()
        if high > low:
            yield shard, (low, high), first
        first = last


@dataclass(frozen=True)
class Index:
    """A collection that can be searched.

    Attributes:
        encoder: name and identity of the encoder of its pictures and captions.
        moments: of all vectors, by track.
        shards: its things with their vectors.
        engine: finds the best.
    """

    encoder: Mapping[str, str]
    moments: Mapping[str, Moments]
    shards: Sequence[Shard]
    engine: Engine

    @property
    def size(self) -> int:
        """How many things there are."""
        return sum(shard.counts["things"] for shard in self.shards)

    @property
    def pictures(self) -> bool:
        """Whether pictures are among them that the encoder has seen."""
        return "image" in self.moments

    def things(self, places: Sequence[int]) -> list[Candidate]:
        """The things at these positions."""
        ordered = np.sort(np.array(places, dtype=np.int64))
        found: dict[int, Candidate] = {}
        for shard, (low, high), first in located(self.shards, ordered):
            rows = (ordered[low:high] - first).tolist()
            found |= zip(ordered[low:high].tolist(), shard.things(rows), strict=True)
        return [found[place] for place in places]

    def search(
        self,
        queries: Mapping[str, Vectors],
        weights: Mapping[str, float],
        k: int,
        tracks: Mapping[str, float] | None = None,
    ) -> list[tuple[Candidate, float]]:
        """The k best things with their scores, as :func:`score` standardises them.

        A standardised score is linear in the thing's vector d, so one inner product a track gives
        it: Σ w (q·d − μ) / σ over the queries q, with the mean μ and deviation σ of each query's
        cosines in the whole collection. What a thing lacks adds 0.

        Args:
            queries: vectors of unit length, shape (width,), by role.
            weights: of each role; a missing one counts 0.
            tracks: weights of ``image`` and ``caption``; a missing one counts 1.

        Raises:
            UserError: files of the index are gone.
        """
        asked: dict[str, Asked] = {}
        for track, known in self.moments.items():
            combined, offset = np.zeros(len(known.sums)), 0.0
            share = (tracks or {}).get(track, 1.0)
            for role, query in queries.items():
                mean, deviation = known.of(query)
                weight = share * weights.get(role, 0.0) / deviation
                combined += weight * query.astype(float)
                offset += weight * mean
            asked[track] = Asked(combined.astype(np.float32), offset)
        try:
            places, scores = self.engine.search(asked, min(k, self.size))
            return list(zip(self.things(places.tolist()), scores.tolist(), strict=True))
        except OSError as error:
            raise UserError(
                f"{error.filename or 'The index'}: cannot be read any more "
                f"({error.strerror or error}). If somebody has changed the index meanwhile, search "
                "again; else index again.",
                "index",
            ) from error


def index_texts(texts: Sequence[Candidate], encoder: TextEncoder) -> Index:
    """An index in memory."""
    held = encode(texts, encoder)
    return Index(named(encoder), held.moments(), [held], Exact([held]))


def named(encoder: TextEncoder) -> dict[str, str]:
    """Name and identity of an encoder."""
    return {"name": encoder.name, "identity": encoder.identity}


def read_record(folder: Path) -> dict[str, Any]:
    """What ``index.json`` says.

    Raises:
        UserError: the folder is no index, an index of the former format, or damaged.
    """
    try:
        record: dict[str, Any] = parse_json(
            regular(folder / "index.json").read_text(encoding="utf-8")
        )
        if "format" not in record and "texts" in record:
            raise UserError(
                f"{folder}: is an index of an earlier version of admire, which cannot be read any "
                "more. Index again: admire index SOURCE --out INDEX",
                "index",
            )
        if isinstance(record["format"], int) and record["format"] > FORMAT:
            raise UserError(
                f"{folder}: is an index of a newer version of admire (format {record['format']}, "
                f"here {FORMAT}). Update admire, or index again.",
                "index",
            )
        if record["format"] != FORMAT:
            raise ValueError(f"its format is {record['format']}")
        if {str} != {type(record["encoder"][name]) for name in ("name", "identity")}:
            raise ValueError("its encoder has no name")
        _check_shards(record)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(folder, error) from None
    return record


def _check_shards(record: Mapping[str, Any]) -> None:
    sources = record["sources"]
    if {str} != {type(one) for one in (record["engine"], *sources)}:
        raise ValueError("its engine or a source has no name")
    numbers = [record["whole"]]
    for entry in record["shards"]:
        numbers += [entry["things"], entry["source"]]
        if not entry["name"].isdecimal() or entry["source"] not in range(len(sources)):
            raise ValueError("a shard has no name or source")
    if {int} != {type(one) for one in numbers}:
        raise ValueError("it holds something else than a number")


def open_index(folder: Path) -> Index:
    """Open an index that :func:`admire.tasks.collections.write_index` wrote. Vectors stay on disk.

    Raises:
        UserError: the folder is no index, or it is damaged.
    """
    record = read_record(folder)
    while True:
        try:
            return _open(folder, record)
        except UserError:
            before, record = record, read_record(folder)
            if record == before:  # else another process has changed the index meanwhile
                raise


def _open(folder: Path, record: Mapping[str, Any]) -> Index:
    try:
        whole = folder / "whole" / str(record["whole"])
        found = read_moments(whole / "moments.npz")
        shards = [_opened(folder, entry, found) for entry in record["shards"]]
        if record["engine"] == "lance":
            from admire.tasks.collections.lance import open_lance

            engine: Engine = open_lance(whole, found, shards)
        else:
            engine = Exact(shards)
    except UserError:
        raise
    except Exception as error:  # a damaged file makes NumPy and LanceDB raise nearly anything
        raise _damaged(folder, error) from None
    return Index(record["encoder"], found, shards, engine)


def _opened(folder: Path, entry: Mapping[str, Any], known: Mapping[str, Moments]) -> Stored:
    """A shard, of which the files are there and fit together and to the moments of the whole."""
    counts = {name: int(entry[name]) for name in ("things", *TRACKS) if name in entry}
    if len(counts) < 2:
        raise ValueError("a shard has no vectors")
    stored = Stored(folder / "shards" / str(entry["name"]), counts)
    for track in counts.keys() - {"things"}:
        vectors = stored.vectors(track)
        if vectors.shape != (counts["things"], len(known[track].sums)) or vectors.dtype.kind != "f":
            raise ValueError("its files do not belong together")
    for name in ("things.jsonl", "moments.npz"):
        if not (stored.folder / name).is_file():
            raise ValueError(f"{name} is missing")
    return stored


def _damaged(folder: Path, error: Exception) -> UserError:
    return UserError(f"{folder}: is no index, or damaged ({reason(error)}). Index again.", "index")
