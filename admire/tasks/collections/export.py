"""An index as a Parquet file, for other programs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from admire.base.errors import UserError, check_extra, needs_extra
from admire.base.storage import partial_of
from admire.tasks.collections.index import open_index
from admire.tasks.collections.shards import Shard

ROWS = 1024
"""How many things are written at once."""


def check_export(out: Path) -> None:
    """Refuse an export that cannot be made, before anything else is done.

    Raises:
        UserError: the name is not that of a Parquet file, or the extra ``parquet`` is missing.
    """
    if out.suffix != ".parquet":
        raise UserError(f"{out}: is not called .parquet, which is what is written.", "export")
    check_extra("parquet", "Writing Parquet", "pyarrow")


def export_index(index: Path, out: Path) -> None:
    """Write all things of an index with their vectors, a row a thing, in the index's order.

    The columns are ``id``, ``image`` (its path), ``caption``, and ``image_vector`` and
    ``caption_vector`` if there are any, as lists of float32 of a fixed length; what a thing lacks
    is null.

    Raises:
        UserError: the folder is no index, or the file cannot be written.
    """
    check_export(out)
    with needs_extra("parquet", "Writing Parquet"):
        import pyarrow
        import pyarrow.parquet
    opened = open_index(index)
    widths = {track: len(known.sums) for track, known in opened.moments.items()}
    text = pyarrow.string()
    fields = [("id", text), ("image", text), ("caption", text)]
    fields += [
        (f"{track}_vector", pyarrow.list_(pyarrow.float32(), width))
        for track, width in widths.items()
    ]
    schema = pyarrow.schema(fields)
    part = partial_of(out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with pyarrow.parquet.ParquetWriter(part, schema) as file:
            for shard in opened.shards:
                for start in range(0, shard.counts["things"], ROWS):
                    rows = range(start, min(start + ROWS, shard.counts["things"]))
                    file.write_batch(_batch(shard, rows, widths, schema))
        os.replace(part, out)
    except OSError as error:
        raise UserError(
            f"{out}: cannot be written ({error.strerror or error}).", "export"
        ) from error
    finally:
        part.unlink(missing_ok=True)


def _batch(shard: Shard, rows: range, widths: dict[str, int], schema: Any) -> Any:
    import pyarrow

    things = shard.things(rows)
    columns = [
        pyarrow.array([one.name for one in things]),
        pyarrow.array([str(one.image) if one.image else None for one in things], pyarrow.string()),
        pyarrow.array([one.caption for one in things], pyarrow.string()),
    ]
    for track, width in widths.items():
        mask = np.zeros(len(rows), dtype=bool)
        vectors = np.zeros((len(rows), width), dtype=np.float32)
        if track in shard.counts:
            part = slice(rows.start, rows.stop)
            there = shard.there(track)
            mask = np.ones(len(rows), dtype=bool) if there is None else there[part]
            vectors = np.asarray(shard.vectors(track)[part])
        flat = pyarrow.array(vectors.reshape(-1))
        column = pyarrow.FixedSizeListArray.from_arrays(flat, width, mask=pyarrow.array(~mask))
        columns.append(column)
    return pyarrow.record_batch(columns, schema=schema)
