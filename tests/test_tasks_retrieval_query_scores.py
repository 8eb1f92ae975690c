import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from benchmarks import OWLS, passage

from admire.core.errors import UserError
from admire.tasks.retrieval.passages import Split
from admire.tasks.retrieval.query_scores import (
    rank_documents,
    score_queries,
    score_types,
    summarise_queries,
    write_trec,
)


def test_equal_scores_go_by_document_in_descending_order_and_those_written_alike_are_equal():
    ids = ["d10", "d9", "d1", "D2", "é"]
    orders = rank_documents(np.array([[0, 0, 0, 0, 0], [0.1, 0.5000004, 0.5, 0.500001, 0]]), ids)
    assert [ids[k] for k in orders[0]] == ["é", "d9", "d10", "d1", "D2"]
    assert [ids[k] for k in orders[1]] == ["D2", "d9", "d1", "d10", "é"]


def test_each_query_is_scored_by_the_ranks_of_its_relevant_documents():
    similarities = np.array([[6.0, 5, 4, 3, 2, 1], [1.0, 5, 4, 3, 2, 6]])
    scores = score_queries(OWLS, similarities)
    # q1 wants d1, d3 and d4, at ranks 1, 3 and 4; q2 wants d2, at 2: d6 is of another PIE.
    ndcg = (1 + 1 / 2 + 1 / math.log2(5)) / (1 + 1 / math.log2(3) + 1 / 2)
    rows = [
        ("q1", "night owl", "idiomatic", "Technology", 2 / 3, ndcg),
        ("q2", "night owl", "literal", "Environment", 0, 1 / math.log2(3)),
    ]
    columns = ["id", "idiom", "usage", "subject", "r_precision", "ndcg"]
    pd.testing.assert_frame_equal(scores, pd.DataFrame(rows, columns=columns))


def test_queries_without_a_relevant_document_are_left_out_and_counted(caplog):
    split = replace(OWLS, documents=tuple(d for d in OWLS.documents if d.id != "d2"))
    assert score_queries(split, np.zeros((2, 5)))["id"].tolist() == ["q1"]
    assert "1 of 2 queries" in caplog.text
    with pytest.raises(UserError, match="relevant document"):
        score_queries(replace(OWLS, documents=OWLS.documents[4:]), np.zeros((2, 2)))


def test_a_summary_has_means_in_percent_over_all_by_usage_and_by_subject():
    kinds = [("literal", "Food"), ("idiomatic", "Food"), ("idiomatic", "")]
    queries = tuple(
        passage(f"q{k}", "A night owl.", usage, subject=subject)
        for k, (usage, subject) in enumerate(kinds)
    )
    similarities = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    summary = summarise_queries(score_queries(Split(queries, OWLS.documents[:2]), similarities))
    rows = summary.set_index("group")
    assert rows["n"].to_dict() == {"all": 3, "idiomatic": 2, "literal": 1, "Food": 2}
    assert rows["r_precision"][["all", "idiomatic"]].tolist() == pytest.approx([100 / 3, 50])
    assert rows["ndcg"]["literal"] == pytest.approx(100 / math.log2(3))


def test_each_usage_is_scored_as_if_its_documents_alone_were_relevant():
    split = replace(OWLS, queries=(OWLS.queries[0], replace(OWLS.queries[0], id="q3")))
    # Both want d1, d3 and d4; they rank d3 d5 d2 d1 d6 d4 and d1 d2 d3 d4 d5 d6.
    types = score_types(split, np.array([[3.0, 4, 6, 1, 5, 2], [6.0, 5, 4, 3, 2, 1]]))
    ranks = {"idiomatic": (3, 1), "sense": (4, 2), "simplification": (1, 2)}
    assert types["documents"].tolist() == list(ranks)
    assert types["n"].tolist() == [2, 2, 2]
    assert types["r_precision"].tolist() == [50, 0, 50]
    means = [np.mean([100 / math.log2(1 + rank) for rank in pair]) for pair in ranks.values()]
    assert types["ndcg"].tolist() == pytest.approx(means)


HALF = next(k / 1e6 + 5e-7 for k in range(10**6) if float(f"{k / 1e6 + 5e-7:.6f}") < k / 1e6 + 4e-7)
"""Written with six decimals it is rounded down, by numpy up."""


@pytest.mark.parametrize(
    ("scores", "ids", "name"),
    [
        ([40.000001, 40.0], "ab", "toy"),  # equal in single precision
        ([HALF, float(f"{HALF:.6f}")], "ab", "toy"),
        ([1, 2], "ab", "my model-sentence"),
        ([2, 1], ("a b", "a_b"), "toy"),  # these ids must stay different
    ],
)
def test_edge_cases_are_ranked_as_by_ir_measures(tmp_path, scores, ids, name):
    ir_measures = pytest.importorskip("ir_measures")
    first, second = ids
    documents = (passage(first, "A night owl.", "literal"), passage(second, "A night owl."))
    split, scores = Split((passage("q", "A night owl."),), documents), np.array([scores], float)
    write_trec(tmp_path, split, scores, name)
    values = ir_measures.iter_calc(
        [ir_measures.Rprec, ir_measures.nDCG @ 10],
        list(ir_measures.read_trec_qrels(str(tmp_path / "qrels.trec"))),
        list(ir_measures.read_trec_run(str(tmp_path / "run.trec"))),
    )
    theirs = {(value.query_id, str(value.measure)): value.value for value in values}
    ours = {
        (row["id"], measure): row[column]
        for row in score_queries(split, scores).to_dict("records")
        for column, measure in (("r_precision", "Rprec"), ("ndcg", "nDCG@10"))
    }
    assert ours == pytest.approx(theirs, abs=1e-9)
