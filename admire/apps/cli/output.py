"""Output of commands: data on stdout, as tables or JSON."""

from __future__ import annotations

import json as jsonlib
import logging
import math
import os
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from admire.core.progress import cell, visible
from admire.tasks.task import Values, as_rows, session_options

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from admire.pipeline.forecast import DryRun, Forecast
    from admire.pipeline.ranking import Ranking
    from admire.pipeline.scoring import RunSummary
    from admire.senses.interpretation import Interpretation

log = logging.getLogger("admire")

REPORT = "report.html"  #: file name of the page that shows a run, in its folder

PIPED = 120  #: the width of files and pipes, in characters, unless the environment has COLUMNS

FIGURE = 23  #: width of a figure with its interval, in characters; longer texts may be wrapped

ASKED = ("Stage", "Model", "Requests", "Cached", "Input tokens", "Output tokens")
"""Headings of what chat models were or would be asked."""

SHOWN = 20  #: how many items' rankings are printed; the run folder contains all


def show_run(
    out: Path,
    submissions: Sequence[Path],
    *,
    report: bool = False,
    json: bool = False,
    data: Path | None = None,
) -> bool:
    """Print the first rankings of a run folder, and their scores; return whether gold is known.

    Args:
        submissions: the submission files, to be listed.
        report: whether the folder also gets a page that shows the run, with pictures of ``data``.
        json: print the run's path, files and figures as JSON instead.
    """
    from admire.metrics.figures import summarise, tied_figures
    from admire.pipeline.scoring import summarise_run, warn_if_runs_leaked

    summary = summarise_run(out, SHOWN)
    record, scored, senses = summary.record, summary.scored, summary.senses
    count = 0 if scored is None else len(scored)
    if senses is not None and len(senses) <= count:
        senses = None  # the scored items include them
    below, written = record.get("settings", {}).get("abstain_below"), [*submissions]
    if report:  # before anything is printed to a pipe, whose reader may be gone
        from admire.apps.report import write_report

        written.append(write_report([out], out / REPORT, data=data))
    figures = None if scored is None else summarise(scored)
    sense_figures = None if senses is None else summarise(senses)
    if json:
        print_json(
            {
                "run": str(out),
                "items": record["items"],
                "scored": count,
                "unsure": None if below is None else summary.unsure,
                "tied": summary.tied,
                "ties": () if scored is None else tied_figures(scored),
                "submissions": [str(path) for path in submissions],
                "report": str(out / REPORT) if report else None,
                "figures": figures,
                "senses": sense_figures,
                "languages": record.get("languages", ()),
            }
        )
    else:
        _print_run(str(out), summary, figures, sense_figures, below)
    if scored is not None:
        warn_if_runs_leaked(scored, out)
    print_account(record.get("asked", ()))
    for path in written:
        log.info("Wrote %s", path)
    return scored is not None


def _print_run(
    name: str,
    summary: RunSummary,
    figures: pd.DataFrame | None,
    senses: pd.DataFrame | None,
    below: float | None,
) -> None:
    """Print a run's first rankings, its languages, its figures, and what these leave out."""
    from admire.metrics.figures import summarise_sure
    from admire.metrics.item_figures import describe_coverage
    from admire.pipeline.record import language_cells, language_line, untrained_note

    items, scored = summary.record["items"], summary.scored
    languages = summary.record.get("languages", ())
    print_rankings(summary.first, items)
    if len(languages) == 1:
        print(language_line(languages[0]))
    elif languages:
        print_rows(*language_cells(languages), "By language")
    if note := untrained_note(languages):
        print(note)
    for table, title in ((senses, "Senses"), (figures, name)):
        if table is not None:
            print_figures(table, title)
    if scored is not None:
        print_ties(scored)
    if scored is not None and len(scored) < items:
        print(describe_coverage(len(scored), items))
    if below is not None:
        sure = None if scored is None else summarise_sure(scored)
        print_unsure(summary.unsure, items, below, sure)


