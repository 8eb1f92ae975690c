"""Parquet files: what is read of them, and that small ones do not become large in memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from admire.apps.search import read_entries
from admire.apps.search.parquet import parquet_rows
from admire.core.errors import UserError

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

MB = 1 << 20
COLUMNS = ("image", "image.bytes", "image.path", "caption", "text", "id")


def write(path: Path, columns: dict[str, Any], **how: Any) -> Path:
    how = {"compression": "zstd", "store_schema": False, "dictionary_pagesize_limit": 1 << 30} | how
    parquet.write_table(pyarrow.table(columns), path, **how)
    return path


def repeated(value: Any, kind: Any, rows: int = 32) -> Any:
    """A column with one value in all rows, of which the file has one copy."""
    indices = pyarrow.array([0] * rows, pyarrow.int32())
    return pyarrow.DictionaryArray.from_arrays(indices, pyarrow.array([value], kind))


def struct(content: Any, path: Any) -> Any:
    return pyarrow.StructArray.from_arrays([content, path], ["bytes", "path"])


BINARY, STRING = pyarrow.binary(), pyarrow.string()
ZEROS, LETTERS = b"\0" * (18 * MB), "a" * (18 * MB)
PLAIN = {"use_dictionary": False}
BOMBS: dict[str, tuple[Callable[[], dict[str, Any]], dict[str, Any]]] = {
    "bytes": (lambda: {"image": repeated(ZEROS, BINARY)}, {}),
    "bytes of one length": (lambda: {"image": repeated(ZEROS, pyarrow.binary(18 * MB))}, {}),
    "bytes in a struct": (
        lambda: {"image": struct(repeated(ZEROS, BINARY), pyarrow.nulls(32, STRING))},
        {},
    ),
    "path in a struct": (
        lambda: {"image": struct(pyarrow.nulls(32, BINARY), repeated(LETTERS, STRING))},
        {},
    ),
    "path": (lambda: {"image": repeated(LETTERS, STRING)}, {}),
    "caption": (lambda: {"image": ["a.png"] * 32, "caption": repeated(LETTERS, STRING)}, {}),
    "id": (lambda: {"text": ["a"] * 32, "id": repeated(LETTERS, STRING)}, {}),
    "without a dictionary": (lambda: {"image": pyarrow.array([ZEROS] * 2, BINARY)}, PLAIN),
    "pages of version 2": (
        lambda: {"image": repeated(ZEROS, BINARY)},
        {"data_page_version": "2.0", "compression": "gzip"},
    ),
    "in a later row group": (
        lambda: {"image": pyarrow.array([b"a"] * 9 + [ZEROS], BINARY)},
        PLAIN | {"row_group_size": 9},
    ),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_page_that_is_much_larger_than_on_disk_is_refused(tmp_path: Path, name: str):
    columns, how = BOMBS[name]
    path = write(tmp_path / "small.parquet", columns(), **how)
    assert path.stat().st_size < 100_000
    row = 10 if "later" in name else 1
    with pytest.raises(UserError, match=rf"small\.parquet, \w+(\.\w+)?, in rows from {row}: "):
        list(read_entries(path, tmp_path))


def test_values_in_lists_are_refused(tmp_path: Path):
    numbers = pyarrow.array([0] * MB, pyarrow.int8())
    column = pyarrow.ListArray.from_arrays(pyarrow.array([0, MB], pyarrow.int32()), numbers)
    path = write(tmp_path / "small.parquet", {"image": column, "text": ["a"]})
    with pytest.raises(UserError, match="image: is not a column of texts or pictures"):
        list(read_entries(path, tmp_path))


MEMORY = r"""
import json, re, sys
from pathlib import Path
from admire.core.errors import UserError
from admire.apps.search import Entry, read_entries, read_picture

def peak():  # getrusage's begins with that of the process that started this one
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) // 1024

last, read = Path(), []
for path in map(Path, sys.argv[2:]):
    before = peak()
    entries = read_entries(path, Path(sys.argv[1]), lambda fault: None)
    try:
        for entry in entries:
            entry.unpacked.unlink()
            last = entry.image
        read_picture(Entry("last", last))
    except UserError:
        pass
    read.append(peak() - before)
print(json.dumps(read))
"""


def test_small_files_take_little_memory(tmp_path: Path):
    """Each would take half a gigabyte or more if 32 rows were read at once."""
    size = 8 * MB
    column = repeated(b"\xff" * size, BINARY, rows=40)
    texts = repeated("a" * size, STRING, rows=40)
    files = [
        write(tmp_path / "bytes.parquet", {"image": column}),
        write(tmp_path / "all.parquet", {"image": column, "caption": texts, "id": texts}),
        write(tmp_path / "large.parquet", {"image": repeated(b"\0" * (160 * MB), BINARY)}),
    ]
    assert max(file.stat().st_size for file in files) < 31_000
    command = [sys.executable, "-c", MEMORY, str(tmp_path), *map(str, files)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert max(json.loads(printed)) < 200, printed


@pytest.mark.parametrize(("compression", "group"), [("none", 7), ("snappy", 1000), ("zstd", 7)])
def test_pictures_are_read_whatever_their_size(tmp_path: Path, compression: str, group: int):
    """Pages of pictures may be large, because they are large on disk too; and no row is lost."""
    pictures = [os.urandom(MB) for _ in range(20)]
    same = [b"the same picture"] * 300
    rows = [{"image": {"bytes": picture, "path": None}} for picture in (*pictures, *same)]
    path = tmp_path / "pictures.parquet"
    table = pyarrow.Table.from_pylist(rows)
    parquet.write_table(table, path, compression=compression, row_group_size=group)
    read = [row["image"]["bytes"] for row in parquet_rows(path, COLUMNS)]
    assert read == [*pictures, *same]
    for row in (0, 6, 7, 19, 20, 319):
        (found,) = islice(parquet_rows(path, COLUMNS, row), 1)
        assert found["image"]["bytes"] == read[row]
    assert not list(parquet_rows(path, COLUMNS, 320))


@pytest.mark.parametrize("at", [4, 5, 6, 20, 21, 40, -9, -30, -60, -200])
@pytest.mark.parametrize("value", [0, 0x15, 0xFF])
def test_a_damaged_file_is_read_or_refused(tmp_path: Path, at: int, value: int):
    columns = {"text": ["an owl", "a bat"] * 20, "id": [str(k) for k in range(40)]}
    path = write(tmp_path / "t.parquet", columns)
    content = bytearray(path.read_bytes())
    content[at] = value
    path.write_bytes(content)
    message = str(path)
    try:
        list(read_entries(path, tmp_path))
    except UserError as error:
        message = str(error)
    assert message.startswith(str(path))
