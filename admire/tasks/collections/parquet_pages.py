"""The sizes of a Parquet file's pages, before anything of it is decompressed.

The footer has only sums, and these can be wrong. What is decompressed is said in the headers of
the pages. pyarrow does not show these, and ends the process at some damaged footers, so both are
read here, in Thrift's compact protocol.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from admire.base.errors import UserError
from admire.base.files import LINE
from admire.base.storage import open_file

PAGE, PACKED = 16 * 2**20, 16
"""A page is decompressed as a whole. It may have more than PAGE bytes only if it has at least one
in PACKED of them on disk, as pictures have, which are compressed already."""

Struct = dict[int, Any]
"""The values of a struct, by the numbers of their fields."""


def largest_pages(path: Path, columns: Collection[str]) -> Iterator[int]:
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
