"""Units of work, in a module of their own: each worker of Ray imports it."""

import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path

from admire.core.errors import UserError
from admire.core.machine import cores


def open_squares(folder: Path | None = None) -> Callable[[int], int]:
    """A unit gives its square; some units do worse."""
    warned = logging.getLogger("admire")
    warned.warning("The program says this itself.")

    def square(unit: int) -> int:
        warned.warning("Squares are large.")
        if folder and unit == 3 and not (folder / "killed").exists():
            (folder / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if unit == 13:
            os.kill(os.getpid(), signal.SIGKILL)
        if unit < 0:
            raise UserError(f"row {unit}: is negative.", "track")
        return unit * unit

    return square


def open_meeting(folder: Path) -> Callable[[int | str], object]:
    """The first two units wait for each other, each in a process of its own; texts look around."""

    def meet(unit: int | str) -> object:
        if isinstance(unit, str):
            return {"cores": cores(), "cwd": os.getcwd()}.get(unit, os.environ.get(unit))
        (folder / str(unit)).touch()
        while unit < 2 and not (folder / str(1 - unit)).exists():
            pass
        return unit * unit

    return meet


def open_nothing() -> Callable[[int], int]:
    raise UserError("The model is missing.", "encoder")
