import json
import re
from pathlib import Path

import pytest
from benchmarks import OWLS, PIES, pies, scattered, toys_opened, write_split
from commands import passed

from admire.tasks.retrieval.query_scores import score_queries, summarise_queries
from admire.tasks.retrieval.similarities import bm25


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_split(tmp_path / "data", "test", OWLS)
    write_split(tmp_path / "data", "val", scattered(1))
    return tmp_path / "data"


def test_retrieve_writes_files_and_prints_figures(capsys, tmp_path, data):
    out = tmp_path / "run"
    options = (data, "--encoder", "bm25", "--k1", 0.9, "--b", 0.4, "--out", out)
    printed, err = passed(capsys, "retrieve", *options)
    assert f"Wrote {out}" in err
    rows = summarise_queries(score_queries(OWLS, bm25(OWLS))).to_dict("records")
    for row in rows:
        shown = (row["group"], row["n"], f"{row['r_precision']:.1f}", f"{row['ndcg']:.1f}")
        assert re.search(" *│ *".join(map(str, shown)), printed)
    printed, err = passed(capsys, "retrieve", *options, "--usage", "idiomatic", "--json")
    assert [row["group"] for row in json.loads(printed)] == ["all", "idiomatic", "Technology"]
    assert "1 of 2 queries" in err


def test_retrieve_opens_the_models_that_it_is_told(capsys, monkeypatch, tmp_path, data):
    opened = toys_opened(monkeypatch, "tasks.retrieval.retrieve")
    options = ("--encoder", "words", "--query", "meaning", "--json", "--out", tmp_path / "run")
    options += ("--llm", "openai:x", "--llm-url", "http://y", "--contrast", 0.5)
    printed, _ = passed(capsys, "retrieve", data, *options, "--device", "cpu")
    assert opened == [("words", "cpu"), ("openai:x", "http://y")]
    assert json.loads(printed)[0]["n"] == 2


@pytest.mark.usefixtures("one_thread", "no_card", "tried")
def test_train_retriever_writes_models_and_prints_mean_and_deviation(capsys, tmp_path):
    for package in ("torch", "sentence_transformers", "datasets", "accelerate"):
        pytest.importorskip(package, reason="needs the extra 'finetune'")
    from towers import save_sentence_transformer

    for name, names in (("train", PIES), ("val", PIES[:4]), ("test", PIES[2:])):
        write_split(tmp_path / "data", name, pies(names))
    train = ["train", "retriever", tmp_path / "data", "--out", tmp_path / "out"]
    encoder = save_sentence_transformer(tmp_path / "models" / "plain")
    options = ["--encoder", f"sbert:{encoder}", "--device", "cpu", "--epochs", 1]
    options += ["--soft-negatives", 2, "--hard-negatives", 2]
    printed, err = passed(capsys, *train, *options)
    assert f"Wrote {tmp_path / 'out'}" in err
    lines = [line for line in printed.splitlines() if re.search(r"\b(before|after)\b", line)]
    assert len(lines) == 6
    assert all(re.search(r"\d+\.\d ± 0\.0.*\d+\.\d ± 0\.0", line) for line in lines)
    printed, err = passed(capsys, *train, *options, "--json")
    assert [row["group"] for row in json.loads(printed)[:3]] == ["all", "idiomatic", "literal"]
