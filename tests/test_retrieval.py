"""Retrieval of the same meaning: the figures, BM25 and dense scores, files for other tools, and
the commands retrieve, benchmark and search."""

from __future__ import annotations

import csv
import itertools
import json
import math
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import run
from hypothesis import assume, given
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi
from test_passages import both_senses, semeval
from toys import ScriptedChat, WordEncoder

import admire
from admire.encoders import Query
from admire.errors import UserError
from admire.interpretation import Interpretation, interpret
from admire.items import Candidate, Item
from admire.metrics import ndcg, r_precision
from admire.prompts import Prompts
from admire.retrieval.benchmark import build
from admire.retrieval.evaluation import evaluate, ranked, summarise_queries, write_trec
from admire.retrieval.index import read_texts
from admire.retrieval.passages import Passage, Split, read_split, relevant, write_split
from admire.retrieval.retrievers import (
    BM25_GRID,
    INSTRUCTION,
    MODES,
    as_query,
    bm25,
    by_meaning,
    dense,
    encode_queries,
    tune_bm25,
    words,
)
from admire.scorer import Scoring
from admire.senses.sense import Sense
from admire.settings import Settings


def passage(name: str, sentence: str, usage: str = "idiomatic", **changes: Any) -> Passage:
    given = {"idiom": "night owl", "span": "night owl", "subject": ""} | changes
    return Passage(name, sentence, usage=usage, **given)


def at(ranks: Sequence[int], length: int = 20) -> list[bool]:
    """Relevance of a ranking that has its relevant documents at these ranks."""
    return [rank in ranks for rank in range(1, length + 1)]


# ------------------------------------------------------------------------------------ the figures


def test_r_precision_of_the_papers_example():
    assert r_precision(at([1, 2, 4, 7, 8])) == pytest.approx(0.6, abs=1e-12)


# 1 / log2(1 + rank): at 1 to 3 it is 1, 0.6309, 0.5; at 3, 7 and 9 it is 1/2, 1/3, 0.3010.
def test_ndcg_of_the_papers_example_by_hand():
    best = 1 + 1 / math.log2(3) + 1 / 2
    late = 1 / 2 + 1 / 3 + 1 / math.log2(10)
    assert ndcg(at([1, 2, 3])) == pytest.approx(1, abs=1e-12)
    assert ndcg(at([3, 7, 9])) == pytest.approx(late / best, abs=1e-12)
    assert ndcg(at([3, 7, 9])) == pytest.approx(0.53233, abs=1e-5)
    assert ndcg(at([1, 2, 3])) > ndcg(at([3, 7, 9]))


@pytest.mark.parametrize(
    ("flags", "k", "value"),
    [
        (at([11]), 10, 0.0),
        (at([10]), 10, 1 / math.log2(11)),
        (at([2]), 1, 0.0),
        (at([1, 12]), 10, 1 / (1 + 1 / math.log2(3))),
        (at(range(1, 16)), 10, 1.0),  # more are relevant than there are places
        (at(range(2, 17)), 10, 1 - 1 / sum(1 / math.log2(1 + r) for r in range(1, 11))),
        ([True], 10, 1.0),  # fewer documents than places
        ([False, True], 10, 1 / math.log2(3)),
    ],
)
def test_ndcg_by_hand_at_its_edges(flags, k, value):
    assert ndcg(flags, k) == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize(
    ("flags", "value"),
    [([True], 1.0), ([False, True], 0.0), (at([1, 20]), 0.5), ([True] * 7, 1.0), ([0, 1, 1], 0.5)],
)
def test_r_precision_by_hand_at_its_edges(flags, value):
    assert r_precision(flags) == pytest.approx(value, abs=1e-12)


FLAGS = st.lists(st.booleans(), min_size=1, max_size=30).filter(any)


@given(FLAGS, st.integers(1, 15))
def test_figures_are_what_the_definitions_say(flags, k):
    wanted = sum(flags)
    assert r_precision(flags) == pytest.approx(sum(flags[:wanted]) / wanted, abs=1e-12)
    gain = sum(1 / math.log2(1 + rank) for rank, flag in enumerate(flags[:k], 1) if flag)
    best = sum(1 / math.log2(1 + rank) for rank in range(1, min(wanted, k) + 1))
    assert ndcg(flags, k) == pytest.approx(gain / best, abs=1e-12)


@given(FLAGS, st.integers(1, 15))
def test_figures_lie_between_0_and_1_which_is_only_for_all_that_is_relevant_in_front(flags, k):
    wanted = sum(flags)
    assert 0 <= r_precision(flags) <= 1
    assert (r_precision(flags) == 1) == all(flags[:wanted])
    assert 0 <= ndcg(flags, k) <= 1 + 1e-12
    assert (ndcg(flags, k) > 1 - 1e-9) == all(flags[: min(wanted, k)])


@given(FLAGS, st.data())
def test_moving_a_relevant_document_up_never_lowers_a_figure(flags, data):
    place = data.draw(st.sampled_from([k for k, flag in enumerate(flags) if flag]))
    up = data.draw(st.integers(0, place))
    moved = [*flags[:up], True, *flags[up:place], *flags[place + 1 :]]
    assert r_precision(moved) >= r_precision(flags)
    assert ndcg(moved) >= ndcg(flags) - 1e-12
    if moved[:10] != flags[:10]:
        assert ndcg(moved) > ndcg(flags)


@given(FLAGS, st.randoms(use_true_random=False))
def test_r_precision_knows_no_order_within_the_first_r_nor_behind_them(flags, random):
    wanted = sum(flags)
    first, rest = flags[:wanted], flags[wanted:]
    random.shuffle(first)
    random.shuffle(rest)
    assert r_precision(first + rest) == r_precision(flags)


# --------------------------------------------------------------------------- ranking and scoring

OWLS = Split(
    (
        passage("q1", "A night owl codes late.", subject="Technology"),
        passage("q2", "The night owl flew off.", "literal", subject="Environment"),
    ),
    (
        passage("d1", "She is a night owl who codes."),
        passage("d2", "A night owl flew over the barn.", "literal"),
        passage("d3", "She codes late into the night.", "simplification", span="codes late"),
        passage("d4", "Some people work best after midnight.", "sense", span="Some people"),
        passage("d5", "She is a dark bird who codes.", "distractor", span="dark bird"),
        passage("d6", "It got cold feet.", "literal", idiom="cold feet", span="cold feet"),
    ),
)


