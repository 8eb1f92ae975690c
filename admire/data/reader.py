"""Reading data: AdMIRe's tables, image sets, V-WSD's files, folders of them, and plug-ins."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count, islice
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
from admire.core.progress import log_once
from admire.core.registry import Plugin
from admire.core.storage import MARKER, open_file, split_sheet, suffix_of
from admire.data.frames import (
    Given,
    candidate_columns,
    check_item,
    check_item_columns,
    describe_type,
    first_texts,
    item_row,
    items_from_frame,
    manifest_row,
)
from admire.data.image_files import SUFFIXES
from admire.data.items import Item
from admire.data.languages import (
    base_language,
    check_language,
    language_name,
    language_of,
    named_language,
    task_code,
)
from admire.data.rows import RowReader, log_notes

FileRow = tuple[int, dict[str, Any] | UserError]
"""A row's number in a file, and the row as a JSONL manifest has it, or what is wrong with it."""
Data = str | Path | pd.DataFrame | Iterable[Mapping[str, Any]] | Iterable[Item]
"""A file or folder of items, ``READER:PATH``, a table, rows as dicts, or the items themselves."""

JSON = (".json", ".jsonl")
"""The suffixes of files whose rows are JSON objects."""
PATHS = ("", "PATH", "FILE", "FOLDER")
"""What a reader takes if what follows its colon is a path, which has to exist."""
READERS = dict.fromkeys((*TABLES, *JSON), "manifest") | {".tsv": "admire", ".txt": "vwsd"}
"""The readers of files that are named without one, by suffix. They also read folders."""


def read_items(
    path: str | Path,
    language: str | None = None,
    *,
    images: str | Path | None = None,
    gold: str | Path | None = None,
) -> list[Item]:
    """Read all items of a file at once; see :func:`iter_items`."""
    return list(iter_items(path, language, images=images, gold=gold))


def iter_items(
    path: Data,
    language: str | None = None,
    *,
    images: str | Path | None = None,
    gold: str | Path | None = None,
    limit: int | None = None,
    rows: RowReader | None = None,
) -> Iterator[Item]:
    """Read an AdMIRe TSV, an image set's manifest (a table or JSONL), or a folder, item by item.

    What is in memory is taken as :func:`admire.rank` takes it.

    Tables have the columns ``compound`` and ``sentence``, optionally ``language``,
    ``sentence_type`` and ``expected_order``, and for each candidate k = 1, 2, ... ``imagek_name``
    and ``imagek_caption``. Those of Subtask B have ``sequence_captionk`` or ``sequence_imagek``,
    optionally ``expected_item``, and need no sentences; without ``sequence_imagek`` the images are
    ``s1.png``, ``s2.png``, ... in the compound's subfolder, if they are there. A JSONL manifest
    (or the list in a ``.json``) has the same keys, but ``candidates`` and ``sequence`` are lists
    of objects with ``image``, ``caption`` or both, or of captions; or ``captions`` and ``images``
    are lists. A ``.txt`` is V-WSD's: a line is a word, its
    phrase and ten images, with tabs between. Image names are paths below the file's folder, or
    below its subfolder that is named after the compound. For folders see :func:`data_files`.

    ``READER:PATH`` is read by a plug-in of that name. It is called with what follows the colon, and
    yields Items, or dicts as :func:`admire.items_from_frame` takes them. For a row that cannot be
    used it yields a :class:`admire.UserError`. What exists under the whole name comes first.

    Args:
        language: of rows without one of their own; None takes it from the file's name, see
            :func:`named_language`, or detects it.
        images: folder of the images; None is that of the file. Names are paths below it, or, as
            annotation tools write them, end with the name of one file anywhere below it.
        gold: of V-WSD, see :func:`admire.data.vwsd.word_rows`.
        limit: how many items of each file are read, the first ones.
        rows: how rows are read. It also takes the warnings, which are otherwise logged at the end.

    Raises:
        UserError: the file, the row and the column that cannot be used, and why; where faults
            are skipped, only if the file cannot be read any further.
    """
    if not isinstance(path, str | Path):
        yield from islice(take_items(path, language, images), limit)
        return
    reader = rows or RowReader()
    detected: list[str] = []
    try:
        for file in data_files(path, language):
            if gold and "gold" not in file.reader.arguments:
                raise UserError(f"{file.name}: gold can be given only for V-WSD (.txt).", "gold")
            reader = replace(reader, folder=file.folder, language=file.language or "en")
            reader = reader.with_images(images) if images else reader
            things = _given(file, gold, reader)
            if not file.language:
                text, things = first_texts(things)
                reader = replace(reader, language=language_of(text) or "en")
            if not language and base_language(reader.language) != "en":
                by = "name" if file.language else "sentences"
                detected.append(f"{language_name(reader.language)} ({reader.language}) by the {by}")
            yield from islice(_items(file, things, reader), limit)
        if detected:  # once, as most sets are read several times
            log_once(logging.INFO, f"{path}: read as {', '.join(detected)}.")
    finally:  # the first items may be enough
        if rows is None:
            log_notes(reader.notes)


