import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from commands import hide, run
from conftest import admire_row
from PIL import Image
from toys import WordEncoder, explains

from admire import Settings, UserError, rank, read_items, write_run
from admire.apps.report import write_report
from admire.apps.report.report import short_name
from admire.encoders import Vectors
from admire.pipeline.run_folder import read_run


class PictureWords(WordEncoder):
    def encode_images(self, images: Sequence[Path]) -> Vectors:
        return self.encode_texts(["a river"] * len(images), role="document")


SETTINGS = Settings(sense="vote", track="caption")


@pytest.fixture(autouse=True)
def no_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests look at plots, which take most of a report's time."""
    monkeypatch.setattr("admire.apps.report.write.draw_plots", lambda _: ())


@pytest.fixture
def image_set(tmp_path: Path) -> Path:
    """Two items whose pictures are 640 × 400; the first two of them are the same picture."""
    folder = tmp_path / "my set"
    (folder / "pictures").mkdir(parents=True)
    for k, colour in enumerate(("red", "red", "blue", "green")):
        Image.new("RGB", (640, 400), colour).save(folder / "pictures" / f"{k}.png")
    rows = [
        {
            "compound": compound,
            "sentence": f"What a {compound} that is.",
            "sentence_type": sense,
            "candidates": [
                {"image": "pictures/0.png", "caption": "a bird with wings"},
                {"image": f"pictures/{other}.png", "caption": "a person awake late"},
            ],
            "expected_order": [f"pictures/{other}.png", "pictures/0.png"],
        }
        for compound, sense, other in (("night owl", "idiomatic", 1), ("cold fish", "literal", 2))
    ]
    manifest = folder / "manifest.jsonl"
    manifest.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def ranked(folder: Path, out: Path, sense: str = "Idiomatic") -> Path:
    run = rank(
        read_items(folder), SETTINGS, llms=[explains(sense)], encoder=WordEncoder(), source=folder
    )
    write_run(run, out)
    return out


def shown(page: Path) -> dict:
    text = page.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found
    return json.loads(found[1])


def test_a_report_is_one_file_with_each_picture_once(tmp_path, image_set):
    first = ranked(image_set, tmp_path / "runs" / "first")
    second = ranked(image_set, tmp_path / "runs" / "second", "Literal")
    page = write_report([first, second], tmp_path / "out" / "report.html")
    text = page.read_text(encoding="utf-8")
    data = shown(page)
    assert [one["name"] for one in data["runs"]] == ["first", "second"]
    pictures = [[one["picture"] for one in item["candidates"]] for item in data["items"]]
    assert pictures[0][0] == pictures[0][1] == pictures[1][0] != pictures[1][1]
    assert len(re.findall(r"data:image/webp;base64,", text)) == 2
    assert data["items"][0]["candidates"][0].items() >= {"width": 320, "height": 200}.items()
    for words in ("What was run", "Figures", "Against first", "explains Literal", "dcg"):
        assert words in text
    assert "Among published figures" not in text
    assert str(tmp_path) not in text


def test_runs_of_different_items_are_compared_on_those_that_all_have(tmp_path, image_set, caplog):
    whole = read_run(ranked(image_set, tmp_path / "whole"))
    for name, kept in (("part", slice(0, 1)), ("other", slice(1, 2))):
        write_run(replace(whole, rankings=whole.rankings[kept]), tmp_path / name)
    for first, second, message in (
        ("whole", "part", "share 1 of their 2 items (part lacks 1). Only these are compared."),
        ("part", "other", "share 0 of their 2 items (part lacks 1, other lacks 1). They cannot"),
    ):
        caplog.clear()
        text = write_report([tmp_path / first, tmp_path / second], tmp_path / "r.html").read_text()
        assert sum(message in told for told in caplog.messages) == 1
        assert ("Of the items of all runs." in text) == (second == "part")
        assert ("no item in common" in text) == (second == "other")


