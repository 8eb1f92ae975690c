"""An index as a Parquet file, for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from admire.base.errors import UserError, check_extra
from admire.base.storage import unwritable, write_whole
from admire.tasks.collections.index import open_index

if TYPE_CHECKING:
    from admire.tasks.collections.lance_table import Table

MADE_BY = "of an index of admire"
"""What the file says of itself."""


def check_export(out: Path) -> None:
    """Refuse an export that cannot be made, before anything else is done."""
    if out.suffix != ".parquet":
        raise UserError(f"{out}: is not called .parquet, which is what is written.", "export")
    check_extra("lance", "Writing Parquet", "pyarrow")


def export_index(index: Path, out: Path) -> None:
    """Write all entries of an index with their vectors, a row an entry, in the index's order.

    The columns are ``id``, ``image`` (its path), ``caption``, and ``image_vector`` and
    ``caption_vector`` if there are any, as lists of float32 of a fixed length; what an entry lacks
    is null.

    Raises:
        UserError: the folder is no index, or the file cannot be written.
    """
    check_export(out)
    from pyarrow.parquet import ParquetWriter

    opened = open_index(index)
    table = cast("Table", opened.entries)
    columns = ["id", "image", "caption", *(f"{track}_vector" for track in opened.tracks)]
    try:
        with write_whole(out, "wb") as file, ParquetWriter(file, table.schema(columns)) as writer:
            for batch in table.batches(columns):
                writer.write_batch(batch.select(columns))
            writer.add_key_value_metadata({"made by": MADE_BY})
    except RuntimeError as error:  # LanceDB's
        raise unwritable(out, error) from error
