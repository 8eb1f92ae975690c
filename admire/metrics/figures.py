"""Tables of figures: means with intervals by group, differences, and how sure senses are."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from admire.core.registry import names
from admire.metrics import metrics

GROUPS = ("all", "idiomatic", "literal")

COLUMNS = ["group", "n", "metric", "mean", "low", "high"]
"""Of a table of figures: a row for each group of ``n`` items and metric, with its 95 % interval."""

MACRO = "macro"  #: the group of macro-averages over languages, which AdMIRe 2's figures are

INTERVALS = (
    "by bootstrap over the items; by Wilson for shares of fewer than 10 items or where all items "
    "are alike; none for fewer than 3 items"
)
"""Which 95 % interval a figure has, see :func:`interval`."""

NOTHING = "–"  #: the text of a figure that is not known


def interval(
    mean: float, count: int, bootstrap: tuple[float, float], *, share: bool
) -> tuple[float, float]:
    """Return the 95 % interval of a mean that does not say more than ``count`` items can.

    It is the bootstrap's, except for few items or if that has no width. Then a share has Wilson's
    interval from 3 items on, and other figures have none (NaN).
    """
    alike = bootstrap[1] - bootstrap[0] < 1e-9
    if count >= 3 and share and (count < 10 or alike):
        return metrics.wilson_interval(mean, count)
    return (math.nan, math.nan) if count < 3 or alike else bootstrap


def summarise(
    scored: pd.DataFrame,
    *,
    columns: Sequence[str] | None = None,
    seed: int = 0,
    shares: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Return the means of figures over all, idiomatic and literal items, with 95 % intervals.

    The columns are :data:`COLUMNS`; the intervals are those of :func:`interval`. Groups without
    items are left out. A figure that some items lack is of the others.

    Args:
        columns: the figures; None takes those of :func:`admire.metrics.item_figures.score_items`.
        shares: those of them that are 0 or 1; None takes those that say so.
    """
    rows = []
    for group in GROUPS:
        items = scored if group == "all" else scored[scored["sentence_type"] == group]
        by_items = defaultdict(list)  # the figures that the same items have
        for metric in columns or item_metrics(scored):
            by_items[tuple(items[metric].notna())].append(metric)
        for has_figure, of_items in by_items.items():
            if not (count := sum(has_figure)):
                continue
            values = dict(items.loc[list(has_figure), of_items].items())
            means = [*map(metrics.mean, values.values())]
            intervals = metrics.bootstrap_intervals(means, count, seed=seed)
            for (name, measured), ends in zip(values.items(), intervals, strict=True):
                mean = float(measured.mean())
                share = metrics.is_share(str(name)) if shares is None else name in shares
                ends = interval(mean, count, ends, share=share)
                rows.append((group, count, name, mean, *ends))
    return pd.DataFrame(rows, columns=COLUMNS)


def item_metrics(scored: pd.DataFrame) -> list[str]:
    """Return the columns of scored items that are figures, the default metrics first."""
    ordered = dict.fromkeys((*metrics.DEFAULT, *names("metric")))
    return [metric for metric in ordered if metric in scored]


def summarise_languages(
    scored: pd.DataFrame, languages: Sequence[str], *, seed: int = 0
) -> pd.DataFrame:
    """Return the means of figures by language, and their mean over languages, with 95 % intervals.

    The groups are the ``languages`` of the rows by their first figure, the best first, and then
    :data:`MACRO`, whose intervals are from resampling languages, and items within each. Figures
    that some items lack are left out, unless all are such.
    """
    every = item_metrics(scored)
    columns = [name for name in every if scored[name].notna().all()] or every
    parts = {str(tag): part for tag, part in scored.groupby(list(languages))}
    tables = []
    for tag in sorted(parts, key=lambda tag: -parts[tag][columns[0]].mean()):
        part = parts[tag].assign(sentence_type=None)
        tables.append(summarise(part, columns=columns, seed=seed).assign(group=tag))
    intervals = metrics.macro_intervals(
        [part[columns].to_numpy(float) for part in parts.values()], seed=seed
    )
    macro = []
    for name, ends in zip(columns, intervals, strict=True):
        mean = float(np.mean([part[name].mean() for part in parts.values()]))
        ends = interval(mean, len(scored), ends, share=False)
        macro.append((MACRO, len(scored), name, mean, *ends))
    return pd.concat([*tables, pd.DataFrame(macro, columns=COLUMNS)], ignore_index=True)


