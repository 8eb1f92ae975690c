"""Reading data files: AdMIRe's tables, image sets, V-WSD's files, and folders of them."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Any

from admire.base.errors import UserError
from admire.base.files import check_columns, json_rows_or_errors, numbered_rows, table_parts
from admire.base.storage import open_file
from admire.data.columns import (
    Numbers,
    candidate_columns,
    check_item_columns,
    check_item_keys,
    with_candidates,
)
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
from admire.data.rows import Fault, Look, RowReader, log_notes
from admire.data.vwsd import word_language, word_rows

log = logging.getLogger("admire")

Rows = Iterator[tuple[int, dict[str, Any]]] | Iterator[tuple[int, dict[str, Any] | UserError]]
"""Rows with their numbers, and what is wrong with those that cannot be read."""

DETECTED = 50
"""How many rows tell a file's language."""

JSON = (".json", ".jsonl")
"""The suffixes of files whose rows are JSON objects."""


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
    path: str | Path,
    language: str | None = None,
    *,
    images: str | Path | None = None,
    gold: str | Path | None = None,
    notes: dict[str, tuple[str, int]] | None = None,
    whole: bool = True,
    look: Look | None = None,
    limit: int | None = None,
    skip: Callable[[Fault], object] | None = None,
) -> Iterator[Item]:
    """Read an AdMIRe TSV, an image set's manifest (CSV or JSONL), or a folder, item by item.

    Tables have the columns ``compound`` and ``sentence``, optionally ``language``,
    ``sentence_type`` and ``expected_order``, and for each candidate k = 1, 2, ... ``imagek_name``
    and ``imagek_caption``. Those of Subtask B have ``sequence_captionk`` or ``sequence_imagek``,
    optionally ``expected_item``, and need no sentences; without ``sequence_imagek`` the images are
    ``s1.png``, ``s2.png``, ... in the compound's subfolder, if they are there. A JSONL manifest
    (or the list in a ``.json``) has the same keys, but ``candidates`` and ``sequence`` are lists
    of objects with ``image``, ``caption`` or both. A ``.txt`` is V-WSD's: a line is a word, its
    phrase and ten images, with tabs between. Image names are paths below the file's folder, or
    below its subfolder that is named after the compound. For folders see :func:`data_files`.

    Args:
        language: of rows without one of their own; None guesses it from the file's name, see
            :func:`guess_language`.
        images: folder of V-WSD's images; None is that of the file.
        gold: of V-WSD, see :func:`admire.data.vwsd.word_rows`.
        notes: takes the warnings, which are otherwise logged at the end; see :func:`log_notes`.
        whole: refuse items without a sentence and candidates with neither image nor caption;
            otherwise they come as they are.
        look: is called with each picture, such as :func:`admire.data.image_files.check_image`;
            a picture that is missing is then a fault even where there is a caption.
        limit: how many items of each file are read, the first ones.
        skip: takes each fault, and the item comes without what it spoils: a caption stands without
            its picture; a candidate that has nothing is dropped, from the gold too; an item with
            fewer than two is left out.

    Raises:
        UserError: the file, the row and the column that cannot be used, and why; with ``skip`` only
            if the file cannot be read any further.
    """
    path = Path(path)
    if path.suffix.lower() != ".txt" and (images or gold):
        option = "images" if images else "gold"
        raise UserError(f"{path}: only for V-WSD (.txt) are {option} given apart.", option)
    if images and not Path(images).is_dir():
        raise UserError(f"{images}: is not a folder of images.", "images")
    counted: dict[str, tuple[str, int]] = {} if notes is None else notes
    faults, told = 0, list[str]()

    def report(fault: Fault) -> None:
        nonlocal faults
        faults += 1
        if skip:
            skip(fault)

    try:
        for file, tag in data_files(path, language):
            words, nested = file.suffix.lower() == ".txt", file.suffix.lower() in JSON
            folder = Path(images) if images else file.parent
            reader = RowReader(folder, tag, words, whole, look, skip and report, counted)
            number, count, rows = 0, 0, _rows(file, gold, reader)
            if not (language or words or named_language(file)):
                first = list(islice(rows, DETECTED))
                rows = chain(first, rows)
                text = texts_to_detect(row for _, row in first)
                reader = replace(reader, language=language_of(text) or tag)
            if not language and base_language(reader.language) != "en":
                by = "name" if reader.language == tag else "sentences"
                told.append(f"{language_name(reader.language)} ({reader.language}) by the {by}")
            for number, row in rows:
                where = f"{file}, row {number}"
                try:
                    if isinstance(row, UserError):
                        raise row
                    if nested:
                        check_item_keys(row, where, reader)
                    item = reader.item(row, where)
                except UserError as error:
                    reader.report(error, "item")
                else:
                    yield item
                    count += 1
                if count == limit:
                    break
            if not number:
                raise UserError(f"{file}: holds no items.")
        if told and not faults:
            _log_languages(path, ", ".join(told))
    finally:  # the first items may be enough
        if notes is None:
            log_notes(counted)


