"""The commands: parse, call, print. Data goes to stdout, messages to stderr."""

from __future__ import annotations

import errno
import logging
import os
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib import metadata
from inspect import cleandoc
from typing import Any

from cyclopts import App, CycloptsError, Group, Parameter
from pydantic import ValidationError

from admire.apps.cli import options as opt
from admire.apps.cli.augment import augment_captions, augment_images
from admire.apps.cli.collections import index, search
from admire.apps.cli.config import config
from admire.apps.cli.head import sweep, train_head
from admire.apps.cli.models import cache, check_model, list_models, pull
from admire.apps.cli.pages import report, serve
from admire.apps.cli.plugins import plugins
from admire.apps.cli.rank import batch, demo, fuse, one, rank, score, submit
from admire.apps.cli.reproduce import reproduce
from admire.apps.cli.retrieval import benchmark, retrieve, train_retriever
from admire.apps.cli.senses import detect, sense, train_classifier, train_detector
from admire.apps.cli.sets import audit, check, init
from admire.apps.cli.streams import BROKEN_PIPE, flush_stdout, reader_left
from admire.apps.cli.sts import sts, train_sentences
from admire.apps.cli.task import task
from admire.apps.cli.tuning import tune, tune_fusion
from admire.core.errors import DISTRIBUTION, UserError
from admire.core.schema import complaint
from admire.core.storage import cache_dir
from admire.core.terminal import Formatter, visible

log = logging.getLogger("admire")

RANK = Group("Rank and inspect", sort_key=1)
TEXTS = Group("Texts", sort_key=2)
LEARN = Group("Train and tune", sort_key=3)
MODELS = Group("Models", sort_key=4)
COMMANDS = {
    RANK: (
        *(demo, init, check, rank, one, batch, config, score, submit, fuse, audit),
        *(report, sense, serve),
    ),
    TEXTS: (search, index, retrieve, benchmark, sts, detect),
    LEARN: (tune, tune_fusion, sweep, reproduce, task),
}
REMEMBERED = 1_000
"""How many warnings are remembered, so that each is printed once; a server may run for long."""

HELP = ("--help", "-h", "--help-all")

app = App(
    "admire",
    help="Disambiguate idiomatic compounds and rank images or texts by the intended sense.",
    version=lambda: metadata.version(DISTRIBUTION),
    help_flags=HELP,
    help_format="plaintext",
    help_epilogue="Examples:\n    admire demo\n    admire init my_set/ pictures/",
    default_parameter=Parameter(converter=opt.convert, negative=(), show_default=opt.show_default),
    group_commands=Group("Commands", sort_key=9),
    group_parameters=opt.OWN,
    print_error=False,
    exit_on_error=False,
    suppress_keyboard_interrupt=False,
)


def add(parent: App, command: Callable[..., None], **how: Any) -> None:
    """Add a command; its help is its docstring, without line breaks in sentences.

    The section Examples is moved below the options.
    """
    text, _, examples = cleandoc(command.__doc__ or "").partition("\n\nExamples:\n")
    command.__doc__ = re.sub(r"(?<=\S)\n(?: {8,})?(?=\S)", " ", text)
    parent.command(command, help_epilogue=f"Examples:\n{examples}", **how)


for panel, commands in COMMANDS.items():
    for order, command in enumerate(commands):
        add(app, command, group=panel, sort_key=order)

train = App("train", help="Train heads, detectors and encoders.", group=LEARN, sort_key=98)
variants = App("augment", help="Create variants of images and captions.", group=LEARN, sort_key=99)
catalogue = App("models", help="List, download and test models.", group=MODELS)
add(app, cache, group=MODELS)
add(app, plugins, group=MODELS)
for group, example in (
    (train, "train head train.tsv --out my_head/"),
    (variants, "augment images pictures/ --out variants/"),
    (catalogue, "models\n    admire models pull sight"),
):
    group.help_flags, group.help_epilogue = HELP, f"Examples:\n    admire {example}"
    app.command(group)
add(train, train_head, name="head", sort_key=0)
add(train, train_detector, name="detector", sort_key=1)
add(train, train_classifier, name="classifier", sort_key=2)
add(train, train_sentences, name="sentences", sort_key=3)
add(train, train_retriever, name="retriever", sort_key=4)
add(variants, augment_images, name="images", sort_key=0)
add(variants, augment_captions, name="captions", sort_key=1)
catalogue.default(list_models)
add(catalogue, pull)
add(catalogue, check_model, name="check")
add(app, tune_fusion, name="weights", show=False)  # its former name
app.register_install_completion_command()


