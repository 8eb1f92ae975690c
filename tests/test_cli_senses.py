import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import chat_server, ended, passed, run
from conftest import admire_row
from toys import WordEncoder

from admire.embedded.light_detector import LightDetector, Reader
from admire.encoders import Query, Vectors

pytest.importorskip("sklearn", reason="training a light detector needs the extra 'train'")

ROWS = [
    {"ID": "7", "Language": "PT", "MWE": "pé frio", "Target": "Que pé frio!", "Label": "1"},
    {"ID": "3", "Language": "EN", "MWE": "big fish", "Target": "A big fish, dead.", "Label": "1"},
    {"ID": "12", "Language": "EN", "MWE": "big fish", "Target": "He is a big fish.", "Label": "0"},
    {"ID": "1", "Language": "EN", "MWE": "red tape", "Target": "So much red tape.", "Label": "0"},
]
AROUND = {"Previous": "before", "Next": "after"}


def without(column: str, rows: list[dict[str, str]] = ROWS) -> list[dict[str, str]]:
    return [{name: cell for name, cell in row.items() if name != column} for row in rows]


class ContextEncoder(WordEncoder):
    """Words in context as the bag of the whole text's words."""

    def encode_queries(self, queries: Sequence[Query]) -> Vectors:
        return self.encode_texts([query.text for query in queries], role="query")


@pytest.fixture(autouse=True)
def words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admire.encoders.cached.open_encoder", lambda name: ContextEncoder())


@pytest.fixture
def data(write_table: Callable[..., Path]) -> Path:
    return write_table(*ROWS, name="dev.csv")


@pytest.fixture
def idiomatic(tmp_path: Path) -> Path:
    path = tmp_path / "mine.json"
    readers = (Reader(name="words", identity="words:1"),)
    LightDetector(readers, np.zeros((5, 2048)), np.ones(5), True, {}).save(path)
    return path


def rows_of(out: str) -> dict[str, tuple[int, float, float]]:
    found = json.loads(out)
    return {r["language"]: (r["n"], r["macro_f1"], r["accuracy"]) for r in found}


def test_macro_f1_and_accuracy_are_told_by_language_in_order_and_together(capsys, data, idiomatic):
    out, _ = passed(capsys, "detect", data, "--detector", idiomatic, "--json")
    found = rows_of(out)
    assert list(found) == ["en", "pt", "all"]
    # Of English the idiomatic F1 is 2·(2/3)·1 / (2/3 + 1) = 0.8 and the literal one 0.
    assert found["en"] == pytest.approx((3, 0.4, 2 / 3))
    assert found["pt"] == (1, 0, 0)
    assert found["all"] == pytest.approx((4, 1 / 3, 0.5))
    _, out, _ = run(capsys, "detect", data, "--detector", idiomatic)
    # The mean precision is 1/3 and the mean recall 1/2, so the F1 of these is 0.4 too.
    cells = "0.400[0.000,1.000]│0.400[0.000,1.000]│0.667[0.208,0.939]"
    assert f"│en│3│{cells}│" in out.replace(" ", "")


def test_detect_reads_the_first_rows_and_tells_intervals(capsys, data, idiomatic, tmp_path):
    out_file = tmp_path / "mine.csv"
    command = ("detect", data, "--detector", idiomatic, "--out", out_file, "--limit")
    out, err = passed(capsys, *command, 3, "--json")
    *_, last = json.loads(out)
    assert (last["language"], last["n"]) == ("all", 3)
    for figure in ("macro_f1", "f1_of_averages", "accuracy"):
        assert last[f"{figure}_low"] <= last[figure] <= last[f"{figure}_high"]
    assert "mine.csv (3 rows)" in err
    assert len(out_file.read_text().splitlines()) == 1 + 3
    assert "limit cannot be 0" in ended(capsys, *command, 0)


def test_a_submission_is_written_and_without_labels_nothing_is_scored(
    capsys, write_table, idiomatic, tmp_path
):
    plain = write_table(*without("Label"), name="plain.csv")
    out = tmp_path / "out" / "mine.csv"
    arguments = ["detect", plain, "--detector", idiomatic]
    table = ("--table", tmp_path / "senses.tsv")
    for _ in range(2):  # the second replaces what the first wrote
        code, told, err = run(capsys, *arguments, "--out", out, *table, "--setting", "one_shot")
        assert (code, told) == (0, "")
    assert "Wrote" in err
    rows = ("7,PT", "3,EN", "12,EN", "1,EN")
    head = "ID,Language,Setting,Label\n"
    assert out.read_text() == head + "".join(f"{row},one_shot,0\n" for row in rows)
    code, told, err = run(capsys, *arguments)
    assert (code, told) == (2, "")
    assert "plain.csv: has no labels" in err
    assert "(--gold, --out)" in err


