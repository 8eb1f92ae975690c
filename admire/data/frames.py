"""Items from tables and rows in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pandas as pd

from admire.base.errors import UserError
from admire.base.files import check_columns
from admire.data.items import Item
from admire.data.languages import check_language
from admire.data.limits import check_text
from admire.data.reader import candidate_columns, read_items, with_candidates
from admire.data.rows import RowReader, log_notes

Data = str | Path | pd.DataFrame | Iterable[Mapping[str, Any]] | Iterable[Item]
"""A file or folder of items, a table, rows as dicts, or the items themselves."""

COLUMNS = ("compound", "sentence", "word", "language")
"""The texts of an item itself."""


def items_from_frame(
    frame: pd.DataFrame | Iterable[Mapping[str, Any]],
    folder: str | Path = ".",
    language: str = "en",
) -> list[Item]:
    """Read items from a table with the columns of an AdMIRe TSV, or from rows as dicts.

    See :func:`admire.read_items` for the columns. ``image1_caption``, ``image2_caption``, … alone
    are enough for candidates. A row as a dict may have ``candidates`` and ``sequence`` instead, as
    in a JSONL manifest. Empty cells may be None or NaN; ``expected_order`` may be a list.

    Args:
        folder: where the images are; their names are paths below it.
        language: of rows without one of their own.

    Raises:
        UserError: the row and the column that cannot be used, and why.
    """
    check_language(language)
    path = Path(folder) / "rows"
    if isinstance(frame, pd.DataFrame):
        path = Path(folder) / "DataFrame"
        check_columns(path, frame, ("compound",))
        frame = cast(list[Mapping[str, Any]], frame.to_dict("records"))
    reader = RowReader(path.parent, language)
    items = []
    for number, cells in enumerate(frame, start=1):
        row = {str(name): _cell(value) for name, value in cells.items()}
        if not {"candidates", "sequence"} & row.keys():
            row = with_candidates(row, candidate_columns(row), path.parent, ragged=True)
            if not row["candidates"] and (lists := {"captions", "images"} & row.keys()):
                raise UserError(
                    f"{path}, row {number}, {lists.pop()}: is not read. Give the candidates as "
                    "{'candidates': [{'caption': …}, {'image': …}, …]}, or each one's parts as "
                    "image1_caption, image1_name, image2_caption, …"
                )
        items.append(reader.item(row, f"{path}, row {number}"))
    if not items:
        raise UserError(f"{path}: holds no items.")
    log_notes(reader.notes)
    return items


def _cell(value: Any) -> Any:
    """Return a cell as it would be in a file: texts and lists, empty for None and NaN."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple):
        return list(value)
    if hasattr(value, "tolist"):  # NumPy's
        value = value.tolist()
    return "" if pd.api.types.is_scalar(value) and pd.isna(value) else value


def take_items(data: Data) -> Sequence[Item]:
    """Return items from any of the forms that Python functions accept."""
    if isinstance(data, str | Path):
        return read_items(data)
    if isinstance(data, pd.DataFrame):
        return items_from_frame(data)
    if isinstance(data, Iterable) and not isinstance(data, Mapping | bytes):
        values: list[Any] = list(data)
        if all(isinstance(value, Item) for value in values):
            for number, item in enumerate(values, start=1):
                _check_texts(item, f"item {number}")
            return values
        if all(isinstance(value, Mapping) for value in values):
            return items_from_frame(values)
    raise UserError(
        f"items are a path, a DataFrame, dicts or Items, not {describe_type(data)}.", "items"
    )


def _check_texts(item: Item, where: str) -> None:
    """Check the texts of an item that no reader has checked."""
    parts = [(f"{where}, {column}", column, getattr(item, column)) for column in COLUMNS]
    for key in ("candidates", "sequence"):
        for number, candidate in enumerate(getattr(item, key), start=1):
            place = f"{where}, {key.removesuffix('s')} {number}"
            parts += [(f"{place}, name", "image", candidate.name)]
            parts += [(f"{place}, caption", "caption", candidate.caption)]
    parts += [(f"{where}, expected_order", "image", name) for name in item.expected_order or ()]
    parts += [(f"{where}, expected_item", "image", item.expected_item)]
    for place, column, text in parts:
        try:
            check_text(column, text)
        except ValueError as error:
            raise UserError(f"{place}: {error}.") from None


def describe_type(value: object) -> str:
    """Name the type of an argument that is not accepted, and of a list its first value's."""
    if isinstance(value, list | tuple) and value:
        return f"a {type(value).__name__} of {type(value[0]).__name__}"
    return f"a {type(value).__name__}"
