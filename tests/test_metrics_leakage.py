"""What heads and detectors saw in training: on their cards, in runs, and in warnings."""

import importlib.util
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import passed, run
from conftest import admire_row
from PIL import Image
from toys import MarkedEncoder, ScriptedChat, WordEncoder, marked

from admire import SAMPLES, Candidate, Item, Settings, rank, read_items, write_run
from admire.apps.report.gallery import Cards
from admire.apps.report.tables import ranking_tables
from admire.core.registry import register
from admire.data.overlap import digests, parts_of
from admire.embedded.light_detector import LightDetector, Reader
from admire.metrics.leakage import find_leaks, training_digests
from admire.pipeline.run_folder import read_run
from admire.senses import open_detector
from admire.tasks.training import train_detector

needs_torch, learning = (
    pytest.mark.skipif(not importlib.util.find_spec(package), reason="needs the extra 'train'")
    for package in ("torch", "sklearn")
)

COMPOUNDS = ("night owl", "bad apple", "red tape", "couch potato", "cold feet", "hot potato")
MODELS = ("--llm", "x", "--encoder", "words")
TRAIN = ("train", "head", "--soft-negatives", 1, "--epochs", 2, "--hidden", 4, "--output", 4)


def row(compound: str, made: str = "", **changes: str) -> dict[str, str]:
    """A row whose captions no other compound has, unless ``made`` is the same."""
    captions = {f"image{k}_caption": f"a {made or compound} as picture {k}" for k in range(1, 6)}
    return admire_row(compound, **captions | changes)


@pytest.fixture(autouse=True)
def toys(forgotten: None) -> None:
    """Toys under the names that these tests use."""
    llm = ScriptedChat(lambda prompt: "Idiomatic" if "or literally" in prompt else "a late woman")
    register("chat", "x")(lambda: llm)
    register("encoder", "words")(WordEncoder)
    register("encoder", "marked")(MarkedEncoder)


@pytest.fixture
def trained(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, write_table: Callable[..., Path]
) -> tuple[Path, Path, dict[str, Any]]:
    """Data, the head that was trained on it, and the head's card."""
    data = write_table(*map(row, COMPOUNDS))
    head = tmp_path / "head"
    out, err = passed(capsys, *TRAIN, *MODELS, data, "--out", head, "--json")
    assert "share" not in err
    card = json.loads((head / "head.json").read_text())
    assert json.loads(out)["saw"] == {kind: len(found) for kind, found in card["saw"].items()}
    return data, head, card


def write_items(path: Path, items: Sequence[Item]) -> Path:
    """The items as JSON Lines."""
    rows = [
        {
            "compound": item.compound,
            "sentence": item.sentence,
            "sentence_type": item.sentence_type,
            "expected_order": list(item.expected_order or ()),
            "candidates": [{"image": c.name, "caption": c.caption} for c in item.candidates],
        }
        for item in items
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def lines(err: str) -> list[str]:
    """What is said of what was seen."""
    return [one for one in err.splitlines() if " saw " in one or "Figures of" in one]


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "items.jsonl").read_text().splitlines()]


@needs_torch
def test_a_heads_card_lists_what_it_was_fitted_and_stopped_on_and_no_more(trained):
    data, _, card = trained
    parts = card["compounds"]
    learned = {*parts["training"], *parts["validation"]}
    items = read_items(data)
    saw = digests(parts_of([item for item in items if item.compound in learned], pictures=False))
    assert card["saw"] == saw
    assert (len(saw["compound"]), len(saw["caption"])) == (5, 25)
    assert parts["test"] == sorted({item.compound for item in items} - learned)


@needs_torch
def test_a_run_and_its_scores_tell_what_the_head_saw_and_what_the_others_give(
    capsys, tmp_path, trained
):
    data, head, card = trained
    out = tmp_path / "run"
    _, err = passed(capsys, "rank", data, *MODELS, "--head", head, "--out", out)
    (unseen,) = card["compounds"]["test"]
    kinds = ["compound", "sentence", "caption"]
    assert {one["compound"]: one.get("seen") for one in rows(out)} == {
        name: None if name == unseen else {"head": kinds} for name in COMPOUNDS
    }
    said = lines(err)
    assert said[0].startswith(f"{out}: 5 of 6 items share compounds (5), sentences (5) and capt")
    assert said[1].startswith(f"{out}: Figures of the other 1: top1 ")
    code, _, err = run(capsys, "score", out / "submission_en.tsv", "--gold", data)
    assert (code, lines(err)) == (0, said)


@needs_torch
def test_training_warns_if_what_is_tested_shares_captions_with_other_compounds(
    capsys, tmp_path, write_table
):
    data = write_table(*(row(compound, made="lamp") for compound in COMPOUNDS), name="alike.tsv")
    _, err = passed(capsys, *TRAIN, *MODELS, data, "--out", tmp_path / "alike")
    (said,) = [one for one in err.splitlines() if "share" in one]
    assert said.startswith("1 of 1 items that are evaluated share captions (1)")
    assert "'a lamp as picture 1'" in said


