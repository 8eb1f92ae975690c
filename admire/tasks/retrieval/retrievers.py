"""Similarities of queries and documents: BM25, encoders in the paper's four modes, and meaning."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Literal

import numpy as np

from admire.base.errors import UserError
from admire.models.encoders import Query, QueryEncoder, TextEncoder, Vectors
from admire.rankers.scorer import query_weights, score
from admire.rankers.settings import Scoring
from admire.senses.interpretation import Interpretation
from admire.tasks.retrieval.evaluation import Similarities, score_queries
from admire.tasks.retrieval.modes import Format, Mode
from admire.tasks.retrieval.passages import Passage, Split

INSTRUCTION = (
    "Based on the literal/idiomatic usage of the span {span} in the query, retrieve documents that "
    "contain a span conveying the same conceptual meaning."
)
"""IdioLink's instruction (appendix B)."""


def encode_queries(
    queries: Sequence[Passage], encoder: TextEncoder, mode: Mode, style: Format = "auto"
) -> Vectors:
    """Vectors of the queries' sentences or spans, shape (queries, width).

    Raises:
        UserError: the mode needs spans, and the encoder has no vectors of spans.
    """
    style = style_of(encoder.name) if style == "auto" else style
    asked = [as_query(query, mode, style) for query in queries]
    if isinstance(encoder, QueryEncoder):
        return encoder.encode_queries(asked)
    if mode.endswith("span"):
        raise UserError(
            f"The encoder '{encoder.name}' has no vectors of spans. Use the query 'sentence' or "
            "'instruction+sentence', or an encoder sbert:REPOSITORY.",
            "query",
            "encoder",
        )
    return encoder.encode_texts([(one.prompt or "") + one.text for one in asked], role="query")


def style_of(name: str) -> Format:
    """The form of instructions that a model of this name was trained with."""
    name = name.rpartition("/")[2].lower()  # folders above it say nothing about the model
    if "instructor" in name:
        return "prompt"
    if re.search(r"instruct|qwen|lychee", name):
        return "instruct"
    return "plain"


def as_query(query: Passage, mode: Mode, style: Format) -> Query:
    """What an encoder gets of a query: its text, the prompt before it, and the span's position."""
    start, end = query.place
    prompt, before = None, ""
    if mode.startswith("instruction"):
        instruction = INSTRUCTION.format(span=query.span)
        if style == "instruct":
            prompt = f"Instruct: {instruction}\nQuery: "
        elif style == "prompt":
            prompt = f"{instruction} "
        else:
            before = f"{instruction} "
    place = (len(before) + start, len(before) + end) if mode.endswith("span") else None
    return Query(before + query.sentence, prompt, place)


def dense(
    split: Split, encoder: TextEncoder, mode: Mode = "sentence", style: Format = "auto"
) -> Similarities:
    """Cosines of queries and documents, shape (queries, documents).

    Documents are always whole sentences without instruction (section 4.1).

    Raises:
        UserError: the mode needs spans, and the encoder has no vectors of spans.
    """
    queries = encode_queries(split.queries, encoder, mode, style)
    documents = encoder.encode_texts([d.sentence for d in split.documents], role="document")
    cosines: Similarities = queries.astype(float) @ documents.astype(float).T
    return cosines


def by_meaning(
    split: Split,
    encoder: TextEncoder,
    readings: Sequence[Interpretation],
    scoring: Scoring,
) -> Similarities:
    """Scores of documents by the method of :func:`admire.rank`, shape (queries, documents).

    Gloss and PIE are compared with whole documents.

    Args:
        readings: for each query the sense and the gloss that a chat model found.
        scoring: how the two cosines are weighed.
    """
    documents = encoder.encode_texts([d.sentence for d in split.documents], role="document")
    pies = [query.idiom for query in split.queries]
    glosses = [reading.gloss or pie for reading, pie in zip(readings, pies, strict=True)]
    vectors = [encoder.encode_texts(texts, role="query") for texts in (glosses, pies)]
    rows = []
    for reading, gloss, pie in zip(readings, *vectors, strict=True):
        cosines = np.stack([gloss, pie]).astype(float) @ documents.astype(float).T
        roles = ("gloss", "compound")
        weights = query_weights(scoring, reading.sense, roles if reading.gloss else roles[1:])
        given = [weights.get(role, 0.0) for role in roles]
        rows.append(score({"caption": cosines}, given, scoring))
    return np.array(rows)


BM25_GRID = tuple(itertools.product((0.6, 0.9, 1.2, 1.5, 2.0), (0.2, 0.4, 0.6, 0.75, 0.9)))
"""Pairs of k1 and b that the paper tries (appendix E.1)."""


def words(text: str) -> list[str]:
    """The words that BM25 counts, in lower case. An apostrophe inside a word is a part of it."""
    return re.findall(r"\b\w+(?:['’]\w+)?\b", text.lower())


def bm25(
    split: Split,
    of: Literal["sentence", "span"] = "sentence",
    *,
    k1: float = 0.9,
    b: float = 0.4,
) -> Similarities:
    """BM25 scores, shape (queries, documents). The defaults are the paper's.

    The variant is Robertson's: a word that more than half of the documents have counts nothing.

    Args:
        of: what of a query is compared with whole documents.
    """
    import bm25s

    documents = [words(d.sentence) for d in split.documents]
    if not any(documents):  # bm25s needs a vocabulary
        return np.zeros((len(split.queries), len(documents)))
    index = bm25s.BM25(k1=k1, b=b, method="robertson", dtype="float64")
    index.index(documents, show_progress=False)
    queries = [index.get_tokens_ids(words(getattr(query, of))) for query in split.queries]
    return np.array([index.get_scores_from_ids(query) for query in queries])


def tune_bm25(split: Split, of: Literal["sentence", "span"] = "sentence") -> tuple[float, float]:
    """The k1 and b of the paper's grid with the highest mean nDCG@10; of equal ones the first."""

    def quality(pair: tuple[float, float]) -> float:
        found = score_queries(split, bm25(split, of, k1=pair[0], b=pair[1]))
        return round(float(found["ndcg"].mean()), 12)

    return max(BM25_GRID, key=quality)
