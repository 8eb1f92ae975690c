"""The columns of tables and keys of JSON rows: which of them are read, and which look so."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
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
    *("image{}", "image{}_name", "image{}_caption"),
    *("sequence{}", "sequence_image{}", "sequence_caption{}"),
)
"""The columns of a candidate and of a picture in a sequence: the picture itself, its name, which
also says where the picture is if there is no other column, and its caption."""

_LOOKS_SO = re.compile(
    r"(image|img|picture|photo|candidate|caption|sequence)(s|.*\d.*)?", re.IGNORECASE | re.DOTALL
)


def item_row(
    row: Mapping[str, Any], where: str, reader: RowReader, *, ragged: bool, all_read: bool
) -> Mapping[str, Any]:
    """Return a row as :meth:`admire.data.rows.RowReader.item` takes it, its names checked.

    Args:
        ragged: it may have fewer candidates than it has columns for.
        all_read: count each name that is not read as a warning, as in a row with lists.
    """
    columns = tuple(map(str, row))
    nested = bool(set(LISTS) & row.keys())
    check_item_columns(columns, where, reader, all_read=all_read or nested)
    for name in LISTS[:2]:
        things = row.get(name)
        for number, cells in enumerate(things if isinstance(things, list) else (), start=1):
            if isinstance(cells, Mapping):
                place = f"{where}, {name.removesuffix('s')} {number}"
                check_spelling(place, tuple(map(str, cells)), tuple(CandidateCells.model_fields))
                for key in cells.keys() - CandidateCells.model_fields.keys() - HUGGING_FACE:
                    reader.note(f"not read: '{key}'. It has 'image', 'caption' or both.", place)
    return with_candidates(row, candidate_columns(columns), reader, ragged=ragged)


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
    known = (*FIELDS, *lists, *(column.format(k) for column in OF_NUMBER for k in digits))
    absent = [name for name in known if name not in columns]
    unread, cure = [], ""
    for name in columns:
        similar = get_close_matches(name, absent, n=1, cutoff=0.8)
        looks_so = _LOOKS_SO.fullmatch(name)
        if name not in (*known, *NOT_USED) and (all_read or similar or looks_so):
            unread.append(f"'{name}'" + "".join(f" (did you mean '{one}'?)" for one in similar))
            cure = (
                " Candidates are in image1_name, image1_caption, image2_name, …"
                if looks_so
                else cure
            )
    return known, "" if not unread else f"{', '.join(unread[:4])}{', …' * (len(unread) > 4)}.{cure}"


@lru_cache(maxsize=64)
def candidate_columns(columns: tuple[str, ...]) -> Numbers:
    """Find the numbers of the candidates and of the sequence's pictures in column names."""

    def numbers(pattern: str) -> list[int]:
        matches = (re.fullmatch(pattern, name) for name in columns)
        return sorted({int(match[1]) for match in matches if match})

    candidates = numbers(r"image(0|[1-9]\d{,8})(?:_name|_caption)?")
    return candidates, numbers(r"sequence(?:_image|_caption)?(0|[1-9]\d{,8})")


def with_candidates(
    row: Mapping[str, Any], numbers: Numbers, reader: RowReader, *, ragged: bool
) -> Mapping[str, Any]:
    """Return a row with the candidates and the sequence of its columns as lists."""
    lists: dict[str, Any] = {}
    for key, places, columns in zip(LISTS, numbers, (OF_NUMBER[:3], OF_NUMBER[3:]), strict=False):
        things = [_candidate(row, *(column.format(k) for column in columns)) for k in places]
        for k, cells in zip(places, things, strict=True):
            if key == "sequence" and not cells["image"]:
                cells["image"] = _sequence_image(row, k, reader)
        while ragged and things and not any(things[-1].values()):
            things.pop()
        if places:
            lists |= {"images": [], "captions": []} if key == "candidates" else {}
            lists[key] = things
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
