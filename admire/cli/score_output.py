"""What ``admire score`` and ``admire rank`` print of senses and of published figures."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from admire.cli.output import print_rows, print_summaries, print_summary, print_sure

if TYPE_CHECKING:
    import pandas as pd

    from admire.base.choices import BoardTrack, PublishedSet
    from admire.scores.judgements import Corrected
    from admire.scores.published import Board, Subtask

log = logging.getLogger("admire")

CALLED = {"sense_risk": "Sense wrong", "top1_risk": "First wrong"}


def print_scores(
    names: Sequence[str],
    scored: Sequence[pd.DataFrame],
    runs: Sequence[Path | None],
    tables: Mapping[str, pd.DataFrame],
    languages: Mapping[str, pd.DataFrame],
    published: PublishedSet | None,
    track: BoardTrack | None,
    judged: tuple[Corrected, Mapping[str, pd.DataFrame]] | None = None,
    *,
    json: bool,
    seed: int,
) -> None:
    """Print what ``admire score`` has found.

    JSON has a list for each table, by its name, and an object ``languages``, ``reliability`` or
    ``published`` by the names of the submissions where there is something to say; and an object
    ``judgements`` if people corrected the gold.

    Args:
        names: of the submissions.
        scored: of each, see :func:`admire.scores.item_figures.score_items`.
        runs: of each, the run folder that knows the senses.
        tables: of each, and their difference; see :func:`admire.scores.figures.summarise`.
        languages: of each, see :func:`admire.scores.figures.summarise_languages`; empty if there
            is one language.
        published: the set to compare with.
        track: the board's; None takes that in which the run is judged.
        judged: how people corrected the gold, and the tables by the gold as it was.
    """
    if not json:
        for name, table in (judged[1] if judged else {}).items():
            print_summary(table, f"{name}, by the gold as it was", json=False)
        by = ", by the corrected gold" if judged else ""
        print_summaries({name + by: table for name, table in tables.items()}, json)
        for name, table in languages.items():
            print_summary(table, f"By language, {name}", json=False)
    senses = {
        name: sense_figures(one, run, name, json=json, seed=seed)
        for name, one, run in zip(names, scored, runs, strict=True)
    }
    more: dict[str, dict[str, Any]] = {
        "languages": {name: table.to_dict("records") for name, table in languages.items()},
        "reliability": {name: found for name, found in senses.items() if found},
    }
    if judged:
        corrected, before = judged
        more["judgements"] = {
            "judged": corrected.judged,
            "senses": corrected.senses,
            "bests": corrected.bests,
            "before": {name: table.to_dict("records") for name, table in before.items()},
        }
    if published:
        import pandas as pd

        found = {name: pd.concat([tables[name], languages.get(name)]) for name in names}
        more["published"] = {
            name: published_figures(found[name], published, track, run, name, json=json)
            for name, run in zip(names, runs, strict=True)
        }
    if json:
        print_summaries(tables, json, {kind: told for kind, told in more.items() if told})


def sense_figures(
    scored: pd.DataFrame, run: Path | None, name: str, *, json: bool, seed: int
) -> dict[str, Any] | None:
    """How far the sense of a run can be trusted, as JSON has it; printed unless it is JSON.

    None where that cannot be told, which a message says.

    Args:
        scored: see :func:`admire.scores.item_figures.score_items`.
        run: the folder that knows the senses, if there is one.
        name: of the submission, in titles.
    """
    from admire.runs.scoring import abstained_below
    from admire.scores.reliability import (
        at_coverages,
        decided,
        risk_curve,
        sense_summary,
        summarise_sure,
    )

    if run is None or "mrr" in scored:  # V-WSD has no senses
        return None
    if decided(scored).empty:
        why = "the run tells no sense" if "probability" not in scored else "the gold tells none"
        log.warning("%s: how sure its senses are cannot be told, because %s.", name, why)
        return None
    summary, curve = sense_summary(scored, seed=seed), risk_curve(scored)
    if not json:
        print_summary(summary, f"Sense and its probability, {name}", json=False)
        rows = [
            (
                f"{row['wanted']:.0%}",
                int(row["items"]),
                f"{row['confidence']:.3f}",
                *(f"{row[risk]:.3f}" for risk in CALLED),
            )
            for row in at_coverages(curve).to_dict("records")
        ]
        headings = ("Coverage", "Items", "Confidence from", *CALLED.values())
        print_rows(headings, rows, f"Errors where the sense is surest, {name}")
    found: dict[str, Any] = {
        "figures": summary.to_dict("records"),
        "curve": curve.to_dict("records"),
    }
    below = abstained_below(run)
    if below is not None:
        unsure, left = int(scored["unsure"].sum()), summarise_sure(scored, seed=seed)
        if not json:
            print_sure(scored, unsure, len(scored), below, seed=seed)
        found["unsure"] = {"below": below, "items": unsure, "without": left.to_dict("records")}
    return found


def published_figures(
    summary: pd.DataFrame,
    published: PublishedSet,
    track: BoardTrack | None,
    run: Path | None,
    name: str,
    *,
    json: bool,
) -> list[dict[str, Any]]:
    """Where figures stand on each board of a set, as JSON has it; printed unless it is JSON.

    Args:
        summary: see :func:`admire.scores.published.our_figures`.
        published: the set.
        track: see :func:`print_scores`; for what is no run, None takes every track.
        run: the folder that tells what was seen, and how the sense was decided.
        name: of the submission, in titles.
    """
    from admire.runs.past_runs import read_record
    from admire.runs.record import used_gold_sense
    from admire.runs.scoring import judged_track
    from admire.scores.published import boards

    record = read_record(run) if run else None
    subtask: Subtask = "b" if "item_accuracy" in set(summary["metric"]) else "a"
    found, notes = boards(published, subtask, track or (judged_track(record) if record else None))
    for note in notes:
        log.warning("%s: %s", published, note)
    given = bool(record and used_gold_sense(record))
    return [_on_board(summary, board, name, given=given, json=json) for board in found]


def _on_board(
    summary: pd.DataFrame, board: Board, name: str, *, given: bool, json: bool
) -> dict[str, Any]:
    """Where figures stand on a board. With the gold sense they have no place."""
    from dataclasses import asdict

    from admire.scores.published import better, our_figures, published_systems, standings, within

    systems = published_systems(board)
    found = standings(summary, systems, board)
    inside = {f"{one.metric}_within": within(systems, one) for one in found}
    table = systems.assign(**inside).drop(columns="decimals")
    if not json:
        ours = our_figures(summary, board)
        ahead = better(systems, ours, *board.ranked)
        _print_published(table[ahead], table[~ahead], ours, board, name, given=given)
        for one in () if given else found:
            print(one)
        if given:
            print(f"{name} has no place: it was ranked with the gold sense.")
        n = ours[board.ranked[0]]["n"]
        print(f"≈: within our interval; {n} items cannot tell these from ours.")
        for source in dict.fromkeys(table["source"]):
            print(f"Source: {source}.")
    return {
        **asdict(board),
        "gold_sense": given,
        "places": [] if given else [asdict(one) for one in found],
        "systems": table.astype(object).where(table.notna(), None).to_dict("records"),
    }


def _print_published(
    ahead: pd.DataFrame,
    behind: pd.DataFrame,
    ours: Mapping[str, Mapping[str, Any]],
    board: Board,
    name: str,
    *,
    given: bool,
) -> None:
    """The published systems with ours where it would be. Some have no place.

    Args:
        ahead, behind: the systems that are better than ours, and the others.
        ours: see :func:`admire.scores.published.our_figures`.
    """
    first, second = board.ranked
    metrics = [first, second, *({"corr_official"} & set(ahead))]
    mine: dict[Any, Any] = {metric: ours[metric]["mean"] for metric in metrics if metric in ours}
    mine |= {end: ours[first][end] for end in ("low", "high")}
    if second in ours:
        mine |= {f"{second}_{end}": ours[second][end] for end in ("low", "high")}
    mine |= {"system": f"→ {name}" + ", with the gold sense" * given, "placed": not given}
    rows: list[Sequence[object]] = []
    place = 0
    for one in (*ahead.to_dict("records"), mine, *behind.to_dict("records")):
        place += one["placed"]
        ends = {first: ("low", "high"), second: (f"{second}_low", f"{second}_high")}
        cells = [_cell(one, metric, ends.get(metric, ())) for metric in metrics]
        rows.append((place if one["placed"] else "", one["system"], *cells))
    print_rows(("", f"By {first}", *metrics), rows, f"Published on {board}")


def _cell(row: Mapping[Any, Any], metric: str, ends: Sequence[str]) -> str:
    """A published figure, with its interval if there is one, and a sign if ours holds it."""
    figure, *interval = (row.get(name, math.nan) for name in (metric, *ends))
    if math.isnan(figure):
        return "–"
    told = f"{figure:.3f}"
    if interval and not math.isnan(interval[0]):
        told += " [{:.3f}, {:.3f}]".format(*interval)
    return "≈ " * bool(row.get(f"{metric}_within")) + told
