"""Reading text, tables and JSON lines, with errors that name file, row and column."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from admire.errors import UserError


def read_text(path: Path) -> str:
    """The file's text.

    Raises:
        UserError: it is missing, unreadable, not UTF-8 or empty.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            text = file.read()
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}: is not UTF-8 text (byte {error.start}). Save the file as UTF-8."
        ) from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}).") from None
    if not text.strip():
        raise UserError(f"{path}: the file is empty.")
    return text


def read_table(path: Path, required: Iterable[str], *, quoting: Literal[0, 3] = 0) -> pd.DataFrame:
    """Read a TSV or CSV with every cell a string, ``""`` where empty.

    With ``quoting`` 3, :data:`csv.QUOTE_NONE`, a quotation mark is a character like any other.

    Raises:
        UserError: it is missing, empty, not UTF-8, not a table, or lacks a required column.
    """
    text = read_text(path)
    try:
        table = pd.read_csv(
            io.StringIO(text),
            sep="\t" if path.suffix == ".tsv" else ",",
            dtype=str,
            keep_default_na=False,  # "NA" and "null" are words
            quoting=quoting,
        )
    except pd.errors.ParserError as error:
        reason = str(error).removeprefix("Error tokenizing data. C error: ").strip()
        raise UserError(f"{path}: is not a well-formed table ({reason}).") from None
    if not isinstance(table.index, pd.RangeIndex):  # pandas made surplus cells the rows' names
        raise UserError(f"{path}, row 1: has more cells than the header has columns.")
    check_columns(path, table, required)
    return table


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
    """The objects of a JSONL file, with their numbers.

    Raises:
        UserError: the file and row that cannot be used, and why.
    """
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{path}, row {number}: is not JSON ({error}).") from None
        check_object(row, f"{path}, row {number}")
        yield number, row


def check_object(row: Any, where: str) -> None:
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
