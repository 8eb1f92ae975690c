import json
import shutil
from importlib import metadata
from pathlib import Path

import pytest
from commands import hide, json_of, passed, run
from toys import WordEncoder, explains

from admire import SAMPLES, Settings, rank, read_items, write_run
from admire.apps.report import write_report
from admire.core.errors import pip_install
from admire.data.overlap import digests, parts_of
from admire.encoders import open_encoder

pytestmark = pytest.mark.usefixtures("words")


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Two of the samples' items under other names of pictures, and one that is none of theirs."""
    rows = [json.loads(line) for line in (SAMPLES / "manifest.jsonl").read_text().splitlines()]
    folder = tmp_path / "other"
    (folder / "copies").mkdir(parents=True)
    chosen = rows[:2]
    for row in chosen:
        row["sentence"] += " Or so they say."
        row["sentence_type"] = "literal" if row["sentence_type"] == "idiomatic" else "idiomatic"
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


@pytest.mark.usefixtures("wide")
def test_the_tables_say_how_many_items_share_anything_and_the_json_what(capsys, other, tmp_path):
    out, _ = passed(capsys, "audit", other, "--against", SAMPLES)
    lines = out.splitlines()
    assert lines[0].strip() == "Audit: 2 of 3 items share something with other sets"
    cells = [cell.strip() for cell in lines[4].strip("│").split("│")]
    assert cells == ["samples", "2", "1 of 2", "0 of 3", "5 of 7", "5 of 5", "2", "2"]
    assert "1 compound, 5 captions, 5 pictures" in out
    assert "Items with equal highest scores" in out

    file = tmp_path / "below" / "audit.json"
    options = ("--against", SAMPLES, "--against", other, "--out", file)
    for _ in range(2):
        code, out, err = run(capsys, "audit", other, *options, "--json")
        assert (code, f"Wrote {file}" in err) == (0, True)
    told = json.loads(out)
    assert told == json.loads(file.read_text())
    assert (told["data"], told["items"]) == (str(other), 3)
    samples, itself = told["against"]
    assert samples["name"] == str(SAMPLES)
    assert samples["kinds"]["picture"] == {"compared": 5, "shared": 5, "items": 2}
    picture = next(match for match in told["matches"] if match["kind"] == "picture")
    assert (picture["name"], picture["side"], picture["sense"]) == ("copies/0.png", "here", "both")
    assert {m["item"] for m in told["matches"] if m["against"] == itself["name"]} == {1, 2, 3}
    assert (told["order"]["items"], told["order"]["tied"]) == (3, [3])


def test_what_heads_and_detectors_saw_is_read_from_their_cards(capsys, other, tmp_path):
    saw = digests(parts_of(read_items(SAMPLES)))
    texts = {"compound": saw["compound"], "sentence": saw["sentence"]}
    files = {
        "head/head.json": {"settings": {}, "saw": saw},
        "detector.json": {"weights": [], "card": {"saw": texts}},
        "classifier/admire.json": {"saw": texts},
    }
    options = []
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content))
        options += ["--against", path if "/" not in name else path.parent]
    told = json_of(capsys, "audit", other, *options, "--no-order", "--json")
    assert told["order"] is None
    assert [[one["shared"] for one in card["kinds"].values()] for card in told["against"]] == [
        [1, 0, 5, 5],
        [1, 0, 0, 0],
        [1, 0, 0, 0],
    ]
    assert [card["items"] for card in told["against"]] == [None, None, None]


@pytest.mark.parametrize("content", ["{", '{"card": {"saw": {"x": []}}}'])
def test_what_is_no_card_or_lists_nothing_is_refused(capsys, tmp_path, content):
    path, file = tmp_path / "detector.json", tmp_path / "audit.json"
    path.write_text(content)
    code, out, err = run(capsys, "audit", SAMPLES, "--against", path, "--out", file)
    assert (code, out, file.exists()) == (2, "", False)
    assert err.startswith(f"admire: {path}: ")
    assert err.endswith("Train it again with admire. (--against)\n")


@pytest.mark.usefixtures("wide")
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
    assert "<summary>Audit: 0 of 2 compounds are in a dictionary</summary>" in page
    assert str(tmp_path) not in page.split('<section id="gallery"')[0]
    write_run(made, folder)  # a folder that holds an audit is still admire's own
    assert not (folder / "audit.json").exists()


def test_without_extras_the_rest_of_the_audit_stands(capsys, other, monkeypatch):
    def none(package: str) -> str:
        raise metadata.PackageNotFoundError(package)

    hide(monkeypatch, "imagehash")
    monkeypatch.setattr("admire.rankers.run_encoders.open_encoder", open_encoder)
    monkeypatch.setattr("admire.embedded.e5.installed_version", none)
    told = json_of(capsys, "audit", other, "--against", SAMPLES, "--json")
    (samples,) = told["against"]
    kinds = samples["kinds"]
    assert (kinds["caption"]["shared"], kinds["picture"]["compared"]) == (5, 0)
    assert pip_install("report") in samples["unread"][0]
    assert pip_install("embedded") in told["order"]["unchecked"]
