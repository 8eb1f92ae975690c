"""Running a recipe: its rows on their sets, and what they need and would ask."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from admire.core import registry
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

log = logging.getLogger("admire")


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
        What ``table.csv`` has (:data:`admire.apps.reproduce.results.COLUMNS`).

    Raises:
        UserError: there is no such recipe, row or chat model, a setting is wrong, or ``out`` cannot
            be written. What a row lacks is in its column ``note``.
    """
    from admire.apps.reproduce.results import result_table

    place = None if data is None else str(data)
    table, jobs = read_jobs(str(recipe), place, rows, llms, stand_in=stand_in)
    return result_table(table, run_jobs(table, jobs, Path(out), trusts=trust_remote_code))


def read_jobs(
    name: str, data: str | None, rows: Sequence[str], llms: Sequence[str], *, stand_in: bool
) -> tuple[Recipe, Jobs]:
    """Read a recipe, and check the rows with these names or numbers, or all, on their sets."""
    from admire.apps.reproduce.recipe import read_recipe
    from admire.apps.reproduce.rows import prepare
    from admire.apps.reproduce.stand_ins import check_llms, put_llms, put_stand_ins

    recipe = read_recipe(name)
    by_name = {recipe.name_of(row): row for row in recipe.rows}
    by_name |= {str(number): row for number, row in enumerate(recipe.rows, start=1)}
    for row_name in rows:
        if row_name not in by_name:
            raise UserError(
                f"There is no row '{row_name}'.{nearest(row_name, list(by_name))} The rows are: "
                f"{'; '.join(map(recipe.name_of, recipe.rows))}.",
                "rows",
            )
    jobs = [
        (row, place, prepare(recipe, row, place, data, name))
        for row in (map(by_name.__getitem__, rows) if rows else recipe.rows)
        for place in recipe.sets_of(row)
    ]
    decide = check_llms(llms)
    for job in (job for row, _, job in jobs if row.run):
        if llms:
            put_llms(job, llms, decide=decide)
        if stand_in:
            put_stand_ins(job)
    return recipe, jobs


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
    import pandas as pd

    from admire.apps.reproduce import results, rows
    from admire.apps.reproduce.stand_ins import missing_models
    from admire.core.storage import check_place, only_writer
    from admire.metrics.figures import describe_ties

    cells: list[Cell] = []
    firsts: dict[str, rows.Items] = {}
    check_place(out / results.TABLE)
    with only_writer(out):
        for number, (row, place, job) in enumerate(jobs, start=1):
            name = recipe.name_of(row)
            cell = results.Cell(name, place, row.published.get(place, ()), note=row.why)
            cells.append(cell)
            if not row.run:
                continue
            missing = missing_models(job, download=True)
            lacking = [*chain(*job.lacking.values()), *missing.values()]
            if not trusts and (job.options | job.measured).get("trust_remote_code"):
                lacking.append("--trust-remote-code, because its model brings code")
            if lacking:
                cell.note = f"needs {', '.join(lacking)}"
                continue
            log.info("%d of %d: %s, %s", number, len(jobs), name, place)
            cell.stand_in, cell.note = bool(job.instead), job.instead and f"stand-in: {job.instead}"
            slugs = [re.sub(r"[^\w.-]", "_", text) for text in (name, place)]
            folder = out.joinpath(*slugs)
            try:
                cell.figures, cell.n, items = rows.run(job, folder, out / "models", seen)
                cell.ran = True
                cell.epochs = epochs if (epochs := folder / "epochs.csv").is_file() else None
                first = firsts.setdefault(place, items)
                if first and items and first is not items:
                    cell.minus_first = results.minus_first(first, items, job.metrics)
                ties = describe_ties(pd.DataFrame(items))
                cell.note = "; ".join(filter(None, (cell.note, ties)))
                if not cell.figures:
                    cell.note = f"{cell.note}; no gold, so no figures".removeprefix("; ")
            except UserError as error:
                cell.note = f"did not run: {error}"
                log.warning("%s, %s: %s", name, place, error)
            results.write_results(recipe, results.result_table(recipe, cells), out)
        plots, table = results.draw_pictures(recipe, cells), results.result_table(recipe, cells)
        for path in results.write_results(recipe, table, out, plots):
            log.info("Wrote %s", path)
    return cells


def list_recipes(data: str | None) -> list[dict[str, Any]]:
    """Return each recipe with what its rows need, and how many of them have it here."""
    from admire.apps.catalogue import lacks
    from admire.apps.reproduce.recipe import read_recipe, recipe_names
    from admire.apps.reproduce.rows import missing_pictures, prepare
    from admire.apps.reproduce.stand_ins import missing_models

    look = cache(lacks)  # rows share models
    lists: list[dict[str, Any]] = []
    for name in recipe_names():
        recipe = read_recipe(name)
        rows: list[list[str]] = []
        for row in (row for row in recipe.rows if row.run):
            try:
                jobs = [prepare(recipe, row, place, data, name) for place in recipe.sets_of(row)]
            except UserError as error:  # a key would go to the server that the recipe names
                rows.append([str(error)])
                continue
            lacking = (
                [*job.lacking.values(), missing_models(job, look=look).values()] for job in jobs
            )
            rows.append([*chain(*chain(*lacking)), *chain(*map(missing_pictures, jobs))])
        texts = {key: getattr(recipe, key) for key in ("paper", "table", "title")}
        counts = {"rows": len(recipe.rows), "to_run": len(rows), "ready": rows.count([])}
        needs = list(dict.fromkeys(chain(*rows)))
        lists.append({"recipe": name, **texts, **counts, "needs": needs})
    return lists


def brief(needs: Sequence[str]) -> list[str]:
    """Return needs in few lines: the first files, and the reasons why models are not here."""
    files = [need for need in needs if not need.endswith(")")]
    reasons = Counter(
        need.rpartition(" (")[2].removesuffix(")") for need in needs if need not in files
    )
    others = [f"and {len(files) - 3} more files"] if len(files) > 3 else []
    return [*files[:3], *others, *(f"{reason} ({count})" for reason, count in reasons.items())]


def forecast(jobs: Jobs) -> list[Forecast]:
    """Count what chat models would be asked for all rows; what rows share is counted once."""
    from admire.pipeline.forecast import DryRun

    session, uncounted = DryRun(), Counter[str]()
    asking = [entry for entry in jobs if entry[2].models("chat")]
    for *_, job in asking:
        try:
            if needs := brief(job.lacking[""]):
                raise UserError(f"data are missing ({', '.join(needs)})")
            with registry.blamed(job.task):
                if job.trains:
                    job.task.rehearse_training(job.train, job.options, session)
                for part in job.files:
                    job.task.rehearse(part, job.used(), session)
        except UserError as error:
            uncounted[str(error).rstrip(".")] += 1
    if not jobs or (asking and uncounted.total() == len(asking)):
        reason = next(iter(uncounted), "admire runs none of them")
        raise UserError(f"No row can be counted: {reason}.")
    text = "%d of %d runs that ask a chat model are not counted: %s."
    for reason, count in uncounted.items():
        log.warning(text, count, len(asking), reason)
    return session.forecasts()
