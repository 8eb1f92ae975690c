"""Published figures: that they are whole, and where a figure of ours stands among them."""

import csv
import math
from typing import get_args

import pandas as pd
import pytest
from conftest import admire_row, sequence_row

from admire import UserError, read_items
from admire.core.choices import BoardTrack
from admire.data.items import Item
from admire.metrics.figures import MACRO
from admire.metrics.published import (
    Board,
    boards,
    describe_misfit,
    in_interval,
    published_systems,
    recognise_set,
    standings,
)

BOTH, CAPTIONS = get_args(BoardTrack)


def test_people_have_no_place_and_an_entry_has_the_figures_of_its_paper():
    table = published_systems(Board("en-extended", "a", BOTH)).set_index("system")
    assert table["dcg"].between(1.5, 3.631).all()
    people = table[table.index.str.startswith("people: ")]
    assert people["placed"].tolist() == [False] * 3
    assert people["low"].isna().all()
    entry = table.loc["UoR-NCL CI Ensemble XLM-32"]
    assert (entry["placed"], entry["top1"], entry["dcg"]) == (True, 0.57, 2.957)
    assert "UoR-NCL" not in table.index


def test_the_boards_are_the_organisers(shared):
    rows = list(csv.DictReader((shared / "published.csv").open(encoding="utf-8", newline="")))
    assert len(rows) == 40
    for row in rows:
        for part in ("test", "extended"):
            board = Board(f"{row['language']}-{part}", row["subtask"], row["track"])
            systems = published_systems(board)
            ranked = [*systems[list(board.ranked)].itertuples(index=False, name=None)]
            assert ranked == sorted(ranked, reverse=True)
            systems = systems[systems["placed"]].set_index("system")
            found = systems[systems.index.str.match(rf"{row['team']}( CI .*)?$")]
            wanted = [row[f"{part}_first"], row[f"{part}_second"]]
            if not wanted[0]:
                assert found.empty
                continue
            (figures,) = found[list(board.ranked)].to_numpy().tolist()
            assert figures == pytest.approx([float(one) for one in wanted], abs=0.0051)


def summary(group: str = "all", **figures: tuple[float, float, float]) -> pd.DataFrame:
    rows = [(group, 15, metric, *found) for metric, found in figures.items()]
    return pd.DataFrame(rows, columns=["group", "n", "metric", "mean", "low", "high"])


def places(found: pd.DataFrame, board: Board) -> dict[str, tuple[int, int, int, int]]:
    return {
        one.metric: (one.place, one.best, one.worst, one.of)
        for one in standings(found, published_systems(board), board)
    }


def test_of_equal_figures_the_other_one_decides():
    # 0.87 3.51, 0.67 3.07 (twice), 0.67 3.04, 0.47 2.82, 0.40 2.89
    board = Board("en-test", "a", CAPTIONS)
    found = summary(top1=(10 / 15, 0.4, 13 / 15), dcg=(3.05, 2.85, 3.6))
    assert places(found, board) == {"top1": (4, 1, 7, 7), "dcg": (4, 1, 6, 7)}
    equal = summary(top1=(10 / 15, 0.4, 13 / 15), dcg=(3.07, 2.85, 3.6))
    assert [place for place, *_ in places(equal, board).values()] == [2, 2]
    systems = published_systems(board)
    top1, dcg = standings(found, systems, board)
    assert str(top1) == (
        "top1 0.667 [0.400, 0.867] would be place 1 to 7 of 7 (4 by the mean), caption, 15 items."
    )
    (many, _) = standings(found.assign(n=30), systems, board)
    assert "would be place 4 of 7 (from 1 to 7), caption, 30 items" in str(many)
    unknown = (10 / 15, math.nan, math.nan)
    assert places(summary(top1=unknown, dcg=unknown), board)["top1"] == (5, 1, 7, 7)
    assert in_interval(systems, top1).tolist() == [True] * 6
    assert in_interval(systems, dcg).tolist() == [True] * 4 + [False, True]


