"""Run folders of retrieval: what a run leaves on disk, and what a report reads of it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from admire.base.errors import UserError
from admire.base.files import add_table, json_rows, parse_json, read_table, read_text
from admire.base.storage import replace_folder, write_whole
from admire.senses.interpretation import Interpretation
from admire.tasks.retrieval.evaluation import ranked, trec_id, write_trec
from admire.tasks.retrieval.passages import Passage, Split, read_split, relevance
from admire.tasks.retrieval.retrieve import Retrieval

SHOWN = 10
"""How many documents of each query have their texts in the folder, besides the relevant ones."""


def write_retrieval(found: Retrieval, folder: Path) -> None:
    """Write a run folder, which appears when it is complete.

    ``run.trec`` and ``qrels.trec`` for other tools; ``queries.csv``, the figures of each query;
    ``texts.jsonl``, the queries with what was understood of them, and the texts of the documents
    that are relevant or among the ten best of a query; ``run.json``, how it was made.

    Raises:
        UserError: the folder holds something else, or cannot be written.
    """
    with replace_folder(folder, "retrieval run") as part:
        write_trec(part, found.split, found.similarities, found.name)
        with write_whole(part / "queries.csv") as file:
            add_table(file, found.scored)
        with write_whole(part / "texts.jsonl") as file:
            for row in _text_rows(found):
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
        with write_whole(part / "run.json") as file:
            json.dump(found.record, file, indent=2)


def _text_rows(found: Retrieval) -> list[dict[str, Any]]:
    queries, documents = found.split.queries, found.split.documents
    readings = found.readings or (None,) * len(queries)
    rows: list[dict[str, Any]] = [
        {"query": asdict(query), "reading": _reading_row(reading)}
        for query, reading in zip(queries, readings, strict=True)
    ]
    kept = relevance(found.split)
    best = ranked(found.similarities, [document.id for document in documents])[:, :SHOWN]
    np.put_along_axis(kept, best, True, axis=1)
    return rows + [{"document": asdict(documents[k])} for k in np.flatnonzero(kept.any(axis=0))]


def _reading_row(reading: Interpretation | None) -> dict[str, Any] | None:
    if reading is None:
        return None
    sense = reading.sense
    return {"sense": sense.label, "probability": sense.probability, "gloss": reading.gloss}


@dataclass(frozen=True)
class FoundDocument:
    """A document that was found for a query; ``passage`` is None where its text is not known."""

    id: str
    score: float
    relevant: bool
    passage: Passage | None


@dataclass(frozen=True)
class Answered:
    """A query and the ten best documents for it.

    Attributes:
        id: of the query.
        passage: the query; None where its text is not known.
        idiom, usage, subject: the query's, empty where they are not known.
        relevant: how many documents of the index are relevant.
        figures: ``r_precision`` and ``ndcg``; None where no document is relevant.
        reading: ``sense``, ``probability`` and ``gloss``, as a chat model understood the query.
        documents: best first.
    """

    id: str
    passage: Passage | None
    idiom: str
    usage: str
    subject: str
    relevant: int
    figures: dict[str, float] | None
    reading: dict[str, Any] | None
    documents: tuple[FoundDocument, ...]


@dataclass(frozen=True)
class RetrievalRun:
    """A run folder as it was read; ``complete`` is whether all texts are known."""

    queries: tuple[Answered, ...]
    record: dict[str, Any]

    @property
    def complete(self) -> bool:
        return all(query.passage for query in self.queries)


def read_retrieval(folder: Path) -> RetrievalRun:
    """The run that :func:`write_retrieval` wrote.

    Runs of older versions have no texts; they are read from the benchmark that ``run.json`` names,
    if it is a folder that is there.

    Raises:
        UserError: the folder is not such a run, or it is damaged.
    """
    try:
        record = _record(folder / "run.json")
        queries, documents, readings = _texts(folder, record)
        scored = {trec_id(row["id"]): row for row in _rows(folder / "queries.csv")}
        wanted = defaultdict(set)
        for line in read_text(folder / "qrels.trec").splitlines():
            query, _, document, _ = line.split()
            wanted[query].add(document)
        found: dict[str, list[tuple[str, float]]] = defaultdict(list)
        for line in read_text(folder / "run.trec").splitlines():
            query, _, document, _, score, _ = line.split()
            found[query].append((document, float(score)))
        answered = []
        for name, best in found.items():
            row, passage = scored.get(name), queries.get(name)
            about = asdict(passage) if passage else (row or {})
            answered.append(
                Answered(
                    id=about.get("id", name),
                    passage=passage,
                    **{key: about.get(key, "") for key in ("idiom", "usage", "subject")},
                    relevant=len(wanted[name]),
                    figures={k: float(row[k]) for k in ("r_precision", "ndcg")} if row else None,
                    reading=readings.get(name),
                    documents=tuple(
                        FoundDocument(
                            documents[one].id if one in documents else one,
                            score,
                            one in wanted[name],
                            documents.get(one),
                        )
                        for one, score in best[:SHOWN]
                    ),
                )
            )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        raise UserError(f"{folder}: is damaged. Run admire retrieve again.") from None
    return RetrievalRun(tuple(answered), record)


def _record(path: Path) -> dict[str, Any]:
    record: dict[str, Any] = parse_json(read_text(path))
    texts = [record[name] for name in ("data", "split", "encoder", "query")]
    texts += [record.get(name, "") for name in ("instruction_format", "llm", "sense", "lang")]
    texts += record["usage"] or ()
    numbers = [record.get(name, 0) for name in ("k1", "b", "contrast")]
    if {*map(type, texts)} != {str} or not {*map(type, numbers)} <= {int, float}:
        raise ValueError("values of other types")
    return {"gold": bool(record["gold"])} | record


def _rows(path: Path) -> list[dict[str, str]]:
    table: pd.DataFrame = read_table(path, ("id", "idiom", "usage", "r_precision", "ndcg"))
    return [{str(key): cell for key, cell in row.items()} for row in table.to_dict("records")]


_Texts = tuple[dict[str, Passage], dict[str, Passage], dict[str, dict[str, Any]]]


def _texts(folder: Path, record: Mapping[str, Any]) -> _Texts:
    """Queries, documents and readings by the ids that stand in TREC's files."""
    path = folder / "texts.jsonl"
    if not path.is_file():
        split = _benchmark(record)
        queries, documents = (
            {trec_id(one.id): one for one in part} for part in (split.queries, split.documents)
        )
        return queries, documents, {}
    queries, documents, readings = {}, {}, {}
    for _, row in json_rows(path):
        if "document" in row:
            documents[trec_id(row["document"]["id"])] = _passage(row["document"])
        else:
            name = trec_id(row["query"]["id"])
            queries[name] = _passage(row["query"])
            if row["reading"]:
                readings[name] = {key: row["reading"][key] for key in READING}
    return queries, documents, readings


READING = ("sense", "probability", "gloss")


def _passage(row: Mapping[str, Any]) -> Passage:
    passage = Passage(**row)
    passage.place  # noqa: B018  fails if the span is not there
    return passage


def _benchmark(record: Mapping[str, Any]) -> Split:
    """The split that a run of an older version names, empty where it is not there."""
    if Path(record["data"]).is_dir():
        try:
            usages = record["usage"] or ()
            return read_split(record["data"], record["split"], usages, gold=record["gold"])
        except UserError:
            pass  # another benchmark is there now
    return Split((), ())
