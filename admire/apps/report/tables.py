"""The head of a report: what was run, how well it did, and what it took."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from admire.apps.report.pictures import data_source
from admire.apps.report.report import Table, describe_figure, file_name, short_name
from admire.core.choices import BoardTrack, PublishedSet
from admire.encoders.cached import describe_long
from admire.metrics.agreement import shared_items
from admire.metrics.figures import (
    INTERVALS,
    NOTHING,
    describe_ties,
    paired_difference,
    summarise,
    wide_figures,
)
from admire.metrics.item_figures import describe_coverage
from admire.metrics.leakage import describe_leaks
from admire.metrics.published import Board, describe_misfit, recognise_set
from admire.pipeline.ranking import RunScores
from admire.pipeline.record import language_cells, untrained_note
from admire.tasks.scorecard import place_on_boards


def ranking_tables(
    runs: Sequence[RunScores],
    names: Sequence[str],
    published: PublishedSet | None = None,
    track: BoardTrack | None = None,
) -> list[Table]:
    """Return the head of a report on rankings; see :func:`admire.apps.report.write_report`."""
    records = [run.record for run in runs]
    scored = [run.table() for run in runs]
    figures = figure_tables(scored, names)
    if figures:
        notes = [figures[0].note]
        for run, name, items in zip(runs, names, scored, strict=True):
            covers = describe_coverage(len(items), len(run.items))
            coverage = covers if 0 < len(items) < len(run.items) else ""
            leaks = describe_leaks(items, list(items.get("seen", ())))
            of_run = filter(None, (coverage, describe_ties(items), *leaks))
            notes += (f"{name}: {note}" if len(runs) > 1 else note for note in of_run)
        figures[0] = replace(figures[0], note=" ".join(notes))
    return [
        *figures,
        *_published(runs, scored, names, published, track),
        *_without_unsure(records, scored, names),
        *_by_language(records, names),
        settings_table([_settings(record) for record in records], names),
        *_what_it_took(records, names),
    ]


def figure_tables(
    scored: Sequence[pd.DataFrame],
    names: Sequence[str],
    metrics: Sequence[str] | None = None,
    unit: str = "Items",
    *,
    shared: bool = True,
) -> list[Table]:
    """Return means with 95 % intervals; of several runs also differences, and both by group.

    Args:
        scored: for each run a row for each item, as of
            :func:`admire.metrics.item_figures.score_items`; empty without gold.
        metrics: None takes those of that function.
        shared: whether runs are compared on the items that all of them have, if there are any.
    """
    compared, on_shared = _on_shared(scored) if shared else (scored, "")
    figures = [
        _summarise_groups(items, metrics).assign(run=name, bold=False)
        for name, items in zip(names, compared, strict=True)
        if not items.empty
    ]
    if not figures:
        return []
    table = pd.concat(figures)
    table = table[table["metric"].isin(figures[0]["metric"])]
    note = f"Mean and 95 % interval ({INTERVALS}).{on_shared}"
    if len(scored) == 1:
        return [_figure_table("Figures", table, {"group": unit, "n": "n"}, note)]
    all_items = table["group"] == "all"  # the best is bold, where all runs have it, of as many
    means = table.loc[all_items, "mean"].map(lambda mean: round(mean, 3))
    of_metric = means.groupby(table.loc[all_items, "metric"])
    best = (means == of_metric.transform("max")) & (of_metric.transform("nunique") > 1)
    best &= of_metric.transform("size") == len(figures)
    table.loc[all_items, "bold"] = best & (table.loc[all_items, "n"].nunique() == 1)
    whole, *groups = _by_run("Figures", table, unit, note)
    if whole.bold:
        whole = replace(whole, note=f"{note} The best is in bold.")
    differences = _differences(scored, names, metrics, unit)
    return [whole, *differences[:1], *groups, *differences[1:]]


def _on_shared(scored: Sequence[pd.DataFrame]) -> tuple[Sequence[pd.DataFrame], str]:
    """Return the items that all runs with gold have, and a note if these are not all."""
    with_items = [items for items in scored if not items.empty]
    shared = shared_items(with_items) if with_items else []
    if all(len(items) == len(own) for items, own in zip(shared, with_items, strict=True)):
        return scored, ""
    if shared[0].empty:
        return scored, " The runs have no item in common, so they cannot be compared."
    rest = iter(shared)
    return [items if items.empty else next(rest) for items in scored], " Of the items of all runs."


def _summarise_groups(items: pd.DataFrame, metrics: Sequence[str] | None) -> pd.DataFrame:
    """Summarise all items and, if there are several languages, those of each."""
    parts = [summarise(items, columns=metrics)]
    by_language = items.groupby("language", sort=False)
    for language, of_language in by_language if len(by_language) > 1 else ():
        part = summarise(of_language, columns=metrics)
        groups = [language if name == "all" else f"{language}, {name}" for name in part["group"]]
        parts.append(part.assign(group=groups))
    return pd.concat(parts, ignore_index=True)


def _differences(
    scored: Sequence[pd.DataFrame], names: Sequence[str], metrics: Sequence[str] | None, unit: str
) -> list[Table]:
    """Return each other run minus the first, on the items that both have."""
    first, *others = scored
    differences = []
    for name, other in zip(names[1:], others, strict=True):
        if first.empty or other.empty:
            continue
        pair = shared_items([first, other])
        if not pair[0].empty and {*pair[0]} ^ {*pair[1]} <= {"tied_first"}:  # if one has ties
            difference = paired_difference(*pair, columns=metrics)
            low, high = (difference[end].map(lambda x: round(x, 3)) for end in ("low", "high"))
            differences.append(difference.assign(run=name, bold=(low > 0) | (high < 0)))
    if not differences:
        return []
    table = pd.concat(differences)
    return _by_run(
        f"Against {names[0]}",
        table[table["metric"].isin(differences[0]["metric"])],
        unit,
        f"Mean of the differences item by item, run minus {names[0]}, and 95 % interval. "
        "In bold where the interval excludes 0; any other difference may be due to chance.",
        signed=True,
    )


def _by_run(
    title: str, figures: pd.DataFrame, unit: str, note: str, *, signed: bool = False
) -> list[Table]:
    """Return a table of all items, a row a run; and, folded away, one of senses and languages."""
    is_whole = figures["group"] == "all"
    headings = {"run": "Run", "n": "n"}
    tables = [_figure_table(title, figures[is_whole], headings, note, signed=signed)]
    if not is_whole.all():
        headings = {"run": "Run", "group": unit, "n": "n"}
        groups = figures[~is_whole]
        table = _figure_table(f"{title}, by group", groups, headings, note, signed=signed)
        tables.append(replace(table, folded=True))
    return tables


def _figure_table(
    title: str,
    figures: pd.DataFrame,
    headings: Mapping[str, str],
    note: str,
    *,
    signed: bool = False,
) -> Table:
    """Return a table of figures for the page, with its column ``bold``."""
    index = [*headings]
    wide = wide_figures(figures, index, signed=signed)
    rows = tuple((*map(str, group), *cells) for group, *cells in wide.itertuples(name=None))
    bold = figures.set_index([*index, "metric"])["bold"].unstack(sort=False, fill_value=False)
    cells = frozenset((int(k), len(index) + int(j)) for k, j in np.argwhere(bold.to_numpy(bool)))
    return Table(title, (*headings.values(), *wide.columns), rows, note, bold=cells)


def _without_unsure(
    records: Sequence[Mapping[str, Any]], scored: Sequence[pd.DataFrame], names: Sequence[str]
) -> Iterable[Table]:
    """Yield the figures of the items that runs did not mark as unsure, if a run marked any."""
    sure, notes = [], []
    for record, items, name in zip(records, scored, names, strict=True):
        unsure = items["unsure"] if "unsure" in items else pd.Series(False, index=items.index)
        sure.append(items[~unsure] if unsure.any() else pd.DataFrame())
        if unsure.any():
            below = record["settings"]["abstain_below"]
            note = f"{unsure.sum()} of {len(items)} items are unsure (below {below:g})."
            notes.append(f"{name}: {note}" if len(names) > 1 else note)
    for table in figure_tables(sure, names, shared=False)[:1]:
        yield replace(table, title="Figures without unsure items", note=" ".join(notes))


def _by_language(records: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Iterable[Table]:
    """Yield what the runs made of each language, in a row a language and run."""
    runs, summary = [], []
    for name, record in zip(names, records, strict=True):
        summary += (own := record.get("languages", ()))
        runs += [name] * len(own)
    if summary:
        headings, rows = language_cells(summary)
        if len(names) > 1:
            headings = ("Run", *headings)
            rows = [(run, *cells) for run, cells in zip(runs, rows, strict=True)]
        yield Table("By language", headings, tuple(rows), untrained_note(summary))


def _published(
    runs: Sequence[RunScores],
    scored: Sequence[pd.DataFrame],
    names: Sequence[str],
    published: PublishedSet | None,
    track: BoardTrack | None,
) -> Iterable[Table]:
    """Yield the runs' places among published figures, where a set is known and all of it scored."""
    rows: list[dict[str, str]] = []
    notes: dict[str, None] = {}
    for run, name, scored_items in zip(runs, names, scored, strict=True):
        items, path = run.items, data_source(run.record).get("path", "")
        if len(scored_items) < max(1, len(items)):
            continue
        if not (set_name := published or recognise_set(items, path)):
            continue
        notes |= dict.fromkeys(filter(None, [describe_misfit(set_name, items)]))
        boards, board_notes = place_on_boards(summarise(scored_items), set_name, track, run.record)
        notes |= dict.fromkeys(board_notes)
        for entry in boards:
            board = Board(entry["set"], entry["subtask"], entry["track"])
            places = {place.metric: place.text for place in entry["places"]}
            if entry["gold_sense"]:
                places = dict.fromkeys(board.ranked, "none, with the gold sense")
            row = {"Run": name} if len(runs) > 1 else {}
            row |= {"Board": str(board), "n": str(len(items))}
            rows.append(row | {f"Place by {describe_figure(m)[0]}": t for m, t in places.items()})
            notes |= dict.fromkeys(f"Source: {source}." for source in entry["systems"]["source"])
    if rows:
        table = pd.DataFrame(rows).fillna(NOTHING)
        cells = tuple(table.itertuples(index=False, name=None))
        recognised = "" if published else "The set is recognised by its language, size and name. "
        between = "The range is of the places at the ends of the 95 % interval."
        note = " ".join([recognised + between, *notes])
        yield Table("Among published figures", (*table,), cells, note)


