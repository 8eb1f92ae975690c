"""Curves of a run's scoring and of a sweep: what they draw is what ranking and training give."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from commands import run
from toys import OWL, PictureEncoder, WordEncoder, explains

from admire import Candidate, Item, Scoring, Settings, UserError, rank, write_run
from admire.models.head_settings import HeadTraining
from admire.pages.report.curves import sweep_report, tuning_plots, tuning_table
from admire.runs.fusion import fuse
from admire.scores.evaluation import score_items
from admire.senses.meaning import TEXTS

pytest.importorskip("matplotlib", reason="needs the extra 'report'")

SETTINGS = Settings(
    sense="vote", scoring=Scoring.paper(contrast=0.5, standardise=True, texts=TEXTS)
)
FISH = Item(
    "cold fish",
    "That cold fish stood by the wall.",
    candidates=(
        Candidate("fish.png", caption="person awake late, late worker, bird, wings"),
        Candidate("late.png", caption="an owl person, a worker"),
        Candidate("lamp.png", caption="a late lamp in the room"),
    ),
    sentence_type="idiomatic",
    expected_order=("lamp.png", "late.png", "fish.png"),
)
ITEMS = [replace(OWL, sentence_type="idiomatic"), FISH]


def ranked(folder: Path, items: list[Item] = ITEMS, settings: Settings = SETTINGS) -> Path:
    made = rank(items, settings, llms=[explains("Idiomatic")], encoder=WordEncoder())
    write_run(made, folder)
    return folder


def figures(settings: Settings, items: list[Item], encoder: WordEncoder) -> dict[str, float]:
    """The means when all is ranked anew."""
    made = rank(items, settings, llms=[explains("Idiomatic")], encoder=encoder)
    return score_items(items, made.predictions(), "run")[["top1", "dcg"]].mean().to_dict()


# ------------------------------------------------------------------------------------ of a run


def test_each_point_is_what_ranking_with_that_contrast_gives(tmp_path):
    table = tuning_table(ranked(tmp_path / "run"))
    assert table is not None
    assert set(table["varied"]) == {"contrast"}
    (own,) = table[table["own"]].to_dict("records")
    assert (own["gate"], own["value"]) == ("hard", 0.5)
    points = table[~table["own"]].set_index(["gate", "value"])
    assert len(points) == 2 * 21
    assert points["dcg"].nunique() > 1
    for contrast in (0.0, 0.5, 1.3, 2.0):
        scoring = replace(SETTINGS.scoring, contrast=contrast)
        expected = figures(replace(SETTINGS, scoring=scoring), ITEMS, WordEncoder())
        assert points.loc[("hard", contrast), ["top1", "dcg"]].to_dict() == pytest.approx(expected)
    assert own["dcg"] == points.loc[("hard", 0.5), "dcg"]


def test_the_weight_of_pictures_is_varied_where_there_are_both_tracks(tmp_path):
    pictures = {"bird.png": "a late lamp", "person.png": "a bird", "bike.png": "a person awake"}
    for name, shows in pictures.items():
        (tmp_path / name).write_text(shows)
    item = replace(
        ITEMS[0],
        candidates=tuple(replace(one, image=tmp_path / one.name) for one in OWL.candidates),
    )
    settings = replace(
        SETTINGS, track="image+caption", scoring=Scoring.paper(image_weight=1, caption_weight=3)
    )
    made = rank([item], settings, llms=[explains("Idiomatic")], encoder=PictureEncoder())
    write_run(made, tmp_path / "run")
    table = tuning_table(tmp_path / "run")
    assert table is not None
    shares = table[table["varied"] == "pictures"]
    assert shares.loc[shares["own"], "value"].tolist() == [0.25]
    points = shares[~shares["own"]].set_index("value")["dcg"]
    assert len(points) == 11
    for share in (0.0, 1.0):
        scoring = Scoring.paper(image_weight=share, caption_weight=1 - share)
        expected = figures(replace(settings, scoring=scoring), [item], PictureEncoder())
        assert points[share] == pytest.approx(expected["dcg"])
    assert points[0.0] != points[1.0]
    plots = tuning_plots([tmp_path / "run"], ["mine"])
    assert [plot.title for plot in plots] == [
        "Figures by contrast",
        "Figures by the weight of pictures",
    ]
    assert "as it was run (pictures' share of both weights 0.25, hard gate)" in plots[1].told


def test_runs_that_cannot_be_scored_anew_are_left_out(tmp_path):
    sound = ranked(tmp_path / "sound")
    without_gold = ranked(tmp_path / "no gold", [replace(OWL, expected_order=None)])
    baseline = ranked(tmp_path / "baseline", ITEMS, replace(SETTINGS, query="compound"))
    write_run(fuse([sound, baseline]), tmp_path / "fused")
    left_out = [without_gold, baseline, tmp_path / "fused"]
    assert [tuning_table(folder) for folder in left_out] == [None, None, None]
    assert tuning_plots(left_out, ["a", "b", "c"]) == []
    (plot,) = tuning_plots([*left_out, sound], ["a", "b", "c", "sound"])
    assert "sound: DCG is" in plot.told
    assert "a: DCG" not in plot.told


# ---------------------------------------------------------------------------------- of a sweep


def line(
    epochs: list[tuple[float, float]], data: str = "d", parts: str = "p", **setting: Any
) -> str:
    """A line of a sweep's file; of each epoch the validation loss and the top-1."""
    settings = asdict(replace(HeadTraining(), **setting))
    history = [
        {"epoch": k, "training": 1.0, "validation": validation, "top1": top1}
        for k, (validation, top1) in enumerate(epochs, start=1)
    ]
    best = min(history, key=lambda epoch: epoch["validation"])
    outcome = {
        "epoch": best["epoch"],
        "validation_loss": best["validation"],
        "test_top1": best["top1"],
        "none_top1": 0.4,
        "history": history,
    }
    return json.dumps({"data": "d", "job": json.dumps([settings, parts]), "outcome": outcome})


