"""LanceDB as the engine of an index: nearly exact search in collections of many millions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from admire.encoders import Vectors
from admire.errors import UserError

try:
    import lancedb
    import pyarrow
    from lancedb.index import IvfPq
except ImportError as error:
    raise UserError(
        f"An index with --engine lance needs {error.name}, of the extra 'lance' "
        "(pip install '.[lance]' in the clone)."
    ) from error

WIDER = 50
"""How many times the wanted number are fetched by compressed vectors, to be compared exactly."""

TRAINABLE = 1000
"""With fewer vectors its quantiser cannot be trained; they are compared one by one."""

PROBES = 64
"""How many of the index's partitions are looked into."""


@dataclass(frozen=True)
class Lance:
    """Candidates by LanceDB's compressed vectors, then compared exactly."""

    table: Any
    vectors: Vectors

    def search(self, query: Vectors, k: int) -> tuple[npt.NDArray[np.int64], Vectors]:
        """See :class:`admire.retrieval.index.Engine`."""
        asked = self.table.search(query).distance_type("dot").nprobes(PROBES)
        found = asked.limit(WIDER * k).select(["place", "_distance"]).to_arrow()["place"].to_numpy()
        places = np.sort(found.astype(np.int64))
        products = np.asarray(self.vectors[places]) @ query
        order = np.lexsort((places, -products))[:k]
        return places[order], products[order]


def build_lance(folder: Path, parts: Iterable[Vectors], width: int) -> None:
    """Write LanceDB's table of all parts' vectors and its index, in ``folder/lance``."""
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
    """The engine that :func:`build_lance` wrote."""
    return Lance(lancedb.connect(str(folder / "lance")).open_table("texts"), vectors)
