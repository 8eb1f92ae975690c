"""Published figures: that they are whole, and where a figure of ours stands among them."""

from __future__ import annotations

from collections import Counter
from typing import get_args

import pandas as pd
import pytest
from conftest import admire_row, sequence_row

from admire import UserError, read_items
from admire.base.choices import PublishedSet
from admire.scores.published import check_fits, published_systems, standings, within

SETS = get_args(PublishedSet)
SIZES = {"en-dev": 15, "en-test": 15, "en-extended": 100, "pt-dev": 10, "pt-test": 13}


def named(name: str) -> pd.DataFrame:
    return published_systems(name).set_index("system")


def test_every_set_has_its_rows_the_best_first_and_their_sources():
    rows = {name: published_systems(name) for name in SETS}
    # UoR-NCL: 3 baselines, 24 without and 6 with a head; the overview: 5 systems and 3 kinds of
    # people.
    assert {name: len(table) for name, table in rows.items()} == {
        "en-dev": 30, "en-test": 38, "en-extended": 41, "en-both": 33,
        "pt-dev": 24, "pt-test": 27, "pt-extended": 27, "pt-both": 27,
    }  # fmt: skip
    for table in rows.values():
        assert table["dcg"].is_monotonic_decreasing
        assert table["system"].is_unique
        assert table["top1"].between(0, 1).all()
        assert table["dcg"].between(1.5, 3.631).all()
    sources = Counter(rows["en-extended"]["source"].str.split(" ").str[0])
    assert sources == {"Markchom": 33, "Pickard": 8}
    assert rows["en-extended"].loc[rows["en-extended"]["people"], "low"].isna().all()


def test_rows_of_uor_ncl_fit_each_other():
    test, extended, both = (named(f"en-{part}") for part in ("test", "extended", "both"))
    for name, row in both.iterrows():
        for metric in ("top1", "dcg", "corr_official"):
            parts = 15 * test.loc[name, metric] + 100 * extended.loc[name, metric]
            assert row[metric] == pytest.approx(parts / 115, abs=1.5e-3), (name, metric)
    for name, size in SIZES.items():
        table = named(name)
        right = table.loc[table["decimals"] == 3, "top1"] * size
        assert (right - right.round()).abs().max() < 0.001 * size


def summary(top1: tuple[float, float, float], dcg: tuple[float, float, float]) -> pd.DataFrame:
    rows = [("all", 15, "top1", *top1), ("all", 15, "dcg", *dcg)]
    return pd.DataFrame(rows, columns=["group", "n", "metric", "mean", "low", "high"])


SYSTEMS = pd.DataFrame(
    [
        ("a", 0.93, 3.5, False, 2),
        ("people", 0.95, 3.45, True, 2),
        ("b", 0.733, 3.1, False, 3),
        ("c", 0.4, 2.5, False, 3),
    ],
    columns=["system", "top1", "dcg", "people", "decimals"],
)


def test_a_figure_stands_behind_better_systems_and_people_have_no_place():
    top1, dcg = standings(summary((0.6, 0.4, 0.8), (3.2, 2.6, 3.3)), SYSTEMS)
    assert (top1.place, top1.best, top1.worst, top1.of) == (3, 2, 3, 4)
    assert (dcg.place, dcg.best, dcg.worst, dcg.of) == (2, 2, 3, 4)
    assert str(top1) == (
        "top1 0.600 [0.400, 0.800] would be place 3 of 4; the interval reaches from place 2 to 3."
    )
    assert str(dcg).endswith("place 2 of 4; the interval reaches from place 2 to 3.")
    assert within(SYSTEMS, top1).tolist() == [False, False, True, True]
    assert within(SYSTEMS, dcg).tolist() == [False, False, True, False]


def test_gold_of_another_size_is_warned_of_and_of_another_task_refused(write_table, caplog):
    gold = read_items(write_table(admire_row()))
    check_fits("en-dev", gold)
    assert "The gold has 1 items, en-dev has 15" in caplog.text
    caplog.clear()
    check_fits("en-dev", gold * 15)
    assert not caplog.messages
    check_fits("pt-both", gold * 68)
    (note,) = caplog.messages
    assert "as 8 items" in note
    with pytest.raises(UserError, match="of Subtask A"):
        check_fits("en-dev", read_items(write_table(sequence_row(), name="subtask_b_dev.tsv")))
