"""Aggregates several orders or comparisons of the same candidates into scores."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations, permutations

import numpy as np
import numpy.typing as npt

from admire.core.errors import needs_extra
from admire.rankers.scorer import Scores

Places = npt.NDArray[np.int64]
"""The place of each candidate in each order, 0 for the best; shape (orders, candidates)."""

KEMENY_MOST = 8  #: maximum number of candidates for trying all orders: 40,320 of them
PRIOR = 0.1
"""Weight of the sum of squared strengths in Bradley-Terry: a normal prior of deviation 2.2."""


def places(orders: Sequence[Sequence[str]], names: Sequence[str]) -> Places:
    """Return orders of names, best first, as :data:`Places` of the candidates with these names."""
    return np.array([[order.index(name) for name in names] for order in orders], dtype=np.int64)


def aggregate(places: Places) -> Scores:
    """Return Kemeny points for few candidates, otherwise Borda points; shape (candidates,)."""
    return kemeny(places) if places.shape[1] <= KEMENY_MOST else borda(places)


def borda(places: Places) -> Scores:
    """Return how many other candidates rank below each one, as the mean over the orders."""
    points: Scores = places.shape[1] - 1 - places.mean(axis=0)
    return points


def kemeny(places: Places) -> Scores:
    """Return how many others rank below each candidate in the order nearest to all orders.

    The nearest one contradicts the fewest of the orders' statements "a before b" (Kemeny 1959);
    permutation self-consistency aggregates with it (arXiv 2310.07712, section 2). A candidate that
    beats every other by majority comes first. Of several nearest orders, those that agree most with
    Borda points are averaged.
    """
    count = places.shape[1]
    tried = _orders(count)
    before = (places[:, :, None] < places[:, None, :]).sum(axis=0)
    contradicted = np.zeros(len(tried), dtype=np.int64)
    for first, second in combinations(range(count), 2):
        contradicted += before[tried[:, second], tried[:, first]]
    nearest = tried[contradicted == contradicted.min()]
    points = places.shape[0] * (count - 1) - places.sum(axis=0)  # integers, so that ties are exact
    matches = (points[nearest] * np.arange(count, 0, -1)).sum(axis=1)
    nearest = nearest[matches == matches.max()]
    scores: Scores = count - 1 - np.argsort(nearest, axis=1).mean(axis=0)
    return scores


@lru_cache(maxsize=KEMENY_MOST)
def _orders(count: int) -> npt.NDArray[np.int64]:
    """Return every order of ``count`` candidates, shape (orders, candidates)."""
    return np.array(list(permutations(range(count))), dtype=np.int64)


def bradley_terry(wins: Scores) -> Scores:
    """Return candidates' strengths; the logistic of a difference is the chance to win.

    It is the maximum a posteriori under a normal prior: finite and unique even if candidates beat
    each other in a circle, one always wins, or some were never compared.

    Args:
        wins: how often the candidate of a row won against that of a column, in halves: a tie is
            half a win for both.
    """
    with needs_extra("rankers", "The ranker pairwise"):
        import choix
    # choix needs integers: each win counts twice, and so does the prior.
    won = np.repeat(np.argwhere(wins > 0), np.rint(2 * wins[wins > 0]).astype(int), axis=0)
    fitted = choix.opt_pairwise(len(wins), won.tolist(), alpha=2 * PRIOR, tol=1e-10)
    strengths: Scores = np.round(fitted - fitted.mean(), 6)  # the search ends near the optimum
    return strengths


def agreement(places: Places) -> float | None:
    """Return how often two of the orders agree on two candidates, from 0 to 1.

    Random orders agree in half of the cases. None if there are fewer than two of either.
    """
    if min(places.shape) < 2:
        return None
    signs = np.sign(places[:, :, None] - places[:, None, :])
    first, second = np.triu_indices(places.shape[1], 1)
    pairs = signs[:, first, second]
    return float(np.mean([(left == other).mean() for left, other in combinations(pairs, 2)]))