def with_ndcg(figures: pd.DataFrame) -> pd.DataFrame:
    """Add the metric ``ndcg5``, DCG divided by its best, after each ``dcg`` of a table."""
    if "ndcg5" in set(figures["metric"]):
        return figures
    ndcg = figures[figures["metric"] == "dcg"].assign(metric="ndcg5")
    ndcg[["mean", "low", "high"]] /= metrics.BEST_DCG
    return pd.concat([figures, ndcg]).sort_index(kind="stable", ignore_index=True)


def paired_difference(
    first: pd.DataFrame,
    second: pd.DataFrame,
    *,
    columns: Sequence[str] | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """Summarise the differences second minus first on the same items, as :func:`summarise` does."""
    both = [column for column in columns or item_metrics(first) if column in second]
    difference = second.assign(**{column: second[column] - first[column] for column in both})
    return summarise(difference, columns=both, seed=seed, shares=())


def tied_figures(scored: pd.DataFrame) -> pd.DataFrame:
    """Return which part of each mean rests on items with a tie at the top, decided by file names.

    Returns:
        ``metric``, ``tied`` (how many items have a tie), ``n``, ``part`` and ``mean``. No rows if
        none has, or where that is not known, as of another system's submission.
    """
    values = scored[item_metrics(scored)].drop(columns="sense_accuracy", errors="ignore")
    ties = values[scored["tied_first"].eq(True)] if "tied_first" in scored else values.iloc[:0]
    n = values.notna().sum()
    parts = {"tied": ties.notna().sum(), "n": n, "part": ties.sum() / n, "mean": values.mean()}
    table = pd.DataFrame(parts).rename_axis("metric").reset_index()
    return table if len(ties) else table.iloc[:0]


def describe_ties(scored: pd.DataFrame) -> str:
    """Say what :func:`tied_figures` has; empty for no ties."""
    table = tied_figures(scored)
    if table.empty:
        return ""
    parts = [f"{row.part:.3f} of {row.metric} {row.mean:.3f}" for row in table.itertuples()]
    tied = f"{table['tied'].max()} of {table['n'].max()} items have a tie at the top"
    return f"{tied}, decided by the names of files. On these rest {', '.join(parts)}."


def figure_text(mean: float, low: float, high: float, *, signed: bool = False) -> str:
    """Write a figure with its interval, ``0.543 [0.414, 0.671]``, as far as these are known.

    Nothing is −0.000.
    """
    if math.isnan(mean):
        return NOTHING
    form = "{:+z.3f}" if signed else "{:z.3f}"
    text, *ends = map(form.format, (mean, low, high))
    return text if math.isnan(low) else f"{text} [{', '.join(ends)}]"


def wide_figures(
    figures: pd.DataFrame, index: Sequence[str], *, signed: bool = False
) -> pd.DataFrame:
    """Spread a table of figures: a row for each group, a column of texts for each metric.

    Args:
        index: the columns that identify a group, such as ``group`` and ``n``.
        signed: whether figures have a plus.
    """
    ends = figures[["mean", "low", "high"]].to_numpy(float)
    texts = figures.assign(text=[figure_text(*figure, signed=signed) for figure in ends])
    return texts.set_index([*index, "metric"])["text"].unstack(sort=False, fill_value=NOTHING)


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
            metrics.confidence(None if math.isnan(p) else p, None if pd.isna(sense) else sense)
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
    p, idiomatic = sure["probability_idiomatic"], sure["sentence_type"] == "idiomatic"
    of_items = {"sense_accuracy": metrics.mean(1 - items["sense_risk"])} | {
        risk.replace("_risk", "_aurc"): metrics.risk_area(items["confidence"], items[risk])
        for risk in RISKS
    }
    of_sure = {
        "calibration_error": metrics.calibration(p, idiomatic),
        "brier": metrics.mean(metrics.brier(p, idiomatic)),
    }
    rows = []
    for count, statistics in ((len(items), of_items), (len(sure), of_sure)):
        if count:
            intervals = metrics.bootstrap_intervals([*statistics.values()], count, seed=seed)
            for (name, statistic), ends in zip(statistics.items(), intervals, strict=True):
                mean = metrics.apply_to_all(statistic, count)
                ends = interval(mean, count, ends, share=metrics.is_share(name))
                rows.append(("all", count, name, mean, *ends))
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
