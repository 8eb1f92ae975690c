"""The command line: parse, call, print. Data goes to stdout, messages to stderr."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

import typer

from admire.cli import augment, head, models, rank, retrieval, senses, sts
from admire.errors import UserError

log = logging.getLogger("admire")

app = typer.Typer(
    help="Decide which sense of a compound is meant, say what it means, rank images and captions.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
models_app = typer.Typer(help="List the models, or fetch one.", invoke_without_command=True)
app.add_typer(models_app, name="models")
augment_app = typer.Typer(
    help="Make variants of images and captions to train on.", no_args_is_help=True
)
app.add_typer(augment_app, name="augment")
finetune_app = typer.Typer(help="Fine-tune sentence encoders.", no_args_is_help=True)
app.add_typer(finetune_app, name="finetune")
models_app.callback()(models.list_models)
models_app.command()(models.pull)
augment_app.command("images")(augment.augment_images)
augment_app.command("captions")(augment.augment_captions)
finetune_app.command("retrieval")(retrieval.finetune_retrieval)
finetune_app.command("sentences")(sts.finetune_sentences)
finetune_app.command("detector")(senses.finetune_detector)
for command in (
    rank.demo,
    rank.rank,
    senses.sense,
    rank.score,
    rank.tune,
    head.train,
    head.sweep,
    senses.detector,
    senses.detect,
    retrieval.search,
    retrieval.index,
    retrieval.retrieve,
    retrieval.benchmark,
    sts.sts,
):
    app.command()(command)


@app.callback()
def _messages() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    log.handlers = [handler]
    log.setLevel(logging.INFO)
    # Without a handler there, open_clip's first message would make logging set up one of its own,
    # which repeats ours.
    logging.getLogger().addHandler(logging.NullHandler())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line: a user's error ends with one message and exit code 2."""
    try:
        app(arguments)
    except UserError as error:
        print(f"admire: {error}", file=sys.stderr)
        sys.exit(2)
