"""The commands: parse, call, print. Data goes to stdout, messages to stderr."""

from __future__ import annotations

import logging
import os
import re
import select
import sys
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from importlib import metadata
from inspect import cleandoc
from io import TextIOWrapper
from itertools import filterfalse
from pathlib import Path
from traceback import extract_tb
from typing import TextIO

from cyclopts import App, CycloptsError, Group, Parameter

from admire.apps.cli.parameters import HELP, OWN, convert, show_default
from admire.core.errors import DISTRIBUTION, UserError
from admire.core.progress import visible

log = logging.getLogger("admire")

RANK = Group("Rank and inspect", sort_key=1)
TEXTS = Group("Texts", sort_key=2)
LEARN = Group("Train and tune", sort_key=3)
MODELS = Group("Models", sort_key=4)
REMEMBERED = 1_000
"""How many warnings are remembered, so that each is printed once; a server may run for long."""
BROKEN_PIPE = 141
"""The exit code where the reader of stdout left, as ``head`` does: that of shells for SIGPIPE."""

REPORTED = (
    UserError,
    CycloptsError,
    OSError,
    UnicodeError,
    RecursionError,
    MemoryError,
    SystemExit,
)
"""Errors that are not bugs: they end in one line without a traceback."""


app = App(
    "admire",
    help="Disambiguate idiomatic compounds and rank images or texts by the intended sense.",
    version=lambda: metadata.version(DISTRIBUTION),
    help_flags=HELP,
    help_format="plaintext",
    help_epilogue="Examples:\n    admire demo\n    admire init my_set/ pictures/",
    default_parameter=Parameter(
        converter=convert, negative_bool=(), negative_iterable=(), show_default=show_default
    ),
    group_commands=Group("Commands", sort_key=9),
    group_parameters=OWN,
    print_error=False,
    exit_on_error=False,
    suppress_keyboard_interrupt=False,
)

COMMANDS = {
    RANK: "rank:demo sets:init sets:check rank:rank rank:one config:config score:score "
    "rank:submit rank:fuse sets:audit pages:report senses:sense pages:serve",
    TEXTS: "collections:search collections:index retrieval:retrieve sts:sts senses:detect",
    LEARN: "rank:tune rank:tune_fusion head:sweep task:reproduce task:task",
    MODELS: "models:cache models:plugins",
}
"""The commands by panel, as MODULE:FUNCTION."""


def add(parent: App, places: str, group: Group | None = None) -> None:
    """Add commands that are imported when they are used.

    The first line of a docstring is read from the source: to import all takes longer than to run.
    """
    for order, place in enumerate(places.split()):
        module, function = place.split(":")
        source = Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8")
        line = re.search(rf'^def {function}\(.+?"""(.+?)(\n\n|""")', source, re.M | re.S)
        parent.command(
            f"{__package__}.{place}",
            name=function.removeprefix(f"{parent.name[0]}_").replace("_", "-"),
            help=" ".join(line[1].split()) if line else "",
            group=group,
            sort_key=order,
        )


for panel, places in COMMANDS.items():
    add(app, places, panel)

train = App("train", help="Train heads, detectors and encoders.", group=LEARN, sort_key=98)
variants = App("augment", help="Create variants of images and captions.", group=LEARN, sort_key=99)
for group, example in (
    (train, "train head train.tsv --out my_head/"),
    (variants, "augment images pictures/ --out variants/"),
):
    group.help_flags, group.help_epilogue = HELP, f"Examples:\n    admire {example}"
    app.command(group)
add(
    train,
    "head:train_head senses:train_detector senses:train_classifier sts:train_sentences "
    "retrieval:train_retriever",
)
add(variants, "sets:augment_images sets:augment_captions")
app.command(
    f"{__package__}.models:app",
    name="models",
    help="List and download models.",
    group=MODELS,
    sort_key=0,
)
app.register_install_completion_command()


