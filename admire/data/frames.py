"""Items from tables and rows in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pandas as pd

from admire.base.errors import UserError
from admire.base.files import check_columns
from admire.data.items import (
    Item,
    Notes,
    Reading,
    column_numbers,
    item_of_row,
    read_items,
    tell,
    with_things,
)
from admire.data.languages import check_language

Data = str | Path | pd.DataFrame | Iterable[Mapping[str, Any]] | Iterable[Item]
"""A file or folder of items, a table, rows as dicts, or the items themselves."""


def items_from_frame(
    frame: pd.DataFrame | Iterable[Mapping[str, Any]],
    folder: str | Path = ".",
    language: str = "en",
) -> list[Item]:
    """Items of a table with the columns of an AdMIRe TSV, or of rows as dicts.

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
    # Messages call the rows so, and names of images start from its folder, as those of a file do.
    path = Path(folder) / ("DataFrame" if isinstance(frame, pd.DataFrame) else "rows")
    notes: Notes = {}
    reading = Reading(path, path.parent, language, notes)
    items = [item_of_row(row, number, reading) for number, row in _rows(frame, path)]
    if not items:
        raise UserError(f"{path}: holds no items.")
    tell(notes)
    return items


def _rows(
    frame: pd.DataFrame | Iterable[Mapping[str, Any]], path: Path
) -> Iterator[tuple[int, dict[str, Any]]]:
    if isinstance(frame, pd.DataFrame):
        check_columns(path, frame, ("compound",))
        frame = cast(list[Mapping[str, Any]], frame.to_dict("records"))
    for number, cells in enumerate(frame, start=1):
        row = {str(name): _cell(value) for name, value in cells.items()}
        if not {"candidates", "sequence"} & row.keys():
            row = with_things(row, *column_numbers(row), path, ragged=True)
        yield number, row


def _cell(value: Any) -> Any:
    """A cell as it would be in a file: texts and lists, empty where nothing is known."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple):
        return list(value)
    if hasattr(value, "tolist"):  # NumPy's
        value = value.tolist()
    return "" if pd.api.types.is_scalar(value) and pd.isna(value) else value


def take_items(data: Data) -> Sequence[Item]:
    """The items that a function of Python is given, in whatever form.

    Raises:
        UserError: they are none, or cannot be read.
    """
    if isinstance(data, str | Path):
        return read_items(data)
    if isinstance(data, pd.DataFrame):
        return items_from_frame(data)
    if isinstance(data, Iterable) and not isinstance(data, Mapping | bytes):
        things: list[Any] = list(data)
        if all(isinstance(one, Item) for one in things):
            return things
        if all(isinstance(one, Mapping) for one in things):
            return items_from_frame(things)
    raise UserError(
        f"items can be a path, a DataFrame, or a list of dicts or of Items, not {described(data)}.",
        "items",
    )


def described(thing: object) -> str:
    """What a message calls an argument that is not taken: its type, and of a list the first's."""
    if isinstance(thing, list | tuple) and thing:
        return f"a {type(thing).__name__} of {type(thing[0]).__name__}"
    return f"a {type(thing).__name__}"
