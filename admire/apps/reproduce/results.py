"""What came out beside what was published: as a table, a CSV and a page with pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from admire.apps.report.plots import BAD, GOOD, MARKERS, MUTED, RUNS, draw, legend, plain, short
from admire.apps.report.report import Plot, Report, Table, render
from admire.apps.reproduce.recipe import Recipe
from admire.apps.reproduce.rows import Items, figures_of
from admire.core.storage import write_whole
from admire.metrics.agreement import shared_items
from admire.metrics.figures import INTERVALS, NOTHING, figure_text, paired_difference

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from admire.apps.reproduce.rows import Job

TABLE, PAGE = "table.csv", "table.html"
HEADINGS = ("Row", "Set", "n")
COLUMNS = (
    *("paper", "table", "row", "set", "metric", "n", "ours", "low", "high", "deviation"),
    *("published", "difference", "minus_first", "minus_first_low", "minus_first_high"),
    *("stand_in", "note"),
)
"""Columns of ``table.csv``."""
COUNTS = {"idioms", "homogeneous", "adversarial", "total"}
"""Metrics that are numbers of idioms or of pairs."""
HOW_TO_READ = (
    "Each figure is ours, with its 95 % interval where items are resampled, or ± its deviation "
    "over the seeds of a training; below it is the paper's, and ours minus the paper's. “Minus "
    "first” is the mean of the differences, item by "
    "item, from the first row of the same set that ran, with its 95 % interval."
)

Figures = Mapping[str, Sequence[float]]
"""A mean, the ends of its 95 % interval and its deviation over seeds, by metric; NaN where there is
none. Differences have no deviation."""


@dataclass
class Cell:
    """A row of a recipe on one of its sets.

    Attributes:
        minus_first: its paired differences from the first row of the set that ran.
        n: how many items, pairs or queries the figures are of.
        note: why it did not run or has no figures, or which models replace which.
        ran: whether it ran, or what came out before was read.
        epochs: the file with the losses and the accuracy by epoch of a head that was trained.
    """

    row: str
    set: str
    published: Sequence[float] = ()
    figures: Figures = field(default_factory=dict)
    minus_first: Figures = field(default_factory=dict)
    n: int = 0
    note: str = ""
    stand_in: bool = False
    ran: bool = False
    epochs: Path | None = None


def result_table(recipe: Recipe, cells: Sequence[Cell]) -> pd.DataFrame:
    """Return a row for each cell and metric, with :data:`COLUMNS`; unknown figures are NaN."""
    nan, rows = (float("nan"),) * 4, []
    for cell in cells:
        for k, metric in enumerate(recipe.metrics):
            ours = cell.figures.get(metric, nan)
            published = cell.published[k] if cell.published else nan[0]
            compared = published, ours[0] - published, *cell.minus_first.get(metric, nan[:3])
            of = recipe.paper, recipe.table, cell.row, cell.set, metric, cell.n
            rows.append((*of, *ours, *compared, cell.stand_in, cell.note))
    return pd.DataFrame(rows, columns=COLUMNS)


def minus_first(first: Items, other: Items, metrics: Sequence[str]) -> dict[str, Any]:
    """Return the paired differences of items from another row's, with their 95 % intervals."""
    both = shared_items([pd.DataFrame(first), pd.DataFrame(other)])
    columns = [name for name in metrics if all(name in table for table in both)]
    if both[0].empty or not columns:
        return {}
    records: list[Any] = paired_difference(*both, columns=columns).to_dict("records")
    return {name: ends for name, (_, *ends) in figures_of(records).items()}


def cell_text(figure: pd.Series, decimals: int = 3) -> str:
    """Return a figure's text: ours with its interval, the paper's, and how far ours differs."""
    ours = figure_text(figure["ours"], figure["low"], figure["high"])
    if figure["metric"].rpartition(":")[2] in COUNTS:
        ours, decimals = ours.removesuffix(".000"), 0
    if not pd.isna(figure["deviation"]):
        ours += f" ± {figure['deviation']:.3f}"
    lines = [ours]
    if not pd.isna(figure["published"]):
        paper = f"paper {figure['published']:.{decimals}f}"
        difference = f"{figure['difference']:+.{decimals}f}"
        lines = [paper] if ours == NOTHING else [ours, f"{paper} ({difference})"]
    if not pd.isna(figure["minus_first"]):
        ends = (figure[f"minus_first{end}"] for end in ("", "_low", "_high"))
        lines.append(f"minus first {figure_text(*ends, signed=True)}")
    return "\n".join(lines)


