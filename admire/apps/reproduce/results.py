"""What came out beside what was published: as a table, a CSV and a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from admire.apps.report.report import Plot, Report, Table, render
from admire.apps.reproduce.recipe import Recipe
from admire.core.storage import write_whole
from admire.metrics.figures import NOTHING, figure_text

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
        figures: what came out; none where it did not run.
        minus_first: its paired differences from the first row of the set that ran.
        n: how many items, pairs or queries the figures are of.
        note: why it did not run or has no figures, or which models replace which.
        stand_in: whether other models replace those of the recipe.
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
    """Return a row for each cell and metric, with these columns.

    :data:`COLUMNS`: deviation is that over the seeds of a training, difference is ours minus
    published, and minus_first is that of :class:`Cell`. A figure that is not known is NaN.
    """
    unknown = (float("nan"),) * 4
    rows = []
    for cell in cells:
        for k, metric in enumerate(recipe.metrics):
            ours = cell.figures.get(metric, unknown)
            published = cell.published[k] if cell.published else unknown[0]
            compared = published, ours[0] - published, *cell.minus_first.get(metric, unknown[:3])
            of = recipe.paper, recipe.table, cell.row, cell.set, metric, cell.n
            rows.append((*of, *ours, *compared, cell.stand_in, cell.note))
    return pd.DataFrame(rows, columns=COLUMNS)


def cell_text(figure: pd.Series, decimals: int = 3) -> str:
    """Return a figure's text: ours with its interval, the paper's, and how far ours differs.

    Args:
        figure: a row of :func:`result_table`.
        decimals: of the paper's figures.
    """
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


def write_results(
    recipe: Recipe, table: pd.DataFrame, folder: Path, plots: Sequence[Plot] = ()
) -> list[Path]:
    """Write ``table.csv`` and ``table.html`` into a folder, and return their paths.

    Raises:
        UserError: they cannot be written.
    """
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
