"""How well a run's probability of the sense is calibrated, and what abstaining would gain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from admire.metrics import metrics
from admire.metrics.figures import COLUMNS, interval, summarise
from admire.metrics.metrics import confidence, is_share

RISKS = {"sense_risk": "sense error", "top1_risk": "top-1 error"}
"""The columns of errors in a curve, and what they are called."""


def decided_items(scored: pd.DataFrame) -> pd.DataFrame:
    """Return the items whose sense is known, with the run's confidence and errors.

    Returns:
        The rows of :func:`admire.metrics.item_figures.score_items` with ``confidence``, from 0 to
        1, and the errors, 1 or 0: ``sense_risk`` and ``top1_risk`` (in Subtask B of the item). No
        rows if the run predicts no senses.
    """
    if "probability_idiomatic" not in scored:
        scored = scored.iloc[:0].assign(predicted_type=None, probability_idiomatic=math.nan)
    labelled = scored[scored["sentence_type"].notna()]
    predicted = labelled["predicted_type"].astype(object)
    first = labelled["top1" if "top1" in labelled else "item_accuracy"]
    return labelled.assign(
        confidence=[
            confidence(None if math.isnan(p) else p, None if pd.isna(sense) else sense)
            for p, sense in zip(labelled["probability_idiomatic"], predicted, strict=True)
        ],
        sense_risk=(predicted != labelled["sentence_type"].astype(object)).astype(float),
        top1_risk=1.0 - first,
    )


def sense_summary(scored: pd.DataFrame, *, seed: int = 0) -> pd.DataFrame:
    """Summarise the sense over all items, with 95 % intervals.

    The figures are ``sense_accuracy``, the areas under the curves of :func:`risk_curve`
    (``sense_aurc``, ``top1_aurc``), and ``calibration_error`` (ECE, 10 bins) and ``brier`` of the
    items that have a probability.
    """
    items = decided_items(scored)
    sure = items[items["probability_idiomatic"].notna()]
    idiomatic = sure["sentence_type"] == "idiomatic"
    rows: list[tuple[str, int, str, float, float, float]] = []

    def add(count: int, statistics: dict[str, metrics.Statistic]) -> None:
        intervals = metrics.bootstrap_intervals([*statistics.values()], count, seed=seed)
        for (name, statistic), ends in zip(statistics.items(), intervals, strict=True):
            mean = metrics.apply_to_all(statistic, count)
            ends = interval(mean, count, ends, share=is_share(name))
            rows.append(("all", count, name, mean, *ends))

    if len(items):
        areas = {
            risk.replace("_risk", "_aurc"): metrics.risk_area(items["confidence"], items[risk])
            for risk in RISKS
        }
        add(len(items), {"sense_accuracy": metrics.mean(1 - items["sense_risk"])} | areas)
    if len(sure):
        errors = metrics.brier(sure["probability_idiomatic"], idiomatic)
        calibration = metrics.calibration(sure["probability_idiomatic"], idiomatic)
        add(len(sure), {"calibration_error": calibration, "brier": metrics.mean(errors)})
    return pd.DataFrame(rows, columns=COLUMNS)


def risk_curve(scored: pd.DataFrame) -> pd.DataFrame:
    """Return how often a run would be wrong if it answered only where its sense is surest.

    Returns:
        A row for each confidence, the highest first: ``coverage`` (the share of items with at
        least this confidence), ``items`` (their number), ``confidence``, ``sense_risk`` and
        ``top1_risk`` (the shares of them that are wrong).
    """
    items = decided_items(scored)
    curve: dict[str, Any] = {}
    for risk in RISKS:
        values, counts, shares = metrics.risk_coverage(items["confidence"], items[risk])
        coverage = counts / max(len(items), 1)
        curve |= {"coverage": coverage, "items": counts, "confidence": values, risk: shares}
    return pd.DataFrame(curve)


def at_coverages(
    curve: pd.DataFrame, coverages: Sequence[float] = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)
) -> pd.DataFrame:
    """Return the first rows of a curve that cover these shares of the items, with ``share``."""
    first = [int((curve["coverage"] >= share - 1e-9).to_numpy().argmax()) for share in coverages]
    return curve.iloc[first].assign(share=list(coverages))


def summarise_sure(scored: pd.DataFrame, *, seed: int = 0) -> pd.DataFrame:
    """Summarise the items that the run did not mark as unsure; see :func:`summarise`."""
    return summarise(scored[~scored["unsure"]] if "unsure" in scored else scored, seed=seed)
