"""Many heads: grids, a sweep that goes on where it was stopped, cross-validation."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra 'train'")

from heads import made

from admire.data.items import Candidate, Item
from admire.data.submission import Prediction
from admire.encoders.training_settings import HeadTraining
from admire.tasks.training import SweepAxes, Triplets, sweep_heads
from admire.tasks.training.sweep import compare_heads, cross_validate_heads, head_grid
from admire.tasks.training.triplets import split_compounds

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = HeadTraining(hidden=8, output=8, soft_negatives=2, epochs=3, batch_size=4)


@pytest.fixture(scope="module")
def data() -> Triplets:
    return made(compounds=12, each=1, modalities=1)


def test_the_papers_grid_has_162_settings_and_keeps_what_it_does_not_name():
    axes = vars(SweepAxes())
    settings = head_grid(HeadTraining(hidden=5, residual=True, seed=9), axes)
    assert len(settings) == len(set(settings)) == 162
    assert {(grid.hidden, grid.residual, grid.seed) for grid in settings} == {(5, True, 9)}
    assert HeadTraining() in head_grid(HeadTraining(), axes)
    for axis, values in axes.items():
        assert {getattr(grid, axis) for grid in settings} == set(values)


def test_a_sweep_that_was_stopped_goes_on_where_it_was(data, tmp_path):
    out = tmp_path / "sweep.jsonl"
    settings = [SMALL, replace(SMALL, dropout=0.1), replace(SMALL, dropout=0.5)]
    whole = sweep_heads(data, settings, out, processes=1)
    lines = out.read_text().splitlines(keepends=True)
    assert len(lines) == 3
    out.write_text("".join(lines[:1]) + lines[1][:40])  # killed while it wrote the second
    again = sweep_heads(data, settings, out, processes=1)
    assert again.equals(whole)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rows) == 3
    assert json.dumps(rows[0]) == lines[0].strip()
    for row in rows:  # what the file has is not computed
        row["outcome"]["validation_loss"] = 123.0
    out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert set(sweep_heads(data, settings, out, processes=1)["validation_loss"]) == {123.0}


def test_a_sweep_warns_of_candidates_that_no_head_can_tell_apart(tmp_path, caplog):
    data = made(compounds=12, each=1, modalities=1)
    _, _, (first, *_, last) = split_compounds(data.compounds, SMALL.seed)
    data.documents[first], data.present[first] = data.documents[first, :1], True
    data.documents[last, 1:], data.present[last] = data.documents[last, 1:2], True
    data.positive[last] = 0  # only others are alike
    sweep_heads(data, [SMALL], tmp_path / "sweep.jsonl", processes=1)
    assert "1 of 2 test samples have a candidate with the same content as the best" in caplog.text
    assert "rest 0.500 of each top-1" in caplog.text


@pytest.mark.ci
def test_two_workers_find_what_one_finds(data: Triplets, tmp_path: Path):
    settings = [SMALL, replace(SMALL, learning_rate=0.01), replace(SMALL, seed=4)]
    alone, both = (
        sweep_heads(data, settings, tmp_path / f"{workers}.jsonl", processes=workers)
        for workers in (1, 2)
    )
    assert both["learning_rate"].tolist() == [1e-4, 0.01, 1e-4]
    assert both["validation_loss"].tolist() == pytest.approx(alone["validation_loss"].tolist())


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


def test_the_tables_are_those_of_the_orders_without_and_with_heads(data: Triplets, caplog):
    items = pictures_of(data)
    without, having = cross_validate_heads(items, data, [SMALL], folds=3, processes=1)
    cosines = np.einsum("sd,scmd->sc", data.anchors, data.documents)
    cosines[~data.present.any(axis=2)] = -np.inf
    assert best(without) == [f"{c}.png" for c in cosines.argmax(axis=1)]
    means = [
        table[(table["group"] == "all") & (table["metric"] == "top1")]["mean"].item()
        for table in compare_heads(items, without, having).values()
    ]
    gold = np.array([item.best for item in items])
    first, second = (np.mean(gold == best(predictions)) for predictions in (without, having))
    assert means == pytest.approx([first, second, second - first])
    assert "tie" not in caplog.text
    alike = replace(data, documents=data.documents * 0 + 1, present=data.present | True)
    compare_heads(items, *cross_validate_heads(items, alike, [SMALL], folds=3, processes=1))
    assert caplog.text.count("head: 12 of 12 items have a tie at the top") == 1
    assert "In the head's space: 12 of 12 items have a tie at the top" in caplog.text


def test_a_folds_items_have_no_say_in_the_heads_that_rank_them(data: Triplets):
    """Their gold orders may be anything: what ranks them stays the same."""
    items, how = pictures_of(data), {"folds": 4, "seed": 1, "processes": 1}
    quick = replace(SMALL, learning_rate=0.05)
    changed = replace(data, positive=data.positive.copy())
    changed.positive[5] = (changed.positive[5] + 1) % 3
    before, after = (cross_validate_heads(items, d, [quick], **how)[1] for d in (data, changed))
    assert after[5].order == before[5].order
    assert [p.order for p in after] != [p.order for p in before]  # others do learn of it


def test_of_several_settings_the_one_that_validates_best_ranks_the_fold(data, tmp_path):
    items = pictures_of(data)
    pair = [replace(SMALL, learning_rate=0.02, seed=seed) for seed in (0, 8)]
    alone, losses = [], []
    for number, one in enumerate(pair):
        out = tmp_path / f"{number}.jsonl"
        alone.append(cross_validate_heads(items, data, [one], out, folds=4, processes=1)[1])
        rows = [json.loads(line) for line in out.read_text().splitlines()]
        losses.append([row["outcome"]["validation_loss"] for row in rows])
    _, both = cross_validate_heads(items, data, pair, folds=4, processes=1)
    dealt = np.random.default_rng(0).permutation(12) % 4
    names = np.unique(np.array(data.compounds))
    fold = dict(zip(names, dealt, strict=True))
    chosen = np.argmin(losses, axis=0)
    assert set(chosen) == {0, 1}  # else nothing would have been chosen
    for k, compound in enumerate(data.compounds):
        assert both[k].order == alone[chosen[fold[compound]]][k].order
    assert [p.order for p in alone[0]] != [p.order for p in alone[1]]