def test_sense_works_on_targets_without_candidates_and_scores_them(
    capsys, monkeypatch, tmp_path, write_table, httpserver
):
    monkeypatch.chdir(tmp_path)
    model = ["--llm", "openai:toy", "--llm-url", httpserver.url_for("/v1")]
    chat_server(httpserver, lambda prompt: "Literal" if "owl" in prompt else "Who knows?")
    columns = ("compound", "subset", "sentence_type", "sentence", "expected_order")
    rows = [admire_row(), admire_row("cold feet", sentence="He had cold feet.")]
    rows[0]["sentence_type"] = "literal"
    data = write_table(*({c: row[c] for c in columns} for row in rows), name="train_targets.tsv")
    out_file = tmp_path / "senses.tsv"
    out, err = passed(capsys, "sense", data, "--out", out_file, "--votes", 3, "--json", *model)
    senses = pd.read_csv(out_file, sep="\t", keep_default_na=False)
    assert senses["predicted_type"].tolist() == ["literal", ""]
    printed = json.loads(out)
    assert [row["predicted_type"] for row in printed["senses"]] == ["literal", None]
    assert [row["literal"] for row in printed["senses"]] == senses["literal"].tolist() == [3, 0]
    accuracy = pd.DataFrame(printed["figures"]).set_index("group")
    assert accuracy.loc["all", "mean"] == 0.5
    assert "no vote on 'cold feet'" in err
    command = ["sense", data, "--out", out_file, "--votes", 1, "--vote-temperature", 1.5, *model]
    assert run(capsys, *command)[0] == 0
    asked = [request.get_json()["temperature"] for request, _ in httpserver.log]
    assert asked == [0.7] * 6 + [1.5] * 2
    unknown = write_table(rows[0] | {"sentence_type": ""}, name="unknown.tsv")
    code, out, err = run(capsys, "sense", unknown, *model)
    assert (code, out) == (0, "")
    assert "Wrote runs/senses.tsv" in err
    assert Path("runs/senses.tsv").is_file()
    unread = write_table(rows[1], name="unread.tsv")
    code, _, err = run(capsys, "sense", unread, "--out", tmp_path / "none.tsv", *model)
    assert code == 2
    assert err.endswith("or use another model. (--llm, --llm-url, --sense)\n")
    assert not (tmp_path / "none.tsv").exists()


MWES = ("night owl", "red lamp", "big bird", "green desk", "blue tree")


def training(mwes: tuple[str, ...] = MWES) -> list[dict[str, str]]:
    targets = {
        "a {} in the tree": "1",
        "the big {} is on the desk": "1",
        "my sister is the {} who writes": "0",
        "a real {} writes at midnight": "0",
    }
    rows = [
        {"Language": "EN", "MWE": mwe, "Target": target.format(mwe), "Label": label}
        for mwe in mwes
        for target, label in targets.items()
    ]
    return [row | AROUND | {"ID": f"i{k}"} for k, row in enumerate(rows)]


QUICK = "--epochs 8 --batch-size 4 --learning-rate 3e-3 --max-length 24 --device cpu --seed 3"


@pytest.mark.usefixtures("one_thread")
def test_a_classifier_is_trained_on_files_and_decides_in_detect_and_sense(
    capsys, write_table, tmp_path
):
    for package in ("torch", "sentence_transformers", "datasets", "accelerate"):
        pytest.importorskip(package, reason="needs the extra 'finetune'")
    from towers import save_sentence_transformer

    base = save_sentence_transformer(tmp_path / "tiny").with_name("tiny-parts")
    one, two = (write_table(*training(m), name=f"{m[0]}.csv") for m in (MWES[:2], MWES[2:]))
    held = training(("small circle",))
    plain = write_table(*without("Label", held), name="dev.csv")
    gold = write_table(*[{k: r[k] for k in ("ID", "Label")} for r in held], name="gold.csv")
    mine = tmp_path / "mine"
    command = ["train", "classifier", one, two, "--encoder", base, "--out", mine, *QUICK.split()]
    command += ["--validation", plain, "--validation-gold", gold, "--setting", "zero_shot"]
    out, err = passed(capsys, *command, "--json")
    assert "20 sentences to train and 4 to validate on" in err
    found = json.loads(out)
    assert found["after"] == max(found["epochs"]) == 1
    record = json.loads((mine / "admire.json").read_text())
    fit = record["fit"]
    assert (record["rows"], fit["seed"], fit["epochs"], fit["patience"]) == (20, 3, 8, 8)

    arguments = ["detect", plain, "--gold", gold, "--detector", mine, "--out", tmp_path / "o.csv"]
    out, _ = passed(capsys, *arguments, "--json")
    assert rows_of(out) == {"en": (4, 1, 1), "all": (4, 1, 1)}
    assert pd.read_csv(tmp_path / "o.csv")["Setting"].unique().tolist() == ["zero_shot"]

    rows = [admire_row("small circle", sentence=row["Target"]) for row in held]
    senses = tmp_path / "senses.tsv"
    passed(
        capsys, "sense", write_table(*rows), "--detector", mine, "--sense", "detector",
        "--out", senses,
    )  # fmt: skip
    told = pd.read_csv(senses, sep="\t")
    assert told["predicted_type"].tolist() == ["literal", "literal", "idiomatic", "idiomatic"]


def test_a_light_detector_leaves_compounds_unseen(capsys, write_table, tmp_path):
    mwes = (*MWES, "cold feet", "couch potato", "pipe dream")
    data = write_table(*training(mwes), name="train.csv")
    task = write_table(*without("Label", training(MWES[:1])), name="dev.csv")
    items = write_table(admire_row(mwes[-1].upper()))
    mine = tmp_path / "mine.json"
    left_out = ["--leave-out", task, "--leave-out", items]
    for _ in range(2):
        out, _ = passed(capsys, "train", "detector", data, "--out", mine, *left_out, "--json")
    assert json.loads(out)["compounds"] == len(mwes) - 2
    assert run(capsys, "detect", data, "--detector", mine)[0] == 0