def print_ties(scored: pd.DataFrame) -> None:
    """Print how far figures rest on ties; nothing without any."""
    from admire.metrics.figures import describe_ties

    if note := describe_ties(scored):
        print(textwrap.fill(note, _console().width))


def print_unsure(unsure: int, items: int, below: float, sure: pd.DataFrame | None) -> None:
    """Print how many items are unsure, and the figures of the others if they are known."""
    count = f"{unsure} of {items} items are unsure (below {below:g})"
    if sure is None or not 0 < unsure < items:
        return print(f"{count}.")
    print_figures(sure, f"{count}; without them")


def print_account(account: Sequence[Mapping[str, Any]]) -> None:
    """Print the costs of chat models to stderr if a paid server was asked; see run.json."""
    from admire.llm.bound_model import UNKNOWN

    if not any(row["calls"] > row["from_cache"] and row["price_usd"] for row in account):
        return
    rows = []
    for row in account:
        tokens = (row[name] for name in ("prompt_tokens", "completion_tokens"))
        prices = (row[name] for name in ("price_usd", "price_usd_now"))
        rows.append(
            (
                *(row[name] for name in ("stage", "llm", "calls", "from_cache")),
                *(UNKNOWN if count is None else f"{count:,}" for count in tokens),
                *(_price(price, at_most=row["price_is_at_most"]) for price in prices),
            )
        )
    print_rows((*ASKED, "Total cost", "This run"), rows, "Chat models", errors=True)
    _log_unknown_prices(row["price_unknown_because"] for row in account)


def print_forecasts(forecasts: Sequence[Forecast], *, json: bool = False) -> None:
    """Print how many requests a run would send to chat models, and log what is not counted."""
    from admire.llm.bound_model import UNKNOWN
    from admire.llm.chat import Price

    if json:
        return print_json(forecasts)
    if not forecasts:
        return print("This run asks no chat model.")
    rows = [
        (
            forecast.stage,
            forecast.llm,
            f"{'at most ' * forecast.at_most}{forecast.questions}",
            forecast.kept,
            f"{forecast.prompt:,}",
            f"{forecast.completion:,}",
            _price(forecast.price.dollars if forecast.price else UNKNOWN, at_most=forecast.at_most),
        )
        for forecast in forecasts
    ]
    prices = [forecast.price for forecast in forecasts if forecast.price]
    total = str(sum(prices, Price(0.0))) if len(prices) == len(forecasts) else UNKNOWN
    print_rows((*ASKED, "Cost"), rows, f"Chat models; total {total}")
    log.info(
        "No request was sent. Tokens are estimates: for replies the maximum length, or the mean of "
        "cached replies. Requests that are repeated after an unusable reply are not counted."
    )
    _log_unknown_prices(forecast.unknown for forecast in forecasts)


def print_dry_run(
    rehearse: Callable[[Any, Values, DryRun], None],
    data: object,
    options: Values | None,
    *,
    json: bool = False,
) -> None:
    """Print how many requests would go to chat models, in place of sending them."""
    from admire.pipeline.forecast import DryRun

    rehearse(data, options or {}, session := DryRun(**session_options(options)))
    print_forecasts(session.forecasts(), json=json)


def _log_unknown_prices(reasons: Iterable[str | None]) -> None:
    for reason in dict.fromkeys(filter(None, reasons)):
        log.info("A price is unknown: %s.", reason)


def _price(price: float | str, *, at_most: bool = False) -> str:
    from admire.llm.chat import Price

    return price if isinstance(price, str) else str(Price(price, at_most))


def _console(*, errors: bool = False) -> Console:
    """Open the terminal; files and pipes are cut like one."""
    from rich.console import Console

    console = Console(stderr=errors)
    own = console.is_terminal or "COLUMNS" in os.environ
    return console if own else Console(stderr=errors, width=PIPED)


