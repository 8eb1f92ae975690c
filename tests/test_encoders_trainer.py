"""The trainer that all fine-tuning shares: best epoch, batches, resume, the folder."""

import logging
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import full_disk

torch = pytest.importorskip("torch", reason="needs the extra 'finetune'")
for package in ("sentence_transformers", "datasets", "accelerate"):
    pytest.importorskip(package, reason="needs the extra 'finetune'")

from datasets import Dataset  # noqa: E402 - after the skips
from sentence_transformers import SentenceTransformer  # noqa: E402
from towers import save_sentence_transformer, weights  # noqa: E402

from admire.core.errors import UserError  # noqa: E402
from admire.encoders import trainer  # noqa: E402
from admire.encoders.trainer import Figures, FitSettings, TrainingSet, fine_tune  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread", "no_card", "tried")

QUICK = FitSettings(batch_size=4, learning_rate=2e-3, epochs=3, patience=3)
CARD = SentenceTransformer._create_model_card
TEXTS = ["a night owl", "the red lamp is big"]
PAIRS = "night owl, red bird, big lamp, blue desk, green tree, small circle, yellow square"
ROWS = [
    {"one": f"a {first} {second}", "other": f"the {second} of a {first}"}
    for first, second in map(str.split, PAIRS.split(", "))
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_sentence_transformer(tmp_path_factory.mktemp("models") / "model")


class Apart(torch.nn.Module):
    """Pairs of texts are to have the same vector."""

    def __init__(self, model: SentenceTransformer):
        super().__init__()
        self.model = model
        self.seen: list[int] = []

    def forward(self, features: Sequence[dict], labels: object = None) -> torch.Tensor:
        one, other = (self.model(part)["sentence_embedding"] for part in features)
        self.seen.append(len(one))
        return ((one - other) ** 2).mean()


def loaded(folder: Path) -> SentenceTransformer:
    return SentenceTransformer(str(folder), device="cpu")


def figures(*values: float | type[BaseException]) -> Callable[[], Figures]:
    """A figure for each call, and another figure; an exception is raised."""
    left = iter(values)

    def validate() -> Figures:
        value = next(left)
        if isinstance(value, type):
            raise value
        return {"figure": value, "other": 1 - value}

    return validate


def fitted(
    folder: Path,
    out: Path,
    validate: Callable[[], Figures],
    settings: FitSettings = QUICK,
    **options: Any,
) -> list[float]:
    """A fresh model, as another process has it, fine-tuned; returns the first figures."""
    model = loaded(folder)
    data = TrainingSet(ROWS, Apart(model))
    history = fine_tune(model, data, validate, settings, out, **options)
    assert history == [{"figure": f["figure"], "other": 1 - f["figure"]} for f in history]
    return [figures["figure"] for figures in history]


def killed(folder: Path, out: Path, *values: float, **options: Any) -> None:
    """Fine-tuned with these figures, and killed at the next."""
    with pytest.raises(KeyboardInterrupt):
        fitted(folder, out, figures(*values, KeyboardInterrupt), **options)
    assert not out.exists()


def apart(out: Path, states: list[dict[str, torch.Tensor]]) -> list[float]:
    """How much the weights in a folder differ from each of these."""
    saved = weights(out)
    return [max(float((saved[k] - state[k]).abs().max()) for k in saved) for state in states]


@pytest.fixture(scope="module")
def whole(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, torch.Tensor]]:
    """The weights before a training that nothing disturbs, and after each epoch."""
    out = tmp_path_factory.mktemp("whole") / "out"
    model, left = loaded(folder), iter([0.5, 0.1, 0.3, 0.2])
    states: list[dict[str, torch.Tensor]] = []

    def validate() -> Figures:
        state = model[0].model.state_dict()
        states.append({name: tensor.detach().clone() for name, tensor in state.items()})
        return {"figure": next(left)}

    history = fine_tune(model, TrainingSet(ROWS, Apart(model)), validate, QUICK, out)
    assert history == [{"figure": value} for value in (0.5, 0.1, 0.3, 0.2)]
    differences = apart(out, states)
    assert differences[2] == 0, "the epoch with the best figure is kept"
    assert min(differences[:2] + differences[3:]) > 1e-5
    now = model[0].model.state_dict()
    assert all(torch.equal(now[k], states[2][k]) for k in now), "in memory too"
    return states


