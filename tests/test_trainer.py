"""The trainer that fine-tuning shares: settings, history, best epoch, resume, the folder."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admire.errors import UserError

torch = pytest.importorskip("torch", reason="needs the extra 'finetune'")
pytest.importorskip("sentence_transformers", reason="needs the extra 'finetune'")
pytest.importorskip("datasets", reason="needs the extra 'finetune'")
pytest.importorskip("accelerate", reason="needs the extra 'finetune'")

from sentence_transformers import SentenceTransformer  # noqa: E402
from sentence_transformers.sentence_transformer.modules import (  # noqa: E402
    Normalize,
    Pooling,
    Transformer,
)
from towers import distance, save_sentence_transformer, weights  # noqa: E402
from transformers import TrainerState  # noqa: E402

from admire import trainer as finetune  # noqa: E402
from admire.trainer import FitSettings, fine_tune  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread", "no_card", "tried")

QUICK = FitSettings(batch_size=4, learning_rate=2e-3, epochs=3, patience=3)
CARD = SentenceTransformer._create_model_card


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose vectors have any length."""
    return save_sentence_transformer(tmp_path_factory.mktemp("models") / "plain")


def save(folder: Path, plain: Path, *after: torch.nn.Module, **pooling: Any) -> Path:
    parts = Transformer(f"{plain}-parts", max_seq_length=64)
    modules = [parts, Pooling(32, **pooling), *after]
    SentenceTransformer(modules=modules, device="cpu").save(str(folder), create_model_card=False)
    return folder


@pytest.fixture(scope="module")
def folder(plain: Path) -> Path:
    """A model whose vectors have unit length."""
    return save(plain.with_name("unit"), plain, Normalize())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("batch_size", 0),
        ("learning_rate", 0.0),
        ("learning_rate", -1e-5),
        ("learning_rate", math.nan),
        ("learning_rate", math.inf),
        ("weight_decay", -0.1),
        ("weight_decay", math.nan),
        ("warmup", -0.1),
        ("warmup", 1.0),
        ("epochs", 0),
        ("patience", 0),
    ],
)
def test_fit_settings_that_mean_nothing_are_refused(name, value):
    with pytest.raises(UserError, match=f"{name} cannot be {value}"):
        FitSettings(**{name: value})


def test_the_least_and_most_that_settings_may_be():
    FitSettings(batch_size=1, weight_decay=0, warmup=0, epochs=1, patience=1)


# ---------------------------------------------------------------------------------------------- fit

ROWS = [
    {"one": f"a {first} {second}", "other": f"the {second} of a {first}"}
    for first, second in (
        ("night", "owl"),
        ("red", "bird"),
        ("big", "lamp"),
        ("blue", "desk"),
        ("green", "tree"),
        ("small", "circle"),
        ("yellow", "square"),
    )
]


class Apart(torch.nn.Module):
    """Pairs of texts are to have the same vector."""

    def __init__(self, model: SentenceTransformer):
        super().__init__()
        self.model = model

    def forward(self, features: Sequence[dict], labels: object = None) -> torch.Tensor:
        one, other = (self.model(part)["sentence_embedding"] for part in features)
        return ((one - other) ** 2).mean()


def loaded(folder: Path) -> SentenceTransformer:
    return SentenceTransformer(str(folder), device="cpu")


def figures(*values: float | type[BaseException]) -> Callable[[], float]:
    """A figure for each call; an exception is raised."""
    left = iter(values)

    def validate() -> float:
        value = next(left)
        if isinstance(value, type):
            raise value
        return value

    return validate


def fitted(
    folder: Path,
    out: Path,
    validate: Callable[[], float],
    settings: FitSettings = QUICK,
    rows: Sequence[dict] = ROWS,
) -> list[float]:
    """A fresh model, as another process has it, fitted."""
    model = loaded(folder)
    return fine_tune(model, Apart(model), rows, validate, settings, out)


def killed(folder: Path, out: Path, *values: float, **options: Any) -> None:
    """Fitted with these figures, and killed at the next."""
    with pytest.raises(KeyboardInterrupt):
        fitted(folder, out, figures(*values, KeyboardInterrupt), **options)
    assert not out.exists()


def losses(caplog: pytest.LogCaptureFixture) -> list[float]:
    lines = [r.getMessage() for r in caplog.records if r.name == "admire"]
    found = [re.fullmatch(r"Epoch (\d+): loss (\S+), validation \S+", line) for line in lines]
    matches = [match for match in found if match]
    assert [int(match[1]) for match in matches] == list(range(1, len(matches) + 1))
    return [float(match[2]) for match in matches]


