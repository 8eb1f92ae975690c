"""The commands: parse, call, print. Data goes to stdout, messages to stderr."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from admire.base.errors import UserError
from admire.base.terminal import Formatter, visible
from admire.cli import (
    audit,
    augment,
    batch,
    check,
    collections,
    config,
    head,
    models,
    rank,
    report,
    retrieval,
    senses,
    serve,
    sts,
    submit,
)
from admire.cli import options as opt
from admire.cli.panels import Panelled, PanelledTraining

log = logging.getLogger("admire")

RANK, TEXTS, LEARN, MODELS = "Rank and see", "Texts", "Learn", "Models"


app = typer.Typer(
    help="Decide which sense of a compound is meant, say what it means, rank images and texts.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command, panel in (
    (rank.demo, RANK),
    (check.check, RANK),
    (rank.rank, RANK),
    (batch.batch, RANK),
    (config.config, RANK),
    (rank.score, RANK),
    (submit.submit, RANK),
    (rank.fuse, RANK),
    (audit.audit, RANK),
    (report.report, RANK),
    (senses.sense, RANK),
    (serve.serve, RANK),
    (collections.search, TEXTS),
    (collections.index, TEXTS),
    (retrieval.retrieve, TEXTS),
    (retrieval.benchmark, TEXTS),
    (sts.sts, TEXTS),
    (senses.detect, TEXTS),
    (rank.tune, LEARN),
    (rank.weights, LEARN),
    (head.sweep, LEARN),
):
    kinds = {rank.rank: Panelled, batch.batch: Panelled, head.sweep: PanelledTraining}
    app.command(rich_help_panel=panel, cls=kinds.get(command))(command)

train = typer.Typer(help="Learn from data: heads, detectors, encoders.", no_args_is_help=True)
app.add_typer(train, name="train", rich_help_panel=LEARN)
train.command("head", cls=PanelledTraining)(head.train_head)
train.command("detector")(senses.train_detector)
train.command("classifier")(senses.train_classifier)
train.command("sentences", cls=PanelledTraining)(sts.train_sentences)
train.command("retriever", cls=PanelledTraining)(retrieval.train_retriever)

variants = typer.Typer(help="Make variants of images and captions.", no_args_is_help=True)
app.add_typer(variants, name="augment", rich_help_panel=LEARN)
variants.command("images")(augment.augment_images)
variants.command("captions")(augment.augment_captions)

known = typer.Typer(help="List the models, fetch one, or try one.", invoke_without_command=True)
app.add_typer(known, name="models", rich_help_panel=MODELS)
known.callback()(models.list_models)
known.command()(models.pull)
known.command()(models.check)


def _print_version(wanted: bool) -> None:
    if wanted:
        from admire import __version__

        print(__version__)
        raise typer.Exit


@app.callback()
def _start(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(Formatter("%(message)s"))
    log.handlers = [handler]
    log.setLevel(logging.INFO)
    # Without a handler there, open_clip's first message would make logging set up one of its own,
    # which repeats ours.
    logging.getLogger().addHandler(logging.NullHandler())


def run(arguments: Sequence[str] | None = None) -> None:
    """Run a command; a user's error ends with one message and exit code 2."""
    try:
        app(arguments)
    except UserError as error:
        print(visible(f"admire: {error}{opt.flags(error)}"), file=sys.stderr)
        sys.exit(2)
