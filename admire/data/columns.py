"""The columns of tables and keys of JSON rows: which of them are read, and which look so."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from admire.core.files import check_spelling, listed, plain_name
from admire.data.rows import CandidateCells, Row, RowReader, subfolders

Numbers = tuple[list[int], list[int]]
"""The numbers of the candidates' columns and of the sequence's."""

LISTS = ("candidates", "sequence")
"""The keys of a JSON row that hold lists."""

FIELDS = tuple(name for name in Row.model_fields if name not in (*LISTS, "word"))
"""The columns of an item itself. V-WSD's files have no header, so no column is called ``word``."""

OF_NUMBER = ("image{}_name", "image{}_caption", "sequence_image{}", "sequence_caption{}")
"""The columns of a candidate and of a picture in a sequence."""

_LOOKS_SO = re.compile(
    r"(image|img|picture|photo|candidate|caption|sequence)(s|.*\d.*)?", re.IGNORECASE | re.DOTALL
)


def check_item_columns(names: Iterable[object], where: str, reader: RowReader) -> None:
    """Refuse a table's column that would be left out because of its spelling, or appears twice.

    Columns that look like a candidate's but have none of its names are counted as a warning.
    """
    columns = tuple(map(str, names))
    known, unread = _known_columns(columns)
    check_spelling(where, columns, known)
    if unread:
        cure = "Candidates are in image1_name, image1_caption, image2_name, …"
        reader.note(f"not read: {listed(unread)}. {cure}", where)


@lru_cache(maxsize=16)
def _known_columns(columns: tuple[str, ...]) -> tuple[tuple[str, ...], list[str]]:
    """Return the columns that could be read, and those that look like a candidate's."""
    numbers = {number for name in columns for number in re.findall("[0-9]+", plain_name(name))}
    known = (*FIELDS, *(column.format(k) for column in OF_NUMBER for k in numbers))
    return known, [name for name in columns if name not in known and _LOOKS_SO.fullmatch(name)]


def check_item_keys(row: Mapping[str, Any], where: str, reader: RowReader) -> None:
    """Do for a JSON row what :func:`check_item_columns` does for a table."""
    keys = tuple(row)
    check_spelling(where, keys, (*FIELDS, *LISTS))
    for name in LISTS:
        things = row.get(name)
        for number, cells in enumerate(things if isinstance(things, list) else (), start=1):
            if isinstance(cells, Mapping):
                place = f"{where}, {name.removesuffix('s')} {number}"
                check_spelling(place, tuple(map(str, cells)), tuple(CandidateCells.model_fields))
                for key in cells.keys() - CandidateCells.model_fields.keys():
                    reader.note(f"not read: '{key}'. It has 'image', 'caption' or both.", place)


def candidate_columns(columns: Iterable[object]) -> Numbers:
    """Find the numbers of the candidates and of the sequence's pictures in column names."""
    names = list(map(str, columns))

    def numbers(pattern: str) -> list[int]:
        matches = (re.fullmatch(pattern, name) for name in names)
        return sorted({int(match[1]) for match in matches if match})

    candidates = numbers(r"image(0|[1-9]\d{,8})_(?:name|caption)")
    return candidates, numbers(r"sequence_(?:image|caption)(0|[1-9]\d{,8})")


def with_candidates(
    row: Mapping[str, Any], numbers: Numbers, reader: RowReader, *, ragged: bool
) -> dict[str, Any]:
    """Return a table's row with its candidates and sequence, as a JSONL manifest has them.

    A ``ragged`` row may have fewer candidates than the table has columns for.
    """
    candidates = [
        {"image": row.get(f"image{k}_name", ""), "caption": row.get(f"image{k}_caption", "")}
        for k in numbers[0]
    ]
    sequence = [
        {
            "image": row.get(f"sequence_image{k}", "") or _sequence_image(row, k, reader),
            "caption": row.get(f"sequence_caption{k}", ""),
        }
        for k in numbers[1]
    ]
    for things in (candidates, sequence) if ragged else ():
        while things and not any(things[-1].values()):
            things.pop()
    return {**row, "candidates": candidates, "sequence": sequence}


def _sequence_image(row: Mapping[str, Any], k: int, reader: RowReader) -> str:
    name = f"s{k}.png"  # as AdMIRe calls it
    places = (os.path.join(subfolder, name) for subfolder in subfolders(str(row["compound"])))
    return name if reader.find_files(places) else ""