def test_training_stops_when_so_many_epochs_were_no_better(folder, tmp_path):
    settings = replace(QUICK, epochs=6, patience=2)
    values = [0.0, 0.5, 0.4, 0.6, 0.6, 0.2]
    found = fitted(folder, tmp_path / "out", figures(*values), settings)
    assert found == pytest.approx(values)  # 5 epochs of 6: the fourth and the fifth were no better


@pytest.mark.parametrize(("keep", "epochs"), [("last", 3), (1, 2)])
def test_another_epoch_than_the_best_can_be_kept(folder, tmp_path, whole, keep, epochs):
    kept: list[Figures] = []
    history = fitted(
        folder,
        tmp_path / "out",
        figures(0.5, 0.3, 0.4, 0.2),
        replace(QUICK, keep=keep, patience=1),
        finish=lambda _, figures: kept.append(figures),
    )
    assert history == [0.5, 0.3, 0.4, 0.2][: epochs + 1]
    number = 3 if keep == "last" else keep
    assert [figures["figure"] for figures in kept] == [history[number]]
    assert apart(tmp_path / "out", whole)[number] <= 1e-5


def test_an_epoch_to_keep_must_be_one_of_those_to_come():
    with pytest.raises(UserError, match="Epoch 4 cannot be kept: there are 3 epochs"):
        FitSettings(epochs=3, keep=4)


def test_each_batch_is_of_one_task_and_each_task_has_its_batches(folder, tmp_path):
    model = loaded(folder)
    tasks = {"many": Apart(model), "few": Apart(model)}
    rows = {"many": ROWS, "few": ROWS[:2]}
    settings = replace(QUICK, epochs=2)
    fine_tune(model, TrainingSet(rows, tasks), figures(0, 1, 2), settings, tmp_path / "out")
    assert sorted(tasks["many"].seen) == [3, 3, 4, 4]
    assert tasks["few"].seen == [2, 2]


def test_some_weights_can_have_a_learning_rate_of_their_own(folder, tmp_path):
    before = weights(folder)
    rates = {r"word_embeddings": 1e-12}
    fitted(folder, tmp_path / "out", figures(0, 1, 2, 3), learning_rates=rates)
    moved = {k: float((v - before[k]).abs().max()) for k, v in weights(tmp_path / "out").items()}
    still = {name for name, most in moved.items() if most < 1e-6}
    assert {name for name in moved if "word_embeddings" in name} <= still
    assert len(still) < len(moved) / 2


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[list[dict[str, Any]]]:
    """The groups of weights at each step of the optimizer, which does nothing."""
    steps: list[list[dict[str, Any]]] = []

    def step(self: torch.optim.Optimizer, *_: object, **__: object) -> None:
        steps.append([dict(group) for group in self.param_groups])

    monkeypatch.setattr(torch.optim.AdamW, "step", step)
    return steps


def test_the_learning_rate_rises_for_some_steps_or_for_a_share_of_all(folder, tmp_path, steps):
    for warmup in (3, 0.5, 0.0):  # of 6 steps
        fitted(folder, tmp_path / "out", figures(0, 1, 2, 3), replace(QUICK, warmup=warmup))
    rises, falls = [0, 1 / 3, 2 / 3, 1, 2 / 3, 1 / 3], [k / 6 for k in range(6, 0, -1)]
    rates = [groups[0]["lr"] / QUICK.learning_rate for groups in steps]
    assert rates == pytest.approx([*rises, *rises, *falls])


def test_norms_and_biases_do_not_decay_nor_do_weights_with_a_rate_of_their_own(
    folder, tmp_path, steps
):
    settings, rates = replace(QUICK, epochs=1, weight_decay=0.1), {r"word_embeddings": 1e-4}
    fitted(folder, tmp_path / "out", figures(0, 1), settings, learning_rates=rates)
    found = [(group["initial_lr"], group["weight_decay"]) for group in steps[0]]
    assert found == [(2e-3, 0.1), (2e-3, 0.0), (1e-4, 0.0)]
    norms, (embeddings,) = steps[0][1]["params"], steps[0][2]["params"]
    assert ({weight.ndim for weight in norms}, embeddings.ndim) == ({1}, 2)


