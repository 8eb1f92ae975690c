"""Run folders of retrieval: the texts that a report needs, and no others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks import OWLS, passage

from admire.tasks.retrieval import RetrieveSettings, read_retrieval, retrieve_split, write_retrieval
from admire.tasks.retrieval.passages import Split, write_split
from admire.tasks.retrieval.retrieve import Retrieval
from admire.tasks.retrieval.run_folder import RetrievalRun

BM25 = RetrieveSettings(encoder="bm25", k1=1.2, b=0.6)


def retrieved(
    folder: Path, settings: RetrieveSettings = BM25, split: Split = OWLS
) -> tuple[Retrieval, RetrievalRun]:
    """What was retrieved, and the same written and read."""
    write_split(folder / "data", "test", split)
    found = retrieve_split(str(folder / "data"), settings)
    write_retrieval(found, folder / "run")
    return found, read_retrieval(folder / "run")


def test_each_query_has_its_figures_and_the_texts_of_the_ten_best(tmp_path):
    # The twelve that share a word with the query come first; the relevant one shares none.
    near = [passage(f"n {k}", f"Night\u2028owl {k} codes.", span="owl") for k in range(12)]
    near = [replace(one, idiom="other") for one in near]
    far = [passage(f"f{k}", "Something else.", idiom="other", span="else") for k in range(30)]
    wanted = passage("w", "Some people work best.", "sense", span="people")
    split = replace(OWLS, queries=OWLS.queries[:1], documents=(*near, *far, wanted))
    found, read = retrieved(tmp_path, split=split)
    (answered,) = read.queries
    assert (answered.query, answered.relevant, answered.reading) == (OWLS.queries[0], 1, None)
    assert [one.passage for one in answered.documents] == sorted(
        near, key=lambda one: one.id, reverse=True
    )[:10]  # of equal scores, in descending order of ids
    assert not any(one.relevant for one in answered.documents)
    best = found.similarities[0].max()
    assert [one.score for one in answered.documents] == pytest.approx([best] * 10, abs=1e-6)
    assert answered.figures == {
        "r_precision": found.scored["r_precision"][0],
        "ndcg": found.scored["ndcg"][0],
    }


def test_queries_that_nothing_is_relevant_to_have_no_figures(tmp_path):
    _, read = retrieved(tmp_path, replace(BM25, usage=("literal",)))
    idiomatic, literal = read.queries
    assert (idiomatic.relevant, idiomatic.figures) == (0, None)
    assert literal.relevant == 1
    assert literal.figures is not None