SWEEP = [
    line([(3.0, 0.1), (2.0, 0.3), (2.5, 0.2)], dropout=0.1, soft_negatives=30),
    line([(3.0, 0.1), (1.5, 0.5)], dropout=0.5, soft_negatives=30),
    line([(2.9, 0.2)], dropout=0.1, soft_negatives=10),
    line([(1.0, 0.9)], parts="another", dropout=0.1),
]


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    path = tmp_path / "sweep.jsonl"
    path.write_text("\n".join(SWEEP) + "\n" + SWEEP[0][:100])  # the last line was cut short
    return path


def test_a_sweep_shows_the_heads_that_validate_best_and_what_was_varied(sweep):
    report = sweep_report(sweep)
    best, same = report.tables
    assert best.headings[:3] == ("", "dropout", "K")
    assert [row[1:6] for row in best.rows] == [
        ("0.5", "30", "2", "1.5000", "0.500"),
        ("0.1", "30", "2", "2.0000", "0.300"),
        ("0.1", "10", "1", "2.9000", "0.200"),
    ]
    assert {row[-1] for row in best.rows} == {"0.400"}
    assert "Of 3 heads." in best.note
    assert "2 data sets or divisions" in best.note
    assert ("learning rate", "0.0001") in same.rows
    assert "dropout" not in dict(same.rows)
    assert (report.kind, report.data["items"]) == ("sweep", [])


def test_its_curves_vary_one_setting_around_one_head(sweep):
    plots = sweep_report(sweep).plots
    assert [plot.title for plot in plots] == ["Top-1 by epoch and dropout", "Top-1 by epoch and K"]
    dropout, negatives = plots
    assert "with K = 30" in dropout.told
    assert "0.300 with dropout = 0.1 (epoch 2), 0.500 with dropout = 0.5 (epoch 2)" in dropout.told
    assert "0.200 with K = 10 (epoch 1), 0.300 with K = 30 (epoch 2)" in negatives.told
    assert "Dotted: 0.400" in dropout.told
    curve = [
        path for path in dropout.svg.split("<path ") if "var(--run1)" in path and " L " in path
    ]
    assert any(path.count(" L ") == 2 for path in curve)  # three epochs


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ('{"compound": "night owl"}\n', "row 1: is not a result of admire sweep"),
        (SWEEP[0] + "\nnot JSON\n", "row 2: is not a result of admire sweep"),
        ('{"data": "d", "job": "[1, 2]", "outcome": {}}\n', "row 1: is not a result"),
        (SWEEP[0][:100], "holds no whole result"),
    ],
)
def test_another_file_is_refused(tmp_path, text, message):
    path = tmp_path / "sweep.jsonl"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        sweep_report(path)


def test_admire_report_takes_the_file_of_one_sweep(capsys, sweep, tmp_path):
    page = tmp_path / "report.html"
    code, _, err = run(capsys, "report", sweep, "--out", page)
    assert (code, f"Wrote {page}" in err) == (0, True), err
    assert "The heads that validate best" in page.read_text(encoding="utf-8")
    code, _, err = run(capsys, "report", sweep, sweep, "--out", page)
    assert (code, "shows one sweep" in err) == (2, True)