def test_a_model_trained_in_bfloat16_then_computes_as_when_it_is_opened_again(folder, tmp_path):
    model, out = loaded(folder), tmp_path / "out"
    settings = replace(QUICK, precision="bfloat16", epochs=1)
    fine_tune(model, TrainingSet(ROWS, Apart(model)), figures(0, 1), settings, out)
    again = loaded(out).encode(TEXTS)
    assert np.allclose(again, model.encode(TEXTS), atol=1e-6)
    exact = tmp_path / "exact"
    fitted(folder, exact, figures(0, 1), replace(settings, precision="float32"))
    other = loaded(exact).encode(TEXTS)
    assert not np.allclose(again, other, atol=1e-6), "the precision is that of training"


@pytest.mark.parametrize("count", [7, 1203])
def test_batches_of_like_lengths_hold_each_row_once_and_are_drawn_anew_each_epoch(count):
    rows = [{"text": "a" * (k * 7919 % 101), "label": k} for k in range(count)]
    sampler = trainer.SAMPLERS["like lengths"](Dataset.from_list(rows), 4, False, seed=3)
    first, again = list(sampler), list(sampler)
    assert first == again
    assert len(first) == len(sampler) == math.ceil(count / 4)
    assert sorted(place for batch in first for place in batch) == list(range(count))
    assert all(len(batch) <= 4 for batch in first)
    spreads = [np.ptp([len(rows[place]["text"]) for place in batch]) for batch in first]
    if count >= 400:
        assert np.mean(spreads) < 3, "of 50 batches' rows the longest differ by 100"
        sampler.set_epoch(1)
        assert list(sampler) != first


def test_the_result_is_an_ordinary_folder_and_nothing_is_asked_of_the_network(
    folder, tmp_path, monkeypatch, tried
):
    monkeypatch.setattr(SentenceTransformer, "_create_model_card", CARD)
    model, out = loaded(folder), tmp_path / "deep" / "out"
    fine_tune(model, TrainingSet(ROWS, Apart(model)), figures(0, 1), replace(QUICK, epochs=1), out)
    assert list((tmp_path / "deep").iterdir()) == [out]
    again = loaded(out)
    assert [type(one).__name__ for one in again] == ["Transformer", "Pooling"]
    assert np.allclose(again.encode(TEXTS), model.encode(TEXTS), atol=1e-6)
    assert not np.allclose(again.encode(TEXTS), loaded(folder).encode(TEXTS), atol=1e-3)
    assert not tried


def test_a_place_that_cannot_be_written_is_named_before_anything_is_computed(folder, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("years of work")
    with pytest.raises(UserError, match="out: admire did not write this folder"):
        fitted(folder, tmp_path / "out", figures())
    assert (tmp_path / "out" / "thesis.txt").read_text() == "years of work"


def test_a_full_disk_ends_with_one_message(folder, tmp_path):
    with full_disk(), pytest.raises(UserError, match="out: cannot be written"):
        fitted(folder, tmp_path / "out", figures(0, 1))


def test_a_run_that_was_killed_goes_on_and_ends_like_a_whole_one(folder, tmp_path, caplog, whole):
    out, at, values = tmp_path / "out", 3, [0.3, 0.1, 0.2]
    killed(folder, out, 0, *values[: at - 1])
    # A checkpoint that was being written has no state yet.
    (begun,) = tmp_path.glob(".out.*.checkpoints")
    (begun / f"checkpoint-{2 * at}").mkdir()
    torch.rand(5)
    with caplog.at_level(logging.INFO, "admire"):
        again = fitted(folder, out, figures(0, *values[at - 1 :]))
    assert re.search(rf"Resuming from .*checkpoint-{2 * at - 2}$", caplog.text, re.MULTILINE)
    assert again == pytest.approx([0, *values])
    assert apart(out, whole)[1 + int(np.argmax(values))] <= 1e-5
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize(
    "change", [{"settings": replace(QUICK, seed=5, learning_rate=1e-4)}, {"of": "another model"}]
)
def test_a_call_with_another_setting_row_or_model_begins_anew(folder, tmp_path, change, caplog):
    killed(folder, tmp_path / "out", 0, 1)
    with caplog.at_level(logging.INFO, "admire"):
        fitted(folder, tmp_path / "out", figures(0, 1, 2, 3), **change)
    assert "Resuming" not in caplog.text
    assert list(tmp_path.iterdir()) == [tmp_path / "out"]  # the others are dropped
