"""Rows of Parquet files, in bounded memory: a small file can have a large content.

The footer has only sums of sizes, and these can be wrong. What is decompressed is said in the
headers of the pages. pyarrow does not show these, and ends the process at some damaged footers, so
both are read here, in Thrift's compact protocol, before anything is decompressed.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from admire.core.errors import UserError, needs_extra
from admire.core.files import LINE
from admire.core.storage import open_file

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

DAMAGED = (ValueError, LookupError, TypeError, RecursionError)
"""What reading a damaged header raises."""

ROWS = 64
"""The most rows that are read at once."""

PAGE, PACKED = 16 * 2**20, 16
"""A page is decompressed as a whole. It may have more than PAGE bytes only if it has at least one
in PACKED of them on disk, as pictures have, which are compressed already."""

Struct = dict[int, Any]
"""The values of a struct, by the numbers of their fields."""


def parquet_rows(path: Path, columns: Sequence[str], first: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file, as dicts.

    A value that is in many rows may be on disk once, but not in memory. So at once only so many
    rows are read as have :data:`PAGE` bytes if each value is as large as the largest page.

    Args:
        columns: the columns that are read if the file has them. ``a.b`` is a field of structs.
        first: the row to begin with. Row groups before it are not read.

    Raises:
        UserError: it is not a Parquet file or is damaged, a page is too large, a column has lists
            of values, or there are neither pictures nor texts.
    """
    with _opened(path) as file:
        check_kind(path, file.schema_arrow.names)
        names = _columns(file, columns, path)
        for group, largest in enumerate(_largest_pages(path, names)):
            size = file.metadata.row_group(group).num_rows
            if first < size:
                batch_size = min(max(PAGE // max(largest, 1), 1), ROWS)
                batches = file.iter_batches(batch_size, row_groups=[group], columns=names)
                rows = (row for batch in batches for row in batch.to_pylist())
                yield from islice(rows, first, None)
            first = max(first - size, 0)


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
        raise UserError(f"{path}: is not a Parquet file, or damaged ({reason}).") from None


def _columns(file: ParquetFile, columns: Sequence[str], path: Path) -> list[str]:
    """Return those columns that the file has; refuse one whose values are lists."""
    schema = [file.schema.column(place) for place in range(len(file.schema))]
    names = [c.path for c in schema if c.path in columns and not c.max_repetition_level]
    for name in {*file.schema_arrow.names} & {*columns} - {n.partition(".")[0] for n in names}:
        raise UserError(f"{path}, {name}: is not a column of texts or pictures.")
    return names


def check_kind(path: Path, columns: Iterable[str]) -> None:
    """Refuse a table that has neither pictures nor texts."""
    if not {"image", "text"} & set(columns):
        raise UserError(
            f"{path}: the column 'text' or 'image' is missing. The file has: {', '.join(columns)}."
        )


# --------------------------------------------------------------------------------------- pages


def _largest_pages(path: Path, columns: Collection[str]) -> Iterator[int]:
    """Yield for each row group how many bytes its largest page has when it is decompressed.

    Args:
        columns: those that are read.

    Raises:
        UserError: a page is too large.
        ValueError, LookupError, TypeError, RecursionError: the file is damaged.
    """
    with open_file(path) as file:
        first = 1
        for group in _footer(file)[4]:
            largest = 0
            for chunk in (column[3] for column in group[1]):
                name = b".".join(chunk[3]).decode()
                for packed, size in _pages(file, chunk) if name in columns else ():
                    if size > max(PAGE, PACKED * packed):
                        raise UserError(
                            f"{path}, {name}, in rows from {first}: {packed:,} bytes are "
                            f"{size:,} when they are decompressed. If you trust the file, write "
                            "it again with small pages and without dictionaries."
                        )
                    largest = max(largest, packed, size)
            yield largest
            first += group[3]


def _footer(file: BinaryIO) -> Struct:
    """Read ``FileMetaData``: field 4 are the row groups."""
    end = file.seek(-8, os.SEEK_END)
    size = int.from_bytes(file.read(4), "little")
    if size > min(end, LINE):
        raise ValueError("its footer is too long")
    file.seek(end - size)
    return _read_struct(BytesIO(file.read(size)))


def _pages(file: BinaryIO, chunk: Struct) -> Iterator[tuple[int, int]]:
    """Yield the sizes of a column's pages, on disk and decompressed.

    ``chunk`` is a ``ColumnMetaData``: fields 9 and 11 are where data and dictionary begin, 7 is
    what both have on disk. Fields 2 and 3 of a ``PageHeader`` are its sizes.
    """
    place, end = min(chunk[9], chunk.get(11) or chunk[9]), 0
    end = place + chunk[7]
    while place < end:
        file.seek(place)
        header = _read_struct(file)
        if min(header[2], header[3]) < 0:
            raise ValueError("a page has a negative size")
        yield header[3], header[2]
        place = file.tell() + header[3]


# -------------------------------------------------------------------------------------- Thrift


def _read_struct(file: BinaryIO) -> Struct:
    values: Struct = {}
    number = 0
    while head := file.read(1)[0]:
        number = number + (head >> 4) if head >> 4 else _read_integer(file)
        values[number] = _read_value(file, head & 15)
    return values


def _read_value(file: BinaryIO, kind: int, *, in_list: bool = False) -> Any:
    match kind:
        case 1 | 2:  # a boolean
            return file.read(1)[0] == 1 if in_list else kind == 1
        case 3:
            return file.read(1)[0]
        case 4 | 5 | 6:
            return _read_integer(file)
        case 7:
            return file.read(8)
        case 8:
            return file.read(min(_read_varint(file), LINE))
        case 9 | 10:
            head = file.read(1)[0]
            size = _read_varint(file) if head >> 4 == 15 else head >> 4
            return [_read_value(file, head & 15, in_list=True) for _ in range(size)]
        case 12:
            return _read_struct(file)
        case _:
            raise ValueError("a header is damaged")


def _read_integer(file: BinaryIO) -> int:
    number = _read_varint(file)
    return number >> 1 ^ -(number & 1)


def _read_varint(file: BinaryIO) -> int:
    number = 0
    for shift in range(0, 64, 7):
        part = file.read(1)[0]
        number |= (part & 127) << shift
        if part < 128:
            return number
    raise ValueError("a header is damaged")
