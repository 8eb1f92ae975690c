"""Submissions to AdMIRe: writing and reading them."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from admire.files import read_table
from admire.items import SenseLabel, parse_order, parse_sentence_type
from admire.storage import write_whole


@dataclass(frozen=True)
class Prediction:
    """One row of a submission. ``sentence`` is None where the file does not have the column."""

    compound: str
    sentence: str | None
    order: tuple[str, ...]
    sentence_type: SenseLabel | None = None


def write_submission(path: Path, predictions: Sequence[Prediction]) -> None:
    """Write a TSV that AdMIRe's scorer accepts: ``compound``, ``expected_order`` and two more.

    Raises:
        UserError: the file cannot be written.
    """
    table = pd.DataFrame(
        {
            "compound": [p.compound for p in predictions],
            "expected_order": [str(list(p.order)) for p in predictions],
            "sentence": [p.sentence or "" for p in predictions],
            "sentence_type": [p.sentence_type or "" for p in predictions],
        }
    )
    if predictions and all(p.sentence is None for p in predictions):
        del table["sentence"]
    with write_whole(path) as file:
        # A lone carriage return ends a line for readers, but the writer does not quote it.
        returns = any("\r" in cell for cell in table.to_numpy().flat)
        table.to_csv(
            file, sep="\t", index=False, quoting=csv.QUOTE_ALL if returns else csv.QUOTE_MINIMAL
        )


def read_submission(path: str | Path) -> list[Prediction]:
    """Read a submission: at least the columns ``compound`` and ``expected_order``.

    Raises:
        UserError: the file, row and column that cannot be used, and why.
    """
    path = Path(path)
    table = read_table(path, ("compound", "expected_order"))
    predictions = []
    for number, row in enumerate(table.to_dict("records"), start=1):
        where = f"{path}, row {number} ('{row['compound']}')"
        predictions.append(
            Prediction(
                compound=row["compound"],
                sentence=row.get("sentence"),
                order=parse_order(row["expected_order"], (), where),
                sentence_type=parse_sentence_type(row.get("sentence_type", ""), where),
            )
        )
    return predictions
