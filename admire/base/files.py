"""Reading text, tables and JSON lines, with errors that name file, row and column; safe paths."""

from __future__ import annotations

import csv
import io
import json
import ntpath
import os
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Literal

import pandas as pd

from admire.base.errors import UserError
from admire.base.storage import open_file

ROWS = 512
"""How many rows of a table :func:`table_parts` reads at a time."""

LINE = 16 * 2**20
"""The most bytes of a line."""

PART = 4 * LINE
"""The most characters of the rows that :func:`table_parts` reads at a time."""

WHOLE = 16 * LINE
"""The most bytes of a file that is read whole."""

COLUMNS = 10_000
"""The most columns of a table."""

LONGEST_PATH = 4096
"""The most bytes of a path, as Linux has it."""


def path_inside(folder: str | Path, name: str, *, follow_links: bool) -> str:
    """Return the path from a folder to a file that is named in it, if it stays in the folder.

    This decides for everything that names files: manifests, collections, tar files, run folders.

    Args:
        name: a path from the folder, or an absolute path in the folder. What leads out of it on
            Windows leads out everywhere, because files are moved between machines.
        follow_links: whether links may lead out of the folder.

    Raises:
        UserError: the path or, unless they are followed, a link in it leads out of the folder, or
            no file can have this name. The message does not name the list.
    """
    encoded = name.encode(errors="replace")  # half of a surrogate pair
    if not name.strip() or "\0" in name or len(encoded) > LONGEST_PATH or encoded.decode() != name:
        raise UserError(f"{name[:80]!r}{'…' * (len(name) > 80)} cannot be the name of a file.")
    path = os.path.normpath(name)
    if os.path.isabs(path):
        for root in (os.path.abspath(folder), os.path.realpath(folder)):
            if Path(path).is_relative_to(root):
                path = os.path.relpath(path, root)
    first = ntpath.splitdrive(ntpath.normpath(path))[1].split("\\")[0]
    if os.path.splitdrive(path)[0] or first in ("", ".."):
        raise UserError(f"'{name}' is outside the folder {folder}. Move the file into it.")
    if not follow_links:
        root = os.path.realpath(folder)
        if not Path(os.path.realpath(os.path.join(root, path))).is_relative_to(root):
            raise UserError(
                f"'{name}' is a link out of the folder {folder}. Copy the file into it."
            )
    return path


def read_text(path: Path) -> str:
    """Return the file's text, which :func:`open_text` checks."""
    with open_text(path, whole=True) as text:
        return text.read()


def open_text(path: Path, *, header: bool = False, whole: bool = False) -> IO[str]:
    """Open a file of any size: validate it whole, then stream it.

    Args:
        header: whether rows are counted from the second line.
        whole: whether the caller reads all of it at once: the file is limited, not its lines.

    Raises:
        UserError: it is missing, unreadable, not a file, not UTF-8 or empty; or a line is longer
            than :data:`LINE`, or the file than :data:`WHOLE`.
    """
    empty, row, size, most = True, -header, 0, WHOLE if whole else LINE
    try:
        with open_file(path) as file:
            while line := file.readline(most + 1):
                row += 1
                size = size * whole + len(line)
                if size > most:
                    what = path if whole else f"{path}, row {row}" if row else f"{path}, header"
                    raise UserError(f"{what}: has more than {most >> 20} MB. Split it.")
                empty &= not line.decode("utf-8-sig").strip()
        text = io.TextIOWrapper(open_file(path), encoding="utf-8-sig", newline="\n")
    except UnicodeDecodeError:
        where = f"{path}, row {row}" if row else f"{path}, header"
        raise UserError(f"{where}: is not UTF-8 text. Save the file as UTF-8.") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}).") from None
    if empty:
        text.close()
        raise UserError(f"{path}: the file is empty.")
    return text


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file.

    Raises:
        UserError: it is missing, unreadable, not UTF-8, empty or not TOML; or it is nested so
            deeply, or has numbers of so many digits, that it cannot be written as JSON.
    """
    try:
        content = tomllib.loads(read_text(path).replace("\r\n", "\n"))
        json.dumps(content, default=str)
        return content
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: is not TOML ({error}).") from None


def read_table(path: Path, required: Iterable[str], *, quoting: Literal[0, 3] = 0) -> pd.DataFrame:
    """Read a TSV or CSV as :func:`table_parts` does, all rows at once."""
    return pd.concat(table_parts(path, required, quoting=quoting), ignore_index=True)


def table_parts(
    path: Path, required: Iterable[str], *, quoting: Literal[0, 3] = 0
) -> Iterator[pd.DataFrame]:
    """Read a TSV or CSV some rows at a time, with every cell a string, ``""`` where empty.

    With ``quoting`` 3, :data:`csv.QUOTE_NONE`, a quotation mark is a character like any other.
    Without rows, one empty part is yielded.

    Raises:
        UserError: it is missing, empty, not UTF-8, not a table, or lacks a required column.
    """
    with open_text(path, header=True) as text:
        header = text.readline()
        if path.suffix == ".tsv":
            separator = "\t"
        else:  # where the comma is the decimal point, spreadsheets write semicolons
            separator = ";" if header.count(";") > header.count(",") else ","
        if header.count(separator) >= COLUMNS:
            raise UserError(f"{path}: has more than {COLUMNS:,} columns. Remove some.")
        text.seek(0)
        rows: Any = _Rows(text, path)  # pandas reads and iterates alone
        options: dict[str, Any] = {"dtype": str, "keep_default_na": False}  # "NA" is a word
        try:
            for part in pd.read_csv(
                rows, sep=separator, quoting=quoting, chunksize=ROWS, **options
            ):
                if not isinstance(part.index, pd.RangeIndex):  # surplus cells are rows' names
                    raise UserError(f"{path}, row 1: has more cells than the header has columns.")
                check_columns(path, part, required)
                yield part
                rows.start_part(part.index[-1] + 1 if len(part) else 0)
        except pd.errors.EmptyDataError:  # it holds more than one byte order mark
            raise UserError(f"{path}: the file is empty.") from None
        except pd.errors.ParserError as error:
            raise UserError(f"{path}{_table_fault(str(error))}.") from None


class _Rows:
    """The text of a table, for pandas; refuses more than :data:`PART` for :data:`ROWS` rows.

    A cell in quotation marks can have any number of lines.
    """

    def __init__(self, text: IO[str], path: Path):
        self._text, self._path = text, path
        self.start_part(0)

    def start_part(self, row: int) -> None:
        """Begin to count anew, after this row."""
        self._row, self._read = row, 0

    def __iter__(self) -> Iterator[str]:
        """Do what pandas asks of a file, although it only reads."""
        return iter(self._text)

    def read(self, size: int = -1) -> str:
        """Read so many characters."""
        content = self._text.read(size)
        self._read += len(content)
        if self._read > PART:
            raise UserError(
                f"{self._path}, after row {self._row}: {ROWS} rows or a cell in quotation marks "
                f"have more than {PART >> 20} MB. Split the file, or close the quotation mark."
            )
        return content


def _table_fault(message: str) -> str:
    """Say what pandas' parser complains of; it counts the header as line 1, or as row 0."""
    if cells := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", message):
        columns, line, count = map(int, cells.groups())
        return f", row {line - 1}: has {count} cells for {columns} columns"
    if quote := re.search(r"EOF inside string starting at row (\d+)", message):
        return f", row {quote[1]}: has a quotation mark that is never closed"
    return f": is not a well-formed table ({message.rpartition('C error: ')[2].strip()})"


