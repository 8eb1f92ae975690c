"""Panels of help: the headings of options, and which are shown now."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import MISSING

from cyclopts import Group

EVERYTHING: ContextVar[bool] = ContextVar("EVERYTHING", default=False)
"""True for ``--help-all``."""


class Heading(Group):
    """A heading that only ``--help-all`` shows, or for the common options only ``--help``."""

    @property
    def show(self) -> bool:
        """Whether it is shown now."""
        return EVERYTHING.get() != (self == DAILY)


OWN = Group("Options", sort_key=0)
DAILY = Heading("Common options (--help-all for the rest)", sort_key=1)


def show_default(value: object) -> str | None:
    """Return a default as help shows it; None if it need not be shown."""
    if value in (MISSING, None, ()) or value is False:
        return None
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
