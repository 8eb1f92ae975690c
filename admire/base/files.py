"""Reading text, tables and JSON lines, with errors that name file, row and column."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

import pandas as pd

from admire.base.errors import UserError

ROWS = 512
"""How many rows of a table :func:`table_parts` reads at a time."""


def read_text(path: Path) -> str:
    """Return the file's text.

    Raises:
        UserError: it is missing, unreadable, not UTF-8 or empty.
    """
    with open_text(path) as text:
        return text.read()


def open_text(path: Path) -> IO[str]:
    """Open a file of any size as :func:`read_text` reads it: validate it whole, then stream it.

    Raises:
        UserError: as for :func:`read_text`.
    """
    empty, row = True, 0
    try:
        with path.open("rb") as file:
            for line in file:
                row += 1
                empty &= not line.decode("utf-8-sig").strip()
        text = path.open(encoding="utf-8-sig", newline="\n")
    except UnicodeDecodeError:
        raise UserError(f"{path}, row {row}: is not UTF-8 text. Save the file as UTF-8.") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}).") from None
    if empty:
        text.close()
        raise UserError(f"{path}: the file is empty.")
    return text


def read_table(path: Path, required: Iterable[str], *, quoting: Literal[0, 3] = 0) -> pd.DataFrame:
    """Read a TSV or CSV with every cell a string, ``""`` where empty.

    With ``quoting`` 3, :data:`csv.QUOTE_NONE`, a quotation mark is a character like any other.

    Raises:
        UserError: it is missing, empty, not UTF-8, not a table, or lacks a required column.
    """
    text = io.StringIO(read_text(path))
    with _well_formed(path):
        table: pd.DataFrame = pd.read_csv(text, quoting=quoting, **_reading(path, text))
    _check_cells(path, table, required)
    return table


def table_parts(path: Path, required: Iterable[str]) -> Iterator[pd.DataFrame]:
    """Read as :func:`read_table`, some rows at a time; without rows, yield one empty part.

    Raises:
        UserError: as for :func:`read_table`.
    """
    with open_text(path) as text, _well_formed(path):
        for part in pd.read_csv(text, chunksize=ROWS, **_reading(path, text)):
            _check_cells(path, part, required)
            yield part


def _reading(path: Path, text: IO[str]) -> dict[str, Any]:
    header = text.readline()
    text.seek(0)
    if path.suffix == ".tsv":
        separator = "\t"
    else:  # where the comma is the decimal point, spreadsheets write semicolons
        separator = ";" if header.count(";") > header.count(",") else ","
    return {"sep": separator, "dtype": str, "keep_default_na": False}  # "NA", "null" are words


@contextmanager
def _well_formed(path: Path) -> Iterator[None]:
    try:
        yield
    except pd.errors.EmptyDataError:  # it holds more than one byte order mark
        raise UserError(f"{path}: the file is empty.") from None
    except pd.errors.ParserError as error:
        reason = str(error).removeprefix("Error tokenizing data. C error: ").strip()
        raise UserError(f"{path}: is not a well-formed table ({reason}).") from None


def _check_cells(path: Path, table: pd.DataFrame, required: Iterable[str]) -> None:
    if not isinstance(table.index, pd.RangeIndex):  # pandas made surplus cells the rows' names
        raise UserError(f"{path}, row 1: has more cells than the header has columns.")
    check_columns(path, table, required)


def check_columns(path: Path, table: pd.DataFrame, required: Iterable[str]) -> None:
    """Check that a table has these columns.

    Raises:
        UserError: one is missing.
    """
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
    if path.suffix == ".json":
        try:
            rows = json.loads(read_text(path))
        except (ValueError, RecursionError) as error:
            raise UserError(f"{path}: is not JSON ({error}).") from None
        if not isinstance(rows, list):
            raise UserError(f"{path}: is not a JSON list. A file with an object a line is .jsonl.")
        for number, row in enumerate(rows, start=1):
            _check_object(row, f"{path}, row {number}")
            yield number, row
        return
    with open_text(path) as text:
        for number, line in enumerate(text, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line.removesuffix("\n"))
            except ValueError as error:
                raise UserError(f"{path}, row {number}: is not JSON ({error}).") from None
            _check_object(row, f"{path}, row {number}")
            yield number, row


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


def _check_object(row: Any, where: str) -> None:
    """Check that a value is a JSON object, and that it can be written again as UTF-8.

    Raises:
        UserError: it is not, or cannot; the message begins with ``where``.
    """
    try:
        json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise UserError(f"{where}: holds half a surrogate pair (\\ud800 to \\udfff).") from None
    if not isinstance(row, dict):
        raise UserError(f"{where}: is not a JSON object.")