def test_there_must_be_rows(folder, tmp_path):
    with pytest.raises(UserError, match="There is nothing to train on"):
        fitted(folder, tmp_path / "out", figures(), rows=[])
    assert not list(tmp_path.iterdir())


def test_the_history_has_the_figure_before_and_after_each_epoch(folder, tmp_path):
    found = fitted(folder, tmp_path / "out", figures(0.5, 0.1, 0.3, 0.2))
    assert found == pytest.approx([0.5, 0.1, 0.3, 0.2])


@pytest.mark.parametrize(
    ("values", "best"),
    [([0.3, 0.2, 0.1], 1), ([0.1, 0.3, 0.2], 2), ([0.1, 0.2, 0.3], 3), ([0.2, 0.3, 0.3], 2)],
)
def test_the_epoch_with_the_best_figure_is_kept_the_first_of_equals(folder, tmp_path, values, best):
    model, out = loaded(folder), tmp_path / "out"
    left, states = iter([0.0, *values]), []

    def validate() -> float:
        states.append({k: v.detach().clone() for k, v in model[0].model.state_dict().items()})
        return next(left)

    fine_tune(model, Apart(model), ROWS, validate, QUICK, out)
    saved = weights(out)
    apart = [max(float((saved[k] - s[k]).abs().max()) for k in saved) for s in states]
    assert apart[best] == 0
    assert min(apart[:best] + apart[best + 1 :]) > 1e-5
    now = model[0].model.state_dict()
    assert all(torch.equal(now[k], saved[k]) for k in saved), "the model in memory is that too"


