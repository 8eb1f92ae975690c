from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from admire.rankers import agreement, borda, bradley_terry, kemeny
from admire.rankers.aggregate import aggregate, places

ORDERS = st.integers(2, 5).flatmap(
    lambda count: st.lists(st.permutations(range(count)), min_size=1, max_size=6).map(np.array)
)
"""Places of two to five candidates in one to six orders."""


def wins_of(stood: np.ndarray) -> np.ndarray:
    return (stood[:, :, None] < stood[:, None, :]).sum(axis=0).astype(float)


def test_borda_by_hand():
    # a b c, a c b, b a c: a is before 2, 2 and 1 others.
    stood = places([("a", "b", "c"), ("a", "c", "b"), ("b", "a", "c")], ("a", "b", "c"))
    assert borda(stood) == pytest.approx([5 / 3, 1.0, 1 / 3])


def test_kemeny_by_hand_puts_the_condorcet_winner_before_the_one_with_more_points():
    # a beats b and c by 3 to 2; but b, which is never last, has 7 points and a only 6.
    orders = [("a", "b", "c")] * 3 + [("b", "c", "a")] * 2
    stood = places(orders, ("a", "b", "c"))
    assert (5 * borda(stood)).tolist() == pytest.approx([6, 7, 2])
    assert kemeny(stood).tolist() == [2, 1, 0]


def test_of_several_nearest_orders_that_counts_which_agrees_with_borda():
    # Each order of b before c contradicts two pairs; b has 3 points, a 2 and c 1.
    stood = places([("a", "b", "c"), ("b", "c", "a")], ("a", "b", "c"))
    assert kemeny(stood).tolist() == [1, 2, 0]


def test_a_circle_is_equal_for_each_of_the_three():
    stood = places([("a", "b", "c"), ("b", "c", "a"), ("c", "a", "b")], ("a", "b", "c"))
    for scores in (borda(stood), kemeny(stood), bradley_terry(wins_of(stood))):
        assert scores == pytest.approx([scores[0]] * 3)


@given(st.permutations(range(6)), st.integers(1, 5))
def test_orders_that_agree_are_the_result(order, times):
    stood = np.array([order] * times)
    for scores in (borda(stood), kemeny(stood), bradley_terry(wins_of(stood))):
        assert np.argsort(-scores).tolist() == np.argsort(order).tolist()


@given(ORDERS, st.randoms(use_true_random=False))
def test_candidates_by_other_names_have_the_same_scores(stood, random):
    by = list(range(stood.shape[1]))
    random.shuffle(by)
    assert borda(stood[:, by]) == pytest.approx(borda(stood)[by])
    assert kemeny(stood[:, by]) == pytest.approx(kemeny(stood)[by])
    renamed = bradley_terry(wins_of(stood[:, by]))
    assert renamed == pytest.approx(bradley_terry(wins_of(stood))[by], abs=3e-6)


@given(ORDERS)
def test_kemenys_order_contradicts_no_more_than_any_other(stood):
    def contradicted(order) -> int:
        return sum(
            (one[b] < one[a]) for one in stood for k, a in enumerate(order) for b in order[k + 1 :]
        )

    best = min(map(contradicted, permutations(range(stood.shape[1]))))
    scores = kemeny(stood)
    if len(set(scores)) == len(scores):  # else it is the mean of several orders
        assert contradicted(np.argsort(-scores)) == best


@pytest.mark.parametrize(("first", "second"), [(3, 1), (1, 1), (2.5, 0.5), (5, 0)])
def test_the_strengths_of_two_are_as_in_closed_form(first, second):
    fitted = bradley_terry(np.array([[0, first], [second, 0]]))
    # Where the gradient of the likelihood is the prior's: wins less those expected = 2 · 0.1 · s.
    strength = fitted[0]
    expected = (first + second) / (1 + np.exp(-2 * strength))
    assert first - expected == pytest.approx(2 * 0.1 * strength, abs=1e-4)
    assert fitted.sum() == pytest.approx(0)


def test_who_was_never_compared_stands_in_the_middle_and_nothing_is_infinite():
    wins = np.zeros((4, 4))
    wins[0, 1] = 20  # always, and the other two with nobody
    fitted = bradley_terry(wins)
    assert fitted[0] > fitted[2] == fitted[3] > fitted[1]
    assert np.isfinite(fitted).all()
    assert bradley_terry(np.zeros((3, 3))).tolist() == [0, 0, 0]


@given(ORDERS)
def test_agreement_is_the_share_of_pairs_that_two_orders_say_alike(stood):
    pairs = list(combinations(range(stood.shape[1]), 2))
    same = [
        (one[a] < one[b]) == (other[a] < other[b])
        for one, other in combinations(stood, 2)
        for a, b in pairs
    ]
    assert agreement(stood) == (pytest.approx(np.mean(same)) if same else None)


@pytest.mark.parametrize(("candidates", "method"), [(8, kemeny), (9, borda)])
def test_more_than_eight_candidates_are_put_in_order_by_borda(candidates, method):
    rng = np.random.default_rng(0)
    stood = np.array([rng.permutation(candidates) for _ in range(3)])
    assert aggregate(stood).tolist() == method(stood).tolist()


def test_orders_of_one_candidate_do_not_agree_or_disagree():
    assert agreement(np.zeros((2, 1), dtype=int)) is None
