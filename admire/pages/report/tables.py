"""The head of a report: what was run, how well it did, and what it took."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from admire.base.choices import BoardTrack, PublishedSet
from admire.pages.report.display_names import file_name, plain_name
from admire.pages.report.report import FIGURES, Table
from admire.runs.ranking import Run, score_rankings
from admire.runs.record import used_gold_sense
from admire.runs.scoring import judged_track
from admire.scores.figures import paired_difference, summarise
from admire.scores.item_figures import describe_coverage
from admire.scores.leakage import describe_seen
from admire.scores.published import (
    boards,
    describe_misfit,
    published_systems,
    recognise_set,
    standings,
    subtask_of,
)

NOTHING = "–"


def ranking_tables(
    runs: Sequence[Run],
    names: Sequence[str],
    published: PublishedSet | None = None,
    track: BoardTrack | None = None,
) -> list[Table]:
    """The head of a report on rankings.

    Args:
        names: what the runs are called.
        published, track: see :func:`admire.pages.report.write_report`.
    """
    records = [run.record for run in runs]
    scored = [score_rankings(run) for run in runs]
    figures = figure_tables(scored, names)
    if figures:
        said = [
            f"{name}: {line}" if len(runs) > 1 else line
            for run, name, table in zip(runs, names, scored, strict=True)
            for line in _notes(run, table)
        ]
        figures[0] = replace(figures[0], note=" ".join([figures[0].note, *said]))
    return [
        *figures,
        *_published(runs, scored, names, published, track),
        *_without_unsure(records, scored, names),
        settings_table([_settings(record) for record in records], names),
        *_what_it_took(records, names),
    ]


def _notes(run: Run, scored: pd.DataFrame) -> Iterable[str]:
    """What to know of a run's figures: how many items have gold, and which were seen."""
    if 0 < len(scored) < len(run.rankings):
        yield describe_coverage(len(scored), len(run.rankings))
    yield from describe_seen(scored, [run.rankings[k].seen for k in scored.index])


# --------------------------------------------------------------------------------------- figures


def figure_tables(
    scored: Sequence[pd.DataFrame],
    names: Sequence[str],
    columns: Sequence[str] | None = None,
    unit: str = "Items",
) -> list[Table]:
    """Means with 95 % bootstrap intervals by sense and by language, and paired differences.

    Args:
        scored: for each run a row for each item, see :func:`score_items`, with
            the column ``language``; empty without gold.
        columns: the figures; None takes those of :func:`admire.scores.item_figures.score_items`.
        unit: what is counted.

    Returns:
        The figures; of several runs a row a run, then the differences from the first, and both by
        sense and language, folded away.
    """
    several = len(scored) > 1
    rows: list[tuple[str, ...]] = []
    metrics: list[str] = []
    for name, table in zip(names, scored, strict=True):
        if table.empty:
            continue
        summary = _by_language(table, lambda part: summarise(part, columns=columns))
        metrics = metrics or list(dict.fromkeys(summary["metric"]))
        rows += [
            ((name,) if several else ()) + row for row in _figure_rows(summary, metrics, "{:.3f}")
        ]
    if not rows:
        return []
    headings = (*(("Run",) if several else ()), unit, "n", *metrics)
    figures = Table("Figures", headings, tuple(rows), "Mean and 95 % bootstrap interval.")
    if not several:
        return [figures]
    whole, *parts = _by_run(figures)
    if best := _best(whole):
        whole = replace(whole, note=f"{whole.note} The best is in bold.", bold=best)
    differences = [
        replace(one, bold=_apart(one))
        for against in _differences(scored, names, columns, unit)
        for one in _by_run(against)
    ]
    return [whole, *differences[:1], *parts, *differences[1:]]


def _by_run(table: Table) -> list[Table]:
    """A table of all items, a row a run; and, folded away, that of each sense and language."""
    whole = tuple((row[0], *row[2:]) for row in table.rows if row[1] == "all")
    parts = tuple(row for row in table.rows if row[1] != "all")
    headings = (table.headings[0], *table.headings[2:])
    tables = [replace(table, headings=headings, rows=whole)]
    if parts:
        tables.append(replace(table, title=f"{table.title}, by group", rows=parts, folded=True))
    return tables


def _best(table: Table) -> frozenset[tuple[int, int]]:
    """The highest mean of each column, where all runs have it, of equally many items."""
    same_items = len({row[1] for row in table.rows}) == 1
    best = set()
    for column in range(2, len(table.headings)):
        cells = [row[column] for row in table.rows]
        if not same_items or NOTHING in cells:
            continue
        means = [_interval(cell)[0] for cell in cells]
        if len(set(means)) > 1:
            best |= {(k, column) for k, mean in enumerate(means) if mean == max(means)}
    return frozenset(best)


def _apart(table: Table) -> frozenset[tuple[int, int]]:
    """The differences whose interval excludes 0."""
    return frozenset(
        (k, column)
        for k, row in enumerate(table.rows)
        for column, cell in enumerate(row)
        if cell.endswith("]") and np.prod(_interval(cell)[1:]) > 0
    )


