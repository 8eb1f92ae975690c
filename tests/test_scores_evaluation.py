"""Scoring: which prediction belongs to which item, groups, intervals, differences."""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd
import pytest
from conftest import admire_row

from admire.base.errors import UserError
from admire.data.items import Candidate, Item, read_items
from admire.data.submission import Prediction, read_submission, write_submission
from admire.scores.evaluation import paired_difference, score_items, summarise

BEST = tuple("abcde")
WORST = tuple("edcba")
GAIN = {BEST: 3 + 1 / math.log2(3), WORST: 3 / math.log2(6) + 1 / math.log2(5)}


def item(compound: str, sentence: str = "", sense: str | None = "idiomatic") -> Item:
    return Item(compound, sentence or f"A {compound}.", sentence_type=sense, expected_order=BEST)


def predicted(item: Item, order: tuple[str, ...] = BEST, *, sentence: bool = True) -> Prediction:
    return Prediction(item.compound, item.sentence if sentence else None, order)


def top1(gold: list[Item], predictions: list[Prediction]) -> list[float]:
    return score_items(gold, predictions, "submission")["top1"].tolist()


def refusal(gold: list[Item], predictions: list[Prediction]) -> str:
    with pytest.raises(UserError) as caught:
        score_items(gold, predictions, "mine.tsv")
    assert "mine.tsv" in str(caught.value) or "gold" in str(caught.value)
    return str(caught.value)


OWL, BIRD = item("night owl"), item("early bird", sense="literal")


def test_every_item_gets_its_four_figures_in_the_order_of_the_gold():
    scored = score_items([OWL, BIRD], [predicted(BIRD, WORST), predicted(OWL)], "submission")
    # The reversed order has p1 = 4 and p2 = 3; both correlations are -1 for alphabetical names.
    wanted = pd.DataFrame(
        [
            ("night owl", "A night owl.", "idiomatic", 1.0, GAIN[BEST], 1.0, 1.0),
            ("early bird", "A early bird.", "literal", 0.0, GAIN[WORST], -1.0, -1.0),
        ],
        columns=[
            *("compound", "sentence", "sentence_type"),
            *("top1", "dcg", "corr_official", "corr_rank"),
        ],
    )
    pd.testing.assert_frame_equal(scored, wanted)


def test_expected_and_predicted_are_not_mixed_up():
    # Expected a b c d e, predicted c a b d e: a is at 1, b at 2. The other way round p1 would be 2.
    dcg = score_items([OWL], [predicted(OWL, tuple("cabde"))], "submission")["dcg"][0]
    assert dcg == pytest.approx(3 / math.log2(3) + 1 / 2)


def test_a_repeated_compound_is_told_apart_by_its_sentence():
    gold = [item("night owl", "He is a night owl."), item("night owl", "A night owl hoots.")]
    predictions = [predicted(gold[1], WORST), predicted(gold[0], BEST)]
    assert top1(gold, predictions) == [1.0, 0.0]


def test_rows_with_the_same_compound_and_sentence_are_joined_in_their_order():
    gold = [OWL, BIRD, OWL]
    predictions = [predicted(OWL, WORST), predicted(OWL, BEST), predicted(BIRD)]
    assert top1(gold, predictions) == [0.0, 1.0, 1.0]


def test_a_prediction_is_not_used_twice():
    assert "night owl" in refusal([OWL, OWL], [predicted(OWL)])


def test_without_sentences_unique_compounds_are_joined_on_the_compound():
    predictions = [predicted(BIRD, WORST, sentence=False), predicted(OWL, sentence=False)]
    assert top1([OWL, BIRD], predictions) == [1.0, 0.0]


def test_without_sentences_a_repeated_compound_is_refused():
    gold = [item("night owl", "He is a night owl."), BIRD, item("night owl", "A night owl hoots.")]
    message = refusal(gold, [predicted(i, sentence=False) for i in gold])
    assert "night owl" in message
    assert "sentence" in message
    assert "early bird" not in message


def test_an_item_without_a_prediction_is_named():
    message = refusal([OWL, BIRD], [predicted(OWL)])
    assert "early bird" in message
    assert BIRD.sentence in message


def test_a_prediction_for_another_sentence_does_not_count():
    message = refusal([OWL], [Prediction("night owl", "Another night owl.", BEST)])
    assert OWL.sentence in message


def test_an_empty_submission_is_refused():
    assert "night owl" in refusal([OWL], [])


def test_surplus_rows_are_counted_in_a_warning_and_change_nothing(caplog):
    surplus = [predicted(item("big fish")), predicted(OWL, WORST)]
    assert top1([OWL], [predicted(OWL), *surplus]) == [1.0]
    (warning,) = caplog.messages
    assert "submission" in warning
    assert warning.endswith("do not count: 2.")


def test_no_warning_without_surplus_rows(caplog):
    top1([OWL], [predicted(OWL)])
    assert not caplog.messages


