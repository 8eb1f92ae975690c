"""Items from tables and rows in memory, and the columns that a table of items has."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, cast

import pandas as pd
from pydantic import ConfigDict, TypeAdapter, ValidationError

from admire.core.errors import UserError
from admire.core.files import check_columns, check_spelling, plain_name
from admire.data.items import Item
from admire.data.languages import check_language, detect_language
from admire.data.rows import (
    HUGGING_FACE,
    CandidateCells,
    Row,
    RowReader,
    complain,
    log_notes,
    subfolders,
)

_ITEM = TypeAdapter[Item | None](
    Item | None,
    config=ConfigDict(revalidate_instances="always"),  # None: an Item has no config
)

DETECTED = 50
"""How many rows are read to detect a file's language."""
Given = tuple[str, Any]
"""What a reader yielded, and where, for messages."""

_PATH = re.compile(r"(image|sequence)(\d*)_path(\d*)")
"""The columns that say where a picture is: image1_path, sequence_path1. No file can have them,
because it may be a stranger's, and whose pictures are inside its folder."""


def items_from_frame(
    frame: pd.DataFrame | Iterable[Mapping[str, Any]],
    folder: str | Path = ".",
    language: str | None = None,
    images: str | Path | None = None,
) -> list[Item]:
    """Read items from a table with the columns of an AdMIRe TSV, or from rows as dicts.

    See :func:`admire.read_items` for the columns. ``image1_caption``, ``image2_caption``, … alone
    are enough for candidates. A row as a dict may have ``candidates`` and ``sequence`` instead, as
    in a JSONL manifest. Empty cells may be None or NaN; ``expected_order`` may be a list. Where
    pictures are may also be said by ``image1_path``, … and ``sequence_path1``, …, as
    :func:`items_to_frame` writes them.

    In place of a picture's name there may be the picture: PIL's, the bytes of a file, or both of
    ``{"bytes": …, "path": …}``, in ``image1``, ``image1_name`` or ``image``. It is stored in
    ``pictures`` in admire's cache. Hugging Face's ``Dataset`` is such rows.

    Args:
        folder: where the images are; their names are paths below it.
        language: of rows without one of their own; None is the one that is detected in them.
        images: as for :func:`admire.read_items`.

    Raises:
        UserError: the row and the column that cannot be used, and why.
    """
    path, reader = Path(folder) / "rows", RowReader(Path(folder), check_language(language or "en"))
    reader = reader.with_images(images) if images else reader
    if isinstance(frame, pd.DataFrame):
        path = Path(folder) / "DataFrame"
        check_columns(path, frame, ("compound",))
        check_item_columns(
            (name for name in frame if not _PATH.fullmatch(str(name))), str(path), RowReader()
        )
        frame = cast("list[Mapping[str, Any]]", frame.to_dict("records"))
    rows: Iterator[Given] = ((f"{path}, row {k}", row) for k, row in enumerate(frame, start=1))
    if not language:
        text, rows = first_texts(rows)
        reader = replace(reader, language=detect_language(text))
    items = []
    try:  # one by one, because pictures in memory may be many
        for where, row in rows:
            items.append(reader.item(manifest_row(row, where, reader), where))
    finally:
        log_notes(reader.notes)
    if not items:
        raise UserError(f"{path}: contains no items.")
    return items


def first_texts(things: Iterator[Given]) -> tuple[str, Iterator[Given]]:
    """Return the texts of the first things, by which a language is detected, and all things."""
    first = list(islice(things, DETECTED))
    return " ".join(map(_text_of, first)), chain(first, things)


def _text_of(given: Given) -> str:
    """Return a row's sentence or else its captions, unless it says its language."""
    _, thing = given
    row = plain_row(thing) if isinstance(thing, Mapping) else {}
    if row.get("language"):
        return ""
    texts = [row["sentence"]] if row.get("sentence") else []
    for key, cell in row.items() if not texts else ():
        if key == "candidates" or "caption" in key:
            for part in cell if isinstance(cell, list) else [cell]:
                texts.append(part.get("caption") if isinstance(part, Mapping) else part)
    return " ".join(text for text in texts if isinstance(text, str))