def settings_table(
    columns: Sequence[Mapping[str, str]], names: Sequence[str], title: str = "What was run"
) -> Table:
    """Return a row for each setting that a run has, and a column for each run."""
    settings = dict.fromkeys(setting for column in columns for setting in column)
    rows = [(name, *(column.get(name) or NOTHING for column in columns)) for name in settings]
    used = tuple(row for row in rows if set(row[1:]) != {NOTHING})
    return Table(title, ("", *names), used)


def _settings(record: Mapping[str, Any]) -> dict[str, str]:
    source = record.get("source") or {}
    settings = {
        "Data": file_name(source.get("path", "")),
        "Items": str(record.get("items", "")) + ", the first of each file" * ("limit" in record),
        "Started": str(record.get("started", "")).replace("T", " "),
    }
    if "fused" in record:
        members = (f"{file_name(run['run'])} × {run['weight']:g}" for run in record["fused"])
        settings |= {"Fused": ", ".join(members), "Method": record["fusion"]}
    else:
        settings |= _ranking_settings(record)
    settings["Versions"] = ", ".join(
        f"{package} {version}" for package, version in record.get("versions", {}).items() if version
    )
    return settings


def long_texts(record: Mapping[str, Any], texts: str) -> str:
    """Return how many texts of a run were longer than which encoder reads."""
    rows = [row | {"encoder": short_name(row["encoder"])} for row in record.get("long_texts", ())]
    return " ".join(describe_long(rows, texts))


