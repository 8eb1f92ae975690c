"""Reading text, tables and JSON lines, with errors that name file, row and column."""

from __future__ import annotations

import csv
import json
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Literal

import pandas as pd

from admire.base.errors import UserError

ROWS = 512
"""How many rows of a table :func:`table_parts` reads at a time."""


def read_text(path: Path) -> str:
    """Return the file's text, which :func:`open_text` checks."""
    with open_text(path) as text:
        return text.read()


def open_text(path: Path, *, header: bool = False) -> IO[str]:
    """Open a file of any size: validate it whole, then stream it.

    Args:
        header: whether rows are counted from the second line.

    Raises:
        UserError: it is missing, unreadable, not UTF-8 or empty.
    """
    empty, row = True, -header
    try:
        with path.open("rb") as file:
            for line in file:
                row += 1
                empty &= not line.decode("utf-8-sig").strip()
        text = path.open(encoding="utf-8-sig", newline="\n")
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
        UserError: it is missing, unreadable, not UTF-8, empty or not TOML.
    """
    try:
        return tomllib.loads(read_text(path).replace("\r\n", "\n"))
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
        text.seek(0)
        if path.suffix == ".tsv":
            separator = "\t"
        else:  # where the comma is the decimal point, spreadsheets write semicolons
            separator = ";" if header.count(";") > header.count(",") else ","
        options: dict[str, Any] = {"dtype": str, "keep_default_na": False}  # "NA" is a word
        try:
            for part in pd.read_csv(
                text, sep=separator, quoting=quoting, chunksize=ROWS, **options
            ):
                if not isinstance(part.index, pd.RangeIndex):  # surplus cells are rows' names
                    raise UserError(f"{path}, row 1: has more cells than the header has columns.")
                check_columns(path, part, required)
                yield part
        except pd.errors.EmptyDataError:  # it holds more than one byte order mark
            raise UserError(f"{path}: the file is empty.") from None
        except pd.errors.ParserError as error:
            raise UserError(f"{path}{_table_fault(str(error))}.") from None


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
    with open_text(path) as text:
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
