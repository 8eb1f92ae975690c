"""Commands that list, fetch and check models."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from admire.base.errors import UserError
from admire.base.terminal import cell
from admire.cli import options as opt
from admire.cli.output import print_json, print_rankings, print_rows, print_table
from admire.rankers.settings import Settings


def list_models(*, json: opt.Json = False) -> None:
    """List models with size and licence: which are here, and how to get the others."""
    from rich.table import Table

    from admire.models.catalogue import MODELS

    if json:
        keys = ("name", "what", "size", "licence", "commercial")
        print_json([{k: getattr(m, k) for k in keys} | {"here": m.status()} for m in MODELS])
        return
    table = Table()
    table.add_column("Name", no_wrap=True, overflow="fold")
    for heading in ("What it is", "Size", "Licence", "Here?"):
        table.add_column(heading, overflow="fold")
    for model in MODELS:
        licence = model.licence if model.commercial else f"{model.licence}\nnot commercially"
        row = (model.name, model.what, model.size, licence, model.status())
        table.add_row(*(cell(*text.split("\n")) for text in row))
    print_table(table)


def pull(name: Annotated[str, Parameter(completer=opt.model_names())], /) -> None:
    """Fetch or assemble a model now, before its first use.

    Models of the hub need the extra clip.

    Args:
        name: A name from the list.

    Examples:
        admire models pull sight
    """
    from admire.models.catalogue import find_model

    model = find_model(name)
    if model.pull is None:
        raise UserError(f"There is nothing to fetch for {model.name} (here: {model.status()}).")
    print(model.pull(name))


@opt.with_settings("models check", (Settings, "llm_url"))
def check_model(name: str, /, *, options: opt.Options = None) -> None:
    """Try a model on the samples: whether it is installed, what it answers, and how fast.

    A chat model gets a question of each kind, an encoder ranks candidates by their sentences.
    Downloads missing files.

    Needs what the model needs: the list says which extra.

    Args:
        name: A chat model or an encoder, as options take them.

    Examples:
        admire models check embedded
    """
    from admire.audit.model_check import check_chat, check_encoder
    from admire.models.llm import FAMILIES

    if name.partition(":")[0] in FAMILIES:
        marks = {True: "yes", False: "no", None: "–"}
        replies = [
            (row.kind, marks[row.right], row.text, row.tokens or "–", f"{row.seconds:.1f}")
            for row in check_chat(name, url=opt.make(Settings, options).llm_url)
        ]
        print_rows(("Question", "Right", "Understood", "Tokens", "Seconds"), replies, name)
        return
    run, speeds = check_encoder(name)
    print_rankings(run.rankings, len(run.rankings))
    rows = [(speed.kind, speed.count, speed.width, f"{speed.seconds:.2f}") for speed in speeds]
    print_rows(("Encoded", "Number", "Dimensions", "Seconds"), rows, name)
