"""The commands: parse, call, print. Data goes to stdout, messages to stderr."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence

from cyclopts import App, CycloptsError, Group, Parameter
from pydantic import ValidationError

from admire.base.errors import UserError
from admire.base.schema import complaint
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
    tuning,
)
from admire.cli import options as opt

log = logging.getLogger("admire")


def _version() -> str:
    """Return the version, which is looked up only if it is asked for."""
    from admire import __version__

    return __version__


RANK = Group("Rank and see", sort_key=1)
TEXTS = Group("Texts", sort_key=2)
LEARN = Group("Learn", sort_key=3)
MODELS = Group("Models", sort_key=4)

HELP = ("--help", "-h", "--help-all")

app = App(
    "admire",
    help="Decide which sense of a compound is meant, say what it means, rank images and texts.",
    version=_version,
    help_flags=HELP,
    help_format="plaintext",
    default_parameter=Parameter(converter=opt.convert, negative=(), show_default=opt.show_default),
    group_commands=Group("Commands", sort_key=9),
    group_parameters=opt.OWN,
    print_error=False,
    exit_on_error=False,
    suppress_keyboard_interrupt=False,
)
COMMANDS: tuple[tuple[Callable[..., None], Group], ...] = (
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
    (tuning.tune, LEARN),
    (tuning.weights, LEARN),
    (head.sweep, LEARN),
)
for order, (command, panel) in enumerate(COMMANDS):
    app.command(command, group=panel, sort_key=order)

train = App("train", help="Learn from data: heads, detectors, encoders.", group=LEARN, sort_key=98)
variants = App("augment", help="Make variants of images and captions.", group=LEARN, sort_key=99)
catalogue = App("models", help="List the models, fetch one, or try one.", group=MODELS)
for group in (train, variants, catalogue):
    group.help_flags = HELP
    app.command(group)
train.command(head.train_head, name="head", sort_key=0)
train.command(senses.train_detector, name="detector", sort_key=1)
train.command(senses.train_classifier, name="classifier", sort_key=2)
train.command(sts.train_sentences, name="sentences", sort_key=3)
train.command(retrieval.train_retriever, name="retriever", sort_key=4)
variants.command(augment.augment_images, name="images", sort_key=0)
variants.command(augment.augment_captions, name="captions", sort_key=1)
catalogue.default(models.list_models)
catalogue.command(models.pull)
catalogue.command(models.check)
app.register_install_completion_command()


def run(arguments: Sequence[str] | None = None) -> None:
    """Run a command; a user's error ends with one message and exit code 2."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    handler = logging.StreamHandler()
    handler.setFormatter(Formatter("%(message)s"))
    log.handlers = [handler]
    log.setLevel(logging.INFO)
    # Without a handler there, open_clip's first message would make logging set up one of its own,
    # which repeats ours.
    logging.getLogger().addHandler(logging.NullHandler())
    opt.EVERYTHING.set("--help-all" in words)
    try:
        app(words)
    except (UserError, CycloptsError) as error:
        problem = error if isinstance(error, UserError) else _as_user_error(error)
        print(visible(f"admire: {problem}{opt.flags(problem)}"), file=sys.stderr)
        sys.exit(2)


def _as_user_error(error: CycloptsError) -> UserError:
    """Return an error of the parser; a wrong value is worded as in Python and files."""
    cause = error.__cause__
    if error.argument and isinstance(cause, ValidationError):
        name = error.argument.field_info.name
        return UserError(f"{name} {complaint(cause)}", name)
    return UserError(str(error))