def test_documents_go_from_the_highest_score_to_the_lowest():
    found = ranked(np.array([[0.1, 0.3, 0.2], [5.0, -1.0, 2.0]]), ["a", "b", "c"])
    assert found.tolist() == [[1, 2, 0], [0, 2, 1]]


def test_equal_scores_go_by_document_in_descending_order():
    ids = ["d10", "d9", "d1", "D2", "é"]
    (found,) = ranked(np.zeros((1, 5)), ids)
    assert [ids[place] for place in found] == ["é", "d9", "d10", "d1", "D2"]


def test_scores_that_are_written_alike_are_equal():
    (found,) = ranked(np.array([[0.5000004, 0.5, 0.500001]]), ["a", "b", "c"])
    assert found.tolist() == [2, 1, 0]


def test_each_query_is_scored_by_the_rank_of_what_is_relevant_to_it():
    scores = np.array([[6.0, 5, 4, 3, 2, 1], [1.0, 5, 4, 3, 2, 6]])
    found = evaluate(OWLS, scores)
    # q1 wants d1, d3 and d4, at ranks 1, 3 and 4; q2 wants d2, at 2: d6 is of another PIE.
    assert list(found.columns) == ["id", "idiom", "usage", "subject", "r_precision", "ndcg"]
    first, second = found.to_dict("records")
    assert (first["id"], first["usage"], first["subject"]) == ("q1", "idiomatic", "Technology")
    assert first["r_precision"] == pytest.approx(2 / 3)
    assert first["ndcg"] == pytest.approx(
        (1 + 1 / 2 + 1 / math.log2(5)) / (1 + 1 / math.log2(3) + 1 / 2)
    )
    assert (second["id"], second["idiom"], second["r_precision"]) == ("q2", "night owl", 0)
    assert second["ndcg"] == pytest.approx(1 / math.log2(3))


def test_a_query_without_a_relevant_document_does_not_count():
    split = replace(OWLS, documents=tuple(d for d in OWLS.documents if d.id != "d2"))
    assert evaluate(split, np.zeros((2, 5)))["id"].tolist() == ["q1"]


def test_an_index_without_anything_relevant_is_refused():
    with pytest.raises(UserError, match="No query has a relevant document in the index"):
        evaluate(replace(OWLS, documents=OWLS.documents[4:]), np.zeros((2, 2)))


def test_a_summary_has_means_in_percent_over_all_by_usage_and_by_subject():
    queries = [
        passage(f"q{k}", "A night owl.", usage, subject=subject)
        for k, (usage, subject) in enumerate(
            [("literal", "Food"), ("idiomatic", "Food"), ("idiomatic", "")]
        )
    ]
    documents = (OWLS.documents[0], OWLS.documents[1])
    scores = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    found = summarise_queries(evaluate(Split(tuple(queries), documents), scores))
    rows = {row["group"]: row for row in found.to_dict("records")}
    assert list(rows) == ["all", "idiomatic", "literal", "Food"]
    assert {name: row["n"] for name, row in rows.items()} == {
        "all": 3,
        "idiomatic": 2,
        "literal": 1,
        "Food": 2,
    }
    assert rows["all"]["r_precision"] == pytest.approx(100 / 3)
    assert rows["idiomatic"]["r_precision"] == pytest.approx(50)
    assert rows["literal"]["ndcg"] == pytest.approx(100 / math.log2(3))
    assert rows["idiomatic"]["ndcg"] == pytest.approx((100 + 100 / math.log2(3)) / 2)


# -------------------------------------------------------------------------- files for other tools

NAMES = st.text("abZ19_-é. ", min_size=1, max_size=4).filter(str.strip)


@st.composite
def runs(draw: st.DrawFn) -> tuple[Split, np.ndarray]:
    """A split and scores, many of them equal or all different; ids hold spaces too."""
    ids = draw(st.lists(NAMES, min_size=1, max_size=40, unique=True))
    idioms = st.sampled_from(["owl", "bat", "cat"])
    usages = st.sampled_from(["literal", "idiomatic", "sense", "distractor"])
    documents = [passage(name, "owl", draw(usages), idiom=draw(idioms)) for name in ids]
    asked = st.sampled_from(["literal", "idiomatic"])
    queries = [
        passage(f"q {k}", "owl", draw(asked), idiom=draw(idioms))
        for k in range(draw(st.integers(1, 4)))
    ]
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    shape = len(queries), len(documents)
    ties = draw(st.booleans())
    scores = rng.integers(-2, 3, shape) / 4 if ties else rng.uniform(-1, 1, shape)
    return Split(tuple(queries), tuple(documents)), scores


def peer(folder: Path) -> dict[str, dict[str, float]]:
    """R-precision and nDCG@10 by query, as ir_measures has them from the files in the folder."""
    ir_measures = pytest.importorskip("ir_measures")
    found: dict[str, dict[str, float]] = {}
    for value in ir_measures.iter_calc(
        [ir_measures.Rprec, ir_measures.nDCG @ 10],
        list(ir_measures.read_trec_qrels(str(folder / "qrels.trec"))),
        list(ir_measures.read_trec_run(str(folder / "run.trec"))),
    ):
        found.setdefault(value.query_id, {})[str(value.measure)] = value.value
    return found


def agrees(split: Split, scores: np.ndarray, name: str = "toy") -> None:
    """Our figures are those that ir_measures has of the files that we write."""
    ours = evaluate(split, scores)
    with tempfile.TemporaryDirectory() as folder:
        write_trec(Path(folder), split, scores, name)
        theirs = peer(Path(folder))
    assert set(theirs) == {name.replace(" ", "%20") for name in ours["id"]}
    for row in ours.to_dict("records"):
        measured = theirs[row["id"].replace(" ", "%20")]
        assert row["r_precision"] == pytest.approx(measured["Rprec"], abs=1e-9)
        assert row["ndcg"] == pytest.approx(measured["nDCG@10"], abs=1e-9)


@given(runs())
def test_figures_are_those_of_ir_measures_on_the_written_files(case):
    split, scores = case
    assume(any(relevant(q, d) for q in split.queries for d in split.documents))
    agrees(split, scores)


def test_figures_of_bm25_are_those_of_ir_measures():
    agrees(OWLS, bm25(OWLS))


def two(first: float, second: float) -> tuple[Split, np.ndarray]:
    """One query and two documents with these scores, the second of which is relevant."""
    documents = (passage("a", "A night owl.", "literal"), passage("b", "A night owl."))
    return Split((passage("q", "A night owl."),), documents), np.array([[first, second]])


def test_high_scores_that_hardly_differ_are_ranked_as_by_ir_measures():
    agrees(*two(40.000001, 40.0))


