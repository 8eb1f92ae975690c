"""IdioLink's task on a split of a benchmark: from its files to scored rankings."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pandas as pd

from admire.data.items import Item, SenseLabel
from admire.data.languages import detect_language
from admire.data.reader import take_items
from admire.encoders import TextEncoder, open_encoder
from admire.encoders.cached import CachedEncoder, checked, log_long
from admire.llm import ChatModel, Session
from admire.senses.interpretation import Interpretation
from admire.tasks.retrieval.passages import Split, read_split
from admire.tasks.retrieval.queries import interpret_queries
from admire.tasks.retrieval.query_scores import Similarities, score_queries, summarise_queries
from admire.tasks.retrieval.settings import RetrieveSettings
from admire.tasks.retrieval.similarities import Bm25Query, bm25, by_meaning, dense, tune_bm25

log = logging.getLogger("admire")


@dataclass(frozen=True)
class Retrieval:
    """Similarities of queries and documents, and the scores of the rankings."""

    split: Split
    similarities: Similarities
    scores: pd.DataFrame  #: of each query, see :func:`score_queries`
    record: dict[str, Any]  #: how it was made, for ``run.json``
    name: str  #: of the system, for run files
    readings: tuple[Interpretation, ...] = ()  #: of each query; none if no chat model was asked

    @property
    def summary(self) -> pd.DataFrame:
        """The means over the queries, see :func:`summarise_queries`."""
        return summarise_queries(self.scores)


def retrieve_split(
    data: str,
    settings: RetrieveSettings | None = None,
    *,
    llm: ChatModel | None = None,
    encoder: TextEncoder | None = None,
    session: Session | None = None,
) -> Retrieval:
    """Compare the queries of a benchmark's split with its documents, and score the rankings.

    Args:
        data: the benchmark, see :func:`admire.tasks.retrieval.passages.read_split`.
        llm, encoder: open models in place of those that the settings name.
        session: asks the chat model that the settings name; None is one of its own.

    Raises:
        UserError: the benchmark cannot be read, a model cannot be opened or asked, the encoder has
            no vectors of spans where they are needed, or no query has a relevant document.
    """
    settings = settings or RetrieveSettings()
    trusts = settings.trust_remote_code
    names = [encoder.name] if encoder else settings.encoder
    split = read_split(data, settings.split, settings.usage, gold=settings.gold)
    counts = len({d.idiom for d in split.documents}), len(split.queries), len(split.documents)
    log.info("%s: %d PIEs, %d queries, %d documents", settings.split, *counts)
    record: dict[str, Any] = {
        "data": data,
        "split": settings.split,
        "usage": list(settings.usage) or None,
        "gold": settings.gold,
        "encoder": " + ".join(names),
        "query": settings.query,
    }
    encoders: list[CachedEncoder | None] = []
    for name in names:
        opened = encoder
        if not encoder and name != "bm25":
            opened = open_encoder(
                name, device=settings.device, own_prompts=False, trust_remote_code=trusts
            )
        encoders.append(checked(opened, settings.long_texts) if opened else None)
    readings: list[Interpretation] = []
    if settings.query == "meaning":
        lang, readings = read_queries(split, settings, session, llm)
        record |= {"llm": settings.llm, "sense": settings.sense, "lang": lang}
        record["contrast"] = settings.scoring.contrast
    rows = [_compare(data, split, used, settings, readings, record) for used in encoders]
    texts = {passage.sentence for passage in (*split.queries, *split.documents)}
    record["long_texts"] = [used.count_long(texts) for used in encoders if used]
    log_long(record["long_texts"], "texts")
    similarities = rows[0]
    if len(rows) > 1:  # the mean; each query's are first standardised over the documents
        together = np.array(rows)
        spread = together.std(axis=2, keepdims=True)
        centred = together - together.mean(axis=2, keepdims=True)
        similarities = (centred / np.where(spread > 0, spread, 1.0)).mean(axis=0)
    scores = score_queries(split, similarities)
    system = "+".join(name.rpartition("/")[2] for name in names)
    return Retrieval(
        split, similarities, scores, record, f"{system}-{settings.query}", tuple(readings)
    )


def read_queries(
    split: Split, settings: RetrieveSettings, session: Session | None, llm: ChatModel | None = None
) -> tuple[str, list[Interpretation]]:
    """Return the language of queries, and their senses and glosses by a chat model."""
    first = " ".join(query.sentence for query in split.queries[:50])
    lang = settings.lang or detect_language(first)
    items = take_items(
        Item(q.idiom, q.sentence, lang, sentence_type=cast("SenseLabel", q.usage))
        for q in split.queries
    )
    return lang, interpret_queries(items, settings, llm, meanings="gloss", session=session)


def _compare(
    data: str,
    split: Split,
    encoder: TextEncoder | None,
    settings: RetrieveSettings,
    readings: Sequence[Interpretation],
    record: dict[str, Any],
) -> Similarities:
    """Compare queries and documents by one encoder or BM25, and add to the record how."""
    if encoder is None:
        of = cast("Bm25Query", settings.query)
        variant = settings.bm25_variant
        if settings.k1 is not None and settings.b is not None:
            k1, b = settings.k1, settings.b
        else:
            k1, b = tune_bm25(read_split(data, "val", settings.usage), of, variant)
            log.info("The best on val is k1 = %g, b = %g", k1, b)
        record |= {"bm25_variant": variant, "k1": k1, "b": b}
        return bm25(split, of, k1=k1, b=b, variant=variant)
    before = f"{record['identity']} + " if "identity" in record else ""
    record["identity"] = before + encoder.identity
    if settings.query == "meaning":
        return by_meaning(split, encoder, readings, settings.scoring)
    record["instruction_format"] = settings.instruction_format
    return dense(split, encoder, settings.query, settings.instruction_format)
