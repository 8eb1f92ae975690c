"""Run folders of retrieval: the texts that a report needs, and no others."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks import OWLS, passage, told
from toys import ScriptedChat, WordEncoder

from admire.tasks.retrieval import RetrieveSettings, read_retrieval, retrieve_split, write_retrieval
from admire.tasks.retrieval.passages import write_split


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "texts.jsonl").read_text().splitlines()]


def test_texts_are_those_of_queries_relevant_documents_and_the_ten_best(tmp_path):
    # The twelve that share a word with the query come first; the relevant one shares none.
    near = [passage(f"n {k}", "A night owl codes.", idiom="other") for k in range(12)]
    far = [passage(f"f{k}", "Something else.", idiom="other", span="else") for k in range(5)]
    wanted = passage("w", "Some people work best.", "sense", span="people")
    split = replace(OWLS, queries=OWLS.queries[:1], documents=(*near, *far, wanted))
    write_split(tmp_path / "data", "test", split)
    found = retrieve_split(str(tmp_path / "data"), RetrieveSettings(encoder="bm25", k1=1.2, b=0.6))
    write_retrieval(found, tmp_path / "run")
    query, *documents = rows(tmp_path / "run")
    assert query == {"query": asdict(OWLS.queries[0]), "reading": None}
    kept = {one["document"]["id"] for one in documents}
    assert len(documents) == len(kept) == 11
    assert kept < {"w", *(one.id for one in near)}
    read = read_retrieval(tmp_path / "run")
    (answered,) = read.queries
    assert [one.passage.id for one in answered.documents] == [  # ids with spaces come back
        one.id for one in answered.documents
    ]
    assert {one.id for one in answered.documents} == kept - {"w"}
    assert (answered.relevant, read.complete) == (1, True)


def test_what_a_model_understood_is_kept(tmp_path):
    write_split(tmp_path / "data", "test", OWLS)
    settings = RetrieveSettings(encoder="words", query="meaning", sense="vote", lang="pt")
    found = retrieve_split(
        str(tmp_path / "data"), settings, llm=ScriptedChat(told), encoder=WordEncoder()
    )
    write_retrieval(found, tmp_path / "run")
    read = read_retrieval(tmp_path / "run")
    assert [one.reading for one in read.queries] == [
        {"sense": one.sense.label, "probability": one.sense.probability, "gloss": one.gloss}
        for one in found.readings
    ]
    assert read.record["lang"] == "pt"


def test_queries_that_nothing_is_relevant_to_have_no_figures(tmp_path):
    write_split(tmp_path / "data", "test", OWLS)
    settings = RetrieveSettings(encoder="bm25", k1=1.2, b=0.6, usage=("literal",))
    write_retrieval(retrieve_split(str(tmp_path / "data"), settings), tmp_path / "run")
    idiomatic, literal = read_retrieval(tmp_path / "run").queries
    assert (idiomatic.relevant, idiomatic.figures, idiomatic.usage) == (0, None, "idiomatic")
    assert literal.relevant == 1
    assert literal.figures is not None
