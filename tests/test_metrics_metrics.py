"""The figures against hand-worked values, scipy, and what a file name must not change."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from admire import Item
from admire.metrics.metrics import (
    BEST_DCG,
    apply_to_all,
    bootstrap_intervals,
    brier,
    calibration,
    calibration_error,
    confidence,
    corr_official,
    corr_rank,
    dcg,
    item_accuracy,
    kendall_tau,
    macro_intervals,
    mean,
    mrr,
    ndcg,
    ndcg5,
    r_precision,
    risk_area,
    risk_coverage,
    sense_accuracy,
    top1,
    wilson_interval,
)

ORDERS = list(itertools.permutations("abcde"))


def gold(order: Sequence[str]) -> Item:
    return Item("night owl", "She is a night owl.", expected_order=tuple(order))


# Expected b a d c e, predicted d b a e c.
# top1: d is not b, 0. dcg: b at 1, a at 2: 3 / log2(3) + 1 / log2(4) = 1.8928 + 0.5.
# corr_rank: places b 0-1, a 1-2, d 2-0, c 3-4, e 4-3: d² = 1 + 1 + 4 + 1 + 1 = 8,
#   1 - 6 * 8 / (5 * 24) = 0.6.
# corr_official: alphabetical ranks, b a d c e is 1 0 3 2 4 and d b a e c is 3 1 0 4 2:
#   d² = 4 + 1 + 9 + 4 + 4 = 22, 1 - 6 * 22 / 120 = -0.1.
@pytest.mark.parametrize(
    ("metric", "value"),
    [
        *((top1, 0.0), (dcg, 3 / math.log2(3) + 0.5), (corr_rank, 0.6), (corr_official, -0.1)),
        (ndcg5, (3 / math.log2(3) + 0.5) / (3 + 1 / math.log2(3))),
    ],
)
def test_golden_values_worked_out_by_hand(metric, value):
    assert metric(list("dbaec"), gold("badce")) == pytest.approx(value, abs=1e-12)
    assert top1(list("bdaec"), gold("badce")) == 1


def test_one_right_candidate_has_its_figures_worked_out_by_hand():
    word = Item("river bank", "", word="bank", expected_item="b")
    assert mrr(list("cab"), word) == pytest.approx(1 / 3)
    shown = Item("owl", "", sentence_type="literal", expected_item="b")
    assert [item_accuracy(list(order), shown) for order in ("bca", "acb")] == [1, 0]
    senses = ("literal", "idiomatic", None)
    assert [sense_accuracy([], shown, sense) for sense in senses] == [1, 0, 0]


def test_rankings_of_documents_have_their_figures_worked_out_by_hand():
    relevant = [True, False, True, False, True]
    assert r_precision(relevant) == pytest.approx(2 / 3)
    assert ndcg(relevant, 3) == pytest.approx((1 + 1 / 2) / (1 + 1 / math.log2(3) + 1 / 2))
    assert ndcg(relevant, 2) == pytest.approx(1 / (1 + 1 / math.log2(3)))
    assert ndcg([False, True]) == pytest.approx(1 / math.log2(3))


def test_dcg_over_all_orders_has_the_published_best_mean_and_worst():
    values = [dcg(order, gold("abcde")) for order in ORDERS]
    found = max(values), np.mean(values), min(values)
    assert found == pytest.approx((3.631, 2.359, 1.591), abs=5e-4)
    assert np.mean(values) / BEST_DCG == pytest.approx(0.650, abs=5e-4)  # NDCG at random


@given(st.lists(st.text(min_size=1, max_size=6), min_size=2, max_size=9, unique=True), st.randoms())
def test_correlations_are_scipys(expected, random):
    """``corr_official`` is what AdMIRe's organisers compute: the names' alphabetical ranks."""
    predicted = random.sample(expected, len(expected))
    places = [predicted.index(name) for name in expected]
    own = range(len(expected))
    alphabet = sorted(expected)  # numpy 2.5 does not rank strings
    names = [[alphabet.index(name) for name in order] for order in (expected, predicted)]
    for found, peer in (
        (corr_rank(predicted, gold(expected)), stats.spearmanr(own, places)),
        (corr_official(predicted, gold(expected)), stats.spearmanr(*names)),
        (kendall_tau(expected, predicted), stats.kendalltau(own, places)),
    ):
        assert found == pytest.approx(peer.statistic, abs=1e-9)


VALUES = np.array([0.0, 1.0, 3.631, 2.359, 1.9, 3.631, 0.5, 2.2, 2.9, 1.1, 3.0, 2.0])


def interval(values, **options) -> tuple[float, float]:
    (ends,) = bootstrap_intervals([mean(values)], len(values), **options)
    return ends


@pytest.mark.parametrize("drawn", [1, 1000, 12_345])
def test_intervals_follow_the_seed_and_not_how_many_items_are_drawn_at_a_time(monkeypatch, drawn):
    values = np.random.default_rng(0).random((2, 70))
    means = values[0][np.random.default_rng(3).integers(0, 70, size=(500, 70))].mean(axis=1)
    monkeypatch.setattr("admire.metrics.metrics.DRAWN", drawn)
    both = bootstrap_intervals([mean(one) for one in values], 70, resamples=500, seed=3)
    assert both[0] == pytest.approx(np.quantile(means, [0.025, 0.975]), abs=1e-12)
    assert both == [interval(one, resamples=500, seed=3) for one in values]
    assert both[0] != interval(values[0], resamples=500, seed=4)


def test_the_interval_of_a_macro_average_is_from_drawing_groups_and_their_items(monkeypatch):
    rng = np.random.default_rng(5)
    groups = [rng.normal(shift, 1.0, (size, 1)) for shift, size in ((0, 5), (1, 40), (3, 12))]

    def drawn() -> float:
        of = [groups[k][:, 0] for k in rng.integers(0, 3, size=3)]
        return float(np.mean([rng.choice(one, len(one)).mean() for one in of]))

    by_loops = np.quantile([drawn() for _ in range(4000)], [0.025, 0.975])
    monkeypatch.setattr("admire.metrics.metrics.DRAWN", 100)  # in many steps
    (found,) = macro_intervals(groups, resamples=4000)
    assert found == pytest.approx(by_loops, abs=0.1)  # the ends move by about 0.03
    assert macro_intervals([np.zeros((4, 2)), np.ones((9, 2))]) == [(0, 1), (0, 1)]
    (alone,) = macro_intervals([VALUES[:, None]])
    assert alone == pytest.approx(interval(VALUES), abs=0.04)


def test_the_calibration_error_and_briers_score_are_worked_out_by_hand():
    # Bin 0.6 to 0.7: told 0.6 and 0.68, one of two happened: |1.28 - 1| = 0.28.
    # Bin 0.9 to 1: told 0.9 and 1, both happened: |1.9 - 2| = 0.1. In all 0.38 / 4.
    error = calibration_error([0.6, 0.9, 0.68, 1.0], [True, True, False, True])
    assert error == pytest.approx(0.38 / 4)
    assert brier([0.8, 0.4], [True, True]) == pytest.approx([0.04, 0.36])


def area(confidences, losses) -> float:
    return apply_to_all(risk_area(confidences, losses), len(losses))


def test_the_risk_coverage_curve_and_its_area_are_worked_out_by_hand():
    # Surest first, wrong are the second and the third: risks 0, 1/2, 2/3, 1/2. In the second case
    # these two are equally sure, and are one step with the risk 2/3.
    for confidences, steps, sizes, expected, total in (
        ([0.7, 0.6, 0.9, 0.8], [0.9, 0.8, 0.7, 0.6], [1, 2, 3, 4], [0, 1 / 2, 2 / 3, 1 / 2], 5 / 3),
        ([0.8, 0.6, 0.9, 0.8], [0.9, 0.8, 0.6], [1, 3, 4], [0, 2 / 3, 1 / 2], 4 / 3 + 1 / 2),
    ):
        found, taken, risks = risk_coverage(confidences, [1, 0, 0, 1])
        assert (found.tolist(), taken.tolist()) == (steps, sizes)
        assert risks == pytest.approx(expected)
        assert area(confidences, [1, 0, 0, 1]) == pytest.approx(total / 4)


ANSWERED = st.lists(
    st.tuples(st.integers(50, 100).map(lambda k: k / 100), st.booleans()), min_size=1, max_size=30
)


@given(ANSWERED, st.data())
def test_a_statistic_of_a_sample_is_that_of_its_items(pairs, data):
    told, wrong = (np.array(one, float) for one in zip(*pairs, strict=True))
    place = st.integers(0, len(pairs) - 1)
    items = np.array(data.draw(st.lists(place, min_size=len(pairs), max_size=len(pairs))))
    (risk,) = risk_area(told, wrong)(items[None])
    assert risk == pytest.approx(area(told[items], wrong[items]))
    (error,) = calibration(told, wrong)(items[None])
    assert error == pytest.approx(calibration_error(told[items], wrong[items]))


@pytest.mark.parametrize(("right", "of"), [(14, 15), (0, 10), (10, 10), (57, 100)])
def test_wilsons_interval_is_scipys(right, of):
    peer = stats.binomtest(right, of).proportion_ci(method="wilson")
    assert wilson_interval(right / of, of) == pytest.approx((peer.low, peer.high), abs=1e-12)


def test_the_confidence_is_the_probability_of_the_predicted_sense():
    assert [confidence(0.2, sense) for sense in ("idiomatic", "literal", None)] == [0.2, 0.8, 0.5]
    assert confidence(None, "literal") == 0.5
