"""Several shuffles against one, with a noisy judge who likes what is shown first."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from judges import FIRST, NOISE, WORTH, Judge, item_of, one_shuffle, predicted, simulated_orders

from admire import Settings, rank
from admire.rankers import borda, kemeny

ITEMS = 2000


def error(share: float, count: int) -> float:
    """Four standard errors."""
    return 4 * sqrt(share * (1 - share) / count)


def top1(scores: np.ndarray) -> float:
    """How often candidate 0 is best; where several are, in part."""
    best = np.isclose(scores, scores.max(axis=1, keepdims=True))
    return float((best[:, 0] / best.sum(axis=1)).mean())


@pytest.mark.parametrize(("how", "name"), [(borda, "borda"), (kemeny, "kemeny")])
def test_five_shuffles_win_by_the_margin_that_is_predicted(how, name):
    rng = np.random.default_rng(1)
    stood = simulated_orders(ITEMS, 5, rng)
    alone = float((stood[:, 0, 0] == 0).mean())
    together = top1(np.array([how(one) for one in stood]))
    expected = predicted(5, name)
    assert alone == pytest.approx(one_shuffle(), abs=error(one_shuffle(), ITEMS))
    assert together == pytest.approx(expected, abs=error(expected, ITEMS))
    assert together - alone > 0.15  # 0.48 and 0.70


def test_the_ranker_gains_by_shuffles_as_much_as_its_aggregation():
    # Names are drawn by lot, because equal scores go by name.
    count = 300
    rng = np.random.default_rng(2)
    worth: dict[str, float] = {}
    items, best = [], []
    for k in range(count):
        captions = [f"caption {number}" for number in rng.integers(0, 10**9, len(WORTH))]
        worth |= dict(zip(captions, WORTH, strict=True))
        items.append(item_of(captions, f"compound {k}"))
        best.append(f"{captions[0]}.png")
    found = {}
    for shuffles in (1, 5):
        judge = Judge(worth, noise=NOISE, first=FIRST)
        settings = Settings(rankers=("listwise",), shuffles=shuffles)
        run = rank(items, settings, llms=[judge])
        found[shuffles] = np.mean(
            [r.order[0] == b for r, b in zip(run.rankings, best, strict=True)]
        )
    for shuffles, expected in ((1, one_shuffle()), (5, predicted(5, "kemeny"))):
        assert found[shuffles] == pytest.approx(expected, abs=error(expected, count))
