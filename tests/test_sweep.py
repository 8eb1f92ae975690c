from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from admire import sweep as sweep_module
from admire.errors import UserError
from admire.projection import TrainSettings, top1, train
from admire.sweep import AXES, paper_grid, sweep
from admire.triplets import Triplets, split

SMALL = TrainSettings(hidden=8, output=8, soft_negatives=2, epochs=3, batch_size=4)


@pytest.fixture(scope="module")
def data() -> Triplets:
    rng = np.random.default_rng(0)
    documents = rng.normal(size=(12, 3, 1, 6)).astype(np.float32)
    positive = rng.integers(0, 3, 12)
    anchors = documents[np.arange(12), positive, 0] + 0.5 * rng.normal(size=(12, 6))
    return Triplets(
        tuple(f"compound {k}" for k in range(12)),
        anchors.astype(np.float32),
        documents,
        np.ones((12, 3, 1), dtype=bool),
        positive,
        ("caption",),
    )


def test_the_papers_grid_has_162_settings_and_keeps_what_it_does_not_name():
    grid = paper_grid(TrainSettings(hidden=5, residual=True, seed=9))
    assert len(grid) == len(set(grid)) == 162
    assert {(one.hidden, one.residual, one.seed) for one in grid} == {(5, True, 9)}
    for axis, values in AXES.items():
        assert {getattr(one, axis) for one in grid} == set(values)


def test_each_result_is_that_of_training_alone(data: Triplets, tmp_path: Path):
    settings = [SMALL, replace(SMALL, learning_rate=0.01), replace(SMALL, seed=4)]
    found = sweep(data, settings, tmp_path / "sweep.jsonl", processes=2)
    assert found["learning_rate"].tolist() == [1e-4, 0.01, 1e-4]
    for one, row in zip(settings, found.itertuples(), strict=True):
        training, validation, test = split(data.compounds, one.seed)
        head, history = train(data, training, validation, one)
        best = min(history, key=lambda epoch: epoch.validation)
        assert row.validation_loss == pytest.approx(best.validation, abs=1e-5)
        assert row.epoch == best.epoch
        assert row.test_top1 == pytest.approx(top1(data, test, head))
        assert row.none_top1 == pytest.approx(top1(data, test))
        assert len(row.history) == len(history)


def test_a_sweep_that_was_stopped_goes_on_where_it_was(
    data: Triplets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    out = tmp_path / "sweep.jsonl"
    settings = [SMALL, replace(SMALL, dropout=0.1), replace(SMALL, dropout=0.5)]
    whole = sweep(data, settings, out, processes=1)
    lines = out.read_text().splitlines(keepends=True)
    assert len(lines) == 3
    out.write_text("".join(lines[:1]) + lines[1][:40])  # killed while it wrote the second
    again = sweep(data, settings, out, processes=1)
    assert again.drop(columns="history").equals(whole.drop(columns="history"))
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rows) == 3
    assert json.dumps(rows[0]) == lines[0].strip()
    monkeypatch.setattr(sweep_module, "ProcessPoolExecutor", NoPool)
    assert sweep(data, settings, out).equals(again)


class NoPool:
    """A pool that nothing may be given to."""

    def __init__(self, *arguments: object, **options: object): ...

    def submit(self, *arguments: object) -> None:
        raise AssertionError("trained again")

    def shutdown(self, **options: object) -> None: ...


def test_results_of_other_data_do_not_count_and_stay(data: Triplets, tmp_path: Path):
    out = tmp_path / "sweep.jsonl"
    sweep(data, [SMALL], out, processes=1)
    other = replace(data, anchors=data.anchors + np.float32(1))
    sweep(other, [SMALL], out, processes=1)
    assert len(out.read_text().splitlines()) == 2
    assert len({json.loads(line)["data"] for line in out.read_text().splitlines()}) == 2


@pytest.mark.parametrize("line", ["hello\n", "{}\n", "[1]\n"])
def test_a_file_that_is_no_sweep_is_left_alone(data: Triplets, tmp_path: Path, line: str):
    out = tmp_path / "notes.txt"
    out.write_text(line)
    with pytest.raises(UserError, match=r"notes\.txt: is no file of a sweep"):
        sweep(data, [SMALL], out, processes=1)
    assert out.read_text() == line


def test_a_k_beyond_the_pool_is_told_and_nothing_is_lost(data: Triplets, tmp_path: Path):
    out = tmp_path / "sweep.jsonl"
    with pytest.raises(UserError, match="11 soft negatives are asked for"):
        sweep(data, [SMALL, replace(SMALL, soft_negatives=11)], out, processes=1)
    assert len(out.read_text().splitlines()) <= 1
    assert len(sweep(data, [SMALL], out)) == 1
