"""What admire shows in a notebook."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

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

    handle = cast(Any, display).DisplayHandle()
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
