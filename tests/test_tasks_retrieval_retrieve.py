from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks import OWLS, QUERY_FORMS, RecordingEncoder, answer, scattered, write_split
from commands import chat_server
from toys import ScriptedChat, WordEncoder

from admire.pipeline.forecast import DryRun, Forecast
from admire.rankers.settings import Scoring
from admire.senses.interpretation import Interpretation
from admire.senses.meaning import Meaning
from admire.senses.sense import Sense
from admire.tasks.retrieval.passages import Split
from admire.tasks.retrieval.query_scores import score_queries
from admire.tasks.retrieval.retrieve import Retrieval, retrieve_split
from admire.tasks.retrieval.settings import RetrieveSettings
from admire.tasks.retrieval.similarities import bm25, by_meaning, dense, tune_bm25
from admire.tasks.retrieval.task import RetrieveTask


@pytest.fixture
def data(tmp_path: Path) -> str:
    write_split(tmp_path / "data", "test", OWLS)
    write_split(tmp_path / "data", "val", scattered(1))
    return str(tmp_path / "data")


def assert_similarities(retrieval: Retrieval, similarities: np.ndarray, split: Split = OWLS):
    np.testing.assert_allclose(retrieval.similarities, similarities, atol=1e-6)
    assert retrieval.split == split
    assert retrieval.scores.equals(score_queries(split, retrieval.similarities))


def test_bm25_with_settings_on_another_split_or_an_index_of_some_usages(data):
    settings = RetrieveSettings(encoder="bm25", k1=1.2, b=0.6)
    retrieval = retrieve_split(data, replace(settings, split="val"))
    assert_similarities(retrieval, bm25(scattered(1), k1=1.2, b=0.6), scattered(1))
    retrieval = retrieve_split(data, replace(settings, usage=("sense", "literal")))
    kept = tuple(d for d in OWLS.documents if d.usage in ("sense", "literal"))
    split = replace(OWLS, documents=kept)
    assert_similarities(retrieval, bm25(split, k1=1.2, b=0.6), split)
    assert retrieval.record["usage"] == ["sense", "literal"]


@pytest.mark.parametrize("variant", ["robertson", "okapi"])
@pytest.mark.parametrize("of", ["sentence", "span"])
def test_bm25_of_either_formula_is_tuned_on_val(data, of, variant, caplog):
    settings = RetrieveSettings(encoder="bm25", query=of, bm25_variant=variant)
    with caplog.at_level("INFO", "admire"):
        retrieval = retrieve_split(data, settings)
    k1, b = tune_bm25(scattered(1), of, variant)
    told = f"test: 2 PIEs, 2 queries, 6 documents\nThe best on val is k1 = {k1:g}, b = {b:g}"
    assert told in "\n".join(caplog.messages)
    for changes in ({"k1": k1, "b": b}, {"k1": 0.9, "b": 0.4}):
        assert_similarities(retrieval, bm25(OWLS, of, variant=variant, **changes))
        changes |= {"bm25_variant": variant, "query": of}
        assert changes.items() <= retrieval.record.items()
        retrieval = retrieve_split(data, replace(settings, k1=0.9, b=0.4))


@pytest.mark.parametrize("form", QUERY_FORMS)
def test_vectors_are_compared_in_the_four_forms(data, form):
    settings = RetrieveSettings(query=form, instruction_format="instruct")
    retrieval = retrieve_split(data, settings, encoder=RecordingEncoder("some/encoder"))
    assert_similarities(retrieval, dense(OWLS, RecordingEncoder("encoder"), form, "instruct"))
    record = retrieval.record
    assert (record["encoder"], record["identity"]) == ("some/encoder", "words:1")
    assert (record["query"], record["instruction_format"]) == (form, "instruct")
    assert retrieval.name == f"encoder-{form}"


@pytest.mark.parametrize("sense", ["auto", "given"])
def test_a_plan_counts_what_retrieval_by_meaning_then_asks(data, httpserver, sense):
    prompts = chat_server(httpserver, answer)
    url = httpserver.url_for("/v1")
    settings = RetrieveSettings(query="meaning", sense=sense, llm="openai:toy", llm_url=url)

    def rehearse(*runs: RetrieveSettings) -> list[Forecast]:
        session = DryRun()
        for settings in runs:
            RetrieveTask().rehearse(data, vars(settings), session)
        return session.forecasts()

    stages = rehearse(settings)
    retrieve_split(data, settings, encoder=WordEncoder())
    assert sum(stage.questions - stage.kept for stage in stages) == len(prompts)
    again = rehearse(settings)
    assert all(stage.kept == stage.questions for stage in again)
    assert rehearse(settings, replace(settings, contrast=0.5)) == again  # asked once for both
    assert rehearse(replace(settings, query="span")) == []


@pytest.mark.parametrize(
    ("sense", "usages"), [("auto", ("idiomatic", "literal")), ("given", ("literal", "idiomatic"))]
)
def test_by_meaning_a_chat_model_or_the_data_decides_the_senses(data, sense, usages):
    queries = tuple(replace(q, usage=u) for q, u in zip(OWLS.queries, usages, strict=True))
    split = replace(OWLS, queries=queries)
    write_split(Path(data), "test", split)
    settings = RetrieveSettings(query="meaning", sense=sense, contrast=0.5)
    retrieval = retrieve_split(data, settings, llm=ScriptedChat(answer), encoder=WordEncoder())
    meaning = Meaning(("someone who works late",))
    readings = [
        Interpretation("toy", Sense(usage, float(usage == "idiomatic")), meaning)
        for usage in usages
    ]
    scoring = Scoring.paper(gate="soft", contrast=0.5, standardise="item")
    assert_similarities(retrieval, by_meaning(split, WordEncoder(), readings, scoring), split)
    recorded = {"llm": "embedded", "sense": sense, "contrast": 0.5, "lang": "en"}
    assert recorded.items() <= retrieval.record.items()
