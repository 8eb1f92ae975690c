"""IdioLink's task on a split of a benchmark: from its files to scored rankings and a run folder."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Literal, cast

import pandas as pd

from admire.data.items import Item, SenseLabel
from admire.models.encoders import TextEncoder, open_encoder
from admire.models.llm import ChatModel
from admire.senses.interpretation import Interpretation
from admire.tasks.retrieval import retrievers
from admire.tasks.retrieval.evaluation import Similarities, score_queries, summarise_queries
from admire.tasks.retrieval.passages import Split, read_split
from admire.tasks.retrieval.queries import understand
from admire.tasks.retrieval.settings import RetrieveSettings

log = logging.getLogger("admire")


@dataclass(frozen=True)
class Retrieval:
    """What was retrieved.

    Attributes:
        split: the queries and documents.
        similarities: of queries and documents, shape (queries, documents).
        scored: R-precision and nDCG@10 of each query, see
            :func:`admire.tasks.retrieval.evaluation.score_queries`.
        record: how it was made.
        name: of the system, for run files.
        readings: how a chat model understood each query; none where no model was asked.
    """

    split: Split
    similarities: Similarities
    scored: pd.DataFrame
    record: dict[str, Any]
    name: str
    readings: tuple[Interpretation, ...] = ()

    @property
    def summary(self) -> pd.DataFrame:
        """Means over the queries, see :func:`summarise_queries`."""
        return summarise_queries(self.scored)


def retrieve_split(
    data: str,
    settings: RetrieveSettings | None = None,
    *,
    llm: ChatModel | None = None,
    encoder: TextEncoder | None = None,
) -> Retrieval:
    """Compare the queries of a benchmark's split with its documents, and score the rankings.

    Args:
        data: the benchmark, see :func:`admire.tasks.retrieval.passages.read_split`.
        settings: the defaults where they are None.
        llm, encoder: open models in place of those that the settings name.

    Raises:
        UserError: the benchmark cannot be read, a model cannot be opened or asked, the encoder has
            no vectors of spans where they are needed, or no query has a relevant document.
    """
    settings = settings or RetrieveSettings()
    name = encoder.name if encoder else settings.encoder
    split = read_split(data, settings.split, settings.usage, gold=settings.gold)
    record: dict[str, Any] = {
        "data": data,
        "split": settings.split,
        "usage": list(settings.usage) or None,
        "gold": settings.gold,
        "encoder": name,
        "query": settings.query,
    }
    readings: list[Interpretation] = []
    if name == "bm25":
        of = cast(Literal["sentence", "span"], settings.query)
        if settings.k1 is None or settings.b is None:
            k1, b = retrievers.tune_bm25(read_split(data, "val", settings.usage), of)
            log.info("The best on val is k1 = %g, b = %g", k1, b)
        else:
            k1, b = settings.k1, settings.b
        similarities = retrievers.bm25(split, of, k1=k1, b=b)
        record |= {"k1": k1, "b": b}
    else:
        encoder = encoder or open_encoder(settings.encoder, device=settings.device)
        record |= {"identity": encoder.identity}
        if settings.query == "meaning":
            items = [
                Item(
                    query.idiom,
                    query.sentence,
                    settings.lang,
                    sentence_type=cast(SenseLabel, query.usage),
                )
                for query in split.queries
            ]
            readings = understand(items, settings, llm, meanings="gloss")
            similarities = retrievers.by_meaning(split, encoder, readings, settings.scoring)
            record |= {name: getattr(settings, name) for name in ("llm", "sense", "lang")}
            record["contrast"] = settings.scoring.contrast
        else:
            similarities = retrievers.dense(
                split, encoder, settings.query, settings.instruction_format
            )
            record |= {"instruction_format": settings.instruction_format}
    scored = score_queries(split, similarities)
    system = f"{name.rpartition('/')[2]}-{settings.query}"
    return Retrieval(split, similarities, scored, record, system, tuple(readings))
