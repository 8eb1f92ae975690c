"""Run folders of retrieval: written, and read for a report."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from admire.core.errors import UserError
from admire.core.files import add_table, read_text
from admire.core.storage import replace_folder, write_whole
from admire.data.items import SenseLabel
from admire.tasks.retrieval.passages import Passage, relevance
from admire.tasks.retrieval.query_scores import rank_documents, score_types, trec_scores, write_trec
from admire.tasks.retrieval.retrieve import Retrieval

TEXTS = 10  #: how many documents of each query have their texts in the folder

VERSION = 1


class QueryReading(TypedDict):
    """How a chat model understood a query; ``sense`` is None if no vote could be read."""

    sense: SenseLabel | None
    probability_idiomatic: float
    confidence: NotRequired[float | None]
    gloss: str | None


@dataclass(frozen=True)
class RankedDocument:
    """A document that was retrieved for a query."""

    passage: Passage
    score: float
    relevant: bool


@dataclass(frozen=True)
class RankedQuery:
    """A query and the ten best documents for it, best first: a row of ``texts.jsonl``."""

    query: Passage
    relevant: int  #: how many documents of the index are relevant
    figures: dict[str, float] | None
    """``r_precision`` and ``ndcg``; None if no document is relevant."""
    reading: QueryReading | None  #: None if no chat model was asked
    documents: tuple[RankedDocument, ...]


@dataclass(frozen=True)
class RetrievalRun:
    """A run folder as it was read; ``record`` is how it was made, see :class:`Retrieval`."""

    queries: tuple[RankedQuery, ...]
    record: dict[str, Any]


_QUERY_ROW = TypeAdapter(RankedQuery)


def write_retrieval(retrieval: Retrieval, folder: Path) -> None:
    """Write a run folder, which appears when it is complete.

    ``run.trec`` and ``qrels.trec`` for other tools; ``queries.csv``, the figures of each query;
    ``types.csv``, those of each usage of documents; ``texts.jsonl``, a :class:`RankedQuery` a line;
    ``run.json``, how it was made.
    """
    split, documents = retrieval.split, retrieval.split.documents
    relevant, scores = relevance(split), trec_scores(retrieval.similarities)
    orders = rank_documents(retrieval.similarities, [document.id for document in documents])
    by_id: Any = retrieval.scores.set_index("id")[["r_precision", "ndcg"]]
    figures = by_id.to_dict("index")
    readings: list[QueryReading] = [
        {
            "sense": r.sense.label,
            "probability_idiomatic": r.sense.probability_idiomatic,
            "confidence": r.sense.confidence,
            "gloss": r.gloss,
        }
        for r in retrieval.readings
    ]
    with replace_folder(folder, "retrieval run") as part:
        write_trec(part, split, retrieval.similarities, retrieval.name)
        with write_whole(part / "queries.csv") as file:
            add_table(file, retrieval.scores)
        with write_whole(part / "types.csv") as file:
            add_table(file, score_types(split, retrieval.similarities))
        with write_whole(part / "texts.jsonl") as file:
            for q, query in enumerate(split.queries):
                best = tuple(
                    RankedDocument(documents[d], float(scores[q, d]), bool(relevant[q, d]))
                    for d in orders[q, :TEXTS]
                )
                reading = readings[q] if readings else None
                own = int(relevant[q].sum()), figures.get(query.id), reading, best
                file.write(_QUERY_ROW.dump_json(RankedQuery(query, *own)).decode() + "\n")
        with write_whole(part / "run.json") as file:
            head = {"version": VERSION, "queries": len(split.queries)}
            json.dump(head | retrieval.record, file, indent=2)


def read_retrieval(folder: Path) -> RetrievalRun:
    """Read the run that :func:`write_retrieval` wrote."""
    texts, content = read_text(folder / "texts.jsonl"), read_text(folder / "run.json")
    try:
        record: dict[str, Any] = json.loads(content)
        if record["version"] != VERSION:
            raise ValueError("another version")
        queries = tuple(_QUERY_ROW.validate_json(line) for line in texts.rstrip().split("\n"))
        if len(queries) != record.get("queries", len(queries)):
            raise ValueError("lines are missing")
    except (ValueError, KeyError, TypeError):
        raise UserError(
            f"{folder}: is damaged, or of another version of admire. Run admire retrieve again."
        ) from None
    return RetrievalRun(queries, record)
