"""Rows of Parquet files, in bounded memory: a small file can have a large content."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from admire.base.errors import UserError, needs_extra
from admire.base.storage import open_file
from admire.tasks.collections.parquet_pages import PAGE, largest_pages

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

DAMAGED = (ValueError, LookupError, TypeError, RecursionError)
"""What reading a damaged header raises."""

ROWS = 64
"""The most rows that are read at once."""


def parquet_rows(path: Path, columns: Sequence[str], first: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file, as dicts.

    A value that is in many rows may be on disk once, but not in memory. So at once only so many
    rows are read as have :data:`PAGE` bytes if each value is as large as the largest page.

    Args:
        columns: the columns that are read if the file has them. ``a.b`` is a field of structs.
        first: the row to begin with. Row groups before it are not read.

    Raises:
        UserError: it is not a Parquet file or is damaged, a page is too large, or a column has
            lists of values.
    """
    with _opened(path) as file:
        names = _columns(file, columns, path)
        for group, largest in enumerate(largest_pages(path, names)):
            size = file.metadata.row_group(group).num_rows
            if first < size:
                batch_size = min(max(PAGE // max(largest, 1), 1), ROWS)
                batches = file.iter_batches(batch_size, row_groups=[group], columns=names)
                rows = (row for batch in batches for row in batch.to_pylist())
                yield from islice(rows, first, None)
            first = max(first - size, 0)


def parquet_columns(path: Path) -> list[str]:
    """Return the names of a file's columns.

    Raises:
        UserError: it is not a Parquet file, or is damaged.
    """
    with _opened(path) as file:
        return list(file.schema_arrow.names)


@contextmanager
def _opened(path: Path) -> Iterator[ParquetFile]:
    """Open a file; whatever cannot be read in the block says that it is damaged."""
    with needs_extra("lance", "Reading Parquet"):
        import pyarrow
        import pyarrow.parquet
    open_file(path).close()
    try:
        # Without a buffer, the whole column of a row group would be read.
        with pyarrow.parquet.ParquetFile(path, buffer_size=2**16, pre_buffer=False) as file:
            yield file
    except (pyarrow.ArrowException, OSError, *DAMAGED) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"{path}: is no Parquet file, or damaged ({reason}).") from None


def _columns(file: ParquetFile, columns: Sequence[str], path: Path) -> list[str]:
    """Return those columns that the file has; refuse one whose values are lists."""
    schema = [file.schema.column(place) for place in range(len(file.schema))]
    names = [c.path for c in schema if c.path in columns and not c.max_repetition_level]
    for name in {*file.schema_arrow.names} & {*columns} - {n.partition(".")[0] for n in names}:
        raise UserError(f"{path}, {name}: is not a column of texts or pictures.")
    return names