def test_without_the_data_captions_stay_and_data_says_where_they_are(tmp_path, image_set, caplog):
    folder = ranked(image_set, tmp_path / "run")
    moved = shutil.move(image_set, tmp_path / "moved")
    candidate = shown(write_report([folder], tmp_path / "r.html"))["items"][0]["candidates"][0]
    assert (candidate["caption"], candidate["picture"]) == ("a bird with wings", None)
    assert "--data" in caplog.text
    page = write_report([folder], tmp_path / "r.html", data=moved)
    assert shown(page)["items"][0]["candidates"][0]["picture"]
    with pytest.raises(UserError, match="nowhere"):
        write_report([folder], tmp_path / "r.html", data=tmp_path / "nowhere")


def test_data_that_are_others_are_not_read_unless_they_are_named(tmp_path, image_set, caplog):
    """A stranger's run folder can name any data on this machine."""
    run = ranked(image_set, tmp_path / "run")
    foreign = shutil.copytree(run, tmp_path / "foreign")
    private = shutil.copytree(image_set, tmp_path / "private")
    with (private / "manifest.jsonl").open("a") as file:
        file.write("\n")
    record = json.loads((run / "run.json").read_text())
    record["source"]["path"] = str(private)
    (foreign / "run.json").write_text(json.dumps(record))
    for data, seen in ((None, False), (private, True), (image_set, True)):
        caplog.clear()
        page = write_report([foreign], tmp_path / "r.html", data=data)
        assert bool(shown(page)["items"][0]["candidates"][0]["picture"]) == seen
        warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert len(warned) == (data != image_set)
        assert all(f"{private} has changed since the run was made" in text for text in warned)
        assert ("--data" in caplog.text) == (data is None)


def test_gold_that_came_later_is_found_in_the_data_that_are_named(tmp_path, image_set, caplog):
    manifest = image_set / "manifest.jsonl"
    whole = manifest.read_text()
    rows = [json.loads(line) | {"expected_order": []} for line in whole.splitlines()]
    manifest.write_text("\n".join(map(json.dumps, rows)))
    run = ranked(image_set, tmp_path / "run")
    manifest.write_text(whole)
    for data, gold in ((None, None), (image_set, [1, 0])):
        item = shown(write_report([run], tmp_path / "r.html", data=data))["items"][0]
        assert item["gold"] == gold
        assert "has changed since the run was made" in caplog.text


@pytest.mark.parametrize("kind", ["images", "gold"])
def test_what_lies_apart_from_the_data_is_only_read_if_the_data_are_named(tmp_path, kind, caplog):
    names = [f"{k}.png" for k in range(10)]
    place = tmp_path / "foreign"
    (place / "pictures").mkdir(parents=True)
    for name in names:
        Image.new("RGB", (8, 8), "red").save(place / "pictures" / name)
    data, gold = place / "en.test.data.txt", tmp_path / "gold.txt"
    data.write_text("\t".join(["bank", "bank erosion", *names]))
    gold.write_text(names[1])
    items = read_items(data, images=place / "pictures")
    models = {"llms": [explains("Idiomatic")], "encoder": PictureWords()}
    write_run(rank(items, Settings(track="image"), source=data, **models), place / "run")
    record = json.loads((place / "run" / "run.json").read_text())
    apart = {"images": str(place / "pictures")}
    for named in (apart, apart | {kind: str(gold if kind == "gold" else tmp_path / "private")}):
        record["source"] |= named
        (place / "run" / "run.json").write_text(json.dumps(record))
        if kind == "images":
            shutil.copytree(place / "pictures", tmp_path / "private", dirs_exist_ok=True)
        item = shown(write_report([place / "run"], tmp_path / "r.html"))["items"][0]
        assert bool(item["candidates"][0]["picture"]) == (named == apart)
        assert ("is outside the folder" in caplog.text) == (named != apart)
    page = write_report([place / "run"], tmp_path / "r.html", data=data)
    item = shown(page)["items"][0]
    assert item["candidates"][0]["picture"]
    assert item["gold"] == ([1] if kind == "gold" else None)
    assert ("1 of 1 items have a tie at the top" in page.read_text()) == (kind == "gold")


def test_a_picture_that_cannot_be_read_leaves_its_caption(tmp_path, image_set, caplog):
    folder = ranked(image_set, tmp_path / "run")
    (image_set / "pictures" / "2.png").write_bytes(b"\x89PNG\r\n\x1a\n cut off")
    for images in ("embed", "link"):
        caplog.clear()
        item = shown(write_report([folder], tmp_path / "r.html", images=images))["items"][1]
        assert [bool(one["picture"]) for one in item["candidates"]] == [True, False]
        assert "2.png" in caplog.text


