"""Reading data files: AdMIRe's tables, image sets, V-WSD's files, and folders of them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from admire.base.errors import UserError
from admire.base.files import check_columns, json_rows_or_errors, table_parts
from admire.base.storage import open_file
from admire.data.items import Item
from admire.data.languages import check_language, guess_language, task_code
from admire.data.rows import Fault, RowReader, log_notes, subfolders
from admire.data.vwsd import word_language, word_rows


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
    look: bool = False,
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
        look: open each picture's header, and count a picture that is missing as a fault even where
            there is a caption.
        skip: takes each fault, and the item comes without what it spoils: a caption stands without
            its picture; a candidate that has nothing is dropped, from the gold too; an item with
            fewer than two is left out.

    Raises:
        UserError: the file, the row and the column that cannot be used, and why; with ``skip`` only
            if the file cannot be read any further.
    """
    path = Path(path)
    if path.suffix != ".txt" and (images or gold):
        option = "images" if images else "gold"
        raise UserError(f"{path}: only for V-WSD (.txt) are {option} given apart.", option)
    if images and not Path(images).is_dir():
        raise UserError(f"{images}: is not a folder of images.", "images")
    counted: dict[str, tuple[str, int]] = {} if notes is None else notes
    try:
        for file, tag in data_files(path, language):
            words = file.suffix == ".txt"
            folder = Path(images) if images else file.parent
            reader = RowReader(folder, tag, words, whole, look, skip, counted)
            number = 0
            for number, row in _rows(file, gold):
                try:
                    if isinstance(row, UserError):
                        raise row
                    item = reader.item(row, f"{file}, row {number}")
                except UserError as error:
                    reader.report(error, "item")
                else:
                    yield item
            if not number:
                raise UserError(f"{file}: holds no items.")
    finally:  # the first items may be enough
        if notes is None:
            log_notes(counted)


def _rows(
    file: Path, gold: str | Path | None
) -> Iterator[tuple[int, dict[str, Any]]] | Iterator[tuple[int, dict[str, Any] | UserError]]:
    if file.suffix == ".txt":
        return word_rows(file, Path(gold) if gold else None)
    return json_rows_or_errors(file) if file.suffix in (".json", ".jsonl") else _table_rows(file)


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
        guess = word_language if file.suffix == ".txt" else guess_language
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
    names = ("manifest.csv", "manifest.jsonl")
    manifests = [folder / name for name in names if (folder / name).is_file()]
    tables = (sorted(folder.glob(pattern)) for pattern in ("subtask_[ab]_*.tsv", "[!.]*.tsv"))
    files = manifests or next(filter(None, tables), [])
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
    if path.suffix in (".xlsx", ".xls", ".ods"):
        raise UserError(f"{path}: is a spreadsheet. Save it there as CSV UTF-8, and name that.")
    if path.suffix not in (".tsv", ".csv", ".json", ".jsonl", ".txt"):
        raise UserError(f"{path}: is not .tsv, .csv, .json, .jsonl, a folder, or V-WSD's .txt.")
    return path


def _table_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    number = 0
    ragged = path.suffix == ".csv"  # an image set's
    for table in table_parts(path, ("compound",)):
        numbers = candidate_columns(table)
        if not numbers[1] and "expected_item" not in table:
            check_columns(path, table, ("sentence",))
        for cells in table.to_dict("records"):
            number += 1
            row = {str(column): cell for column, cell in cells.items()}
            yield number, with_candidates(row, numbers, path.parent, ragged=ragged)


Numbers = tuple[list[int], list[int]]
"""The numbers of the candidates' columns and of the sequence's."""


def candidate_columns(columns: Iterable[object]) -> Numbers:
    """Find the numbers of the candidates and of the sequence's pictures in column names."""
    names = list(map(str, columns))

    def numbers(pattern: str) -> list[int]:
        matches = (re.fullmatch(pattern, name) for name in names)
        return sorted({int(match[1]) for match in matches if match})

    # Python makes no number of more digits.
    candidates = numbers(r"image(\d{1,4000})_(?:name|caption)")
    return candidates, numbers(r"sequence_(?:image|caption)(\d{1,4000})")


def with_candidates(
    row: dict[str, Any], numbers: Numbers, folder: Path, *, ragged: bool
) -> dict[str, Any]:
    """Add a table row's candidates and sequence to it, as a JSONL manifest has them.

    A ``ragged`` row may have fewer candidates than the table has columns for.
    """
    row["candidates"] = [
        {"image": row.get(f"image{k}_name", ""), "caption": row.get(f"image{k}_caption", "")}
        for k in numbers[0]
    ]
    row["sequence"] = [
        {
            "image": row.get(f"sequence_image{k}", "") or _sequence_image(row, k, folder),
            "caption": row.get(f"sequence_caption{k}", ""),
        }
        for k in numbers[1]
    ]
    if ragged:
        for candidates in (row["candidates"], row["sequence"]):
            while candidates and not any(candidates[-1].values()):
                candidates.pop()
    return row


def _sequence_image(row: dict[str, Any], k: int, folder: Path) -> str:
    name = f"s{k}.png"  # as AdMIRe calls it
    places = (os.path.join(folder, subfolder, name) for subfolder in subfolders(row["compound"]))
    return name if any(map(os.path.isfile, places)) else ""
