"""An index as a Parquet file, for other programs."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from admire.base.errors import UserError, check_extra, needs_extra
from admire.base.storage import partial_of
from admire.tasks.collections.index import open_index

ROWS = 1024
"""How many things are written at once."""


def check_export(out: Path) -> None:
    """Refuse an export that cannot be made, before anything else is done.

    Raises:
        UserError: the name is not that of a Parquet file, or the extra ``lance`` is missing.
    """
    if out.suffix != ".parquet":
        raise UserError(f"{out}: is not called .parquet, which is what is written.", "export")
    check_extra("lance", "Writing Parquet", "pyarrow")


def export_index(index: Path, out: Path) -> None:
    """Write all things of an index with their vectors, a row a thing, in the index's order.

    The columns are ``id``, ``image`` (its path), ``caption``, and ``image_vector`` and
    ``caption_vector`` if there are any, as lists of float32 of a fixed length; what a thing lacks
    is null.

    Raises:
        UserError: the folder is no index, or the file cannot be written.
    """
    check_export(out)
    with needs_extra("lance", "Writing Parquet"):
        import pyarrow
        import pyarrow.parquet
    opened = open_index(index)
    text = pyarrow.string()
    fields = [("id", text), ("image", text), ("caption", text)]
    for name, track in opened.tracks.items():
        width = len(track.moments.sums)
        fields.append((f"{name}_vector", pyarrow.list_(pyarrow.float32(), width)))
    schema = pyarrow.schema(fields)
    part = partial_of(out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with pyarrow.parquet.ParquetWriter(part, schema) as file:
            for start in range(0, opened.size, ROWS):
                rows = np.arange(start, min(start + ROWS, opened.size))
                things = opened.things(rows.tolist())
                columns = [
                    pyarrow.array([one.name for one in things]),
                    pyarrow.array([one.image and str(one.image) for one in things], text),
                    pyarrow.array([one.caption for one in things], text),
                ]
                for track in opened.tracks.values():
                    lacking = None if track.there is None else pyarrow.array(~track.there[rows])
                    columns.append(
                        pyarrow.FixedSizeListArray.from_arrays(
                            pyarrow.array(track.vectors()[rows].reshape(-1)),
                            len(track.moments.sums),
                            mask=lacking,
                        )
                    )
                file.write_batch(pyarrow.record_batch(columns, schema=schema))
        os.replace(part, out)
    except OSError as error:
        raise UserError(
            f"{out}: cannot be written ({error.strerror or error}).", "export"
        ) from error
    finally:
        part.unlink(missing_ok=True)