def test_rank_writes_a_report_that_the_next_run_may_replace(tmp_path, image_set, capsys):
    recorded = tmp_path / "said.csv"
    rows = ("compound,sense,meaning", "night owl,idiomatic,awake", "cold fish,literal,fish")
    recorded.write_text("\n".join(rows))
    out = tmp_path / "run"
    command = ["rank", image_set, "--out", out, "--llm", f"recorded:{recorded}", "--sense", "given"]
    for _ in range(2):
        code, _, said = run(capsys, *command, "--track", "caption", "--report")
        assert (code, str(out / "report.html") in said) == (0, True)
    assert shown(out / "report.html")["runs"] == [{"name": "run"}]
    for _ in range(2):
        code, _, said = run(capsys, "report", out, "--out", tmp_path / "again.html")
        assert (code, "again.html" in said) == (0, True)
    assert shown(tmp_path / "again.html") == shown(out / "report.html")


def test_the_head_has_the_place_of_a_run_whose_set_is_known(tmp_path, write_table):
    """Captions alone: the board is CTYUN-AI's 0.92 3.43. All ours are right: 1.00 3.63."""
    rows = [admire_row(f"owl {k}", sentence=f"An owl {k}.") for k in range(13)]
    data = write_table(*rows, name="admire_pt/test/subtask_a_pt.tsv")
    folders = [tmp_path / "vote", tmp_path / "given"]
    toys = {"llms": [explains("Idiomatic")], "encoder": WordEncoder(), "source": data}
    order = {"order": tuple(f"{name}.png" for name in "abcde")}
    for folder in folders:
        made = rank(read_items(data), replace(SETTINGS, sense=folder.name), **toys)
        right = tuple(ranking.model_copy(update=order) for ranking in made.rankings)
        write_run(replace(made, rankings=right), folder)
    text = write_report(folders, tmp_path / "r.html").read_text(encoding="utf-8")
    words = " ".join(unescape(re.sub("<[^>]*>", " ", text)).split())
    both, place = "pt-test, Subtask A, caption", "1 to 2 of 2 (1 by the mean)"
    assert f"vote {both} 13 {place} {place}" in words
    assert f"given {both} 13 none, with the gold sense none, with the gold sense" in words
    named = write_report(folders[:1], tmp_path / "r.html", published="en-test", track="caption")
    assert "The gold has 13 items, en-test has 15" in named.read_text(encoding="utf-8")


def test_what_is_no_run_is_refused_and_nothing_is_written(tmp_path, image_set, capsys):
    folder, out = ranked(image_set, tmp_path / "run"), tmp_path / "report.html"
    damaged = shutil.copytree(folder, tmp_path / "damaged")
    (damaged / "items.jsonl").write_text("{")
    for arguments, place in (
        ([tmp_path / "none", "--out", out], "none"),
        ([folder, "--data", tmp_path / "nowhere", "--out", out], "nowhere"),
        ([damaged, "--out", out], "items.jsonl"),
    ):
        code, _, err = run(capsys, "report", *arguments)
        assert (code, place in err, out.exists()) == (2, True, False), err


def test_without_its_packages_a_report_is_refused_before_anything_is_asked(
    tmp_path, image_set, capsys, monkeypatch
):
    hide(monkeypatch, "matplotlib")
    code, _, said = run(capsys, "rank", image_set, "--out", tmp_path / "run", "--report")
    assert (code, ".[report]" in said) == (2, True), said
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("gguf:/home/me/models/small.gguf", "gguf:small.gguf"),
        ("sbert:/home/me/model", "sbert:model"),
        (r"gguf:C:\Users\me\small.gguf", "gguf:small.gguf"),
        ("openclip:ViT-B-32/laion2b_s34b_b79k", "openclip:ViT-B-32/laion2b_s34b_b79k"),
        ("openclip:ViT-B-32//home/me/weights.pt", "openclip:ViT-B-32/weights.pt"),
    ],
)
def test_models_are_named_without_folders(name, shown):
    assert short_name(name) == shown