@pytest.mark.parametrize("order", ["abcd", "abcdef", "abcdx", "abcdd", ""])
def test_an_order_that_does_not_name_the_items_candidates_is_refused(order):
    message = refusal([OWL, BIRD], [predicted(OWL), predicted(BIRD, tuple(order))])
    assert "early bird" in message
    assert "a, b, c, d, e" in message


def test_gold_without_an_expected_order_is_refused_with_its_row():
    message = refusal([OWL, replace(BIRD, expected_order=None)], [predicted(OWL), predicted(BIRD)])
    assert "row 2" in message
    assert "early bird" in message
    assert "expected_order" in message


def test_from_file_to_file_a_gold_and_a_submission_meet(write_table, tmp_path):
    sentence = 'The "night owl"\tsaid: I\'m up,\nagain.'
    gold = read_items(write_table(admire_row(sentence=sentence), admire_row("early bird")))
    submission = tmp_path / "submission_en.tsv"
    write_submission(
        submission,
        [Prediction(i.compound, i.sentence, i.expected_order or ()) for i in reversed(gold)],
    )
    assert top1(gold, read_submission(submission)) == [1.0, 1.0]


def test_rows_of_admire_2_are_told_apart_by_sentence_and_then_by_order(write_table, tmp_path):
    rows = [
        admire_row("kıl payı 1", sentence=sentence, expected_order=str(list(order)))
        for sentence, order in [("Bir.", "abcde"), ("Bir.", "edcba"), ("İki.", "bacde")]
    ]
    for row in rows:
        row |= {f"image{k}_name": name for k, name in enumerate("abcde", start=1)}
    gold = read_items(write_table(*rows, name="submission_Turkish.tsv"))
    orders = [BEST, BEST, tuple("bacde")]
    path = tmp_path / "mine.tsv"
    write_submission(path, [predicted(i, o) for i, o in zip(gold, orders, strict=True)])
    assert top1(gold, read_submission(path)) == [1.0, 0.0, 1.0]


# -------------------------------------------------------------------------------- Subtask B


def shown(compound: str, sense: str | None = "idiomatic", best: str | None = "a") -> Item:
    names = tuple(Candidate(name, caption="x") for name in "abcd")
    return Item(compound, "", "en", names, sense, None, (Candidate("sequence1"),), best)


def told(compound: str, best: str = "a", sense: str | None = "idiomatic") -> Prediction:
    return Prediction(compound, None, (), sense, best)


SHOWN = [shown("night owl"), shown("early bird", "literal"), shown("cold feet", "literal", "b")]


def test_subtask_b_has_the_organisers_six_figures():
    predictions = [
        told("cold feet", "b", "idiomatic"),
        told("night owl"),
        told("early bird", "c", "literal"),
    ]
    scored = score_items(SHOWN, predictions, "submission")
    summary = summarise(scored)
    assert {(row.group, row.metric): row.mean for row in summary.itertuples()} == {
        ("all", "item_accuracy"): pytest.approx(2 / 3),
        ("all", "sense_accuracy"): pytest.approx(2 / 3),
        ("idiomatic", "item_accuracy"): 1.0,
        ("idiomatic", "sense_accuracy"): 1.0,
        ("literal", "item_accuracy"): 0.5,
        ("literal", "sense_accuracy"): 0.5,
    }
    better = score_items(SHOWN, [*predictions[:2], told("early bird", sense=None)], "submission")
    difference = paired_difference(scored, better).set_index(["group", "metric"])["mean"]
    assert difference["all", "item_accuracy"] == pytest.approx(1 / 3)
    assert difference["literal", "sense_accuracy"] == -0.5  # a sense that is not told is wrong


def test_a_baseline_that_tells_no_sense_has_no_accuracy_of_it():
    scored = score_items(SHOWN[:1], [told("night owl", sense=None)], "submission")
    assert scored.columns.tolist() == ["compound", "sentence", "sentence_type", "item_accuracy"]


def test_a_compound_that_repeats_in_subtask_b_is_joined_in_the_rows_order():
    gold = [shown("night owl"), shown("night owl", best="b")]
    scored = score_items(gold, [told("night owl"), told("night owl")], "submission")
    assert scored["item_accuracy"].tolist() == [1.0, 0.0]


def test_what_does_not_fit_subtask_b_is_refused():
    assert "'x', is none of" in refusal(SHOWN[:1], [told("night owl", "x")])
    assert "has no expected_item for 'night owl'" in refusal(
        SHOWN[:1], [predicted(OWL, sentence=False)]
    )
    assert "does not name exactly" in refusal([OWL], [replace(told("night owl"))])
    blind = shown("night owl", best=None)
    assert "has no expected_item to score" in refusal([blind], [told("night owl")])


# -------------------------------------------------------------------------------- summaries


def scored_as(*senses_and_orders: tuple[str | None, tuple[str, ...]]) -> pd.DataFrame:
    gold = [item(f"compound {k}", sense=sense) for k, (sense, _) in enumerate(senses_and_orders)]
    orders = [order for _, order in senses_and_orders]
    predictions = [predicted(i, order) for i, order in zip(gold, orders, strict=True)]
    return score_items(gold, predictions, "submission")