def test_scores_on_the_verge_of_two_decimals_are_ranked_as_by_ir_measures():
    halves = (k / 1e6 + 5e-7 for k in range(10**6))
    first = next(half for half in halves if float(f"{half:.6f}") < np.round(half, 6))
    agrees(*two(first, float(f"{first:.6f}")))


def test_a_run_whose_name_holds_spaces_can_be_read():
    agrees(*two(1, 2), name="my model-sentence")


def test_ids_that_differ_by_a_space_alone_stay_two():
    split, scores = two(2, 1)
    names = [replace(d, id=name) for d, name in zip(split.documents, ("a b", "a_b"), strict=True)]
    agrees(replace(split, documents=tuple(names)), scores)


def test_files_are_in_trecs_format(tmp_path):
    scores = np.array([[0.5, 0.25, 0.5, -1, 0, 0.1], [1, 2, 3, 4, 5, 6.0]])
    split = replace(OWLS, queries=(replace(OWLS.queries[0], id="q 1"), OWLS.queries[1]))
    write_trec(tmp_path / "new", split, scores, "words-sentence")
    lines = (tmp_path / "new/run.trec").read_text().splitlines()
    assert lines[:3] == [
        "q%201 Q0 d3 1 0.500000 words-sentence",
        "q%201 Q0 d1 2 0.500000 words-sentence",
        "q%201 Q0 d2 3 0.250000 words-sentence",
    ]
    assert lines[5] == "q%201 Q0 d4 6 -1.000000 words-sentence"
    assert lines[6] == "q2 Q0 d6 1 6.000000 words-sentence"
    assert (tmp_path / "new/qrels.trec").read_text().splitlines() == [
        "q%201 0 d1 1",
        "q%201 0 d3 1",
        "q%201 0 d4 1",
        "q2 0 d2 1",
    ]


def test_a_run_holds_the_100_best_of_each_query(tmp_path):
    documents = tuple(passage(f"d{k}", "A night owl.") for k in range(150))
    scores = np.array([np.arange(150.0), -np.arange(150.0)])
    write_trec(tmp_path, replace(OWLS, documents=documents), scores, "toy")
    rows = [line.split() for line in (tmp_path / "run.trec").read_text().splitlines()]
    assert Counter(row[0] for row in rows) == {"q1": 100, "q2": 100}
    assert [row[2] for row in rows[:100]] == [f"d{k}" for k in range(149, 49, -1)]
    assert [int(row[3]) for row in rows] == [*range(1, 101)] * 2
    assert len((tmp_path / "qrels.trec").read_text().splitlines()) == 150


def test_a_run_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(UserError, match=r"file/run\.trec: cannot be written"):
        write_trec(tmp_path / "file", OWLS, np.zeros((2, 6)), "toy")


# ------------------------------------------------------------------------------------------- BM25


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Don't stop", ["don't", "stop"]),
        ("Don’t stop", ["don’t", "stop"]),
        ("the owls' night", ["the", "owls", "night"]),
        ("'quoted' words", ["quoted", "words"]),
        ("rock'n'roll", ["rock'n", "roll"]),
        ("night-owl, 24/7!", ["night", "owl", "24", "7"]),
        ("É PÉ-FRIO", ["é", "pé", "frio"]),
        ("snake_case", ["snake_case"]),
        ("… – !", []),
        ("", []),
    ],
)
def test_words_are_lower_case_and_keep_an_apostrophe_inside(text, found):
    assert words(text) == found


TOKENS = [
    tokens.split()
    for tokens in (
        "she is a night owl who codes",
        "a night owl flew over the barn",
        "she codes late into the night",
        "some people work best after midnight",
        "she is a dark bird who codes",
        "it got cold feet",
    )
]


@pytest.mark.parametrize(
    ("of", "asked"),
    [
        ("sentence", ["a night owl codes late", "the night owl flew off"]),
        ("span", ["night owl", "night owl"]),
    ],
)
def test_bm25_is_rank_bm25_of_the_words(of, asked):
    for options in ({}, {"k1": 1.5, "b": 0.75}):
        index = BM25Okapi(TOKENS, **({"k1": 0.9, "b": 0.4} | options))
        peer = [index.get_scores(query.split()) for query in asked]
        np.testing.assert_array_equal(bm25(OWLS, of, **options), peer)


def test_bm25_of_one_word_by_hand():
    """idf = ln((N - n + 0.5) / (n + 0.5)), of "flew" in one of the six documents."""
    split = replace(OWLS, queries=(passage("q", "night owl flew", span="flew"),))
    lengths = [len(tokens) for tokens in TOKENS]
    norm = 0.9 * (1 - 0.4 + 0.4 * lengths[1] / np.mean(lengths))
    expected = np.zeros(6)
    expected[1] = math.log(5.5 / 1.5) * 1.9 / (1 + norm)
    np.testing.assert_allclose(bm25(split, "span"), [expected], atol=1e-12)


def test_the_grid_is_the_papers():
    assert {k1 for k1, _ in BM25_GRID} == {0.6, 0.9, 1.2, 1.5, 2.0}
    assert {b for _, b in BM25_GRID} == {0.2, 0.4, 0.6, 0.75, 0.9}
    assert len(set(BM25_GRID)) == len(BM25_GRID) == 25


def scattered(seed: int) -> Split:
    """Sentences of random words, so that k1 and b matter to their order."""
    rng = np.random.default_rng(seed)

    def sentence() -> str:
        return " ".join(["owl", *rng.choice(list("abcdefghijkl"), rng.integers(3, 40))])

    def one(name: str) -> Passage:
        usage = str(rng.choice(["literal", "idiomatic"]))
        return passage(name, sentence(), usage, idiom=str(rng.choice(["x", "y"])), span="owl")

    return Split(tuple(one(f"q{k}") for k in range(6)), tuple(one(f"d{k}") for k in range(40)))


@pytest.mark.parametrize("seed", range(3))
def test_tuning_takes_the_best_of_the_grid_and_the_first_of_equals(seed):
    split = scattered(seed)
    quality = [
        round(evaluate(split, bm25(split, k1=k1, b=b))["ndcg"].mean(), 9) for k1, b in BM25_GRID
    ]
    assert len(set(quality)) > 3
    assert tune_bm25(split) == BM25_GRID[int(np.argmax(quality))]


def test_tuning_finds_a_pair_within_the_grid_too():
    found = {tune_bm25(scattered(seed)) for seed in range(4)}
    assert found - {BM25_GRID[0]}


