"""Similarities of queries and documents: BM25, encoders in the paper's four forms, and meaning."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Literal

import numpy as np

from admire.encoders import TextEncoder
from admire.encoders.cached import text_windows
from admire.encoders.windows import Windows, compare
from admire.rankers.scorer import query_weights, score
from admire.rankers.settings import Scoring
from admire.senses.interpretation import Interpretation
from admire.tasks.retrieval.passages import Split
from admire.tasks.retrieval.queries import encode_queries
from admire.tasks.retrieval.query_scores import Similarities, score_queries
from admire.tasks.retrieval.settings import Bm25Variant, InstructionFormat, QueryForm

Bm25Query = Literal["sentence", "span"]  #: what of a query BM25 compares with whole documents

BM25_GRID = tuple(itertools.product((0.6, 0.9, 1.2, 1.5, 2.0), (0.2, 0.4, 0.6, 0.75, 0.9)))
"""Pairs of k1 and b that the paper tries (appendix E.1)."""


def dense(
    split: Split,
    encoder: TextEncoder,
    form: QueryForm = "sentence",
    instruction_format: InstructionFormat = "auto",
) -> Similarities:
    """Compute the cosines of queries and documents, shape (queries, documents).

    Documents are always whole sentences without instruction (section 4.1). Long ones count by
    their best window, unless the encoder cuts them. An encoder without vectors of spans, where the
    form needs these, is a UserError.
    """
    queries = encode_queries(split.queries, encoder, form, instruction_format)
    texts = [document.sentence for document in split.documents]
    return compare(queries, text_windows(encoder, texts, role="document"))


def by_meaning(
    split: Split, encoder: TextEncoder, readings: Sequence[Interpretation], scoring: Scoring
) -> Similarities:
    """Score documents by the method of :func:`admire.rank`, shape (queries, documents).

    Gloss and PIE of each query are compared with whole documents; ``scoring`` weighs the cosines.
    """
    texts = [document.sentence for document in split.documents]
    documents = text_windows(encoder, texts, role="document")
    rows = []
    pies = [query.idiom for query in split.queries]
    glosses = [reading.gloss or pie for reading, pie in zip(readings, pies, strict=True)]
    queries = [text_windows(encoder, side, role="query").each for side in (glosses, pies)]
    for reading, gloss, pie in zip(readings, *queries, strict=True):
        cosines = compare(Windows.joined([gloss, pie]), documents)
        roles = ("gloss", "compound")
        weights = query_weights(scoring, reading.sense, roles if reading.gloss else roles[1:])
        rows.append(score({"caption": cosines}, [weights.get(r, 0.0) for r in roles], scoring))
    return np.array(rows)


WORDS: dict[Bm25Variant, str] = {
    "robertson": r"\b\w+(?:['’]\w+)?\b",
    "okapi": r"\b\w+(?:'\w+)?\b",
}
"""What BM25 counts as a word. For IdioLink's authors a typographic apostrophe parts words."""


def words(text: str, variant: Bm25Variant = "robertson") -> list[str]:
    """Split a text into the lower-case words that BM25 counts."""
    return re.findall(WORDS[variant], text.lower())


def bm25(
    split: Split,
    of: Bm25Query = "sentence",
    *,
    k1: float = 0.9,
    b: float = 0.4,
    variant: Bm25Variant = "robertson",
) -> Similarities:
    """Compute BM25 scores, shape (queries, documents), by default with the k1 and b that the paper
    finds best on val.

    The variants differ in words that more than half of the documents have. With Robertson's they
    count nothing. With Okapi's, as in the paper, they count a quarter of the mean idf of all words;
    its scores are those of ``rank_bm25.BM25Okapi``.
    """
    import bm25s

    documents = [words(document.sentence, variant) for document in split.documents]
    if not any(documents):  # bm25s needs a vocabulary
        return np.zeros((len(split.queries), len(documents)))
    # ATIRE's are Okapi's term frequencies. bm25s has no such idf, so Lucene's is replaced below.
    methods = {"robertson": ("robertson", "robertson"), "okapi": ("atire", "lucene")}
    method, idf_method = methods[variant]
    index = bm25s.BM25(k1=k1, b=b, method=method, idf_method=idf_method, dtype="float64")
    index.index(documents, show_progress=False)
    if variant == "okapi":
        counts = np.diff(index.scores["indptr"])  # documents that have each word
        odds = (len(documents) - counts + 0.5) / (counts + 0.5)
        idf = np.log(odds)
        idf[idf < 0] = 0.25 * idf.mean()
        index.scores["data"] *= np.repeat(idf / np.log1p(odds), counts)
    queries = [index.get_tokens_ids(words(getattr(query, of), variant)) for query in split.queries]
    return np.array([index.get_scores_from_ids(query) for query in queries])


def tune_bm25(
    split: Split, of: Bm25Query = "sentence", variant: Bm25Variant = "robertson"
) -> tuple[float, float]:
    """Return the first k1 and b of the paper's grid with the highest mean nDCG@10."""

    def quality(pair: tuple[float, float]) -> float:
        scores = score_queries(split, bm25(split, of, k1=pair[0], b=pair[1], variant=variant))
        return round(float(scores["ndcg"].mean()), 12)

    return max(BM25_GRID, key=quality)
