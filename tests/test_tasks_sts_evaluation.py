import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr
from sentences import pair
from toys import Reader, Replies, WordEncoder

from admire.core.errors import UserError
from admire.llm import Session
from admire.prompts import Prompts
from admire.tasks.sts.evaluation import (
    compare,
    correlate,
    rate,
    read_rating,
    resampled_spearman,
    spearman,
    write_similarities,
)
from admire.tasks.sts.pairs import Pair, read_pairs

ROUNDED = st.floats(-1, 1).map(lambda x: round(x, 1))
VALUES = st.lists(st.tuples(st.integers(-3, 3), ROUNDED), min_size=2)


@given(VALUES)
@pytest.mark.filterwarnings("ignore:An input array is constant")
def test_the_correlation_is_scipys_ties_included(values):
    expected = spearmanr(*zip(*values, strict=True)).statistic
    correlation = spearman(*zip(*values, strict=True))
    assert correlation == pytest.approx(expected, abs=1e-12, nan_ok=True)


@given(VALUES, st.integers(0, 99))
def test_the_correlation_of_a_sample_is_that_of_its_pairs(values, seed):
    first, second = (np.array(side) for side in zip(*values, strict=True))
    drawn = np.random.default_rng(seed).integers(0, len(values), size=(4, len(values)))
    found = resampled_spearman(first, second)(drawn)
    expected = [spearman(first[sample], second[sample]) for sample in drawn]
    assert found == pytest.approx(expected, abs=1e-9, nan_ok=True)


def test_few_or_equal_pairs_have_no_interval():
    table = correlate(WORKED, PREDICTED, seed=0)
    pd.testing.assert_frame_equal(table[table.columns[:4]], correlate(WORKED, PREDICTED))
    ends = table[["spearman_low", "spearman_high"]]
    assert ends.notna().all(axis=1).tolist() == [n >= 3 for n in table["n"]]
    equal = correlate(WORKED, dict.fromkeys(PREDICTED, 0.5), seed=0)
    assert equal[["spearman", "spearman_low", "spearman_high"]].isna().all(axis=None)


PREDICTED = {("a1", "a2"): 0.9, ("b1", "b2"): 0.3, ("b3", "b2"): 0.6, ("c1", "c2"): 0.5}
PREDICTED |= {("d1", "d2"): 0.4, ("e1", "e2"): 0.7, ("f1", "f2"): 0.2, ("g1", "g2"): 0.8}
WORKED = [
    Pair("1", "en", "a1", "a2", 1.0, None, "x"),
    Pair("2", "en", "b1", "b2", None, ("b3", "b2"), "x"),
    Pair("3", "en", "b3", "b2", None, None, "x"),
    Pair("4", "en", "c1", "c2", 1.0, None, "y"),
    Pair("5", "en", "d1", "d2", 0.2),
    Pair("6", "en", "e1", "e2", 0.8),
    Pair("7", "pt", "f1", "f2", 1.0, None, "z"),
    Pair("8", "pt", "g1", "g2", 0.5, None, "z"),
]
BY_HAND = [
    ("en", "all", 5, 7 / math.sqrt(10 * 9.5)),
    ("en", "idiom", 3, 1.5 / math.sqrt(2 * 1.5)),
    ("en", "sts", 2, 1.0),
    ("pt", "all", 2, -1.0),
    ("pt", "idiom", 2, -1.0),
    ("all", "all", 7, 1 / math.sqrt(28 * 26)),
    ("all", "idiom", 5, -1 / math.sqrt(10 * 8)),
    ("all", "sts", 2, 1.0),
]


def test_figures_are_those_worked_out_by_hand():
    expected = pd.DataFrame(BY_HAND, columns=["language", "subset", "n", "spearman"])
    pd.testing.assert_frame_equal(correlate(WORKED, PREDICTED), expected)


def test_pairs_that_were_not_rated_or_have_no_gold_are_left_out():
    rated = {asked: value for asked, value in PREDICTED.items() if asked != ("b3", "b2")}
    assert correlate(WORKED, rated)["n"][0] == 4, "the gold of the second pair is not known"
    del rated["a1", "a2"]
    assert correlate(WORKED, rated)["n"][:3].tolist() == [3, 1, 2]
    assert correlate(WORKED, {}).empty
    assert correlate([WORKED[2]], PREDICTED).empty


