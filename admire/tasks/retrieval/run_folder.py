"""Run folders of retrieval: what a run leaves on disk, and what a report reads of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NotRequired

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from admire.base.errors import UserError
from admire.base.files import add_table, read_text
from admire.base.storage import replace_folder, write_whole
from admire.data.items import SenseLabel
from admire.tasks.retrieval.evaluation import ranked, write_trec, written
from admire.tasks.retrieval.passages import Passage, relevance
from admire.tasks.retrieval.retrieve import Retrieval

SHOWN = 10
"""How many documents of each query have their texts in the folder."""

VERSION = 1


class Record(TypedDict):
    """How a run was made, as ``run.json`` has it."""

    version: Literal[1]
    data: str
    split: str
    usage: list[str] | None
    gold: bool
    encoder: str
    query: str
    identity: NotRequired[str]
    instruction_format: NotRequired[str]
    k1: NotRequired[float]
    b: NotRequired[float]
    llm: NotRequired[str]
    sense: NotRequired[str]
    lang: NotRequired[str]
    contrast: NotRequired[float]


class Reading(TypedDict):
    """How a chat model understood a query; ``sense`` is None where no vote could be read."""

    sense: SenseLabel | None
    probability: float
    gloss: str | None


@dataclass(frozen=True)
class FoundDocument:
    """A document that was retrieved for a query."""

    passage: Passage
    score: float
    relevant: bool


@dataclass(frozen=True)
class Answered:
    """A query and the ten best documents for it.

    Attributes:
        relevant: how many documents of the index are relevant.
        figures: ``r_precision`` and ``ndcg``; None where no document is relevant.
        reading: None where no chat model was asked.
        documents: best first.
    """

    query: Passage
    relevant: int
    figures: dict[str, float] | None
    reading: Reading | None
    documents: tuple[FoundDocument, ...]


@dataclass(frozen=True)
class RetrievalRun:
    """A run folder as it was read."""

    queries: tuple[Answered, ...]
    record: dict[str, Any]


_ANSWERED = TypeAdapter(Answered)


def write_retrieval(found: Retrieval, folder: Path) -> None:
    """Write a run folder, which appears when it is complete.

    ``run.trec`` and ``qrels.trec`` for other tools; ``queries.csv``, the figures of each query;
    ``texts.jsonl``, a line for each query with what was understood of it and the texts of its ten
    best documents; ``run.json``, how it was made.

    Raises:
        UserError: the folder holds something else, or cannot be written.
    """
    with replace_folder(folder, "retrieval run") as part:
        write_trec(part, found.split, found.similarities, found.name)
        with write_whole(part / "queries.csv") as file:
            add_table(file, found.scored)
        with write_whole(part / "texts.jsonl") as file:
            for answered in _answers(found):
                file.write(_ANSWERED.dump_json(answered).decode() + "\n")
        with write_whole(part / "run.json") as file:
            json.dump({"version": VERSION} | found.record, file, indent=2)


def _answers(found: Retrieval) -> list[Answered]:
    queries, documents = found.split.queries, found.split.documents
    relevant, scores = relevance(found.split), written(found.similarities)
    best = ranked(found.similarities, [document.id for document in documents])[:, :SHOWN]
    figures: dict[str, dict[str, float]] = {
        row["id"]: {name: row[name] for name in ("r_precision", "ndcg")}
        for row in found.scored.to_dict("records")
    }
    readings: list[Reading | None] = [
        {"sense": r.sense.label, "probability": r.sense.probability, "gloss": r.gloss}
        for r in found.readings
    ]
    return [
        Answered(
            query,
            int(relevant[k].sum()),
            figures.get(query.id),
            readings[k] if readings else None,
            tuple(
                FoundDocument(documents[place], float(scores[k, place]), bool(relevant[k, place]))
                for place in best[k]
            ),
        )
        for k, query in enumerate(queries)
    ]


def read_retrieval(folder: Path) -> RetrievalRun:
    """The run that :func:`write_retrieval` wrote.

    Raises:
        UserError: the folder is not such a run, it is damaged, or of another version.
    """
    record, texts = read_text(folder / "run.json"), read_text(folder / "texts.jsonl")
    try:
        return RetrievalRun(
            tuple(_ANSWERED.validate_json(line) for line in texts.rstrip().split("\n")),
            dict(TypeAdapter(Record).validate_json(record)),
        )
    except ValueError:
        raise UserError(
            f"{folder}: is damaged, or of another version of admire. Run admire retrieve again."
        ) from None
