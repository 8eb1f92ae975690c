"""What heads and detectors saw in training: on their cards, in runs, and in warnings."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from commands import run
from conftest import admire_row
from PIL import Image
from toys import MarkedEncoder, PictureEncoder, ScriptedChat, WordEncoder, marked

from admire import SAMPLES, Candidate, Item, Settings, UserError, rank, read_items, write_run
from admire.data.overlap import digests, parts_of
from admire.pages.report.tables import ranking_tables
from admire.runs.past_runs import read_run
from admire.scores.cards import seen_by, what_it_saw
from admire.senses import LightDetector, Sense, open_detector, train_detector

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="needs the extra 'train'"
)
learning = pytest.mark.skipif(
    importlib.util.find_spec("sklearn") is None, reason="needs the extra 'train'"
)

COMPOUNDS = ("night owl", "bad apple", "red tape", "couch potato", "cold feet", "hot potato")
TRAIN = ("train", "head", "--soft-negatives", 1, "--epochs", 2, "--hidden", 4, "--output", 4)


def row(compound: str, made: str = "", **changes: str) -> dict[str, str]:
    """A row whose captions no other compound has, unless ``made`` is the same."""
    captions = {f"image{k}_caption": f"a {made or compound} as picture {k}" for k in range(1, 6)}
    return admire_row(compound, **captions | changes)


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Toys in place of the models."""
    llm = ScriptedChat(lambda prompt: "Idiomatic" if "or literally" in prompt else "a late woman")
    for module in ("training.triplets", "rankers.embeddings"):
        monkeypatch.setattr(f"admire.{module}.open_encoder", lambda *_, **__: WordEncoder())
    monkeypatch.setattr("admire.training.triplets.open_source", lambda *_, **__: llm)
    monkeypatch.setattr("admire.runs.run.open_sources", lambda *_, **__: [llm])
    monkeypatch.setattr("admire.runs.sources.open_source", lambda *_, **__: llm)
    monkeypatch.setattr("admire.training.sweep.cores", lambda: 1)


@pytest.fixture
def trained(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, toys: None, write_table: Callable[..., Path]
) -> tuple[Path, Path, dict[str, Any]]:
    """Data, the head that was trained on it, and the head's card."""
    data = write_table(*map(row, COMPOUNDS))
    head = tmp_path / "head"
    code, out, err = run(capsys, *TRAIN, data, "--out", head)
    assert code == 0, err
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


# ------------------------------------------------------------------------------------- heads


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
    capsys, tmp_path, trained, write_table
):
    data, head, card = trained
    out = tmp_path / "run"
    code, _, err = run(capsys, "rank", data, "--llm", "x", "--head", head, "--out", out)
    assert code == 0, err
    (unseen,) = card["compounds"]["test"]
    kinds = ["compound", "sentence", "caption"]
    assert {one["compound"]: one.get("seen") for one in rows(out)} == {
        name: None if name == unseen else {"head": kinds} for name in COMPOUNDS
    }
    said = lines(err)
    assert said[0] == (
        f"{out}: 5 of 6 items share compounds (5), sentences (5) and captions (5) with what the "
        "head saw in training."
    )
    assert said[1].startswith(f"{out}: Figures of the other 1: top1 ")

    submission = out / "submission_en.tsv"
    code, scored, err = run(capsys, "score", submission, "--gold", data, "--json")
    assert code == 0, err
    assert lines(err) == said
    alone = tmp_path / "alone.tsv"
    alone.write_bytes(submission.read_bytes())
    code, other, err = run(capsys, "score", alone, "--gold", data, "--json")
    assert (code, lines(err)) == (0, [])
    assert json.loads(other)[str(alone)] == json.loads(scored)[str(submission)]

    # Of the gold of two items alone, the first of which was not seen.
    two = [unseen, *card["compounds"]["training"][:1]]
    gold = write_table(*map(row, two), name="two/two.tsv")
    table = pd.read_csv(submission, sep="\t")
    table[table["compound"].isin(two)].to_csv(submission, sep="\t", index=False)
    code, _, err = run(capsys, "score", submission, "--gold", gold)
    assert code == 0, err
    assert "1 of 2 items share" in lines(err)[0]


