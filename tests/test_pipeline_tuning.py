import json
import re
from dataclasses import asdict, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import passed, run
from conftest import admire_row
from toys import PictureEncoder, ScriptedChat, WordEncoder, explains

from admire import Candidate, Item, Run, Scoring, Settings, UserError, rank, write_run
from admire.core.choices import Track
from admire.pipeline.fusion import fuse
from admire.pipeline.run_folder import read_cosines, read_record
from admire.pipeline.tuning import (
    cross_validate,
    gates,
    rescore_all,
    scorings,
    sides,
    tune_weights,
    weightings,
)
from admire.senses.meaning import TEXTS


def owl(k: int) -> Item:
    """The gloss and the compound want different candidates; gold agrees with the gloss."""
    return Item(
        f"owl{k}",
        f"An owl{k}.",
        candidates=(
            Candidate("bird", caption=f"owl{k} owl{k} awake"),
            Candidate("person", caption=f"person awake owl{k}"),
            Candidate("bike", caption="a red bicycle"),
        ),
        sentence_type="idiomatic",
        expected_order=("person", "bird", "bike"),
    )


def rescored(folder: Path, scoring: Scoring) -> list[tuple[str, ...]]:
    """Each item's order in a run folder under a scoring."""
    parts, noise = read_cosines(folder)[1], read_record(folder)["noise"]
    return [order for ((order, _),) in rescore_all(parts, [scoring], noise)]


@pytest.fixture
def folder(tmp_path):
    chat = ScriptedChat(lambda p: "Idiomatic" if "or literally" in p else "A person awake late.")
    settings = Settings(sense="vote", meanings="gloss", scoring=Scoring.paper())
    run = rank([owl(k) for k in range(4)], settings, llms=[chat], encoder=WordEncoder())
    write_run(run, tmp_path / "run")
    return run, tmp_path / "run"


def test_a_compounds_items_are_held_out_together(folder):
    """Three of one compound want the odd scoring, but have no say for each other."""
    _, path = folder
    items, parts, _ = read_cosines(path)
    odd = replace(items[0], expected_order=("bird", "person", "bike"))
    tried = Scoring.paper(contrast=-2.0), Scoring.paper()
    orders = rescore_all([parts[0], parts[0], parts[0], *parts[1:3]], tried)
    scored, best = cross_validate([odd, odd, odd, *items[1:3]], orders, folds=3, repeats=3)
    assert scored["top1"].tolist()[:3] == pytest.approx([0, 0, 0])
    assert best == 0


def test_a_run_without_gold_or_of_few_compounds_cannot_be_tuned(folder):
    _, path = folder
    items, parts, _ = read_cosines(path)
    with pytest.raises(UserError, match="5 folds need at least 5 compounds; there are 4"):
        cross_validate(items, rescore_all(parts, scorings()))
    text = (path / "items.jsonl").read_text()
    (path / "items.jsonl").write_text(text.replace('["person", "bird", "bike"]', "null"))
    with pytest.raises(UserError, match=r"item 1 \('owl0'\) has no gold order"):
        read_cosines(path)


def test_the_papers_scoring_goes_first_of_those_of_one_track():
    tried = scorings()
    assert tried[0] == Scoring.paper()
    assert len(tried) == len(set(tried)) == 18
    assert {(s.image_weight, s.caption_weight) for s in tried} == {(1.0, 1.0)}


class OtherWords(WordEncoder):
    """As WordEncoder, of other dimensions: for captions, where images have another encoder."""

    name = "other words"
    identity = "other words:1"

    def encode_texts(self, texts, *, role):
        vectors = super().encode_texts(texts, role=role)[:, :300] + np.float32(0.01)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def pictured(folder: Path, k: int) -> Item:
    """Captions agree with gold, pictures hardly; one of each is missing."""
    captions = ("person awake late", f"owl{k} person awake", f"owl{k} awake", None, "red bicycle")
    shown = (f"owl{k} at night", "red person", None, "person awake", f"late owl{k} person awake")
    candidates = []
    for name, caption, picture in zip("abcde", captions, shown, strict=True):
        image = folder / f"{k}{name}.png"
        if picture:
            image.write_text(picture)
        candidates.append(Candidate(name, image if picture else None, caption))
    return Item(
        f"owl{k}",
        f"An owl{k}.",
        candidates=tuple(candidates),
        sentence_type="idiomatic" if k % 3 else "literal",
        expected_order=tuple("abcde"),
    )


def chats() -> list[ScriptedChat]:
    """Two models with glosses of their own, of which the first is never sure of the sense."""
    votes = count()

    def answer(prompt: str) -> str:
        if "or literally" not in prompt:
            return "A person awake late."
        usual = ("Idiomatic", "Literal")["owl0" in prompt or "owl3" in prompt]
        unusual = "Idiomatic" if usual == "Literal" else "Literal"
        return unusual if next(votes) % 3 == 2 else usual

    second = ScriptedChat(lambda p: "Idiomatic" if "or literally" in p else "Red, late.", "second")
    return [ScriptedChat(answer), second]


