from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import OWLS, Listener, scattered, told
from toys import ScriptedChat, WordEncoder

from admire.rankers.settings import Scoring
from admire.senses.interpretation import Interpretation
from admire.senses.meaning import Meaning
from admire.senses.sense import Sense
from admire.tasks.retrieval.evaluation import score_queries
from admire.tasks.retrieval.modes import MODES
from admire.tasks.retrieval.passages import Split, write_split
from admire.tasks.retrieval.retrieve import retrieve_split
from admire.tasks.retrieval.retrievers import bm25, by_meaning, dense, tune_bm25
from admire.tasks.retrieval.settings import RetrieveSettings


@pytest.fixture
def data(tmp_path: Path) -> str:
    write_split(tmp_path / "data", "test", OWLS)
    write_split(tmp_path / "data", "val", scattered(1))
    return str(tmp_path / "data")


def bm25_settings(**changes: Any) -> RetrieveSettings:
    return RetrieveSettings(**{"encoder": "bm25", "k1": 1.2, "b": 0.6} | changes)


def assert_scores(found: Any, scores: np.ndarray, split: Split = OWLS) -> None:
    np.testing.assert_allclose(found.similarities, scores, atol=1e-12)
    assert found.split == split
    assert found.scored.equals(score_queries(split, found.similarities))


def test_bm25_with_given_settings_on_another_split_or_an_index_of_some_usages(data):
    found = retrieve_split(data, bm25_settings(split="val"))
    assert_scores(found, bm25(scattered(1), k1=1.2, b=0.6), scattered(1))
    found = retrieve_split(data, bm25_settings(usage=("sense", "literal")))
    kept = tuple(d for d in OWLS.documents if d.usage in ("sense", "literal"))
    split = replace(OWLS, documents=kept)
    assert_scores(found, bm25(split, k1=1.2, b=0.6), split)
    assert found.record["usage"] == ["sense", "literal"]


@pytest.mark.parametrize("of", ["sentence", "span"])
def test_bm25_is_tuned_on_val(data, of, caplog):
    with caplog.at_level("INFO", "admire"):
        found = retrieve_split(data, RetrieveSettings(encoder="bm25", query=of))
    k1, b = tune_bm25(scattered(1), of)
    assert f"k1 = {k1:g}, b = {b:g}" in caplog.text
    assert_scores(found, bm25(OWLS, of, k1=k1, b=b))
    assert (found.record["k1"], found.record["b"], found.record["query"]) == (k1, b, of)


@pytest.mark.parametrize("mode", MODES)
def test_vectors_are_compared_in_the_four_modes(data, mode):
    settings = RetrieveSettings(query=mode, instruction_format="instruct")
    found = retrieve_split(data, settings, encoder=Listener("some/listener"))
    assert_scores(found, dense(OWLS, Listener("listener"), mode, "instruct"))
    assert found.record["encoder"] == "some/listener"
    assert (found.record["identity"], found.record["query"]) == ("words:1", mode)
    assert found.record["instruction_format"] == "instruct"
    assert found.name == f"listener-{mode}"


@pytest.mark.parametrize(("sense", "first"), [("auto", "idiomatic"), ("given", "literal")])
def test_by_meaning_a_chat_model_or_the_data_tells_the_senses(data, sense, first):
    usages = ("literal", "idiomatic") if sense == "given" else ("idiomatic", "literal")
    queries = tuple(replace(q, usage=u) for q, u in zip(OWLS.queries, usages, strict=True))
    split = replace(OWLS, queries=queries)
    write_split(Path(data), "test", split)
    settings = RetrieveSettings(query="meaning", sense=sense, contrast=0.5)
    found = retrieve_split(data, settings, llm=ScriptedChat(told), encoder=WordEncoder())
    readings = [
        Interpretation(
            "toy", Sense(usage, float(usage == "idiomatic")), Meaning(("someone who works late",))
        )
        for usage in usages
    ]
    assert usages[0] == first
    scoring = Scoring.paper(gate="soft", contrast=0.5, standardise=True)
    assert_scores(found, by_meaning(split, WordEncoder(), readings, scoring), split)
    assert (
        found.record | {"llm": "embedded", "sense": sense, "contrast": 0.5, "lang": "en"}
        == found.record
    )
