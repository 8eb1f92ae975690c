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

    from admire.base.choices import PublishedSet

log = logging.getLogger("admire")

CALLED = {"sense_risk": "Sense wrong", "top1_risk": "First wrong"}


def print_scores(
    names: Sequence[str],
    scored: Sequence[pd.DataFrame],
    runs: Sequence[Path | None],
    tables: Mapping[str, pd.DataFrame],
    published: PublishedSet | None,
    *,
    json: bool,
    seed: int,
) -> None:
    """Print what ``admire score`` has found.

    JSON has a list for each table, by its name, and an object ``reliability`` or ``published`` by
    the names of the submissions where there is something to say.

    Args:
        names: of the submissions.
        scored: of each, see :func:`admire.scores.evaluation.score_items`.
        runs: of each, the run folder that knows the senses.
        tables: of each, and their difference; see :func:`admire.scores.evaluation.summarise`.
        published: the set to compare with.
    """
    if not json:
        print_summaries(tables, json)
    senses = {
        name: sense_figures(one, run, name, json=json, seed=seed)
        for name, one, run in zip(names, scored, runs, strict=True)
    }
    more = {"reliability": {name: found for name, found in senses.items() if found}}
    if published:
        more["published"] = {
            name: published_figures(tables[name], published, name, json=json) for name in names
        }
    if json:
        print_summaries(tables, json, {kind: found for kind, found in more.items() if found})


def sense_figures(
    scored: pd.DataFrame, run: Path | None, name: str, *, json: bool, seed: int
) -> dict[str, Any] | None:
    """How far the sense of a run can be trusted, as JSON has it; printed unless it is JSON.

    None where that cannot be told, which a message says.

    Args:
        scored: see :func:`admire.scores.evaluation.score_items`.
        run: the folder that knows the senses, if there is one.
        name: of the submission, in titles.
    """
    from admire.runs.scoring import abstained_below
    from admire.scores.reliability import (
        at_coverages,
        decided,
        risk_curve,
        sense_summary,
        without_unsure,
    )

    if run is None:
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
        unsure, left = int(scored["unsure"].sum()), without_unsure(scored, seed=seed)
        if not json:
            print_sure(scored, unsure, len(scored), below, seed=seed)
        found["unsure"] = {"below": below, "items": unsure, "without": left.to_dict("records")}
    return found


def published_figures(
    summary: pd.DataFrame, published: PublishedSet, name: str, *, json: bool
) -> dict[str, Any]:
    """Where figures stand among published ones, as JSON has it; printed unless it is JSON.

    Args:
        summary: see :func:`admire.scores.evaluation.summarise`.
        published: the set.
        name: of the submission, in titles.
    """
    from dataclasses import asdict

    from admire.scores.published import of_all_items, published_systems, standings, within

    systems = published_systems(published)
    found = standings(summary, systems)
    inside = {f"{one.metric}_within": within(systems, one) for one in found}
    table = systems.assign(**inside).drop(columns="decimals")
    if not json:
        ours = of_all_items(summary)
        _print_published(table, ours, published, name)
        for one in found:
            print(one)
        print(f"≈: within our interval; {ours['dcg']['n']} items cannot tell these from ours.")
        for source in dict.fromkeys(table["source"]):
            print(f"Source: {source}.")
    return {
        "set": published,
        "places": [asdict(one) for one in found],
        "systems": table.astype(object).where(table.notna(), None).to_dict("records"),
    }


def _print_published(
    table: pd.DataFrame, ours: Mapping[str, Mapping[str, Any]], published: str, name: str
) -> None:
    """The published systems by DCG, with ours where it would be.

    Args:
        ours: see :func:`admire.scores.published.of_all_items`.
    """
    mine: dict[Any, Any] = {"system": f"→ {name}", "people": False}
    mine |= {metric: ours[metric]["mean"] for metric in ("top1", "dcg", "corr_official")}
    mine |= {end: ours["top1"][end] for end in ("low", "high")}
    mine |= {f"dcg_{end}": ours["dcg"][end] for end in ("low", "high")}
    systems = table.to_dict("records")
    before = sum(one["dcg"] > mine["dcg"] for one in systems)
    rows: list[Sequence[object]] = []
    place = 0
    for one in (*systems[:before], mine, *systems[before:]):
        place += not one["people"]
        told = "" if one["people"] else place
        top1 = _cell(one, "top1", one["low"], one["high"])
        dcg = _cell(one, "dcg", one.get("dcg_low", math.nan), one.get("dcg_high", math.nan))
        rows.append((told, one["system"], top1, dcg, _cell(one, "corr_official")))
    print_rows(("", "By DCG", "top1", "dcg", "corr_official"), rows, f"Published on {published}")


def _cell(
    row: Mapping[str, Any], metric: str, low: float = math.nan, high: float = math.nan
) -> str:
    """A published figure, with its interval if there is one, and a sign if ours holds it."""
    if math.isnan(row[metric]):
        return "–"
    interval = "" if math.isnan(low) else f" [{low:.3f}, {high:.3f}]"
    return "≈ " * bool(row.get(f"{metric}_within")) + f"{row[metric]:.3f}{interval}"
