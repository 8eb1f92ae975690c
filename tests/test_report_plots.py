import re
from functools import cache
from typing import Any
from xml.etree import ElementTree

import pytest

from admire.apps.report.plots import (
    chance,
    confusion,
    draw_plots,
    reliability,
    result_table,
    risk_curves,
)
from admire.apps.report.report import Plot
from admire.metrics.metrics import calibration_error

matplotlib = pytest.importorskip("matplotlib", reason="needs the extra 'report'")

IDIOMATIC, LITERAL = "idiomatic", "literal"


def result(order: list[int], sense: str | None, probability: float | None) -> dict:
    right = order[0] == 0
    figures = {"top1": float(right), "dcg": 3.0 + order.index(0), "corr_rank": 0.5}
    given = {"order": order, "sense": sense, "probability_idiomatic": probability, "right": right}
    return given | {"figures": figures}


def ranking(*names: str) -> dict[str, Any]:
    """Four items of three candidates, of which the first is the best; all runs but the first lack
    the last item."""
    senses = (IDIOMATIC, IDIOMATIC, LITERAL, LITERAL)
    results = (
        result([0, 1, 2], IDIOMATIC, 0.95),
        result([2, 1, 0], LITERAL, 0.31),
        result([1, 0, 2], LITERAL, 0.35),
        result([0, 2, 1], None, None),
    )
    return {
        "kind": "ranking",
        "runs": [{"name": name} for name in names],
        "metrics": ["top1", "dcg", "corr_rank"],
        "items": [
            {
                "sense": sense,
                "gold": [0, 1, 2],
                "candidates": [{}, {}, {}],
                "runs": [one, *(one if k < 3 else None for _ in names[1:])],
            }
            for k, (sense, one) in enumerate(zip(senses, results, strict=True))
        ],
    }


@cache
def drawn(*names: str) -> tuple[Plot, ...]:
    return draw_plots(ranking(*names))


def texts(svg: str) -> list[str]:
    parts = ElementTree.fromstring(svg).iter()
    return [part.text or "" for part in parts if part.tag.endswith("text")]


def test_senses_that_were_given_are_in_no_plot_of_predictions():
    data = ranking("a", "given")
    for item in data["items"]:
        if given := item["runs"][1]:
            item["runs"][1] = given | {"probability_idiomatic": None, "given": True}
    cases = result_table(data)
    for table in (reliability(cases), risk_curves(cases), confusion(cases).reset_index()):
        assert set(table["run"]) == {0}


def test_reliability_has_the_bins_of_the_calibration_error():
    cases = result_table(ranking("a"))
    bins = reliability(cases).set_index("bin")
    assert bins["n"].to_dict() == {3: 2, 9: 1}
    assert bins["predicted"].to_dict() == pytest.approx({3: 0.33, 9: 0.95})
    assert bins["observed"].to_dict() == {3: 0.5, 9: 1.0}
    error = calibration_error([0.95, 0.31, 0.35], [True, True, False])
    distance = (bins["predicted"] - bins["observed"]).abs()
    assert (bins["n"] * distance).sum() / 3 == pytest.approx(error)
    (plot,) = (p for p in drawn("a") if p.title.startswith("Reliability"))
    assert f"a {error:.3f}" in plot.words
    edge = ranking("a")
    edge["items"][0]["runs"][0]["probability_idiomatic"] = 1.0
    assert reliability(result_table(edge))["bin"].tolist() == [3, 9]


def test_no_line_joins_bins_of_fewer_than_five_items():
    lines = []
    for times in (1, 5):
        data = ranking("a") | {"metrics": [], "items": ranking("a")["items"] * times}
        (plot,) = (p for p in draw_plots(data) if p.title.startswith("Reliability"))
        lines.append(
            re.findall(r'd="[^"z]*" clip-path="[^"]*" style="[^"]*var\(--run1\)', plot.svg)
        )
    assert list(map(len, lines)) == [0, 1]  # of 2 and 1 items, and of 10 and 5


