"""Reading data: AdMIRe's tables, image sets, V-WSD's files, folders of them, and plug-ins."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

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
    guess_language,
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
NO_WORD = {"word": ""}
"""Only V-WSD's files have words."""
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
        language: of rows without one of their own; None guesses it from the file's name, see
            :func:`guess_language`.
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
            reader = replace(reader, folder=file.folder, language=file.language)
            reader = reader.with_images(images) if images else reader
            things = file.rows(gold, reader)
            named = file.reader.name == "vwsd" or named_language(file.path)
            if not (language or named):
                text, things = first_texts(things)
                reader = replace(reader, language=language_of(text) or file.language)
            if not language and base_language(reader.language) != "en":
                by = "name" if reader.language == file.language else "sentences"
                detected.append(f"{language_name(reader.language)} ({reader.language}) by the {by}")
            yield from islice(_items(file, things, reader), limit)
        if detected:  # once, as most sets are read several times
            log_once(logging.INFO, f"{path}: read as {', '.join(detected)}.")
    finally:  # the first items may be enough
        if rows is None:
            log_notes(reader.notes)


def _items(file: DataFile, given: Iterable[Given], reader: RowReader) -> Iterator[Item]:
    """Yield the items of the rows that can be used; report the others."""
    where = ""
    for where, thing in given:
        try:
            item = reader.item(file.row(thing, where, reader), where)
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


@dataclass(frozen=True)
class DataFile:
    """A file of items, or what else a reader reads.

    Attributes:
        name: what messages call it.
        source: its path, or what else follows the colon.
        reader: the plug-in that reads it.
        language: of rows without one of their own, unless it is detected.
    """

    name: str
    source: str
    reader: Plugin
    language: str

    @property
    def path(self) -> Path:
        """The file or folder."""
        return split_sheet(Path(self.source))[0]

    @property
    def folder(self) -> Path:
        """The folder of the images."""
        return self.path if self.path.is_dir() else self.path.parent

    def rows(self, gold: str | Path | None, rows: RowReader) -> Iterator[Given]:
        """Yield what the reader yields, each with its place.

        Raises:
            PluginError: the reader raises an exception.
        """
        with self.reader.blamed(self.name):
            given = iter(self.reader.open(self.source, gold=gold and Path(gold), rows=rows))
        for number in count(1):
            where = f"{self.name}, item {number}"
            with self.reader.blamed(where):
                try:
                    thing = next(given)
                except StopIteration:
                    return
            if self.reader.ships:
                row, thing = thing
                where = f"{self.name}, row {row}"
            yield where, thing

    def row(self, thing: Any, where: str, rows: RowReader) -> Mapping[str, Any]:
        """Return what the reader yielded as :meth:`admire.data.rows.RowReader.item` takes it.

        Raises:
            PluginError: it is neither an Item nor a dict, or has other types in it.
        """
        if isinstance(thing, UserError):
            raise thing
        if self.reader.ships:
            ragged, all_read = self.reader.name == "manifest", suffix_of(self.path) in JSON
            return item_row(thing, where, rows, ragged=ragged, all_read=all_read)
        if not isinstance(thing, Item | Mapping):
            wrong = f"yielded {describe_type(thing)}, not an Item or a dict."
            raise self.reader.error(wrong, where)
        with self.reader.blamed(where):
            return manifest_row(thing, where, rows)

    def parts(self) -> Iterator[Path]:
        """Yield the files with the data: of a plug-in's folder all but pictures, by name.

        What is hidden or what admire wrote does not count.
        """
        if takes_path(self.reader) and self.path.is_file():
            yield self.path
        for folder, folders, names in os.walk(self.path) if takes_path(self.reader) else ():
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
        if takes_path(reader) and not path.is_dir():
            open_file(path).close()
        tag = check_language(language) if language else guess_language(path)
        return [DataFile(str(data), source, reader, tag)]
    if os.path.isdir(path):
        files = _files_in(path)
    else:
        open_file(path).close()
        if not reader and (suffix := suffix_of(path)) not in READERS:
            kinds = f"{', '.join((*TABLES, *JSON))}, a folder, or V-WSD's .txt"
            what = f"is not {kinds}. Save a spreadsheet as .xlsx or CSV UTF-8"
            raise UserError(f"{path}: {'is a ZIP. Unpack it' if suffix == '.zip' else what}.")
        files = [path]
    by_code: dict[str, DataFile] = {}
    for file in files:
        of_file = reader or registry.find("reader", READERS[suffix_of(file)])
        if language:
            tag = check_language(language)
        elif of_file.name == "vwsd":
            prefix = re.match(r"([a-z]{2})\.", file.name.lower())  # fa.test.data.txt
            tag = prefix[1] if prefix else "en"
        else:
            tag = guess_language(split_sheet(file)[0])
        code = task_code(tag)
        if code in by_code:
            raise UserError(
                f"{path}: contains two files of one language ({code}), {by_code[code].path.name} "
                f"and {file.name}. Keep one of them there, or name the file itself."
            )
        by_code[code] = DataFile(str(file), str(file), of_file, tag)
    return list(by_code.values())


def full_name(data: str | Path) -> str:
    """Return a path or ``READER:PATH`` with an absolute path."""
    reader, source = _named_reader(data)
    if not reader:
        return os.path.abspath(source)
    return f"{reader.name}:{os.path.abspath(source) if takes_path(reader) else source}"


def takes_path(reader: Plugin) -> bool:
    """Return whether what follows a reader's colon is a path, which has to exist."""
    return reader.takes in ("", "PATH", "FILE", "FOLDER")


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
    if takes_path(reader):
        return reader, os.path.expanduser(source)
    return reader, re.sub("^([a-z]+):/+", r"\1://", source)  # a Path has one slash for two


def _files_in(folder: Path) -> list[Path]:
    try:
        names = sorted(name for name in os.listdir(folder) if os.path.isfile(folder / name))
    except OSError as error:
        raise UserError(f"{folder}: cannot be read ({error.strerror}).") from None

    def matching(pattern: str) -> list[Path]:
        return [folder / name for name in names if re.fullmatch(pattern, name, re.IGNORECASE)]

    manifests = matching(r"manifest\.(csv|jsonl|parquet|xlsx)")
    files = manifests or matching(r"([^.].*_)?subtask_[ab](_.*)?\.tsv") or matching(r"[^.].*\.tsv")
    if not files or len(manifests) > 1:
        raise UserError(
            f"{folder}: expected one manifest.csv or manifest.jsonl, or a TSV for each language, "
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
            yield number, row | NO_WORD


@registry.register("reader", "manifest", takes="PATH")
def manifest_rows(path: str) -> Iterator[FileRow]:
    """The manifest of an image set (.csv, .parquet, .xlsx, .json or .jsonl), or its folder."""
    if suffix_of(Path(path)) not in JSON:
        yield from table_rows(path)
        return
    for number, row in json_rows_or_errors(Path(path)):
        yield number, row if isinstance(row, UserError) else row | NO_WORD
