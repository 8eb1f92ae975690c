"""Commands that list and fetch models."""

from __future__ import annotations

from typing import Annotated

import typer

from admire.cli.output import print_table
from admire.errors import UserError


def list_models(context: typer.Context) -> None:
    """List models with size and licence: what is here, what is missing and how to get it."""
    if context.invoked_subcommand:
        return
    from rich.table import Table

    from admire.models import MODELS

    table = Table()
    table.add_column("Name", no_wrap=True, overflow="fold")
    for heading in ("What it is", "Size", "Licence", "Here?"):
        table.add_column(heading, overflow="fold")
    for model in MODELS:
        licence = model.licence if model.commercial else f"{model.licence}\nnot commercially"
        table.add_row(model.name, model.what, model.size, licence, model.status())
    print_table(table)


def pull(name: Annotated[str, typer.Argument(help="A name from the list.")]) -> None:
    """Fetch or assemble a model now, rather than at its first use."""
    from rich.console import Console
    from rich.progress import DownloadColumn, Progress

    from admire.models import find_model

    model = find_model(name)
    if model.pull is None:
        raise UserError(f"There is nothing to fetch for {model.name} (here: {model.status()}).")
    with Progress(
        *Progress.get_default_columns(), DownloadColumn(), console=Console(stderr=True)
    ) as bar:
        task = bar.add_task(f"Getting {name}", total=model.bytes)
        place = model.pull(name, lambda count: bar.advance(task, count))
    print(place)