def test_similarities_are_cosines_of_pairs_and_of_their_references_each_encoded_once():
    encoder = Reader("vectors", {"A": (1, 0), "B": (0, 1), "C": (0.6, 0.8), "D": (-1, 0)})
    pairs = [pair("a", "b"), pair("a", "c", reference=("d", "c")), pair("b", "c"), pair("a", "b")]
    found = compare(pairs, encoder, str.upper)
    wanted = {("a", "b"): 0, ("a", "c"): 0.6, ("b", "c"): 0.8, ("d", "c"): -0.6}
    assert found == pytest.approx(wanted)
    assert sorted(encoder.read) == [("query", text) for text in "ABCD"]


def test_a_submission_has_a_row_for_each_pair_in_their_order(tmp_path):
    path = tmp_path / "deep" / "submission.csv"
    pairs = [WORKED[7], WORKED[0], WORKED[6]]
    write_similarities(path, pairs, PREDICTED | {("g1", "g2"): -0.12345678}, "pre_train")
    written = path.read_bytes()
    assert written.decode().split("\n") == [
        "ID,Language,Setting,Sim",
        "8,PT,pre_train,-0.123457",
        "1,EN,pre_train,0.900000",
        "7,PT,pre_train,0.200000",
        "",
    ]
    rated = {asked: value for asked, value in PREDICTED.items() if asked[0] not in ("c1", "e1")}
    with pytest.raises(UserError, match=r"submission\.csv: .* 2 pairs.*such as 4"):
        write_similarities(path, WORKED, rated, "fine_tune")
    assert path.read_bytes() == written


@pytest.mark.parametrize(
    ("reply", "rating"),
    [
        ("0.75", 0.75),
        ("0,8", 0.8),
        ("Similarity: 1", 1.0),
        ("85%", None),
        ("between 0.2 and 0.4", None),
        ("8/10", None),
        ("-0.1", None),
        ("1.5", None),
        ("", None),
    ],
)
def test_a_reply_is_a_rating_if_it_has_one_number_from_0_to_1(reply, rating):
    assert read_rating(reply) == rating


OWL, RATED = [pair("An owl.", "A bird.")], {("An owl.", "A bird."): 0.4}


def test_a_reply_without_a_rating_is_asked_for_again_with_another_seed_and_temperature():
    llm = Replies("Hm.", "7", "0.4")
    assert rate(OWL, llm, Prompts(), seed=5) == RATED
    assert llm.sampled == [(0.0, 5), (1.0, 6), (1.0, 7)]
    (prompt,) = {question.text for question in llm.questions}
    assert '"An owl."' in prompt[prompt.rindex("Sentence 1") :]
    assert prompt.index('"An owl."') < prompt.index('"A bird."')


def test_a_pair_without_a_readable_rating_is_asked_for_again_by_the_next_run():
    llm = Replies(*["Hm."] * 3, *["0.4"] * 2)
    llm.identity = "replies, version 1"
    for expected in ({}, RATED, RATED):
        assert rate(OWL, Session().bind(llm), Prompts()) == expected
    assert llm.sampled == [(0.0, 0), (1.0, 1), (1.0, 2), (0.0, 0)]


def test_the_real_dev_file_is_scored_on_the_pairs_that_the_organisers_score(shared):
    task = shared / "semeval2022_task2" / "subtask_b"
    pairs = read_pairs(task / "dev.csv", task / "dev.gold.csv")
    scored = correlate(pairs, compare(pairs, WordEncoder()))
    counts = scored.pivot(index="subset", columns="language", values="n")
    assert counts["en"].to_dict() == {"all": 921, "idiom": 521, "sts": 400}
    assert counts["pt"].to_dict() == {"all": 854, "idiom": 454, "sts": 400}
    assert counts["all"].to_dict() == {"all": 1775, "idiom": 975, "sts": 800}
    assert scored["spearman"].between(-1, 1).all()
    by_subset = scored.set_index(["language", "subset"])["spearman"]
    assert by_subset["en", "sts"] > 0.4, "words in common tell something of plain pairs"
    assert sum(pair.reference is not None for pair in pairs) == 217 + 189