def _given(file: DataFile, gold: str | Path | None, rows: RowReader) -> Iterator[Given]:
    """Yield what a file's reader yields, each with its place.

    Raises:
        PluginError: the reader raises an exception.
    """
    with file.reader.blamed(file.name):
        given = iter(file.reader.open(file.source, gold=gold and Path(gold), rows=rows))
    for number in count(1):
        where = f"{file.name}, item {number}"
        with file.reader.blamed(where):
            try:
                thing = next(given)
            except StopIteration:
                return
        if file.reader.ships:
            row, thing = thing
            where = f"{file.name}, row {row}"
        yield where, thing


def _items(file: DataFile, given: Iterable[Given], reader: RowReader) -> Iterator[Item]:
    """Yield the items of the rows that can be used; report the others.

    Raises:
        PluginError: one is neither an Item nor a dict, or has other types in it.
    """
    ragged, all_read = file.reader.name == "manifest", suffix_of(file.path) in JSON
    where = ""
    for where, thing in given:
        try:
            if isinstance(thing, UserError):
                raise thing
            if file.reader.ships:
                row = item_row(thing, where, reader, ragged=ragged, all_read=all_read)
            elif isinstance(thing, Item | Mapping):
                with file.reader.blamed(where):
                    row = manifest_row(thing, where, reader)
            else:
                wrong = f"yielded {describe_type(thing)}, not an Item or a dict."
                raise file.reader.error(wrong, where)
            item = reader.item(row, where)
        except UserError as error:
            reader.report(error, "item")
        else:
            yield item
    if not where:
        raise UserError(f"{file.name}: contains no items.")


def take_items(
    data: Data, language: str | None = None, images: str | Path | None = None
) -> Sequence[Item]:
    """Return items from any of the forms that Python functions accept; see :func:`iter_items`."""
    if isinstance(data, str | Path):
        return read_items(data, language, images=images)
    if isinstance(data, pd.DataFrame):
        return items_from_frame(data, language=language, images=images)
    if isinstance(data, Iterable) and not isinstance(data, Mapping | bytes):
        values: Iterator[Any] = iter(data)  # pictures in memory may be many
        first: Any = next(values, {})
        if isinstance(first, Mapping):
            rows = chain([first] if first else [], values)
            return items_from_frame(rows, language=language, images=images)
        things = [first, *values]
        if all(isinstance(thing, Item) for thing in things):
            return [check_item(item, f"item {number}") for number, item in enumerate(things, 1)]
        data = things
    raise UserError(
        f"items are a path, a DataFrame, dicts or Items, not {describe_type(data)}.", "items"
    )


class DataFile(NamedTuple):
    """A file of items, or what else a reader reads.

    Attributes:
        name: what messages call it.
        source: its path, or what else follows the colon.
        path: the source as a path, without a sheet.
        folder: of the images.
        reader: the plug-in that reads it.
        language: of rows without one of their own; None if it is to be detected.
    """

    name: str
    source: str
    path: Path
    folder: Path
    reader: Plugin
    language: str | None


