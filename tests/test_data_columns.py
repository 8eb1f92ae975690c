import json
from pathlib import Path

import pandas as pd
import pytest
from conftest import admire_row, refused

from admire.core.errors import UserError
from admire.data.reader import items_from_frame, read_items

ROW = {"compound": "night owl", "sentence": "A night owl.", "image1_caption": "an owl"}


@pytest.mark.parametrize(
    ("column", "meant"),
    [
        *((name, "image2_caption") for name in ("image02_caption", " image2_caption ")),
        *((name, "image2_caption") for name in ("Image2_Caption", "image 2 caption")),
        *((name, "image2_caption") for name in ("image２_caption", "image_2-caption")),
        *(("Sequence_Image01", "sequence_image1"), ("Sentence_Type", "sentence_type")),
    ],
)
def test_a_column_that_is_spelt_otherwise_is_refused_with_its_name(tmp_path, column, meant):
    row = ROW | {column: "a lamp"}
    pd.DataFrame([row]).to_csv(tmp_path / "manifest.csv", index=False)
    refused(tmp_path / "manifest.csv", f"not read: '{column}'. Rename to '{meant}'")
    for frame in ([row], pd.DataFrame([row])):
        with pytest.raises(UserError, match="not read: "):
            items_from_frame(frame)


def test_a_column_that_is_there_twice_or_beside_the_right_one_is_refused(tmp_path: Path):
    path = tmp_path / "manifest.csv"
    path.write_text("compound,sentence,image1_caption,image1_caption\na,b,c,d\n")
    refused(path, "'image1_caption' appears twice")
    path.write_text("compound,sentence,image1_caption,image01_caption\na,b,c,d\n")
    refused(path, "'image01_caption' is not read, beside 'image1_caption'")
    twice = pd.DataFrame([[*"abcd"]], columns=["compound", "sentence", *["image1_caption"] * 2])
    with pytest.raises(UserError, match="'image1_caption' appears twice"):
        items_from_frame(twice)


def test_columns_that_only_look_like_a_candidates_are_a_warning(write_table, caplog):
    row = admire_row(img1="x", caption2="y", notes="z")
    (item,) = read_items(write_table(row))
    assert len(item.candidates) == 5
    assert next(text for text in caplog.messages if "not read" in text).endswith(
        "not read: 'img1' (did you mean 'image1'?), 'caption2' (did you mean 'image2_caption'?). "
        "Candidates are in image1_name, image1_caption, image2_name, …"
    )


def test_unknown_keys_are_a_warning_with_the_nearest_known_one(tmp_path, caplog):
    row = {"compound": "night owl", "sentence": "A night owl.", "id": 1}
    row |= {"lang": "de", "expected_ordr": [], "x": ""}
    candidates = ["an owl", {"caption": "a lamp", "nam": "L", "written": "M"}]
    unread = "'lang' (did you mean 'language'?), 'expected_ordr' (did you mean 'expected_order'?)"
    for name, cells in (("a", row), ("b", row | {"candidates": candidates})):
        path = tmp_path / f"{name}.jsonl"
        path.write_text(json.dumps(cells))
        read_items(path)
        assert f"{path}, row 1: not read: {unread}, 'x'." in caplog.messages
    for name in ("'nam' (did you mean 'name'?)", "'written'"):
        assert f"candidate 2: not read: {name}. It has 'image', 'caption' or both" in caplog.text
    row["compund"] = row.pop("compound")
    path.write_text(json.dumps(row))
    refused(path, "row 1, compound: is missing. Rename 'compund'.")
    caplog.clear()
    own = {"sense": "", "sentence_typ": "", "image2_caption": "b"}
    items_from_frame(pd.DataFrame([ROW | own]))
    (warning,) = caplog.messages  # a table may have columns of its own
    assert warning.endswith("row 1: not read: 'sentence_typ' (did you mean 'sentence_type'?).")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"Candidates": []}, "row 1: not read: 'Candidates'. Rename to 'candidates'"),
        (
            {"candidates": [{"caption": "x"}, {" Caption": "y"}]},
            "candidate 2: not read: ' Caption'",
        ),
        ({"sequence": [{"Image": "x.png", "caption": "x"}]}, "sequence 1: not read: 'Image'"),
    ],
)
def test_keys_of_json_rows_are_checked_too(tmp_path: Path, change, message):
    row = {"compound": "night owl", "sentence": "A night owl."} | change
    (tmp_path / "items.jsonl").write_text(json.dumps(row))
    refused(tmp_path / "items.jsonl", message)
    if "candidates" in change:
        with pytest.raises(UserError, match="not read: ' Caption'"):
            items_from_frame([row])


def test_a_key_that_is_there_twice_is_refused(tmp_path: Path):
    (tmp_path / "items.jsonl").write_text('{"compound": "a", "compound": "b", "sentence": "c"}')
    refused(tmp_path / "items.jsonl", "row 1: is not JSON (the key 'compound' appears twice)")
