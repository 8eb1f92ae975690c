"""The LanceDB table of an index: entries with their vectors."""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from admire.apps.search.encoding import Batch, Encoded, Rows
from admire.apps.search.entries import Entry
from admire.core.choices import TRACKS
from admire.core.errors import needs_extra
from admire.encoders import Vectors
from admire.encoders.windows import Windows

os.environ.setdefault("LANCEDB_LOG", "error")  # it would warn of each new table
os.environ.setdefault("LANCE_DEFAULT_IO_BUFFER_SIZE", str(16 * 2**20))  # else it reads far ahead
os.environ.setdefault("LANCE_DEFAULT_FRAGMENT_READAHEAD", "2")
with needs_extra("lance", "An index"):
    import lancedb
    import pyarrow
    from lancedb.index import IvfPq

BLOCK = 4096  #: how many vectors are read at once: 6 MB at 384 dimensions

WIDER, SHARE = 50, 1000
"""For k entries, WIDER * k are found by compressed vectors and then compared exactly; of a large
collection at least one entry in SHARE, because more of them are then as near as the best."""

SAMPLE = 10_000
"""How many vectors, evenly spread over the table, represent all where not every vector is read."""

INDEXED = 250_000
"""From so many vectors on, a track has an approximate index: comparing every vector would take more
than a tenth of a second."""

MORE = "caption_more"  #: the column of the windows of long captions after their first

PROBES = 64  #: how many partitions of the index are searched

FRAGMENTS = 1024  #: how many parts the table may have before they are merged


