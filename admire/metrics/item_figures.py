"""Figures of each item: predictions joined to the gold, and scored."""

from __future__ import annotations

import logging
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from admire.core.errors import UserError
from admire.data.items import Item
from admire.data.submission import Prediction
from admire.metrics import metrics
from admire.metrics.metrics import Figure

log = logging.getLogger("admire")


def score_items(
    gold: Sequence[Item],
    predictions: Sequence[Prediction],
    name: str,
    names: Sequence[str] = (),
) -> pd.DataFrame:
    """Return the figures of each item that has gold, a row an item, in the gold's order.

    Predictions are joined to items by compound and sentence; without sentences by compound, if none
    has several. Rows with the same compound and sentence are joined in their order, those of a run
    within each language. A submission to V-WSD is joined row by row.

    Columns: ``compound``, ``sentence``, ``sentence_type`` and the figures: ``top1``, ``dcg``,
    ``corr_official``, ``corr_rank``; if only the best candidate is known, ``top1`` alone. Those of
    Subtask B are ``item_accuracy`` and, if the submission has senses and the gold has all,
    ``sense_accuracy``; those of V-WSD ``top1`` and ``mrr``. A run that predicts senses adds
    ``predicted_type``, ``probability_idiomatic`` (NaN if no vote could be read) and ``unsure``;
    one with ties ``tied_first``.

    Args:
        names: further metrics, each with a column.

    Raises:
        UserError: no item has gold, one has no prediction, or a prediction does not fit its item;
            or a metric of ``names`` is unknown, or no item has it.
    """
    if not any(item.best for item in gold):
        columns = " or ".join(sorted({item.gold_column for item in gold}, reverse=True))
        raise UserError(f"{name}: none of the gold's rows has an {columns} to score.")
    figures = metrics.open_metrics(names)
    numbers = {id(item): number for number, item in enumerate(gold, start=1)}
    rows = [
        {
            "compound": item.compound,
            "sentence": item.sentence,
            **score_item(item, prediction, name, numbers[id(item)], figures),
        }
        for item, prediction in _join(gold, predictions, name)
    ]
    if len(rows) < len(gold):
        log.warning("%s: %s", name, describe_coverage(len(rows), len(gold)))
    predicted = any(prediction.sentence_type for prediction in predictions)
    scored = drop_missing_senses(pd.DataFrame(rows), predicted)
    if without := [metric for metric in names if metric not in scored]:
        raise UserError(f"{name}: no item has a figure of the metric '{without[0]}'.")
    return scored


def _join(
    gold: Sequence[Item], predictions: Sequence[Prediction], name: str
) -> list[tuple[Item, Prediction]]:
    if not any(prediction.compound for prediction in predictions):  # a submission to V-WSD
        if len(predictions) != len(gold):
            raise UserError(f"{name}: has {len(predictions)} rows for {len(gold)} gold items.")
        pairs = zip(gold, predictions, strict=True)
        return [(item, prediction) for item, prediction in pairs if item.best]
    by_sentence = all(prediction.sentence is not None for prediction in predictions)
    if not by_sentence:
        _check_compounds(gold, name)

    def key(row: Item | Prediction) -> tuple[str, str | None]:
        return row.compound, row.sentence if by_sentence else None

    waiting: dict[tuple[str, str | None], list[Prediction]] = defaultdict(list)
    for prediction in predictions:
        waiting[key(prediction)].append(prediction)
    joined = []
    for item in gold:
        candidates = waiting[key(item)]
        if candidates:
            same_language = (row for row in candidates if row.language == item.language)
            prediction = next(same_language, candidates[0])
            candidates.remove(prediction)
            joined.append((item, prediction))
        elif item.best:
            where = f" in “{item.sentence}”" if item.sentence else ""
            raise UserError(f"{name}: has no row for '{item.compound}'{where}.")
    _warn_of_left(waiting, {key(item): prediction for item, prediction in joined}, name)
    return [(item, prediction) for item, prediction in joined if item.best]


