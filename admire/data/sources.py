"""Where rows come from: files by their readers, folders, tables and dicts in memory."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from admire.core import registry
from admire.core.errors import UserError
from admire.core.files import (
    TABLES,
    check_columns,
    json_rows_or_errors,
    numbered_rows,
    table_parts,
)
from admire.core.registry import Plugin
from admire.core.storage import MARKER, open_file, split_sheet, suffix_of
from admire.data.columns import read_columns
from admire.data.image_files import SUFFIXES
from admire.data.items import Item
from admire.data.languages import check_language, named_language, task_code
from admire.data.schema import HUGGING_FACE

Given = tuple[str, Mapping[str, Any] | UserError]
"""A row's place, for messages, and its cells, or what is wrong with it."""
FileRow = tuple[int, dict[str, Any] | UserError]
"""The same with its number in the file as its place."""

JSON = (".json", ".jsonl")  #: the suffixes of files whose rows are JSON objects
PATHS = ("", "PATH", "FILE", "FOLDER")
"""What a reader takes if what follows its colon is a path, which has to exist."""
READERS = dict.fromkeys((*TABLES, *JSON), "manifest") | {".tsv": "admire", ".txt": "vwsd"}
"""The readers of files that are named without one, by suffix. They also read folders."""


class Source(NamedTuple):
    """Rows, and what they are like.

    Attributes:
        name: what messages call it.
        folder: of the pictures.
        language: of rows without one of their own; None if it is to be detected.
        ragged: whether a row may have fewer candidates than it has columns for.
        keyed: whether rows have keys of their own, so that any that is not read is worth a warning.
        path: of the file or folder that is read, if it is one, without a sheet.
    """

    name: str
    rows: Iterable[Given]
    folder: Path
    language: str | None
    ragged: bool = True
    keyed: bool = False
    path: Path | None = None


PATH = re.compile(r"(image|sequence)(\d*)_path(\d*)")
"""The columns that say where a picture is: image1_path, sequence_path1. No file can have them,
because it may be a stranger's, and whose pictures are inside its folder."""

CANDIDATE_COLUMNS = {
    "candidates": ("image{}_name", "image{}_path", "image{}_caption"),
    "sequence": ("sequence_image{}", "sequence_path{}", "sequence_caption{}"),
}
"""The columns of name, path and caption."""


def memory_row(thing: Item | Mapping[str, Any]) -> dict[str, Any]:
    """Return an item or a row from Python with cells as a file has them, and Paths of pictures.

    Only a row without a sentence has a word.
    """
    row = plain_row(_row(thing) if isinstance(thing, Item) else thing)
    for column in [*filter(PATH.fullmatch, row)]:
        path = row.pop(column)
        row[column.replace("_path", "")] = Path(path) if path else ""
    return row | ({"word": ""} if row.get("sentence") else {})


