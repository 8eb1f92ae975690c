"""What settings may be: the words to choose from, and the checks that settings classes make."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args

from admire.base.errors import UserError

Track = Literal["image", "caption", "image+caption"]
"""What of the candidates is compared: their images (the paper's CI), captions, or both (CIC)."""

TRACKS = ("image", "caption")

QueryText = Literal["meaning", "compound", "sentence"]
"""What texts are compared with: the meaning is the method, the others are baselines."""

RankQuery = Literal["meaning", "compound", "sentence", "sequence"]
"""What candidates are compared with; ``sequence`` is a baseline for Subtask B."""

SenseMethod = Literal["auto", "vote", "detector", "given"]
"""How the sense is decided: ``vote`` asks the chat model, ``detector`` reads it off the embedded
model's hidden states, ``given`` takes the data's own. ``auto`` is the detector for the embedded
chat model, which calls nearly every use idiomatic when it is asked. For every other it is votes,
or, with the ranker ``listwise``, what the replies with the orders say."""

Meanings = Literal["gloss", "both"]
"""What chat models say of a compound: ``gloss`` is one definition of the idiomatic sense, as in the
paper; ``both`` is definitions and a scene of each sense."""

Gate = Literal["hard", "soft"]
"""Whether one sense is followed, or both are weighed by their probability."""

Ranker = Literal["embeddings", "listwise", "pointwise", "pairwise"]
"""What orders the candidates: ``embeddings`` compares vectors; with the others, the chat models
look at the candidates: at all of them at once, at one at a time, or at two."""

Fusion = Literal["scores", "borda", "rrf"]
"""How rankers are fused: by their standardised scores, by Borda's points or by reciprocal ranks."""

EngineName = Literal["exact", "lance"]
"""What searches an index: every vector is compared, or LanceDB, which is nearly exact and faster in
large collections."""
ENGINES: tuple[EngineName, ...] = get_args(EngineName)

PublishedSet = Literal[
    "en-dev",
    "en-test",
    "en-extended",
    "en-both",
    "pt-dev",
    "pt-test",
    "pt-extended",
    "pt-both",
]
"""AdMIRe's sets on which figures were published; ``both`` is test and extended together."""

Images = Literal["embed", "link"]
"""Whether a report holds thumbnails of the pictures, or names their files."""

Device = Literal["auto", "cpu", "cuda", "mps"]
Precision = Literal["float32", "bfloat16", "float16"]
ProfileName = Literal["embedded", "paper", "vision", "vision-local", "best"]


@dataclass(frozen=True)
class Number:
    """The finite numbers that a setting may be.

    Attributes:
        low, high: the least and the greatest; with ``above`` and ``below`` they are themselves
            left out.
        whole: whether it must be a whole number.
        optional: whether it may be None.
    """

    low: float = -math.inf
    high: float = math.inf
    above: bool = False
    below: bool = False
    whole: bool = False
    optional: bool = False

    def __contains__(self, value: object) -> bool:
        if value is None:
            return self.optional
        if isinstance(value, bool) or not isinstance(value, int if self.whole else int | float):
            return False
        if not math.isfinite(value) or not self.low <= value <= self.high:
            return False
        return not (self.above and value == self.low) and not (self.below and value == self.high)

    def __str__(self) -> str:
        said = "a whole number" if self.whole else "a number"
        bounds = []
        if self.low > -math.inf:
            bounds.append(f"above {self.low:g}" if self.above else f"of at least {self.low:g}")
        if self.high < math.inf:
            bounds.append(f"below {self.high:g}" if self.below else f"of at most {self.high:g}")
        return f"{said} {' and '.join(bounds)}" if bounds else f"{said}, and finite"


Allowed = Number | Sequence[str | None] | type | UnionType
"""What a setting may be: a number of a range, one of several words, or of a type."""


def check_settings(settings: Any, **allowed: Allowed) -> None:
    """Check every field of a settings dataclass, which calls this when it is made.

    Raises:
        UserError: a field has a value that it cannot have.
        TypeError: a field is not named among the checks, which is a mistake in the class.
    """
    unchecked = {field.name for field in fields(settings)} - allowed.keys()
    if unchecked:
        raise TypeError(f"{type(settings).__name__} does not check {', '.join(unchecked)}")
    for name, known in allowed.items():
        check_setting(name, getattr(settings, name), known)


def check_setting(name: str, value: object, allowed: Allowed) -> None:
    """Check one setting.

    Raises:
        UserError: it cannot have this value.
    """
    if isinstance(allowed, Number):
        right, says = value in allowed, f": it is {allowed}"
    elif isinstance(allowed, type | UnionType):
        right, says = isinstance(value, allowed), f": it is {_called(allowed)}"
    else:
        words = [word for word in allowed if word is not None]
        right = value in allowed
        says = f".{nearest(str(value), words)} There are: {', '.join(words)}"
    if not right:
        raise UserError(f"{name} cannot be {value!r}{says}.", name)


def nearest(word: str, known: Sequence[str]) -> str:
    """``" Did you mean 'soft'?"`` where one of the known words is like this one, else nothing."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f" Did you mean '{close[0]}'?" if close and close[0] != word else ""


def _called(kind: type | UnionType) -> str:
    if isinstance(kind, UnionType):
        return " or ".join("None" if one is type(None) else _called(one) for one in kind.__args__)
    names = {bool: "True or False", str: "a text", tuple: "a tuple of texts", Path: "a path"}
    return names.get(kind, f"a {kind.__name__}")
