import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from toys import OWL, PAPER, Detector, ScriptedChat, WordEncoder, explains, says

from admire import Settings, UserError, compare_runs, rank, read_submission, write_run
from admire.metrics.item_figures import score_items
from admire.pipeline.fusion import fuse
from admire.pipeline.run_folder import read_run
from admire.tasks.scorecard import Score

ITEMS = [
    replace(OWL, sentence_type="idiomatic"),
    replace(OWL, sentence="A night owl hooted.", sentence_type="literal"),
]


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """A baseline, a run that takes all as idiomatic, and one that takes all as literal."""
    made: dict[str, tuple[Settings, list[ScriptedChat] | None]] = {
        "baseline": (Settings(query="compound"), None),
        "idiomatic": (PAPER, [says("Idiomatic")]),
        "literal": (Settings(sense="vote"), [explains("Literal"), explains("Literal")]),
    }
    for name, (settings, llms) in made.items():
        write_run(rank(ITEMS, settings, llms=llms, encoder=WordEncoder()), tmp_path / name)
    return [tmp_path / name for name in made]


def test_a_fused_run_is_a_run_like_any_other(runs, tmp_path):
    fused = fuse(runs, weights=[1, 2, 0.5], method="borda")
    (submission,) = write_run(fused, tmp_path / "fused")
    orders = [ranking.order for ranking in fused.rankings]
    assert [row.order for row in read_submission(submission)] == orders
    assert len(score_items(ITEMS, read_submission(submission), "fused")) == 2

    scores = pd.read_csv(tmp_path / "fused" / "scores.csv")
    assert len(scores) == 2 * 3
    row = scores[(scores["item"] == 1) & (scores["candidate"] == "bird.png")].iloc[0]
    parts = [read_run(run).rankings[0] for run in runs]
    assert [row[f"score{k}"] for k in (1, 2, 3)] == [part.scores[0] for part in parts]
    ranks = [row[f"rank{k}"] for k in (1, 2, 3)]
    assert ranks == [1 + part.order.index("bird.png") for part in parts]
    assert row["score"] == pytest.approx(3 - np.average(ranks, weights=[1, 2, 0.5]))

    item = json.loads((tmp_path / "fused" / "items.jsonl").read_text().splitlines()[0])
    assert item["order"] == list(orders[0])
    assert item["fused"] == [
        {"run": str(run), "weight": weight, "order": list(part.order)}
        for run, weight, part in zip(runs, [1, 2, 0.5], parts, strict=True)
    ]
    record = json.loads((tmp_path / "fused" / "run.json").read_text())
    assert (record["fusion"], record["items"]) == ("borda", 2)
    assert [one["weight"] for one in record["fused"]] == [1, 2, 0.5]
    for one, run in zip(record["fused"], runs, strict=True):
        assert one["record"] == json.loads((run / "run.json").read_text())

    table = compare_runs([runs[0], tmp_path / "fused"])
    kept = table[table["run"] == str(tmp_path / "fused")].iloc[0]
    expected = ["compound & CC", "– &  & embedded", "borda", "1,2,0.5"]
    assert kept[["method", "llm", "fusion", "weights"]].tolist() == expected
    again = fuse([tmp_path / "fused", runs[0]])
    assert [ranking.predicted_type for ranking in again.rankings] == ["idiomatic"] * 2
    write_run(again, tmp_path / "again")
    assert "fusion" in compare_runs([tmp_path / "again"]).columns


def test_a_run_that_is_replaced_by_another_is_told(runs, tmp_path, caplog):
    write_run(fuse(runs[:2]), tmp_path / "fused")
    caplog.clear()
    write_run(fuse(runs[:2], weights=[1, 9]), tmp_path / "fused")
    write_run(fuse(runs[:2], weights=[1, 9]), tmp_path / "fused")
    write_run(read_run(runs[0]), tmp_path / "fused")
    write_run(read_run(runs[2]), tmp_path / "fused")
    told = [re.sub(".*replaced a run that differed in ", "", text) for text in caplog.messages]
    assert told[:2] == ["runs.", "kind (fused or ranked)."]
    assert "query" in told[2]
    assert told[2].endswith("Its replies are cached.")
    assert len(told) == 3