def print_rows(
    headings: Sequence[str], rows: Iterable[Sequence[object]], title: str, *, errors: bool = False
) -> None:
    """Print a table; on a terminal that is too narrow, a block for each row."""
    from rich.measure import measure_renderables
    from rich.padding import Padding
    from rich.table import Table

    console, width, cells = _console(errors=errors), 1, []
    for row in rows:
        cells.append([cell(*str(value).split("\n")) for value in row])
    heading = cell(title, style="table.title") if title else None
    table = Table(title=heading, title_justify="left")
    for column in zip(headings, *cells, strict=True):
        word, line = measure_renderables(console, console.options, column)
        least = max(word, min(line, FIGURE))
        table.add_column(column[0], min_width=least, overflow="fold")
        width += least + 3
    if width <= console.width:
        for row_cells in cells:
            table.add_row(*row_cells)
        console.print(table)
        return
    if heading:
        console.print(heading)
    for first, *others in cells:
        fields = Table.grid(padding=(0, 2))
        for name, text in zip(headings[1:], others, strict=True):
            if text:
                fields.add_row(name, text)
        if first:
            first.style = "bold"
            console.print(first)
        console.print(Padding(fields, (0, 0, 0, 2)))


def print_rankings(rankings: Sequence[Ranking], count: int) -> None:
    """Print the first of ``count`` rankings."""
    rankings = rankings[:SHOWN]
    names = set[str]().union(*map(attrgetter("order"), rankings))
    prefix = os.path.commonprefix([*names]) if len(names) > 1 else ""  # noqa: RUF071  no paths
    prefix = prefix[: max(map(prefix.rfind, "/_-")) + 1]
    if _console().width < 120:
        for ranking in rankings:
            _print_block(ranking, prefix)
    else:
        _print_wide(rankings, prefix)
    if prefix:
        print(visible(f"All names begin with “{prefix}”, which is omitted here."))
    if count > SHOWN:
        print(f"… and {count - SHOWN} more, in items.jsonl and scores.csv")


def _print_wide(rankings: Sequence[Ranking], prefix: str) -> None:
    """Print a table with a row for each item."""
    from rich.cells import cell_len
    from rich.table import Table

    table, console = Table(show_lines=True), _console()
    compound = min(24, max([8, *map(cell_len, map(attrgetter("item.compound"), rankings))]))
    widths = compound, min(24, console.width - 98), min(32, console.width - 92)
    rest = console.width - sum(widths) - 13  # of lines; Rich crops what is wider
    table.add_column("Compound", no_wrap=True, overflow="ellipsis", max_width=widths[0])
    table.add_column("Sense", min_width=16, max_width=widths[1])
    table.add_column("Gloss", min_width=26, max_width=widths[2])
    table.add_column("Candidates, best first", no_wrap=True, overflow="ellipsis", max_width=rest)
    for ranking in rankings:
        senses, meanings, candidates = [], [], []
        for reading in ranking.interpretations:
            sense, meaning = _reading_cells(reading, ranking)
            senses.append(sense)
            meanings.append(meaning or "–")
        if ranking.unsure:
            senses.append("unsure")
        for score, star, name, caption in _candidate_cells(ranking, prefix):
            caption = textwrap.shorten(caption, 40, placeholder="…")
            candidates.append(f"{score} {star} {name}  {caption}")
        table.add_row(
            cell(ranking.item.compound),
            cell(*senses or ["–"]),
            cell(*meanings or ["–"]),
            cell(*candidates),
        )
    console.print(table)


