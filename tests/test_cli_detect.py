"""The commands detect and finetune detector, and the fine-tuned detector in other commands."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import HEAVY, TORCH, loaded, run
from conftest import admire_row
from toys import WordEncoder

from admire.encoders import open_encoder
from admire.senses import Detector

pytest.importorskip("sklearn", reason="macro F1 needs the extra 'train'")

ROWS = [
    {"ID": "7", "Language": "PT", "MWE": "pé frio", "Target": "Que pé frio!", "Label": "1"},
    {"ID": "3", "Language": "EN", "MWE": "big fish", "Target": "A big fish, dead.", "Label": "1"},
    {"ID": "12", "Language": "EN", "MWE": "big fish", "Target": "He is a big fish.", "Label": "0"},
    {"ID": "1", "Language": "EN", "MWE": "red tape", "Target": "So much red tape.", "Label": "0"},
]
AROUND = {"Previous": "before", "Next": "after"}


def without(column: str, rows: list[dict[str, str]] = ROWS) -> list[dict[str, str]]:
    return [{name: cell for name, cell in row.items() if name != column} for row in rows]


@pytest.fixture
def data(write_table: Callable[..., Path]) -> Path:
    return write_table(*ROWS, name="dev.csv")


@pytest.fixture
def idiomatic(tmp_path: Path) -> Path:
    """A detector that takes everything as idiomatic."""
    path = tmp_path / "mine.json"
    Detector("e5", open_encoder("e5").identity, np.zeros((5, 384)), np.ones(5), {}).save(path)
    return path


def rows_of(out: str) -> dict[str, tuple[int, float, float]]:
    found = json.loads(out)
    return {r["language"]: (r["n"], r["macro_f1"], r["accuracy"]) for r in found}


# ------------------------------------------------------------------------------------------- detect


def test_macro_f1_and_accuracy_are_told_by_language_in_order_and_together(capsys, data, idiomatic):
    code, out, _ = run(capsys, "detect", data, "--detector", idiomatic, "--json")
    assert code == 0
    found = rows_of(out)
    assert list(found) == ["en", "pt", "all"]
    # Of English the idiomatic F1 is 2·(2/3)·1 / (2/3 + 1) = 0.8 and the literal one 0.
    assert found["en"] == pytest.approx((3, 0.4, 2 / 3))
    assert found["pt"] == (1, 0, 0)
    assert found["all"] == pytest.approx((4, 1 / 3, 0.5))
    code, out, _ = run(capsys, "detect", data, "--detector", idiomatic)
    assert code == 0
    assert ["en", "3", "0.4000", "0.6667"] in [line.split("│")[1:5] for line in compact(out)]


def compact(out: str) -> list[str]:
    return [line.replace(" ", "") for line in out.splitlines()]


def test_the_submission_is_as_the_organisers_read_it(capsys, data, idiomatic, tmp_path):
    arguments = ["detect", data, "--detector", idiomatic, "--out", tmp_path / "out" / "mine.csv"]
    code, _, err = run(capsys, *arguments)
    assert code == 0
    assert "Wrote" in err
    head = "ID,Language,Setting,Label\n"
    rows = ("7,PT", "3,EN", "12,EN", "1,EN")
    written = (tmp_path / "out" / "mine.csv").read_text()
    assert written == head + "".join(f"{row},zero_shot,0\n" for row in rows)
    run(capsys, *arguments, "--setting", "one_shot")
    written = (tmp_path / "out" / "mine.csv").read_text()
    assert written == head + "".join(f"{row},one_shot,0\n" for row in rows)


def test_literal_is_one_in_the_submission(capsys, data, tmp_path):
    literal = tmp_path / "literal.json"
    Detector("e5", open_encoder("e5").identity, np.zeros((5, 384)), -np.ones(5), {}).save(literal)
    run(capsys, "detect", data, "--detector", literal, "--out", tmp_path / "mine.csv")
    assert pd.read_csv(tmp_path / "mine.csv")["Label"].tolist() == [1, 1, 1, 1]


def test_labels_may_lie_in_a_gold_file(capsys, write_table, idiomatic, data):
    told = run(capsys, "detect", data, "--detector", idiomatic, "--json")[1]
    plain = write_table(*without("Label"), name="plain.csv")
    more = [{"ID": "99", "Label": "1"}]
    gold = write_table(
        *[{k: row[k] for k in ("ID", "Label")} for row in ROWS[::-1]], *more, name="gold.csv"
    )
    arguments = ["detect", plain, "--detector", idiomatic, "--json"]
    code, out, _ = run(capsys, *arguments, "--gold", gold)
    assert code == 0
    assert rows_of(out) == rows_of(told)
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert "plain.csv: has no labels to compare with. Give --gold, or --out." in err


def test_without_labels_a_submission_is_written_and_nothing_scored(
    capsys, write_table, idiomatic, tmp_path
):
    plain = write_table(*without("Label"), name="plain.csv")
    code, out, _ = run(
        capsys, "detect", plain, "--detector", idiomatic, "--out", tmp_path / "o.csv"
    )
    assert (code, out) == (0, "")
    assert len(pd.read_csv(tmp_path / "o.csv")) == 4


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([ROWS[0], ROWS[1] | {"Label": "2"}], "dev.csv, row 2, Label: is '2', not 0 or 1"),
        ([ROWS[0], ROWS[1] | {"Label": ""}], "dev.csv, row 2, Label: is '', not 0 or 1"),
        ([ROWS[0] | {"Target": " "}], "dev.csv, row 1, Target: is empty"),
        ([ROWS[0] | {"Language": "English!"}], "dev.csv, row 1, Language: 'English!' is not"),
        (without("MWE"), "dev.csv: the column 'MWE' is missing"),
        (without("ID"), "dev.csv: the column 'ID' is missing"),
    ],
)
def test_what_cannot_be_used_of_the_file_is_named(
    capsys, write_table, idiomatic, tmp_path, rows, message
):
    data = write_table(*rows, name="dev.csv")
    out = tmp_path / "o.csv"
    code, _, err = run(capsys, "detect", data, "--detector", idiomatic, "--out", out)
    assert code == 2
    assert message in err
    assert not out.exists()


def test_the_built_in_detector_is_the_default(capsys, monkeypatch, data, idiomatic):
    monkeypatch.setattr("admire.senses.BUILT_IN", idiomatic)
    assert rows_of(run(capsys, "detect", data, "--json")[1])["pt"] == (1, 0, 0)


@pytest.mark.parametrize("arguments", [["detect", "--help"], ["train", "classifier", "--help"]])
def test_help_loads_nothing_heavy(arguments):
    assert not HEAVY & loaded(f"from admire.cli import main; main({arguments})")


def test_a_light_detector_loads_no_torch(data, idiomatic):
    arguments = ["detect", str(data), "--detector", str(idiomatic)]
    found = loaded(f"from admire.cli import main; main({arguments})")
    assert "admire.senses" in found
    assert not TORCH & found


# -------------------------------------------------------------------------------- finetune detector


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    torch = pytest.importorskip("torch", reason="needs the extra 'finetune'")
    for package in ("sentence_transformers", "datasets", "accelerate"):
        pytest.importorskip(package, reason="needs the extra 'finetune'")
    from towers import save_sentence_transformer

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    gc.freeze()
    folder = save_sentence_transformer(tmp_path_factory.mktemp("models") / "tiny")
    yield folder.with_name("tiny-parts")
    gc.unfreeze()
    torch.set_num_threads(before)


MWES = ("night owl", "red lamp", "big bird", "green desk", "blue tree")


def training(mwes: tuple[str, ...] = MWES) -> list[dict[str, str]]:
    found = []
    for mwe in mwes:
        for target, label in (
            (f"a {mwe} in the tree", "1"),
            (f"the big {mwe} is on the desk", "1"),
            (f"my sister is the {mwe} who writes", "0"),
            (f"a real {mwe} writes at midnight", "0"),
        ):
            found.append({"Language": "EN", "MWE": mwe, "Target": target, "Label": label})
    return [row | AROUND | {"ID": f"i{k}"} for k, row in enumerate(found)]


@pytest.fixture(scope="module")
def fitted(base: Path) -> Callable[..., list[object]]:
    """The arguments of finetune detector for a quick training."""

    def arguments(*data: Path, out: Path, setting: str = "one_shot", **options: object) -> list:
        quick = {"epochs": 8, "batch-size": 4, "learning-rate": 3e-3, "max-length": 24}
        told = [part for k, v in (quick | options).items() for part in (f"--{k}", v)]
        command = ["train", "classifier", *data, "--encoder", base, "--out", out, *told]
        return [*command, "--setting", setting, "--device", "cpu"]

    return arguments


@pytest.mark.parametrize("setting", ["zero_shot", "one_shot"])
def test_a_detector_is_fine_tuned_on_files_and_decides_in_detect_and_sense(
    capsys, fitted, write_table, tmp_path, setting
):
    one, two = (write_table(*training(m), name=f"{m[0]}.csv") for m in (MWES[:2], MWES[2:]))
    held = training(("small circle",))
    plain = write_table(*without("Label", held), name="dev.csv")
    gold = write_table(*[{k: r[k] for k in ("ID", "Label")} for r in held], name="gold.csv")
    mine = tmp_path / "mine"
    options = {"validation": plain, "validation-gold": gold, "seed": 3}
    code, out, err = run(capsys, *fitted(one, two, out=mine, setting=setting, **options), "--json")
    assert code == 0
    assert "20 sentences to train and 4 to validate on" in err
    found = json.loads(out)
    assert found["after"] == max(found["epochs"]) == 1
    assert found["before"] < 1
    record = json.loads((mine / "admire.json").read_text())
    assert (record["rows"], record["seed"], record["macro_f1"]) == (20, 3, 1)

    arguments = ["detect", plain, "--gold", gold, "--detector", mine, "--out", tmp_path / "o.csv"]
    code, out, _ = run(capsys, *arguments, "--json")
    assert code == 0
    assert rows_of(out) == {"en": (4, 1, 1), "all": (4, 1, 1)}
    written = pd.read_csv(tmp_path / "o.csv")
    assert written["Setting"].unique().tolist() == [setting.replace("-", "_")]
    assert written["Label"].tolist() == [1, 1, 0, 0]

    rows = [admire_row("small circle", sentence=row["Target"]) for row in held]
    senses = tmp_path / "senses.tsv"
    code, _, _ = run(
        capsys, "sense", write_table(*rows), "--detector", mine, "--sense", "detector",
        "--out", senses,
    )  # fmt: skip
    assert code == 0
    told = pd.read_csv(senses, sep="\t")
    assert told["predicted_type"].tolist() == ["literal", "literal", "idiomatic", "idiomatic"]
    assert told[["idiomatic", "literal"]].to_numpy().tolist() == [[0, 1]] * 2 + [[1, 0]] * 2


def test_without_a_validation_file_mwes_are_held_out(capsys, fitted, write_table, tmp_path):
    data = write_table(*training(), name="train.csv")
    code, out, err = run(capsys, *fitted(data, out=tmp_path / "mine", epochs=1))
    assert code == 0
    assert "16 sentences to train and 4 to validate on" in err
    table = [line.split("│")[1] for line in compact(out) if "│" in line]
    assert table == ["before", "after"]


def test_the_encoder_may_be_named_as_for_other_commands(
    capsys, fitted, write_table, tmp_path, base
):
    arguments = fitted(write_table(*training(), name="t.csv"), out=tmp_path / "mine", epochs=1)
    arguments[arguments.index(base)] = f"sbert:{base}"
    assert run(capsys, *arguments)[0] == 0


def test_zero_shot_needs_the_context_one_shot_does_not(capsys, fitted, write_table, tmp_path):
    data = write_table(*without("Next", training()), name="train.csv")
    for name in ("zero_shot", "one_shot"):
        code, _, err = run(capsys, *fitted(data, out=tmp_path / name, setting=name, epochs=1))
        assert code == (2 if name == "zero_shot" else 0)
        assert ("train.csv: the column 'Next' is missing" in err) == (name == "zero_shot")
    whole = write_table(*training(), name="whole.csv")
    mine = tmp_path / "mine"
    assert run(capsys, *fitted(whole, out=mine, setting="zero_shot", epochs=1))[0] == 0
    code, _, err = run(capsys, "detect", data, "--detector", mine)
    assert code == 2
    assert "train.csv: the column 'Next' is missing" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"validation-gold": "gold.csv"}, "--validation-gold goes with --validation"),
        ({"validation": "none.csv"}, "none.csv: cannot be read"),
        ({"epochs": 0}, "epochs cannot be 0"),
        ({"max-length": 2}, "max_length cannot be 2"),
        ({"encoder": "./none"}, "./none: is no folder of a model"),
    ],
)
def test_what_cannot_be_is_refused(capsys, fitted, write_table, tmp_path, options, message):
    data = write_table(*training(), name="train.csv")
    code, _, err = run(capsys, *fitted(data, out=tmp_path / "mine", **options))
    assert code == 2
    assert message in err
    assert not (tmp_path / "mine").exists()


def test_a_training_file_without_labels_is_named(capsys, fitted, write_table, tmp_path):
    data = write_table(*without("Label", training()), name="train.csv")
    code, _, err = run(capsys, *fitted(data, out=tmp_path / "mine"))
    assert code == 2
    assert "train.csv: the column 'Label' is missing" in err


def test_a_folder_that_is_no_detector_is_named(capsys, data, tmp_path):
    (tmp_path / "empty").mkdir()
    code, _, err = run(capsys, "detect", data, "--detector", tmp_path / "empty")
    assert code == 2
    assert "admire.json: cannot be read" in err


# --------------------------------------------------------------------------------- detector


def test_a_light_detector_leaves_compounds_of_both_kinds_of_files_unseen(
    capsys, monkeypatch, write_table, tmp_path
):
    monkeypatch.setattr("admire.encoders.open_encoder", lambda name: WordEncoder())
    mwes = (*MWES, "cold feet", "couch potato", "pipe dream")
    data = write_table(*training(mwes), name="train.csv")
    task = write_table(*without("Label", training(MWES[:1])), name="dev.csv")
    items = write_table(admire_row(mwes[-1].upper()))
    for leave_out, left in (((), 0), ((task,), 1), ((task, items), 2)):
        options = [word for path in leave_out for word in ("--leave-out", path)]
        name = tmp_path / "mine.json"
        code, out, _ = run(capsys, "train", "detector", data, "--out", name, *options)
        assert code == 0
        assert json.loads(out)["compounds"] == len(mwes) - left
