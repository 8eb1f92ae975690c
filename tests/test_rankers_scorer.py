from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from admire import Scoring
from admire.rankers.scorer import (
    contributions,
    fuse_scores,
    query_weights,
    rank_names,
    score,
)
from admire.senses.meaning import TEXTS
from admire.senses.sense import NO_SENSE, Sense

ALL = Scoring.paper(contrast=0.5, texts=TEXTS)
SOFT = Scoring.paper(gate="soft", contrast=0.5, texts=TEXTS)


@pytest.mark.parametrize(
    ("scoring", "p", "roles", "expected"),
    [
        # All there, idiomatic: a third for each of three wordings, and half of a quarter against
        # each of the literal side's four.
        (ALL, 0.9, TEXTS, [1 / 3, 1 / 3, 1 / 3, -1 / 8, -1 / 8, -1 / 8, -1 / 8]),
        # Literal: the compound alone.
        (ALL, 0.1, TEXTS, [0, 0, 0, 0, 0, 0, 1]),
        # p = 0.6: 0.6 · I − 0.3 · L + 0.4 · C
        (SOFT, 0.6, TEXTS, [0.2, 0.2, 0.2, -0.075, -0.075, -0.075, 0.325]),
        # What is not there leaves its share to the others of its side.
        (SOFT, 0.6, ("gloss", "literal_scene", "compound"), [0.6, -0.15, 0.25]),
        # The literal meaning is missing: the last default, 0.6 · G + (1 − 0.6 − 0.3) · C.
        (SOFT, 0.6, ("gloss", "compound"), [0.6, 0.1]),
        # The idiomatic one is missing: the compound, and nothing against it.
        (SOFT, 0.6, ("literal", "literal_scene", "compound"), [0, 0, 1]),
        # Only some queries count; the compound stays what a literal use is compared with.
        (
            Scoring.paper(gate="soft", contrast=1, texts=("scene", "literal")),
            0.6,
            ("gloss", "scene", "literal", "compound"),
            [0, 0.6, -0.6, 0.4],
        ),
    ],
)
def test_the_meant_sense_counts_for_a_candidate_and_the_literal_one_against(
    scoring, p, roles, expected
):
    sense = Sense("idiomatic" if p > 0.5 else "literal", p)
    weights = query_weights(scoring, sense, roles)
    assert [weights.get(role, 0.0) for role in roles] == pytest.approx(expected)


def test_the_texts_of_a_word_count_alike_and_a_sequence_counts_as_much_as_the_meaning():
    assert query_weights(ALL, NO_SENSE, ("gloss", "scene")) == {"gloss": 0.5, "scene": 0.5}
    weights = query_weights(ALL, Sense("idiomatic", 1.0), ("gloss", "compound", "sequence"))
    assert (weights["gloss"], weights["sequence"]) == (1, 1)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ({}, [0.6, 0.7]),  # the paper's sum of cosines
        ({"image_weight": 2, "caption_weight": 10}, [5.2, 3.8]),
        ({"image_weight": 0}, [0.5, 0.3]),
    ],
)
def test_a_plain_score_is_the_weighted_sum_of_both_cosines(weights, expected):
    cosines = {"image": np.array([[0.1, 0.4]]), "caption": np.array([[0.5, 0.3]])}
    assert score(cosines, [1.0], Scoring.paper(**weights)) == pytest.approx(expected)


def test_standardised_tracks_are_weighted():
    # image (0.8, 0, 0.4) becomes (√1.5, -√1.5, 0), caption (0, 0.6, 0.6) becomes (-√2, √½, √½)
    cosines = {"image": np.array([[0.8, 0, 0.4]]), "caption": np.array([[0, 0.6, 0.6]])}
    scoring = Scoring.paper(image_weight=2, caption_weight=0.5, standardise="item")
    expected = [2 * sqrt(1.5) - sqrt(2) / 2, -2 * sqrt(1.5) + sqrt(0.5) / 2, sqrt(0.5) / 2]
    assert score(cosines, [1.0], scoring) == pytest.approx(expected)


def test_standardised_tracks_may_lie_on_different_scales():
    """A CLIP's cosines lie about 0.2 and an E5's about 0.8; that must not matter."""
    rng = np.random.default_rng(0)
    image, caption = rng.normal(size=(2, 2, 5))
    image[:, 3] = np.nan
    scoring = Scoring.paper(image_weight=2, caption_weight=0.5, standardise="item")
    one = score({"image": image, "caption": caption}, [1.0, -0.5], scoring)
    clip, e5 = 0.2 + 0.03 * image, 0.8 + 0.01 * caption
    assert score({"image": clip, "caption": e5}, [1.0, -0.5], scoring) == pytest.approx(one)


@pytest.mark.parametrize("standardise", ["no", "item", "noise"])
def test_a_track_that_no_candidate_has_does_not_count(standardise):
    nothing, caption = np.full((1, 3), np.nan), np.array([[0.3, 0.2, 0.1]])
    scoring = Scoring.paper(standardise=standardise)
    both = score({"image": nothing, "caption": caption}, [1.0], scoring)
    assert both == pytest.approx(score({"caption": caption}, [1.0], scoring))


