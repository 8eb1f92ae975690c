from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from admire.errors import UserError
from admire.head import sweep as sweep_module
from admire.head.projection import top1
from admire.head.settings import TrainSettings
from admire.head.sweep import AXES, cross_validate, grid, sweep
from admire.head.training import train
from admire.head.triplets import Triplets, split
from admire.items import Candidate, Item
from admire.submission import Prediction

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
        np.arange(12) % 2 == 0,
    )


def test_the_papers_grid_has_162_settings_and_keeps_what_it_does_not_name():
    settings = grid(TrainSettings(hidden=5, residual=True, seed=9))
    assert len(settings) == len(set(settings)) == 162
    assert {(one.hidden, one.residual, one.seed) for one in settings} == {(5, True, 9)}
    for axis, values in AXES.items():
        assert {getattr(one, axis) for one in settings} == set(values)


def test_a_grid_of_ones_own_keeps_the_rest_of_the_base():
    settings = grid(SMALL, {"dropout": (0.2, 0.4), "soft_negatives": (1, 2)})
    found = [(one.dropout, one.soft_negatives) for one in settings]
    assert found == [(0.2, 1), (0.2, 2), (0.4, 1), (0.4, 2)]
    assert {(one.hidden, one.epochs) for one in settings} == {(8, 3)}


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
    monkeypatch.setattr(sweep_module, "train_and_test", untrained)
    assert sweep(data, settings, out, processes=1).equals(again)


def untrained(*arguments: object) -> None:
    raise AssertionError("a head was trained")


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


