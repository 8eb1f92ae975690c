"""The command that runs a task by its name, also one of a plug-in."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated

from cyclopts import Parameter, Token

from admire.apps.cli import options as opt
from admire.apps.cli.app import convert
from admire.apps.cli.output import print_json, print_rows
from admire.core import registry
from admire.core.choices import not_among
from admire.core.errors import UserError


def task(
    name: Annotated[str, Parameter(completer=lambda _: registry.names("task"))],
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
        result = task.run(data, values)
    if json:
        record = {field.name: getattr(result, field.name) for field in fields(Result)}
        print_json(record | {"files": [str(path) for path in result.files]})
    elif result.figures:
        print_rows(
            [*result.figures[0]], [[*row.values()] for row in result.figures], f"{name}, {data}"
        )