def test_where_nothing_matters_tuning_takes_the_first():
    split = replace(OWLS, queries=OWLS.queries[:1], documents=OWLS.documents[:1])
    assert tune_bm25(split) == tune_bm25(split, "span") == (0.6, 0.2)


def test_documents_without_words_have_nothing_in_common_with_a_query():
    signs = Split((passage("q", "★ owl", span="owl"),), (passage("d", "★ ★", span="★"),))
    assert bm25(signs).tolist() == [[0.0]]


def test_tuning_is_for_what_is_asked():
    split = scattered(0)
    quality = [evaluate(split, bm25(split, "span", k1=k, b=b))["ndcg"].mean() for k, b in BM25_GRID]
    assert tune_bm25(split, "span") == BM25_GRID[int(np.argmax(np.round(quality, 9)))]
    assert tune_bm25(split, "span") != tune_bm25(split, "sentence")


# ------------------------------------------------------------------------------- queries as asked

TEXT = "An owl met an owl."
SECOND = passage("q", TEXT, span="owl", occurrence=2)
TOLD = (
    "Based on the literal/idiomatic usage of the span owl in the query, retrieve documents that "
    "contain a span conveying the same conceptual meaning."
)


def test_the_instruction_is_the_papers():
    assert INSTRUCTION.format(span="owl") == TOLD
    assert MODES == ("sentence", "span", "instruction+sentence", "instruction+span")


@pytest.mark.parametrize("style", ["instruct", "prompt", "plain"])
def test_without_instruction_a_query_is_its_sentence_in_every_format(style):
    assert as_query(SECOND, "sentence", style) == Query(TEXT)
    assert as_query(SECOND, "span", style) == Query(TEXT, None, (14, 17))


@pytest.mark.parametrize(
    ("style", "prompt"),
    [("instruct", f"Instruct: {TOLD}\nQuery: "), ("prompt", f"{TOLD} ")],
)
def test_an_instruction_is_a_prompt_and_moves_no_span(style, prompt):
    assert as_query(SECOND, "instruction+sentence", style) == Query(TEXT, prompt)
    assert as_query(SECOND, "instruction+span", style) == Query(TEXT, prompt, (14, 17))


def test_a_plain_instruction_is_part_of_the_text_and_moves_the_span():
    assert as_query(SECOND, "instruction+sentence", "plain") == Query(f"{TOLD} {TEXT}")
    asked = as_query(SECOND, "instruction+span", "plain")
    assert (asked.text, asked.prompt) == (f"{TOLD} {TEXT}", None)
    # The instruction has the span's words too: those of the sentence are meant.
    assert asked.span == (len(TOLD) + 1 + 14, len(TOLD) + 1 + 17)


@given(
    st.text("oOwl é{}", max_size=8),
    st.text("owlé{}", min_size=1, max_size=4).filter(str.strip),
    st.text("oOwl é{}", max_size=8),
    st.sampled_from(MODES),
    st.sampled_from(["instruct", "prompt", "plain"]),
)
def test_the_marked_words_stay_the_same_in_every_mode_and_format(before, span, after, mode, style):
    query = passage("q", before + span + after, span=span)
    asked = as_query(query, mode, style)
    whole = (asked.prompt or "") + asked.text
    assert whole.endswith(query.sentence)
    assert (asked.span is not None) == mode.endswith("span")
    if asked.span:
        assert asked.text[slice(*asked.span)] == span
        assert asked.span[0] == asked.text.rindex(query.sentence) + query.place[0]
    told = INSTRUCTION.replace("{span}", span)
    assert (told in whole) == mode.startswith("instruction")


class Listener(WordEncoder):
    """Takes prompts and spans; remembers what it was asked."""

    def __init__(self, name: str = "words"):
        self.name = name
        self.asked: list[Query] = []
        self.texts: list[tuple[str, str]] = []

    def encode_texts(self, texts, *, role):
        self.texts += [(text, role) for text in texts]
        return super().encode_texts(texts, role=role)

    def encode_queries(self, queries):
        self.asked += queries
        texts = [q.text[slice(*q.span)] if q.span else q.text for q in queries]
        return super().encode_texts(texts, role="query")


@pytest.mark.parametrize(
    ("name", "style"),
    [
        ("sbert:hkunlp/instructor-large", "prompt"),
        ("sbert:intfloat/multilingual-e5-large-instruct", "instruct"),
        ("sbert:intfloat/E5-Mistral-7B-Instruct", "instruct"),
        ("sbert:Qwen/Qwen3-Embedding-0.6B", "instruct"),
        ("sbert:vec-ai/lychee-embed", "instruct"),
        ("sbert:sentence-transformers/all-MiniLM-L6-v2", "plain"),
        ("e5", "plain"),
    ],
)
def test_the_format_goes_by_the_models_name_unless_it_is_given(name, style):
    for mode in MODES:
        encoder = Listener(name)
        encode_queries(OWLS.queries, encoder, mode)
        assert encoder.asked == [as_query(query, mode, style) for query in OWLS.queries]
    encoder = Listener(name)
    encode_queries(OWLS.queries, encoder, "instruction+span", "prompt")
    assert encoder.asked == [as_query(q, "instruction+span", "prompt") for q in OWLS.queries]


# ------------------------------------------------------------------------------------------ dense


def bags(texts: Sequence[str]) -> np.ndarray:
    return WordEncoder().encode_texts(texts, role="query").astype(float)


SENTENCES = [document.sentence for document in OWLS.documents]


def test_dense_is_the_cosines_of_whole_sentences():
    found = dense(OWLS, WordEncoder())
    expected = bags([query.sentence for query in OWLS.queries]) @ bags(SENTENCES).T
    assert found.shape == (2, 6)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("mode", MODES)
def test_documents_are_whole_sentences_without_instruction_in_every_mode(mode):
    encoder = Listener()
    dense(OWLS, encoder, mode)
    assert encoder.texts == [(sentence, "document") for sentence in SENTENCES]


def test_dense_by_span_is_the_cosines_of_the_spans_vectors():
    found = dense(OWLS, Listener(), "span")
    np.testing.assert_allclose(found, bags(["night owl"] * 2) @ bags(SENTENCES).T, atol=1e-12)


