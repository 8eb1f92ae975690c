"""Reading text, tables and JSON lines, with errors that name file, row and column; safe paths."""

from __future__ import annotations

import codecs
import csv
import io
import json
import ntpath
import os
import re
import tomllib
import unicodedata
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from difflib import get_close_matches
from functools import lru_cache
from itertools import dropwhile, islice
from pathlib import Path
from typing import IO, Any, BinaryIO, Literal

import pandas as pd

from admire.core.errors import UserError, needs_extra
from admire.core.storage import open_file, split_sheet, suffix_of

ROWS, PARQUET_ROWS = 512, 64
"""How many rows of a table :func:`table_parts` reads at a time; those of Parquet hold pictures."""

TABLES = (".csv", ".tsv", ".parquet", ".xlsx")  #: the suffixes of tables

LINE = 16 * 2**20
"""The most characters of a cell, which a missing quotation mark may make of many lines."""
csv.field_size_limit(LINE)


def path_inside(folder: str | Path, name: str, *, follow_links: bool) -> str:
    """Return the path from a folder to a file that is named in it, if it stays in the folder.

    Args:
        name: a path from the folder, or an absolute path in it. What leads out of it on Windows
            leads out everywhere, because files are moved between machines.
        follow_links: whether links may lead out of the folder.

    Raises:
        UserError: the path, or a link that may not, leads out, or no file can have this name.
    """
    if follow_links and re.fullmatch(r"\w[\w -]*(\.\w+)?", name):
        return name  # nearly all names; nothing below would change or refuse them
    if not name.strip() or "\0" in name:
        raise UserError(f"{name!r} cannot be the name of a file.")
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
    with open_text(path) as text:
        return text.read()


def open_text(path: Path, *, header: bool = False) -> io.TextIOWrapper:
    """Open a file of any size: validate it whole, then stream it as UTF-8. UTF-16 is read too.

    Args:
        header: whether rows are counted from the second line.

    Raises:
        UserError: it is missing, unreadable, not a file, not UTF-8 or empty.
    """
    empty, row = True, -header
    try:
        with ExitStack() as stack:
            opened = stack.enter_context(open_file(path))
            if opened.peek(4).startswith(b"PK\3\4"):
                cure = "Unpack it, or call it .xlsx if it is an Excel file"
                raise UserError(f"{path}: is a ZIP. {cure}.")
            file: BinaryIO = opened
            if opened.peek(2)[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                with opened:
                    file = io.BytesIO(opened.read().decode("utf-16").encode())
            for line in file:
                row += 1
                empty &= not line.decode().lstrip("\ufeff").strip()
            if empty:
                raise UserError(f"{path}: the file is empty.")
            file.seek(0)
            stack.pop_all()
            return io.TextIOWrapper(file, encoding="utf-8-sig", newline="\n")
    except UnicodeDecodeError:
        where = f"{path}, row {row}" if row > 0 else f"{path}{', header' * (header and not row)}"
        raise UserError(
            f"{where}: is not UTF-8 text. Save the file as UTF-8; in Excel as 'CSV UTF-8'."
        ) from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error}).") from None


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; a UserError if it is not one."""
    try:
        return tomllib.loads(read_text(path).replace("\r\n", "\n"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: is not TOML ({error}).") from None


def read_table(path: Path, required: Iterable[str], *, quoting: Literal[0, 3] = 0) -> pd.DataFrame:
    """Read all rows of a table at once; see :func:`table_parts`."""
    return pd.concat(table_parts(path, required, quoting=quoting))


def numbered_rows(table: pd.DataFrame) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows of a table that was read here, with their numbers in the file, from 1."""
    columns = table.columns.tolist()
    for place, cells in zip(table.index.tolist(), table.to_numpy().tolist(), strict=True):
        yield place + 1, dict(zip(columns, cells, strict=True))


def table_parts(
    path: Path,
    required: Iterable[str],
    *,
    quoting: Literal[0, 3] = 0,
    nested: bool = False,
    only: Collection[str] = (),
) -> Iterator[pd.DataFrame]:
    """Read a TSV, CSV, Parquet or Excel file some rows at a time, with strings as cells.

    With ``quoting`` 3, :data:`csv.QUOTE_NONE`, a quotation mark is a character like any other. Rows
    of empty cells are left out; the index counts them, from 0. Without rows, one empty part is
    yielded. ``set.xlsx#Sheet`` is a sheet of an Excel file; without its name it is the first.

    Args:
        nested: keep Parquet's lists, structures and bytes as cells.
        only: the columns of a Parquet file to read, if it has one of them; empty for all.

    Raises:
        UserError: it cannot be read, lacks a required column, or a missing quotation mark joins
            cells.
    """
    kind, size = suffix_of(path), ROWS
    if kind == ".parquet":
        records, size = _parquet_records(path, only, nested), PARQUET_ROWS
    else:
        records = _sheet_records(path) if kind == ".xlsx" else _text_records(path, quoting)
    with closing(records):
        part = pd.DataFrame(columns=next(records), dtype=str)
        check_columns(path, part, required)
        rows = ((k, row) for k, row in enumerate(records) if any(map(_is_filled, row)))
        while cells := dict(islice(rows, size)):
            columns, kept = part.columns, object if nested else str
            part = pd.DataFrame(list(cells.values()), list(cells), columns, dtype=kept)
            yield part
        if part.empty:
            yield part


