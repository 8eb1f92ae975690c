"""Progress of long work: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from admire.base.terminal import visible

log = logging.getLogger("admire")

Thing = TypeVar("Thing")

SECONDS_BETWEEN_LINES = 15.0


Listener = Callable[[str, int, int], None]
"""Called with what is done, how many are done, and how many there are."""

_hidden = ContextVar("hidden", default=False)
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def progress_told_to(listener: Listener) -> Iterator[None]:
    """Call a function with all progress in this block instead of showing it.

    It is called before each thing and at the end. What it raises ends the work.
    """
    before = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(before)


@contextmanager
def hidden_progress() -> Iterator[None]:
    """Show no progress in this block."""
    before = _hidden.set(True)
    try:
        yield
    finally:
        _hidden.reset(before)


def show_progress(things: Iterable[Thing], what: str, total: int | None = None) -> Iterator[Thing]:
    """Yield the things and show on stderr how far the caller has come.

    Nothing is shown where the ``admire`` logger is not at INFO, as in a program that only uses the
    library, or where there is nothing to do.
    """
    if total is None:
        things = list(things)
        total = len(things)
    listener = _listener.get()
    if not total or _hidden.get() or not (listener or log.isEnabledFor(logging.INFO)):
        yield from things
    elif listener:
        listener(what, 0, total)
        for done, thing in enumerate(things, start=1):
            yield thing
            listener(what, done, total)
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import track

        yield from track(
            things, escape(visible(what)), total, console=Console(stderr=True), transient=True
        )
    else:
        log.info("%s", what)
        said = time.monotonic()
        for done, thing in enumerate(things):
            if time.monotonic() - said > SECONDS_BETWEEN_LINES:
                said = time.monotonic()
                log.info("%s: %d of %d", what, done, total)
            yield thing