@pytest.mark.parametrize(
    ("style", "before"),
    [
        ("auto", f"{INSTRUCTION.format(span='night owl')} "),
        ("plain", f"{INSTRUCTION.format(span='night owl')} "),
        ("prompt", f"{INSTRUCTION.format(span='night owl')} "),
        ("instruct", f"Instruct: {INSTRUCTION.format(span='night owl')}\nQuery: "),
    ],
)
def test_an_encoder_of_plain_texts_reads_the_instruction_before_the_query(style, before):
    found = dense(OWLS, WordEncoder(), "instruction+sentence", style)
    expected = bags([before + query.sentence for query in OWLS.queries]) @ bags(SENTENCES).T
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("mode", ["span", "instruction+span"])
def test_an_encoder_without_spans_says_what_to_use_instead(mode):
    with pytest.raises(UserError) as caught:
        dense(OWLS, WordEncoder(), mode)
    assert str(caught.value) == (
        "The encoder 'words' has no vectors of spans. Use --query sentence or "
        "instruction+sentence, or an encoder sbert:REPOSITORY."
    )


# ------------------------------------------------------------------------------------- by meaning


def told(prompt: str) -> str:
    """Idiomatic where codes are written, else literal; one gloss for both."""
    if "literally" in prompt:
        return "Idiomatic" if "codes" in prompt else "Literal"
    return "someone who works late"


def wavering() -> Callable[[str], str]:
    """Answers of which every third vote is another one."""
    votes = itertools.cycle(["Idiomatic", "Literal", "Idiomatic"])
    return lambda prompt: next(votes) if "literally" in prompt else "someone who works late"


def silent(prompt: str) -> str:
    return "Idiomatic" if "literally" in prompt else ""


@pytest.mark.parametrize(
    "scoring",
    [
        Scoring(gate="soft", standardise=True),
        Scoring(gate="soft", contrast=1.0, standardise=True),
        Scoring(gate="soft", contrast=0.5),
        Scoring(gate="hard", contrast=0.5, standardise=True),
        Scoring(),
        Scoring(caption_weight=2.0),
    ],
    ids=str,
)
@pytest.mark.parametrize("chat", [lambda: told, wavering, lambda: silent])
def test_by_meaning_is_rank_with_the_documents_as_candidates(chat, scoring):
    candidates = tuple(Candidate(d.id, caption=d.sentence) for d in OWLS.documents)
    items = [
        Item(query.idiom, query.sentence, "en", candidates=candidates) for query in OWLS.queries
    ]
    peers = admire.rank(
        items,
        Settings(track="caption", scoring=scoring),
        llms=[ScriptedChat(chat())],
        encoder=WordEncoder(),
    ).rankings
    glosses = "all" if scoring.gate == "soft" else "idiomatic"
    readings = interpret(items, ScriptedChat(chat()), Prompts(), glosses=glosses)
    found = by_meaning(OWLS, WordEncoder(), readings, scoring)
    assert found.shape == (2, 6)
    np.testing.assert_allclose(found, [peer.scores for peer in peers], atol=1e-9)
    orders = ranked(found, [d.id for d in OWLS.documents])
    for peer, order, row in zip(peers, orders, found, strict=True):
        if len(set(np.round(row, 6))) == len(row):  # rank has ties in ascending order
            assert [OWLS.documents[place].id for place in order] == list(peer.order)


def test_without_a_gloss_documents_are_compared_with_the_pie_alone():
    readings = [Interpretation("toy", Sense("idiomatic", 0.9), None)] * 2
    found = by_meaning(OWLS, WordEncoder(), readings, Scoring(gate="soft", contrast=1.0))
    np.testing.assert_allclose(found, bags(["night owl"] * 2) @ bags(SENTENCES).T, atol=1e-12)


def test_a_probability_weighs_the_gloss_against_the_pie():
    readings = [
        Interpretation("toy", Sense("idiomatic", 0.75), "she codes"),
        Interpretation("toy", Sense("literal", 0.25), "she codes"),
    ]
    found = by_meaning(OWLS, WordEncoder(), readings, Scoring(gate="soft"))
    gloss, pie = bags(["she codes", "night owl"]) @ bags(SENTENCES).T
    np.testing.assert_allclose(
        found, [0.75 * gloss + 0.25 * pie, 0.25 * gloss + 0.75 * pie], atol=1e-12
    )


