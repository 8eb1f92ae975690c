"""How far the probability of the sense can be trusted: golden values, and what is left out."""

import math

import numpy as np
import pandas as pd
import pytest

from admire.metrics.figures import at_coverages, risk_curve, sense_summary, summarise_sure
from admire.metrics.metrics import calibration_error

IDIOMATIC, LITERAL = "idiomatic", "literal"


def scored(*rows: tuple[str | None, str | None, float, float], what: str = "top1") -> pd.DataFrame:
    """Items by their true sense, the predicted one, its probability, and whether the first is
    right."""
    p = "probability_idiomatic"
    table = pd.DataFrame(rows, columns=["sentence_type", "predicted_type", p, what])
    return table.assign(unsure=np.maximum(table[p], 1 - table[p]) < 0.7)


ITEMS = scored(
    (IDIOMATIC, IDIOMATIC, 0.9, 1.0),
    (LITERAL, LITERAL, 0.2, 0.0),  # as sure as the next
    (LITERAL, IDIOMATIC, 0.8, 0.0),
    (IDIOMATIC, None, math.nan, 1.0),  # no vote could be read
    (LITERAL, LITERAL, 0.4, 1.0),
)


def test_a_curve_has_a_step_for_each_confidence_and_unread_items_come_last():
    curve = risk_curve(ITEMS)
    assert curve["confidence"].tolist() == [0.9, 0.8, 0.6, 0.5]
    assert curve["items"].tolist() == [1, 3, 4, 5]
    assert curve["coverage"].tolist() == pytest.approx([0.2, 0.6, 0.8, 1.0])
    assert curve["sense_risk"].tolist() == pytest.approx([0, 1 / 3, 1 / 4, 2 / 5])
    assert curve["top1_risk"].tolist() == pytest.approx([0, 2 / 3, 2 / 4, 2 / 5])
    assert at_coverages(curve)["items"].tolist() == [5, 5, 4, 4, 3, 3]


def test_the_figures_of_the_sense_are_worked_out_by_hand():
    summary = sense_summary(ITEMS).set_index("metric")
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
    more = pd.concat([ITEMS, scored((None, IDIOMATIC, 1.0, 0.0))], ignore_index=True)
    pd.testing.assert_frame_equal(risk_curve(more), risk_curve(ITEMS))
    pd.testing.assert_frame_equal(sense_summary(more), sense_summary(ITEMS))


def test_figures_without_unsure_items_are_those_of_the_others():
    summary = summarise_sure(ITEMS).set_index(["group", "metric"])
    assert summary.loc[("all", "top1"), ["n", "mean"]].tolist() == [4, 0.5]
