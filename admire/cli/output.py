"""What commands print: data to stdout, as tables or JSON."""

from __future__ import annotations

import json as jsonlib
import logging
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from admire.base.terminal import cell, visible

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from admire.runs.forecast import Forecast
    from admire.runs.ranking import Ranking
    from admire.senses.sense import Sense

log = logging.getLogger("admire")

REPORT = "report.html"
"""What the page that shows a run is called in its folder."""

WIDE = 120
"""The least width, in columns, at which rankings are printed as a table."""

SHOWN = 20
"""How many items' rankings are printed; the run folder has them all."""


def show_run(
    out: Path, written: Sequence[Path], *, report: bool = False, json: bool = False
) -> None:
    """Print the first rankings of a run folder, and their scores where the gold is known.

    Args:
        written: the submissions, which are named as written.
        report: whether the folder also gets a page that shows the run.
        json: print where the run is, its files and its figures for programs instead.
    """
    from admire.audit.run_leakage import warn_if_runs_saw
    from admire.runs.past_runs import first_rankings, read_record
    from admire.runs.scoring import abstained_below, count_tied, count_unsure, score_run
    from admire.scores.figures import summarise
    from admire.scores.item_figures import describe_coverage

    record = read_record(out)
    scored, senses = score_run(out)
    if senses is not None and len(senses) <= (0 if scored is None else len(scored)):
        senses = None  # the scored items say it
    below = abstained_below(out)
    if json:
        figures, of_senses = (
            None if rows is None else summarise(rows).to_dict("records")
            for rows in (scored, senses)
        )
        told = {
            "run": str(out),
            "items": record["items"],
            "scored": 0 if scored is None else len(scored),
            "unsure": None if below is None else count_unsure(out),
            "tied": count_tied(out),
            "submissions": [str(path) for path in written],
            "report": str(out / REPORT) if report else None,
            "figures": figures,
            "senses": of_senses,
        }
        print(jsonlib.dumps(told, indent=2))
    else:
        print_rankings(first_rankings(out, SHOWN), record["items"])
        if senses is not None:
            print_summary(summarise(senses), "Senses", json=False)
        if scored is not None:
            print_summary(summarise(scored), str(out), json=False)
            if len(scored) < record["items"]:
                print(describe_coverage(len(scored), record["items"]))
        if below is not None:
            print_sure(scored, count_unsure(out), record["items"], below)
    if scored is not None:
        warn_if_runs_saw(scored, out)
    print_account(record.get("asked", ()))
    if report:
        from admire.pages.report import write_report

        written = [*written, write_report([out], out / REPORT)]
    for path in written:
        log.info("Wrote %s", path)


def print_sure(
    scored: pd.DataFrame | None, unsure: int, items: int, below: float, *, seed: int = 0
) -> None:
    """How many items are unsure, and the figures without them where the gold is known."""
    from admire.scores.reliability import summarise_sure

    told = f"{unsure} of {items} items are unsure (below {below:g})"
    if scored is None or not 0 < unsure < items:
        print(f"{told}.")
    else:
        print_summary(summarise_sure(scored, seed=seed), f"{told}; without them", json=False)


def print_account(asked: Sequence[Mapping[str, Any]]) -> None:
    """What chat models were asked and what it cost, to stderr, if a server was asked anything."""
    if not any(one["calls"] > one["from_cache"] and one["price_usd"] for one in asked):
        return
    rows = [
        (
            one["stage"],
            one["llm"],
            one["calls"],
            one["from_cache"],
            _tokens(one["prompt_tokens"]),
            _tokens(one["completion_tokens"]),
            _price(one["price_usd"], at_most=one["price_is_at_most"]),
            _price(one["price_usd_now"], at_most=one["price_is_at_most"]),
        )
        for one in asked
    ]
    headings = ("Asked for", "Of", "Replies", "Kept", "Tokens in", "Out", "Price", "Of this now")
    print_rows(headings, rows, "Chat models", errors=True)
    _say_why(one["price_unknown_because"] for one in asked)