def ranked(item: Item) -> Item:
    return replace(
        item,
        candidates=(Candidate("a.png", caption="a lamp"), Candidate("b.png", caption="an owl")),
        expected_order=("a.png", "b.png"),
    )


SETTINGS = Settings(llms=("x",), encoder="words", sense="detector", track="caption")


@learning
def test_a_detectors_card_lists_compounds_and_sentences_and_a_run_tells_which_it_saw(
    capsys, tmp_path
):
    seen = [ranked(item) for item in marked(compounds=10)]
    left_out = [item for item in seen if item.compound == "c3"]
    detector = train_detector(seen, [MarkedEncoder()], leave_out=["C 3s"])
    saw = digests(parts_of([item for item in seen if item not in left_out], pictures=False))
    assert detector.card["saw"] == saw | {"caption": []}
    detector.save(tmp_path / "detector.json")

    new = Item("c1", "A c1 in a new sentence.", sentence_type="literal")
    wanted = [seen[0], ranked(new), left_out[0]]
    data = write_items(tmp_path / "data.jsonl", wanted)
    out = tmp_path / "run"
    options = ("--llm", "x", "--sense", "detector", "--detector", tmp_path / "detector.json")
    _, err = passed(capsys, "rank", data, "--out", out, *options, "--encoder", "words")
    assert [one.get("seen") for one in rows(out)] == [
        {"detector": ["compound", "sentence"]},
        {"detector": ["compound"]},
        None,
    ]
    said = lines(err)
    assert said[0].startswith(f"{out}: 2 of 3 items share compounds (2) and sentences (1)")
    assert said[1].startswith(f"{out}: Figures of the other 1: ")
    _, err = passed(capsys, "sense", data, "--out", tmp_path / "senses.tsv", *options)
    first, other = lines(err)
    assert first == said[0].replace(str(out), str(data))
    assert other.startswith(f"{data}: Figures of the other 1: accuracy ")
    made = read_run(out)
    cards = Cards([enumerate(made.rankings)], [made.record])
    page = ranking_tables(cards.scores, ["run"])[0].note
    assert " ".join(one.removeprefix(f"{out}: ") for one in said).removesuffix(".") in page


def test_the_built_in_detectors_card_lists_as_much_as_it_was_trained_on():
    detector = open_detector()
    saw = training_digests(detector)
    assert len(saw["compound"]) > detector.card["compounds"]  # with the forms of expressions
    assert 0.99 < len(saw["sentence"]) / detector.card["items"] <= 1  # some stand twice
    seen = find_leaks(read_items(SAMPLES), {"detector": saw}, pictures=False)
    names = [item.compound for item, kinds in zip(read_items(SAMPLES), seen, strict=True) if kinds]
    assert names == ["paper tiger", "fat cat", "fat cat"]


def test_the_built_in_detector_saw_nothing_of_admires_subtask_a(shared: Path):
    saw = {"detector": training_digests(open_detector())}
    for name in ("dev", "train"):
        items = read_items(shared / "admire_en" / name / f"subtask_a_{name}.tsv")
        assert not any(find_leaks(items, saw, pictures=False))


def test_the_same_captions_and_pictures_are_found_under_other_names(tmp_path: Path):
    """As in AdMIRe's extended English set."""
    item = next(item for item in read_items(SAMPLES) if item.candidates[0].image)
    path = tmp_path / "copy.jpg"
    with Image.open(item.candidates[0].image) as picture:
        picture.convert("RGB").resize((picture.width // 2, picture.height // 2)).save(path)
    caption = item.candidates[0].caption
    again = [
        Item(item.compound, "Real.", candidates=(Candidate("new.png", caption=caption),)),
        Item("late bird", "Another.", candidates=(Candidate("new.png", caption=caption),)),
        Item("late bird", "Another.", candidates=(Candidate(path.name, path),)),
    ]
    saw = {"head": digests(parts_of([item]))}
    texts = [{"head": ["compound", "caption"]}, {"head": ["caption"]}]
    assert find_leaks(again, saw, pictures=True) == [*texts, {"head": ["picture"]}]
    assert find_leaks(again, saw, pictures=False) == [*texts, {}]


def test_runs_that_are_fused_or_tuned_say_what_each_saw(capsys, tmp_path):
    items = [
        ranked(Item(name, f"A {name} in a sentence.", sentence_type="literal"))
        for name in COMPOUNDS
    ]
    data = write_items(tmp_path / "data.jsonl", items)
    saw = {"saw": digests(parts_of(items[:2], pictures=False)) | {"caption": []}}
    detector = LightDetector(
        (Reader(name="marked", identity="marked:1"),), np.zeros((1, 8)), np.ones(1), True, saw
    )
    once, without = tmp_path / "once", tmp_path / "without"
    write_run(rank(items, SETTINGS, detector=detector, source=data), once)
    write_run(rank(items, replace(SETTINGS, sense="given"), source=data), without)
    for command in (("fuse", without, once, "--out", tmp_path / "fused"), ("tune", once)):
        _, err = passed(capsys, *command)
        said = lines(err)
        assert "2 of 6 items share compounds (2) and sentences (2) with what the" in said[0]
        assert "Figures of the other 4: top1 " in said[1]
