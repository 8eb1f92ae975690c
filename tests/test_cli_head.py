import json
import shlex
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from commands import passed, run
from conftest import admire_row

pytest.importorskip("torch", reason="needs the extra 'train'")

from heads import SETTINGS, fresh
from toys import WordEncoder, opens, says

from admire.encoders.projection import Projection, load_projection
from admire.encoders.training_settings import HeadTraining
from admire.tasks.training import sweep as sweep_module

pytestmark = pytest.mark.usefixtures("one_thread")

COMPOUNDS = ("night owl", "bad apple", "red tape", "couch potato", "cold feet")
SMALL = ("--soft-negatives", "2", "--hidden", "8", "--output", "5", "--epochs", "3")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    opened: list[Any] = opens(monkeypatch, says("Idiomatic", "a woman awake late"))

    def open_encoder(name: str, **options: Any) -> WordEncoder:
        opened.append((name, options))
        encoder = WordEncoder()
        if name == "others":
            encoder.name, encoder.identity = name, "others:1"
        return encoder

    for module in ("tasks.training.triplets", "rankers.run_encoders"):
        monkeypatch.setattr(f"admire.{module}.open_encoder", open_encoder)
    return opened


@pytest.fixture
def table(write_table) -> Path:
    caption = "a {} at a desk"
    return write_table(*(admire_row(c, image1_caption=caption.format(c)) for c in COMPOUNDS))


def test_train_writes_a_head_and_prints_its_card(capsys, tmp_path, opened, table):
    folder = tmp_path / "head"
    options = shlex.split(
        "--llm openai:x --llm-url http://y --encoder words --device cpu --seed 2 --batch-size 3 "
        "--learning-rate 0.01 --no-residual --glosses-only"
    )
    file = tmp_path / "head.toml"
    file.write_text(
        "weight_decay = 0.1\ntemperature = 0.5\ndropout = 0.2\npatience = 4\n"
        "epochs = 99  # options win\nresidual = true\nencoder = 'others'\nseed = 5\n"
    )
    options += ["--config", str(file)]
    command = ["train", "head", table, "--out", folder, *SMALL, *options]
    out, err = passed(capsys, *command, "--json")
    assert f"Wrote {folder}" in err
    assert opened == [("words", {"device": "cpu"}), ("openai:x", "http://y")]
    card = json.loads(out)
    expected = {"hidden": 8, "output": 5, "dropout": 0.2, "residual": False, "glosses_only": True}
    expected |= {"batch_size": 3, "learning_rate": 0.01, "weight_decay": 0.1, "soft_negatives": 2}
    expected |= {"temperature": 0.5, "epochs": 3, "patience": 4, "seed": 2}
    assert card["settings"] == expected
    assert card["encoder"]["identity"] == "words:1"
    assert sorted(chain(*card["compounds"].values())) == sorted(COMPOUNDS)
    whole = load_projection(folder).card
    assert {name: len(found) for name, found in whole["saw"].items()} == card["saw"]
    assert whole | {"saw": card["saw"]} == card
    out, _ = passed(capsys, *command)
    assert f"{card['test_top1']['head']:.4f}" in out
    assert "settings" not in out


def test_a_sweep_tries_what_is_asked_for_and_its_folds_go_on(
    capsys, tmp_path, opened, table, monkeypatch
):
    monkeypatch.setattr(sweep_module, "cores", lambda: 1)
    out = tmp_path / "sweep.jsonl"
    options = shlex.split(
        "--soft-negatives 1 --soft-negatives 2 --dropout 0.2 --learning-rate 0.01 "
        "--temperature 0.5 --epochs 2 --glosses-only --json"
    )
    file = tmp_path / "sweep.toml"
    file.write_text("batch_size = [2]\nsoft_negatives = [9]  # options win\nresidual = true\n")
    options += ["--config", str(file)]
    stdout, err = passed(capsys, "sweep", table, "--out", out, *options)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    settings = [HeadTraining(**json.loads(row["job"])[0]) for row in rows]
    assert [job.soft_negatives for job in settings] == [1, 2]
    assert all((job.dropout, job.residual, job.epochs) == (0.2, True, 2) for job in settings)
    printed = json.loads(stdout)
    losses = sorted(row["outcome"]["validation_loss"] for row in rows)
    assert [row["validation_loss"] for row in printed] == pytest.approx(losses)

    folded = ("sweep", table, "--out", out, *options, "--folds", "5")
    stdout, err = passed(capsys, *folded)
    assert len(out.read_text().splitlines()) == 2 + 2 * 5
    _, again, err = run(capsys, *folded)
    assert again == stdout
    assert "Training" not in err


@pytest.mark.parametrize(
    ("command", "options", "message"),
    [
        (
            "train head",
            "",
            "30 soft negatives are too many: a training item has only 2 other items",
        ),
        ("train head", "--folds 6", "6 folds need 6 compounds, not 5. (--folds)"),
        ("sweep", "--soft-negatives 2", "sweep.jsonl: is not the file of a sweep"),
        ("train head", "--soft-negatives 2 --glosses-only", "too few items are idiomatic"),
    ],
)
def test_settings_that_do_not_suit_the_data_are_refused_before_a_model_is_opened(
    capsys, tmp_path, opened, table, write_table, command, options, message
):
    out = tmp_path / "sweep.jsonl"
    if "not the file" in message:
        out.write_text('{"job": 1}\n')
    if "idiomatic" in message:
        table = write_table(*(admire_row(c, sentence_type="literal") for c in COMPOUNDS))
    code, printed, err = run(capsys, *command.split(), table, "--out", out, *options.split())
    assert (code, printed) == (2, "")
    assert message in err.splitlines()[-1]
    assert not opened


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--llm", "openai:x", "--encoder", "others"),
            "The heads are of 'words' (words:1); the encoders are 'others' (others:1).",
        ),
        (("--query", "sentence"), "The head compares glosses, not"),
    ],
)
def test_a_head_that_does_not_fit_is_refused(capsys, tmp_path, opened, table, options, message):
    settings = replace(SETTINGS, glosses_only=True)
    card = {"encoder": {"name": "words", "identity": "words:1"}, "width": 512}
    head = Projection(fresh(512, settings), card | {"settings": asdict(settings)})
    head.save(tmp_path / "head")
    command = ("rank", table, *options, "--head", tmp_path / "head", "--out", tmp_path / "run")
    code, out, err = run(capsys, *command)
    assert (code, out) == (2, "")
    assert message in err.splitlines()[-1]
