"""How figures change with a setting: of a run's scoring, and of a sweep's heads by epoch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from admire.base.choices import TRACKS
from admire.base.errors import UserError
from admire.base.files import parse_json, read_text
from admire.pages.report.drawing import MARKERS, MUTED, RUNS, draw, legend, short
from admire.pages.report.plots import by_run
from admire.pages.report.report import Plot, Report, Table
from admire.rankers.scorer import Scoring
from admire.runs.past_runs import read_cosines, read_record
from admire.runs.tuning import gates, rescore_all
from admire.scores import metrics

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONTRASTS = tuple(round(0.1 * k, 1) for k in range(21))
SHARES = CONTRASTS[:11]
"""Of the pictures in the weights of both tracks."""

VARIED = {"contrast": "contrast", "pictures": "pictures' share of both weights"}
DASHES: dict[str, Any] = {"hard": "solid", "soft": (0, (4, 2))}
DRAWN = {"top1": "top-1", "dcg": "DCG"}

SHOWN = 10
"""How many heads of a sweep are in the table."""


def tuning_plots(folders: Sequence[Path], names: Sequence[str]) -> list[Plot]:
    """Top-1 and DCG of runs, had their cosines been weighed in other ways.

    Runs without cosines or without gold orders are left out.

    Args:
        names: what the runs are called in the plots.

    Raises:
        UserError: Matplotlib is not installed.
    """
    tables = [tuning_table(folder) for folder in folders]
    known = [table.assign(run=run) for run, table in enumerate(tables) if table is not None]
    if not known:
        return []
    curves = pd.concat(known)
    return [
        _tuning_plot(varied, curves[curves["varied"] == varied], names)
        for varied in VARIED
        if varied in set(curves["varied"])
    ]


def tuning_table(folder: Path) -> pd.DataFrame | None:
    """The figures of a run by its contrast and by the weight of its pictures.

    They are those of the ranker ``embeddings`` alone. The gate that a run does not have is tried
    where :func:`admire.runs.tuning.gates` allows it.

    Returns:
        A row for each setting: ``varied`` (``contrast`` or ``pictures``), ``gate``, ``value``,
        ``top1``, ``dcg``, and ``own``, whether it is the run's own. None for a run that has no
        cosines, no gold orders, or of which more is missing.
    """
    try:
        items, parts, _ = read_cosines(folder)
        said = read_record(folder)["settings"]["scoring"]
        own = Scoring(**said | {"texts": tuple(said["texts"])})
    except (UserError, KeyError, TypeError):
        return None
    if any(item.expected_order is None for item in items):
        return None
    weights = own.image_weight + own.caption_weight
    tried = [("contrast", own.contrast, own, True)]
    tried += [
        ("contrast", contrast, replace(own, gate=gate, contrast=contrast), False)
        for gate in gates(parts)
        for contrast in CONTRASTS
    ]
    if all(f"{track}_compound" in parts[0] for track in TRACKS) and weights:
        tried.append(("pictures", own.image_weight / weights, own, True))
        tried += [
            ("pictures", share, replace(own, image_weight=share, caption_weight=1 - share), False)
            for share in SHARES
        ]
    orders = rescore_all(parts, [scoring for _, _, scoring, _ in tried])
    rows = []
    for k, (varied, value, scoring, is_own) in enumerate(tried):
        figures = [
            (metrics.top1(gold, ranked[k]), metrics.dcg(gold, ranked[k]))
            for gold, ranked in zip((item.expected_order for item in items), orders, strict=True)
            if gold
        ]
        row = {"varied": varied, "gate": scoring.gate, "value": value, "own": is_own}
        rows.append(row | dict(zip(DRAWN, np.mean(figures, axis=0).tolist(), strict=True)))
    return pd.DataFrame(rows)


def _tuning_plot(varied: str, curves: pd.DataFrame, names: Sequence[str]) -> Plot:
    axis = VARIED[varied]
    told = [
        "Mean top-1 and DCG, had the cosines been weighed in another way; a marker shows a run's "
        "own setting. What is best here is so on the same items; admire tune cross-validates."
    ]
    for run, table in by_run(curves):
        own, best = (
            table[table["own"]].iloc[0],
            table.loc[table["dcg"] == table["dcg"].max()].iloc[0],
        )
        told.append(
            f"{names[run]}: DCG is {own['dcg']:.3f} as it was run ({axis} {own['value']:g}, "
            f"{own['gate']} gate), and {best['dcg']:.3f} at best ({axis} {best['value']:g}, "
            f"{best['gate']} gate)."
        )
    several = curves["run"].nunique() > 1
    drawn = [
        (run, gate, table[(table["gate"] == gate) & ~table["own"]])
        for run, table in by_run(curves)
        for gate in table.loc[~table["own"], "gate"].unique()
    ]
    labels = [
        f"{short(names[run], 14)}, {gate} gate" if several else f"{gate} gate"
        for run, gate, _ in drawn
    ]

    def paint(figure: Figure) -> None:
        panels = figure.subplots(2, 1, sharex=True)
        for panel, metric in zip(panels, DRAWN, strict=True):
            lines = []
            for run, gate, line in drawn:
                colour, dashes = RUNS[run % len(RUNS)], DASHES[gate]
                lines += panel.plot(line["value"], line[metric], color=colour, linestyle=dashes)
            for run, own in by_run(curves[curves["own"]]):
                marker, colour = MARKERS[run % len(MARKERS)], RUNS[run % len(RUNS)]
                panel.plot(own["value"], own[metric], marker, color=colour, markersize=8)
            panel.set_ylabel(DRAWN[metric])
            panel.tick_params(bottom=False, left=False)
            panel.grid()
        panels[-1].set_xlabel(axis)
        legend(figure, lines, labels)

    title = {"contrast": "Figures by contrast", "pictures": "Figures by the weight of pictures"}
    return draw(f"by-{varied}", title[varied], " ".join(told), paint, height=3.4)


def sweep_report(path: Path) -> Report:
    """What a page on a sweep of heads shows: those that validate best, and curves by epoch.

    Args:
        path: of the results that ``admire sweep`` wrote.

    Raises:
        UserError: the file cannot be read or is not that of a sweep, or Matplotlib is missing.
    """
    groups = _read_sweep(path)
    heads = max(groups, key=len)
    settings = [head["settings"] for head in heads]
    for name in dict.fromkeys(name for one in settings for name in one):
        for one in settings:
            one.setdefault(name, None)  # of a version that did not have it
    varied = [name for name in settings[0] if len({one[name] for one in settings}) > 1]
    best = sorted(heads, key=lambda head: float(head["validation_loss"]))[:SHOWN]
    rows = tuple(
        (
            str(place),
            *(_said(head["settings"][name]) for name in varied),
            str(head["epoch"]),
            f"{head['validation_loss']:.4f}",
            f"{head['test_top1']:.3f}",
            f"{head['none_top1']:.3f}",
        )
        for place, head in enumerate(best, start=1)
    )
    note = f"Of {len(heads)} heads. Top-1 is that on the test compounds."
    if len(groups) > 1:
        note += (
            f" The file has heads of {len(groups)} data sets or divisions of the compounds. These "
            "are of the one with the most heads."
        )
    headings = ("", *map(_called, varied), "epoch", "validation loss", "top-1", "without a head")
    same = [(_called(name), _said(settings[0][name])) for name in settings[0] if name not in varied]
    tables = (
        Table("The heads that validate best", headings, rows, note),
        Table("What all heads have", ("setting", "value"), tuple(same)),
    )
    data = {"kind": "sweep", "runs": [{"name": path.name}], "metrics": [], "items": []}
    return Report(path.name, "sweep", tables, tuple(_epoch_plots(heads, varied)), data)


def _read_sweep(path: Path) -> list[list[dict[str, Any]]]:
    """The heads of each data set and division of its compounds.

    A last line that was cut short is left out, as when the sweep goes on.
    """
    text = read_text(path)
    groups: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for number, line in enumerate(text[: text.rfind("\n") + 1].splitlines(), start=1):
        try:
            row = parse_json(line)
            settings, parts = parse_json(row["job"])
            hash(tuple(dict(settings).values()))  # fails if one is a list or an object
            head = {"settings": dict(settings)} | _outcome(row["outcome"])
            groups.setdefault((str(row["data"]), parts), {})[row["job"]] = head
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            raise UserError(
                f"{path}, row {number}: is not a result of admire sweep. Give the file that it "
                "wrote, or run folders."
            ) from None
    if not groups:
        raise UserError(f"{path}: holds no whole result of admire sweep.")
    return [list(heads.values()) for heads in groups.values()]


def _outcome(said: Mapping[str, Any]) -> dict[str, Any]:
    figures = {name: float(said[name]) for name in ("validation_loss", "test_top1", "none_top1")}
    history = [
        {name: float(epoch[name]) for name in ("epoch", "validation", "top1")}
        for epoch in said["history"]
    ]
    return {**figures, "epoch": int(said["epoch"]), "history": history}


SYMBOLS = {"soft_negatives": "K", "temperature": "τ"}
"""What the paper calls settings."""


def _place(value: object) -> tuple[float, str]:
    """Where a setting's value stands among others: numbers by their size, then all else."""
    return (float(value), "") if isinstance(value, int | float) else (math.inf, str(value))