def print_forecasts(forecasts: Sequence[Forecast], *, json: bool = False) -> None:
    """What chat models would be asked, as a table, and in words what it leaves open."""
    from admire.models.llm.ledger import UNKNOWN
    from admire.models.llm.prices import Price

    if json:
        print(jsonlib.dumps([asdict(one) for one in forecasts], indent=2))
        return
    if not forecasts:
        print("This run asks no chat model.")
        return
    rows = [
        (
            one.stage,
            one.llm,
            f"{'at most ' * one.at_most}{one.questions}",
            one.kept,
            f"{one.prompt:,}",
            f"{one.completion:,}",
            _price(one.price.dollars if one.price else UNKNOWN, at_most=one.at_most),
        )
        for one in forecasts
    ]
    prices = [one.price for one in forecasts]
    known = [one for one in prices if one]
    total = str(sum(known, Price(0.0))) if len(known) == len(prices) else UNKNOWN
    headings = ("To ask for", "Of", "Questions", "Kept", "Tokens in", "Out", "Price")
    print_rows(headings, rows, f"Chat models; in all {total}")
    log.info(
        "Nothing was asked. Tokens are estimated: of replies the most that they may have, or as "
        "many as those in the cache. What is asked again because a reply cannot be used is not "
        "counted."
    )
    _say_why(one.unknown for one in forecasts)


def _say_why(reasons: Iterable[str | None]) -> None:
    for why in dict.fromkeys(filter(None, reasons)):
        log.info("A price is unknown: %s.", why)


def _tokens(known: int | None) -> str:
    from admire.models.llm.ledger import UNKNOWN

    return UNKNOWN if known is None else f"{known:,}"


def _price(known: float | str, *, at_most: bool = False) -> str:
    from admire.models.llm.prices import Price

    return known if isinstance(known, str) else str(Price(known, at_most))


def print_table(table: Any, *, errors: bool = False) -> None:
    _console(errors=errors).print(table)


def _console(*, errors: bool = False) -> Console:
    """The terminal; what is none is wide."""
    from rich.console import Console

    console = Console(stderr=errors)
    if not console.is_terminal:
        console = Console(stderr=errors, width=140)
    return console


def print_rows(
    headings: Sequence[str], rows: Iterable[Sequence[object]], title: str, *, errors: bool = False
) -> None:
    from rich.table import Table

    table = Table(*headings, title=cell(title, style="table.title"), title_justify="left")
    for row in rows:
        table.add_row(*(cell(*str(value).split("\n")) for value in row))
    print_table(table, errors=errors)


def print_rankings(rankings: Sequence[Ranking], count: int) -> None:
    """Print the first rankings of so many."""
    rankings = rankings[:SHOWN]
    shared = _shared_start([name for ranking in rankings for name in ranking.order])
    if _console().width < WIDE:
        for ranking in rankings:
            _print_block(ranking, shared)
    else:
        _print_wide(rankings, shared)
    if shared:
        print(visible(f"All names begin with “{shared}”, which is left out here."))
    if count > SHOWN:
        print(f"… and {count - SHOWN} more, in items.jsonl and scores.csv")


def _print_wide(rankings: Sequence[Ranking], shared: str) -> None:
    """A table with a row for each item."""
    from rich.table import Table

    table = Table(show_lines=True)
    table.add_column("Compound", no_wrap=True, overflow="ellipsis", max_width=24)
    table.add_column("Sense (votes)", no_wrap=True)
    table.add_column("Gloss", min_width=26, max_width=32)
    table.add_column("Candidates, best first", no_wrap=True, overflow="ellipsis")
    for ranking in rankings:
        senses = [_sense_cell(i.sense) for i in ranking.interpretations]
        table.add_row(
            cell(ranking.item.compound),
            cell(*senses, *(["unsure"] if ranking.unsure else [])) or "–",
            cell(*(i.meant or "–" for i in ranking.interpretations)) or "–",
            cell(
                *(
                    f"{score} {star} {name}  {textwrap.shorten(caption, 40, placeholder='…')}"
                    for score, star, name, caption in _candidate_cells(ranking, shared)
                )
            ),
        )
    print_table(table)