def test_in_subtask_b_items_are_placed_before_senses_and_equals_share_without():
    board = Board("en-extended", "b", CAPTIONS)  # 0.60 0.90 and 0.60 0.77
    found = summary(item_accuracy=(0.6, 0.5, 0.7), sense_accuracy=(0.8, 0.7, 0.9))
    assert places(found, board) == dict.fromkeys(["item_accuracy", "sense_accuracy"], (2, 1, 3, 3))
    items = summary(item_accuracy=(0.6, 0.6, 0.6))
    assert places(items, board) == {"item_accuracy": (1, 1, 1, 3)}


def test_admire_2_compares_macro_averages_and_has_ndcg_in_place_of_dcg():
    board = Board("admire2", "a", BOTH)  # 0.512, 0.35 (0.73), 0.28
    others = summary(top1=(0.9, 0.9, 0.9))
    macro = summary(MACRO, top1=(0.352, 0.27, 0.4), ndcg5=(0.72, 0.7, 0.74))
    found = places(pd.concat([others, macro]), board)
    assert found == {"top1": (3, 2, 4, 4), "ndcg5": (2, 1, 2, 2)}
    assert places(others, board) == {"top1": (1, 1, 1, 4)}


def test_people_and_a_teams_further_systems_have_no_place():
    board = Board("en-extended", "a", BOTH)
    found = places(summary(top1=(0.5, 0.5, 0.5), dcg=(2.9, 2.9, 2.9)), board)
    # PALI-NLP, daalft, dutir914, PoliTo, AlexUNLP, Zhoumou, HiTZ-Ixa, UoR-NCL, JNLP
    assert found["top1"] == (10, 10, 10, 13)


def test_a_track_without_a_board_is_told_and_a_subtask_without_one_refused():
    (board,), (note,) = boards("en-dev", "a", CAPTIONS)
    assert board.track == BOTH
    assert "captions alone" in note
    (board,), notes = boards("pt-test", "a", CAPTIONS)
    assert (board.track, notes) == (CAPTIONS, [])
    assert "as 8 items" in boards("pt-both", "a", None)[1][0]
    with pytest.raises(UserError, match="but on en-test, en-extended"):
        boards("pt-test", "b", None)
    with pytest.raises(UserError, match="Did you mean 'en-test'"):
        boards("en-tets", "a", None)


def test_gold_of_another_size_is_told(write_table):
    gold = read_items(write_table(admire_row()))
    assert "en-dev has 15" in (describe_misfit("en-dev", gold) or "")
    assert describe_misfit("en-dev", gold * 15) is None
    gold = read_items(write_table(sequence_row(), name="subtask_b_test.tsv"))
    assert "en-test has 5" in (describe_misfit("en-test", gold) or "")


@pytest.mark.parametrize(
    ("path", "language", "items", "name"),
    [
        ("admire_en/dev/subtask_a_dev.tsv", "en", 15, "en-dev"),
        ("test/subtask_a_dev.tsv", "en", 15, "en-dev"),
        ("admire_pt/test/gold.tsv", "pt", 13, "pt-test"),
        ("subtask_a_xe.tsv", "xe", 100, "en-extended"),
        ("C:\\sets\\extended_pt.tsv", "pt-br", 55, "pt-extended"),
        ("gold.tsv", "en", 15, None),
        ("latest.tsv", "en", 15, None),
        ("dev.tsv", "en", 14, None),
        ("dev.tsv", "de", 15, None),
        ("subtask_a_train.tsv", "en", 70, None),
    ],
)
def test_a_set_is_known_by_its_language_size_and_name(path, language, items, name):
    assert recognise_set([Item("night owl", "A night owl.", language)] * items, path) == name


def test_a_set_of_subtask_b_or_of_two_languages_is_not_taken_for_another():
    pictures = [Item("night owl", "", expected_item="a.png")] * 5
    assert recognise_set(pictures, "subtask_b_test.tsv") == "en-test"
    assert recognise_set(pictures, "subtask_b_dev.tsv") is None
    mixed = [Item("a", "a", "en")] * 7 + [Item("b", "b", "pt")] * 8
    assert recognise_set(mixed, "dev.tsv") is None
