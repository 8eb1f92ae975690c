"""Reports on texts: documents retrieved for queries, and senses decided in sentences."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from admire.apps.report.gallery import card_data, card_head, decided, pieces
from admire.apps.report.plots import draw_plots
from admire.apps.report.report import Report, file_name, run_names, short_name
from admire.apps.report.tables import figure_tables, long_texts, settings_table
from admire.data.items import Item, item_keys
from admire.data.languages import base_language, named_language
from admire.senses.sense import Sense
from admire.senses.sense_table import read_senses
from admire.tasks.retrieval.run_folder import RankedQuery, RetrievalRun, read_retrieval


def retrieval_report(folders: Sequence[Path]) -> Report:
    """Return a report on runs of ``admire retrieve``, whose queries are matched by id and idiom."""
    names, runs = run_names(folders), [read_retrieval(folder) for folder in folders]
    by_run = [
        {(query.query.id, query.query.idiom.casefold()): query for query in run.queries}
        for run in runs
    ]
    keys = dict.fromkeys(key for queries in by_run for key in queries)
    languages = [_language(run.record) for run in runs]
    cards = [
        _query_card(number, [queries.get(key) for queries in by_run], languages)
        for number, key in enumerate(keys, start=1)
    ]
    data = card_data("retrieval", names, ["r_precision", "ndcg"], cards)
    figures = figure_tables([*map(_scored, runs)], names, ("r_precision", "ndcg"), "Queries")
    settings = settings_table([*map(_retrieval_settings, runs)], names)
    return Report(" · ".join(names), "retrieval", (*figures, settings), draw_plots(data), data)


def _query_card(
    number: int, answered: Sequence[RankedQuery | None], languages: Sequence[str]
) -> dict[str, Any]:
    first, language = next(
        (query, tag) for query, tag in zip(answered, languages, strict=True) if query
    )
    return {
        "number": number,
        "compound": first.query.idiom,
        "sentence": pieces(first.query.sentence, *first.query.place),
        "language": language,
        "lang": base_language(language),
        "sense": first.query.usage,
        "subject": first.query.subject,
        "relevant": first.relevant,
        "agreement": None,
        "runs": [_query_result(query) if query else None for query in answered],
    }


def _query_result(query: RankedQuery) -> dict[str, Any]:
    return {
        "figures": query.figures,
        "loss": 1 - query.figures["ndcg"] if query.figures else None,
        "right": query.documents[0].relevant if query.figures else None,
        "reading": query.reading,
        "documents": [
            {
                "id": document.passage.id,
                "text": pieces(document.passage.sentence, *document.passage.place),
                "score": document.score,
                "relevant": document.relevant,
                "idiom": document.passage.idiom,
                "usage": document.passage.usage,
            }
            for document in query.documents
        ],
    }


def _language(record: Mapping[str, Any]) -> str:
    """Return the prompts' language, or without a chat model the benchmark's."""
    return str(record.get("lang") or named_language(Path(record["data"])) or "en")


def _scored(run: RetrievalRun) -> pd.DataFrame:
    """Return a query as :func:`figure_tables` takes it; its id is its sentence."""
    return pd.DataFrame(
        {
            "compound": query.query.idiom,
            "sentence": query.query.id,
            "sentence_type": query.query.usage,
            "language": _language(run.record),
            **query.figures,
        }
        for query in run.queries
        if query.figures
    )


def _retrieval_settings(run: RetrievalRun) -> dict[str, str]:
    record = run.record
    return {
        "Data": file_name(str(record["data"])),
        "Split": record["split"],
        "Queries": f"{len(run.queries):,}",
        "Usages in the index": ", ".join(record["usage"] or ("all",)),
        "Only checked by people": "yes" if record["gold"] else "no",
        "Encoder": short_name(record["encoder"]),
        "Long texts": long_texts(record, "texts"),
        "Compared": record["query"],
        "Instruction": record.get("instruction_format", ""),
        "BM25": record.get("bm25_variant", ""),
        "Chat model": short_name(record.get("llm", "")),
        "Sense by": record.get("sense", ""),
        **{name: f"{record[name]:g}" for name in ("k1", "b", "contrast") if name in record},
    }


def senses_report(paths: Sequence[Path]) -> Report:
    """Return a report on tables of ``admire sense`` or of ``admire detect --table``.

    Items of several tables are matched by compound and sentence.
    """
    names, items = run_names(paths), dict[Hashable, Item]()
    by_file: list[dict[Hashable, Sense]] = []
    settings, scored = [], []
    for uses, senses in map(read_senses, paths):
        keys = item_keys(uses)
        by_file.append(dict(zip(keys, senses, strict=True)))
        rows = []
        for key, item, sense in zip(keys, uses, senses, strict=True):
            if items.setdefault(key, item).sentence_type is None:
                items[key] = item
            if gold := item.sentence_type:
                row = {"compound": item.compound, "sentence": item.sentence, "sentence_type": gold}
                accuracy = float(sense.label == gold)
                rows.append({**row, "language": item.language, "accuracy": accuracy})
        scored.append(pd.DataFrame(rows))
        settings.append(
            {
                "Items": f"{len(uses):,}",
                "With a sense given": f"{len(rows):,}",
                "Languages": ", ".join(sorted({item.language for item in uses})),
            }
        )
    cards = [
        _sense_card(number, item, [rows.get(key) for rows in by_file])
        for number, (key, item) in enumerate(items.items(), start=1)
    ]
    metrics = ["accuracy"] if any(item.sentence_type for item in items.values()) else []
    data = card_data("senses", names, metrics, cards)
    head = *figure_tables(scored, names, ("accuracy",)), settings_table(settings, names)
    return Report(" · ".join(names), "senses", head, draw_plots(data), data)


def _sense_card(number: int, item: Item, senses: Sequence[Sense | None]) -> dict[str, Any]:
    labels = [sense.label for sense in senses if sense]
    return {
        **card_head(number, item),
        "agreement": float(len(set(labels)) == 1) if len(labels) > 1 else None,
        "runs": [_sense_result(item.sentence_type, sense) if sense else None for sense in senses],
    }


def _sense_result(gold: str | None, sense: Sense) -> dict[str, Any]:
    right = None if gold is None else sense.label == gold
    p = sense.probability_idiomatic
    return {
        **decided(sense),
        "confidence": sense.confidence,
        "sense_right": right,
        "right": right,
        "loss": None if gold is None else 1 - p if gold == "idiomatic" else p,
        "figures": None if right is None else {"accuracy": float(right)},
    }
