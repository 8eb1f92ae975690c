"""Formulas: metrics of items, figures of probabilities, bootstrap intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from numbers import Real
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from admire.core.registry import Plugin, find, names, register
from admire.data.items import Item, SenseLabel

BEST_DCG = 3 + 1 / math.log2(3)
"""The :func:`dcg` of the gold order. DCG divided by it is the NDCG@5 of AdMIRe 2, if there are five
candidates; a random order has the mean 0.650."""

DEFAULT = ("top1", "dcg", "corr_official", "corr_rank", "mrr", "item_accuracy", "sense_accuracy")
"""The metrics that an item has if none are named, in the order of tables."""


@register("metric", "top1", heading="top-1", share=True)
def top1(order: Sequence[str], item: Item) -> float | None:
    """The share of items whose best candidate is ranked first.

    1.0 or 0.0 of an item; in V-WSD it is hit@1.
    """
    return None if _expected(item) is None else float(order[0] == item.best)


@register(
    "metric",
    "dcg",
    heading="DCG",
    about="Discounted cumulative gain: how far up the two best candidates by gold stand. With five "
    "candidates it is 3.631 at best, and 2.359 on average where the order is random.",
)
def dcg(order: Sequence[str], item: Item) -> float | None:
    """Return AdMIRe's discounted cumulative gain: gains 3 and 1 for the two best candidates.

    3 / log2(2 + p1) + 1 / log2(2 + p2), where p1 and p2 are the predicted 0-based positions of the
    first and second expected candidates.
    """
    if not (expected := _expected(item)):
        return None
    first, second = order.index(expected[0]), order.index(expected[1])
    return 3 / math.log2(2 + first) + 1 / math.log2(2 + second)


@register("metric", "ndcg5", heading="nDCG@5")
def ndcg5(order: Sequence[str], item: Item) -> float | None:
    """DCG divided by the best that it can be; at best 1."""
    gain = dcg(order, item)
    return None if gain is None else gain / BEST_DCG


@register(
    "metric",
    "corr_official",
    about="The task's own correlation, of the alphabetical ranks of file names. It is there to "
    "compare with published figures.",
)
def corr_official(order: Sequence[str], item: Item) -> float | None:
    """Return the correlation as AdMIRe's own scorer computes it, in [-1, 1].

    The scorer gives Spearman the file *names* in expected and in predicted order, so it correlates
    their alphabetical ranks place by place, and depends on how the files are called.
    """
    if not (expected := _expected(item)):
        return None
    rank = sorted(expected).index
    return _spearman([*map(rank, expected)], [*map(rank, order)])


@register("metric", "corr_rank")
def corr_rank(order: Sequence[str], item: Item) -> float | None:
    """Spearman's correlation of the predicted order with the gold order, from −1 to 1."""
    if not (expected := _expected(item)):
        return None
    return _spearman(range(len(expected)), [*map(order.index, expected)])


@register(
    "metric",
    "mrr",
    heading="MRR",
    about="Mean reciprocal rank: an item has 1 if the right image is first, 1/2 if it is second, "
    "1/3 if it is third, and so on.",
)
def mrr(order: Sequence[str], item: Item) -> float | None:
    """Return 1 / r, where the right image of V-WSD is the r-th candidate."""
    right = None if item.has_sense else item.expected_item
    return 1 / (1 + order.index(right)) if right else None


@register("metric", "item_accuracy", heading="item accuracy", share=True)
def item_accuracy(order: Sequence[str], item: Item) -> float | None:
    """The share of items whose sequence is continued by the right candidate.

    1.0 or 0.0 of an item of Subtask B, by its first candidate.
    """
    return float(order[0] == item.expected_item) if _expected(item) is None else None


@register("metric", "sense_accuracy", heading="sense accuracy", share=True)
def sense_accuracy(order: Sequence[str], item: Item, sense: SenseLabel | None) -> float | None:
    """The share of items whose sense is predicted rightly.

    1.0 or 0.0 of an item of Subtask B.
    """
    return float(sense == item.sentence_type) if _expected(item) is None else None


Figure = Callable[[Sequence[str], Item, SenseLabel | None, str], float | None]
"""Returns a figure of an order for an item, given the predicted sense and what messages call it."""


def open_metrics(names: Iterable[str] = ()) -> dict[str, Figure]:
    """Return the metrics of :data:`DEFAULT` and those that are named.

    Raises:
        UserError: a name is unknown.
    """
    figures: dict[str, Figure] = {}
    for name in dict.fromkeys((*DEFAULT, *names)):
        plugin = find("metric", name)
        figures[name] = partial(_figure, plugin, "sense" in plugin.arguments)
    return figures