def _cell(value: Any, nested: bool) -> Any:
    """Return a cell as a string, unless it is one of those with parts that are kept."""
    if isinstance(value, dict) and not any(value.values()):  # no picture, as Hugging Face has it
        return ""
    if isinstance(value, str) or (nested and isinstance(value, list | dict | bytes)):
        return value
    return "" if value is None or value != value else str(value)  # NaN


def _is_filled(cell: Any) -> bool:
    return bool(cell.strip() if isinstance(cell, str) else cell)


def _parquet_records(path: Path, only: Collection[str], nested: bool) -> Generator[list[Any]]:
    """Yield the header and the rows of a Parquet file."""
    with needs_extra("tables", "Reading Parquet"):
        import pyarrow
        from pyarrow.parquet import ParquetFile
    open_file(path).close()
    try:
        # Without a buffer, the whole column of a row group would be read.
        with ParquetFile(path, buffer_size=2**16, pre_buffer=False) as file:
            names = file.schema_arrow.names
            some = [name for name in names if name in only]
            yield some or names
            for batch in file.iter_batches(PARQUET_ROWS, columns=some or None):
                columns = (column.to_pylist() for column in batch.columns)
                for cells in zip(*columns, strict=True):
                    yield [_cell(cell, nested) for cell in cells]
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise UserError(f"{path}: is not a Parquet file, or damaged ({reason}).") from None


def _sheet_records(path: Path) -> Generator[list[Any]]:
    """Yield the header and the rows of an Excel file's sheet."""
    with needs_extra("tables", "Reading Excel files"):
        import openpyxl  # noqa: F401 (pandas would say otherwise how to install it)
    file, sheet = split_sheet(path)
    open_file(file).close()
    try:
        table = pd.read_excel(
            file, sheet or 0, header=None, dtype=str, keep_default_na=False, engine="openpyxl"
        )
    except Exception as error:  # damaged files make the reader raise nearly anything
        raise UserError(f"{path}: cannot be read as an Excel file ({error}).") from None
    if table.empty:
        raise UserError(f"{path}: the sheet is empty.")
    records = table.to_numpy().tolist()
    yield from dropwhile(lambda cells: not any(map(_is_filled, cells)), records)


def _text_records(path: Path, quoting: Literal[0, 3]) -> Generator[list[Any]]:
    """Yield the header and the rows of a TSV or CSV; a row's missing cells are empty."""
    lines: list[str] = []  # of the row
    header: list[str] = []
    row = 0
    with open_text(path, header=True) as text:
        text.reconfigure(newline="")  # a lone carriage return ends a line too
        first = next(filter(str.strip, text))
        text.seek(0)
        separator = "\t"
        if path.suffix.lower() != ".tsv":  # where the comma is the decimal point: semicolons
            separator = ";" if first.count(";") > first.count(",") else ","
        options: Any = {"delimiter": separator, "quoting": quoting}

        def noted() -> Iterator[str]:
            for line in text:
                lines.append(line)
                yield line

        try:
            for cells in csv.reader(noted(), strict=True, **options):
                if len(cells) > 1 or "".join(cells).strip():
                    header = header or cells
                    if _is_joined(cells, lines, separator, len(header)):
                        raise csv.Error
                    if len(cells) > len(header):
                        has = f"has {len(cells)} cells for {len(header)} columns"
                        raise UserError(f"{path}, row {row}: {has}.")
                    yield cells + [""] * (len(header) - len(cells))
                    row += 1
                lines.clear()
        except csv.Error:
            raise _joined(path, row, header, lines, options) from None


def _joined(
    path: Path, row: int, header: list[str], lines: list[str], options: Mapping[str, Any]
) -> UserError:
    """Return the error of a cell that begins with a quotation mark and does not end with one."""
    where, several = f"{path}, {f'row {row}' if row else 'header'}", ""
    if len(lines) > 1:
        last = row - 1 + sum(map(bool, map(str.strip, lines)))
        several = f", so rows {row} to {last} are one"
        with suppress(csv.Error):
            joined = zip(header, next(csv.reader(lines, **options)), strict=False)  # not strict
            where += next((f", {n}" for n, cell in joined if options["delimiter"] in cell), "")
    return UserError(
        f"{where}: a cell begins with a quotation mark and does not end with one{several}. Close "
        "it in its cell, or remove it. If all of this is one cell, quote every cell of the row, "
        "and double the marks inside."
    )


