import itertools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
import rank_bm25
from benchmarks import OWLS, QUERY_FORMS, RecordingEncoder, answer, passage, scattered
from toys import ScriptedChat, WordEncoder

from admire import rank
from admire.data.items import Candidate, Item
from admire.encoders import Query
from admire.pipeline.chat_stage import interpret_items
from admire.prompts import Prompts
from admire.rankers.settings import Scoring, Settings
from admire.senses.interpretation import Approach
from admire.senses.settings import SenseSettings
from admire.tasks.retrieval.passages import Passage, Split
from admire.tasks.retrieval.queries import encode_queries, encoder_query
from admire.tasks.retrieval.query_scores import rank_documents, score_queries
from admire.tasks.retrieval.similarities import BM25_GRID, bm25, by_meaning, dense, tune_bm25, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Don’t stop", ["don’t", "stop"]),
        ("the owls' night", ["the", "owls", "night"]),
        ("night-owl, 24/7!", ["night", "owl", "24", "7"]),
        ("É PÉ-FRIO", ["é", "pé", "frio"]),
        ("snake_case", ["snake_case"]),
    ],
)
def test_words_are_lower_case_and_keep_an_apostrophe_inside(text, expected):
    assert words(text) == expected


TOKENS = [document.sentence.lower().strip(".").split() for document in OWLS.documents]


@pytest.mark.parametrize(
    ("of", "queries"),
    [
        ("sentence", ["a night owl codes late", "the night owl flew off"]),
        ("span", ["night owl", "night owl"]),
    ],
)
def test_bm25_is_robertsons_formula(of, queries):
    mean = np.mean([len(tokens) for tokens in TOKENS])
    for k1, b in ((0.9, 0.4), (1.5, 0.75)):
        expected = np.zeros((2, 6))
        for q, query in enumerate(queries):
            for word in query.split():
                n = sum(word in tokens for tokens in TOKENS)
                idf = max(0, math.log((6 - n + 0.5) / (n + 0.5)))
                for d, tokens in enumerate(TOKENS):
                    tf = tokens.count(word)
                    norm = k1 * (1 - b + b * len(tokens) / mean)
                    expected[q, d] += idf * tf / (tf + norm)
        assert expected.any()
        np.testing.assert_allclose(bm25(OWLS, of, k1=k1, b=b), expected, atol=1e-12)


CURLY = replace(
    OWLS,
    queries=(passage("q", "Don't", span="Don't"), *OWLS.queries),
    documents=(passage("d", "We don’t know a, b or d.", span="a"), *OWLS.documents),
)


@pytest.mark.parametrize("split", [scattered(0), scattered(1), OWLS, CURLY])
@pytest.mark.parametrize("of", ["sentence", "span"])
@pytest.mark.parametrize(("k1", "b"), [(0.9, 0.4), (2.0, 0.75)])
def test_okapis_bm25_is_that_of_rank_bm25(split, of, k1, b):
    """Tokenise as IdioLink's authors do, for whom ’ is no part of a word."""

    def tokens(text: str) -> list[str]:
        return re.findall(r"\b\w+(?:'\w+)?\b", text.lower())

    theirs = rank_bm25.BM25Okapi([tokens(d.sentence) for d in split.documents], k1=k1, b=b)
    expected = [theirs.get_scores(tokens(getattr(query, of))) for query in split.queries]
    scores = bm25(split, of, k1=k1, b=b, variant="okapi")
    np.testing.assert_allclose(scores, expected, atol=1e-9)
    if (k1, b) == (0.9, 0.4):
        assert (bm25(split, of, variant="okapi") == scores).all(), "the paper's are the defaults"
    assert not np.allclose(scores, bm25(split, of, k1=k1, b=b), atol=1e-3)


@pytest.mark.parametrize("variant", ["robertson", "okapi"])
@pytest.mark.parametrize("of", ["sentence", "span"])
def test_tuning_takes_the_best_of_the_grid_and_the_first_of_equals(of, variant):
    split = scattered(0)
    quality = [
        round(score_queries(split, bm25(split, of, k1=k1, b=b, variant=variant))["ndcg"].mean(), 9)
        for k1, b in BM25_GRID
    ]
    assert len(set(quality)) > 3
    assert tune_bm25(split, of, variant) == BM25_GRID[int(np.argmax(quality))]


def test_texts_without_words_have_nothing_in_common_with_others():
    query = passage("q", "★ owl", span="★")
    signs = Split((query,), (passage("d", "★ ★", span="★"),))
    assert bm25(signs).tolist() == [[0.0]]
    assert tune_bm25(signs) == (0.6, 0.2)
    assert bm25(replace(OWLS, queries=(query,)), "span").tolist() == [[0.0] * 6]


TEXT = "An owl met an owl."
SECOND = passage("q", TEXT, span="owl", occurrence=2)
INSTRUCTION = (
    "Based on the literal/idiomatic usage of the span 'owl' in the query, retrieve documents that "
    "contain a span conveying the same conceptual meaning."
)