def run(arguments: Sequence[str] | None = None) -> None:
    """Run a command. An error that the user can fix ends it with one message and exit code 2.

    Every command ends here. Buffered output is printed before the message.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    handler = logging.StreamHandler()
    handler.setFormatter(Formatter())
    handler.addFilter(_new_warnings())
    log.handlers = [handler]
    log.setLevel(logging.INFO)
    # Without a handler, open_clip's first message would make logging add its own, which would
    # repeat our messages.
    logging.getLogger().addHandler(logging.NullHandler())
    opt.EVERYTHING.set("--help-all" in words)
    code: str | int | None = 0
    problems = []
    try:
        _run(words)
    except SystemExit as stopped:
        code = stopped.code
    except (UserError, CycloptsError, OSError, RecursionError, MemoryError) as error:
        problems.append(_as_user_error(error))
    unprinted = flush_stdout()
    if reader_left(unprinted):
        sys.exit(BROKEN_PIPE)
    if unprinted:
        problems.insert(0, _of_the_system(unprinted, "stdout: cannot be written"))
    for problem in problems:
        print(visible(f"admire: {problem}{opt.flags(problem)}"), file=sys.stderr)
    sys.exit(2 if problems else code)


def _new_warnings() -> Callable[[logging.LogRecord], bool]:
    """Return a filter of log messages that lets each warning pass once."""
    printed: set[str] = set()

    def is_new(record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if record.levelno < logging.WARNING:
            return True
        if len(printed) == REMEMBERED:
            printed.clear()
        fresh = message not in printed
        printed.add(message)
        return fresh

    return is_new


def _run(words: Sequence[str]) -> None:
    for word in words:
        if "\0" in word:
            raise UserError(f"'{word}': contains a NUL character. Remove it.")
        if any("\udc80" <= sign <= "\udcff" for sign in word):  # how Python stores invalid bytes
            raise UserError(f"'{word}': is not UTF-8. Rename the file, or write the text in UTF-8.")
    if words and words[0] in {name for name, *_ in opt.PLUGGED}:
        opt.add_plugin_settings()
    try:
        app(words)
    except ValueError as error:
        if "embedded null" not in str(error):
            raise
        raise UserError("A file name contains a NUL character. Remove it.") from error


def _as_user_error(error: Exception) -> UserError:
    """Return an error that is not a bug as one sentence for the user."""
    if isinstance(error, UserError):
        return error
    if isinstance(error, CycloptsError):
        return _of_the_parser(error)
    if isinstance(error, OSError):
        return _of_the_system(error)
    if isinstance(error, RecursionError):
        return UserError("A file is nested too deeply to be parsed.")
    why = f" ({error})" if str(error) else ""
    return UserError(f"Not enough memory{why}. Close other programs, or use less data.")


def _of_the_parser(error: CycloptsError) -> UserError:
    """Return an error of the parser. Invalid values are worded as in Python and in files."""
    cause = error.__cause__
    if error.argument and isinstance(cause, ValidationError):
        name = error.argument.field_info.name
        return UserError(f"{name} {complaint(cause)}", name)
    return UserError(str(error))


CURES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "Free space on its disk."),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "Check its permissions."),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "Allow more open files (ulimit -n)."),
    errno.ENAMETOOLONG: "Choose a shorter name.",
    errno.EBADF: "It is closed.",
}
"""What to do about errors of the operating system, by error number."""


def _of_the_system(error: OSError, message: str = "") -> UserError:
    """Return an error of the operating system, with a message or with the files that it names."""
    files = filter(None, (error.filename, error.filename2))
    paths = [os.fsdecode(file) for file in files if not isinstance(file, int)]
    place = " and ".join(dict.fromkeys(paths)) or "A file or connection"
    if not paths and error.errno in (errno.ENOSPC, errno.EDQUOT):  # libraries write there
        place = f"{tempfile.gettempdir()} or {cache_dir()}"
    reason = error.strerror or str(error) or type(error).__name__
    cure = CURES.get(error.errno or 0, "")
    return UserError(f"{message or f'{place}: cannot be used'} ({reason}). {cure}".strip())
