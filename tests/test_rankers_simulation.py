"""Several shuffles against one, with a noisy judge who likes what is shown first."""

from math import sqrt

import numpy as np
import pytest
from judges import FIRST, NOISE, WORTH, Judge, item_of, one_shuffle, predicted

from admire import Settings, rank


@pytest.mark.ci
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
        error = sqrt(expected * (1 - expected) / count)
        assert found[shuffles] == pytest.approx(expected, abs=4 * error)
