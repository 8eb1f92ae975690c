"""The columns of items: which are read, and numbered ones as lists."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from admire.core.files import check_spelling, plain_name
from admire.data.limits import fold
from admire.data.schema import HUGGING_FACE, CandidateCells, Row

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

OF_CANDIDATE = tuple(CandidateCells.model_fields)
OF_THINGS = {*OF_CANDIDATE, *HUGGING_FACE}
"""The keys of a candidate, and those of a picture in memory."""


class Columns(NamedTuple):
    """The columns of a table, or the keys of a row.

    Attributes:
        candidates, sequence: the numbers of the candidates, and of the sequence's pictures.
        known: those that could be read.
        unread: what to warn of: those that look like these and are not read, or all others.
    """

    candidates: list[int]
    sequence: list[int]
    known: tuple[str, ...]
    unread: str


def read_columns(names: Iterable[object], where: str, *, keyed: bool = False) -> Columns:
    """Return the columns of these names; refuse one that is misspelt, or appears twice.

    Args:
        keyed: warn of any name that is not read, as in a row with lists.
    """
    columns = tuple(map(str, names))
    read = _read_columns(columns, keyed or not {*LISTS}.isdisjoint(columns))
    check_spelling(where, columns, read.known)
    return read


@lru_cache(maxsize=64)
def _read_columns(columns: tuple[str, ...], keyed: bool) -> Columns:
    digits = set(re.findall("[0-9]+", " ".join(map(plain_name, columns))))
    candidates = _numbers(rf"image({_NUMBER})(?:_name|_caption)?", columns)
    sequence = _numbers(rf"sequence(?:_image|_caption)?({_NUMBER})", columns)
    lists = [name for name in LISTS if not (sequence if name == "sequence" else candidates)]
    of_number = [column.format(k) for column in chain(*OF_NUMBER.values()) for k in digits]
    known = (*FIELDS, *lists, *of_number)
    absent, unread, cure = sorted({*known} - {*columns}), [], ""
    for name in columns:
        if name.strip() and name not in (*known, *NOT_USED):
            caption = re.fullmatch(r"(?i)(?:image|img)?[ _]?caption[ _]?(\d+)", name)
            near = [f"image{int(caption[1])}_caption"] if caption else absent
            meant = _meant(name, near, 0.6 if keyed or caption else 0.8)
            looks_so = _LOOKS_SO.fullmatch(name)
            if keyed or looks_so or "?" in meant:
                unread.append(meant)
            if looks_so:
                cure = " Candidates are in image1_name, image1_caption, image2_name, …"
    more = ", …" * (len(unread) > 4)
    unread_all = f"not read: {', '.join(unread[:4])}{more}.{cure}" if unread else ""
    return Columns(candidates, sequence, known, unread_all)


def _numbers(pattern: str, columns: Sequence[str]) -> list[int]:
    matches = (re.fullmatch(pattern, name) for name in columns)
    return sorted({int(match[1]) for match in matches if match})


def _meant(name: str, known: Sequence[str], cutoff: float) -> str:
    """Return a name in quotation marks with the known one that is most like it, if one is."""
    similar = get_close_matches(name, known, n=1, cutoff=cutoff)
    return f"'{name}'" + "".join(f" (did you mean '{meant}'?)" for meant in similar)


def is_header(row: Mapping[str, Any]) -> bool:
    """Return whether a row's cells are the names of its columns, as where files were joined."""
    if str(row.get("compound", "")).strip("\ufeff ") not in row:  # nearly all rows
        return False
    filled = {fold(cell) for cell in row.values() if isinstance(cell, str) and cell}
    return len(filled) > 1 and filled <= row.keys()


def unread_cells(row: Mapping[str, Any], where: str) -> Iterator[tuple[str, str]]:
    """Yield what to warn of in a row's lists, each with its place; refuse what is misspelt."""
    for key in OF_NUMBER:
        things = row.get(key)
        for k, cells in enumerate(things if isinstance(things, list) else (), start=1):
            if isinstance(cells, Mapping):
                place = f"{where}, {key.removesuffix('s')} {k}"
                check_spelling(place, tuple(map(str, cells)), OF_CANDIDATE)
                for name in map(str, cells.keys() - OF_THINGS):
                    has = "It has 'image', 'caption' or both"
                    yield f"not read: {_meant(name, OF_CANDIDATE, 0.6)}. {has}.", place


def join_columns(
    row: Mapping[str, Any], columns: Columns, sequence: Mapping[int, str], *, ragged: bool
) -> dict[str, Any]:
    """Return a row whose numbered columns are lists, as in a JSONL manifest.

    Args:
        sequence: the pictures of a sequence that no column names, by number.
        ragged: the row may have fewer candidates than it has columns for.
    """
    if not columns.candidates and not columns.sequence:
        return dict(row)
    lists: dict[str, Any] = {"images": [], "captions": []} if columns.candidates else {}
    for key, numbers in (("candidates", columns.candidates), ("sequence", columns.sequence)):
        things = [_candidate(row, key, k) for k in numbers]
        if key == "sequence":
            for k, cells in zip(numbers, things, strict=True):
                cells["image"] = cells["image"] or sequence.get(k, "")
        while ragged and things and not any(things[-1].values()):
            things.pop()
        lists |= {key: things} if numbers else {}
    return {**row, **lists}


def _candidate(row: Mapping[str, Any], key: str, k: int) -> dict[str, Any]:
    """Return what a row's columns have of the candidate, or picture in the sequence, number k."""
    picture, name, caption = (column.format(k) for column in OF_NUMBER[key])
    named, text = row.get(name, ""), row.get(caption, "")
    # A caption's name need not be that of a picture where pictures have a column.
    image = row.get(picture) or ("" if picture in row and text else named)
    return {"name": named if picture in row else "", "image": image, "caption": text}
