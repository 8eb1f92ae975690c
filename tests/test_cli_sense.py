"""``admire sense``: the sense alone, of files with and without candidates."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from commands import chat_server, run
from conftest import admire_row
from pytest_httpserver import HTTPServer

from admire.encoders import open_encoder
from admire.senses import LightDetector


@pytest.fixture
def model(httpserver: HTTPServer) -> list[str]:
    return ["--llm", "openai:toy", "--llm-url", httpserver.url_for("/v1")]


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
    LightDetector("e5", encoder.identity, np.zeros((5, 384)), always_idiomatic, {}).save(path)
    arguments = ["--out", tmp_path / "senses.tsv", "--sense", "detector", "--detector"]
    code, _, _ = run(capsys, "sense", data, *arguments, path)
    assert code == 0
    senses = pd.read_csv(tmp_path / "senses.tsv", sep="\t")
    assert senses[["predicted_type", "idiomatic"]].to_numpy().tolist() == [["idiomatic", 5]]
    code, _, err = run(capsys, "sense", data, *arguments, tmp_path / "none.json")
    assert code == 2
    assert "none.json: cannot be read" in err