def test_the_sense_is_the_likelier_one_by_weight_and_the_first_ones_in_a_tie(runs):
    def senses(folders, weights=None):
        return {ranking.predicted_type for ranking in fuse(folders, weights=weights).rankings}

    baseline, idiomatic, literal = runs
    assert senses(runs) == {"idiomatic"}
    assert senses([baseline, literal, idiomatic]) == {"literal"}
    assert senses([literal, idiomatic], [0.3, 0.4]) == {"idiomatic"}
    assert senses([idiomatic, literal, literal], [0.3, 0.1, 0.2]) == {"idiomatic"}
    assert senses([baseline, baseline]) == {None}
    assert senses([baseline, literal], [1, 0]) == {"literal"}
    (sense,) = fuse([idiomatic, literal, literal], weights=[2, 1, 5]).rankings[0].interpretations
    assert str(sense.sense) == "literal, confidence 0.75 (fused)"


DETECTED, GIVEN, VOTED = (replace(PAPER, sense=sense) for sense in ("detector", "given", "vote"))
BASELINE = Settings(query="compound")


@pytest.mark.parametrize(
    ("settings", "weights", "p", "label"),
    [
        ([DETECTED, DETECTED], None, 0.2, "literal"),
        ([DETECTED, VOTED], None, 0.6, "idiomatic"),
        ([DETECTED, VOTED], [3, 1], 0.4, "literal"),
        # Without a sense, or with a given one, a run has no probability, and is no unread vote.
        ([BASELINE, DETECTED], None, 0.2, "literal"),
        ([GIVEN, GIVEN, DETECTED], None, 0.2, "literal"),
        ([GIVEN, BASELINE], None, None, "idiomatic"),
    ],
)
def test_a_fused_probability_is_the_mean_of_the_runs_that_have_one(
    tmp_path, settings, weights, p, label
):
    folders = [tmp_path / str(number) for number in range(len(settings))]
    for folder, of_run in zip(folders, settings, strict=True):
        made = {"llms": [says("Idiomatic")], "detector": Detector(0.2), "encoder": WordEncoder()}
        write_run(rank([ITEMS[0]], of_run, **made), folder)
    write_run(fuse(folders, weights=weights), tmp_path / "fused")
    (ranking,) = read_run(tmp_path / "fused").rankings
    assert (ranking.probability_idiomatic, ranking.predicted_type) == (pytest.approx(p), label)
    assert ranking.confidence == (p and pytest.approx(p if label == "idiomatic" else 1 - p))
    assert ranking.interpretations[0].sense.unparsed == 0
    senses = Score().run(tmp_path / "fused", {}).cards[0].senses
    assert (senses is None) == (p is None)


def test_candidates_may_stand_in_another_order_and_one_run_may_lack_the_gold(tmp_path):
    turned = replace(OWL, candidates=OWL.candidates[::-1])
    blind = replace(OWL, expected_order=None, sentence_type=None)
    folders = [tmp_path / name for name in ("blind", "turned")]
    for folder, item in zip(folders, (blind, turned), strict=True):
        write_run(rank([item], Settings(query="compound"), encoder=WordEncoder()), folder)
    (fused,) = fuse(folders).rankings
    assert fused.order == read_run(folders[0]).rankings[0].order
    assert fused.item.expected_order == OWL.expected_order


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (ITEMS[:1], "other: has 1 items, .*baseline has 2"),
        (
            ITEMS[::-1],
            r"Item 1 .*“My sister is a night owl\.” in .*baseline.*“A night owl hooted\.”",
        ),
        (
            [ITEMS[0], replace(ITEMS[1], candidates=OWL.candidates[:2])],
            r"Item 2 \('night owl'\) .*'bike\.png' in .*baseline",
        ),
    ],
)
def test_runs_of_other_items_are_told_the_first_difference(runs, tmp_path, items, message):
    blind = [replace(item, expected_order=None) for item in items]
    write_run(rank(blind, Settings(query="compound"), encoder=WordEncoder()), tmp_path / "other")
    with pytest.raises(UserError, match=message):
        fuse([runs[0], runs[1], tmp_path / "other"])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1], "3 runs need as many weights"),
        ([0, 0, 0], "All weights are 0"),
        ([1, -1, 1], "weight cannot be -1: it should be greater than or equal to 0"),
    ],
)
def test_weights_that_mean_nothing_are_refused(runs, weights, message):
    with pytest.raises(UserError, match=message) as caught:
        fuse(runs, weights=weights)
    assert caught.value.settings == ("weight",)


def test_a_language_of_a_foreign_run_is_not_a_path(runs, tmp_path):
    items = runs[0] / "items.jsonl"
    items.write_text(items.read_text().replace('"language": "en"', '"language": "x/../../evil"'))
    with pytest.raises(UserError, match=r"'submission_x/\.\./\.\./evil.tsv' is outside"):
        write_run(fuse(runs), tmp_path / "sub" / "fused")
    assert not (tmp_path / "sub").exists()