@cache
def _log_languages(path: Path, told: str) -> None:
    """Log the languages that were not given; once, as most sets are read several times."""
    log.info("%s: read as %s.", path, told)


def texts_to_detect(rows: Iterable[dict[str, Any] | UserError]) -> str:
    """Return the texts of the first rows that do not say their language, joined."""
    first = islice(rows, DETECTED)
    return " ".join(_text_of(r) for r in first if isinstance(r, dict) and not r.get("language"))


def _text_of(row: Mapping[str, Any]) -> str:
    """Return a row's sentence or else its captions, as far as they are texts."""
    things = row.get("candidates")
    captions = [
        thing.get("caption")
        for thing in (things if isinstance(things, list) else ())
        if isinstance(thing, Mapping)
    ]
    texts = [row["sentence"]] if row.get("sentence") else captions
    return " ".join(text for text in texts if isinstance(text, str))


def _rows(file: Path, gold: str | Path | None, reader: RowReader) -> Rows:
    suffix = file.suffix.lower()
    if suffix == ".txt":
        return word_rows(file, Path(gold) if gold else None)
    return json_rows_or_errors(file) if suffix in JSON else _table_rows(file, reader)


def data_files(path: Path, language: str | None = None) -> list[tuple[Path, str]]:
    """List the files with the items, each with the language of rows without one of their own.

    They are the path itself, or of a folder its manifest, its ``subtask_*.tsv`` or else all of its
    TSVs, one for each language, by name.

    Raises:
        UserError: the folder holds none, several manifests, or several files of one language; or
            the file is missing or of another kind.
    """
    files = _files_in(path) if os.path.isdir(path) else [_checked_file(path)]
    by_code: dict[str, tuple[Path, str]] = {}
    for file in files:
        guess = word_language if file.suffix.lower() == ".txt" else guess_language
        tag = check_language(language) if language else guess(file)
        code = task_code(tag)
        if code in by_code:
            raise UserError(
                f"{path}: holds two files of one language ({code}), {by_code[code][0].name} and "
                f"{file.name}. Keep one of them there, or name the file itself."
            )
        by_code[code] = file, tag
    return list(by_code.values())


def _files_in(folder: Path) -> list[Path]:
    try:
        names = sorted(name for name in os.listdir(folder) if os.path.isfile(folder / name))
    except OSError as error:
        raise UserError(f"{folder}: cannot be read ({error.strerror}).") from None

    def matching(pattern: str) -> list[Path]:
        return [folder / name for name in names if re.fullmatch(pattern, name, re.IGNORECASE)]

    manifests = matching(r"manifest\.(csv|jsonl)")
    files = manifests or matching(r"([^.].*_)?subtask_[ab](_.*)?\.tsv") or matching(r"[^.].*\.tsv")
    if not files or len(manifests) > 1:
        raise UserError(
            f"{folder}: expected one manifest.csv or manifest.jsonl, or a TSV for each language, "
            f"in this folder, found {len(files)}. Name the file itself."
        )
    return files


def _checked_file(path: Path) -> Path:
    address = re.match("(https?:)/+(.+)", str(path))  # a Path has one slash for two
    if address and not os.path.exists(path):
        raise UserError(f"{address[1]}//{address[2]}: is an address. Download the file.")
    open_file(path).close()
    if path.suffix.lower() in (".xlsx", ".xls", ".ods"):
        raise UserError(f"{path}: is a spreadsheet. Save it there as CSV UTF-8, and name that.")
    if path.suffix.lower() not in (".tsv", ".csv", *JSON, ".txt"):
        raise UserError(f"{path}: is not .tsv, .csv, .json, .jsonl, a folder, or V-WSD's .txt.")
    return path


def _table_rows(path: Path, reader: RowReader) -> Iterator[tuple[int, dict[str, Any]]]:
    ragged = path.suffix.lower() == ".csv"  # an image set's
    numbers: Numbers | None = None
    for table in table_parts(path, ("compound",)):
        if numbers is None:
            check_item_columns(table, str(path), reader)
            numbers = candidate_columns(table)
            if not numbers[1] and "expected_item" not in table:
                check_columns(path, table, ("sentence",))
        for number, row in numbered_rows(table):
            yield number, with_candidates(row, numbers, reader, ragged=ragged)