@pytest.mark.parametrize(
    ("style", "prompt"),
    [
        ("instruct", f"Instruct: {INSTRUCTION}\nQuery: "),
        ("qwen3", f"Instruct: {INSTRUCTION}\nQuery:"),
        ("bge-gemma2", f"<instruct>{INSTRUCTION}\n<query>"),
        ("gritlm", f"<|user|>\n{INSTRUCTION}\n<|embed|>\n"),
        ("tart", f"{INSTRUCTION} [SEP] "),
        ("nomic", f"search_query: {INSTRUCTION} "),
        ("prompt", f"{INSTRUCTION} "),
        ("plain", None),
    ],
)
def test_an_instruction_is_a_prompt_or_in_plain_form_moves_the_span(style, prompt):
    text, start = (f"{INSTRUCTION} {TEXT}", len(INSTRUCTION) + 1) if not prompt else (TEXT, 0)
    assert encoder_query(SECOND, "instruction+sentence", style) == Query(text, prompt)
    # A plain instruction has the span's words too: those of the sentence are meant.
    expected = Query(text, prompt, (start + 14, start + 17))
    assert encoder_query(SECOND, "instruction+span", style) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sbert:hkunlp/instructor-large", "prompt"),
        ("sbert:Qwen/Qwen3-Embedding-0.6B", "qwen3"),
        ("sbert:Alibaba-NLP/gte-Qwen2-7B-instruct", "instruct"),
        ("sbert:vec-ai/lychee-embed", "instruct"),
        ("sbert:Salesforce/SFR-Embedding-Mistral", "instruct"),
        ("sbert:Linq-AI-Research/Linq-Embed-Mistral", "instruct"),
        ("sbert:nvidia/llama-embed-nemotron-8b@main", "instruct"),
        ("sbert:NovaSearch/stella_en_1.5B_v5", "instruct"),
        ("sbert:GritLM/GritLM-7B", "gritlm"),
        ("sbert:BAAI/bge-multilingual-gemma2", "bge-gemma2"),
        ("sbert:orionweller/tart-dual-contriever-msmarco", "tart"),
        ("sbert:nomic-ai/nomic-embed-text-v2-moe", "nomic"),
        ("sbert:BAAI/bge-base-en-v1.5", "plain"),
        ("sbert:Qwen/start", "plain"),
    ],
)
def test_auto_is_the_instruction_format_that_the_models_name_tells(name, expected):
    for form, format, used in [(form, "auto", expected) for form in QUERY_FORMS] + [
        ("instruction+span", "prompt", "prompt")
    ]:
        encoder = RecordingEncoder(name)
        encode_queries(OWLS.queries, encoder, form, format)
        assert encoder.queries == [encoder_query(query, form, used) for query in OWLS.queries]


def bags(passages: Sequence[Passage]) -> np.ndarray:
    texts = [passage.sentence for passage in passages]
    return WordEncoder().encode_texts(texts, role="query").astype(float)


def test_dense_is_the_cosines_of_whole_sentences_encoded_as_queries_and_documents():
    roles = []

    class Roles(WordEncoder):
        def encode_texts(self, texts, *, role):
            roles.append((len(texts), role))
            return super().encode_texts(texts, role=role)

    cosines = dense(OWLS, Roles())
    assert cosines.dtype == np.float64
    np.testing.assert_allclose(cosines, bags(OWLS.queries) @ bags(OWLS.documents).T, atol=1e-12)
    assert roles == [(2, "query"), (6, "document")]


def wavering() -> Callable[[str], str]:
    votes = itertools.cycle(["Idiomatic", "Literal", "Idiomatic"])
    return lambda prompt: next(votes) if "or literally" in prompt else "someone who works late"


def nearly_silent(prompt: str) -> str:
    """Vote, but tell one meaning alone; a model that tells none at all ends a run."""
    meaning = "works late" * (OWLS.queries[0].sentence in prompt)
    return "Idiomatic" if "or literally" in prompt else meaning


@pytest.mark.parametrize(
    "scoring",
    [
        Scoring.paper(gate="soft", standardise="item"),
        Scoring.paper(gate="soft", contrast=1.0, standardise="item"),
        Scoring.paper(gate="soft", contrast=0.5),
        Scoring.paper(gate="hard", contrast=0.5, standardise="item"),
        Scoring.paper(),
        Scoring.paper(caption_weight=2.0),
    ],
    ids=str,
)
@pytest.mark.parametrize("chat", [lambda: answer, wavering, lambda: nearly_silent])
def test_by_meaning_is_rank_with_the_documents_as_candidates(chat, scoring):
    candidates = tuple(Candidate(d.id, caption=d.sentence) for d in OWLS.documents)
    items = [
        Item(query.idiom, query.sentence, "en", candidates=candidates) for query in OWLS.queries
    ]
    captions, llm = Settings(track="caption", scoring=scoring), ScriptedChat(chat())
    rankings = rank(items, captions, llms=[llm], encoder=WordEncoder()).rankings
    glosses = "all" if scoring.gate == "soft" else "idiomatic"
    settings = SenseSettings(meanings="gloss")
    how = Approach(Prompts(), settings, glosses=glosses)
    (readings,) = interpret_items(items, [ScriptedChat(chat())], how)
    scores = by_meaning(OWLS, WordEncoder(), readings, scoring)
    np.testing.assert_allclose(scores, [ranking.scores for ranking in rankings], atol=1e-6)
    orders = rank_documents(scores, [d.id for d in OWLS.documents])
    for ranking, order, row in zip(rankings, orders, scores, strict=True):
        if len(set(np.round(row, 6))) == len(row):  # rank has ties in ascending order
            assert [OWLS.documents[k].id for k in order] == list(ranking.order)
