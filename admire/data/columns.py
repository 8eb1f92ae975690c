"""The columns of tables and keys of JSON rows: which of them are read, and which look so."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from admire.core.files import check_spelling, plain_name
from admire.data.rows import HUGGING_FACE, CandidateCells, Row, RowReader, subfolders

Numbers = tuple[list[int], list[int]]
"""The numbers of the candidates' columns and of the sequence's."""

LISTS = ("candidates", "sequence", "images", "captions")
"""The keys of a row that hold lists."""

FIELDS = tuple(name for name in Row.model_fields if name not in (*LISTS, "word"))
"""The columns of an item itself. V-WSD's files have no header, so no column is called ``word``."""

NOT_USED = ("word", "id", "subset")
"""Keys that rows may have, and that are not read."""

OF_NUMBER = (
    ("image{}", "image{}_name", "image{}_caption"),
    ("sequence{}", "sequence_image{}", "sequence_caption{}"),
)
"""The columns of a candidate and of a picture in a sequence: the picture itself, its name, which
also says where the picture is if there is no other column, and its caption."""

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
    for key, numbers, columns in zip(LISTS, candidate_columns(names), OF_NUMBER, strict=False):
        things = row.get(key)
        for k, cells in enumerate(things if isinstance(things, list) else (), start=1):
            if isinstance(cells, Mapping):
                place = f"{where}, {key.removesuffix('s')} {k}"
                check_spelling(place, tuple(map(str, cells)), known)
                for name in cells.keys() - {*known, *HUGGING_FACE}:
                    has = "It has 'image', 'caption' or both"
                    reader.note(f"not read: {_meant(name, known, 0.6)}. {has}.", place)
        things = [_candidate(row, *(column.format(k) for column in columns)) for k in numbers]
        for k, cells in zip(numbers, things, strict=True):
            if key == "sequence" and not cells["image"]:
                cells["image"] = _sequence_image(row, k, reader)
        while ragged and things and not any(things[-1].values()):
            things.pop()
        if numbers:
            lists |= {key: things} | ({"images": [], "captions": []} if key == LISTS[0] else {})
    return {**row, **lists}


def _candidate(row: Mapping[str, Any], picture: str, name: str, caption: str) -> dict[str, Any]:
    named, text = row.get(name, ""), row.get(caption, "")
    # A caption's name need not be that of a picture where pictures have a column.
    image = row.get(picture) or ("" if picture in row and text else named)
    return {"name": named if picture in row else "", "image": image, "caption": text}


def _sequence_image(row: Mapping[str, Any], k: int, reader: RowReader) -> str:
    name = f"s{k}.png"  # as AdMIRe calls it
    folders = subfolders(str(row.get("compound", "")))
    return name if reader.find_files(os.path.join(folder, name) for folder in folders) else ""


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
    digits = {number for name in columns for number in re.findall("[0-9]+", plain_name(name))}
    numbers = candidate_columns(columns)
    lists = (name for name in LISTS if not numbers[name == "sequence"])
    of_number = (column.format(k) for of_key in OF_NUMBER for column in of_key for k in digits)
    known = (*FIELDS, *lists, *of_number)
    absent, unread, cure = [name for name in known if name not in columns], [], ""
    for name in columns:
        if name.strip() and name not in (*known, *NOT_USED):
            meant, looks_so = (
                _meant(name, absent, 0.6 if all_read else 0.8),
                _LOOKS_SO.fullmatch(name),
            )
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
def candidate_columns(columns: tuple[str, ...]) -> Numbers:
    """Find the numbers of the candidates and of the sequence's pictures in column names."""

    def numbers(pattern: str) -> list[int]:
        matches = (re.fullmatch(pattern, name) for name in columns)
        return sorted({int(match[1]) for match in matches if match})

    candidates = numbers(r"image(0|[1-9]\d{,8})(?:_name|_caption)?")
    return candidates, numbers(r"sequence(?:_image|_caption)?(0|[1-9]\d{,8})")