def _interval(cell: str) -> list[float]:
    """Mean, low and high, as :func:`_figure_rows` writes them."""
    return [float(number) for number in re.findall(r"[+-]?\d+\.\d+", cell)]


def _without_unsure(
    records: Sequence[Mapping[str, Any]], scored: Sequence[pd.DataFrame], names: Sequence[str]
) -> Iterable[Table]:
    """The figures of the items that runs did not mark as unsure, if a run marked any."""
    left, notes = [], []
    for record, items, name in zip(records, scored, names, strict=True):
        unsure = items["unsure"] if "unsure" in items else pd.Series(False, index=items.index)
        left.append(items[~unsure] if unsure.any() else pd.DataFrame())
        if unsure.any():
            below = record["settings"]["abstain_below"]
            of = f"{unsure.sum()} of {len(items)} items are unsure (below {below:g})"
            notes.append(f"{name}: {of}." if len(names) > 1 else f"{of}.")
    for table in figure_tables(left, names)[:1]:
        yield replace(table, title="Figures without unsure items", note=" ".join(notes))


def _differences(
    scored: Sequence[pd.DataFrame],
    names: Sequence[str],
    columns: Sequence[str] | None,
    unit: str,
) -> Iterable[Table]:
    """Each other run minus the first, on the items that both have."""
    first, *others = scored
    rows: list[tuple[str, ...]] = []
    metrics: list[str] = []
    for name, other in zip(names[1:], others, strict=True):
        one, two = _shared(first, other)
        if one.empty or set(one) != set(two):
            continue
        summary = paired_difference(one, two, columns=columns)
        metrics = metrics or list(dict.fromkeys(summary["metric"]))
        rows += [(name, *row) for row in _figure_rows(summary, metrics, "{:+.3f}")]
    if rows:
        yield Table(
            f"Against {names[0]}",
            ("Run", unit, "n", *metrics),
            tuple(rows),
            f"Mean of the differences item by item, run minus {names[0]}, and 95 % interval. "
            "In bold where the interval excludes 0; else chance may have made the difference.",
        )