def test_errors_are_drawn_by_how_many_are_answered():
    # Surest first: 0.95 is right, 0.31 has a wrong sense and order, 0.35 a wrong order; the last
    # has no sense, but a right order.
    curve = risk_curves(result_table(ranking("a")))
    assert curve["coverage"].tolist() == [0.25, 0.5, 0.75, 1.0]
    assert curve["sense_risk"].tolist() == pytest.approx([0, 1 / 2, 1 / 3, 2 / 4])
    assert curve["top1_risk"].tolist() == pytest.approx([0, 1 / 2, 2 / 3, 2 / 4])
    alone, both = (
        next(p for p in drawn(*names) if p.title.startswith("Errors")) for names in ("a", "ab")
    )
    assert "a: sense error 0.500 of all, 0.500 of the surest 2, area 0.333;" in alone.words
    assert "top-1 error 0.500 of all, 0.500 of the surest 2, area 0.417." in alone.words
    for run in "ab":  # b lacks the last item
        assert f"{run}: sense error 0.333 of all" in both.words
    assert {"sense error", "top-1 error"} <= set(texts(both.svg))


def test_confusion_is_counted_run_by_run():
    data = ranking("a", "b")
    data["items"][3]["runs"][1] = data["items"][0]["runs"][1]
    cases = result_table(data)
    assert confusion(cases).to_dict("index") == {
        (0, IDIOMATIC): {IDIOMATIC: 1, LITERAL: 1, "none": 0},
        (0, LITERAL): {IDIOMATIC: 0, LITERAL: 1, "none": 1},
        (1, IDIOMATIC): {IDIOMATIC: 1, LITERAL: 1, "none": 0},
        (1, LITERAL): {IDIOMATIC: 1, LITERAL: 1, "none": 0},
    }
    # What a run lacks is not compared.
    assert result_table(ranking("a", "b"))["run"].tolist() == [0, 1] * 3


@pytest.mark.parametrize(
    ("metric", "candidates", "expected"),
    [("dcg", 5, 2.359), ("top1", 5, 0.2), ("item_accuracy", 4, 0.25), ("corr_rank", 5, None)],
)
def test_chance_is_that_of_the_number_of_candidates(metric, candidates, expected):
    data = ranking("a") | {"metrics": [metric]}
    for item in data["items"]:
        item["candidates"] = [{}] * candidates
        item["runs"][0]["figures"] = {metric: 1.0}
    found = chance(result_table(data), metric)
    assert found == (None if expected is None else pytest.approx(expected, abs=5e-4))


def test_a_ranking_has_its_plots_and_what_has_no_numbers_is_left_out():
    data = ranking("a")
    both = ["Top-1 by sense", "DCG by sense"]
    senses = [
        "Reliability of the sense probability",
        "Errors by how many are answered",
        "Confusion of the senses",
    ]
    assert [plot.title for plot in drawn("a")] == [*both, *senses]
    for item in data["items"]:
        item["sense"] = None
    assert [plot.title for plot in draw_plots(data)] == both
    for item in data["items"]:
        item["gold"] = None
        item["runs"][0] |= {"figures": None, "right": None}
    assert draw_plots(data | {"metrics": []}) == ()
    assert draw_plots(data | {"metrics": [], "items": []}) == ()


HOSTILE = "<script>alert(1)</script> & $x$ \x07 夜猫子"


def test_a_page_with_a_strict_policy_may_hold_the_plots():
    plots = draw_plots(ranking("a" * 60, HOSTILE, "c", "d", "e", "f", "g"))
    ids: list[str] = []
    for plot in plots:
        root = ElementTree.fromstring(plot.svg)
        assert root.get("aria-label") == plot.title
        own = [one.get("id") for one in root.iter() if one.get("id")]
        ids += filter(None, own)
        assert set(re.findall(r'(?:url\(#|href="#(?!run=))([^)"]+)', plot.svg)) == set(own)
        assert not re.search("<style|<script|<metadata|font-family", plot.svg)
        for colour in re.findall(r"(?:fill|stroke): ([^;\"]*)", plot.svg):
            assert re.fullmatch(r"none|var\(--[a-z]+\d?\)", colour)
    assert len(ids) == len(set(ids))
    drawn = texts(plots[0].svg)
    assert "<script>…$x$ \ufffd 夜猫子" in drawn
    assert f"{'a' * 8}…{'a' * 9}" in drawn


def test_neither_time_nor_settings_of_ones_own_change_a_plot():
    first = drawn("a", "b")
    with matplotlib.rc_context({"font.size": 40, "axes.facecolor": "red", "svg.fonttype": "path"}):
        assert draw_plots(ranking("a", "b")) == first
        assert matplotlib.rcParams["font.size"] == 40