def data_parts(data: str | Path) -> Iterator[Path]:
    """Yield the files with the data: of a plug-in's folder all but pictures, by name.

    What is hidden or what admire wrote does not count.
    """
    for file in data_files(data):
        if file.reader.takes not in PATHS:
            continue
        if file.path.is_file():
            yield file.path
        for folder, folders, names in os.walk(file.path):
            shown = (name for name in sorted(folders) if not name.startswith("."))
            folders[:] = [name for name in shown if not Path(folder, name, MARKER).exists()]
            for name in sorted(names):
                if not name.startswith(".") and not name.lower().endswith(SUFFIXES):
                    yield Path(folder, name)


def data_files(data: str | Path, language: str | None = None) -> list[DataFile]:
    """List the files with the items, each with the language of rows without one of their own.

    They are the path itself, or of a folder its manifest, its ``subtask_*.tsv`` or else all of its
    TSVs, one for each language, by name. What a plug-in reads is one file.

    Args:
        data: a path, or ``READER:PATH``.

    Raises:
        UserError: the folder holds none, several manifests, or several files of one language; the
            file is missing or of another kind; or the reader is unknown.
    """
    reader, source = _named_reader(data)
    path = Path(source)
    if reader and reader.name not in READERS.values():
        if reader.takes in PATHS and not path.is_dir():
            open_file(path).close()
        sources = {str(data): source}
    else:
        files = [*map(str, _files_at(path, reader))]
        sources = dict(zip(files, files, strict=True))
    by_code: dict[str, DataFile] = {}
    for name, source in sources.items():
        file = split_sheet(Path(source))[0]
        of_file = reader or registry.find("reader", READERS[file.suffix.lower()])
        tag: str | None
        if language:
            tag = check_language(language)
        elif of_file.name == "vwsd":
            prefix = re.match(r"([a-z]{2})\.", file.name.lower())  # fa.test.data.txt
            tag = prefix[1] if prefix else "en"
        else:
            tag = named_language(file)
        code = task_code(tag or "en")
        if code in by_code:
            raise UserError(
                f"{path}: contains two files of one language ({code}), {by_code[code].path.name} "
                f"and {file.name}. Keep one of them there, or name the file itself."
            )
        folder = file if file.is_dir() else file.parent
        by_code[code] = DataFile(name, source, file, folder, of_file, tag)
    return list(by_code.values())


def full_name(data: str | Path) -> str:
    """Return a path or ``READER:PATH`` with an absolute path."""
    reader, source = _named_reader(data)
    path = os.path.abspath(source) if not reader or reader.takes in PATHS else source
    return f"{reader.name}:{path}" if reader else path


def split_name(data: str | Path) -> tuple[str, str]:
    """Return the reader that data are named with, empty without one, and what follows the colon."""
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
            what = f"is not {kinds}. Save a spreadsheet as .xlsx or CSV UTF-8"
            raise UserError(f"{path}: {'is a ZIP. Unpack it' if suffix == '.zip' else what}.")
        return [path]
    try:
        names = sorted(os.listdir(path))
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}).") from None
    for pattern in (MANIFEST, *TSVS):
        matches = re.compile(pattern, re.IGNORECASE).fullmatch
        files = [path / name for name in names if matches(name) and os.path.isfile(path / name)]
        if files:
            break
    if not files or (pattern == MANIFEST and len(files) > 1):
        raise UserError(
            f"{path}: expected one manifest.csv or manifest.jsonl, or a TSV for each language, "
            f"in this folder, found {len(files)}. Name the file itself."
        )
    return files


@registry.register("reader", "admire", takes="PATH")
def table_rows(path: str) -> Iterator[FileRow]:
    """A TSV of AdMIRe, Subtask A or B, or a folder with one for each language."""
    for part, table in enumerate(table_parts(Path(path), ("compound",), nested=True)):
        if not part:
            check_item_columns(table, path, RowReader())  # rows count the warnings
            own = {"sequence", "expected_item"} & {*table}
            if not own and not candidate_columns(tuple(table))[1]:
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