@needs_torch
def test_of_a_head_that_saw_other_things_nothing_is_said(capsys, tmp_path, trained, write_table):
    _, head, card = trained
    others = write_table(row("cold turkey"), row("big fish"), name="others/others.tsv")
    command = ("rank", others, "--llm", "x", "--head", head, "--out", tmp_path / "run")
    code, _, err = run(capsys, *command)
    assert (code, lines(err)) == (0, [])
    assert not any("seen" in one for one in rows(tmp_path / "run"))
    (head / "head.json").write_text(json.dumps({k: v for k, v in card.items() if k != "saw"}))
    code, _, err = run(capsys, *command)
    assert (code, "does not list what it was trained on" in err) == (0, True)
    (head / "head.json").write_text(json.dumps(card | {"saw": ["night owl"]}))
    code, _, err = run(capsys, *command)
    assert (code, "the head cannot be read" in err) == (2, True)


@needs_torch
@pytest.mark.parametrize(
    "command",
    [
        TRAIN,
        ("sweep", "--soft-negatives", 1, "--batch-size", 2, "--learning-rate", 0.01,
         "--temperature", 0.1, "--dropout", 0.1, "--epochs", 1, "--folds", 6),
    ],
    ids=["train", "sweep with folds"],
)  # fmt: skip
def test_training_warns_if_what_is_tested_shares_captions_with_other_compounds(
    capsys, tmp_path, toys, write_table, command
):
    alike = write_table(*(row(compound, made="lamp") for compound in COMPOUNDS), name="alike.tsv")
    apart = write_table(*map(row, COMPOUNDS), name="apart.tsv")
    found = {}
    for data in (alike, apart):
        code, _, err = run(capsys, *command, data, "--out", tmp_path / data.stem)
        assert code == 0, err
        found[data.stem] = [one for one in err.splitlines() if "share" in one]
    assert found["apart"] == []
    (said,) = found["alike"]
    count = 6 if "--folds" in command else 1
    assert said.startswith(
        f"{count} of {count} items that are evaluated share captions ({count}) with items of other "
        "compounds that "
    )
    assert "the caption 'a lamp as picture 1' of '" in said


# --------------------------------------------------------------------------------- detectors


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admire.senses.light.open_encoder", lambda _: MarkedEncoder())


def ranked(item: Item) -> Item:
    return replace(
        item,
        candidates=(Candidate("a.png", caption="a lamp"), Candidate("b.png", caption="an owl")),
        expected_order=("a.png", "b.png"),
    )


SETTINGS = Settings(llms=("x",), sense="detector", track="caption")