class Table:
    """Entries with their vectors in ``FOLDER/table``, a LanceDB table.

    A row has ``image_vector`` and ``caption_vector``, null where the entry lacks one. Of a caption
    that is longer than the encoder reads, ``caption_vector`` is the first window, and
    ``caption_more`` has the others, one after the other.

    A damaged table and a full disk raise an OSError, RuntimeError or ValueError in any method.

    Args:
        version: the state to read, whatever is changed later; None is the newest, for writing.
    """

    def __init__(self, folder: Path, version: int | None = None):
        self._database = lancedb.connect(folder / "table", read_consistency_interval=timedelta(0))
        self._table: Any = None
        if version is not None or "entries" in self._database.list_tables().tables:
            self._table = self._database.open_table("entries")
        if version is not None:
            self._table.checkout(version)

    @property
    def size(self) -> int:
        """The number of entries."""
        return 0 if self._table is None else int(self._table.count_rows())

    @property
    def version(self) -> int:
        """LanceDB's number of the table's state."""
        return int(self._table.version)

    @property
    def counts(self) -> dict[str, int]:
        """The number of vectors by track, without tracks that have none."""
        tracks = [track for track in TRACKS if f"{track}_vector" in self._table.schema.names]
        counts = {track: self._table.count_rows(f"{track} IS NOT NULL") for track in tracks}
        return {track: count for track, count in counts.items() if count}

    def add(self, batch: Batch, source: str, tracks: Sequence[str]) -> None:
        """Add the entries that were encoded, all or none; the encoder reads these tracks."""
        if not batch.entries:
            return
        texts = {
            "id": [entry.name for entry in batch.entries],
            "image": [entry.image and str(entry.image) for entry in batch.entries],
            "caption": [entry.caption for entry in batch.entries],
            "source": [source] * len(batch.entries),
            "digest": [entry.digest for entry in batch.entries],
        }
        columns = {name: pyarrow.array(values, pyarrow.string()) for name, values in texts.items()}
        missing = np.full_like(next(iter(batch.encoded.values())).first, np.nan)
        for track in tracks:
            windows = batch.encoded.get(track, Windows.of(missing))
            if track == "caption":
                rest = [own[1:].reshape(-1) if len(own) > 1 else None for own in windows.each]
                columns[MORE] = pyarrow.array(rest, pyarrow.list_(pyarrow.float32()))
            vectors = windows.first
            mask = pyarrow.array(np.isnan(vectors).any(axis=1))  # null where they are NaN
            columns[f"{track}_vector"] = pyarrow.FixedSizeListArray.from_arrays(
                pyarrow.array(vectors.reshape(-1)), vectors.shape[1], mask=mask
            )
        rows = pyarrow.record_batch(columns)
        if self._table is None:
            self._table = self._database.create_table("entries", schema=rows.schema)
        self._table.add(rows)

    def delete(self, rows: Sequence[int]) -> None:
        """Delete rows."""
        for start in range(0, len(rows), BLOCK):
            self._table.delete(f"_rowid IN ({', '.join(map(str, rows[start : start + BLOCK]))})")

    def restore(self, version: int) -> None:
        """Undo what was changed since a version."""
        if self.version != version:
            self._table.restore(version)

    def optimize(self, trained: int, *, new: bool) -> int:
        """Bring approximate indexes up to date, and merge small parts of the table.

        Args:
            trained: of how many vectors they were made, which is returned as it is now.
            new: nobody reads older states, so they are removed; otherwise after a week.
        """
        counts = self.counts
        if (most := max(counts.values())) >= max(INDEXED, 2 * trained):
            trained = most
            for track in counts:
                if counts[track] >= INDEXED:
                    self._table.create_index(f"{track}_vector", config=IvfPq(distance_type="dot"))
        if trained or self._table.stats()["fragment_stats"]["num_fragments"] > FRAGMENTS:
            with warnings.catch_warnings():  # it warns that other readers may lose their state
                warnings.simplefilter("ignore", UserWarning)
                self._table.optimize(cleanup_older_than=timedelta(0) if new else None)
        return trained

    def schema(self, columns: Sequence[str]) -> Any:
        return pyarrow.schema([self._table.schema.field(name) for name in columns])

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield columns of entries, and their ``_rowid``, as Arrow batches in the table's order."""
        if self._table is not None:
            search = self._table.search().select(list(columns)).with_row_id(True)
            yield from search.to_batches(BLOCK)

    def blocks(self, tracks: Sequence[str]) -> Iterator[tuple[Rows, Encoded]]:
        """Yield rows of entries with their vectors."""
        for batch in self.batches(vector_columns(tracks)):
            rows = np.array(batch["_rowid"])  # a view would keep the vectors
            yield rows, _encoded(batch, tracks)

    @cached_property
    def sample(self) -> Encoded:
        """At most :data:`SAMPLE` vectors of each track, evenly spread over the table."""
        sample: dict[str, Windows] = {}
        for track, count in self.counts.items():
            search = self._table.search().where(f"{track} IS NOT NULL").select(["_rowid"])
            rows = search.with_row_id(True).to_arrow()["_rowid"]
            places = np.linspace(0, count - 1, min(count, SAMPLE)).astype(int)
            chosen = rows.take(places).to_pylist()
            vectors = self._table.take_row_ids(chosen).select(vector_columns([track])).to_arrow()
            sample |= _encoded(vectors.combine_chunks().to_batches()[0], [track])
        return sample

    def nearest(self, queries: Mapping[str, Vectors], k: int) -> tuple[Rows, Encoded]:
        """Return rows that are probably nearest to the queries of their tracks, with vectors.

        Each track is searched by itself for at least ``WIDER`` k entries. What is near by the sum
        of two tracks is among the nearest by one of them.
        """
        limit = max(WIDER * k, self.size // SHARE)
        columns = vector_columns(queries)
        parts = []
        for track, query in queries.items():
            search = self._table.search(query, vector_column_name=f"{track}_vector")
            search = search.distance_type("dot").nprobes(PROBES).limit(limit)
            search = search.select([*columns, "_distance"]).with_row_id(True)
            parts.append(search.to_arrow().drop_columns("_distance"))
        rows = pyarrow.concat_tables(parts).combine_chunks()
        ids, first = np.unique(rows["_rowid"].to_numpy(), return_index=True)
        return ids, _encoded(rows.take(first).combine_chunks().to_batches()[0], list(queries))

    def candidates(self, rows: Sequence[int]) -> list[Entry]:
        """Return the entries in these rows."""
        query = self._table.take_row_ids(list(rows)).select(["id", "image", "caption", "digest"])
        by_row = {row["_rowid"]: row for row in query.with_row_id().to_list()}
        return [
            Entry(
                name=row["id"],
                image=Path(row["image"]) if row["image"] else None,
                caption=row["caption"],
                digest=row["digest"],
            )
            for row in map(by_row.__getitem__, rows)
        ]


def vector_columns(tracks: Collection[str]) -> list[str]:
    """Return the columns of vectors of some tracks."""
    return [f"{track}_vector" for track in tracks] + [MORE] * ("caption" in tracks)


def _encoded(batch: Any, tracks: Sequence[str]) -> Encoded:
    """Return the vectors in an Arrow batch; those that are null are NaN."""
    encoded = {}
    for track in tracks:
        column = batch[f"{track}_vector"]
        vectors = column.flatten().to_numpy().reshape(-1, column.type.list_size)
        if column.null_count:
            present, valid = column.is_valid().to_numpy(zero_copy_only=False), vectors
            vectors = np.full((len(column), valid.shape[1]), np.nan, dtype=np.float32)
            vectors[present] = valid
        encoded[track] = Windows.of(vectors)
        if track == "caption" and batch[MORE].null_count < len(batch):
            each = [
                np.append(first, np.array(rest or (), np.float32)).reshape(-1, len(first))
                for first, rest in zip(vectors, batch[MORE].to_pylist(), strict=True)
            ]
            encoded[track] = Windows.joined(each)
    return encoded
