"""What all commands share: their help, and how values of options are converted and shown."""

from __future__ import annotations

from dataclasses import MISSING
from pathlib import Path
from typing import Any, get_args, get_origin

from cyclopts import Group

from admire.core.errors import UserError

HELP = ("--help", "-h", "--help-all")
OWN = Group("Options", sort_key=0)


def show_default(value: object) -> str | None:
    """Return a default as help shows it; None if it need not be shown."""
    if value in (MISSING, None, ()) or value is False:
        return None
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def convert(hint: Any, tokens: Any) -> Any:
    """Convert the words of an option to its type; lists of choices and numbers accept commas."""
    from pydantic import ValidationError

    from admire.core.schema import adapter, complaint

    words = [token.value for token in tokens]
    lists = [part for part in (hint, *get_args(hint)) if get_origin(part) in (list, tuple)]
    if lists and get_args(lists[0])[0] not in (str, Path):
        words = ",".join(words).split(",")
    try:
        return adapter(hint).validate_python(words if lists else words[0], strict=False)
    except ValidationError as error:
        name = (tokens[0].keyword or "").removeprefix("--").replace("-", "_")
        raise UserError(f"{name} {complaint(error)}", name) from None
