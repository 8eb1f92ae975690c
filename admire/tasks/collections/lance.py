"""LanceDB as the engine of an index: nearly exact search in collections of millions of things."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from admire.base.errors import needs_extra
from admire.models.encoders import Vectors
from admire.tasks.collections.index import Asked, Places, Scores, best, score_places
from admire.tasks.collections.shards import Moments, Shard

with needs_extra("lance", "An index with the engine 'lance'"):
    import lancedb
    import pyarrow
    from lancedb.index import IvfPq

WIDER, SHARE = 50, 1000
"""For k things, WIDER * k are found by compressed vectors and then compared exactly; of a large
collection at least one thing in SHARE, because more of them are then as near as the best."""

TRAINABLE = 1000
"""The least number of vectors that LanceDB's quantiser can be trained on. With fewer there is no
index, and LanceDB compares every vector."""

PROBES = 64
"""How many partitions of the index are searched."""


@dataclass(frozen=True)
class Lance:
    """Finds candidates by LanceDB's compressed vectors and then compares those exactly.

    A thing's vector there is that of its picture and that of its caption, one behind the other, so
    that one search serves both tracks. The mean vector stands for what a thing lacks: its score is
    0, as it is to be.
    """

    table: Any
    tracks: Sequence[str]
    shards: Sequence[Shard]

    def search(self, asked: Mapping[str, Asked], k: int) -> tuple[Places, Scores]:
        """See :class:`admire.tasks.collections.index.Engine`."""
        query = np.concatenate([asked[track].query for track in self.tracks])
        wanted = max(WIDER * k, sum(shard.counts["things"] for shard in self.shards) // SHARE)
        found = self.table.search(query).distance_type("dot").nprobes(PROBES).limit(wanted)
        places = found.select(["place", "_distance"]).to_arrow()["place"].to_numpy()
        return best(*score_places(self.shards, asked, places.astype(np.int64)), k)


def build_lance(folder: Path, known: Mapping[str, Moments], shards: Sequence[Shard]) -> None:
    """Write LanceDB's table of all vectors, and its index, to ``folder/lance``.

    Args:
        known: the moments of all vectors, by track.
    """
    width = sum(len(one.sums) for one in known.values())
    schema = pyarrow.schema(
        [("place", pyarrow.int64()), ("vector", pyarrow.list_(pyarrow.float32(), width))]
    )

    def batches() -> Iterator[Any]:
        start = 0
        for shard in shards:
            part = _joined(shard, known)
            places = pyarrow.array(np.arange(start, start + len(part)))
            flat = pyarrow.array(part.reshape(-1))
            column = pyarrow.FixedSizeListArray.from_arrays(flat, width)
            yield pyarrow.record_batch([places, column], schema=schema)
            start += len(part)

    reader = pyarrow.RecordBatchReader.from_batches(schema, batches())
    table = lancedb.connect(str(folder / "lance")).create_table("things", reader)
    if table.count_rows() >= TRAINABLE:
        table.create_index("vector", config=IvfPq(distance_type="dot"))


def _joined(shard: Shard, known: Mapping[str, Moments]) -> Vectors:
    """The vectors of all tracks beside each other, shape (things, sum of the widths)."""
    parts = []
    for track, one in known.items():
        mean = (one.sums / one.count).astype(np.float32)
        there = shard.there(track) if track in shard.counts else np.zeros((), dtype=bool)
        vectors = np.asarray(shard.vectors(track)) if track in shard.counts else mean[None]
        if there is not None:
            shape = (shard.counts["things"], len(mean))
            vectors = np.where(np.broadcast_to(there[..., None], shape), vectors, mean)
        parts.append(vectors)
    return np.hstack(parts)


def open_lance(folder: Path, known: Mapping[str, Moments], shards: Sequence[Shard]) -> Lance:
    """Open what :func:`build_lance` wrote."""
    table = lancedb.connect(str(folder / "lance")).open_table("things")
    return Lance(table, list(known), shards)
