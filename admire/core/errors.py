"""The one error that a user can cause, and its commonest kind: an extra that is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

DISTRIBUTION = "admire-idioms"
"""What pip calls this package; ``admire`` is the name to import. No index has it yet."""


class UserError(Exception):
    """Something that the user can put right: bad input, a missing model, a refused key.

    The message says what was wrong, where (file, row, column) and what to do. The command line
    prints it without a traceback, adds the options of its ``settings``, such as ``("track",)``, and
    ends with exit code 2.
    """

    def __init__(self, message: str, *settings: str):
        super().__init__(message)
        self.settings = settings


def pip_install(extra: str) -> str:
    """Return the command that installs an extra, in a clone of the repository."""
    return f"pip install '.[{extra}]'"


@contextmanager
def needs_extra(extra: str, purpose: str) -> Iterator[None]:
    """Import packages of an extra in this block; where one is missing, say how to install it.

    Args:
        purpose: the subject of a sentence: "The encoder 'e5'".
    """
    try:
        yield
    except ImportError as error:
        raise UserError(
            f"{purpose} needs {error.name or error}, of the extra '{extra}': "
            f"{pip_install(extra)} in admire's clone"
        ) from error


def check_extra(extra: str, purpose: str, *packages: str) -> None:
    """Do as :func:`needs_extra` does, but without importing the packages."""
    with needs_extra(extra, purpose):
        for package in packages:
            if find_spec(package) is None:
                raise ImportError(name=package)