def plain_row(cells: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row in memory with cells as a file has them."""
    return {str(name): _cell(value) for name, value in cells.items()}


def _cell(value: Any) -> Any:
    """Return a cell as it would be in a file: texts and lists, empty for None and NaN."""
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):  # NumPy's and pandas'
        value = value.tolist()
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
        return list(map(_cell, value))
    if isinstance(value, Mapping):
        if value.keys() <= HUGGING_FACE and not value.get("bytes"):
            path = value.get("path") or ""  # of a dataset whose pictures are not decoded
            return Path(path) if os.path.isfile(path) else path
        return {key: _cell(inner) for key, inner in value.items()}
    return "" if pd.api.types.is_scalar(value) and pd.isna(value) else value


def items_to_frame(items: Iterable[Item]) -> pd.DataFrame:
    """Return a table with one row per item, which :func:`admire.items_from_frame` reads back.

    It has the columns that any item needs, and ``image1_path``, …, which say where pictures are.
    The index counts from 1.
    """
    rows = [_row(item) for item in items]
    needed = {name for row in rows for name, cell in row.items() if cell}
    needed |= {"compound", "sentence"}
    # Without its path, a picture's name would be looked for in the current folder.
    needed |= {name.replace("_name", "_path").replace("_image", "_path") for name in needed}
    table = pd.DataFrame(rows, pd.RangeIndex(1, len(rows) + 1, name="item"))
    return table[[name for name in table if name in needed]]


def _row(item: Item) -> dict[str, Any]:
    row: dict[str, Any] = {
        "compound": item.compound,
        "sentence": item.sentence,
        "language": item.language,
        "sentence_type": item.sentence_type,
        "word": item.word,
        "definitions": list(item.definitions),
        "expected_order": list(item.expected_order or ()),
        "expected_item": item.expected_item,
    }
    for key, columns in CANDIDATE_COLUMNS.items():
        for k, candidate in enumerate(getattr(item, key), start=1):
            image = candidate.image and str(candidate.image)
            # Without a picture, the name may be only the candidate's number.
            numbered = not image and candidate.name == f"{key.removesuffix('s')}{k}"
            cells = "" if numbered else candidate.name, image, candidate.caption
            row |= {column.format(k): cell for column, cell in zip(columns, cells, strict=True)}
    return row


def describe_type(value: object) -> str:
    """Name the type of an argument that is not accepted, and of a list its first value's."""
    if isinstance(value, list | tuple) and value:
        return f"a {type(value).__name__} of {type(value[0]).__name__}"
    return f"a {type(value).__name__}"


def memory_source(
    data: pd.DataFrame | Iterable[Mapping[str, Any]], folder: str | Path, language: str | None
) -> Source:
    """Return the rows of a table, or rows as dicts."""
    path = Path(folder) / ("DataFrame" if isinstance(data, pd.DataFrame) else "rows")
    tag = check_language(language) if language else None
    return Source(str(path), _memory_rows(data, path), Path(folder), tag)


def _memory_rows(data: Any, path: Path) -> Iterator[Given]:
    if isinstance(data, pd.DataFrame):
        check_columns(path, data, ("compound",))
        read_columns((name for name in data if not PATH.fullmatch(str(name))), str(path))
        data = data.to_dict("records")
    for number, row in enumerate(data, start=1):
        yield f"{path}, row {number}", memory_row(row)


def _rows_by(reader: Plugin, name: str, source: str, gold: str | Path | None) -> Iterator[Given]:
    """Yield what a reader yields, each with its place; a PluginError if it raises anything."""
    with reader.blamed(name):
        things = iter(reader.open(source, gold=Path(gold) if gold else None))
    for number in count(1):
        where = f"{name}, item {number}"
        with reader.blamed(where):
            try:
                thing = next(things)
            except StopIteration:
                return
        if reader.ships:
            row, thing = thing
            where = f"{name}, row {row}"
        elif isinstance(thing, Item | Mapping):
            try:
                with reader.blamed(where):
                    thing = memory_row(thing)
            except UserError as error:
                thing = error
        elif not isinstance(thing, UserError):
            wrong = f"yielded {describe_type(thing)}, not an Item or a dict."
            thing = reader.error(wrong, where)
        yield where, thing


def data_parts(data: str | Path) -> Iterator[Path]:
    """Yield the files with the data: of a plug-in's folder all but its pictures.

    What is hidden or what admire wrote does not count.
    """
    for source in data_files(data):
        if source.path and source.path.is_file():
            yield source.path
        for folder, folders, names in os.walk(source.path or ""):
            visible = (name for name in sorted(folders) if not name.startswith("."))
            folders[:] = [name for name in visible if not Path(folder, name, MARKER).exists()]
            for name in sorted(names):
                if not name.startswith(".") and not name.lower().endswith(SUFFIXES):
                    yield Path(folder, name)


def data_files(
    data: str | Path, language: str | None = None, gold: str | Path | None = None
) -> list[Source]:
    """List the files with the items.

    They are the path itself, or of a folder its manifest, its ``subtask_*.tsv`` or else all of its
    TSVs, one for each language, by name. What a plug-in reads is one file.

    Args:
        data: a path, or ``READER:PATH``.
        language, gold: as for :func:`admire.data.reader.iter_items`.

    Raises:
        UserError: the folder holds none, several manifests, or several files of one language; the
            file is missing or of another kind; or the reader is unknown.
    """
    reader, source = _named_reader(data)
    path = Path(source)
    if reader and not reader.ships:
        if reader.takes in PATHS and not path.is_dir():
            open_file(path).close()
        sources = {str(data): source}
    else:
        files = [*map(str, _files_at(path, reader))]
        sources = dict(zip(files, files, strict=True))
    by_code: dict[str, Source] = {}
    for name, source in sources.items():
        file = split_sheet(Path(source))[0]
        of_file = reader or registry.find("reader", READERS[file.suffix.lower()])
        if gold and "gold" not in of_file.arguments:
            raise UserError(f"{name}: gold can be given only for V-WSD (.txt).", "gold")
        tag = check_language(language) if language else _language_of(of_file, file)
        code = task_code(tag or "en")
        if code in by_code:
            raise UserError(
                f"{path}: contains two files of one language ({code}), "
                f"{Path(by_code[code].name).name} and {file.name}. Keep one of them there, or name "
                "the file itself."
            )
        by_code[code] = Source(
            name,
            _rows_by(of_file, name, source, gold),
            folder=file if file.is_dir() else file.parent,
            language=tag,
            ragged=of_file.ragged,
            keyed=of_file.ships and suffix_of(file) in JSON,
            path=file if of_file.takes in PATHS else None,
        )
    return list(by_code.values())


def _language_of(reader: Plugin, file: Path) -> str | None:
    """Return the language that a reader or the name of a file says; None if neither does."""
    with reader.blamed(str(file)):
        tag = (reader.language or named_language)(file)
        return check_language(tag) if tag else None


def full_name(data: str | Path) -> str:
    """Return a path or ``READER:PATH`` with an absolute path."""
    reader, source = _named_reader(data)
    path = os.path.abspath(source) if not reader or reader.takes in PATHS else source
    return f"{reader.name}:{path}" if reader else path


def split_name(data: str | Path) -> tuple[str, str]:
    """Return the name of the reader before the colon, empty without one, and what follows it."""
    name = re.fullmatch(r"(?!https?:)([A-Za-z][\w.-]+):(.*)", str(data), re.DOTALL)
    return (name[1], name[2]) if name else ("", str(data))


def _named_reader(data: str | Path) -> tuple[Plugin | None, str]:
    """Return the plug-in that data are named with, None without one, and what it reads."""
    name, source = split_name(data)
    if not name or os.path.lexists(data):
        return None, str(data)
    if not source:
        raise registry.unknown("reader", str(data))
    reader = registry.find("reader", name)
    if reader.takes in PATHS:
        return reader, os.path.expanduser(source)
    return reader, re.sub("^([a-z]+):/+", r"\1://", source)  # a Path has one slash for two


MANIFEST = r"manifest\.(csv|jsonl|parquet|xlsx)"
TSVS = (r"([^.].*_)?subtask_[ab](_.*)?\.tsv", r"[^.].*\.tsv")
"""The names of the files with items in a folder: a manifest, or else AdMIRe's, or any TSV's."""


def _files_at(path: Path, reader: Plugin | None) -> list[Path]:
    """Return a file that can be read, or the files with the items in a folder."""
    if not os.path.isdir(path):
        open_file(path).close()
        if not reader and (suffix := suffix_of(path)) not in READERS:
            kinds = f"{', '.join((*TABLES, *JSON))}, a folder, or V-WSD's .txt"
            fault = f"is not {kinds}. Save a spreadsheet as .xlsx or CSV UTF-8"
            raise UserError(f"{path}: {'is a ZIP. Unpack it' if suffix == '.zip' else fault}.")
        return [path]
    try:
        names = sorted(os.listdir(path))
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}).") from None
    for pattern in (MANIFEST, *TSVS):
        matches = filter(re.compile(pattern, re.IGNORECASE).fullmatch, names)
        if files := [*filter(Path.is_file, map(path.joinpath, matches))]:
            break
    if not files or (pattern == MANIFEST and len(files) > 1):
        raise UserError(
            f"{path}: expected one manifest.csv or manifest.jsonl, or a TSV for each language, "
            f"in this folder, found {len(files)}. Name the file itself."
        )
    return files


@registry.register("reader", "admire", takes="PATH", ragged=False)
def table_rows(path: str) -> Iterator[FileRow]:
    """A TSV of AdMIRe, Subtask A or B, or a folder with one for each language."""
    for part, table in enumerate(table_parts(Path(path), ("compound",), nested=True)):
        if not part:
            columns = read_columns(table, path)
            if not columns.sequence and not {"sequence", "expected_item"} & {*table}:
                check_columns(Path(path), table, ("sentence",))
        for number, row in numbered_rows(table):
            yield number, row | {"word": ""}  # only V-WSD's files have words


@registry.register("reader", "manifest", takes="PATH")
def manifest_rows(path: str) -> Iterator[FileRow]:
    """The manifest of an image set (.csv, .parquet, .xlsx, .json or .jsonl), or its folder."""
    if suffix_of(Path(path)) not in JSON:
        yield from table_rows(path)
        return
    for number, row in json_rows_or_errors(Path(path)):
        yield number, row if isinstance(row, UserError) else row | {"word": ""}