def _figure(
    plugin: Plugin,
    takes_sense: bool,
    order: Sequence[str],
    item: Item,
    sense: SenseLabel | None,
    where: str,
) -> float | None:
    try:  # a context manager costs more than a figure
        value = plugin.make(order, item, sense) if takes_sense else plugin.make(order, item)
        if value is None:
            return None
        number = float(value) if isinstance(value, float | Real | np.bool_) else math.nan
    except (Exception, SystemExit) as error:
        with plugin.blamed(where):
            raise error
    if not math.isfinite(number) or (plugin.share and number not in (0, 1)):
        valid = "0, 1" if plugin.share else "a finite number"
        raise plugin.error(f"returned {value!r:.80}, not {valid} or None.", where)
    return number


def is_share(name: str) -> bool:
    """Return whether a figure is 1 or 0 for each item, so that its mean is a proportion."""
    return name == "accuracy" or (name in names("metric") and find("metric", name).share)


def _expected(item: Item) -> Sequence[str] | None:
    """Return Subtask A's expected order; none of V-WSD or of the best alone; None of Subtask B."""
    if item.expected_item is not None:
        return None if item.has_sense else ()
    order = item.expected_order or ()
    return order if len(order) > 1 else ()


def _spearman(a: Sequence[int], b: Sequence[int]) -> float:
    """Return Spearman's rho of two permutations of 0 … n-1: 1 - 6 Σd² / (n (n² - 1))."""
    n, squares = len(a), round(math.dist(a, b) ** 2)  # a sum of whole numbers
    return 1 - 6 * squares / (n * (n * n - 1))


def kendall_tau(first: Sequence[str], second: Sequence[str]) -> float:
    """Return Kendall's tau of two orders of the same two names or more, from -1 to 1."""
    places = np.array([second.index(name) for name in first])
    left, right = np.triu_indices(len(places), 1)
    return float(np.sign(places[right] - places[left]).mean())


def r_precision(relevant: npt.ArrayLike) -> float:
    """Return the share of relevant documents among the first R, of R relevant ones (IdioLink, D).

    ``relevant`` says for each document of the whole ranking, best first, whether it is relevant.
    """
    flags = np.asarray(relevant, dtype=bool)
    return float(flags[: flags.sum()].mean())


def ndcg(relevant: npt.ArrayLike, k: int = 10) -> float:
    """Return nDCG@k with binary gains: Σ 1 / log2(1 + rank) over the relevant, by its maximum.

    ``relevant`` as for :func:`r_precision`; at least one document is.
    """
    flags = np.asarray(relevant, dtype=bool)
    discounts = 1 / np.log2(np.arange(2, k + 2))
    first = flags[:k]
    return float(discounts[: len(first)][first].sum() / discounts[: flags.sum()].sum())


Drawn = npt.NDArray[np.int64]
"""Samples of items, drawn with replacement: the items of each, (samples, items)."""

Statistic = Callable[[Drawn], npt.NDArray[np.float64]]  #: a figure of each sample, (samples,)

DRAWN = 1_000_000  #: how many items are drawn at a time

ENDS = [(1 - 0.95) / 2, (1 + 0.95) / 2]  #: of an interval, as quantiles


