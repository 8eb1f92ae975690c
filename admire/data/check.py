"""A set checked as a whole before anything is asked of it: all of its faults at once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from admire.base.errors import UserError
from admire.data.items import Fault, Item

log = logging.getLogger("admire")

SHOWN = 20
"""How many faults are logged."""


def find_faults(
    read: Callable[..., Iterator[Item]],
    *,
    look: bool = False,
    add: Callable[[Item], object] = lambda item: None,
) -> list[Fault]:
    """All that is wrong with a set, in its order.

    Args:
        read: :func:`admire.data.items.iter_items` of the set, which also tells of ``look``.
        add: takes each item, without what its faults spoil.

    Raises:
        UserError: the file cannot be read to its end.
    """
    faults: list[Fault] = []
    for item in read(warn=not look, look=look, skip=faults.append):
        add(item)
    return faults


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


def counts_of(
    read: Callable[..., Iterator[Item]], folder: Path, *, look: bool = False
) -> tuple[dict[str, int], list[str]]:
    """How much of what a set has that can be used, and its links to places outside its folder.

    Args:
        read, look: see :func:`find_faults`.
        folder: of the pictures.
    """
    counts = dict.fromkeys(
        ("items", "candidates", "pictures", "captions", "gold answers", "gold senses"), 0
    )
    links: dict[str, None] = {}
    folder = folder.resolve()
    for item in read(warn=False, look=look, skip=lambda fault: None):
        things = (*item.candidates, *item.sequence)
        pictures = [one.image for one in things if one.image]
        found = (1, len(things), len(pictures), sum(bool(one.caption) for one in things))
        gold = (bool(item.best), bool(item.sentence_type))
        for what, count in zip(counts, (*found, *gold), strict=True):
            counts[what] += count
        for picture in pictures:
            if not picture.resolve().is_relative_to(folder):
                links[f"{picture} → {picture.resolve()}"] = None
    return counts, list(links)