def manifest_row(thing: Item | Mapping[str, Any], where: str, reader: RowReader) -> dict[str, Any]:
    """Return an item or a row from Python as :meth:`admire.data.rows.RowReader.item` takes it.

    Raises:
        UserError: it has something that cannot be read.
    """
    row = plain_row(_row(thing) if isinstance(thing, Item) else thing)
    for column in [*filter(_PATH.fullmatch, row)]:
        path = row.pop(column)
        row[column.replace("_path", "")] = Path(path) if path else ""
    read = item_row(row, where, reader, ragged=True, all_read=False)
    return {**read, **({"word": ""} if row.get("sentence") else {})}


def plain_row(cells: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row in memory with cells as a file has them."""
    return {str(name): _cell(value) for name, value in cells.items()}


def items_to_frame(items: Iterable[Item]) -> pd.DataFrame:
    """Return a table with one row per item, which :func:`items_from_frame` reads back.

    Its columns are those that :func:`items_from_frame` reads, as far as any item needs them, and
    ``image1_path``, …, which say where pictures are. The index counts from 1.
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


CANDIDATE_COLUMNS = {
    "candidates": ("image{}_name", "image{}_path", "image{}_caption"),
    "sequence": ("sequence_image{}", "sequence_path{}", "sequence_caption{}"),
}
"""The columns of name, path and caption."""


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


def check_item(item: Item, where: str) -> Item:
    """Check the texts of an item that no reader has checked; return it with tuples as its lists."""
    try:
        return cast("Item", _ITEM.validate_python(item))
    except ValidationError as error:
        raise UserError(f"{where}, {complain(error)}") from None


def describe_type(value: object) -> str:
    """Name the type of an argument that is not accepted, and of a list its first value's."""
    if isinstance(value, list | tuple) and value:
        return f"a {type(value).__name__} of {type(value[0]).__name__}"
    return f"a {type(value).__name__}"


LISTS = ("candidates", "sequence", "images", "captions")
"""The keys of a row that hold lists."""

FIELDS = Row.model_fields.keys() - {*LISTS, "word"}
"""The columns of an item itself. V-WSD's files have no header, so no column is called ``word``."""

NOT_USED = ("word", "id", "subset")
"""Keys that rows may have, and that are not read."""

OF_NUMBER = {
    "candidates": ("image{}", "image{}_name", "image{}_caption"),
    "sequence": ("sequence{}", "sequence_image{}", "sequence_caption{}"),
}
"""The columns of a candidate and of a picture in a sequence: the picture itself, its name, which
also says where the picture is if there is no other column, and its caption."""

_NUMBER = r"0|[1-9]\d{,8}"
_LOOKS_SO = re.compile(
    r"(image|img|picture|photo|candidate|caption|sequence)(s|.*\d.*)?", re.IGNORECASE | re.DOTALL
)


def item_row(
    row: Mapping[str, Any], where: str, reader: RowReader, *, ragged: bool, all_read: bool
) -> dict[str, Any]:
    """Return a row as :meth:`admire.data.rows.RowReader.item` takes it, its names checked.

    The columns of candidates and of a sequence become lists, as a JSONL manifest has them.

    Args:
        ragged: it may have fewer candidates than it has columns for.
        all_read: count any name that is not read as a warning, as in a row with lists.
    """
    names, known = tuple(map(str, row)), tuple(CandidateCells.model_fields)
    check_item_columns(names, where, reader, all_read=all_read or bool({*LISTS} & row.keys()))
    lists: dict[str, Any] = {}
    for key, numbers in zip(OF_NUMBER, candidate_columns(names), strict=True):
        things = row.get(key)
        for k, cells in enumerate(things if isinstance(things, list) else (), start=1):
            if isinstance(cells, Mapping):
                place = f"{where}, {key.removesuffix('s')} {k}"
                check_spelling(place, tuple(map(str, cells)), known)
                for name in cells.keys() - {*known, *HUGGING_FACE}:
                    has = "It has 'image', 'caption' or both"
                    reader.note(f"not read: {_meant(name, known, 0.6)}. {has}.", place)
        if not numbers:
            continue
        things = [_candidate(row, key, k, reader) for k in numbers]
        while ragged and things and not any(things[-1].values()):
            things.pop()
        lists |= {key: things} | ({"images": [], "captions": []} if key == "candidates" else {})
    return {**row, **lists}


def _candidate(row: Mapping[str, Any], key: str, k: int, reader: RowReader) -> dict[str, Any]:
    """Return what a row's columns have of the candidate, or picture in the sequence, number k."""
    picture, name, caption = (column.format(k) for column in OF_NUMBER[key])
    named, text = row.get(name, ""), row.get(caption, "")
    # A caption's name need not be that of a picture where pictures have a column.
    image = row.get(picture) or ("" if picture in row and text else named)
    if key == "sequence" and not image:
        file = f"s{k}.png"  # as AdMIRe calls it
        folders = subfolders(str(row.get("compound", "")))
        places = [os.path.join(folder, file) for folder in folders]
        image = file if reader.find_files(places) else ""
    return {"name": named if picture in row else "", "image": image, "caption": text}


def check_item_columns(
    names: Iterable[object], where: str, reader: RowReader, *, all_read: bool = False
) -> None:
    """Refuse a column that would be left out because of its spelling, or appears twice.

    Columns that look like those that are read are counted as a warning, or all that are not read.
    """
    columns = tuple(map(str, names))
    known, unread = _known_columns(columns, all_read)
    check_spelling(where, columns, known)
    if unread:
        reader.note(f"not read: {unread}", where)


@lru_cache(maxsize=64)
def _known_columns(columns: tuple[str, ...], all_read: bool) -> tuple[tuple[str, ...], str]:
    """Return the columns that could be read, and what to say of others."""
    digits = set(re.findall("[0-9]+", " ".join(map(plain_name, columns))))
    candidates, sequence = candidate_columns(columns)
    lists = [name for name in LISTS if not (sequence if name == "sequence" else candidates)]
    of_number = [column.format(k) for column in chain(*OF_NUMBER.values()) for k in digits]
    known = (*FIELDS, *lists, *of_number)
    absent, unread, cure = sorted({*known} - {*columns}), [], ""
    for name in columns:
        if name.strip() and name not in (*known, *NOT_USED):
            meant = _meant(name, absent, 0.6 if all_read else 0.8)
            looks_so = _LOOKS_SO.fullmatch(name)
            if all_read or looks_so or "?" in meant:
                unread.append(meant)
            if looks_so:
                cure = " Candidates are in image1_name, image1_caption, image2_name, …"
    more = ", …" * (len(unread) > 4)
    return known, f"{', '.join(unread[:4])}{more}.{cure}" if unread else ""


def _meant(name: str, known: Sequence[str], cutoff: float) -> str:
    """Return a name in quotation marks with the known one that is most like it, if one is."""
    similar = get_close_matches(name, known, n=1, cutoff=cutoff)
    return f"'{name}'" + "".join(f" (did you mean '{meant}'?)" for meant in similar)


@lru_cache(maxsize=64)
def candidate_columns(columns: tuple[str, ...]) -> tuple[list[int], list[int]]:
    """Find the numbers of the candidates and of the sequence's pictures in column names."""
    candidates, sequence = set[int](), set[int]()
    for name in columns:
        if match := re.fullmatch(rf"image({_NUMBER})(?:_name|_caption)?", name):
            candidates.add(int(match[1]))
        elif match := re.fullmatch(rf"sequence(?:_image|_caption)?({_NUMBER})", name):
            sequence.add(int(match[1]))
    return sorted(candidates), sorted(sequence)