def _print_block(ranking: Ranking, shared: str) -> None:
    """An item under its compound: what it means in whole lines, then a line a candidate."""
    from rich.cells import cell_len, set_cell_size
    from rich.padding import Padding

    print_table(cell(ranking.item.compound + ", unsure" * ranking.unsure, style="bold"))
    for one in ranking.interpretations:
        said = f"{_sense_cell(one.sense)}: {one.meant}" if one.meant else _sense_cell(one.sense)
        print_table(Padding(cell(said), (0, 0, 0, 2)))
    found = _candidate_cells(ranking, shared)
    width = max(cell_len(name) for _, _, name, _ in found)
    lines = cell(
        *(
            f"{score} {star} {set_cell_size(name, width)}  {' '.join(caption.split())}"
            for score, star, name, caption in found
        )
    )
    lines.no_wrap, lines.overflow = True, "ellipsis"
    print_table(Padding(lines, (0, 0, 1, 2)))


def _candidate_cells(ranking: Ranking, shared: str) -> list[tuple[str, str, str, str]]:
    """Of each candidate its score, ★ if it is the best by gold, its name and its caption.

    Candidates with equal scores are marked as tied.
    """
    found = {
        candidate.name: (score, candidate.caption or "")
        for candidate, score in zip(ranking.item.candidates, ranking.scores, strict=True)
    }
    tied = ranking.tied
    return [
        (
            f"{found[name][0]:+z.2f}",
            "★" if name == ranking.item.best else " ",
            _short(name.removeprefix(shared)) + " (tied)" * (name in tied),
            found[name][1],
        )
        for name in ranking.order
    ]


def _shared_start(names: Sequence[str]) -> str:
    """The folder, or the words up to a - or _, with which all names begin."""
    first, last = min(names), max(names)
    agree = (k for k, pair in enumerate(zip(first, last, strict=False)) if len(set(pair)) > 1)
    start = first[: next(agree, 0)]
    end = max(start.rfind(sign) for sign in "/_-") + 1
    return start[:end] if len(set(names)) > 1 else ""


def _short(name: str) -> str:
    """A name of at most 28 signs, without its middle: its end is what tells it from others."""
    shown = visible(name)
    return shown if len(shown) <= 28 else f"{shown[:11]}…{shown[-16:]}"


def _sense_cell(sense: Sense) -> str:
    from admire.senses.sense import NO_SENSE

    if sense == NO_SENSE:
        return "–"
    votes = f"{sense.idiomatic}:{sense.literal}" + (
        f", {sense.unparsed} unread" if sense.unparsed else ""
    )
    return f"{sense.label or 'unknown'} ({votes})"


def print_summaries(
    tables: Mapping[str, pd.DataFrame], json: bool, more: Mapping[str, Any] | None = None
) -> None:
    """Print tables of figures.

    Args:
        more: what JSON has besides a list for each table; it is printed elsewhere as tables.
    """
    if json:
        lists = {name: table.to_dict("records") for name, table in tables.items()}
        print(jsonlib.dumps({**lists, **(more or {})}, indent=2))
        return
    for name, table in tables.items():
        print_summary(table, name, json=False)


def print_summary(summary: pd.DataFrame, title: str, json: bool) -> None:
    if json:
        print(jsonlib.dumps(summary.to_dict("records"), indent=2))
        return
    metrics = list(dict.fromkeys(summary["metric"]))
    rows = []
    for (group, n), part in summary.groupby(["group", "n"], sort=False):
        cells = {r.metric: f"{r.mean:.3f} [{r.low:.3f}, {r.high:.3f}]" for r in part.itertuples()}
        rows.append((group, n, *(cells.get(metric, "–") for metric in metrics)))
    print_rows(("Items", "n", *metrics), rows, title)