def test_a_place_that_cannot_be_written_is_named_before_anything_is_trained(
    data: Triplets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(sweep_module, "train_and_test", untrained)
    with pytest.raises(UserError, match=r"file.sweep\.jsonl: cannot be written \(File exists\)"):
        sweep(data, [SMALL], tmp_path / "file" / "sweep.jsonl", processes=1)


def test_ctrl_c_leaves_whole_lines_and_the_sweep_goes_on(tmp_path: Path):
    """As at a terminal, which interrupts the workers as well."""
    out, script = tmp_path / "sweep.jsonl", tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys
            from dataclasses import replace
            from pathlib import Path
            sys.path.insert(0, sys.argv[2])
            import numpy as np
            from admire.head.settings import TrainSettings
            from admire.head.sweep import sweep
            from admire.head.triplets import Triplets

            if __name__ == "__main__":
                rng = np.random.default_rng(0)
                data = Triplets(
                    tuple(f"compound {k}" for k in range(40)),
                    rng.normal(size=(40, 64)).astype(np.float32),
                    rng.normal(size=(40, 5, 1, 64)).astype(np.float32),
                    np.ones((40, 5, 1), dtype=bool),
                    rng.integers(0, 5, 40),
                    ("caption",),
                    np.ones(40, dtype=bool),
                )
                slow = TrainSettings(soft_negatives=5, epochs=60, patience=60)
                every = [replace(slow, seed=seed) for seed in range(int(sys.argv[3]))]
                print(len(sweep(data, every, Path(sys.argv[1]), processes=2)))
            """
        )
    )
    root = Path(sweep_module.__file__).parents[1]
    command = [sys.executable, str(script), str(out), str(root)]
    begun = subprocess.Popen(
        [*command, "60"], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    while begun.poll() is None and not (out.exists() and out.read_text().count("\n") >= 2):
        time.sleep(0.05)
    os.killpg(begun.pid, signal.SIGINT)
    _, err = begun.communicate(timeout=60)
    assert begun.returncode != 0
    assert "KeyboardInterrupt" in err.splitlines()[-1]
    assert err.count("Traceback") == 1  # that of the process itself; its workers are silent
    lines = out.read_text().splitlines()
    assert 2 <= len(lines) < 60
    assert all(json.loads(line)["outcome"] for line in lines)
    again = subprocess.run([*command, str(len(lines))], capture_output=True, text=True, check=True)
    assert again.stdout == f"{len(lines)}\n"
    assert out.read_text().splitlines()[: len(lines)] == lines


# -------------------------------------------------------------------------- cross-validation


def pictures_of(data: Triplets) -> list[Item]:
    """Items whose gold orders begin with the positive."""
    items = []
    for compound, best in zip(data.compounds, data.positive, strict=True):
        names = [f"{c}.png" for c in range(data.documents.shape[1])]
        order = (names[best], *(name for name in names if name != names[best]))
        shown = tuple(Candidate(name, caption=name) for name in names)
        items.append(Item(compound, f"{compound}?", "en", shown, "literal", order))
    return items


def best(predictions: Sequence[Prediction]) -> list[str]:
    return [prediction.order[0] for prediction in predictions]


def test_without_a_head_the_orders_are_those_of_the_cosines(data: Triplets):
    without, _ = cross_validate(pictures_of(data), data, [SMALL], folds=3, processes=1)
    cosines = np.einsum("sd,scmd->sc", data.anchors, data.documents)
    assert best(without) == [f"{c}.png" for c in cosines.argmax(axis=1)]


def test_a_folds_items_have_no_say_in_the_heads_that_rank_them(data: Triplets):
    """Their gold orders may be anything: what ranks them stays the same."""
    items = pictures_of(data)
    quick = replace(SMALL, learning_rate=0.05)
    _, before = cross_validate(items, data, [quick], folds=4, seed=1, processes=1)
    changed = replace(data, positive=data.positive.copy())
    changed.positive[5] = (changed.positive[5] + 1) % 3
    _, after = cross_validate(items, changed, [quick], folds=4, seed=1, processes=1)
    assert after[5].order == before[5].order
    assert [p.order for p in after] != [p.order for p in before]  # others do learn of it


def test_two_samples_of_a_compound_are_in_one_fold(data: Triplets, tmp_path: Path):
    """Else a head would have seen the compound that it ranks: each one's other sample tells it."""
    twice = replace(data, compounds=tuple(f"compound {k // 2}" for k in range(12)))
    quick = replace(SMALL, learning_rate=0.05)
    _, before = cross_validate(pictures_of(twice), twice, [quick], folds=3, processes=1)
    changed = replace(twice, positive=twice.positive.copy())
    changed.positive[4] = (changed.positive[4] + 1) % 3
    _, after = cross_validate(pictures_of(twice), changed, [quick], folds=3, processes=1)
    assert [after[k].order for k in (4, 5)] == [before[k].order for k in (4, 5)]
    assert [p.order for p in after] != [p.order for p in before]


def test_of_several_settings_the_one_that_validates_best_ranks_the_fold(
    data: Triplets, tmp_path: Path
):
    items = pictures_of(data)
    pair = [replace(SMALL, learning_rate=0.02, seed=seed) for seed in (0, 8)]
    alone, losses = [], []
    for number, one in enumerate(pair):
        out = tmp_path / f"{number}.jsonl"
        alone.append(cross_validate(items, data, [one], out, folds=4, processes=1)[1])
        rows = [json.loads(line) for line in out.read_text().splitlines()]
        losses.append([row["outcome"]["validation_loss"] for row in rows])
    _, both = cross_validate(items, data, pair, tmp_path / "both.jsonl", folds=4)
    dealt = np.random.default_rng(0).permutation(12) % 4
    names = np.unique(np.array(data.compounds))
    fold = dict(zip(names, dealt, strict=True))
    chosen = np.argmin(losses, axis=0)
    assert set(chosen) == {0, 1}  # else nothing would have been chosen
    for k, compound in enumerate(data.compounds):
        assert both[k].order == alone[chosen[fold[compound]]][k].order
    assert [p.order for p in alone[0]] != [p.order for p in alone[1]]


def test_a_cross_validation_that_was_stopped_goes_on(
    data: Triplets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    items, out = pictures_of(data), tmp_path / "folds.jsonl"
    whole = cross_validate(items, data, [SMALL], out, folds=3, processes=1)
    lines = out.read_text().splitlines(keepends=True)
    out.write_text("".join(lines[:2]))
    assert cross_validate(items, data, [SMALL], out, folds=3, processes=1) == whole
    assert len(out.read_text().splitlines()) == 3
    monkeypatch.setattr(sweep_module, "train_and_test", untrained)
    assert cross_validate(items, data, [SMALL], out, folds=3, processes=1) == whole


def test_more_folds_than_compounds_are_refused(data: Triplets):
    with pytest.raises(UserError, match="13 folds need at least 13 compounds; there are 12"):
        cross_validate(pictures_of(data), data, [SMALL], folds=13, processes=1)
