"""Checking a set as a whole: all of its faults at once, before anything is asked of it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from admire.core.errors import UserError
from admire.core.storage import cache_dir
from admire.data.items import Item
from admire.data.rows import Fault, Look, RowReader, log_notes

log = logging.getLogger("admire")

LOGGED = 20  # faults
KEPT = 512  #: how many items are kept in memory; those of a larger set are read again
COUNTS = ("items", "candidates", "pictures", "captions", "gold answers", "gold senses")
UNRANKED = "items without candidates"  #: counted if there are any


C = TypeVar("C", bound=Any)  #: takes items by its method ``add``


def check_set(
    read: Callable[..., Iterator[Item]],
    collect: Callable[[], C],
    reads_pictures: Callable[[C], bool],
    look: Look,
) -> tuple[C, list[Fault], Callable[[], Iterator[Item]]]:
    """Read a set for its faults, and again to look at its pictures if they are to be read.

    Args:
        read: :func:`admire.data.reader.iter_items` of the set.
        collect: begins a collector.
        reads_pictures: decides by the first reading's collector whether to look at pictures.
        look: raises UserError for a picture that cannot be used.

    Returns:
        A collector that took each item without what its faults spoil, the faults, and what iterates
        over the items from the first one on.
    """
    for looks in (None, look):  # then a missing picture is a fault
        collector, faults, kept, count = collect(), list[Fault](), list[Item](), 0
        rows = RowReader(look=looks, skip=faults.append)
        for count, item in enumerate(read(rows=rows), start=1):
            collector.add(item)
            if count <= KEPT:
                kept.append(item)
        if not (reads_pictures(collector) and find_spec("PIL")):
            break
    log_notes(rows.notes)
    skip = (lambda fault: None) if faults else None
    read_again = partial(read, rows=RowReader(look=rows.look, skip=skip))
    return collector, faults, read_again if count > KEPT else partial(iter, kept)


class SetCounts:
    """Counts of what can be used of a set, and its links to places outside its folder."""

    def __init__(self, folder: Path) -> None:
        """Take the folder of the pictures, resolved."""
        self.folder = folder
        self.counts = Counter(dict.fromkeys(COUNTS, 0))
        self.links: dict[str, None] = {}

    def add(self, item: Item) -> None:
        """Count an item's candidates, sequence and gold."""
        candidates = item.things
        pictures = [candidate.image for candidate in candidates if candidate.image]
        captions = sum(bool(candidate.caption) for candidate in candidates)
        gold = (bool(item.best), bool(item.sentence_type))
        numbers = (1, len(candidates), len(pictures), captions, *gold)
        self.counts.update(dict(zip(COUNTS, numbers, strict=True)))
        if not item.candidates:
            self.counts[UNRANKED] += 1
        kept = cache_dir() / "pictures"  # those that were in the file itself
        for picture in pictures:
            if picture.parent != kept and not (target := picture.resolve()).is_relative_to(
                self.folder
            ):
                self.links[f"{picture} → {target}"] = None


def report_faults(data: str | Path, faults: Sequence[Fault], *, skip: bool) -> None:
    """Log a set's first faults, each with what is skipped for it; if nothing is, refuse the set."""
    if len(faults) == 1 and not skip:
        raise UserError(faults[0].what, *faults[0].settings, "skip_bad")
    for fault in faults[:LOGGED]:
        log.warning("%s%s", fault.what, f" Skipped: the {fault.lost}." if skip else "")
    if len(faults) > LOGGED:
        log.warning("… and %d more; admire check lists them all.", len(faults) - LOGGED)
    if faults and not skip:
        raise UserError(
            f"{data}: {len(faults)} problems. Correct them, or skip the items concerned.",
            *dict.fromkeys(name for fault in faults for name in fault.settings),
            "skip_bad",
        )
