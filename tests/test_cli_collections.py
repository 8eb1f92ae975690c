import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from benchmarks import toys_opened
from commands import ended, json_of, passed, run
from toys import PictureEncoder


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    return toys_opened(monkeypatch, "apps.search.search")


def test_search_prints_the_best_as_a_table_or_json(capsys, tmp_path, opened):
    texts = tmp_path / "texts.txt"
    texts.write_text("Someone who works late.\nA bird on a branch.\nA night owl on a branch.\n")
    shared = ("search", "A Night Owl codes this.", "--span", "Night Owl")
    printed, err = passed(capsys, *shared, "--index", texts, "--top", 1, "--llm", "openai:x")
    assert opened == [("e5", "auto"), ("openai:x", None)]
    assert "Night Owl, idiomatic: someone who works" in printed
    assert re.search(r"\+\d\.\d\d *│ *1 *│ *Someone who works late", printed)
    assert "branch" not in printed

    out = tmp_path / "index"
    _, err = passed(capsys, "index", texts, "--out", out, "--encoder", "words")
    assert f"Wrote {out} (3 texts)" in err
    printed, err = passed(capsys, *shared, "--index", out, "--llm", "openai:x", "--json")
    found = json.loads(printed)
    assert (found["sense"], found["probability_idiomatic"]) == ("idiomatic", 1.0)
    assert found["gloss"] == "someone who works late"
    assert list(found["texts"][0]) == ["id", "score", "text"]
    assert opened[-2][0] == "words", "the index's own encoder"
    plain = (*shared, "--index", out, "--query", "sentence", "--json")
    assert json_of(capsys, *plain)["query"] == "sentence"
    printed, _ = passed(capsys, *shared, "--index", out, "--query", "compound")
    assert "Night Owl, compound" in printed

    others = tmp_path / "others.txt"
    others.write_text("Another text.\n")
    again = ("index", others, "--out", out, "--encoder", "words")
    assert f"is an index of {texts}" in ended(capsys, *again)
    assert "(1 text)" in passed(capsys, *again, "--replace")[1]


SHOWN = {"late.png": "someone who works late", "owl.png": "a night owl", "red.png": "a bicycle"}


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    (tmp_path / "pictures").mkdir()
    for name, shows in SHOWN.items():
        (tmp_path / "pictures" / name).write_text(shows)
    (tmp_path / "pictures/late.txt").write_text("A desk at night.")
    return tmp_path / "pictures"


@pytest.mark.usefixtures("wide")
def test_pictures_are_indexed_by_sight_and_found_with_path_and_caption(
    capsys, tmp_path, pictures, opened
):
    out = tmp_path / "index"
    _, err = passed(capsys, "index", pictures, "--out", out)
    assert opened == [("sight", "auto")]
    assert f"Wrote {out} (3 pictures)" in err
    shared = ("search", "A night owl codes this.", "--span", "night owl", "--index", out)
    printed, err = passed(capsys, *shared, "--llm", "openai:x", "--json", "--top", 1)
    (found,) = json.loads(printed)["pictures"]
    assert list(found) == ["id", "score", "image", "caption"]
    assert (found["image"], found["caption"]) == (str(pictures / "late.png"), "A desk at night.")
    options = ("--contrast", 2, "--texts", "compound", "--image-weight", 1, "--llm", "openai:x")
    printed, err = passed(capsys, *shared, *options, "--query", "compound")
    first = next(line for line in printed.splitlines() if re.search(r"[+-]\d\.\d\d", line))
    assert "owl.png" in first


def test_an_index_is_added_to_taken_from_and_exported(capsys, tmp_path, pictures, opened):
    out, exported = tmp_path / "index", tmp_path / "vectors.parquet"
    assert run(capsys, "index", pictures, "--out", out, "--encoder", "pictures")[0] == 0
    (pictures / "new.png").write_text("a new owl")
    _, err = passed(capsys, "index", pictures, "--out", out, "--add", "--remove", "red.png")
    assert opened[-1][0] == "pictures"
    assert f"Removed 1 from {out}; 2 remain" in err
    assert f"Wrote {out} (4 pictures: 2 new, 0 gone)" in err
    for remove in (("--remove", "r*"), ()):
        _, err = passed(capsys, "index", "--out", out, *remove, "--export", exported)
    assert f"Wrote {exported}" in err
    table = pd.read_parquet(exported)
    names = ["late.png", "owl.png", "new.png"]
    assert table["id"].tolist() == names
    assert table["image"].tolist() == [str(pictures / name) for name in names]
    expected = PictureEncoder().encode_images([pictures / name for name in names])
    assert np.stack(table["image_vector"]) == pytest.approx(expected)
    assert table["caption"].fillna("").tolist() == ["A desk at night.", "", ""]
    assert table["caption_vector"].isna().tolist() == [False, True, True]


def test_what_cannot_be_indexed_is_refused_or_left_out_and_counted(
    capsys, tmp_path, pictures, opened
):
    (tmp_path / "secret.png").write_text("a secret owl")
    source, out = pictures / "list.csv", tmp_path / "index"
    source.write_text("image\nowl.png\n../secret.png\n")
    message = ended(capsys, "index", source, "--out", out)
    assert f"{source}, row 2, image: '../secret.png' is outside the folder" in message
    assert "(--skip-bad)" in message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pictures", "secret.png"]
    for add in ((), ("--add",)):
        _, err = passed(capsys, "index", source, "--out", out, "--skip-bad", *add)
        assert f"{source}: 1 left out, such as {source}, row 2, image: '../secret.png'" in err
        assert f"Wrote {out} (1 picture" in err
    source.write_text("text\nA bird.\n")
    refusal = f"is an index of pictures, and {source} has texts"
    assert refusal in ended(capsys, "index", source, "--out", out)
    source.write_text("image\n../secret.png")
    message = ended(capsys, "index", source, "--out", tmp_path / "other", "--skip-bad")
    assert f"{source}: nothing of it can be indexed. {source}, row 1, image: " in message
    assert not (tmp_path / "other").exists()
