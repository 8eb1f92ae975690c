from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from admire import SAMPLES, Candidate, Item, UserError, items_from_frame, items_to_frame, read_items
from admire.data.reader import take_items

ROW = {
    "compound": "cold feet",
    "sentence": "He got cold feet.",
    "image1_caption": "A groom runs away.",
    "image2_caption": "Bare feet on ice.",
    "expected_order": ["candidate1", "candidate2"],
}


PLAIN = {name: ROW[name] for name in ("compound", "sentence")}


def test_a_table_in_memory_is_read_as_its_file_is(tmp_path):
    other = {"sentence": "His cold feet hurt.", "image3_caption": "Ice."}
    table = pd.DataFrame([ROW, {**ROW, **other}])
    table["expected_order"] = [["candidate1", "candidate2"], None]
    table.to_csv(tmp_path / "manifest.csv", index=False)
    items = read_items(tmp_path)
    assert [len(item.candidates) for item in items] == [2, 3]
    assert items_from_frame(table) == items  # NaN and None are empty cells
    assert take_items(table) == take_items(tmp_path) == take_items(items) == items
    assert take_items([ROW])[0] == items[0]


def test_rows_as_dicts_may_list_their_candidates_and_name_pictures_below_a_folder():
    lines = (SAMPLES / "manifest.jsonl").read_text(encoding="utf-8").splitlines()
    items = items_from_frame([json.loads(line) for line in lines], SAMPLES)
    assert items == read_items(SAMPLES)
    assert items[0].candidates[0].image
    with pytest.raises(UserError, match="rows: contains no items"):
        items_from_frame([])


PICTURE = read_items(SAMPLES)[0].candidates[0].image
BOTH = (Candidate("owl.png", PICTURE), Candidate("2", None, "A lamp."))
OWL = Item("night owl", "", "pt-br", BOTH)
ITEMS = {
    "pictures below a folder, gold": read_items(SAMPLES),
    "other names": [replace(OWL, sentence="A night owl.", expected_order=("2", "owl.png"))],
    "a sequence": [replace(OWL, sequence=(Candidate("sequence1", None, "Dusk."), BOTH[0]))],
    "V-WSD": [replace(OWL, word="owl", expected_item="2")],
    "no candidates": [replace(OWL, sentence="1\\n2.", candidates=(), sentence_type="literal")],
    "definitions": [replace(OWL, sentence="A night owl.", definitions=("a person", "a bird"))],
}


ITEMS["all"] = [item for items in ITEMS.values() for item in items]


@pytest.mark.parametrize("items", ITEMS.values(), ids=ITEMS)
def test_a_table_of_items_gives_the_same_items_back(items, tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    table = items_to_frame(items)
    assert take_items(table) == items
    assert take_items(table[::-1].copy()) == items[::-1]
    assert items_from_frame(table.to_dict("records")) == items
    assert "not read" not in caplog.text
    assert "missing" not in caplog.text


def test_a_picture_that_is_gone_is_named():
    table = items_to_frame([OWL]).assign(sentence="x", image1_path="/none.png")
    with pytest.raises(UserError, match=r"row 1 .*, candidate 1: the picture /none\.png does not"):
        items_from_frame(table)


CANDIDATES = [Candidate("a", None, "An owl."), Candidate("b", None, "A lamp.")]


@pytest.mark.parametrize("series", [list, pd.Series, lambda them: np.array(them, dtype=object)])
def test_columns_and_arrays_are_as_good_as_lists(series):
    (item,) = take_items(series([Item("owl", "An owl.", candidates=series(CANDIDATES))]))
    assert item.candidates == tuple(CANDIDATES)
    cells = series([{"caption": np.str_("An owl.")}, {"caption": "A lamp.", "image": np.nan}])
    (item,) = take_items([{**PLAIN, "candidates": cells}])
    assert [candidate.caption for candidate in item.candidates] == ["An owl.", "A lamp."]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([replace(OWL, expected_order="['a', 'b']")], "item 1, expected_order: is a str, not a t"),
        (pd.DataFrame({"word": ["x"]}), "DataFrame: the column 'compound'"),
        ([ROW, {**ROW, "compound": 9}], "rows, row 2, compound: cannot be 9"),
        ([{**ROW, "sentence": ""}], "rows, row 1 .'cold feet'., sentence: is empty"),
        ([{**PLAIN, "candidates": "ab"}], "row 1 .'cold feet'., candidates: cannot be 'ab'"),
        (3, "items are a path, .* not a int"),
        ([1, 2], "items are .* not a list of int"),
        (ROW, "items are .* not a dict"),
    ],
)
def test_what_is_no_item_names_its_row_or_the_argument(data, message):
    with pytest.raises(UserError, match=message):
        take_items(data)
