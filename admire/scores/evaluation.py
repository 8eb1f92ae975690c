"""Scores submissions against gold: by item and sense, with intervals and differences."""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from admire.base.errors import UserError
from admire.data.items import Item
from admire.data.submission import Prediction
from admire.scores import metrics

log = logging.getLogger("admire")

GROUPS = ("all", "idiomatic", "literal")


def score_items(gold: Sequence[Item], predictions: Sequence[Prediction], name: str) -> pd.DataFrame:
    """The figures of each item that has gold, one row per item, in the gold's order.

    If some items have none, a message says how many have; these need no prediction.

    Predictions are joined to items by compound and sentence. A submission without sentences is
    joined by compound, if no compound has several sentences. Rows with the same compound and
    sentence are joined in their order, those of a run within each language. A submission
    to V-WSD is joined row by row.

    Columns: ``compound``, ``sentence``, ``sentence_type``, ``top1``, ``dcg``, ``corr_official``,
    ``corr_rank``. An item whose ``expected_order`` names only the best candidate, as people's
    judgements may give it, has ``top1`` alone. For Subtask B, whose gold is ``expected_item``, the
    figures are ``item_accuracy`` and ``sense_accuracy``, each 1 or 0; the latter is left out if the
    submission has no senses, or the gold lacks some. For V-WSD they are ``top1`` and ``mrr``.
    Predictions of a run that predicts senses add ``predicted_type``, ``probability`` (of the
    idiomatic sense; NaN if no vote could be read) and ``unsure``.

    Args:
        name: the submission's name in messages.

    Raises:
        UserError: no item has gold, one has no prediction, or a prediction does not fit its item.
    """
    if not any(prediction.compound for prediction in predictions):
        predictions = _in_order(gold, predictions, name)
    waiting: dict[tuple[str, str | None], list[Prediction]] = defaultdict(list)
    by_sentence = all(prediction.sentence is not None for prediction in predictions)
    for prediction in predictions:
        waiting[prediction.compound, prediction.sentence if by_sentence else None].append(
            prediction
        )
    if not by_sentence:
        compounds = [compound for compound, _ in {(i.compound, i.sentence) for i in gold}]
        repeated = next((i.compound for i in gold if compounds.count(i.compound) > 1), None)
        if repeated is not None:
            raise UserError(
                f"{name}: has no column 'sentence', and the compound '{repeated}' appears more "
                "than once in the gold file. Add the sentences to tell its rows apart."
            )
    if not any(item.best for item in gold):
        columns = " or ".join(
            column
            for column, there in (("expected_order", False), ("expected_item", True))
            if any(bool(item.sequence or item.word) == there for item in gold)
        )
        raise UserError(f"{name}: none of the gold's rows has an {columns} to score.")
    rows = []
    for item in gold:
        of_item = waiting[item.compound, item.sentence if by_sentence else None]
        if item.best is None:
            del of_item[:1]
            continue
        if not of_item:
            where = f" in “{item.sentence}”" if item.sentence else ""
            raise UserError(f"{name}: has no row for '{item.compound}'{where}.")
        own = next((one for one in of_item if one.language == item.language), of_item[0])
        of_item.remove(own)
        rows.append(
            {
                "compound": item.compound,
                "sentence": item.sentence,
                "sentence_type": item.sentence_type,
                **item_figures(item, own, name),
                **sense_columns(own),
            }
        )
    if len(rows) < len(gold):
        log.warning("%s: %s", name, told_of_gold(len(rows), len(gold)))
    left = sum(map(len, waiting.values()))
    if left:
        log.warning("%s: rows that are not in the gold file do not count: %d.", name, left)
    senses = any(prediction.sentence_type for prediction in predictions)
    return without_missing_senses(pd.DataFrame(rows), senses)


def _in_order(
    gold: Sequence[Item], predictions: Sequence[Prediction], name: str
) -> list[Prediction]:
    """Predictions that do not say what they are about, as those of the gold's items."""
    if len(predictions) != len(gold):
        raise UserError(f"{name}: has {len(predictions)} rows for {len(gold)} gold items.")
    pairs = zip(predictions, gold, strict=True)
    return [replace(one, compound=item.compound, sentence=item.sentence) for one, item in pairs]


def told_of_gold(scored: int, items: int) -> str:
    """How many items are scored, in words."""
    return f"Gold is known for {scored} of {items} items; the figures are of these."


def sense_columns(prediction: Prediction) -> dict[str, Any]:
    """The sense of a run's prediction, for :func:`score_items`."""
    return {
        "predicted_type": prediction.sentence_type,
        "probability": math.nan if prediction.probability is None else prediction.probability,
        "unsure": prediction.unsure,
    }


def without_missing_senses(scored: pd.DataFrame, predicted: bool) -> pd.DataFrame:
    """Drops ``sense_accuracy`` if the gold lacks senses, and the run's columns if it has none.

    Args:
        predicted: whether any prediction has a sense; if not, ``sense_accuracy`` is dropped.
    """
    if "sense_accuracy" in scored and not (predicted and scored["sentence_type"].notna().all()):
        del scored["sense_accuracy"]
    if scored["probability"].isna().all() and not scored["unsure"].any():
        return scored.drop(columns=["predicted_type", "probability", "unsure"])
    return scored


