"""Commands that run a task by its name, also one of a plug-in, and those of a paper's table."""

from __future__ import annotations

import logging
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, Token

from admire.apps.cli import options as opt
from admire.apps.cli.output import print_account, print_forecasts, print_json, print_rows
from admire.apps.cli.paper_tables import Format, print_table
from admire.apps.cli.parameters import convert
from admire.core import registry
from admire.core.choices import not_among
from admire.core.errors import UserError

log = logging.getLogger("admire")


def task(
    name: Annotated[str, Parameter(completer=partial(opt.complete_name, "task"))],
    data: str,
    /,
    *,
    set_: Annotated[list[str] | None, Parameter("--set")] = None,
    json: opt.Json = False,
) -> None:
    """Run a task: rank, score, sense, detect, retrieve, sts, or one of a plug-in.

    Args:
        name: Name of the task, as admire plugins task lists them.
        data: File or folder that the task reads.
        set_: FIELD=VALUE, a setting of the task. Repeat for several.

    Examples:
        admire task sense my_set/ --set out=my_senses.tsv --json
    """
    from admire.tasks.task import Result, Task, field_types

    plugin = registry.find("task", name)
    task: Task = plugin.open()
    types, values = field_types(task.settings), {}
    for entry in set_ or ():
        field, _, value = entry.partition("=")
        if field not in types:
            raise UserError(f"The field of {name} {not_among(field, [*types])}", "set")
        values[field] = convert(types[field], [Token(keyword=f"--{field}", value=value)])
    with plugin.blamed(data):
        (result,) = registry.checked(task, [task.run(data, values)], Result)
    if json:
        record = {field.name: getattr(result, field.name) for field in fields(Result)}
        print_json(record | {"files": [str(path) for path in result.files]})
    elif result.figures:
        print_rows(
            [*result.figures[0]], [[*row.values()] for row in result.figures], f"{name}, {data}"
        )


@dataclass(frozen=True, kw_only=True)
class RecipeModels:
    """Which models the rows of a recipe may use."""

    llm: Annotated[tuple[str, ...], Parameter(completer=partial(opt.complete_name, "chat"))] = ()
    stand_in: bool = False
    trust_remote_code: bool = False


def reproduce(
    recipe: str | None = None,
    /,
    *,
    data: str | None = None,
    out: Path | None = None,
    rows: list[str] | None = None,
    models: Annotated[RecipeModels, Parameter("*")] = RecipeModels(),
    dry_run: opt.DryRun = False,
    format: Format = None,
    json: opt.Json = False,
) -> None:
    """Reproduce a table of a paper, row by row, and compare it with what was published.

    Without a recipe, list all of them with what they need. If the command is interrupted, run it
    again to resume. A row that lacks data, a key or a model says so, and the others run; if no row
    can run, the exit code is 2.

    Args:
        recipe: Name of a recipe, such as uor-ncl:2, or a TOML file of your own.
        data: Folder of the data; for retrieval a benchmark's folder, or a dataset on the hub.
        out: Folder for runs, table.csv and table.html (default: runs/ and the recipe's name).
        rows: Row to run, by its name or number (default: all). Repeat for several.
        models.llm: Chat model in place of the rows' own, named as for rank (openai:MODEL,
            recorded:FILE, embedded, …). The table marks these rows. Repeat for several.
        models.stand_in: Substitute embedded models for unavailable ones. The table marks these
            rows.
        models.trust_remote_code: Run custom code from the models of rows that need it, with your
            user's permissions.

    Examples:
        admire reproduce uor-ncl:2 --data FOLDER --llm openai:gpt-6.1-sol --dry-run
        admire reproduce my_table.toml --data shared/data/admire_en --format latex
    """
    from admire.apps.reproduce.table import brief, forecast, list_recipes, read_jobs, run_jobs

    if recipe is None:
        lists = list_recipes(data)
        if json:
            return print_json(lists)
        texts = [
            (
                entry["recipe"],
                f"{entry['table']}: {entry['title']}",
                f"{entry['ready']} of {entry['to_run']}",
                "\n".join(brief(entry["needs"])),
            )
            for entry in lists
        ]
        title = "admire reproduce RECIPE --data FOLDER"
        return print_rows(("Recipe", "Table", "Rows ready", "Needs"), texts, title)
    table, jobs = read_jobs(recipe, data, rows or (), models.llm, stand_in=models.stand_in)
    if dry_run:
        return print_forecasts(forecast([entry for entry in jobs if entry[0].run]), json=json)

    from admire.apps.reproduce.results import paper_table, result_table, wide_table

    out = out or Path("runs", Path(recipe).stem.replace(":", "-"))
    cells = run_jobs(
        table,
        jobs,
        out,
        trusts=models.trust_remote_code,
        seen=lambda result: print_account(result.record.get("asked", ())),
    )
    figures = result_table(table, cells)
    if json:
        print_json({"figures": figures})
    elif format:
        print_table(*paper_table(table, figures, [job for *_, job in jobs]), format)
    else:
        wide = map(list, wide_table(table, figures).itertuples(index=False, name=None))
        headings = ("Row", "Set", "n", *table.metrics, "Note")
        print_rows(headings, wide, f"{table.paper}, {table.table}: {table.title}")
    for difference in table.differs:
        log.info("Differs from the paper: %s", difference)
    if not any(cell.ran for cell in cells):
        raise UserError("No row could run. The notes in the table say why.")
