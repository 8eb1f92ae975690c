"""The pictures of a table: losses and accuracy by epoch, and rows by set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from admire.apps.report.plots import BAD, GOOD, MARKERS, MUTED, RUNS, draw, legend, short
from admire.apps.report.report import Plot
from admire.apps.reproduce.recipe import Recipe
from admire.apps.reproduce.results import Cell

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_pictures(recipe: Recipe, cells: Sequence[Cell]) -> tuple[Plot, ...]:
    """Draw what the recipe names as its ``picture``, of the rows that ran.

    Raises:
        UserError: the extra ``report`` is missing.
    """
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
        lines = [
            *above.plot(epochs["epoch"], epochs["training"], color=RUNS[0]),
            *above.plot(epochs["epoch"], epochs["validation"], color=BAD, linestyle="dashed"),
            *below.plot(epochs["epoch"], epochs["top1"], color=GOOD),
        ]
        for axes, label in ((above, "loss"), (below, "top-1")):
            axes.axvline(best["epoch"], color=MUTED, linewidth=0.8, linestyle="dotted")
            _plain(axes, label)
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
            _plain(axes, "test top-1")
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
        _plain(axes, metric)
        axes.set_xticks(range(len(sets)), [name.replace("+", "\n+ ") for name in sets])
        axes.set_xlim(-0.5, len(sets) - 0.5)
        legend(figure, marks, [short(row, 22) for row in rows])

    return draw(f"points-{metric}", metric, f"{words}.", paint, height=3.0)


def _plain(axes: Axes, label: str) -> None:
    axes.set_ylabel(label)
    axes.locator_params(axis="y", nbins=5)
    axes.tick_params(bottom=False, left=False)
    axes.grid()