@learning
def test_a_detectors_card_lists_compounds_and_sentences_and_a_run_tells_which_it_saw(
    capsys, tmp_path, toys, reader
):
    seen = [ranked(item) for item in marked(compounds=10)]
    left_out = [item for item in seen if item.compound == "c3"]
    detector = train_detector(seen, MarkedEncoder(), leave_out=["C 3s"])
    saw = digests(parts_of([item for item in seen if item not in left_out], pictures=False))
    assert detector.card["saw"] == saw | {"caption": []}
    detector.save(tmp_path / "detector.json")

    new = Item("c1", "A c1 in a new sentence.", sentence_type="literal")
    wanted = [seen[0], ranked(new), left_out[0]]
    data = write_items(tmp_path / "data.jsonl", wanted)
    out = tmp_path / "run"
    options = ("--llm", "x", "--sense", "detector", "--detector", tmp_path / "detector.json")
    code, _, err = run(capsys, "rank", data, "--out", out, *options)
    assert code == 0, err
    assert [one.get("seen") for one in rows(out)] == [
        {"detector": ["compound", "sentence"]},
        {"detector": ["compound"]},
        None,
    ]
    said = lines(err)
    assert said[0] == (
        f"{out}: 2 of 3 items share compounds (2) and sentences (1) with what the detector saw in "
        "training."
    )
    assert said[1].startswith(f"{out}: Figures of the other 1: ")

    code, _, err = run(capsys, "sense", data, "--out", tmp_path / "senses.tsv", *options)
    assert code == 0, err
    first, other = lines(err)
    assert first == said[0].replace(str(out), str(data))
    assert other.startswith(f"{data}: Figures of the other 1: accuracy ")
    page = ranking_tables([read_run(out)], ["run"])[0].note
    assert " ".join(one.removeprefix(f"{out}: ") for one in said).removesuffix(".") in page

    table = [("EN", one.compound, one.sentence, "1") for one in wanted]
    csv = tmp_path / "uses.csv"
    pd.DataFrame(table, columns=["Language", "MWE", "Target", "Label"]).to_csv(csv, index=False)
    code, _, err = run(capsys, "detect", csv, *options[-2:])
    assert code == 0, err
    assert lines(err)[0] == said[0].replace(str(out), str(csv))

    code, _, err = run(capsys, "rank", data, "--out", out, "--llm", "x", "--sense", "given")
    assert (code, lines(err)) == (0, [])
    assert not any("seen" in one for one in rows(out))


@learning
def test_training_a_detector_warns_if_compounds_have_the_same_sentence(caplog):
    items = marked()
    train_detector(items, MarkedEncoder())
    assert not caplog.records
    said = "A c0 and a c1, really 1."
    twice = [
        replace(item, sentence=said) if item.sentence in ("A c0 really 1.", "A c1 really 1.")
        else item
        for item in items
    ]  # fmt: skip
    train_detector(twice, MarkedEncoder())
    (record,) = caplog.records
    assert "of 80 items that are evaluated share sentences (" in record.getMessage()
    assert f"The first is the sentence '{said}' of 'c" in record.getMessage()


def test_the_built_in_detectors_card_lists_as_much_as_it_was_trained_on():
    detector = open_detector()
    saw = what_it_saw(detector)
    assert len(saw["compound"]) == detector.card["compounds"] == 429
    assert len(saw["sentence"]) == 1342  # two stand twice among 1,344
    seen = seen_by(read_items(SAMPLES), {"detector": saw}, pictures=False)
    names = [item.compound for item in read_items(SAMPLES)]
    assert [name for name, one in zip(names, seen, strict=True) if one] == [
        "paper tiger",
        "fat cat",
        "fat cat",
    ]


def test_the_built_in_detector_saw_nothing_of_admires_subtask_a(shared: Path):
    saw = {"detector": what_it_saw(open_detector())}
    for name in ("dev", "train"):
        items = read_items(shared / "admire_en" / name / f"subtask_a_{name}.tsv")
        assert not any(seen_by(items, saw, pictures=False))


# -------------------------------------------------------------------------------------- runs


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
    assert seen_by(again, saw, pictures=True) == [*texts, {"head": ["picture"]}]
    assert seen_by(again, saw, pictures=False) == [*texts, {}]


def of_pictures(folder: Path) -> list[Item]:
    """Items whose pictures are texts, which only a toy reads."""
    for name in ("a.png", "b.png"):
        (folder / name).write_text(f"a picture {name}")
    candidates = tuple(Candidate(name, folder / name) for name in ("a.png", "b.png"))
    return [Item("night owl", "A night owl.", candidates=candidates, sentence_type="literal")]


class Card:
    """A detector that takes all as literal, with a card."""

    identity = "card:1"
    columns = ()
    setting = None

    def __init__(self, saw: dict[str, list[str]]):
        self.card = {"saw": saw}

    def classify(self, uses):
        return [Sense("literal", 0.0, 0, 1) for _ in uses]