# --------------------------------------------------------------------------- the command retrieve


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Toys in place of the models of retrieve and search; what was asked for."""
    opened: list[Any] = []

    def open_encoder(name: str, **options: Any) -> WordEncoder:
        opened.append((name, options.get("device")))
        return Listener(name) if name == "listener" else WordEncoder()

    def open_llm(name: str, *, url: str | None = None) -> ScriptedChat:
        opened.append((name, url))
        return ScriptedChat(told)

    for module in ("encoders", "run"):
        monkeypatch.setattr(f"admire.{module}.open_encoder", open_encoder)
    for module in ("llm", "run"):
        monkeypatch.setattr(f"admire.{module}.open_llm", open_llm)
    return opened


@pytest.fixture
def data(tmp_path) -> Path:
    folder = tmp_path / "data"
    write_split(folder, "test", OWLS)
    write_split(folder, "val", scattered(1))
    return folder


def figures(scores: np.ndarray, split: Split = OWLS) -> list[dict[str, Any]]:
    return summarise_queries(evaluate(split, scores)).to_dict("records")


def ended(capsys, *arguments: object) -> str:
    """The one message that the command ends with, and exit code 2."""
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert "Traceback" not in err
    lines = [line for line in err.splitlines() if line.startswith("admire: ")]
    assert len(lines) == 1
    assert err.splitlines()[-1] == lines[0]
    return lines[0]


def test_retrieve_writes_files_and_prints_figures(capsys, tmp_path, data):
    out = tmp_path / "run"
    options = ("--encoder", "bm25", "--k1", 0.9, "--b", 0.4, "--out", out)
    code, printed, err = run(capsys, "retrieve", data, *options)
    assert code == 0, err
    assert f"Wrote {out}" in err
    assert {path.name for path in out.iterdir()} == {
        "run.trec",
        "qrels.trec",
        "queries.csv",
        "run.json",
    }
    scored = evaluate(OWLS, bm25(OWLS))
    rows = list(csv.DictReader((out / "queries.csv").open(encoding="utf-8")))
    assert [row["id"] for row in rows] == ["q1", "q2"]
    for name in ("r_precision", "ndcg"):
        assert [float(row[name]) for row in rows] == pytest.approx(scored[name].tolist())
    assert json.loads((out / "run.json").read_text()) == {
        "data": str(data),
        "split": "test",
        "usage": None,
        "gold": False,
        "encoder": "bm25",
        "query": "sentence",
        "k1": 0.9,
        "b": 0.4,
    }
    assert (out / "run.trec").read_text().splitlines()[0].endswith(" bm25-sentence")
    for row in figures(bm25(OWLS)):
        shown = (row["group"], row["n"], f"{row['r_precision']:.1f}", f"{row['ndcg']:.1f}")
        assert re.search(" *│ *".join(map(str, shown)), printed)


@pytest.mark.parametrize("of", ["sentence", "span"])
def test_retrieve_tunes_bm25_on_val(capsys, tmp_path, data, of):
    out = tmp_path / "run"
    options = ("--encoder", "bm25", "--query", of, "--out", out, "--json")
    code, printed, err = run(capsys, "retrieve", data, *options)
    assert code == 0, err
    k1, b = tune_bm25(scattered(1), of)
    assert f"k1 = {k1:g}, b = {b:g}" in err
    record = json.loads((out / "run.json").read_text())
    assert (record["k1"], record["b"], record["query"]) == (k1, b, of)
    assert json.loads(printed) == figures(bm25(OWLS, of, k1=k1, b=b))


@pytest.mark.parametrize(("option", "value"), [("k1", 7.5), ("b", 0.33)])
def test_what_is_given_of_bm25_is_kept_or_refused(capsys, tmp_path, data, option, value):
    out = tmp_path / "run"
    options = ("--encoder", "bm25", f"--{option}", value, "--out", out)
    code, _, err = run(capsys, "retrieve", data, *options)
    if code == 2:
        assert f"--{option}" in err
    else:
        assert json.loads((out / "run.json").read_text())[option] == value


@pytest.mark.parametrize("mode", MODES)
def test_retrieve_compares_vectors_in_the_four_modes(capsys, tmp_path, data, opened, mode):
    out = tmp_path / "run"
    options = ("--encoder", "listener", "--query", mode, "--device", "cpu", "--json", "--out", out)
    code, printed, err = run(capsys, "retrieve", data, *options, "--instruction-format", "instruct")
    assert code == 0, err
    assert opened == [("listener", "cpu")]
    scores = dense(OWLS, Listener("listener"), mode, "instruct")
    assert json.loads(printed) == figures(scores)
    record = json.loads((out / "run.json").read_text())
    assert (record["identity"], record["query"]) == ("words:1", mode)
    assert record["instruction_format"] == "instruct"
    write_trec(tmp_path / "expected", OWLS, scores, f"listener-{mode}")
    for name in ("run.trec", "qrels.trec"):
        assert (out / name).read_text() == (tmp_path / "expected" / name).read_text()


def test_retrieve_by_meaning_reads_queries_with_a_chat_model(capsys, tmp_path, data, opened):
    out = tmp_path / "run"
    options = ("--encoder", "words", "--query", "meaning", "--json", "--out", out)
    options += ("--llm", "openai:x", "--llm-url", "http://y", "--contrast", 0.5)
    code, printed, err = run(capsys, "retrieve", data, *options)
    assert code == 0, err
    assert opened == [("words", "auto"), ("openai:x", "http://y")]
    readings = [
        Interpretation("toy", Sense("idiomatic", 1.0), "someone who works late"),
        Interpretation("toy", Sense("literal", 0.0), "someone who works late"),
    ]
    scoring = Scoring(gate="soft", contrast=0.5, standardise=True)
    assert json.loads(printed) == figures(by_meaning(OWLS, WordEncoder(), readings, scoring))
    record = json.loads((out / "run.json").read_text())
    assert (record["llm"], record["sense"], record["contrast"]) == ("openai:x", "auto", 0.5)


def test_retrieve_by_meaning_can_take_the_senses_of_the_data(capsys, tmp_path, data, opened):
    first, second = OWLS.queries
    swapped = replace(first, usage="literal"), replace(second, usage="idiomatic")
    split = replace(OWLS, queries=swapped)
    write_split(data, "test", split)
    options = ("--encoder", "words", "--query", "meaning", "--sense", "given", "--json")
    code, printed, err = run(capsys, "retrieve", data, *options, "--out", tmp_path / "run")
    assert code == 0, err
    readings = [
        Interpretation("toy", Sense("literal", 0.0), "someone who works late"),
        Interpretation("toy", Sense("idiomatic", 1.0), "someone who works late"),
    ]
    scoring = Scoring(gate="soft", standardise=True)
    expected = by_meaning(split, WordEncoder(), readings, scoring)
    assert json.loads(printed) == figures(expected, split)


def test_retrieve_takes_another_split_and_an_index_of_some_usages(capsys, tmp_path, data):
    options = ("--encoder", "bm25", "--k1", 1.2, "--b", 0.6, "--json", "--out", tmp_path / "run")
    code, printed, err = run(capsys, "retrieve", data, *options, "--split", "val")
    assert code == 0, err
    split = scattered(1)
    assert json.loads(printed) == figures(bm25(split, k1=1.2, b=0.6), split)
    chosen = ("--usage", "sense", "--usage", "literal")
    code, printed, err = run(capsys, "retrieve", data, *options, *chosen)
    assert code == 0, err
    kept = tuple(d for d in OWLS.documents if d.usage in ("sense", "literal"))
    split = replace(OWLS, documents=kept)
    assert json.loads(printed) == figures(bm25(split, k1=1.2, b=0.6), split)
    record = json.loads((tmp_path / "run/run.json").read_text())
    assert record["usage"] == ["sense", "literal"]


def test_retrieve_says_how_many_queries_have_nothing_relevant(capsys, tmp_path, data):
    options = ("--encoder", "bm25", "--k1", 0.9, "--b", 0.4, "--out", tmp_path / "run")
    code, printed, err = run(capsys, "retrieve", data, *options, "--usage", "sense")
    assert code == 0, err
    assert re.search(r"(?i)\b(1|one|q2)\b.*relevant|relevant.*\b(1|one|q2)\b", printed + err)


def bm25_ended(capsys, data: object, tmp_path: Path, *options: object) -> str:
    return ended(capsys, "retrieve", data, "--encoder", "bm25", *options, "--out", tmp_path / "run")


def test_retrieve_names_a_benchmark_that_is_not_there(capsys, tmp_path, monkeypatch):
    def hub_file(repository: str, *names: str, **options: Any) -> Path:
        raise UserError(f"The dataset '{repository}' is not here, and the hub cannot be reached.")

    monkeypatch.setattr("admire.encoders.hub.hub_file", hub_file)
    assert str(tmp_path / "nowhere") in bm25_ended(capsys, tmp_path / "nowhere", tmp_path)


def test_retrieve_does_not_look_for_a_path_on_the_hub(capsys, tmp_path, monkeypatch):
    huggingface_hub = pytest.importorskip("huggingface_hub", reason="needs the extra 'clip'")

    def download(*arguments: Any, **options: Any) -> str:
        raise huggingface_hub.errors.HFValidationError("no name of a repository")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    message = bm25_ended(capsys, tmp_path / "nowhere", tmp_path)
    assert "folder" in message
    assert "hf download" not in message


def test_retrieve_says_what_a_folder_lacks_to_be_a_benchmark(capsys, tmp_path):
    (tmp_path / "empty").mkdir()
    message = bm25_ended(capsys, tmp_path / "empty", tmp_path)
    assert f"{tmp_path / 'empty'}: has no test/queries.json" in message


@pytest.mark.parametrize("query", ["meaning", "instruction+sentence", "instruction+span"])
def test_bm25_takes_sentences_and_spans_alone(capsys, tmp_path, data, query):
    message = bm25_ended(capsys, data, tmp_path, "--query", query)
    assert message == f"admire: BM25 takes no --query {query}. Use sentence or span."


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--usage", "figurative"), "'figurative' is no usage"),
        (("--usage", "distractor"), "No query has a relevant document in the index"),
        (("--split", "train"), "has no train/queries.json"),
    ],
)
def test_retrieve_names_what_it_cannot_score(capsys, tmp_path, data, options, words):
    message = bm25_ended(capsys, data, tmp_path, "--k1", 0.9, "--b", 0.4, *options)
    assert words in message
    assert not (tmp_path / "run").exists()


def test_retrieve_names_file_row_and_column_of_a_damaged_query(capsys, tmp_path, data):
    path = data / "test/queries.json"
    path.write_text(path.read_text().replace("The night owl flew", "The night bird flew"))
    message = bm25_ended(capsys, data, tmp_path)
    assert f"{path}, row 2, span: 'night owl' is not in it" in message


def test_retrieve_by_span_needs_an_encoder_with_spans(capsys, tmp_path, data, opened):
    options = ("--encoder", "words", "--query", "span", "--out", tmp_path / "run")
    message = ended(capsys, "retrieve", data, *options)
    assert "'words' has no vectors of spans" in message


def test_retrieve_names_an_encoder_that_there_is_not(capsys, tmp_path, data):
    options = ("--encoder", "bm52", "--out", tmp_path / "run")
    assert "'bm52' names no encoder" in ended(capsys, "retrieve", data, *options)


@pytest.mark.parametrize("option", [("--query", "spans"), ("--split", "dev"), ("--k1", "much")])
def test_retrieve_refuses_unknown_choices(capsys, tmp_path, data, option):
    code, out, err = run(capsys, "retrieve", data, "--encoder", "bm25", *option)
    assert (code, out) == (2, "")
    assert option[0] in err


# -------------------------------------------------------------------------- the command benchmark


def test_benchmark_writes_splits_that_retrieve_takes(capsys, tmp_path):
    semeval(tmp_path / "task2", *both_senses())
    out = tmp_path / "built"
    code, printed, err = run(
        capsys, "benchmark", tmp_path / "task2", "--out", out, "--queries", 2, "--seed", 5
    )
    assert code == 0, err
    splits = build(tmp_path / "task2", "en", queries=2, seed=5)
    for name, split in splits.items():
        assert read_split(str(out), name) == split
        usages = Counter(document.usage for document in split.documents)
        kinds = ("literal", "idiomatic", "simplification", "distractor")
        mwes = {query.idiom for query in split.queries}
        numbers = [len(mwes), len(split.queries), *(usages[kind] for kind in kinds)]
        assert re.search(" *│ *".join([name, *map(str, numbers)]), printed)
    code, printed, err = run(
        capsys, "retrieve", out, "--encoder", "bm25", "--json", "--out", tmp_path / "run"
    )
    assert code == 0, err
    assert json.loads(printed)[0]["n"] == len(splits["test"].queries)


def test_benchmark_takes_another_language(capsys, tmp_path):
    semeval(tmp_path / "task2", *both_senses(), language="PT")
    options = (tmp_path / "task2", "--out", tmp_path / "built")
    code, _, err = run(capsys, "benchmark", *options, "--lang", "pt")
    assert code == 0, err
    assert read_split(str(tmp_path / "built"), "test").queries[0].id == "pt-test-q1"
    assert "has no sentences in 'en'. There are: pt." in ended(capsys, "benchmark", *options)


def test_benchmark_names_a_folder_that_is_not_task_2(capsys, tmp_path):
    message = ended(capsys, "benchmark", tmp_path / "nowhere", "--out", tmp_path / "built")
    assert f"{tmp_path / 'nowhere/subtask_a/train_zero_shot.csv'}: cannot be read" in message
    assert not (tmp_path / "built").exists()


def test_benchmark_says_that_no_mwe_is_used_in_both_senses(capsys, tmp_path):
    semeval(tmp_path / "task2", [("night owl", f"A night owl {k}.", "0") for k in range(6)])
    message = ended(capsys, "benchmark", tmp_path / "task2", "--out", tmp_path / "built")
    assert str(tmp_path / "task2") in message


def test_benchmark_needs_at_least_one_query(capsys, tmp_path):
    code, _, err = run(capsys, "benchmark", tmp_path, "--out", tmp_path / "built", "--queries", 0)
    assert code == 2
    assert "--queries" in err


# ----------------------------------------------------------------------------- the command search

LATE = ["Someone who works late at night.", "A bird on a branch.", "A night owl on a branch."]


def texts(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    if path.suffix == ".jsonl":
        path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows))
    elif path.suffix == ".txt":
        path.write_text("\n\n".join(row["text"] for row in rows))
    else:
        with path.open("w", newline="") as file:
            kind = csv.excel_tab if path.suffix == ".tsv" else csv.excel
            writer = csv.DictWriter(file, list(rows[0]), dialect=kind)
            writer.writeheader()
            writer.writerows(rows)
    return path


@pytest.fixture
def index(tmp_path) -> Path:
    rows = [{"id": name, "text": text} for name, text in zip("abc", LATE, strict=True)]
    return texts(tmp_path / "texts.jsonl", rows)


IDIOMATIC = "A Night Owl codes this."
LITERAL = "The night owl flew off."


@pytest.mark.parametrize(
    ("text", "span", "sense", "best"),
    [(IDIOMATIC, "night owl", "idiomatic", "a"), (LITERAL, "night owl", "literal", "c")],
)
def test_search_answers_in_the_sense_that_is_meant(capsys, index, opened, text, span, sense, best):
    options = ("--span", span, "--index", index, "--encoder", "words", "--json")
    code, printed, err = run(capsys, "search", text, *options, "--llm", "openai:x")
    assert code == 0, err
    found = json.loads(printed)
    assert found["sense"] == sense
    assert found["probability"] == float(sense == "idiomatic")
    assert found["gloss"] == "someone who works late"
    assert found["texts"][0]["id"] == best
    assert {one["id"]: one["text"] for one in found["texts"]} == dict(zip("abc", LATE, strict=True))
    scores = [one["score"] for one in found["texts"]]
    assert scores == sorted(scores, reverse=True)
    assert {name for name, _ in opened} == {"openai:x", "words"}


def test_search_is_rank_with_the_texts_as_candidates(capsys, index, opened):
    options = ("--span", "night owl", "--index", index, "--contrast", 0.5, "--json")
    code, printed, err = run(capsys, "search", IDIOMATIC, *options)
    assert code == 0, err
    item = Item("night owl", IDIOMATIC, "en", candidates=tuple(read_texts(index)))
    scoring = Scoring(gate="soft", contrast=0.5, standardise=True)
    (peer,) = admire.rank(
        [item],
        Settings(track="caption", scoring=scoring),
        llms=[ScriptedChat(told)],
        encoder=WordEncoder(),
    ).rankings
    found = json.loads(printed)["texts"]
    assert [one["id"] for one in found] == list(peer.order)
    scores = dict(zip("abc", peer.scores, strict=True))
    assert {one["id"]: one["score"] for one in found} == pytest.approx(scores, abs=1e-6)


def test_search_prints_a_table_of_the_best(capsys, index, opened):
    options = ("--span", "Night Owl", "--index", index, "--top", 1)
    code, printed, err = run(capsys, "search", IDIOMATIC, *options)
    assert code == 0, err
    assert "Night Owl, idiomatic: someone who works late" in printed
    assert re.search(rf"\+\d\.\d\d *│ *a *│ *{re.escape(LATE[0])}", printed)
    assert not any(text in printed for text in LATE[1:])


@pytest.mark.parametrize("suffix", [".txt", ".jsonl", ".csv", ".tsv"])
def test_search_takes_texts_of_every_kind_and_numbers_those_without_ids(
    capsys, tmp_path, opened, suffix
):
    path = texts(tmp_path / f"texts{suffix}", [{"text": text} for text in LATE])
    options = ("--span", "night owl", "--index", path, "--top", 9, "--json")
    code, printed, err = run(capsys, "search", IDIOMATIC, *options)
    assert code == 0, err
    numbers = "135" if suffix == ".txt" else "123"  # lines, some of them blank
    found = {one["id"]: one["text"] for one in json.loads(printed)["texts"]}
    assert found == dict(zip(numbers, LATE, strict=True))


def test_ids_of_tables_are_kept(tmp_path):
    rows = [{"id": "x 1", "text": "An owl.", "more": "y"}, {"id": "", "text": "A bat.", "more": ""}]
    for suffix in (".csv", ".tsv", ".jsonl"):
        found = read_texts(texts(tmp_path / f"texts{suffix}", rows))
        assert found == [Candidate("x 1", caption="An owl."), Candidate("2", caption="A bat.")]


def test_ids_may_be_numbered_from_zero(tmp_path):
    path = texts(tmp_path / "texts.jsonl", [{"id": k, "text": f"Owl {k}."} for k in range(3)])
    assert [one.name for one in read_texts(path)] == ["0", "1", "2"]


def search_ended(capsys, index: Path, text: str = IDIOMATIC, span: str = "night owl") -> str:
    return ended(capsys, "search", text, "--span", span, "--index", index)


@pytest.mark.parametrize("span", ["early bird", ""])
def test_search_names_a_span_that_is_not_in_the_text(capsys, index, opened, span):
    message = search_ended(capsys, index, span=span)
    assert message == f"admire: --span: '{span}' is not in it: “{IDIOMATIC}”."
    assert opened == []


@pytest.mark.parametrize("suffix", [".txt", ".jsonl", ".csv", ".tsv"])
@pytest.mark.parametrize("content", ["", "\n \n"])
def test_search_names_an_empty_file(capsys, tmp_path, opened, suffix, content):
    path = tmp_path / f"texts{suffix}"
    path.write_text(content)
    assert f"{path}: the file is empty" in search_ended(capsys, path)


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_search_names_a_table_without_rows(capsys, tmp_path, opened, suffix):
    path = tmp_path / f"texts{suffix}"
    path.write_text("text\n")
    assert str(path) in search_ended(capsys, path)


@pytest.mark.parametrize("name", ["texts.pdf", "texts", "texts.json"])
def test_search_names_a_file_of_another_kind(capsys, tmp_path, opened, name):
    path = tmp_path / name
    path.write_text("A night owl.\n")
    message = search_ended(capsys, path)
    assert f"{path}: expected a .txt, .jsonl, .csv or .tsv file" in message


def test_search_names_a_file_that_is_not_there(capsys, tmp_path, opened):
    path = tmp_path / "texts.txt"
    assert f"{path}: cannot be read (No such file" in search_ended(capsys, path)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("t.jsonl", '{"text": "a"}\n{"text": ""}', ", row 2, text: is missing or empty"),
        ("t.jsonl", '{"text": "a"}\n\n{"id": 3}', ", row 3, text: is missing or empty"),
        ("t.jsonl", '{"text": 7}', ", row 1, text: is missing or empty"),
        ("t.jsonl", '{"text": "a"}\n[]', ", row 2: is not a JSON object"),
        ("t.jsonl", '{"text": "a"}\n{', ", row 2: is not JSON"),
        ("t.jsonl", '{"text": "\\ud800"}', ", row 1: holds half a surrogate pair"),
        ("t.jsonl", '{"id": "x", "text": "a"}\n' * 2, ", row 2, id: 'x' stands in two rows"),
        ("t.csv", "id,text\nx,a\ny, \n", ", row 2, text: is missing or empty"),
        ("t.csv", "id,text\nx,a\ny,b\nx,c\n", ", row 3, id: 'x' stands in two rows"),
        ("t.csv", "id,sentence\nx,a\n", ": the column 'text' is missing. The file has: id, sen"),
        ("t.tsv", "id,text\nx,a\n", ": the column 'text' is missing"),
    ],
)
def test_search_names_file_row_and_column_of_what_it_cannot_use(
    capsys, tmp_path, opened, name, content, words
):
    path = tmp_path / name
    path.write_text(content)
    assert f"{path}{words}" in search_ended(capsys, path)


def test_search_shows_at_least_one_text(capsys, index, opened):
    code, _, err = run(capsys, "search", LITERAL, "--span", "owl", "--index", index, "--top", 0)
    assert code == 2
    assert "--top" in err
