"""What a terminal shows: text without control characters from data, models and servers; and the
progress of long work, with a bar there, one line in a notebook, and plain lines elsewhere."""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from rich.text import Text

log = logging.getLogger("admire")

_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Control characters, changes of direction, invisible characters and lone surrogates. The joiners
and direction marks that Persian, Hebrew and emoji need are not among them."""


def on_terminal() -> bool:
    """Return whether stderr is a terminal; programs without a console have none."""
    return sys.stderr is not None and sys.stderr.isatty()


def visible(text: str) -> str:
    """Return the text with what would steer a terminal written as JSON's escapes: ``\\u001b[2J``.

    So are line breaks and tabs. JSON on one line, without ``ensure_ascii``, means the same
    afterwards.
    """
    return _UNSEEN.sub(lambda match: json.dumps(match[0])[1:-1], text)


def cell(*lines: str, style: str = "") -> Text:
    """Return a cell or title of a Rich table: these lines, without markup or emoji codes."""
    from rich.text import Text

    return Text("\n".join(map(visible, lines)), style)


@cache
def log_once(level: int, message: str) -> None:
    """Log a message, the first time that a process has it."""
    log.log(level, "%s", message)


SECONDS_BETWEEN_UPDATES = 0.2


def in_notebook() -> bool:
    """Return whether this process is a notebook's kernel: Jupyter's, Colab's, VS Code's."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython and ipython.get_ipython()
    return hasattr(shell, "kernel")


@contextmanager
def show_line() -> Iterator[Callable[[str], None]]:
    """A function that shows a line under the cell in place of the one before; none is left."""
    from IPython import display

    handle = cast("Any", display).DisplayHandle()
    updated: float | None = None

    def show(line: str) -> None:
        nonlocal updated
        if updated is not None and time.monotonic() - updated < SECONDS_BETWEEN_UPDATES:
            return
        (handle.display if updated is None else handle.update)({"text/plain": line}, raw=True)
        updated = time.monotonic()

    try:
        yield show
    finally:
        if updated is not None:
            handle.update({"text/html": "", "text/plain": ""}, raw=True)


Thing = TypeVar("Thing")

SECONDS_BETWEEN_LINES = 15.0

Listener = Callable[[str, int, int], None]
"""Called with what is done, how many are done, and how many there are."""

Progress = bool | Listener | None
"""Whether progress is shown, or a function that is called with it; None shows it in notebooks and
on terminals."""

_wanted: ContextVar[Progress] = ContextVar("_wanted", default=None)


@contextmanager
def _setting(variable: ContextVar[Any], value: object) -> Iterator[None]:
    before = variable.set(value)
    try:
        yield
    finally:
        variable.reset(before)


class Cancelled(Exception):  # noqa: N818  nothing has gone wrong
    """Raised where nobody waits for the work any more."""


_check: ContextVar[Callable[[], None] | None] = ContextVar("_check", default=None)


def cancelled_by(check: Callable[[], None]) -> AbstractContextManager[None]:
    """Let a function raise :class:`Cancelled` in this block, before a question or progress."""
    return _setting(_check, check)


def check_cancelled() -> None:
    """Raise :class:`Cancelled` if nobody waits for the work; threads of a pool do not know it."""
    if check := _check.get():
        check()


def progress_told_to(listener: Listener) -> AbstractContextManager[None]:
    """Call a function with all progress in this block, unless it is hidden; it may end the work."""
    return nullcontext() if _wanted.get() is False else _setting(_wanted, listener)


def hidden_progress() -> AbstractContextManager[None]:
    """Show no progress in this block."""
    return _setting(_wanted, False)


@contextmanager
def progress_as_wanted(progress: Progress) -> Iterator[None]:
    """Show progress as the argument ``progress`` says, unless a block around this one says how."""
    if progress is None and (in_notebook() or on_terminal()):
        progress = True
    with ExitStack() as stack:
        if _wanted.get() is None:
            if progress is True and in_notebook():
                show = stack.enter_context(show_line())
                progress = lambda task, done, total: show(f"{task}: {done} of {total}")  # noqa: E731
            stack.enter_context(_setting(_wanted, progress))
        yield


def progress_is_wanted() -> bool:
    """Return whether a listener hears all progress, or all of it is shown as it comes."""
    return bool(_wanted.get())


def show_progress(things: Iterable[Thing], task: str, total: int | None = None) -> Iterator[Thing]:
    """Yield the things and show on stderr how far the caller has come.

    Nothing is shown where the ``admire`` logger is not at INFO, unless :func:`progress_as_wanted`.
    """
    if total is None:
        things = list(things)
        total = len(things)
    display = _wanted.get()
    if display is None:
        display = log.isEnabledFor(logging.INFO)
    if not total or not display:
        yield from things
    elif callable(display):
        display(task, 0, total)
        for done, thing in enumerate(things, start=1):
            yield thing
            display(task, done, total)
    elif on_terminal():
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import track

        yield from track(
            things, escape(visible(task)), total, console=Console(stderr=True), transient=True
        )
    else:
        log.info("%s", task)
        started = reported = time.monotonic()
        for done, thing in enumerate(things):
            if (now := time.monotonic()) - reported > SECONDS_BETWEEN_LINES:
                reported, pace = now, ""
                if done:
                    each = (now - started) / done
                    left = round(each * (total - done))
                    pace = f", {each:.{1 if each < 10 else 0}f} s each"
                    pace += f", about {left // 60}:{left % 60:02} min left"
                log.info("%s: %d of %d%s", task, done, total, pace)
            yield thing