def test_equal_cosines_standardise_to_zero_and_not_to_a_division_by_it():
    cosines = {"caption": np.array([[0.3, 0.3, 0.3]])}
    assert score(cosines, [1.0], Scoring.paper(standardise="item")) == pytest.approx([0, 0, 0])


COSINES = {"caption": np.array([[0.2, 0.6], [0.5, 0.6]])}
"""The gloss sees the two candidates 0.4 apart and the compound 0.1: deviations of 0.2 and 0.05."""


@pytest.mark.parametrize(
    ("noise", "c"),
    # A quarter of the encoder's noise; without it, of the mean deviation of the item's queries.
    [({"caption": 0.6, "image": 9.0}, 0.15), ({}, 0.125 / 4), ({"image": 9.0}, 0.125 / 4)],
)
def test_cosines_are_divided_by_their_own_deviation_and_the_encoders_noise(noise, c):
    s = [sqrt(0.2**2 + c**2), sqrt(0.05**2 + c**2)]
    [added] = contributions(COSINES, [1.0, -1.0], Scoring(), noise).values()
    assert added == pytest.approx(
        np.array([[-0.2 / s[0], 0.2 / s[0]], [0.05 / s[1], -0.05 / s[1]]])
    )
    assert score(COSINES, [1.0, -1.0], Scoring(), noise) == pytest.approx(added.sum(axis=0))


def test_leads_are_in_units_of_the_noise_alone_whatever_the_scores_are():
    for scoring in (Scoring(), Scoring.paper(), Scoring(standardise="item")):
        found = score(COSINES, [1.0, -1.0], scoring, {"caption": 0.1}, unit="noise alone")
        assert found == pytest.approx([-2 + 0.5, 2 - 0.5])


def test_of_two_encoders_that_disagree_about_two_candidates_the_surer_one_counts_more():
    noise = {"caption": 0.04}
    surer, other = ({"caption": np.array([row])} for row in ([0.5, 0.3], [0.30, 0.31]))
    first, second = (score(cosines, [1.0], Scoring(), noise) for cosines in (surer, other))
    assert first[0] + second[0] > first[1] + second[1]
    item = Scoring(standardise="item")  # a tie
    first, second = (score(cosines, [1.0], item, noise) for cosines in (surer, other))
    assert first + second == pytest.approx([0, 0])


@pytest.mark.parametrize("standardise", ["no", "item", "noise"])
def test_a_candidate_without_an_image_is_neither_favoured_nor_punished(standardise):
    cosines = {"image": np.array([[0.1, np.nan, 0.5]]), "caption": np.array([[0.3, 0.3, 0.3]])}
    low, missing, high = score(cosines, [1.0], Scoring.paper(standardise=standardise))
    assert low < missing < high
    assert missing == pytest.approx((low + high) / 2)


def test_equal_scores_go_by_name_whatever_the_order_they_came_in():
    scores = np.array([0.5, 0.1 + 0.2, 0.3])  # 0.1 + 0.2 is a little more than 0.3
    assert rank_names(["c", "b", "a"], scores) == ("c", "a", "b")


@given(st.dictionaries(st.text(min_size=1), st.floats(-10, 10), min_size=2))
def test_an_order_is_a_permutation_with_falling_scores(scored):
    order = rank_names(list(scored), np.array(list(scored.values())))
    assert sorted(order) == sorted(scored)
    values = [round(scored[name], 9) for name in order]
    assert values == sorted(values, reverse=True)


A, B = np.array([0.9, 0.5, 0.1]), np.array([2.0, 4.0, 3.0])


@pytest.mark.parametrize(
    ("method", "weights", "expected"),
    [
        # A stands at 1, 2, 3 and B at 3, 1, 2; with weights 3 and 1.
        ("borda", [1, 1], [(2 + 0) / 2, (1 + 2) / 2, (0 + 1) / 2]),
        ("borda", [3, 1], [6 / 4, 5 / 4, 1 / 4]),
        ("rrf", [1, 1], [(1 / 61 + 1 / 63) / 2, (1 / 62 + 1 / 61) / 2, (1 / 63 + 1 / 62) / 2]),
        ("rrf", [3, 1], [(3 / 61 + 1 / 63) / 4, (3 / 62 + 1 / 61) / 4, (3 / 63 + 1 / 62) / 4]),
        # A's deviation is 0.4 √(2/3), B's √(2/3).
        ("scores", [1, 1], [0, sqrt(1.5) / 2, -sqrt(1.5) / 2]),
        ("scores", [3, 1], [sqrt(1.5) / 2, sqrt(1.5) / 4, -3 * sqrt(1.5) / 4]),
    ],
)
def test_fused_scores_are_those_worked_out_by_hand(method, weights, expected):
    assert fuse_scores([A, B], weights, method) == pytest.approx(expected, abs=1e-12)