def item_figures(item: Item, prediction: Prediction, name: str) -> dict[str, float]:
    """The figures of one item; see :func:`score_items`.

    Raises:
        UserError: the prediction does not fit the item.
    """
    if item.word and item.expected_item:
        _check_order([one.name for one in item.candidates], item, prediction, name)
        rank = metrics.reciprocal_rank(item.expected_item, prediction.order)
        return {"top1": float(rank == 1), "mrr": rank}
    if item.expected_item is not None:
        if prediction.expected_item is None:
            raise UserError(f"{name}: has no expected_item for '{item.compound}'.")
        names = [candidate.name for candidate in item.candidates]
        if names and prediction.expected_item not in names:
            raise UserError(
                f"{name}: the expected_item for '{item.compound}', '{prediction.expected_item}', "
                f"is none of the item's candidates: {', '.join(names)}."
            )
        right = (
            prediction.expected_item == item.expected_item,
            prediction.sentence_type == item.sentence_type,
        )
        return dict(zip(metrics.SEQUENCE_METRICS, map(float, right), strict=True))
    expected = item.expected_order or ()
    if len(expected) == 1 and expected[0] in prediction.order:  # the others' places are not known
        return {"top1": metrics.top1(expected, prediction.order)}
    _check_order(expected, item, prediction, name)
    return metrics.figures(expected, prediction.order)


def _check_order(names: Sequence[str], item: Item, prediction: Prediction, name: str) -> None:
    if sorted(prediction.order) != sorted(names):
        raise UserError(
            f"{name}: the order for '{item.compound}' does not name exactly the item's "
            f"{len(names)} candidates: {', '.join(names)}."
        )


def _metrics(scored: pd.DataFrame) -> list[str]:
    return [m for m in metrics.ITEM_METRICS if m in scored]


def summarise(
    scored: pd.DataFrame, *, columns: Sequence[str] | None = None, seed: int = 0
) -> pd.DataFrame:
    """Means of each figure over all, idiomatic and literal items, with 95 % bootstrap intervals.

    Columns: ``group``, ``n``, ``metric``, ``mean``, ``low``, ``high``. Groups without items are
    left out. A figure that some items lack is of the others.

    Args:
        columns: the figures; None takes those of :func:`score_items`.
    """
    rows = []
    for group in GROUPS:
        chosen = scored if group == "all" else scored[scored["sentence_type"] == group]
        if not len(chosen):
            continue
        of_items = defaultdict(list)
        for name in columns or _metrics(scored):
            of_items[tuple(chosen[name].notna())].append(name)
        for has, names in of_items.items():
            known = chosen[list(has)]
            if known.empty:
                continue
            means = [metrics.mean(known[name]) for name in names]
            intervals = metrics.bootstrap_intervals(means, len(known), seed=seed)
            for column, (low, high) in zip(names, intervals, strict=True):
                rows.append((group, len(known), column, float(known[column].mean()), low, high))
    return pd.DataFrame(rows, columns=["group", "n", "metric", "mean", "low", "high"])


MACRO = "macro"
"""The group of macro-averages over languages, which AdMIRe 2's figures are."""


def summarise_languages(
    scored: pd.DataFrame, languages: Sequence[str], *, seed: int = 0
) -> pd.DataFrame:
    """Means of each figure by language, and their mean over languages, with 95 % intervals.

    Columns as for :func:`summarise`. The groups are the languages by their first figure, the best
    first, and then :data:`MACRO`, whose intervals are from resampling languages, and items within
    each. Figures that some items lack are left out, unless all are such.

    Args:
        languages: of each row of ``scored``.
    """
    whole = [name for name in _metrics(scored) if scored[name].notna().all()]
    names = whole or _metrics(scored)
    parts = {str(tag): part for tag, part in scored.groupby(list(languages))}
    tables = []
    for tag in sorted(parts, key=lambda tag: -parts[tag][names[0]].mean()):
        part = parts[tag].assign(sentence_type=None)
        tables.append(summarise(part, columns=names, seed=seed).assign(group=tag))
    intervals = metrics.macro_intervals(
        [part[names].to_numpy(float) for part in parts.values()], seed=seed
    )
    for metric, (low, high) in zip(names, intervals, strict=True):
        mean = float(np.mean([part[metric].mean() for part in parts.values()]))
        row = (MACRO, len(scored), metric, mean, low, high)
        tables.append(pd.DataFrame([row], columns=list(tables[0])))
    return pd.concat(tables, ignore_index=True)


def with_ndcg(summary: pd.DataFrame) -> pd.DataFrame:
    """A table of figures with the metric ``ndcg5`` after each ``dcg``: DCG divided by its best."""
    rows = []
    for row in summary.to_dict("records"):
        rows.append(row)
        if row["metric"] == "dcg":
            means = {end: row[end] / metrics.BEST_DCG for end in ("mean", "low", "high")}
            rows.append(row | {"metric": "ndcg5"} | means)
    return pd.DataFrame(rows, columns=list(summary))


def paired_difference(
    first: pd.DataFrame,
    second: pd.DataFrame,
    *,
    columns: Sequence[str] | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """As :func:`summarise`, for the differences second minus first on the same gold items."""
    difference = second[["compound", "sentence", "sentence_type"]].copy()
    both = [column for column in columns or _metrics(first) if column in second]
    for column in both:
        difference[column] = second[column] - first[column]
    return summarise(difference, columns=both, seed=seed)
