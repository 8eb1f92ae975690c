"""How well a run's probability of the sense is calibrated, and what abstaining would gain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from admire.scores import metrics
from admire.scores.figures import summarise
from admire.scores.metrics import confidence

COVERAGES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)
"""The shares of items at which a curve is printed."""

RISKS = {"sense_risk": "sense", "top1_risk": "top1"}
"""The columns of errors in a curve, and the names of what is wrong."""


def decided(scored: pd.DataFrame) -> pd.DataFrame:
    """The items whose sense is known, with the run's confidence and errors.

    Args:
        scored: see :func:`admire.scores.item_figures.score_items`.

    Returns:
        Its rows with ``confidence``, from 0.5 to 1, and the errors, 1 or 0: ``sense_risk`` and
        ``top1_risk`` (in Subtask B of the item). No rows if the run predicts no senses.
    """
    if "probability" not in scored:
        scored = scored.iloc[:0].assign(predicted_type=None, probability=math.nan)
    known = scored[scored["sentence_type"].notna()]
    predicted = known["predicted_type"].astype(object)
    first = known["top1" if "top1" in known else "item_accuracy"]
    return known.assign(
        confidence=[confidence(None if math.isnan(p) else p) for p in known["probability"]],
        sense_risk=(predicted != known["sentence_type"].astype(object)).astype(float),
        top1_risk=1.0 - first,
    )


def sense_summary(scored: pd.DataFrame, *, seed: int = 0) -> pd.DataFrame:
    """Figures of the sense over all items, with 95 % bootstrap intervals.

    The columns are those of :func:`admire.scores.figures.summarise`. The figures are
    ``sense_accuracy``, the areas under the curves of :func:`risk_curve` (``sense_aurc``,
    ``top1_aurc``), and ``calibration_error`` (ECE, 10 bins) and ``brier`` of the items that have a
    probability.

    Args:
        scored: see :func:`decided`.
    """
    known = decided(scored)
    sure = known[known["probability"].notna()]
    idiomatic = sure["sentence_type"] == "idiomatic"
    rows: list[tuple[str, int, str, float, float, float]] = []

    def add(of: pd.DataFrame, statistics: dict[str, metrics.Statistic]) -> None:
        values = [metrics.apply_to_all(one, len(of)) for one in statistics.values()]
        intervals = metrics.bootstrap_intervals([*statistics.values()], len(of), seed=seed)
        for name, value, interval in zip(statistics, values, intervals, strict=True):
            rows.append(("all", len(of), name, value, *interval))

    if len(known):
        areas = {
            f"{what}_aurc": metrics.risk_area(known["confidence"], known[risk])
            for risk, what in RISKS.items()
        }
        add(known, {"sense_accuracy": metrics.mean(1 - known["sense_risk"])} | areas)
    if len(sure):
        errors = metrics.brier(sure["probability"], idiomatic)
        calibration = metrics.calibration(sure["probability"], idiomatic)
        add(sure, {"calibration_error": calibration, "brier": metrics.mean(errors)})
    return pd.DataFrame(rows, columns=["group", "n", "metric", "mean", "low", "high"])


def risk_curve(scored: pd.DataFrame) -> pd.DataFrame:
    """How often a run would be wrong if it answered only the items whose sense is surest.

    Returns:
        A row for each confidence, the highest first: ``coverage`` (the share of items with at
        least this confidence), ``items`` (their number), ``confidence``, ``sense_risk`` and
        ``top1_risk`` (the shares of them that are wrong).
    """
    known = decided(scored)
    curve: dict[str, Any] = {}
    for risk in RISKS:
        values, taken, risks = metrics.risk_coverage(known["confidence"], known[risk])
        coverage = taken / max(len(known), 1)
        curve |= {"coverage": coverage, "items": taken, "confidence": values, risk: risks}
    return pd.DataFrame(curve)


def at_coverages(curve: pd.DataFrame, coverages: Sequence[float] = COVERAGES) -> pd.DataFrame:
    """The first rows of a curve that cover these shares of the items, with ``wanted``."""
    first = [int((curve["coverage"] >= share - 1e-9).to_numpy().argmax()) for share in coverages]
    return curve.iloc[first].assign(wanted=list(coverages))


def summarise_sure(scored: pd.DataFrame, *, seed: int = 0) -> pd.DataFrame:
    """As :func:`summarise`, without the items that the run marked as unsure."""
    return summarise(scored[~scored["unsure"]] if "unsure" in scored else scored, seed=seed)