def _check_compounds(gold: Sequence[Item], name: str) -> None:
    """Check that each compound has one sentence."""
    counts = Counter(compound for compound, _ in {(i.compound, i.sentence): i for i in gold})
    if repeated := [compound for compound, count in counts.items() if count > 1]:
        raise UserError(
            f"{name}: has no column 'sentence', and the compound '{repeated[0]}' appears more "
            "than once in the gold file. Add the sentences to distinguish its rows."
        )


def _warn_of_left(
    waiting: Mapping[tuple[str, str | None], Sequence[Prediction]],
    first: Mapping[tuple[str, str | None], Prediction],
    name: str,
) -> None:
    """Warn of predictions that are joined to no item: second ones of an item, and others."""
    doubled = [(first[key], p) for key, left in waiting.items() if key in first for p in left]
    for kept, second in doubled[:1]:
        rows = f"row {kept.row} and row {second.row}" if second.row else "two rows"
        message = "%s: %s are of one item, '%s'. The first is used; remove the other. Such: %d."
        log.warning(message, name, rows, kept.compound, len(doubled))
    others = sum(map(len, waiting.values())) - len(doubled)
    if others:
        log.warning("%s: rows skipped because they are not in the gold file: %d.", name, others)


def describe_coverage(scored: int, items: int) -> str:
    """Say how many items are scored."""
    return f"Gold is known for {scored} of {items} items; the figures are of these."


def drop_missing_senses(scored: pd.DataFrame, predicted: bool) -> pd.DataFrame:
    """Drop ``sense_accuracy`` if gold or predictions lack senses, and the run's empty columns."""
    if not scored["tied_first"].any():
        del scored["tied_first"]
    if "sense_accuracy" in scored and not (predicted and scored["sentence_type"].notna().all()):
        del scored["sense_accuracy"]
    if scored["probability_idiomatic"].isna().all() and not scored["unsure"].any():
        return scored.drop(columns=["predicted_type", "probability_idiomatic", "unsure"])
    return scored


def score_item(
    item: Item, prediction: Prediction, name: str, number: int, figures: Mapping[str, Figure]
) -> dict[str, Any]:
    """Return an item's columns of :func:`score_items`, without its texts.

    Args:
        number: of the item, for messages.
        figures: see :func:`admire.metrics.metrics.open_metrics`.

    Raises:
        UserError: the prediction does not fit the item, or a metric of another distribution fails.
    """
    columns: dict[str, Any] = {"sentence_type": item.sentence_type}
    if item.best:
        order, where = _order(item, prediction, name), f"{name}, item {number} ('{item.compound}')"
        for metric, figure in figures.items():
            value = figure(order, item, prediction.sentence_type, where)
            if value is not None:
                columns[metric] = value
    p = prediction.probability_idiomatic
    return columns | {
        "predicted_type": prediction.sentence_type,
        "probability_idiomatic": math.nan if p is None else p,
        "unsure": prediction.unsure,
        "tied_first": prediction.tied_first,
    }


def _order(item: Item, prediction: Prediction, name: str) -> Sequence[str]:
    """Return the order to score; in Subtask B it may be the first candidate alone."""
    expected = item.expected_order or ()
    if item.context == "word" and item.expected_item:
        expected = item.names
    elif item.expected_item is not None:
        if prediction.expected_item is None:
            raise UserError(f"{name}: has no expected_item for '{item.compound}'.")
        if item.names and prediction.expected_item not in item.names:
            raise UserError(
                f"{name}: the expected_item for '{item.compound}', '{prediction.expected_item}', "
                f"is none of: {', '.join(item.names)}."
            )
        others = [other for other in prediction.order if other != prediction.expected_item]
        return (prediction.expected_item, *others)
    elif len(expected) == 1 and expected[0] in prediction.order:
        return prediction.order
    if sorted(prediction.order) != sorted(expected):
        raise UserError(
            f"{name}: the order for '{item.compound}' does not name exactly the item's "
            f"{len(expected)} candidates: {', '.join(expected)}."
        )
    return prediction.order
