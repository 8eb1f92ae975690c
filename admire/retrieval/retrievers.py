"""Text-only retrieval of the same meaning (IdioLink): BM25 and dense, in the paper's four modes."""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from admire.encoders import Query, QueryEncoder, TextEncoder, Vectors
from admire.errors import UserError
from admire.interpretation import Interpretation
from admire.retrieval.evaluation import Similarities, evaluate
from admire.retrieval.passages import Passage, Split
from admire.scorer import Scoring, query_weights, score

log = logging.getLogger("admire")


Mode = Literal["sentence", "span", "instruction+sentence", "instruction+span"]
MODES: tuple[Mode, ...] = get_args(Mode)

INSTRUCTION = (
    "Based on the literal/idiomatic usage of the span {span} in the query, retrieve documents that "
    "contain a span conveying the same conceptual meaning."
)
"""IdioLink's instruction (appendix B)."""

Format = Literal["auto", "instruct", "prompt", "plain"]
"""How an instruction is given: ``instruct`` as "Instruct: … Query: …", ``prompt`` as the prompt
argument of sentence-transformers, which models like INSTRUCTOR leave out of the pooling, ``plain``
in front of the query; ``auto`` goes by the model's name."""


def encode_queries(
    queries: Sequence[Passage], encoder: TextEncoder, mode: Mode, style: Format = "auto"
) -> Vectors:
    """The queries' vectors, shape (queries, width): of sentences or spans, as ``mode`` says.

    Raises:
        UserError: the mode needs spans, and the encoder has no vectors of tokens.
    """
    style = style_of(encoder.name) if style == "auto" else style
    asked = [as_query(query, mode, style) for query in queries]
    if isinstance(encoder, QueryEncoder):
        return encoder.encode_queries(asked)
    if mode.endswith("span"):
        raise UserError(
            f"The encoder '{encoder.name}' has no vectors of spans. Use --query sentence or "
            "instruction+sentence, or an encoder sbert:REPOSITORY."
        )
    return encoder.encode_texts([(one.prompt or "") + one.text for one in asked], role="query")


def style_of(name: str) -> Format:
    """How a model of that name wants instructions."""
    name = name.rpartition("/")[2].lower()  # not of the folders above
    if "instructor" in name:
        return "prompt"
    if re.search(r"instruct|qwen|lychee", name):
        return "instruct"
    return "plain"


def as_query(query: Passage, mode: Mode, style: Format) -> Query:
    """What an encoder is given of a query: its text, the prompt before it, and the span's place."""
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

    Documents are whole sentences without instruction, whatever the queries are (section 4.1).
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

    ``readings`` has for each query the sense and the gloss that a chat model finds; gloss and PIE
    are compared with whole documents and weighed as ``scoring`` says.
    """
    documents = encoder.encode_texts([d.sentence for d in split.documents], role="document")
    pies = [query.idiom for query in split.queries]
    glosses = [reading.gloss or pie for reading, pie in zip(readings, pies, strict=True)]
    vectors = [encoder.encode_texts(texts, role="query") for texts in (glosses, pies)]
    rows = []
    for reading, gloss, pie in zip(readings, *vectors, strict=True):
        cosines = np.stack([gloss, pie]).astype(float) @ documents.astype(float).T
        weights = query_weights(scoring, reading.sense, reading.gloss is not None)
        given = [weights.get(role, 0.0) for role in ("gloss", "compound")]
        rows.append(score({"caption": cosines}, given, scoring))
    return np.array(rows)


BM25_GRID = tuple(itertools.product((0.6, 0.9, 1.2, 1.5, 2.0), (0.2, 0.4, 0.6, 0.75, 0.9)))
"""k1 and b that the paper tries (appendix E.1)."""


def words(text: str) -> list[str]:
    """The words that BM25 counts: lower case, an apostrophe inside a word is a part of it."""
    return re.findall(r"\b\w+(?:['’]\w+)?\b", text.lower())


def bm25(
    split: Split,
    of: Literal["sentence", "span"] = "sentence",
    *,
    k1: float = 0.9,
    b: float = 0.4,
) -> Similarities:
    """BM25 of queries and documents, shape (queries, documents); the defaults are the paper's."""
    from rank_bm25 import BM25Okapi

    documents = [words(d.sentence) for d in split.documents]
    if not any(documents):  # BM25Okapi divides by their mean length
        return np.zeros((len(split.queries), len(documents)))
    index = BM25Okapi(documents, k1=k1, b=b)
    asked = [words(getattr(query, of)) for query in split.queries]
    return np.array([index.get_scores(query) for query in asked])


def tune_bm25(split: Split, of: Literal["sentence", "span"] = "sentence") -> tuple[float, float]:
    """k1 and b with the highest mean nDCG@10, of the paper's grid; the first of equals."""

    def quality(pair: tuple[float, float]) -> float:
        found = evaluate(split, bm25(split, of, k1=pair[0], b=pair[1]))
        return round(float(found["ndcg"].mean()), 12)

    return max(BM25_GRID, key=quality)
