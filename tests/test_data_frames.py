from __future__ import annotations

import json

import pandas as pd
import pytest

from admire import SAMPLES, UserError, items_from_frame, read_items
from admire.data.frames import take_items

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
    with pytest.raises(UserError, match="rows: holds no items"):
        items_from_frame([])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (pd.DataFrame({"word": ["x"]}), "DataFrame: the column 'compound'"),
        ([ROW, {**ROW, "compound": 9}], "rows, row 2, compound: cannot be 9"),
        ([{**ROW, "sentence": ""}], "rows, row 1 .'cold feet'., sentence: is empty"),
        ([{**ROW, "candidates": "ab"}], "row 1 .'cold feet'., candidates: cannot be 'ab'"),
        ([{**PLAIN, "captions": ["a", "b"]}], "row 1, captions: is not read. .*'candidates': "),
        (3, "items are a path, .* not a int"),
        ([1, 2], "items are .* not a list of int"),
        (ROW, "items are .* not a dict"),
    ],
)
def test_what_is_no_item_names_its_row_or_the_argument(data, message):
    with pytest.raises(UserError, match=message):
        take_items(data)
