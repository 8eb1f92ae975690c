"""Submissions to AdMIRe, Subtasks A and B, and to V-WSD: writing and reading them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Annotated
from unicodedata import normalize

import pandas as pd
from pydantic import BaseModel

from admire.core.errors import UserError
from admire.core.files import add_table, check_columns, check_spelling, numbered_rows, read_table
from admire.core.schema import read_as
from admire.data.items import SenseLabel
from admire.data.limits import limited
from admire.data.schema import ImageName, SenseCell, parse_order, place_of

HANDED_IN = ("compound", "sentence", "expected_order", "sentence_type")
"""The columns of a submission to Subtask A."""
COMPLETED = ("compound", "sentence_type", "expected_item")  #: those of one to Subtask B


@dataclass(frozen=True)
class Prediction:
    """One row of a submission. ``sentence`` is None where the file does not have the column.

    ``expected_item`` completes the sequence in Subtask B, where there are no orders. A row of V-WSD
    has an order alone, and an empty ``compound``. ``probability_idiomatic``, ``unsure``,
    ``language`` and ``tied_first`` (whether others have the first candidate's score) are of runs
    alone, ``row`` is the number in a file. ``written`` is as in :class:`admire.Item`.
    """

    compound: str
    sentence: str | None
    order: tuple[str, ...]
    sentence_type: SenseLabel | None = None
    expected_item: str | None = None
    probability_idiomatic: float | None = None
    unsure: bool = False
    language: str | None = None
    row: int | None = field(default=None, compare=False)
    tied_first: bool = field(default=False, compare=False)
    written: tuple[str, ...] = field(default=(), compare=False)


class _Row(BaseModel):
    compound: Annotated[str, *limited("compound")]
    sentence: Annotated[str, *limited("sentence")] | None = None
    sentence_type: SenseCell = None
    expected_order: str = ""
    expected_item: ImageName = ""


def add_predictions(
    file: IO[str],
    predictions: Sequence[Prediction],
    *,
    header: bool = True,
    columns: Sequence[str] | None = None,
) -> None:
    """Add predictions to a TSV that AdMIRe's scorer accepts, with all texts as in the data.

    Nothing protects a spreadsheet from sentences that look like formulas.

    Args:
        columns: those of :data:`HANDED_IN` that it has. None are ``compound``, ``expected_order``,
            ``sentence`` and ``sentence_type``; in Subtask B :data:`COMPLETED`.
    """
    rows: list[tuple[str, ...]] = []
    completes, has_sentences = False, not predictions
    for p in predictions:
        compound, sentence, *_ = p.written or (p.compound, p.sentence or "")
        order, (item,) = _as_written(p, p.order), _as_written(p, [p.expected_item or ""])
        rows.append((compound, str(order), sentence, p.sentence_type or "", item))
        completes = completes or bool(p.expected_item)
        has_sentences = has_sentences or p.sentence is not None
    names = ("compound", "expected_order", "sentence", "sentence_type", "expected_item")
    left_out = ["expected_item"] if has_sentences else ["expected_item", "sentence"]
    if completes:
        left_out = ["expected_order", "sentence"]
    table = pd.DataFrame(rows, columns=names).drop(columns=left_out)
    if columns:
        table = table.reindex(columns=[*columns])
    add_table(file, table, separator="\t", header=header)


def add_orders(file: IO[str], predictions: Iterable[Prediction]) -> None:
    """Add predictions to a submission to V-WSD: a line has an item's images, best first."""
    file.writelines("\t".join(_as_written(one, one.order)) + "\n" for one in predictions)


def _as_written(prediction: Prediction, names: Iterable[str]) -> list[str]:
    names, written = [*names], prediction.written[2:]
    spelt = dict(zip(map(partial(normalize, "NFC"), written), written, strict=True))
    return [*map(spelt.get, names, names)]


def read_submission(path: str | Path) -> list[Prediction]:
    """Read a submission: at least the columns ``compound`` and ``expected_order``.

    One to Subtask B has ``expected_item`` instead; one to V-WSD, a ``.txt``, an order a line.

    Raises:
        UserError: the file, row and column that cannot be used, and why.
    """
    path = Path(path)
    if path.suffix.lower() == ".txt":
        from admire.data.vwsd import text_lines

        return [
            Prediction("", None, parse_order(line.split("\t"), (), f"{path}, row {number}"))
            for number, line in text_lines(path)
        ]
    table = read_table(path, ("compound",))
    check_spelling(path, tuple(map(str, table)), tuple(_Row.model_fields))
    completes = "expected_item" in table and "expected_order" not in table
    check_columns(path, table, () if completes else ("expected_order",))
    predictions = []
    for number, cells in numbered_rows(table):
        where = place_of(f"{path}, row {number}", cells["compound"])
        row = read_as(_Row, cells, where)
        if completes and not row.expected_item:
            raise UserError(f"{where}, expected_item: is empty.")
        item = row.expected_item if completes else None
        order = () if completes else parse_order(row.expected_order, (), where)
        texts = row.compound, row.sentence, order, row.sentence_type, item
        predictions.append(Prediction(*texts, row=number))
    return predictions