def _shared(first: pd.DataFrame, second: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows of items that both have, in the same order."""
    if first.empty or second.empty:
        return pd.DataFrame(), pd.DataFrame()
    keyed = []
    for table in (first, second):
        same = table.groupby(["compound", "sentence"]).cumcount()
        keyed.append(table.set_index([table["compound"], table["sentence"], same]))
    both = keyed[0].index.intersection(keyed[1].index, sort=False)
    one, two = (table.loc[both].reset_index(drop=True) for table in keyed)
    return one, two


def _by_language(
    table: pd.DataFrame, summary: Callable[[pd.DataFrame], pd.DataFrame]
) -> pd.DataFrame:
    """The summary of all items and, if there are several languages, that of each."""
    parts = [summary(table)]
    languages = list(dict.fromkeys(table["language"]))
    for language in languages if len(languages) > 1 else ():
        part = summary(table[table["language"] == language])
        said = part["group"].map(lambda group, tag=language: _of_language(group, tag))
        parts.append(part.assign(group=said))
    return pd.concat(parts, ignore_index=True)


def _of_language(group: str, language: str) -> str:
    return language if group == "all" else f"{language}, {group}"


def _figure_rows(
    summary: pd.DataFrame, metrics: Sequence[str], form: str
) -> Iterable[tuple[str, ...]]:
    for (group, n), part in summary.groupby(["group", "n"], sort=False):
        cells = {
            metric: f"{form} [{form}, {form}]".format(
                *(round(float(figure), 3) + 0 for figure in found)  # no −0.000
            )
            for metric, *found in part[["metric", "mean", "low", "high"]].to_numpy()
        }
        yield str(group), str(n), *(cells.get(metric, NOTHING) for metric in metrics)


def _published(
    runs: Sequence[Run],
    scored: Sequence[pd.DataFrame],
    names: Sequence[str],
    published: PublishedSet | None,
    track: BoardTrack | None,
) -> Iterable[Table]:
    """The runs' places among published figures, where a run's set is known and all of it scored."""
    rows: list[dict[str, str]] = []
    notes: dict[str, None] = {}
    for run, table, name in zip(runs, scored, names, strict=True):
        items = [ranking.item for ranking in run.rankings]
        if table.empty or len(table) < len(items):
            continue
        of = published or recognise_set(items, _source(run.record).get("path", ""))
        if of is None:
            continue
        found, said = boards(of, subtask_of(items), track or judged_track(run.record))
        notes |= dict.fromkeys(filter(None, [describe_misfit(of, items), *said]))
        summary = summarise(table)
        for board in found:
            systems = published_systems(board)
            row = {"Run": name} if len(runs) > 1 else {}
            row["Board"] = str(board)
            for one in standings(summary, systems, board):
                place = f"{one.place} of {one.of} (between {one.best} and {one.worst})"
                given = used_gold_sense(run.record)
                heading = f"Place by {FIGURES.get(one.metric, (one.metric,))[0]}"
                row[heading] = "none, with the gold sense" if given else place
            rows.append(row)
            notes |= dict.fromkeys(f"Source: {source}." for source in systems["source"])
    headings = tuple(dict.fromkeys(heading for row in rows for heading in row))
    if rows:
        cells = tuple(tuple(row.get(heading, NOTHING) for heading in headings) for row in rows)
        known = "" if published else "The set is known by its language, size and name. "
        between = "In brackets the places at the ends of the 95 % interval."
        yield Table("Among published figures", headings, cells, " ".join([known + between, *notes]))


def _source(record: Mapping[str, Any]) -> Mapping[str, str]:
    """What the data file of a run was; of a fused run, the first run's."""
    if "fused" in record:
        return _source(record["fused"][0]["record"])
    return record.get("source") or {}


# ----------------------------------------------------------------------------------- what was run


def settings_table(columns: Sequence[Mapping[str, str]], names: Sequence[str]) -> Table:
    """A row for each setting and a column for each run; settings that no run has are left out."""
    rows = dict.fromkeys(row for column in columns for row in column)
    cells = [(row, *(column.get(row) or NOTHING for column in columns)) for row in rows]
    shown = tuple(row for row in cells if set(row[1:]) != {NOTHING})
    return Table("What was run", ("", *names), shown)


def _settings(record: Mapping[str, Any]) -> dict[str, str]:
    source = record.get("source") or {}
    versions = record.get("versions", {})
    settings = {
        "Data": file_name(source.get("path", "")),
        "Items": str(record.get("items", "")),
        "Started": str(record.get("started", "")).replace("T", " "),
    }
    if "fused" in record:
        settings["Fused"] = ", ".join(
            f"{file_name(one['run'])} × {one['weight']:g}" for one in record["fused"]
        )
        settings["Method"] = record["fusion"]
    else:
        settings |= _of_ranking(record)
    settings["Versions"] = ", ".join(
        f"{package} {version}" for package, version in versions.items() if version
    )
    return settings


def _of_ranking(record: Mapping[str, Any]) -> dict[str, str]:
    settings, models = record["settings"], record["models"]
    scoring = settings["scoring"]
    said = {
        "gate": scoring["gate"],
        "contrast": f"{scoring['contrast']:g}",
        "standardised": "yes" if scoring["standardise"] else "no",
        "images": f"{scoring['image_weight']:g}",
        "captions": f"{scoring['caption_weight']:g}",
    }
    detector = settings.get("detector") or ("built in" if models.get("detector") else "")
    compared = "embeddings" in settings.get("rankers", ["embeddings"])
    return {
        "Rankers": " + ".join(settings.get("rankers", ["embeddings"])),
        "Chat models": ", ".join(plain_name(one["name"]) for one in models["llms"]),
        "Sense by": ", ".join(dict.fromkeys(one.get("sense", "") for one in models["llms"])),
        "Votes": str(settings["votes"]) if _votes(models) else "",
        "Unsure below": f"{settings['abstain_below']:g}" if settings.get("abstain_below") else "",
        "Detector": file_name(detector),
        "Encoders": ", ".join(
            f"{plain_name(one['name'])} ({track}s)" for track, one in models["encoders"].items()
        ),
        "Head": file_name(settings.get("head") or ""),
        "Query": settings["query"],
        "Meanings": settings.get("meanings", ""),
        "Texts": ", ".join(scoring.get("texts", ())) if compared else "",
        "Scoring": ", ".join(f"{name} {value}" for name, value in said.items() if compared),
        "Own prompts": file_name(settings.get("prompts") or ""),
        "Seed": str(settings["seed"]),
    }


def _votes(models: Mapping[str, Any]) -> bool:
    return any(one.get("sense") == "vote" for one in models["llms"])


# ----------------------------------------------------------------------------------- what it took


def _what_it_took(records: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Iterable[Table]:
    """Seconds by stage, and what chat models were asked; replies of the cache took none now."""
    stages = list(dict.fromkeys(stage for record in records for stage in record.get("seconds", {})))
    if stages:
        yield Table(
            "Seconds",
            ("", *names),
            tuple(
                (stage, *(_seconds(record.get("seconds", {}).get(stage)) for record in records))
                for stage in stages
            ),
        )
    rows = tuple(
        (name, *_asked(one))
        for name, record in zip(names, records, strict=True)
        for one in record.get("asked", ())
    )
    if rows:
        headings = ("Run", "Asked for", "Of", "Replies", "Kept", "Tokens in", "Out", "US dollars")
        note = "Kept: replies that were in the cache, which cost nothing again."
        yield Table("Chat models", headings, rows, note)


def _asked(one: Mapping[str, Any]) -> tuple[str, ...]:
    price = one["price_usd"]
    return (
        str(one["stage"]),
        plain_name(one["llm"]),
        f"{one['calls']:,}",
        f"{one['from_cache']:,}",
        _count(one["prompt_tokens"]),
        _count(one["completion_tokens"]),
        price if isinstance(price, str) else f"{price:.4f}",
    )


def _count(number: int | None) -> str:
    return NOTHING if number is None else f"{number:,}"


def _seconds(number: float | None) -> str:
    return NOTHING if number is None else f"{number:,.2f}"
