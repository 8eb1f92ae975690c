"""The columns of items: which are read, and numbered ones as lists."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from itertools import chain, product, starmap
from typing import Any, NamedTuple

from admire.core.errors import UserError
from admire.core.files import check_spelling, misspelt, plain_name
from admire.data.limits import fold
from admire.data.schema import HUGGING_FACE, CandidateCells, Row

LISTS = ("candidates", "sequence", "images", "captions")  #: the keys of a row that hold lists

FIELDS = Row.model_fields.keys() - {*LISTS, "word"}
"""The columns of an item itself. V-WSD's files have no header, so no column is called ``word``."""

NOT_USED = ("word", "id", "subset")  #: keys that rows may have, and that are not read

OF_NUMBER = {
    "candidates": ("image{}", "image{}_name", "image{}_caption"),
    "sequence": ("sequence{}", "sequence_image{}", "sequence_caption{}"),
}
"""The columns of a candidate and of a picture in a sequence: the picture itself, its name, which
also says where the picture is if there is no other column, and its caption."""

_NUMBER = r"0|[1-9]\d{,8}"
_OF_NUMBER = re.compile(
    rf"image(?P<candidates>{_NUMBER})(?:_name|_caption)?|"
    rf"sequence(?:_image|_caption)?(?P<sequence>{_NUMBER})"
)
_LOOKS_SO = re.compile(
    r"(image|img|picture|photo|candidate|caption|sequence)(s|.*\d.*)?", re.IGNORECASE | re.DOTALL
)

OF_CANDIDATE = tuple(sorted(CandidateCells.model_fields.keys() - {"written"}))
OF_THINGS = {*OF_CANDIDATE, *HUGGING_FACE}
"""The keys of a candidate, and those of a picture in memory."""


class Columns(NamedTuple):
    """The columns of a table, or the keys of a row.

    Attributes:
        candidates, sequence: as in :data:`OF_NUMBER`, by number, in order.
        misspelt: see :func:`admire.core.files.misspelt`.
        unread: what to warn of: those that look like these and are not read, or all others.
    """

    candidates: dict[int, tuple[str, str, str]]
    sequence: dict[int, tuple[str, str, str]]
    misspelt: str
    unread: str


def read_columns(names: Iterable[object], where: str, *, keyed: bool = False) -> Columns:
    """Return the columns of these names; refuse one that is misspelt, or appears twice.

    With ``keyed``, warn of any name that is not read, as in a row with lists.
    """
    columns = tuple(map(str, names))
    read = _read_columns(columns, keyed or not {*LISTS}.isdisjoint(columns))
    if read.misspelt:
        raise UserError(f"{where}: {read.misspelt}")
    return read


@lru_cache(maxsize=64)
def _read_columns(columns: tuple[str, ...], keyed: bool) -> Columns:
    numbered: dict[str, dict[int, tuple[str, str, str]]] = {"candidates": {}, "sequence": {}}
    for name in columns:
        if number := _OF_NUMBER.fullmatch(name):
            key = str(number.lastgroup)
            k = int(number[key])
            picture, called, caption = OF_NUMBER[key]
            numbered[key][k] = picture.format(k), called.format(k), caption.format(k)
    candidates = dict(sorted(numbered["candidates"].items()))
    sequence = dict(sorted(numbered["sequence"].items()))
    digits = set(re.findall("[0-9]+", " ".join(map(plain_name, columns))))
    lists: tuple[str, ...] = () if candidates else ("candidates", "images", "captions")
    lists += () if sequence else ("sequence",)
    possible = starmap(str.format, product(chain(*OF_NUMBER.values()), digits))
    readable = (*FIELDS, *lists, *possible)
    absent, unread, cure = sorted({*readable} - {*columns}), [], ""
    for name in columns:
        if name.strip() and name not in (*readable, *NOT_USED):
            caption_k = re.fullmatch(r"(?i)(?:image|img)?[ _]?caption[ _]?(\d+)", name)
            near = [f"image{int(caption_k[1])}_caption"] if caption_k else absent
            meant = _meant(name, near, 0.6 if keyed or caption_k else 0.8)
            looks_so = _LOOKS_SO.fullmatch(name)
            if keyed or looks_so or "?" in meant:
                unread.append(meant)
            if looks_so:
                cure = " Candidates are in image1_name, image1_caption, image2_name, …"
    dots = ", …" * (len(unread) > 4)
    unread_all = f"not read: {', '.join(unread[:4])}{dots}.{cure}" if unread else ""
    return Columns(candidates, sequence, misspelt(columns, readable), unread_all)


def _meant(name: str, readable: Sequence[str], cutoff: float) -> str:
    """Return a name in quotation marks with the readable one that is most like it, if one is."""
    similar = get_close_matches(name, readable, n=1, cutoff=cutoff)
    return f"'{name}'" + "".join(f" (did you mean '{meant}'?)" for meant in similar)


def is_header(row: Mapping[str, Any]) -> bool:
    """Return whether a row's cells are the names of its columns, as where files were joined."""
    if str(row.get("compound", "")).strip("\ufeff ") not in row:  # nearly all rows
        return False
    filled = {fold(cell) for cell in row.values() if isinstance(cell, str) and cell}
    return len(filled) > 1 and filled <= row.keys()


def unread_keys(row: Mapping[str, Any], columns: Columns, where: str) -> Iterator[tuple[str, str]]:
    """Yield what to warn of in a row and its lists, with its place; refuse what is misspelt."""
    if columns.unread:
        yield columns.unread, where
    for key in OF_NUMBER:
        things = row.get(key)
        for k, cells in enumerate(things if isinstance(things, list) else (), start=1):
            if isinstance(cells, Mapping) and not cells.keys() <= OF_THINGS:
                place = f"{where}, {key.removesuffix('s')} {k}"
                check_spelling(place, tuple(map(str, cells)), OF_CANDIDATE)
                for name in map(str, cells.keys() - OF_THINGS):
                    has = "It has 'image', 'caption' or both"
                    yield f"not read: {_meant(name, OF_CANDIDATE, 0.6)}. {has}.", place


def join_columns(
    row: Mapping[str, Any],
    columns: Columns,
    find_sequence: Callable[[str, Iterable[int]], Mapping[int, str]],
    *,
    ragged: bool,
) -> dict[str, Any]:
    """Return a row whose numbered columns are lists, as in a JSONL manifest.

    Args:
        find_sequence: :meth:`admire.data.pictures.Pictures.sequence`.
        ragged: the row may have fewer candidates than it has columns for.
    """
    joined = dict(row)
    if columns.candidates:
        joined |= {"images": [], "captions": []}
    for key, of_number in (("candidates", columns.candidates), ("sequence", columns.sequence)):
        files: Mapping[int, str] = {}
        if of_number and key == "sequence":
            files = find_sequence(str(row.get("compound")), of_number)
        things = []
        for k, (picture, name, caption) in of_number.items():
            called, text = row.get(name, ""), row.get(caption, "")
            # A caption's name need not be that of a picture where pictures have a column.
            image = row.get(picture) or ("" if picture in row and text else called)
            called = called if picture in row else ""
            things.append({"name": called, "image": image or files.get(k, ""), "caption": text})
        while ragged and things and not any(things[-1].values()):
            things.pop()
        if of_number:
            joined[key] = things
    return joined