def pictured_run(
    folder: Path, scoring: Scoring, track: Track | None = None, **encoders: Any
) -> Run:
    return rank(
        [pictured(folder, k) for k in range(5)],
        Settings(sense="vote", meanings="gloss", votes=3, track=track, scoring=scoring),
        llms=chats(),
        **{"encoder": PictureEncoder()} | encoders,
    )


APART = {"caption_encoder": OtherWords()}
TWO = {"encoder": [PictureEncoder(), OtherWords()]}


def described_run(folder: Path, scoring: Scoring) -> Run:
    """Two models describe both senses; one of them says nothing of the idiomatic sense of owl1."""

    def answer(prompt: str) -> str:
        if "or literally" in prompt:
            return "Literal" if "owl3" in prompt else "Idiomatic"
        if "idiom of the sentence" not in prompt:
            return '{"definitions": ["owl with wings"], "scene": "a tree at night"}'
        return "" if "owl1" in prompt else "1. A person awake late.\n2. late\nScene: red bicycle"

    return rank(
        [pictured(folder, k) for k in range(5)],
        Settings(sense="vote", votes=1, scoring=scoring),
        llms=[ScriptedChat(answer), explains("Idiomatic")],
        encoder=PictureEncoder(),
    )


# Of a hard gate's run the glosses of literal items are not known, so the soft one is recorded.
RECORDED = Scoring.paper(gate="soft", standardise="item")
DESCRIBED = scorings(2, 1, ("hard", "soft"), (("gloss", "compound"), TEXTS))
SOME = Scoring.paper(contrast=1, texts=("scene", "literal2", "literal_scene"))


@pytest.mark.parametrize(
    ("ranked", "recorded", "encoders", "tried"),
    [
        (partial(pictured_run, track="image+caption"), RECORDED, 1, scorings(2)[::19]),
        (partial(pictured_run, **APART), RECORDED, 2, scorings(2, 2)[::13]),
        (partial(pictured_run, **TWO), RECORDED, 1, scorings(2)[::19]),
        (described_run, Scoring.paper(), 1, [*DESCRIBED[::43], SOME]),
    ],
    ids=["both", "captions apart", "two encoders", "both senses described"],
)
def test_rescoring_gives_what_a_run_with_that_scoring_gives(
    tmp_path, ranked, recorded, encoders, tried
):
    write_run(ranked(tmp_path, recorded), tmp_path / "run")
    assert read_cosines(tmp_path / "run")[2] == encoders
    orders = set()
    for scoring in tried:
        order = rescored(tmp_path / "run", scoring)
        assert order == [ranking.order for ranking in ranked(tmp_path, scoring).rankings]
        orders.add(tuple(order))
    assert len(orders) > 3  # else nothing would have been compared


def test_a_run_that_describes_both_senses_can_be_rescored_by_all_of_its_queries(tmp_path):
    write_run(described_run(tmp_path, Scoring.paper()), tmp_path / "run")
    _, parts, _ = read_cosines(tmp_path / "run")
    tried = scorings(2, 1, gates(parts), sides(parts))
    assert tried == DESCRIBED
    assert len(tried) == len(set(tried)) == 180
    assert set(scorings(2)) < set(tried)


def tune(capsys: pytest.CaptureFixture[str], folder: Path) -> str:
    """The options that ``admire tune`` chooses for a run folder."""
    out, err = passed(capsys, "tune", folder)
    assert "settings tuned on the other compounds" in " ".join(out.split())
    found = re.search("Best on all items: (.*)\n", err)
    assert found
    return found[1]


@pytest.mark.parametrize(
    ("track", "encoders", "made"),
    [(None, 2, partial(pictured_run, **APART)), ("image", 1, partial(pictured_run, track="image"))],
)
def test_tune_prints_options_that_give_what_it_promises(
    capsys, tmp_path, write_table, words, track, encoders, made
):
    write_run(made(tmp_path, RECORDED), tmp_path / "run")
    options = tune(capsys, tmp_path / "run")
    assert ("--image-weight" in options) == (track is None)
    assert ("--caption-weight" in options) == (track is None)
    if encoders == 2:
        assert " --standardise" in options

    items, parts, _ = read_cosines(tmp_path / "run")
    tried = scorings(1 if track else 2, encoders)
    noise = read_record(tmp_path / "run")["noise"]
    best = tried[cross_validate(items, rescore_all(parts, tried, noise))[1]]
    data, llm = write_table(admire_row("owl1", sentence="An owl1.")), f"run:{tmp_path / 'run'}"
    passed(capsys, "rank", data, "--llm", llm, *options.split(), "--out", tmp_path / "ranked")
    kept = read_record(tmp_path / "ranked")["settings"]["scoring"]
    assert kept == json.loads(json.dumps(asdict(best)))
    found = made(tmp_path, best)
    assert rescored(tmp_path / "run", best) == [r.order for r in found.rankings]
    paper = made(tmp_path, tried[0])
    assert found.items_frame()["dcg"].mean() > paper.items_frame()["dcg"].mean()


