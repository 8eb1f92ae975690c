"""Visitors: each load of the page is one, with pictures, jobs and a stream of events."""

from __future__ import annotations

import asyncio
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from admire.pages.serve.guard import MEGABYTE, Limits
from admire.pages.serve.pictures import Picture
from admire.pages.serve.problems import Problem

if TYPE_CHECKING:
    from admire.pages.serve.ranking import Ranked
    from admire.pages.serve.work import Job, Work

Event = tuple[str, Mapping[str, Any]]
"""Its name and its data."""

KEPT_RESULTS = 200
"""How many of a visitor's rankings can be saved or changed by hand."""


def new_id() -> str:
    """128 random bits in hexadecimal."""
    return secrets.token_hex(16)


@dataclass(eq=False)
class Visitor:
    """Somebody who has the page open.

    Attributes:
        folder: holds the files, by id.
        pictures: those that can be ranked, by id.
        files: these, and those that only a ranking shows any more.
        jobs: those that wait or are under way, by id.
        ranked: what was ranked, by the job's id.
        found: copies of the pictures that the last search found, by their files' names.
        events: what the stream sends; None ends it.
        leaving: removes the visitor, unless somebody listens before.
    """

    id: str
    folder: Path
    pictures: dict[str, Picture] = field(default_factory=dict)
    files: dict[str, Picture] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    ranked: dict[str, Ranked] = field(default_factory=dict)
    found: Mapping[str, Path] = field(default_factory=dict)
    events: asyncio.Queue[Event | None] = field(default_factory=asyncio.Queue)
    listens: bool = False
    leaving: asyncio.TimerHandle | None = None

    def tell(self, event: str, data: Mapping[str, Any]) -> None:
        """Send an event, now or when somebody listens."""
        self.events.put_nowait((event, data))

    def picture(self, wanted: object) -> Picture:
        """The picture of that id.

        Raises:
            Problem: the visitor has none.
        """
        found = self.pictures.get(wanted) if isinstance(wanted, str) else None
        if found is None:
            raise Problem(404, "There is no such picture. Add it again.")
        return found

    def seen(self, wanted: str) -> Picture:
        """The picture of that id, which may have been removed from the form but not from a result.

        Raises:
            Problem: the visitor has none.
        """
        return self.files.get(wanted) or self.picture(wanted)

    def result(self, wanted: object) -> Ranked:
        """What the job of that id ranked.

        Raises:
            Problem: there is no such job, or it has not ended.
        """
        found = self.ranked.get(wanted) if isinstance(wanted, str) else None
        if found is None:
            raise Problem(404, "There is no such ranking. Rank again.")
        return found

    def keep(self, job: str, ranked: Ranked) -> None:
        """Keep what a job ranked, and forget the oldest of many."""
        self.ranked[job] = ranked
        while len(self.ranked) > KEPT_RESULTS:
            del self.ranked[next(iter(self.ranked))]
            self._clear()

    def keep_found(self, copies: Mapping[str, Path]) -> None:
        """Keep what a search found, in place of what the one before did."""
        for file in self.found.values():
            file.unlink(missing_ok=True)
        self.found = copies

    def add_picture(self, picture: Picture) -> None:
        self.pictures[picture.id] = self.files[picture.id] = picture

    def remove_picture(self, picture: Picture) -> None:
        """Remove a picture, and its files unless a ranking that can be saved shows it."""
        del self.pictures[picture.id]
        self._clear()

    def _clear(self) -> None:
        """Remove the files that nothing shows any more."""
        shown = {picture.id for one in self.ranked.values() for picture in one.pictures.values()}
        for id in self.files.keys() - self.pictures.keys() - shown:
            del self.files[id]
            for file in self.folder.glob(f"{id}*"):
                file.unlink(missing_ok=True)


class Visitors:
    """All visitors.

    Args:
        folder: theirs are made in it.
    """

    def __init__(self, folder: Path, limits: Limits, work: Work):
        self.folder, self.limits, self.work = folder, limits, work
        self._known: dict[str, Visitor] = {}

    def __iter__(self) -> Iterator[Visitor]:
        return iter(self._known.values())

    def enter(self) -> Visitor:
        """A new visitor. The oldest of those to whom nobody listens may have to give way.

        Raises:
            Problem: there are too many.
        """
        if len(self._known) >= self.limits.visitors:
            idle = next((one for one in self if not one.listens), None)
            if idle is None:
                raise Problem(
                    429,
                    f"{self.limits.visitors} pages are open, and no more can be. Close one.",
                    {"Retry-After": "30"},
                )
            self.remove(idle)
        visitor = Visitor(new_id(), self.folder / new_id())
        visitor.folder.mkdir(mode=0o700)
        self._known[visitor.id] = visitor
        self._let_go(visitor)
        return visitor

    def find(self, wanted: str | None) -> Visitor:
        """The visitor of that id.

        Raises:
            Problem: there is none.
        """
        found = self._known.get(wanted or "")
        if found is None:
            raise Problem(403, "The server does not know this page any more. Load it again.")
        return found

    @contextmanager
    def listening(self, visitor: Visitor) -> Iterator[asyncio.Queue[Event | None]]:
        """The events that the visitor is sent. A stream that was open before ends.

        Afterwards the visitor's jobs stop, and soon the files are removed.
        """
        before, events = visitor.events, asyncio.Queue[Event | None]()
        while not before.empty():
            events.put_nowait(before.get_nowait())
        before.put_nowait(None)
        visitor.events, visitor.listens = events, True
        if visitor.leaving:
            visitor.leaving.cancel()
        try:
            yield events
        finally:
            if visitor.events is events and visitor.id in self._known:
                visitor.listens = False
                self._stop(visitor)
                self._let_go(visitor)

    def check_room(self, visitor: Visitor) -> None:
        """Refuse another picture.

        Raises:
            Problem: the visitor has as many as allowed, or all visitors together do.
        """
        if len(visitor.pictures) >= self.limits.pictures:
            raise Problem(
                409,
                f"There are {self.limits.pictures} pictures already, the most that a page can "
                "have. Remove one.",
            )
        stored = sum(picture.bytes for one in self for picture in one.files.values())
        if stored > (self.limits.stored - self.limits.megabytes) * MEGABYTE:
            raise Problem(507, "The server has no room for more pictures. Remove one.")

    def remove(self, visitor: Visitor) -> None:
        """Stop the visitor's jobs and remove the files."""
        if self._known.pop(visitor.id, None) is None:
            return
        if visitor.leaving:
            visitor.leaving.cancel()
        self._stop(visitor)
        visitor.events.put_nowait(None)
        shutil.rmtree(visitor.folder, ignore_errors=True)

    def remove_all(self) -> None:
        for visitor in list(self):
            self.remove(visitor)

    def _let_go(self, visitor: Visitor) -> None:
        loop = asyncio.get_running_loop()
        visitor.leaving = loop.call_later(self.limits.grace, self.remove, visitor)

    def _stop(self, visitor: Visitor) -> None:
        for job in list(visitor.jobs.values()):
            self.work.stop(job)
