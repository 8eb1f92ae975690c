from __future__ import annotations

import numpy as np
import pytest
from toys import ScriptedChat, WordEncoder

from admire import Candidate, Item, Scoring, Settings, UserError, rank, write_run
from admire.run_folder import read_run
from admire.tuning import GRID, leave_one_out, rescore


def owl(k: int, sentence_type: str = "idiomatic") -> Item:
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
    items, parts = read_run(path)
    assert [rescore(part, Scoring()) for part in parts] == [r.order for r in run.rankings]
    assert [item.expected_order for item in items] == [r.item.expected_order for r in run.rankings]


def test_every_scoring_of_the_grid_agrees_with_a_run_made_with_it(folder):
    _, path = folder
    _, parts = read_run(path)
    chat = ScriptedChat(lambda p: "Idiomatic" if "literally" in p else "A person awake late.")
    for scoring in GRID:
        settings = Settings(sense="vote", scoring=scoring)
        run = rank([owl(k) for k in range(4)], settings, llms=[chat], encoder=WordEncoder())
        assert [rescore(part, scoring) for part in parts] == [r.order for r in run.rankings]


def test_an_item_has_no_say_in_how_it_is_scored(folder):
    """One item wants what the others do not: left out, it gets what the others want."""
    _, path = folder
    items, parts = read_run(path)
    by_gloss, by_compound = Scoring(), Scoring(contrast=-2.0)
    assert rescore(parts[0], by_gloss)[0] == "person"
    assert rescore(parts[0], by_compound)[0] == "bird"
    odd = Item(items[0].compound, items[0].sentence, expected_order=("bird", "person", "bike"))
    predictions, best = leave_one_out([odd, *items[1:]], parts, (by_compound, by_gloss))
    assert predictions[0].order[0] == "person"
    assert best == by_gloss


def test_a_run_without_gold_or_of_one_compound_cannot_be_tuned(folder, tmp_path):
    _, path = folder
    items, parts = read_run(path)
    with pytest.raises(UserError, match="at least two compounds"):
        leave_one_out(items[:1], parts[:1])
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
