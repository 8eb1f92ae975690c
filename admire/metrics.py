"""AdMIRe's figures for one ranking, and their means with bootstrap intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

METRICS = ("top1", "dcg", "corr_official", "corr_rank")
SEQUENCE_METRICS = ("item_accuracy", "sense_accuracy")
"""Subtask B's: whether the right candidate, and the right sense, was told."""


def top1(expected: Sequence[str], predicted: Sequence[str]) -> float:
    """1.0 where the first predicted candidate is the first expected one, else 0.0."""
    return float(expected[0] == predicted[0])


def dcg(expected: Sequence[str], predicted: Sequence[str]) -> float:
    """Discounted cumulative gain as AdMIRe scores it: gains 3 and 1 for the two best candidates.

    3 / log2(2 + p1) + 1 / log2(2 + p2), where p1 and p2 are the predicted 0-based positions of the
    first and second expected candidates. The best is 3 + 1 / log2(3) = 3.631; with five candidates
    a random order has the mean 2.359.
    """
    first, second = predicted.index(expected[0]), predicted.index(expected[1])
    return 3 / math.log2(2 + first) + 1 / math.log2(2 + second)


def corr_rank(expected: Sequence[str], predicted: Sequence[str]) -> float:
    """Spearman's correlation of each candidate's expected and predicted positions, in [-1, 1]."""
    return _spearman(range(len(expected)), [predicted.index(name) for name in expected])


def corr_official(expected: Sequence[str], predicted: Sequence[str]) -> float:
    """The correlation as AdMIRe's own scorer computes it, in [-1, 1].

    The scorer hands Spearman two arrays of file *names*, one in expected and one in predicted
    order, so it correlates the names' alphabetical ranks place by place. That depends on how the
    files are called; it is reported because the published figures are this one. See
    :func:`corr_rank` for the correlation of the orders themselves.
    """
    alphabetical = sorted(expected)
    return _spearman(
        [alphabetical.index(name) for name in expected],
        [alphabetical.index(name) for name in predicted],
    )


def _spearman(a: Sequence[int], b: Sequence[int]) -> float:
    """Spearman's rho of two permutations of 0 … n-1 (no ties): 1 - 6 Σd² / (n (n² - 1))."""
    n = len(a)
    return 1 - 6 * sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) / (n * (n * n - 1))


def r_precision(relevant: npt.ArrayLike) -> float:
    """The share of relevant documents among the first R, of R relevant ones (IdioLink, D).

    ``relevant`` says for each document of the whole ranking, best first, whether it is relevant.
    """
    flags = np.asarray(relevant, dtype=bool)
    return float(flags[: flags.sum()].mean())


def ndcg(relevant: npt.ArrayLike, k: int = 10) -> float:
    """nDCG@k with binary gains: Σ 1 / log2(1 + rank) over the relevant, by the most there can be.

    ``relevant`` as for :func:`r_precision`; at least one document is.
    """
    flags = np.asarray(relevant, dtype=bool)
    discounts = 1 / np.log2(np.arange(2, k + 2))
    found = flags[:k]
    return float(discounts[: len(found)][found].sum() / discounts[: flags.sum()].sum())


def figures(expected: Sequence[str], predicted: Sequence[str]) -> dict[str, float]:
    """All four of ``METRICS`` for one ranking, by name."""
    return {
        "top1": top1(expected, predicted),
        "dcg": dcg(expected, predicted),
        "corr_official": corr_official(expected, predicted),
        "corr_rank": corr_rank(expected, predicted),
    }


def bootstrap_interval(
    values: npt.ArrayLike, *, level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """Percentile interval of the mean of (items,) values, from resampling the items."""
    (interval,) = bootstrap_intervals([values], level=level, resamples=resamples, seed=seed)
    return interval


DRAWN = 1_000_000
"""How many items are drawn at a time."""


def bootstrap_intervals(
    figures: Sequence[npt.ArrayLike],
    *,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> list[tuple[float, float]]:
    """As :func:`bootstrap_interval`, of several figures, each (items,), of the same items."""
    arrays = [np.asarray(values, dtype=float) for values in figures]
    count = len(arrays[0]) if arrays else 0
    rng = np.random.default_rng(seed)
    means = np.empty((len(arrays), resamples))
    step = max(1, DRAWN // max(1, count))
    for start in range(0, resamples, step):
        stop = min(start + step, resamples)
        drawn = rng.integers(0, count, size=(stop - start, count))
        for k, array in enumerate(arrays):
            means[k, start:stop] = array[drawn].mean(axis=1)
    quantiles = np.quantile(means, [(1 - level) / 2, (1 + level) / 2], axis=1)
    return [(float(low), float(high)) for low, high in quantiles.T]


def calibration_error(
    probabilities: npt.ArrayLike, happened: npt.ArrayLike, bins: int = 10
) -> float:
    """The expected calibration error of probabilities, from 0 to 1 (Naeini et al. 2015).

    The probabilities are put into bins of equal width. It is the mean difference between a bin's
    mean probability and the share of its cases that happened, weighted by the bins' sizes.
    """
    told, came = np.asarray(probabilities, float), np.asarray(happened, float)
    bin_of = np.minimum((told * bins).astype(int), bins - 1)
    gaps = [abs((told - came)[bin_of == k].sum()) for k in range(bins)]
    return float(sum(gaps) / len(told))
