from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks import OWLS, passage, write_split
from conftest import refused

from admire.tasks.retrieval import RetrieveSettings, read_retrieval, retrieve_split, write_retrieval
from admire.tasks.retrieval.passages import Split

BM25 = RetrieveSettings(encoder="bm25", k1=1.2, b=0.6)


def retrieved(folder: Path, settings: RetrieveSettings = BM25, split: Split = OWLS):
    write_split(folder / "data", "test", split)
    retrieval = retrieve_split(str(folder / "data"), settings)
    write_retrieval(retrieval, folder / "run")
    return retrieval, read_retrieval(folder / "run")


def test_each_query_has_its_figures_and_the_texts_of_the_ten_best(tmp_path):
    # The twelve that share a word with the query come first; the relevant one shares none.
    near = [passage(f"n {k}", f"Night\u2028owl {k} codes.", span="owl") for k in range(12)]
    near = [replace(document, idiom="other") for document in near]
    far = [passage(f"f{k}", "Something else.", idiom="other", span="else") for k in range(30)]
    relevant = passage("w", "Some people work best.", "sense", span="people")
    split = replace(OWLS, queries=OWLS.queries[:1], documents=(*near, *far, relevant))
    retrieval, run = retrieved(tmp_path, split=split)
    (query,) = run.queries
    assert (query.query, query.relevant, query.reading) == (OWLS.queries[0], 1, None)
    by_id = sorted(near, key=lambda document: document.id, reverse=True)
    assert [document.passage for document in query.documents] == by_id[:10]
    assert not any(document.relevant for document in query.documents)
    best = retrieval.similarities[0].max()
    assert [document.score for document in query.documents] == pytest.approx([best] * 10, abs=1e-6)
    assert query.figures == retrieval.scores[["r_precision", "ndcg"]].iloc[0].to_dict()


def test_queries_without_a_relevant_document_have_no_figures(tmp_path):
    _, run = retrieved(tmp_path, replace(BM25, usage=("literal",)))
    idiomatic, literal = run.queries
    assert (idiomatic.relevant, idiomatic.figures) == (0, None)
    assert literal.relevant == 1
    assert literal.figures is not None
    texts = tmp_path / "run" / "texts.jsonl"
    texts.write_text(texts.read_text(encoding="utf-8").partition("\n")[0], encoding="utf-8")
    refused(tmp_path / "run", "run: is damaged", read=read_retrieval)