def wide_table(recipe: Recipe, table: pd.DataFrame) -> pd.DataFrame:
    """Return a row of texts for each row and set, with a column for each metric."""
    published = table["published"].dropna()
    decimals = 3 if published.round(3).equals(published) else 4
    texts = table.assign(text=[cell_text(figure, decimals) for _, figure in table.iterrows()])
    texts["n"] = [str(n or NOTHING) for n in table["n"]]
    wide = texts.set_index(["row", "set", "n", "note", "metric"])["text"].unstack(sort=False)
    wide = wide[list(recipe.metrics)].reset_index()
    return wide[["row", "set", "n", *recipe.metrics, "note"]]


def paper_table(
    recipe: Recipe, table: pd.DataFrame, jobs: Sequence[Job]
) -> tuple[pd.DataFrame, str]:
    """Return :func:`wide_table` as a paper has it, and the caption, with the notes on its rows."""
    wide = wide_table(recipe, table)
    sentences = {
        "low": f"In brackets: 95 % intervals {INTERVALS} (10,000 resamples, seed 0).",
        "deviation": "±: the deviation over the seeds.",
        "published": "Below: the paper's figure, and ours minus the paper's.",
        "minus_first": "Minus first: the mean difference from a set's first row, item by item.",
    }
    text = [f"{recipe.paper}, {recipe.table}: {recipe.title}, on n items."]
    text += [sentence for column, sentence in sentences.items() if table[column].notna().any()]
    options = [job.options for job in jobs if job.trains]
    seeds = {own.get("seed", 0) + k for own in options for k in range(own.get("seeds", 1))}
    text += [f"Seeds of the trainings: {', '.join(map(str, sorted(seeds)))}."] * bool(seeds)
    notes = wide["row"] + ", " + wide["set"] + ": " + wide["note"].str.removesuffix(".") + "."
    return wide.drop(columns="note"), " ".join([*text, *notes[wide["note"] != ""]])


def write_results(
    recipe: Recipe, table: pd.DataFrame, folder: Path, plots: Sequence[Plot] = ()
) -> list[Path]:
    """Write ``table.csv`` and ``table.html`` into a folder, and return their paths."""
    wide = wide_table(recipe, table)
    rows = tuple(tuple(map(str, row)) for row in wide.itertuples(index=False))
    note = f"{HOW_TO_READ} {' '.join(recipe.differs)}"
    page = Report(
        f"{recipe.paper}, {recipe.table}",
        "table",
        (Table(recipe.title, (*HEADINGS, *recipe.metrics, "Note"), rows, note),),
        tuple(plots),
        {},
    )
    files = {TABLE: table.to_csv(index=False), PAGE: "".join(render(page))}
    for name, text in files.items():
        with write_whole(folder / name) as file:
            file.write(text)
    return [folder / name for name in files]


def draw_pictures(recipe: Recipe, cells: Sequence[Cell]) -> tuple[Plot, ...]:
    """Draw what the recipe names as its ``picture``, of the rows that ran."""
    ran = [cell for cell in cells if cell.ran]
    trained = {cell.row: pd.read_csv(cell.epochs) for cell in ran if cell.epochs}
    if recipe.picture == "losses":
        return tuple(_losses(row, epochs) for row, epochs in trained.items())
    if recipe.picture == "accuracy":
        return tuple(_accuracies(trained))
    if recipe.picture == "points" and ran:
        return tuple(_points(recipe, ran, metric) for metric in recipe.metrics)
    return ()


