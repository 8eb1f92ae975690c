"""LanceDB as the engine of an index: nearly exact search in collections of millions of texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from admire.encoders import Vectors
from admire.errors import needs_extra

with needs_extra("lance", "An index with the engine 'lance'"):
    import lancedb
    import pyarrow
    from lancedb.index import IvfPq

WIDER = 50
"""For k texts, WIDER * k are found by compressed vectors and then compared exactly."""

TRAINABLE = 1000
"""The least number of vectors that LanceDB's quantiser can be trained on. With fewer there is no
index, and LanceDB compares every vector."""

PROBES = 64
"""How many partitions of the index are searched."""


@dataclass(frozen=True)
class Lance:
    """Finds candidates by LanceDB's compressed vectors and then compares those exactly."""

    table: Any
    vectors: Vectors

    def search(self, query: Vectors, k: int) -> tuple[npt.NDArray[np.int64], Vectors]:
        """See :class:`admire.collections.index.Engine`."""
        asked = self.table.search(query).distance_type("dot").nprobes(PROBES)
        found = asked.limit(WIDER * k).select(["place", "_distance"]).to_arrow()["place"].to_numpy()
        places = np.sort(found.astype(np.int64))
        products = np.asarray(self.vectors[places]) @ query
        order = np.lexsort((places, -products))[:k]
        return places[order], products[order]


def build_lance(folder: Path, parts: Iterable[Vectors], width: int) -> None:
    """Write LanceDB's table of all vectors, and its index, to ``folder/lance``."""
    schema = pyarrow.schema(
        [("place", pyarrow.int64()), ("vector", pyarrow.list_(pyarrow.float32(), width))]
    )

    def batches() -> Iterator[Any]:
        start = 0
        for part in parts:
            places = pyarrow.array(np.arange(start, start + len(part)))
            flat = pyarrow.array(part.reshape(-1))
            column = pyarrow.FixedSizeListArray.from_arrays(flat, width)
            yield pyarrow.record_batch([places, column], schema=schema)
            start += len(part)

    reader = pyarrow.RecordBatchReader.from_batches(schema, batches())
    table = lancedb.connect(str(folder / "lance")).create_table("texts", reader)
    if table.count_rows() >= TRAINABLE:
        table.create_index("vector", config=IvfPq(distance_type="dot"))


def open_lance(folder: Path, vectors: Vectors) -> Lance:
    """Open what :func:`build_lance` wrote."""
    return Lance(lancedb.connect(str(folder / "lance")).open_table("texts"), vectors)