def _called(setting: str) -> str:
    return SYMBOLS.get(setting, setting.replace("_", " "))


def _said(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def _epoch_plots(heads: Sequence[dict[str, Any]], varied: Sequence[str]) -> Iterator[Plot]:
    """Top-1 by epoch with one setting varied, the others as those of one head.

    That head is the one with the most others that differ from it in one setting alone, and of
    those the one that validates best.
    """

    def beside(head: dict[str, Any], name: str) -> list[dict[str, Any]]:
        settings = head["settings"]
        alike = [
            one for one in heads if one["settings"] == settings | {name: one["settings"][name]}
        ]
        return sorted(alike, key=lambda one: _place(one["settings"][name]))

    def merit(head: dict[str, Any]) -> tuple[int, float]:
        return sum(len(beside(head, name)) for name in varied), -head["validation_loss"]

    base = max(heads, key=merit)
    for name in varied:
        lines = beside(base, name)
        if len(lines) > 1:
            yield _epoch_plot(name, lines, [other for other in varied if other != name])


def _epoch_plot(name: str, heads: Sequence[dict[str, Any]], others: Sequence[str]) -> Plot:
    settings, without = heads[0]["settings"], heads[0]["none_top1"]
    values = [f"{_called(name)} = {_said(head['settings'][name])}" for head in heads]
    picked = ", ".join(
        f"{head['test_top1']:.3f} with {value} (epoch {head['epoch']})"
        for value, head in zip(values, heads, strict=True)
    )
    fixed = ", ".join(f"{_called(other)} = {_said(settings[other])}" for other in others)
    told = (
        f"Top-1 on the test compounds by epoch{f', with {fixed}' if fixed else ''}. A marker shows "
        f"the epoch that the validation loss picks: {picked}. Dotted: {without:.3f} without a head."
    )

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        handles = []
        for k, head in enumerate(heads):
            colour, marker = RUNS[k % len(RUNS)], MARKERS[k % len(MARKERS)]
            history = pd.DataFrame(head["history"])
            axes.plot(history["epoch"], history["top1"], color=colour, alpha=0.8)
            at = history[history["epoch"] == head["epoch"]]
            handles += axes.plot(at["epoch"], at["top1"], marker, color=colour, markersize=8)
        axes.axhline(without, color=MUTED, linestyle=":")
        axes.set_xlabel("epoch")
        axes.set_ylabel("top-1 on the test compounds")
        axes.tick_params(bottom=False, left=False)
        axes.grid()
        legend(figure, handles, [value.replace(" = ", " ") for value in values])

    title = f"Top-1 by epoch and {_called(name)}"
    return draw(f"sweep-{name.replace('_', '-')}", title, told, paint)