def bootstrap_intervals(
    statistics: Sequence[Statistic], count: int, *, resamples: int = 10_000, seed: int = 0
) -> list[tuple[float, float]]:
    """Return each statistic's 95 % percentile interval, from resampling its ``count`` items.

    Samples whose statistic is NaN, because they do not define it, are left out.
    """
    rng, step = np.random.default_rng(seed), max(1, DRAWN // count)
    values = np.empty((len(statistics), resamples))
    for start in range(0, resamples, step):
        drawn = rng.integers(0, count, size=(min(step, resamples - start), count))
        for k, statistic in enumerate(statistics):
            values[k, start : start + step] = statistic(drawn)
    return list(zip(*np.nanquantile(values, ENDS, axis=1).tolist(), strict=True))


def macro_intervals(
    groups: Sequence[npt.NDArray[np.float64]], *, resamples: int = 10_000, seed: int = 0
) -> list[tuple[float, float]]:
    """Return the 95 % percentile interval of each figure's mean over groups, such as languages.

    Groups are resampled, and the items of each group, of shape (items, figures), every time that it
    is drawn.
    """
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, len(groups), size=(resamples, len(groups)))
    means = np.empty((*drawn.shape, groups[0].shape[1]))
    for number, values in enumerate(groups):
        places = np.argwhere(drawn == number)
        step = max(1, DRAWN // len(values))
        for part in (places[k : k + step] for k in range(0, len(places), step)):
            items = rng.integers(0, len(values), size=(len(part), len(values)))
            for figure, column in enumerate(values.T):
                means[part[:, 0], part[:, 1], figure] = column.take(items).mean(axis=1)
    return list(zip(*np.quantile(means.mean(axis=1), ENDS, axis=0).tolist(), strict=True))


def sums_in_samples(
    places: npt.NDArray[np.int64], width: int, weights: npt.NDArray[np.float64] | None = None
) -> npt.NDArray[Any]:
    """Count each of ``width`` places in each sample, or sum its weights."""
    samples = len(places)
    cells = (places + width * np.arange(samples)[:, None]).ravel()
    summed = np.bincount(cells, None if weights is None else weights.ravel(), samples * width)
    return summed.reshape(samples, width)


def apply_to_all(statistic: Statistic, count: int) -> float:
    """Return a statistic of all ``count`` items."""
    return float(statistic(np.arange(count)[None])[0])


def mean(values: npt.ArrayLike) -> Statistic:
    """Return the mean as a statistic."""
    array = np.asarray(values, float)
    return lambda drawn: np.asarray(array.take(drawn).mean(axis=1))


def calibration_error(
    probabilities: npt.ArrayLike, happened: npt.ArrayLike, bins: int = 10
) -> float:
    """Return the expected calibration error of probabilities, from 0 to 1 (Naeini et al. 2015).

    It is the mean difference between the mean probability of a bin and the share of its cases that
    happened, weighted by the sizes of the bins, which have equal width.
    """
    return apply_to_all(calibration(probabilities, happened, bins), np.size(probabilities))


def calibration(probabilities: npt.ArrayLike, happened: npt.ArrayLike, bins: int = 10) -> Statistic:
    """Return :func:`calibration_error` as a statistic."""
    p, outcomes = np.asarray(probabilities, float), np.asarray(happened, float)
    bin_of = np.minimum((p * bins).astype(int), bins - 1)
    gaps = p - outcomes

    def errors(drawn: Drawn) -> npt.NDArray[np.float64]:
        sums = np.abs(sums_in_samples(bin_of[drawn], bins, gaps[drawn]))
        return np.asarray(sums.sum(axis=1) / len(p))

    return errors


def brier(probabilities: npt.ArrayLike, happened: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return the squared error of each probability; the mean is Brier's score, 0 at best."""
    return np.square(np.subtract(probabilities, happened, dtype=float))


def risk_coverage(
    confidences: npt.ArrayLike, losses: npt.ArrayLike
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the mean loss of the surest items, by how many of them are answered.

    Returns:
        Three arrays with an element for each different confidence, the highest first: the
        confidence; how many items have at least that; and their mean loss.
    """
    order, ends = _steps(confidences)
    counts = ends + 1
    risks = np.cumsum(np.asarray(losses, float)[order])[ends] / counts
    return np.asarray(confidences, float)[order][ends], counts, risks


def risk_area(confidences: npt.ArrayLike, losses: npt.ArrayLike) -> Statistic:
    """Return the area under :func:`risk_coverage` (AURC, Geifman et al. 2019) as a statistic.

    It is the mean, over the items, of the mean loss of those with at least the item's confidence.
    0 is the best; for an uninformative confidence it is the mean loss.
    """
    order, ends = _steps(confidences)
    sorted_losses = np.asarray(losses, float)[order]
    place = np.argsort(order)

    def areas(drawn: Drawn) -> npt.NDArray[np.float64]:
        times = sums_in_samples(place[drawn], len(order))
        counts = np.cumsum(times, axis=1)[:, ends]
        lost = np.cumsum(times * sorted_losses, axis=1)[:, ends]
        risks = lost / np.maximum(counts, 1)
        widths = np.diff(counts, axis=1, prepend=0)
        return np.asarray((widths * risks).sum(axis=1) / counts[:, -1])

    return areas


def _steps(confidences: npt.ArrayLike) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the items, surest first, and the last place in that order of each confidence."""
    values = np.asarray(confidences, float)
    order = np.argsort(-values, kind="stable")
    ends = np.flatnonzero(np.diff(values[order], append=-np.inf))
    return order, ends


def wilson_interval(share: float, count: int) -> tuple[float, float]:
    """Return the 95 % interval of a share of ``count`` independent cases (Wilson 1927)."""
    z = NormalDist().inv_cdf(0.975)
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    spread = math.sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2) * z
    half = spread / (1 + z * z / count)  # the ends are nearly 0 and 1 where they are just that
    return max(0.0, min(middle - half, share)), min(1.0, max(middle + half, share))


def confidence(probability_idiomatic: float | None, sense: str | None) -> float:
    """Return the probability of the predicted sense; 0.5 if it or the sense is None.

    It is below 0.5 if several models' majority disagrees with their mean probability.
    """
    if probability_idiomatic is None or sense is None:
        return 0.5
    p = probability_idiomatic
    return round(p if sense == "idiomatic" else 1 - p, 9)  # so 0.8 and 1 - 0.2 are the same
