"""A set checked as a whole before anything is asked of it: all of its faults at once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol, TypeVar

from admire.base.errors import UserError
from admire.data.items import Item
from admire.data.rows import Fault

log = logging.getLogger("admire")

SHOWN = 20
"""How many faults are logged."""

COUNTS = ("items", "candidates", "pictures", "captions", "gold answers", "gold senses")


class Counted(Protocol):
    """What is made of a set item by item."""

    def add(self, item: Item) -> object: ...


C = TypeVar("C", bound=Counted)


def check_set(
    read: Callable[..., Iterator[Item]], begin: Callable[[], C], reads: Callable[[C], bool]
) -> tuple[C, list[Fault], bool]:
    """Read a set once for its faults, and again to look at its pictures if they are to be read.

    Args:
        read: :func:`admire.data.reader.iter_items` of the set.
        begin: makes what takes each item, without what its faults spoil.
        reads: whether pictures are to be looked at, given what took the items of the first reading.

    Returns:
        What took the items, all faults in the set's order, and whether pictures were looked at.

    Raises:
        UserError: the file cannot be read to its end.
    """

    def once(look: bool) -> tuple[C, list[Fault], bool]:
        faults: list[Fault] = []
        counted = begin()
        for item in read(warn=not look, look=look, skip=faults.append):
            counted.add(item)
        return counted, faults, look

    found = once(look=False)
    return once(look=True) if reads(found[0]) and find_spec("PIL") else found


@dataclass
class SetCounts:
    """How much of what a set has that can be used, and its links to places outside its folder.

    Attributes:
        folder: of the pictures, resolved.
    """

    folder: Path
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    links: dict[str, None] = field(default_factory=dict)

    def add(self, item: Item) -> None:
        things = (*item.candidates, *item.sequence)
        pictures = [one.image for one in things if one.image]
        found = (1, len(things), len(pictures), sum(bool(one.caption) for one in things))
        gold = (bool(item.best), bool(item.sentence_type))
        for what, count in zip(COUNTS, (*found, *gold), strict=True):
            self.counts[what] += count
        for picture in pictures:
            if not (real := picture.resolve()).is_relative_to(self.folder):
                self.links[f"{picture} → {real}"] = None


def refuse_faults(data: str | Path, faults: Sequence[Fault]) -> None:
    """Refuse a set that has faults; the log has them, if there are several.

    Raises:
        UserError: there are any.
    """
    if len(faults) == 1:
        raise UserError(faults[0].what, *faults[0].settings, "skip_bad")
    if faults:
        log_faults(faults)
        raise UserError(
            f"{data}: {len(faults)} faults. Correct them, or rank without what they spoil.",
            *dict.fromkeys(name for fault in faults for name in fault.settings),
            "skip_bad",
        )


def log_faults(faults: Sequence[Fault], *, left_out: bool = False) -> None:
    """Log the first faults, and how many more there are.

    Args:
        left_out: whether to say what is left out for each.
    """
    for fault in faults[:SHOWN]:
        log.warning("%s%s", fault.what, f" Left out: the {fault.lost}." if left_out else "")
    if len(faults) > SHOWN:
        log.warning("… and %d more; admire check lists them all.", len(faults) - SHOWN)