def load(words: Sequence[str]) -> None:
    """Import the command that these words begin with, and prepare its help.

    The help is the docstring, without line breaks in sentences. The section Examples is moved below
    the options.
    """
    names, apps, _ = app.parse_commands(list(filterfalse(HELP.__contains__, words)))
    command = apps[-1]
    function = command.default_command
    if not (function and function.__module__.startswith("admire.")):
        return
    from admire.apps.cli.options import add_options

    add_options(function, " ".join(names), everything="--help-all" in words)
    text, has_examples, examples = cleandoc(function.__doc__ or "").partition("\n\nExamples:\n")
    function.__doc__ = re.sub(r"(?<=\S)\n(?: {8,})?(?=\S)", " ", text)
    command.help = None
    if has_examples:
        command.help_epilogue = f"Examples:\n{examples}"


class _Handler(logging.StreamHandler[TextIO]):
    """Prints messages on one line each, with control characters escaped, and warnings once."""

    printed: deque[str]

    def emit(self, record: logging.LogRecord) -> None:
        message = visible(record.getMessage())
        if record.levelno < logging.WARNING or message not in self.printed:
            super().emit(logging.makeLogRecord(vars(record) | {"msg": message, "args": ()}))
        self.printed.append(message)


def run(arguments: Sequence[str] | None = None) -> None:
    """Run a command. An error that the user can fix ends it with one message and exit code 2.

    Every command ends here. Buffered output is printed before the message.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # characters that an encoding lacks are escaped
            stream.reconfigure(errors="backslashreplace")
    handler = _Handler()
    handler.printed = deque(maxlen=REMEMBERED)
    log.handlers = [handler]
    log.setLevel(logging.INFO)
    # Without one, open_clip's first message would make logging add its own, which repeats ours.
    logging.getLogger().addHandler(logging.NullHandler())
    code = 0
    problem: UserError | None = None
    try:
        load(words[1:] if words[:1] == ["__complete"] else words)
        app(words, result_action="return_value")
    except REPORTED as error:
        # Rich ends the process where the reader of stdout left.
        by_rich = isinstance(error, SystemExit) and isinstance(error.__context__, BrokenPipeError)
        if by_rich or (isinstance(error, BrokenPipeError) and _reader_left()):
            code = BROKEN_PIPE
        else:
            problem = _as_user_error(error)
    try:
        print(end="", flush=True)
    except OSError as error:
        # Python itself would try again at its end, and report that.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            sys.exit(BROKEN_PIPE)
        problem = _as_user_error(error)
    if problem:
        text = f"admire: {problem}"
        if problem.settings:
            from admire.apps.cli.options import flags

            text += flags(problem)
        print(visible(text), file=sys.stderr)
    sys.exit(2 if problem else code)


def _reader_left() -> bool:
    """Return whether stdout is a pipe that its reader has closed."""
    with suppress(OSError, ValueError):  # it is no file
        poll = select.poll()
        poll.register(sys.stdout, 0)
        return any(event & select.POLLERR for _, event in poll.poll(0))
    return False


def _as_user_error(error: BaseException) -> UserError:
    """Return an error that is not a bug as one sentence for the user."""
    if isinstance(error, UserError):
        return error
    if isinstance(error, CycloptsError):
        from pydantic import ValidationError

        from admire.core.schema import complaint

        cause = error.__cause__
        if error.argument and isinstance(cause, ValidationError):  # as in Python and in files
            name = error.argument.field_info.name
            return UserError(f"{name} {complaint(cause)}", name)
        return UserError(str(error))
    if isinstance(error, OSError):
        files = [file for file in (error.filename, error.filename2) if isinstance(file, str)]
        place = " and ".join(dict.fromkeys(files)) or "A file or connection"
        reason = error.strerror or str(error) or type(error).__name__
        return UserError(f"{place}: cannot be used ({reason}).")
    if isinstance(error, UnicodeError):
        return UserError(f"A name or text is not UTF-8 ({error}). Rename it, or save it as UTF-8.")
    if isinstance(error, SystemExit):  # of code that no plug-in is blamed for
        line = extract_tb(error.__traceback__)[-1]
        return UserError(f"{line.filename}, line {line.lineno}: ended admire ({error!r}).")
    if isinstance(error, RecursionError):
        return UserError("A file is nested too deeply to be parsed.")
    why = f" ({error})" if str(error) else ""
    return UserError(f"Not enough memory{why}. Close other programs, or use less data.")