def test_pictures_are_read_only_if_the_card_lists_some(tmp_path: Path):
    items = of_pictures(tmp_path)
    saw = digests(parts_of(items, pictures=False))

    def seen(**more: list[str]) -> Any:
        settings = Settings(llms=(), sense="detector", track="image")
        llm = ScriptedChat(lambda _: "a bird")
        told = {"llms": [llm], "encoder": PictureEncoder(), "detector": Card(saw | more)}
        return rank(items, settings, **told).rankings[0].seen

    assert seen() == {"detector": ["compound", "sentence"]}
    with pytest.raises(UserError, match=r"a\.png"):
        seen(picture=["0" * 64])


def test_blocks_say_the_same_and_runs_fused_or_tuned_say_what_each_saw(
    capsys, tmp_path, toys, monkeypatch
):
    data = write_items(
        tmp_path / "data.jsonl",
        [
            ranked(Item(name, f"A {name} in a sentence.", sentence_type="literal"))
            for name in COMPOUNDS
        ],
    )
    items = read_items(data)
    once, blocks, without = (tmp_path / name for name in ("once", "blocks", "without"))
    saw = digests(parts_of(items[:2]))
    path = tmp_path / "detector.json"
    card = {"saw": {kind: saw[kind] for kind in ("compound", "sentence")}}
    LightDetector("marked", "marked:1", np.zeros((1, 4)), np.ones(1), True, card).save(path)
    monkeypatch.setattr("admire.senses.light.open_encoder", lambda _: MarkedEncoder())
    write_run(rank(items, replace(SETTINGS, detector=str(path)), source=data), once)
    monkeypatch.setattr("admire.runs.ranking.BLOCK", 2)
    options = ("--llm", "x", "--sense", "detector", "--detector", path, "--track", "caption")
    assert run(capsys, "rank", data, "--out", blocks, *options)[0] == 0
    assert (once / "items.jsonl").read_bytes() == (blocks / "items.jsonl").read_bytes()
    assert [bool(one.seen) for one in read_run(blocks).rankings] == [True] * 2 + [False] * 4

    given = ("--llm", "x", "--sense", "given", "--track", "caption")
    assert run(capsys, "rank", data, "--out", without, *given)[0] == 0
    for command in (("fuse", without, once, "--out", tmp_path / "fused"), ("tune", once),
                    ("tune", without, once)):  # fmt: skip
        code, _, err = run(capsys, *command)
        assert code == 0, err
        said = lines(err)
        assert "2 of 6 items share compounds (2) and sentences (2) with what the" in said[0]
        assert "Figures of the other 4: top1 " in said[1]


def test_where_all_items_were_seen_there_are_no_other_figures(capsys, tmp_path, toys, reader):
    items = [ranked(Item("c0", "A c0.", sentence_type="literal"))]
    saw = {"saw": digests(parts_of(items, pictures=False))}
    detector = LightDetector("marked", "marked:1", np.zeros((1, 4)), np.ones(1), True, saw)
    out = tmp_path / "run"
    (submission,) = write_run(rank(items, SETTINGS, detector=detector), out)
    gold = write_items(tmp_path / "gold.jsonl", items)
    code, _, err = run(capsys, "score", submission, "--gold", gold)
    assert code == 0, err
    assert "So these figures say little of unseen items." in err
    assert "Figures of" not in err

    # Rows that cannot be read take nothing from the figures.
    (out / "items.jsonl").write_text('{"seen": {"head": "caption"}}\n')
    code, stdout, err = run(capsys, "score", submission, "--gold", gold)
    assert code == 0, err
    assert "literal" in stdout
    assert "What was seen in training is not known." in err


@pytest.mark.parametrize(
    "saw",
    [
        ["night owl"],
        {"word": []},
        {"caption": "882099af2b09373f"},
        {"caption": ["882099AF2B09373F"]},
    ],
)
def test_a_detector_whose_card_lists_something_else_is_refused(tmp_path: Path, saw):
    path = tmp_path / "detector.json"
    LightDetector("x", "x:1", np.zeros((1, 4)), np.zeros(1), True, {"saw": saw}).save(path)
    with pytest.raises(UserError, match=r"detector\.json: is not a detector that admire wrote"):
        open_detector(path)
