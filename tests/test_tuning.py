from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from toys import ScriptedChat, WordEncoder

from admire import Candidate, Item, Scoring, Settings, UserError, rank, write_run
from admire.run_folder import read_run
from admire.tuning import cross_validate, grid, rescore


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


@pytest.fixture
def folder(tmp_path):
    chat = ScriptedChat(lambda p: "Idiomatic" if "literally" in p else "A person awake late.")
    settings = Settings(sense="vote", scoring=Scoring())
    run = rank([owl(k) for k in range(4)], settings, llms=[chat], encoder=WordEncoder())
    write_run(run, tmp_path / "run")
    return run, tmp_path / "run"


def test_the_runs_own_scoring_gives_the_runs_own_orders(folder):
    run, path = folder
    items, parts, _ = read_run(path)
    assert [rescore(part, Scoring()) for part in parts] == [r.order for r in run.rankings]
    assert [item.expected_order for item in items] == [r.item.expected_order for r in run.rankings]


def test_every_scoring_of_the_grid_agrees_with_a_run_made_with_it(folder):
    _, path = folder
    _, parts, _ = read_run(path)
    chat = ScriptedChat(lambda p: "Idiomatic" if "literally" in p else "A person awake late.")
    for scoring in grid():
        settings = Settings(sense="vote", scoring=scoring)
        run = rank([owl(k) for k in range(4)], settings, llms=[chat], encoder=WordEncoder())
        assert [rescore(part, scoring) for part in parts] == [r.order for r in run.rankings]


def test_an_item_has_no_say_in_how_it_is_scored(folder):
    """One item wants what the others do not: held out, it gets what the others want."""
    _, path = folder
    items, parts, _ = read_run(path)
    by_gloss, by_compound = Scoring(), Scoring(contrast=-2.0)
    assert rescore(parts[0], by_gloss)[0] == "person"
    assert rescore(parts[0], by_compound)[0] == "bird"
    odd = replace(items[0], expected_order=("bird", "person", "bike"))
    scorings = (by_compound, by_gloss)
    scored, best = cross_validate([odd, *items[1:]], parts, scorings, folds=4, repeats=3)
    assert scored["top1"].tolist() == pytest.approx([0, 1, 1, 1])
    assert best == by_gloss


def test_a_compounds_items_are_held_out_together(folder):
    """Three of one compound want the odd scoring, but have no say for each other."""
    _, path = folder
    items, parts, _ = read_run(path)
    odd = replace(items[0], expected_order=("bird", "person", "bike"))
    scored, best = cross_validate(
        [odd, odd, odd, *items[1:3]],
        [parts[0], parts[0], parts[0], *parts[1:3]],
        (Scoring(contrast=-2.0), Scoring()),
        folds=3,
        repeats=3,
    )
    assert scored["top1"].tolist()[:3] == pytest.approx([0, 0, 0])
    assert best == Scoring(contrast=-2.0)


def test_the_same_seed_deals_the_same_folds(folder):
    _, path = folder
    items, parts, _ = read_run(path)
    one, two = (
        cross_validate(items, parts, grid(), folds=2, repeats=2, seed=3)[0] for _ in range(2)
    )
    pd.testing.assert_frame_equal(one, two)


def test_a_run_without_gold_or_of_few_compounds_cannot_be_tuned(folder):
    _, path = folder
    items, parts, _ = read_run(path)
    with pytest.raises(UserError, match="5 folds need at least 5 compounds; there are 4"):
        cross_validate(items, parts, grid())
    text = (path / "items.jsonl").read_text()
    (path / "items.jsonl").write_text(text.replace('["person", "bird", "bike"]', "null"))
    with pytest.raises(UserError, match=r"item 1 \('owl0'\) has no gold order"):
        read_run(path)


def test_a_baseline_run_has_no_models_to_tune(tmp_path):
    run = rank([owl(0)], Settings(query="compound"), encoder=WordEncoder())
    write_run(run, tmp_path)
    with pytest.raises(UserError, match=r"scores\.csv: the column 'llm' is missing"):
        read_run(tmp_path)
    assert np.isfinite(run.rankings[0].scores).all()
