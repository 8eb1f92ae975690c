"""Text for a terminal, without control characters from data, models and servers."""

from __future__ import annotations

import json
import logging
import re
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

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

    Line breaks and tabs are also escaped, so that no text of the data passes for a line of ours.
    JSON that is written without ``ensure_ascii``, on one line, means the same afterwards.
    """
    return _UNSEEN.sub(lambda match: json.dumps(match[0])[1:-1], text)


def cell(*lines: str, style: str = "") -> Text:
    """Return a cell or title of a Rich table: these lines, without markup or emoji codes."""
    from rich.text import Text

    return Text("\n".join(map(visible, lines)), style)


class Formatter(logging.Formatter):
    """Log messages on one line each, with control characters escaped."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  logging's name
        return visible(super().formatMessage(record))