def check_columns(path: Path, table: pd.DataFrame, required: Iterable[str]) -> None:
    """Refuse a table that lacks one of these columns."""
    for column in required:
        if column not in table.columns:
            raise UserError(
                f"{path}: the column '{column}' is missing. "
                f"The file has: {', '.join(map(str, table.columns))}."
            )


def json_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a JSONL file, or of the list in a ``.json``, with their numbers.

    Raises:
        UserError: the file and row that cannot be used, and why.
    """
    for number, row in json_rows_or_errors(path):
        if isinstance(row, UserError):
            raise row
        yield number, row


def json_rows_or_errors(path: Path) -> Iterator[tuple[int, dict[str, Any] | UserError]]:
    """Yield the rows as :func:`json_rows` does, and what is wrong with those that cannot be used.

    Raises:
        UserError: the file cannot be read, or is no JSON list.
    """
    with open_text(path, whole=path.suffix == ".json") as text:
        rows: Iterable[Any] = text
        if listed := path.suffix == ".json":
            rows = _from_json(text.read(), path)
            if not isinstance(rows, list):
                raise UserError(f"{path}: is not a JSON list. One object a line is .jsonl.")
        for number, row in enumerate(rows, start=1):
            where = f"{path}, row {number}"
            if not listed and not row.strip():
                continue
            try:
                value = row if listed else _from_json(row.removesuffix("\n"), where)
                yield number, _json_object(value, where)
            except UserError as error:
                yield number, error


def _json_object(value: Any, where: str) -> dict[str, Any]:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # it could not be written again
        raise UserError(f"{where}: holds half a surrogate pair (\\ud800 to \\udfff).") from None
    if not isinstance(value, dict):
        raise UserError(f"{where}: is not a JSON object.")
    return value


def _from_json(text: str, where: object) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, " if "\n" in text else ""
        why = f"{error.msg}, {place}character {error.colno}"
        raise UserError(f"{where}: is not JSON ({why}).") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: is not JSON ({error}).") from None


def add_table(
    file: IO[str], table: pd.DataFrame, *, separator: str = ",", header: bool = True
) -> None:
    """Add a table to a file, so that :func:`read_table` gives every cell back."""
    if header:
        csv.writer(file, delimiter=separator, lineterminator="\n").writerow(table.columns)
    # A lone carriage return ends a line for readers, but the writer does not quote it.
    cells = table.to_numpy().flat
    returns = any(isinstance(cell, str) and "\r" in cell for cell in cells)
    quoting: Literal[0, 1] = csv.QUOTE_ALL if returns else csv.QUOTE_MINIMAL
    table.to_csv(file, sep=separator, index=False, header=False, quoting=quoting)
