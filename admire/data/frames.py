"""Rows in memory, and tables of items."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from admire.data.items import Item
from admire.data.schema import HUGGING_FACE

PATH = re.compile(r"(image|sequence)(\d*)_path(\d*)")
"""The columns that say where a picture is: image1_path, sequence_path1. No file can have them,
because it may be a stranger's, and whose pictures are inside its folder."""

CANDIDATE_COLUMNS = {
    "candidates": ("image{}_name", "image{}_path", "image{}_caption"),
    "sequence": ("sequence_image{}", "sequence_path{}", "sequence_caption{}"),
}
"""The columns of name, path and caption."""


def memory_row(thing: Item | Mapping[str, Any]) -> dict[str, Any]:
    """Return an item or a row from Python with cells as a file has them, and Paths of pictures.

    Only a row without a sentence has a word.
    """
    row = plain_row(_row(thing) if isinstance(thing, Item) else thing)
    for column in [*filter(PATH.fullmatch, row)]:
        path = row.pop(column)
        row[column.replace("_path", "")] = Path(path) if path else ""
    return row | ({"word": ""} if row.get("sentence") else {})


def plain_row(cells: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row in memory with cells as a file has them."""
    return {str(name): _cell(value) for name, value in cells.items()}


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


def items_to_frame(items: Iterable[Item]) -> pd.DataFrame:
    """Return a table with one row per item, which :func:`admire.items_from_frame` reads back.

    It has the columns that any item needs, and ``image1_path``, …, which say where pictures are.
    The index counts from 1.
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


def describe_type(value: object) -> str:
    """Name the type of an argument that is not accepted, and of a list its first value's."""
    if isinstance(value, list | tuple) and value:
        return f"a {type(value).__name__} of {type(value[0]).__name__}"
    return f"a {type(value).__name__}"