def test_tune_keeps_a_default_that_other_compounds_would_make_worse(capsys, tmp_path):
    """Each compound wants what the others do not, and the run already has it."""
    write_run(pictured_run(tmp_path, RECORDED, "image"), tmp_path / "run")
    path = tmp_path / "run" / "items.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    gold = [row | {"expected_order": row["order"]} for row in rows]
    gold[0]["tied"] = gold[0]["order"][:2]
    path.write_text("\n".join(map(json.dumps, gold)) + "\n")
    out, err = passed(capsys, "tune", tmp_path / "run")
    assert f"1 of {len(gold)} items have a tie at the top" in " ".join(out.split())
    titles = ("Default: ", "Tuned: ", "Tuned minus default")
    assert [title for title in titles if title not in out] == []
    assert re.search(r"Keep the default.*top-1 (\+0.000|-)", err)


@pytest.mark.parametrize(
    ("scoring", "expected"), [(Scoring.paper(), ("hard",)), (RECORDED, ("hard", "soft"))]
)
def test_a_run_without_glosses_of_literal_uses_tells_nothing_of_the_soft_gate(
    capsys, tmp_path, scoring, expected
):
    write_run(pictured_run(tmp_path, scoring), tmp_path / "run")
    assert gates(read_cosines(tmp_path / "run")[1]) == expected
    assert "soft" in expected or "--gate hard" in tune(capsys, tmp_path / "run")


def test_equal_weights_are_tried_first_and_then_those_near_to_them():
    assert weightings(2)[:3] == ((1, 1), (2, 3), (3, 2))
    assert len(weightings(2)) == 11
    assert len(weightings(3)) == 67  # thirds are no tenths
    for runs in (2, 3, 12, 50):
        tried = weightings(runs)
        assert tried[0] == (1,) * runs
        assert len(tried) == len(set(tried)) <= 1002
        assert all(len(weights) == runs and sum(weights) for weights in tried)
        assert {tuple(int(k == one) for k in range(runs)) for one in range(runs)} <= set(tried)


@pytest.fixture
def two_runs(tmp_path: Path) -> list[Path]:
    """Of five compounds the first run has three right, the second all."""
    folders = [tmp_path / name for name in ("half", "right")]
    words = ["person person awake", "person", "person", "bird bird bike", "bike"]
    for folder, glosses in zip(folders, (words, ["person person"] * 5), strict=True):
        said = {f"owl{k}": gloss for k, gloss in enumerate(glosses)}

        def answer(prompt: str, said: dict[str, str] = said) -> str:
            if "or literally" in prompt:
                return "Idiomatic"
            return next(gloss for compound, gloss in said.items() if compound in prompt)

        settings = Settings(sense="vote", votes=1, meanings="gloss", scoring=Scoring.paper())
        items = [replace(owl(k), candidates=CANDIDATES) for k in range(5)]
        write_run(rank(items, settings, llms=[ScriptedChat(answer)], encoder=WordEncoder()), folder)
    return folders


CANDIDATES = (
    Candidate("bird", caption="a bird"),
    Candidate("person", caption="a person"),
    Candidate("bike", caption="a bike"),
)


def test_runs_are_weighed_as_other_compounds_choose(two_runs):
    """Every way of ranking that is right about the others is right about the one left out."""
    for method in ("scores", "borda", "rrf"):
        before, scored, weights = tune_weights(two_runs, method)
        half, right = weights
        assert half < right
        fused = fuse(two_runs, weights=weights, method=method)
        assert fused.items_frame()["top1"].tolist() == [1] * 5
        assert scored["compound"].tolist() == [f"owl{k}" for k in range(5)]
        equal = fuse(two_runs, method=method)
        assert equal.items_frame()["top1"].mean() < 1
        assert before["top1"].tolist() == equal.items_frame()["top1"].tolist()
        ties = [ranking.prediction.tied_first for ranking in equal.rankings]
        assert before["tied_first"].tolist() == ties
        assert any(ties)


def test_weights_prints_the_command_that_fuses_with_the_weights(two_runs, capsys, tmp_path):
    out, err = passed(capsys, "tune-fusion", *two_runs, "--method", "borda", "--json")
    default, tuned, gain = (
        next(row["mean"] for row in rows if row["metric"] == "top1")
        for rows in json.loads(out).values()
    )
    assert (tuned, gain) == (pytest.approx(1), pytest.approx(1 - default))
    assert gain > 0
    assert "Keep the default" not in err
    found = re.search("admire (fuse .* --method borda --weight .*)\n", err)
    assert found
    assert run(capsys, *found[1].split(), "--out", tmp_path / "fused")[0] == 0
    record = json.loads((tmp_path / "fused" / "run.json").read_text())
    *_, weights = tune_weights(two_runs, "borda")
    assert tuple(one["weight"] for one in record["fused"]) == weights
