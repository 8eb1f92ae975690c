import io
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from admire import SAMPLES, Candidate, Item, UserError, items_from_frame, items_to_frame, read_items
from admire.core.storage import cache_dir
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


GONE = items_to_frame([OWL]).assign(sentence="x", image1_path="/none.png")
CANDIDATES = [Candidate("a", None, "An owl."), Candidate("b", None, "A lamp.")]


@pytest.mark.parametrize("series", [list, pd.Series, lambda them: np.array(them, dtype=object)])
def test_columns_and_arrays_are_as_good_as_lists(series):
    (item,) = take_items(series([Item("owl", "An owl.", candidates=series(CANDIDATES))]))
    assert item.candidates == tuple(CANDIDATES)
    cells = series([{"caption": np.str_("An owl.")}, {"caption": "A lamp.", "image": np.nan}])
    (item,) = take_items([{**PLAIN, "candidates": cells}])
    assert [candidate.caption for candidate in item.candidates] == ["An owl.", "A lamp."]


def drawn(blue: int, name: str | None = None, *, decoded: bool = False) -> Any:
    """A picture as Hugging Face's datasets have it: one of PIL's, or undecoded."""
    Image = pytest.importorskip("PIL.Image")  # noqa: N806
    written, picture = io.BytesIO(), Image.new("RGB", (4, 3), (0, 0, blue))
    picture.save(written, "PNG")
    return picture if decoded else {"bytes": written.getvalue(), "path": name}


def with_pictures() -> dict[str, tuple[dict[str, Any], list[str]]]:
    """Rows with pictures in memory, and the names that their candidates get."""
    one, two, named = drawn(1, decoded=True), drawn(2)["bytes"], drawn(3, "a/owl.png")
    return {
        "image": (
            {"candidates": [{"image": one}, {"image": named, "caption": "x"}]},
            ["image1", "owl.png"],
        ),
        "names": ({"candidates": [{"image": two, "name": "owl.png"}, one]}, ["owl.png", "image2"]),
        "lists": ({"images": [one, two], "captions": ["x", None]}, ["image1", "image2"]),
        "by column": (
            {"candidates": {"image": [two, None], "caption": ["", "x"]}},
            ["image1", "candidate2"],
        ),
        "image1": ({"image1": one, "image2": named, "image3": None}, ["image1", "owl.png"]),
        "image1_name": ({"image1_name": named, "image2_name": named}, ["owl.png", "owl.png (2)"]),
        "both": ({"image1": one, "image1_name": "owl.png", "image2": two}, ["owl.png", "image2"]),
        "sequence": (
            {"sequence_image1": one, "image1": two, "image2_caption": "x"},
            ["image1", "candidate2"],
        ),
    }


def test_pictures_in_memory_are_taken_from_rows_and_tables():
    for kind, (row, names) in with_pictures().items():
        for data in ([PLAIN | row], pd.DataFrame([PLAIN | row])):
            (item,) = take_items(data)
            assert list(item.names) == names, kind
            pictures = [candidate.image for candidate in item.things if candidate.image]
            assert all(picture.parent == cache_dir() / "pictures" for picture in pictures)
            assert len(pictures) == 2 - ("candidate2" in names) + (kind == "sequence"), kind


def test_a_dataset_of_hugging_face_and_its_parquet_are_read_as_rows(tmp_path):
    datasets = pytest.importorskip("datasets", reason="needs the extra 'finetune'")
    text, image = datasets.Value("string"), datasets.Image()
    nested = datasets.List({"image": image, "caption": text, "name": text})
    things = [{"image": drawn(1), "name": "a"}, {"caption": "b"}]
    texts = {"compound": text, "sentence": text}
    flat = {**PLAIN, "image1": drawn(1, "a.png"), "image2": drawn(2)}
    features = datasets.Features(texts | {"image1": image, "image2": image})
    data = datasets.Dataset.from_list([flat, flat], features)
    undecoded = data.cast_column("image1", datasets.Image(decode=False))
    by_path = {"image1": {"bytes": None, "path": str(PICTURE)}, "image2_caption": "x"}
    assert take_items([PLAIN | by_path])[0].candidates[0] == Candidate(PICTURE.name, PICTURE)
    assert [item.names for item in take_items(data)] == [("image1", "image2")] * 2
    assert [item.names for item in take_items(undecoded)] == [("a.png", "image2")] * 2
    data.to_parquet(tmp_path / "x.parquet")
    first, _ = read_items(tmp_path / "x.parquet")
    assert first.names == ("a.png", "image2")
    assert first.candidates[1].image == take_items([flat])[0].candidates[1].image
    features = datasets.Features(texts | {"candidates": nested})
    data = datasets.Dataset.from_list([{**PLAIN, "candidates": things}], features)
    data.to_parquet(tmp_path / "y.parquet")
    for (item,) in (take_items(data), read_items(tmp_path / "y.parquet")):
        told = [(c.name, bool(c.image), c.caption) for c in item.candidates]
        assert told == [("a", True, None), ("candidate2", False, "b")]


def test_a_files_pictures_stay_in_its_folder_though_a_parquet_names_them_by_path(tmp_path):
    pytest.importorskip("pyarrow", reason="needs the extra 'tables'")
    far = {"bytes": None, "path": str(SAMPLES / "images" / "far.png")}
    table = pd.DataFrame([{**PLAIN, "image1": far, "image2_caption": "x"}])
    table.to_parquet(tmp_path / "x.parquet")
    with pytest.raises(UserError, match=r"candidate 1, image: .* is outside the folder"):
        read_items(tmp_path / "x.parquet")


@pytest.mark.parametrize(
    "row",
    [
        {"candidates": ["An owl.", "A lamp."]},
        {"candidates": [{"caption": "An owl."}, "A lamp."]},
        {"captions": ["An owl.", "A lamp."]},
    ],
)
def test_texts_are_captions_in_rows_and_files(tmp_path, row):
    items = take_items([PLAIN | row])
    candidates = [(c.name, c.caption) for c in items[0].candidates]
    assert candidates == [("candidate1", "An owl."), ("candidate2", "A lamp.")]
    table = pd.DataFrame([PLAIN | row])
    table.to_csv(tmp_path / "x.csv", index=False)
    table.to_json(tmp_path / "x.jsonl", orient="records", lines=True)
    assert read_items(tmp_path / "x.csv") == read_items(tmp_path / "x.jsonl") == items


def test_a_candidates_name_is_the_one_that_gold_names(write_table):
    things = [{"name": "A", "caption": "An owl."}, {"name": "B", "caption": "A lamp."}]
    row = PLAIN | {"candidates": things, "expected_order": ["B", "A"]}
    assert take_items([row]) == read_items(write_table(row, name="x.jsonl"))
    assert take_items([row])[0].names == ("A", "B")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([{**PLAIN, "captions": ["a"], "images": ["b", "c"]}], "there are 1 captions for 2"),
        ([{**PLAIN, "captions": ["a", "b"], "candidates": ["c", "d"]}], "are beside candidates"),
        ([{**PLAIN, "candidates": [np.zeros((2, 2)), "b"]}], "candidate 1, image: .*fromarray"),
        ([replace(OWL, expected_order="['a', 'b']")], "item 1, expected_order: .* a valid tuple"),
        (GONE, r"row 1 .*, candidate 1: the picture /none\.png does not"),
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