MIXED = scored_as(
    ("idiomatic", BEST), ("idiomatic", WORST), ("idiomatic", WORST), ("literal", BEST), (None, BEST)
)


def test_summary_has_a_row_for_each_group_and_figure():
    summary = summarise(MIXED)
    assert list(summary.columns) == ["group", "n", "metric", "mean", "low", "high"]
    assert [
        (group, metric) for group, metric in zip(summary.group, summary.metric, strict=True)
    ] == [
        (group, metric)
        for group in ("all", "idiomatic", "literal")
        for metric in ("top1", "dcg", "corr_official", "corr_rank")
    ]


def test_means_and_n_are_those_of_the_group():
    summary = summarise(MIXED).set_index(["group", "metric"])
    # all: best in 3 of 5, item 5 of unknown sense included; idiomatic 1 of 3; literal 1 of 1.
    for group, n, hits in [("all", 5, 3), ("idiomatic", 3, 1), ("literal", 1, 1)]:
        assert summary.loc[(group, "top1"), "n"] == n
        assert summary.loc[(group, "top1"), "mean"] == pytest.approx(hits / n)
        dcg = (hits * GAIN[BEST] + (n - hits) * GAIN[WORST]) / n
        assert summary.loc[(group, "dcg"), "mean"] == pytest.approx(dcg)


@pytest.mark.parametrize(
    ("sense", "groups"),
    [("idiomatic", ["all", "idiomatic"]), ("literal", ["all", "literal"]), (None, ["all"])],
)
def test_groups_without_items_are_left_out(sense, groups):
    summary = summarise(scored_as((sense, BEST), (sense, WORST)))
    assert summary.group.unique().tolist() == groups


def test_only_the_columns_asked_for_are_summarised():
    summary = summarise(MIXED.assign(accuracy=[1.0, 0.0, 0.0, 0.0, 0.0]), columns=["accuracy"])
    assert summary.metric.tolist() == ["accuracy"] * 3
    assert summary["mean"].tolist() == pytest.approx([1 / 5, 1 / 3, 0])


def test_intervals_hold_the_mean_and_have_width_where_items_differ():
    summary = summarise(MIXED)
    assert ((summary.low <= summary["mean"]) & (summary["mean"] <= summary.high)).all()
    assert (
        summary[summary.group == "idiomatic"].low < summary[summary.group == "idiomatic"].high
    ).all()


def test_intervals_shrink_with_more_items():
    def width(n: int) -> float:
        summary = summarise(scored_as(*[("idiomatic", BEST), ("idiomatic", WORST)] * (n // 2)))
        top1 = summary[(summary.group == "all") & (summary.metric == "top1")].iloc[0]
        return top1.high - top1.low

    # The error of a mean of half zeros, half ones is 0.5 / sqrt(n); 1.96 errors each way.
    assert width(16) == pytest.approx(2 * 1.96 * 0.5 / 4, abs=0.07)
    assert width(64) == pytest.approx(2 * 1.96 * 0.5 / 8, abs=0.04)


def test_the_seed_reaches_the_bootstrap():
    values = pd.DataFrame({"sentence_type": "idiomatic", "x": [0.1, 2.0, 3.3, 0.7, 5.0, 1.2]})
    one, same, other = (summarise(values, columns=["x"], seed=seed) for seed in (1, 1, 2))
    pd.testing.assert_frame_equal(one, same)
    assert (one.low != other.low).any()


# -------------------------------------------------------------------------------- differences


def test_a_submission_does_not_differ_from_itself():
    difference = paired_difference(MIXED, MIXED)
    assert (difference[["mean", "low", "high"]] == 0).all(axis=None)
    assert difference.group.unique().tolist() == ["all", "idiomatic", "literal"]


def test_the_difference_is_second_minus_first():
    worse = scored_as(("idiomatic", WORST), ("literal", BEST))
    better = scored_as(("idiomatic", BEST), ("literal", BEST))
    difference = paired_difference(worse, better).set_index(["group", "metric"])
    assert difference.loc[("idiomatic", "top1"), "mean"] == 1
    assert difference.loc[("all", "top1"), "mean"] == 0.5
    assert difference.loc[("literal", "top1"), "mean"] == 0
    assert paired_difference(better, worse).set_index(["group", "metric"]).loc[
        ("all", "dcg"), "mean"
    ] == pytest.approx((GAIN[WORST] - GAIN[BEST]) / 2)


def test_differences_are_paired_by_item():
    """Items differ widely, but every item gains the same: the paired interval has no width."""
    first = scored_as(("idiomatic", BEST), ("idiomatic", WORST), ("idiomatic", BEST))
    second = first.assign(dcg=first["dcg"] + 0.25)
    row = paired_difference(first, second).set_index(["group", "metric"]).loc[("all", "dcg")]
    assert (row["mean"], row["low"], row["high"]) == pytest.approx((0.25, 0.25, 0.25))