def _is_joined(cells: list[str], lines: list[str], separator: str, width: int) -> bool:
    """Return whether a cell has the line breaks and separators of rows.

    A missing mark joins cells or rows. Where every cell of the row is quoted, a program wrote it.
    Commas before a space or a quotation mark are a sentence's.
    """
    if len(lines) == 1 or "".join(lines).count(f'"{separator}"') >= width - 1:
        return False
    tabs = separator == "\t"
    gap = re.compile(separator if tabs else rf'{separator}(?![\s"])')
    for cell in cells:
        breaks = len(re.findall(r"[\r\n]+", cell))
        if breaks and len(gap.findall(cell)) >= (1 if tabs else breaks * (width - 1)):
            return True
    return False


def check_columns(path: Path, table: pd.DataFrame, required: Iterable[str]) -> None:
    """Refuse a table that lacks one of these columns, or has it twice."""
    names = list(map(str, table.columns))
    for column in required:
        if names.count(column) > 1:
            raise UserError(f"{path}: the column '{column}' appears twice. Remove one of them.")
        if column not in names:
            similar = [name for name in names if plain_name(name) == plain_name(column)]
            similar += get_close_matches(column, names, n=1, cutoff=0.8)  # not sentence_type
            cure = f"Rename '{similar[0]}'" if similar else f"The file has: {', '.join(names)}"
            raise UserError(f"{path}: the column '{column}' is missing. {cure}.")


def check_spelling(where: object, names: tuple[str, ...], columns: tuple[str, ...]) -> None:
    """Refuse what :func:`misspelt` says of the columns, in a message about ``where``."""
    if fault := misspelt(names, columns):
        raise UserError(f"{where}: {fault}")


@lru_cache(maxsize=64)
def misspelt(names: tuple[str, ...], columns: tuple[str, ...]) -> str:
    """Return what is wrong if a column is spelt otherwise, so not read, or appears twice; or "".

    Other columns than these may differ from them in more than :func:`plain_name` removes.
    """
    spellings = dict(zip(map(plain_name, columns), columns, strict=True))
    renamed = {}
    for name in names:
        meant = spellings.get(plain_name(name))
        if meant and names.count(name) > 1:
            return f"the column '{name}' appears twice. Remove one of them."
        if meant and name != meant:
            if meant in names:
                return f"the column '{name}' is not read, beside '{meant}'. Remove one of them."
            renamed[name] = meant
    if not renamed:
        return ""
    return f"not read: {listed([*renamed])}. Rename to {listed([*renamed.values()])}."


def listed(names: Sequence[str]) -> str:
    """Return the first names, in quotation marks."""
    return ", ".join(f"'{name}'" for name in names[:4]) + ", …" * (len(names) > 4)


def plain_name(name: str) -> str:
    """Return a column's name without capitals, spaces, signs and zeros before a number."""
    name = unicodedata.normalize("NFKC", name).casefold()
    return re.sub(r"[\W_]+|(?<!\d)0+(?=\d)", "", name)


def json_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a JSONL file, or of the list in a ``.json``, with their numbers."""
    for number, row in json_rows_or_errors(path):
        if isinstance(row, UserError):
            raise row
        yield number, row


def json_rows_or_errors(path: Path) -> Iterator[tuple[int, dict[str, Any] | UserError]]:
    """Yield the rows as :func:`json_rows` does, and errors in place of those that are unusable."""
    with open_text(path) as text:
        rows: Iterable[Any] = text
        if listed := path.suffix.lower() == ".json":
            rows = _from_json(text.read(), path)
            if not isinstance(rows, list):
                raise UserError(f"{path}: is not a JSON list. One object a line is .jsonl.")
        for number, row in enumerate(rows, start=1):
            where = f"{path}, row {number}"
            if not listed and not row.strip():
                continue
            try:
                value = row if listed else _from_json(row.removesuffix("\n"), where)
            except UserError as error:
                value = error
            if not isinstance(value, dict | UserError):
                value = UserError(f"{where}: is not a JSON object.")
            yield number, value


def _from_json(text: str, where: object) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, " if "\n" in text else ""
        why = f"{error.msg}, {place}character {error.colno}"
        raise UserError(f"{where}: is not JSON ({why}).") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: is not JSON ({error}).") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key '{twice}' appears twice")
    return value


def add_table(
    file: IO[str], table: pd.DataFrame, *, separator: str = ",", header: bool = True
) -> None:
    """Add a table to a file, so that :func:`read_table` gives every cell back."""
    if header:
        csv.writer(file, delimiter=separator, lineterminator="\n").writerow(table.columns)
    # A lone carriage return ends a line for readers, but the writer does not quote it. And what has
    # line breaks and separators could be rows that a quotation mark joined.
    quoting: Literal[0, 1] = csv.QUOTE_MINIMAL
    for cell in table.to_numpy().flat:
        if isinstance(cell, str) and ("\r" in cell or ("\n" in cell and separator in cell)):
            quoting = csv.QUOTE_ALL
            break
    table.to_csv(file, sep=separator, index=False, header=False, quoting=quoting)