def _print_block(ranking: Ranking, prefix: str) -> None:
    """Print an item under its compound: its meanings, then one line for each candidate."""
    from rich.cells import cell_len, set_cell_size
    from rich.padding import Padding

    console = _console()
    console.print(cell(ranking.item.compound + ", unsure" * ranking.unsure, style="bold"))
    for reading in ranking.interpretations:
        line = cell(": ".join(filter(None, _reading_cells(reading, ranking))))
        console.print(Padding(line, (0, 0, 0, 2)))
    rows = [*_candidate_cells(ranking, prefix)]
    width = max(cell_len(name) for _, _, name, _ in rows)
    lines = cell(
        *(
            f"{score} {star} {set_cell_size(name, width)}  {' '.join(caption.split())}"
            for score, star, name, caption in rows
        )
    )
    lines.no_wrap, lines.overflow = True, "ellipsis"
    console.print(Padding(lines, (0, 0, 1, 2)))


def _candidate_cells(ranking: Ranking, prefix: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield each candidate's score, ★ if it is the best by gold, its name and its caption."""
    item = ranking.item
    scored = zip(item.candidates, ranking.scores, strict=True)
    by_name = dict(zip(item.names, scored, strict=True))
    for name in ranking.order:
        candidate, score = by_name[name]
        star = "★" if name == item.best else " "
        label = _short(name.removeprefix(prefix)) + " (tied)" * (name in ranking.tied)
        label += " (not compared)" * (name in ranking.uncompared)
        yield f"{score:+z.2f}", star, label, candidate.caption or ""


def _short(name: str) -> str:
    """Cut a name to 28 characters, in its middle, because ends of names differ."""
    text = visible(name)
    return text if len(text) <= 28 else f"{text[:11]}…{text[-16:]}"


def _reading_cells(reading: Interpretation, ranking: Ranking) -> tuple[str, str]:
    """Return the sense ("–" for none), and the meaning with its warning; empty for neither."""
    from admire.senses.sense import NO_SENSE

    sense = "–" if reading.sense == NO_SENSE else str(reading.sense)
    wording = reading.wording(ranking.item.phrase, ranking.item.definitions)
    warning = f"⚠ {reading.warning}" if reading.warning else None
    return sense, " ".join(filter(None, (wording, warning)))


def print_why(ranking: Ranking) -> None:
    """Print why the first candidate is first, and the parts of all scores."""
    from admire.pipeline.score_parts import explain_first, summarise_parts

    print(visible(explain_first(ranking)))
    firsts = [f"if {sense}: {_short(order[0])}" for sense, order in ranking.by_sense.items()]
    if firsts:
        print(f"The sense is unsure; {'; '.join(firsts)}.")
    parts = summarise_parts(ranking)
    if not parts:
        return
    places = {candidate.name: place for place, candidate in enumerate(ranking.candidates)}
    rows = [
        (
            _short(name),
            *(f"{values[places[name]]:+z.2f}" for values in (*parts.values(), ranking.scores)),
        )
        for name in ranking.order
    ]
    headings = ("Candidate", *(name[0].upper() + name[1:] for name in parts), "Score")
    print_rows(headings, rows, "Parts of the scores")
    print(
        "Parts are relative to the other candidates. The parts of a candidate add up to its score."
    )


def print_json(value: object) -> None:
    """Print a value as JSON; a table is a list of its rows, a dataclass is an object."""

    def plain(value: Any) -> object:
        return as_rows(value) if hasattr(value, "columns") else asdict(value)

    print(jsonlib.dumps(value, indent=2, default=plain))


def figure_cell(row: Mapping[Any, Any], metric: str) -> str:
    """Return a figure of a row with its interval, if they are known."""
    from admire.metrics.figures import figure_text

    ends = (row.get(f"{metric}{end}") for end in ("", "_low", "_high"))
    return figure_text(*(math.nan if figure is None else figure for figure in ends))


def print_figures(figures: pd.DataFrame, title: str) -> None:
    """Print a table of figures: a row for each group, a column for each metric."""
    from admire.metrics.figures import wide_figures

    wide = wide_figures(figures, ["group", "n"])
    rows = wide.reset_index(allow_duplicates=True).itertuples(index=False, name=None)
    print_rows(("Items", "n", *wide.columns), rows, title)
