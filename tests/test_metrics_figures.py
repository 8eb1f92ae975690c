"""Scoring: which prediction belongs to which item, groups, intervals, differences, sure senses."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from admire.core.errors import UserError
from admire.data.items import Candidate, Item
from admire.data.submission import Prediction
from admire.metrics.agreement import order_agreement
from admire.metrics.figures import (
    MACRO,
    at_coverages,
    describe_ties,
    paired_difference,
    risk_curve,
    sense_summary,
    summarise,
    summarise_languages,
    summarise_sure,
    tied_figures,
    with_ndcg,
)
from admire.metrics.item_figures import score_items
from admire.metrics.metrics import calibration_error, wilson_interval

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
    with pytest.raises(UserError, match=r"^mine\.tsv: ") as caught:
        score_items(gold, predictions, "mine.tsv")
    return str(caught.value)


OWL, BIRD = item("night owl"), item("early bird", sense="literal")


def test_figures_say_which_part_of_them_rests_on_ties_at_the_top():
    untied, tied = predicted(BIRD, WORST), replace(predicted(OWL), tied_first=True)
    scored = score_items([OWL, BIRD], [untied, tied], "run")
    table = tied_figures(scored).set_index("metric")
    assert table.loc["top1"].tolist() == [1, 2, 0.5, 0.5]
    assert table.loc["dcg", ["part", "mean"]].tolist() == [
        GAIN[BEST] / 2,
        pytest.approx((GAIN[BEST] + GAIN[WORST]) / 2),
    ]
    assert describe_ties(scored).startswith(
        "1 of 2 items have a tie at the top, decided by the names of files. On these rest "
        "0.500 of top1 0.500, 1.815 of dcg "
    )
    assert not describe_ties(score_items([OWL, BIRD], [untied, predicted(OWL)], "run"))


def test_every_item_gets_its_four_figures_in_the_order_of_the_gold():
    scored = score_items([OWL, BIRD], [predicted(BIRD, WORST), predicted(OWL)], "submission")
    # The reversed order has p1 = 4 and p2 = 3; both correlations are -1 for alphabetical names.
    assert scored.columns[3:].tolist() == ["top1", "dcg", "corr_official", "corr_rank"]
    assert scored.to_numpy().tolist() == [
        ["night owl", "A night owl.", "idiomatic", 1.0, GAIN[BEST], 1.0, 1.0],
        ["early bird", "A early bird.", "literal", 0.0, GAIN[WORST], -1.0, -1.0],
    ]


def test_predictions_are_joined_by_compound_and_sentence_or_by_the_compound_alone():
    gold = [OWL, BIRD, OWL]  # equal rows are joined in their order
    predictions = [predicted(OWL, WORST), predicted(OWL, BEST), predicted(BIRD)]
    assert top1(gold, predictions) == [0.0, 1.0, 1.0]
    predictions = [predicted(BIRD, WORST, sentence=False), predicted(OWL, sentence=False)]
    assert top1([OWL, BIRD], predictions) == [1.0, 0.0]


def test_of_a_run_a_row_that_two_languages_have_is_joined_within_each():
    gold = [replace(OWL, language="pt-br"), replace(OWL, language="pt-pt")]
    predictions = [
        replace(predicted(OWL, order), language=language)
        for order, language in ((WORST, "pt-pt"), (BEST, "pt-br"))
    ]
    assert top1(gold, predictions) == [1.0, 0.0]


SEVERAL = [item("night owl", "He is a night owl."), BIRD, item("night owl", "A night owl hoots.")]


@pytest.mark.parametrize(
    ("gold", "predictions", "words"),
    [
        (SEVERAL, [predicted(i, sentence=False) for i in SEVERAL], ("'night owl'", "'sentence'")),
        ([OWL, BIRD], [predicted(OWL)], ("'early bird'", BIRD.sentence)),
        ([OWL, OWL], [predicted(OWL)], ("'night owl'",)),  # a prediction counts once
        ([OWL], [Prediction("night owl", "Another night owl.", BEST)], (OWL.sentence,)),
        ([OWL], [predicted(OWL, tuple("abcdd"))], ("'night owl'", "a, b, c, d, e")),
        ([replace(OWL, expected_order=None)], [predicted(OWL)], ("none", "expected_order")),
    ],
)
def test_what_does_not_fit_is_refused_with_its_row(gold, predictions, words):
    message = refusal(gold, predictions)
    assert all(word in message for word in words)


def shown(compound: str, sense: str | None = "idiomatic", best: str | None = "a") -> Item:
    names = tuple(Candidate(name, caption="x") for name in "abcd")
    return Item(compound, "", "en", names, sense, None, (Candidate("sequence1"),), best)


def told(compound: str, best: str = "a", sense: str | None = "idiomatic") -> Prediction:
    return Prediction(compound, None, (), sense, best)


SHOWN = [shown("night owl"), shown("early bird", "literal"), shown("cold feet", "literal", "b")]


def test_subtask_b_has_the_organisers_six_figures():
    predictions = [told("cold feet", "b"), told("night owl"), told("early bird", "c", "literal")]
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


def test_a_runs_predictions_have_their_senses_and_the_first_of_subtask_b_counts():
    prediction = replace(told("early bird", "c"), order=tuple("abcd"), probability_idiomatic=0.8)
    (row,) = score_items(SHOWN[1:2], [prediction], "run").to_dict("records")
    assert (row["predicted_type"], row["probability_idiomatic"]) == ("idiomatic", 0.8)
    assert row["item_accuracy"] == 0  # of c, though a comes first in the order
    table = order_agreement([predicted(OWL)] * 3, [predicted(OWL)] * 2 + [predicted(OWL, WORST)])
    assert table.set_index("metric")["mean"].to_dict() == pytest.approx(
        {"same_first": 2 / 3, "kendall_tau": 1 / 3}
    )


def test_a_baseline_that_tells_no_sense_has_no_accuracy_of_it():
    scored = score_items(SHOWN[:1], [told("night owl", sense=None)], "submission")
    assert scored.columns.tolist() == ["compound", "sentence", "sentence_type", "item_accuracy"]


def test_what_does_not_fit_subtask_b_is_refused():
    assert "'x'" in refusal(SHOWN[:1], [told("night owl", "x")])
    assert "expected_item" in refusal([shown("night owl", best=None)], [told("night owl")])


def test_items_without_gold_are_left_out_and_counted(caplog):
    gold = [SHOWN[0], shown("early riser", best=None), *SHOWN[1:]]
    predictions = [told(item.compound) for item in gold]
    scored = score_items(gold, predictions, "mine.tsv")
    assert scored["compound"].tolist() == [item.compound for item in SHOWN]
    assert [message.startswith("mine.tsv: ") for message in caplog.messages] == [True]
    assert "3 of 4" in caplog.text


def scored_as(*senses_and_orders: tuple[str | None, tuple[str, ...]]) -> pd.DataFrame:
    gold = [item(f"compound {k}", sense=sense) for k, (sense, _) in enumerate(senses_and_orders)]
    orders = [order for _, order in senses_and_orders]
    predictions = [predicted(i, order) for i, order in zip(gold, orders, strict=True)]
    return score_items(gold, predictions, "submission")


MIXED = scored_as(
    ("idiomatic", BEST), ("idiomatic", WORST), ("idiomatic", WORST), ("literal", BEST), (None, BEST)
)


def test_means_and_n_are_those_of_the_group():
    summary = summarise(MIXED).set_index(["group", "metric"])
    # all: best in 3 of 5, item 5 of unknown sense included; idiomatic 1 of 3; literal 1 of 1.
    for group, n, hits in [("all", 5, 3), ("idiomatic", 3, 1), ("literal", 1, 1)]:
        assert summary.loc[(group, "top1"), "n"] == n
        assert summary.loc[(group, "top1"), "mean"] == pytest.approx(hits / n)
        dcg = (hits * GAIN[BEST] + (n - hits) * GAIN[WORST]) / n
        assert summary.loc[(group, "dcg"), "mean"] == pytest.approx(dcg)


def test_languages_come_by_top_1_and_count_alike_in_their_mean():
    table = with_ndcg(summarise_languages(MIXED, ["kk", "kk", "kk", "tr", "tr"]))
    assert table["group"].drop_duplicates().tolist() == ["tr", "kk", MACRO]
    means = table.set_index(["group", "metric"])["mean"]
    assert means[MACRO, "top1"] == pytest.approx((1 + 1 / 3) / 2)
    assert means["tr", "ndcg5"] == pytest.approx(1)
    assert means["kk", "ndcg5"] == pytest.approx((1 + 2 * GAIN[WORST] / GAIN[BEST]) / 3)


def test_differences_are_paired_by_item():
    """Items differ widely, but gain nearly the same: the paired interval is narrow."""
    first = scored_as(("idiomatic", BEST), ("idiomatic", WORST), ("idiomatic", BEST))
    second = first.assign(dcg=first["dcg"] + [0.25, 0.25, 0.28])
    rows = paired_difference(first, second).set_index(["group", "metric"])
    row = rows.loc[("all", "dcg")]
    assert (row["mean"], row["low"], row["high"]) == pytest.approx((0.26, 0.25, 0.28))
    assert math.isnan(rows.loc[("all", "top1"), "low"])  # no difference, and no share


EIGHT_TENTHS = tuple(GAIN[WORST] + p * (GAIN[BEST] - GAIN[WORST]) for p in (0.2, 0.8))


@pytest.mark.parametrize(
    ("orders", "top1", "dcg"),
    [
        ((BEST, WORST), None, None),
        ((BEST,) * 8, wilson_interval(1, 8), None),
        ((BEST, BEST, WORST), wilson_interval(2 / 3, 3), (GAIN[WORST], GAIN[BEST])),
        ((BEST,) * 5 + (WORST,) * 5, (0.2, 0.8), EIGHT_TENTHS),
        ((BEST,) * 20, wilson_interval(1, 20), None),
        ((BEST,) * 10 + (WORST,) * 10, (0.3, 0.7), (2.2, 3.1)),
    ],
)
def test_an_interval_says_no_more_than_its_items_can(orders, top1, dcg):
    rows = summarise(scored_as(*(("idiomatic", order) for order in orders))).set_index("metric")
    for metric, expected in (("top1", top1), ("dcg", dcg)):
        ends = rows.iloc[:4].loc[metric, ["low", "high"]].tolist()
        if expected is None:
            assert all(map(math.isnan, ends)), metric
        else:
            assert ends == pytest.approx(expected, abs=0.1 if len(orders) == 20 else 1e-9)


IDIOMATIC, LITERAL = "idiomatic", "literal"


def told_senses(
    *rows: tuple[str | None, str | None, float, float], what: str = "top1"
) -> pd.DataFrame:
    """Items by their true sense, the predicted one, its probability, and whether the first is
    right."""
    p = "probability_idiomatic"
    table = pd.DataFrame(rows, columns=["sentence_type", "predicted_type", p, what])
    return table.assign(unsure=np.maximum(table[p], 1 - table[p]) < 0.7)


SENSES = told_senses(
    (IDIOMATIC, IDIOMATIC, 0.9, 1.0),
    (LITERAL, LITERAL, 0.2, 0.0),  # as sure as the next
    (LITERAL, IDIOMATIC, 0.8, 0.0),
    (IDIOMATIC, None, math.nan, 1.0),  # no vote could be read
    (LITERAL, LITERAL, 0.4, 1.0),
)


def test_a_curve_has_a_step_for_each_confidence_and_unread_items_come_last():
    curve = risk_curve(SENSES)
    assert curve["confidence"].tolist() == [0.9, 0.8, 0.6, 0.5]
    assert curve["items"].tolist() == [1, 3, 4, 5]
    assert curve["coverage"].tolist() == pytest.approx([0.2, 0.6, 0.8, 1.0])
    assert curve["sense_risk"].tolist() == pytest.approx([0, 1 / 3, 1 / 4, 2 / 5])
    assert curve["top1_risk"].tolist() == pytest.approx([0, 2 / 3, 2 / 4, 2 / 5])
    assert at_coverages(curve)["items"].tolist() == [5, 5, 4, 4, 3, 3]


def test_the_figures_of_the_sense_are_worked_out_by_hand():
    summary = sense_summary(SENSES).set_index("metric")
    assert summary["group"].unique().tolist() == ["all"]
    means = summary["mean"].to_dict()
    assert means == {
        "sense_accuracy": pytest.approx(3 / 5),
        "sense_aurc": pytest.approx((0 + 2 / 3 + 1 / 4 + 2 / 5) / 5),
        "top1_aurc": pytest.approx((0 + 4 / 3 + 2 / 4 + 2 / 5) / 5),
        "calibration_error": calibration_error([0.9, 0.2, 0.8, 0.4], [1, 0, 0, 0]),
        "brier": pytest.approx((0.01 + 0.04 + 0.64 + 0.16) / 4),
    }
    assert summary["n"].to_dict() == dict.fromkeys(means, 5) | {"calibration_error": 4, "brier": 4}
    assert ((summary["low"] <= summary["mean"]) & (summary["mean"] <= summary["high"])).all()


def test_items_whose_sense_is_not_known_do_not_count():
    more = pd.concat([SENSES, told_senses((None, IDIOMATIC, 1.0, 0.0))], ignore_index=True)
    pd.testing.assert_frame_equal(risk_curve(more), risk_curve(SENSES))
    pd.testing.assert_frame_equal(sense_summary(more), sense_summary(SENSES))


def test_figures_without_unsure_items_are_those_of_the_others():
    summary = summarise_sure(SENSES).set_index(["group", "metric"])
    assert summary.loc[("all", "top1"), ["n", "mean"]].tolist() == [4, 0.5]
