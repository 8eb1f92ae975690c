"""Running a recipe: its rows on their sets, what they need and would ask, and its page."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from admire.apps.report.plots import BAD, GOOD, MARKERS, MUTED, RUNS, draw, legend, short
from admire.apps.report.report import Plot
from admire.apps.reproduce.recipe import Recipe
from admire.apps.reproduce.results import Cell
from admire.core.choices import nearest
from admire.core.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

    from admire.apps.reproduce.recipe import Recipe, Row
    from admire.apps.reproduce.results import Cell
    from admire.apps.reproduce.rows import Job
    from admire.pipeline.forecast import Forecast
    from admire.tasks.task import Result

    Jobs = Sequence[tuple[Row, str, Job]]
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

log = logging.getLogger("admire")


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


def reproduce_table(
    recipe: str | Path,
    data: str | Path | None,
    out: str | Path,
    *,
    rows: Sequence[str] = (),
    llms: Sequence[str] = (),
    stand_in: bool = False,
    trust_remote_code: bool = False,
) -> pd.DataFrame:
    """Run the rows of a recipe, as ``admire reproduce`` does, and compare them with the paper's.

    ``out`` gets the runs, and after each row ``table.csv`` and ``table.html``. What came out there
    before is read, not run again.

    Args:
        recipe: its name, such as ``uor-ncl:2``, or a TOML file of your own.
        data: the folder of the data; for retrieval a benchmark, which may be one on the hub.
        rows: names or numbers of rows; empty runs all.
        llms: names of chat models, as for :func:`admire.rank`, in place of the rows' own.
        stand_in: substitute embedded models for unavailable ones.
        trust_remote_code: run custom code from the models of rows that need it.

    Returns:
        What ``table.csv`` has, a row for each row, set and metric: see
        :func:`admire.apps.reproduce.results.result_table`.

    Raises:
        UserError: there is no such recipe, row or chat model, a setting is wrong, or ``out`` cannot
            be written. What a row lacks is in its column ``note``.
    """
    from admire.apps.reproduce.results import result_table

    folder = None if data is None else str(data)
    table, jobs = read_jobs(str(recipe), folder, rows, llms, stand_in=stand_in)
    return result_table(table, run_jobs(table, jobs, Path(out), trusts=trust_remote_code))


def read_jobs(
    name: str, data: str | None, rows: Sequence[str], llms: Sequence[str], *, stand_in: bool
) -> tuple[Recipe, Jobs]:
    """Read a recipe, and check the rows that were chosen on each of their sets."""
    from admire.apps.reproduce.models import check_llms, put_llms, put_stand_ins
    from admire.apps.reproduce.recipe import read_recipe
    from admire.apps.reproduce.rows import prepare

    recipe = read_recipe(name)
    jobs = [
        (row, place, prepare(recipe, row, place, data, name))
        for row in _choose(recipe, rows)
        for place in recipe.sets_of(row)
    ]
    decide = check_llms(llms)
    for job in (job for row, _, job in jobs if row.run):
        if llms:
            put_llms(job, llms, decide=decide)
        if stand_in:
            put_stand_ins(job)
    return recipe, jobs


def _choose(recipe: Recipe, names: Sequence[str]) -> list[Row]:
    """Return the rows with these names or numbers; all if there are none."""
    by_name = {recipe.name_of(row): row for row in recipe.rows}
    by_name |= {str(number): row for number, row in enumerate(recipe.rows, start=1)}
    for name in names:
        if name not in by_name:
            raise UserError(
                f"There is no row '{name}'.{nearest(name, list(by_name))} The rows are: "
                f"{'; '.join(map(recipe.name_of, recipe.rows))}.",
                "rows",
            )
    return [by_name[name] for name in names] if names else list(recipe.rows)


def run_jobs(
    recipe: Recipe,
    jobs: Jobs,
    out: Path,
    *,
    trusts: bool,
    seen: Callable[[Result], None] = lambda result: None,
) -> list[Cell]:
    """Run rows on their sets; what has come out is written after each.

    Args:
        trusts: whether code of the models' repositories may run.
        seen: is called with each result that a task made.
    """
    from admire.apps.reproduce import rows
    from admire.apps.reproduce.models import missing_models
    from admire.apps.reproduce.results import TABLE, Cell, result_table, write_results
    from admire.core.storage import check_place, only_writer

    cells: list[Cell] = []
    firsts: dict[str, rows.Items] = {}
    check_place(out / TABLE)
    with only_writer(out):
        for number, (row, place, job) in enumerate(jobs, start=1):
            name = recipe.name_of(row)
            cell = Cell(name, place, row.published.get(place, ()), note=row.why)
            cells.append(cell)
            if not row.run:
                continue
            lacking = [*chain(*job.lacking.values()), *missing_models(job, download=True).values()]
            if not trusts and (job.options | job.measured).get("trust_remote_code"):
                lacking.append("--trust-remote-code, because its model brings code")
            if lacking:
                cell.note = f"needs {', '.join(lacking)}"
                continue
            log.info("%d of %d: %s, %s", number, len(jobs), name, place)
            cell.stand_in, cell.note = bool(job.instead), job.instead and f"stand-in: {job.instead}"
            folder = out / _slug(name) / _slug(place)
            try:
                cell.figures, cell.n, items = rows.run(job, folder, out / "models", seen)
                cell.ran = True
                cell.epochs = epochs if (epochs := folder / "epochs.csv").is_file() else None
                first = firsts.setdefault(place, items)
                if first and items and first is not items:
                    cell.minus_first = rows.minus_first(first, items, job.metrics)
                if not cell.figures:
                    cell.note = f"{cell.note}; no gold, so no figures".removeprefix("; ")
            except UserError as error:
                cell.note = f"did not run: {error}"
                log.warning("%s, %s: %s", name, place, error)
            write_results(recipe, result_table(recipe, cells), out)
        plots = draw_pictures(recipe, cells)
        for path in write_results(recipe, result_table(recipe, cells), out, plots):
            log.info("Wrote %s", path)
    return cells


def _slug(name: str) -> str:
    """Return a name as the name of a folder."""
    return "".join(letter if letter.isalnum() or letter in "-." else "_" for letter in name)


def list_recipes(data: str | None) -> list[dict[str, Any]]:
    """Return each recipe with what its rows need, and how many of them have it here."""
    from admire.apps.reproduce.models import missing_models
    from admire.apps.reproduce.recipe import read_recipe, recipe_names
    from admire.apps.reproduce.rows import prepare

    lists: list[dict[str, Any]] = []
    for name in recipe_names():
        recipe = read_recipe(name)
        rows: list[list[str]] = []
        for row in (row for row in recipe.rows if row.run):
            jobs = [prepare(recipe, row, place, data, name) for place in recipe.sets_of(row)]
            lacking = ([*job.lacking.values(), missing_models(job).values()] for job in jobs)
            rows.append([*chain(*chain(*lacking))])
        lists.append(
            {
                "recipe": name,
                "paper": recipe.paper,
                "table": recipe.table,
                "title": recipe.title,
                "rows": len(recipe.rows),
                "to_run": len(rows),
                "ready": sum(not needs for needs in rows),
                "needs": list(dict.fromkeys(chain(*rows))),
            }
        )
    return lists


def brief(needs: Sequence[str]) -> list[str]:
    """Return needs in few lines: the first files, and the reasons why models are not here."""
    files = [need for need in needs if not need.endswith(")")]
    reasons = Counter(
        need.rpartition(" (")[2].removesuffix(")") for need in needs if need not in files
    )
    more = [f"and {len(files) - 3} more files"] if len(files) > 3 else []
    return [*files[:3], *more, *(f"{reason} ({count})" for reason, count in reasons.items())]


def forecast(jobs: Jobs) -> list[Forecast]:
    """Count what chat models would be asked for all rows; what rows share is counted once.

    Raises:
        UserError: no row can be counted.
    """
    from admire.apps.reproduce.rows import rehearse
    from admire.pipeline.forecast import DryRun

    session, uncounted = DryRun(), Counter[str]()
    asking = [entry for entry in jobs if entry[2].models("chat")]
    for *_, job in asking:
        try:
            if needs := brief(job.lacking[""]):
                raise UserError(f"data are missing ({', '.join(needs)})")
            rehearse(job, session)
        except UserError as error:
            uncounted[str(error).rstrip(".")] += 1
    if not jobs or (asking and uncounted.total() == len(asking)):
        reason = next(iter(uncounted), "admire runs none of them")
        raise UserError(f"No row can be counted: {reason}.")
    text = "%d of %d runs that ask a chat model are not counted: %s."
    for reason, count in uncounted.items():
        log.warning(text, count, len(asking), reason)
    return session.forecasts()
