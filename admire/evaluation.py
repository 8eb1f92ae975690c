"""Scoring submissions against gold: by item and sense, with intervals and differences."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence

import pandas as pd

from admire import metrics
from admire.errors import UserError
from admire.items import Item
from admire.submission import Prediction

log = logging.getLogger("admire")

GROUPS = ("all", "idiomatic", "literal")


def score_items(gold: Sequence[Item], predictions: Sequence[Prediction], name: str) -> pd.DataFrame:
    """The four figures of each gold item, one row an item, in the gold's order.

    A prediction belongs to the item with the same compound and sentence. A submission without
    sentences is joined on the compound alone, as long as no compound repeats. Where the same
    compound and sentence stand in several rows, the first belongs to the first, and so on.

    Columns: ``compound``, ``sentence``, ``sentence_type``, ``top1``, ``dcg``, ``corr_official``,
    ``corr_rank``. ``name`` is the submission's name in messages.

    Raises:
        UserError: an item has no gold order or no prediction, or an order does not fit its item.
    """
    waiting: dict[tuple[str, str | None], list[Prediction]] = defaultdict(list)
    by_sentence = all(prediction.sentence is not None for prediction in predictions)
    for prediction in predictions:
        waiting[prediction.compound, prediction.sentence if by_sentence else None].append(
            prediction
        )
    if not by_sentence:
        compounds = [item.compound for item in gold]
        repeated = next((c for c in compounds if compounds.count(c) > 1), None)
        if repeated is not None:
            raise UserError(
                f"{name}: has no column 'sentence', and the compound '{repeated}' appears more "
                "than once in the gold file. Add the sentences to tell its rows apart."
            )
    rows = []
    for number, item in enumerate(gold, start=1):
        if item.expected_order is None:
            raise UserError(
                f"gold row {number} ('{item.compound}') has no expected_order to score."
            )
        found = waiting[item.compound, item.sentence if by_sentence else None]
        if not found:
            raise UserError(f"{name}: has no row for '{item.compound}' in “{item.sentence}”.")
        order = found.pop(0).order
        if sorted(order) != sorted(item.expected_order):
            raise UserError(
                f"{name}: the order for '{item.compound}' does not name exactly the item's "
                f"{len(item.expected_order)} candidates: {', '.join(item.expected_order)}."
            )
        rows.append(
            {
                "compound": item.compound,
                "sentence": item.sentence,
                "sentence_type": item.sentence_type,
                **metrics.figures(item.expected_order, order),
            }
        )
    left = sum(map(len, waiting.values()))
    if left:
        log.warning("%s: rows that are not in the gold file, and do not count: %d.", name, left)
    return pd.DataFrame(rows)


def summarise(
    scored: pd.DataFrame, *, columns: Sequence[str] = metrics.METRICS, seed: int = 0
) -> pd.DataFrame:
    """Means of each figure over all, idiomatic and literal items, with 95 % bootstrap intervals.

    Columns: ``group``, ``n``, ``metric``, ``mean``, ``low``, ``high``. Groups without items are
    left out.
    """
    rows = []
    for group in GROUPS:
        chosen = scored if group == "all" else scored[scored["sentence_type"] == group]
        for column in columns if len(chosen) else ():
            low, high = metrics.bootstrap_interval(chosen[column], seed=seed)
            rows.append((group, len(chosen), column, float(chosen[column].mean()), low, high))
    return pd.DataFrame(rows, columns=["group", "n", "metric", "mean", "low", "high"])


def paired_difference(first: pd.DataFrame, second: pd.DataFrame, *, seed: int = 0) -> pd.DataFrame:
    """As :func:`summarise`, for second minus first item by item: both scored on the same gold."""
    difference = second[["compound", "sentence", "sentence_type"]].copy()
    for column in metrics.METRICS:
        difference[column] = second[column] - first[column]
    return summarise(difference, seed=seed)
