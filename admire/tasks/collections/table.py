"""An index's table, kept by LanceDB: things with their vectors, and what was left out."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from admire.base.errors import needs_extra
from admire.models.encoders import Vectors
from admire.tasks.collections.encoding import Batch, Encoded
from admire.tasks.collections.exact import BLOCK, Block, Places, Query

os.environ.setdefault("LANCEDB_LOG", "error")  # it would warn of each new table
with needs_extra("lance", "An index"):
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

FRAGMENTS = 1024
"""How many parts the table may have before they are merged."""

TEXT = pyarrow.string()
LEFT_OUT = pyarrow.schema([("id", TEXT), ("digest", TEXT), ("why", TEXT)])


class Table:
    """Things with their vectors in ``FOLDER/table``, which LanceDB keeps.

    A thing has a place, which grows with each one that is added, its name, path, caption and
    source, the digest of its content, and ``image_vector`` and ``caption_vector``, null where it
    lacks one. A second table has what was left out, and why.
    """

    def __init__(self, folder: Path):
        self._database = lancedb.connect(folder / "table", read_consistency_interval=timedelta(0))
        names = self._database.list_tables().tables
        self._things: Any = self._database.open_table("things") if "things" in names else None
        self._left_out: Any = (
            self._database.open_table("left_out")
            if "left_out" in names
            else self._database.create_table("left_out", schema=LEFT_OUT)
        )

    @property
    def size(self) -> int:
        """How many things there are."""
        return 0 if self._things is None else int(self._things.count_rows())

    @property
    def version(self) -> int:
        """LanceDB's number of the table's state."""
        return 0 if self._things is None else int(self._things.version)

    def add(self, batch: Batch, place: int, source: str, tracks: Sequence[str]) -> None:
        """Add what was encoded, all of it or nothing.

        Args:
            place: of the first thing.
            tracks: those that the encoder reads.
        """
        if batch.left_out:
            rows = [(thing.name, digest, why) for thing, digest, why in batch.left_out]
            self._left_out.add(
                pyarrow.table(
                    [pyarrow.array(column, TEXT) for column in zip(*rows, strict=True)], LEFT_OUT
                )
            )
        if not batch.things:
            return
        things, size = batch.things, len(batch.things)
        columns = {
            "place": pyarrow.array(np.arange(place, place + size)),
            "id": pyarrow.array([one.name for one in things], TEXT),
            "image": pyarrow.array([one.image and str(one.image) for one in things], TEXT),
            "caption": pyarrow.array([one.caption for one in things], TEXT),
            "source": pyarrow.array([source] * size, TEXT),
            "digest": pyarrow.array(batch.digests, TEXT),
        }
        width = next(iter(batch.encoded.vectors.values())).shape[1]
        for track in tracks:
            columns[f"{track}_vector"] = _column(batch.encoded, track, (size, width))
        rows = pyarrow.record_batch(columns)
        if self._things is None:
            self._things = self._database.create_table("things", schema=rows.schema)
        self._things.add(rows)

    def contents(self) -> Iterator[tuple[list[Any], ...]]:
        """Columns of ``id``, ``digest``, ``place``, ``source`` and ``why``, some rows at a time."""
        for table, empty in ((self._things, ["why"]), (self._left_out, ["place", "source"])):
            names = ("id", "digest", "place", "source", "why")
            wanted = [name for name in names if name not in empty]
            for part in _parts(table, wanted):
                nothing = [None] * part.num_rows
                yield tuple(nothing if name in empty else part[name].to_pylist() for name in names)

    def names(self) -> Iterator[tuple[list[int], list[str]]]:
        """Places and names of all things, some at a time."""
        for part in _parts(self._things, ["place", "id"]):
            yield part["place"].to_pylist(), part["id"].to_pylist()

    def places(self) -> Places:
        """The places of all things, ascending."""
        return np.sort(self._things.search().select(["place"]).to_arrow()["place"].to_numpy())

    def blocks(self, since: int) -> Iterator[Block]:
        """The things from a place on, with their vectors."""
        for part in _parts(self._things, None, f"place >= {since}" if since else None):
            columns = (part[name].to_pylist() for name in ("id", "image", "caption"))
            lines = [_line(row) for row in zip(*columns, strict=True)]
            yield Block(part["place"].to_numpy(), lines, _encoded(part))

    def remove(self, places: Sequence[int]) -> None:
        """Remove the things at some places."""
        for start in range(0, len(places), BLOCK):
            listed = ", ".join(map(str, places[start : start + BLOCK]))
            self._things.delete(f"place IN ({listed})")

    def tidy(self, *, indexed: bool, trained: int, thorough: bool) -> int:
        """Bring LanceDB's indices up to date, and merge small parts of the table.

        Args:
            indexed: whether there are to be indices of the vectors.
            trained: how many things there were when they were trained; they are trained again
                when there are twice as many.
            thorough: whether small parts are merged though they are few.

        Returns:
            ``trained``, as it is now.
        """
        parts = self._things.stats()["fragment_stats"]["num_fragments"]
        if indexed and TRAINABLE <= self.size >= 2 * trained:
            trained = self.size
            for name in self._vectors():
                if self._things.count_rows(f"{name} IS NOT NULL") >= TRAINABLE:
                    self._things.create_index(name, config=IvfPq(distance_type="dot"))
            indexed = False
        if indexed or thorough or parts > FRAGMENTS:
            with warnings.catch_warnings():  # readers of other versions go on with the newest
                warnings.simplefilter("ignore", UserWarning)
                self._things.optimize(cleanup_older_than=timedelta(0))
        return trained

    def nearest(self, queries: Mapping[str, Query], k: int, size: int) -> Places:
        """The places of things that are probably nearest to the queries of their tracks.

        Each track is searched by itself for at least ``WIDER`` k things. What is near by the sum of
        two tracks is among the nearest by one of them: if both are below some number, the sum is
        below twice that.

        Args:
            size: how many things the index has.
        """
        wanted = max(WIDER * k, size // SHARE)
        found = []
        for track, query in queries.items():
            search = self._things.search(query.vector, vector_column_name=f"{track}_vector")
            search = search.distance_type("dot").nprobes(PROBES).limit(wanted)
            found.append(search.select(["place", "_distance"]).to_arrow()["place"].to_numpy())
        return np.unique(np.concatenate(found))

    def _vectors(self) -> list[str]:
        return [name for name in self._things.schema.names if name.endswith("_vector")]


def _parts(table: Any, columns: list[str] | None, where: str | None = None) -> Iterator[Any]:
    """A table's rows, some at a time: LanceDB reads far ahead where it is asked for all."""
    for start in range(0, table.count_rows(where) if table is not None else 0, BLOCK):
        search = table.search().offset(start).limit(BLOCK)
        search = search.where(where) if where else search
        yield (search.select(columns) if columns else search).to_arrow()


def _line(row: Sequence[str | None]) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode() + b"\n"


def _column(encoded: Encoded, track: str, shape: tuple[int, int]) -> Any:
    vectors, there = encoded.vectors.get(track), encoded.there.get(track)
    if vectors is None or there is None:
        vectors, there = np.zeros(shape, dtype=np.float32), np.zeros(shape[0], dtype=bool)
    flat = pyarrow.array(vectors.reshape(-1))
    return pyarrow.FixedSizeListArray.from_arrays(flat, shape[1], mask=pyarrow.array(~there))


def _encoded(part: Any) -> Encoded:
    vectors: dict[str, Vectors] = {}
    there = {}
    for name in part.schema.names:
        track, _, kind = name.partition("_")
        if kind == "vector":
            column = part[name].combine_chunks()
            mask = column.is_valid().to_numpy(zero_copy_only=False)
            vectors[track] = np.zeros((len(column), column.type.list_size), dtype=np.float32)
            vectors[track][mask] = column.flatten().to_numpy().reshape(-1, column.type.list_size)
            there[track] = mask
    return Encoded(vectors, there)