def test_a_long_epoch_tells_how_far_it_has_come(folder, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(finetune, "SECONDS_BETWEEN_LINES", -1.0)
    with caplog.at_level(logging.INFO, "admire"):
        fitted(folder, tmp_path / "out", lambda: 0.5)
    lines = [r.getMessage() for r in caplog.records if r.getMessage().startswith("Step ")]
    steps = 3 * math.ceil(len(ROWS) / QUICK.batch_size)
    assert lines == [f"Step {k} of {steps}" for k in range(1, steps + 1)]


def test_the_loss_falls_and_each_epoch_has_a_line(folder, tmp_path, caplog, capsys):
    with caplog.at_level(logging.INFO, "admire"):
        fitted(folder, tmp_path / "out", figures(0.5, 0.6, 0.7, 0.8))
    first, *_, last = losses(caplog)
    assert len(losses(caplog)) == 3
    assert last < first
    assert "Epoch 2: loss" in caplog.text
    assert ", validation 0.7000" in caplog.text
    assert capsys.readouterr().out == "", "stdout is for results"


def test_training_stops_when_so_many_epochs_were_no_better(folder, tmp_path):
    settings = replace(QUICK, epochs=6, patience=2)
    values = [0.0, 0.5, 0.4, 0.6, 0.6, 0.2]
    found = fitted(folder, tmp_path / "out", figures(*values), settings)
    assert found == pytest.approx(values)  # 5 epochs of 6: the fourth and the fifth were no better


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(folder, tmp_path):
    for name, seed in (("one", 3), ("same", 3), ("other", 4)):
        torch.rand(7)  # what was drawn before does not matter
        settings = replace(QUICK, seed=seed, epochs=2)
        fitted(folder, tmp_path / name, figures(0, 1, 2), settings)
    assert distance(tmp_path / "one", tmp_path / "same") == 0
    assert distance(tmp_path / "one", tmp_path / "other") > 1e-4


def test_features_can_be_made_by_a_collator_of_ones_own(folder, tmp_path):
    model, seen = loaded(folder), []

    def collate(rows: Sequence[dict]) -> dict[str, torch.Tensor]:
        seen.extend(row["number"] for row in rows)
        found = {}
        for column in ("one", "other"):
            features = model.preprocess([f"a {row[column]}" for row in rows])
            for name in ("input_ids", "attention_mask"):
                found[f"{column}_{name}"] = features[name]
        return found

    rows = [row | {"number": k} for k, row in enumerate(ROWS)]
    settings = replace(QUICK, epochs=2)
    fine_tune(model, Apart(model), rows, figures(0, 1, 2), settings, tmp_path / "out", collate)
    assert sorted(seen[: len(ROWS)]) == sorted(seen[len(ROWS) :]) == list(range(len(ROWS)))
    assert seen[: len(ROWS)] != seen[len(ROWS) :], "a new order in each epoch"


def test_a_model_that_was_fitted_in_bfloat16_then_computes_as_when_it_is_opened_again(
    folder, tmp_path
):
    model, out = loaded(folder), tmp_path / "out"
    settings = replace(QUICK, precision="bfloat16", epochs=1)
    fine_tune(model, Apart(model), ROWS, figures(0, 1), settings, out)
    texts = ["a night owl", "the red lamp is big"]
    again = SentenceTransformer(str(out), device="cpu").encode(texts)
    assert np.allclose(again, model.encode(texts), atol=1e-6)
    exact = tmp_path / "exact"
    fitted(folder, exact, figures(0, 1), replace(settings, precision="float32"))
    other = SentenceTransformer(str(exact), device="cpu").encode(texts)
    assert not np.allclose(again, other, atol=1e-6), "the precision is that of training"


def test_the_result_is_an_ordinary_folder_and_nothing_else_is_left(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(SentenceTransformer, "_create_model_card", CARD)
    model, out = loaded(folder), tmp_path / "deep" / "out"
    fine_tune(model, Apart(model), ROWS, figures(0, 1, 2, 3), QUICK, out)
    assert list((tmp_path / "deep").iterdir()) == [out]
    again = SentenceTransformer(str(out), device="cpu")
    texts = ["a night owl", "the red lamp is big"]
    assert [type(one).__name__ for one in again] == ["Transformer", "Pooling", "Normalize"]
    assert np.allclose(again.encode(texts), model.encode(texts), atol=1e-6)
    assert not np.allclose(again.encode(texts), loaded(folder).encode(texts), atol=1e-3)


def test_a_model_that_was_fitted_before_is_replaced(folder, tmp_path):
    fitted(folder, tmp_path / "out", figures(0, 1), replace(QUICK, epochs=1))
    fitted(folder, tmp_path / "out", figures(0, 1, 2), replace(QUICK, epochs=2))
    fitted(folder, tmp_path / "alone", figures(0, 1, 2), replace(QUICK, epochs=2))
    assert distance(tmp_path / "out", tmp_path / "alone") == 0


def test_a_folder_that_is_no_model_is_left_alone(folder, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("years of work")
    with pytest.raises(UserError, match="out"):
        fitted(folder, tmp_path / "out", figures(0, 1), replace(QUICK, epochs=1))
    assert (tmp_path / "out" / "thesis.txt").read_text() == "years of work"


def test_an_out_below_a_file_is_named_before_anything_is_computed(folder, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"out: cannot be written \(Not a directory\)"):
        fitted(folder, tmp_path / "file" / "out", figures())


def test_what_is_added_at_the_end_appears_together_with_the_model(folder, tmp_path):
    out = tmp_path / "out"
    settings = replace(QUICK, epochs=1)

    def add(part: Path, history: list[float]) -> None:
        assert part != out
        (part / "record.json").write_text(str(history))

    for last in (1, 2):  # the second replaces the first, what was added included
        model = loaded(folder)
        rest = (ROWS, figures(0, last), settings, out)
        fine_tune(model, Apart(model), *rest, finish=add)
        assert (out / "record.json").read_text() == f"[0, {last}]"


def test_nothing_is_asked_of_the_network(folder, tmp_path, monkeypatch, tried):
    monkeypatch.setattr(SentenceTransformer, "_create_model_card", CARD)
    fitted(folder, tmp_path / "out", figures(0, 1), replace(QUICK, epochs=1))
    assert not tried


# ------------------------------------------------------------------------------ killed and resumed


@pytest.mark.parametrize(("at", "values"), [(2, [0.1, 0.2, 0.3]), (3, [0.3, 0.1, 0.2])])
def test_a_run_that_was_killed_goes_on_and_ends_as_if_it_had_not_been(
    folder, tmp_path, caplog, at, values
):
    whole = fitted(folder, tmp_path / "whole", figures(0, *values))
    out, checkpoints = tmp_path / "out", tmp_path / ".out.checkpoints"
    killed(folder, out, 0, *values[: at - 1])
    assert checkpoints.is_dir()
    torch.rand(5)
    with caplog.at_level(logging.INFO, "admire"):
        again = fitted(folder, out, figures(*values[at - 1 :]))
    assert "Going on from" in caplog.text
    assert distance(out, tmp_path / "whole") <= 1e-5
    assert again[-3:] == pytest.approx(whole[-3:])
    assert not checkpoints.exists()
    assert {path.name for path in tmp_path.iterdir()} == {"whole", "out"}


def test_a_run_that_was_killed_tells_the_whole_history(folder, tmp_path):
    killed(folder, tmp_path / "out", 0.1, 0.2)
    # An encoder that is fresh gives 0.1 again, should it be asked.
    model, left = loaded(folder), iter([0.3, 0.4])
    fresh = {k: v.detach().clone() for k, v in model[0].model.state_dict().items()}

    def validate() -> float:
        now = model[0].model.state_dict()
        return 0.1 if all(torch.equal(now[k], fresh[k]) for k in fresh) else next(left)

    found = fine_tune(model, Apart(model), ROWS, validate, QUICK, tmp_path / "out")
    assert found == pytest.approx([0.1, 0.2, 0.3, 0.4])


def test_a_run_that_was_killed_before_its_first_checkpoint_begins_anew(folder, tmp_path, caplog):
    killed(folder, tmp_path / "out", 0)
    with caplog.at_level(logging.INFO, "admire"):
        found = fitted(folder, tmp_path / "out", figures(0, 1, 2, 3))
    assert "Going on" not in caplog.text
    assert found == pytest.approx([0, 1, 2, 3])


def test_a_checkpoint_that_is_not_whole_is_(folder, tmp_path, monkeypatch, caplog):
    fitted(folder, tmp_path / "whole", figures(0, 1, 2, 3))
    write, written = TrainerState.save_to_json, []

    def second_is_killed(state: TrainerState, path: str) -> None:
        written.append(path)
        if len(written) == 2:
            raise KeyboardInterrupt
        write(state, path)

    with monkeypatch.context() as patched:
        patched.setattr(TrainerState, "save_to_json", second_is_killed)
        with pytest.raises(KeyboardInterrupt):
            fitted(folder, tmp_path / "out", figures(0, 1, 2))
    steps = sorted(path.name for path in (tmp_path / ".out.checkpoints").glob("checkpoint-*"))
    assert steps == ["checkpoint-2", "checkpoint-4"]  # two batches an epoch
    with caplog.at_level(logging.INFO, "admire"):
        fitted(folder, tmp_path / "out", figures(2, 3))
    assert re.search(r"Going on from .*checkpoint-2$", caplog.text, re.MULTILINE)
    assert distance(tmp_path / "out", tmp_path / "whole") <= 1e-5


def test_a_run_that_was_killed_while_it_wrote_the_model_writes_it(folder, tmp_path, monkeypatch):
    fitted(folder, tmp_path / "whole", figures(0, 1, 3, 2))

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", stop)
        with pytest.raises(KeyboardInterrupt):
            fitted(folder, tmp_path / "out", figures(0, 1, 3, 2))
    assert not (tmp_path / "out").exists()
    found = fitted(
        folder, tmp_path / "out", figures(2)
    )  # the trainer itself deletes all but the best epoch
    assert found[-3:] == pytest.approx([1, 3, 2])
    assert distance(tmp_path / "out", tmp_path / "whole") == 0
    assert {path.name for path in tmp_path.iterdir()} == {"whole", "out"}


def test_patience_outlasts_a_kill(folder, tmp_path):
    settings = replace(QUICK, epochs=5, patience=2)
    values = [0.9, 0.8, 0.7]
    whole = fitted(folder, tmp_path / "whole", figures(0, *values), settings)
    assert whole == pytest.approx([0, *values])  # it has stopped after the third
    killed(folder, tmp_path / "out", 0, 0.9, 0.8, settings=settings)
    again = fitted(folder, tmp_path / "out", figures(0.7, 0.6, 0.5), settings)
    assert again[-3:] == pytest.approx(values)


def test_a_call_with_other_settings_does_not_go_on_from_the_checkpoint(folder, tmp_path):
    other = replace(QUICK, seed=5, learning_rate=1e-4)
    fitted(folder, tmp_path / "alone", figures(0, 1, 2, 3), other)
    killed(folder, tmp_path / "out", 0, 1)
    fitted(folder, tmp_path / "out", figures(0, 1, 2, 3), other)
    assert distance(tmp_path / "out", tmp_path / "alone") <= 1e-5


def test_a_call_with_other_rows_does_not_go_on_from_the_checkpoint(folder, tmp_path):
    rows = [{"one": row["other"], "other": "a man is a woman"} for row in ROWS]
    fitted(folder, tmp_path / "alone", figures(0, 1, 2, 3), rows=rows)
    killed(folder, tmp_path / "out", 0, 1)
    fitted(folder, tmp_path / "out", figures(0, 1, 2, 3), rows=rows)
    assert distance(tmp_path / "out", tmp_path / "alone") <= 1e-5