def _losses(row: str, epochs: pd.DataFrame) -> Plot:
    """Draw the losses of a training, and below them the accuracy on the test samples."""
    best = epochs.iloc[int(epochs["validation"].argmin())]
    words = (
        f"{len(epochs)} epochs. Training loss from {epochs['training'].iloc[0]:.3f} to "
        f"{epochs['training'].iloc[-1]:.3f}; validation loss lowest at epoch {best['epoch']:.0f} "
        f"({best['validation']:.3f}), at the end {epochs['validation'].iloc[-1]:.3f}. "
        f"Test top-1 at that epoch {best['top1']:.3f}, at the end {epochs['top1'].iloc[-1]:.3f}."
    )

    def paint(figure: Figure) -> None:
        above, below = figure.subplots(2, 1, sharex=True)
        by_epoch = epochs.set_index("epoch")
        losses = by_epoch[["training", "validation"]]
        losses.plot(ax=above, color=[RUNS[0], BAD], style=["-", "--"], legend=False)
        by_epoch["top1"].plot(ax=below, color=GOOD)
        lines = [*above.lines, *below.lines]
        for axes, label in ((above, "loss"), (below, "top-1")):
            axes.axvline(best["epoch"], color=MUTED, linewidth=0.8, linestyle="dotted")
            plain(axes, label)
        below.set_xlabel("epoch")
        legend(figure, lines, ["training loss", "validation loss", "test top-1"])

    return draw(f"losses-{row}", row, words, paint, height=3.2)


def _accuracies(trained: Mapping[str, pd.DataFrame]) -> Iterator[Plot]:
    """Draw the accuracy by epoch, a plot for each setting that the rows' last part varies."""
    groups: dict[str, list[tuple[str, pd.DataFrame]]] = {}
    for row, epochs in trained.items():
        value = row.rpartition(", ")[2]
        groups.setdefault(value.partition(" ")[0], []).append((value, epochs))
    for setting, lines_of in groups.items():
        words = "; ".join(
            f"{value}: at most {epochs['top1'].max():.3f}, at the end "
            f"{epochs['top1'].iloc[-1]:.3f} of {len(epochs)} epochs"
            for value, epochs in lines_of
        )

        def paint(figure: Figure, lines_of: Sequence[tuple[str, pd.DataFrame]] = lines_of) -> None:
            axes = figure.subplots()
            lines = [
                axes.plot(
                    epochs["epoch"],
                    epochs["top1"],
                    color=RUNS[place % len(RUNS)],
                    linestyle=("solid", "dashed", "dotted")[place % 3],
                )[0]
                for place, (_, epochs) in enumerate(lines_of)
            ]
            plain(axes, "test top-1")
            axes.set_xlabel("epoch")
            legend(figure, lines, [value for value, _ in lines_of])

        yield draw(f"accuracy-{setting}", f"Top-1 by epoch: {setting}", f"{words}.", paint)


def _points(recipe: Recipe, cells: Sequence[Cell], metric: str) -> Plot:
    """Draw a figure of each row by set, with its deviation over seeds where there is one."""
    figures = {(c.row, c.set): c.figures[metric] for c in cells if metric in c.figures}
    rows = list(dict.fromkeys(row for row, _ in figures))
    sets = [name for name in recipe.sets if name in {cell.set for cell in cells}]
    words = "; ".join(
        f"{row}: " + ", ".join(f"{name} {figures[row, name][0]:.1f}" for name in sets)
        for row in rows
        if all((row, name) in figures for name in sets)
    )

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        marks = []
        models = list(dict.fromkeys(row.partition(", ")[0] for row in rows))
        for place, row in enumerate(rows):
            model = models.index(row.partition(", ")[0])
            shift = (place - (len(rows) - 1) / 2) * 0.8 / len(rows)
            there = [k for k, name in enumerate(sets) if (row, name) in figures]
            means, _, _, deviations = np.transpose([figures[row, sets[k]] for k in there])
            marks.append(
                axes.errorbar(
                    np.add(there, shift),
                    means,
                    yerr=np.nan_to_num(deviations),
                    fmt=MARKERS[model % len(MARKERS)],
                    color=RUNS[model % len(RUNS)],
                    markerfacecolor="none" if row in models else None,
                )
            )
        plain(axes, metric)
        axes.set_xticks(range(len(sets)), [name.replace("+", "\n+ ") for name in sets])
        axes.set_xlim(-0.5, len(sets) - 0.5)
        legend(figure, marks, [short(row, 22) for row in rows])

    return draw(f"points-{metric}", metric, f"{words}.", paint, height=3.0)
