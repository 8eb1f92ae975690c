"""The command that scores submissions: scorecards on a terminal, and as JSON."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from admire.apps.cli import options as opt
from admire.apps.cli.output import (
    figure_cell,
    print_figures,
    print_json,
    print_rows,
    print_ties,
    print_unsure,
)
from admire.apps.cli.paper_tables import Form, Format, print_table
from admire.tasks.scorecard import Score, Scorecards

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger("admire")


@opt.with_settings("score", *Score.settings)
def score(
    submissions: list[Path],
    /,
    *,
    format: Format = None,
    options: opt.Options = None,
    json: opt.Json = False,
) -> None:
    """Score submissions: top-1, DCG, NDCG and both correlations, with 95 % intervals.

    For several languages, also prints the figures of each and their macro-average.

    In Subtask B the figures are accuracies, in V-WSD top-1 (hit@1) and the mean reciprocal rank.

    For a run, also prints how reliable its sense probabilities are: their calibration error, and
    the error rate on the items with the highest confidence.

    Args:
        submissions: Submission or run folder. Several are compared with the first, by their paired
            differences and by the agreement of their orders, which needs no gold.

    Examples:
        admire score runs/my_set
        admire score runs/a runs/b runs/c --gold dev.tsv --format latex
    """
    from admire.pipeline.scoring import warn_if_runs_leaked

    scores = Score().run(submissions, options or {})
    if json:
        print_json(scores_as_json(scores))
    elif format:
        print_for_paper(scores, format)
    else:
        print_scores(scores)
        if len(submissions) == 1:
            two = shlex.join(["admire", "score", str(submissions[0]), "OTHER_RUN"])
            log.info("To compare it with another run: %s", two)
    for card in scores.cards:
        warn_if_runs_leaked(card.scored, card.path)


def scores_as_json(scores: Scorecards) -> dict[str, Any]:
    """Return scorecards as JSON: tables of figures and the objects below, by submission.

    The ``agreement`` is that of two submissions, or of each further one with the first.
    """
    from admire.metrics.figures import tied_figures

    cards = {str(card.path): card for card in scores.cards}
    tables = {name: card.figures for name, card in cards.items()} | dict(scores.differences)
    ties = {name: tied_figures(card.scored) for name, card in cards.items()}
    objects: dict[str, dict[str, Any]] = {
        "languages": {name: c.languages for name, c in cards.items() if c.languages is not None},
        "reliability": {name: card.senses for name, card in cards.items() if card.senses},
        "judgements": {},
        "published": {name: card.boards for name, card in cards.items() if card.boards},
        "ties": {name: table for name, table in ties.items() if not table.empty},
    }
    if scores.gold:
        before = {name: c.uncorrected for name, c in cards.items() if c.uncorrected is not None}
        counts = {key: getattr(scores.gold, key) for key in ("judged", "senses", "bests")}
        objects["judgements"] = counts | {"before": before}
    present = {key: value for key, value in objects.items() if value}
    agreement: Any = scores.agreements
    if len(agreement) == 1:
        (agreement,) = agreement.values()
    return tables | ({"agreement": agreement} if scores.agreements else {}) | present


def print_scores(scores: Scorecards) -> None:
    """Print scorecards as tables."""
    for card in scores.cards:
        if card.uncorrected is not None:
            print_figures(card.uncorrected, f"{card.path}, by the original gold")
    gold = ", by the corrected gold" if scores.gold else ""
    for card in scores.cards:
        print_figures(card.figures, f"{card.path}{gold}")
        print_ties(card.scored)
    for name, table in scores.differences.items():
        print_figures(table, f"{name}{gold}")
    for name, table in scores.agreements.items():
        pair = f" of {name.replace(' minus ', ' and ')}" * (len(scores.agreements) > 1)
        print_figures(table, f"Agreement{pair}, without gold")
    for card in scores.cards:
        if card.languages is not None:
            print_figures(card.languages, f"By language, {card.path}")
    for card in scores.cards:
        if card.senses:
            _print_senses(card.senses, len(card.scored), str(card.path))
    for card in scores.cards:
        for board in card.boards:
            _print_board(board, card.all_figures, str(card.path))


def print_for_paper(scores: Scorecards, form: Form) -> None:
    """Print the figures of all submissions in one table, and their differences in another."""
    import pandas as pd

    from admire.metrics.figures import INTERVALS, describe_ties, wide_figures

    first, *others = scores.record["submissions"]
    ties = {str(card.path): describe_ties(card.scored) for card in scores.cards}
    figures = {str(card.path): card.all_figures for card in scores.cards}
    notes = [f"{name}: {note}" for name, note in ties.items() if note]
    notes += [f"Gold is corrected: {scores.gold}"] * bool(scores.gold)
    paired = "by bootstrap over the items; none for fewer than 3 items or where all are alike"
    for title, tables, how, sentences in (
        ("Figures", figures, INTERVALS, notes),
        (f"Mean differences from {first}, item by item,", scores.differences, paired, []),
        (f"Agreement with {first}", scores.agreements, INTERVALS, []),
    ):
        rows = zip(figures if tables is figures else others, tables.values(), strict=False)
        every = [table.assign(run=name) for name, table in rows]
        if every:
            table, signed = pd.concat(every), tables is scores.differences
            wide = wide_figures(table, ["run", "group", "n"], signed=signed).reset_index()
            caption = (
                f"{title} on {table['n'].max()} items. In brackets: 95 % intervals {how} "
                f"(10,000 resamples, seed {scores.record['seed']})."
            )
            print_table(wide, " ".join([caption, *sentences]), form)


def _print_senses(senses: Mapping[str, Any], items: int, name: str) -> None:
    """Print how reliable the senses of a run are."""
    from admire.metrics.figures import RISKS, at_coverages

    print_figures(senses["figures"], f"Sense and its probability, {name}")
    rows = []
    for row in at_coverages(senses["curve"]).to_dict("records"):
        errors = (f"{row[name]:.3f}" for name in ("confidence", *RISKS))
        rows.append((f"{row['share']:.0%}", int(row["items"]), *errors))
    headings = ("Coverage", "Items", "Min. confidence", *map(str.capitalize, RISKS.values()))
    print_rows(headings, rows, f"Errors on the most confident items, {name}")
    if "unsure" in senses:
        unsure = senses["unsure"]
        print_unsure(unsure["items"], items, unsure["below"], unsure["without"])


def _print_board(entry: Mapping[str, Any], figures: pd.DataFrame, name: str) -> None:
    """Print the published systems with ours at its place; some have no place."""
    from admire.metrics.published import FEW, Board, is_better, our_figures, published_systems

    board = Board(entry["set"], entry["subtask"], entry["track"])
    first, second = board.ranked
    our = our_figures(figures, board)
    label = f"→ {name}" + ", with the gold sense" * entry["gold_sense"]
    ours: dict[Any, Any] = {"system": label, "placed": not entry["gold_sense"]}
    for metric, figure in our.items():
        ours[metric] = figure["mean"]
        if metric in board.ranked:
            ours |= {f"{metric}_low": figure["low"], f"{metric}_high": figure["high"]}
    for standing in entry["places"][:1]:
        if standing.n < FEW:
            ours["range"] = f"{standing.best} to {standing.worst}"
    systems = entry["systems"].rename(columns={"low": f"{first}_low", "high": f"{first}_high"})
    ahead = is_better(published_systems(board), our, first, second)
    metrics = [first, second, *({"corr_official"} & set(systems))]
    rows: list[Sequence[object]] = []
    place = 0
    for row in (*systems[ahead].to_dict("records"), ours, *systems[~ahead].to_dict("records")):
        place += row["placed"]
        within = {metric: "≈ " * bool(row.get(f"{metric}_within")) for metric in metrics}
        cells = [f"{mark}{figure_cell(row, metric)}" for metric, mark in within.items()]
        rows.append((row.get("range", place) if row["placed"] else "", row["system"], *cells))
    print_rows(("", f"By {first}", *metrics), rows, f"Published on {board}")
    for standing in entry["places"]:
        print(standing)
    if entry["gold_sense"]:
        print(f"{name} has no place, because it was ranked with the gold sense.")
    print(f"≈: within our interval; with {our[first]['n']} items no different from ours.")
    for source in dict.fromkeys(systems["source"]):
        print(f"Source: {source}.")
