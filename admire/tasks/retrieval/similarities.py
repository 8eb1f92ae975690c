"""Similarities of queries and documents: BM25, encoders in the paper's four forms, and meaning."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Literal

import numpy as np

from admire.models.encoders import TextEncoder
from admire.rankers.scorer import query_weights, score
from admire.rankers.settings import Scoring
from admire.senses.interpretation import Interpretation
from admire.tasks.retrieval.passages import Split
from admire.tasks.retrieval.queries import encode_queries
from admire.tasks.retrieval.query_scores import Similarities, score_queries
from admire.tasks.retrieval.settings import InstructionFormat, QueryForm

Bm25Query = Literal["sentence", "span"]
"""What of a query BM25 compares with whole documents."""

BM25_GRID = tuple(itertools.product((0.6, 0.9, 1.2, 1.5, 2.0), (0.2, 0.4, 0.6, 0.75, 0.9)))
"""Pairs of k1 and b that the paper tries (appendix E.1)."""


def dense(
    split: Split,
    encoder: TextEncoder,
    form: QueryForm = "sentence",
    instruction_format: InstructionFormat = "auto",
) -> Similarities:
    """Compute the cosines of queries and documents, shape (queries, documents).

    Documents are always whole sentences without instruction (section 4.1).

    Raises:
        UserError: the form needs spans, and the encoder has no vectors of spans.
    """
    queries = encode_queries(split.queries, encoder, form, instruction_format)
    cosines: Similarities = queries.astype(float) @ _encode_documents(split, encoder).T
    return cosines


def _encode_documents(split: Split, encoder: TextEncoder) -> Similarities:
    sentences = [document.sentence for document in split.documents]
    return encoder.encode_texts(sentences, role="document").astype(float)


def by_meaning(
    split: Split, encoder: TextEncoder, readings: Sequence[Interpretation], scoring: Scoring
) -> Similarities:
    """Score documents by the method of :func:`admire.rank`, shape (queries, documents).

    Gloss and PIE are compared with whole documents.

    Args:
        readings: for each query the sense and the gloss that a chat model found.
        scoring: how the two cosines are weighed.
    """
    documents = _encode_documents(split, encoder)
    rows = []
    pies = [query.idiom for query in split.queries]
    glosses = [reading.gloss or pie for reading, pie in zip(readings, pies, strict=True)]
    vectors = [encoder.encode_texts(texts, role="query") for texts in (glosses, pies)]
    for reading, gloss, pie in zip(readings, *vectors, strict=True):
        cosines = np.stack([gloss, pie]).astype(float) @ documents.T
        roles = ("gloss", "compound")
        weights = query_weights(scoring, reading.sense, roles if reading.gloss else roles[1:])
        rows.append(score({"caption": cosines}, [weights.get(r, 0.0) for r in roles], scoring))
    return np.array(rows)


def words(text: str) -> list[str]:
    """Split a text into the lower-case words that BM25 counts; "don't" is one word."""
    return re.findall(r"\b\w+(?:['’]\w+)?\b", text.lower())


def bm25(
    split: Split, of: Bm25Query = "sentence", *, k1: float = 0.9, b: float = 0.4
) -> Similarities:
    """Compute BM25 scores, shape (queries, documents). The defaults are the paper's.

    The variant is Robertson's: a word that more than half of the documents have counts nothing.

    Args:
        of: what of a query is compared with whole documents.
    """
    import bm25s

    documents = [words(document.sentence) for document in split.documents]
    if not any(documents):  # bm25s needs a vocabulary
        return np.zeros((len(split.queries), len(documents)))
    index = bm25s.BM25(k1=k1, b=b, method="robertson", dtype="float64")
    index.index(documents, show_progress=False)
    queries = [index.get_tokens_ids(words(getattr(query, of))) for query in split.queries]
    return np.array([index.get_scores_from_ids(query) for query in queries])


def tune_bm25(split: Split, of: Bm25Query = "sentence") -> tuple[float, float]:
    """Return the first k1 and b of the paper's grid with the highest mean nDCG@10."""

    def quality(pair: tuple[float, float]) -> float:
        scores = score_queries(split, bm25(split, of, k1=pair[0], b=pair[1]))
        return round(float(scores["ndcg"].mean()), 12)

    return max(BM25_GRID, key=quality)