def _ranking_settings(record: Mapping[str, Any]) -> dict[str, str]:
    settings, models = record["settings"], record["models"]
    scoring = settings["scoring"]
    weights = (
        f"gate {scoring['gate']}, contrast {scoring['contrast']:g}, "
        f"standardise {scoring['standardise']}, "
        f"images {scoring['image_weight']:g}, captions {scoring['caption_weight']:g}"
    )
    detector = settings.get("detector") or ("built in" if models.get("detector") else "")
    rankers = settings.get("rankers", ["embeddings"])
    compared = bool(models["encoders"])
    methods = list(dict.fromkeys(llm.get("sense", "") for llm in models["llms"]))
    return {
        "Rankers": " + ".join(rankers),
        "Chat models": ", ".join(short_name(llm["name"]) for llm in models["llms"]),
        "Sense by": ", ".join(methods),
        "Votes": str(settings["votes"]) if "vote" in methods else "",
        "Unsure below": f"{settings['abstain_below']:g}" if settings.get("abstain_below") else "",
        "Detector": file_name(detector),
        "Encoders": ", ".join(
            f"{short_name(encoder['name'])} ({track}s)"
            for track, encoders in models["encoders"].items()
            for encoder in encoders
        ),
        "Long captions": long_texts(record, "captions"),
        "Head": ", ".join(map(file_name, settings.get("head") or ())),
        "Query": settings["query"],
        "Meanings": settings.get("meanings", ""),
        "Texts": ", ".join(scoring.get("texts", ())) if compared else "",
        "Scoring": weights if compared else "",
        "Own prompts": file_name(settings.get("prompts") or ""),
        "Seed": str(settings["seed"]),
    }


def _what_it_took(records: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Iterable[Table]:
    """Yield seconds by stage, and what chat models were asked; replies of the cache took none."""
    seconds = [
        {stage: f"{value:,.2f}" for stage, value in record.get("seconds", {}).items()}
        for record in records
    ]
    if any(seconds):
        yield settings_table(seconds, names, "Seconds")
    rows, cut, numbers = [], 0, ("calls", "from_cache", "prompt_tokens", "completion_tokens")
    for name, record in zip(names, records, strict=True):
        for row in record.get("asked", ()):
            counts = (NOTHING if row[key] is None else f"{row[key]:,}" for key in numbers)
            price = row["price_usd"]
            price = price if isinstance(price, str) else f"{price:.4f}"
            rows.append((name, str(row["stage"]), short_name(row["llm"]), *counts, price))
            cut += row.get("cut_off", 0)
    if rows:
        replies = ("Asked for", "Model", "Replies", "From cache")
        headings = ("Run", *replies, "Tokens in", "Out", "US dollars")
        note = "Replies from the cache cost nothing again."
        if cut:
            note += f" The server cut off {cut:,} questions, so their replies are of little worth."
        yield Table("Chat models", headings, tuple(rows), note)
