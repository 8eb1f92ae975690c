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

from fastapi.sse import ServerSentEvent

from admire.pages.serve.pictures import Picture
from admire.pages.serve.problems import Problem
from admire.pages.serve.work import Job, Work

if TYPE_CHECKING:
    from admire.pages.serve.ranking import Ranked

Events = asyncio.Queue[ServerSentEvent | None]
"""What a stream sends; None ends it."""


@dataclass(eq=False)
class Visitor:
    """Somebody who has the page open.

    Attributes:
        folder: holds the visitor's files.
        pictures: those that were sent or found, by id.
        jobs: those that wait or are under way, by id.
        ranked: the results of rankings, by the job's id.
        leaving: removes the visitor, unless a stream is opened before.
    """

    id: str
    folder: Path
    pictures: dict[str, Picture] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    ranked: dict[str, Ranked] = field(default_factory=dict)
    events: Events = field(default_factory=asyncio.Queue)
    leaving: asyncio.TimerHandle | None = None

    def tell(self, event: str, data: Mapping[str, Any]) -> None:
        """Send an event, now or when a stream is opened."""
        self.events.put_nowait(ServerSentEvent(event=event, data=data))

    def picture(self, id: str) -> Picture:
        """The picture of that id.

        Raises:
            Problem: the visitor has none.
        """
        if id not in self.pictures:
            raise Problem(404, "There is no such picture. Add it again.")
        return self.pictures[id]

    def result(self, job: str) -> Ranked:
        """The result of a ranking.

        Raises:
            Problem: there is no such job, or it has not ended.
        """
        if job not in self.ranked:
            raise Problem(404, "There is no such ranking. Rank again.")
        return self.ranked[job]


class Visitors:
    """All visitors.

    Args:
        folder: theirs are made in it.
        grace: seconds from closing a page to removing its files.
    """

    def __init__(self, folder: Path, grace: float, work: Work):
        self.folder, self.grace, self.work = folder, grace, work
        self._visitors: dict[str, Visitor] = {}

    def __iter__(self) -> Iterator[Visitor]:
        return iter(self._visitors.values())

    def enter(self) -> Visitor:
        """A new visitor."""
        id = secrets.token_hex(16)
        visitor = self._visitors[id] = Visitor(id, self.folder / id)
        visitor.folder.mkdir(mode=0o700)
        self._let_go(visitor)
        return visitor

    def find(self, id: str) -> Visitor:
        """The visitor of that id.

        Raises:
            Problem: there is none.
        """
        if id not in self._visitors:
            raise Problem(403, "The server does not know this page any more. Load it again.")
        return self._visitors[id]

    @contextmanager
    def listening(self, visitor: Visitor) -> Iterator[Events]:
        """The events for a stream; one that was open before ends.

        Afterwards the visitor's jobs stop, and soon the files are removed.
        """
        before, events = visitor.events, Events()
        while not before.empty():
            events.put_nowait(before.get_nowait())
        before.put_nowait(None)
        visitor.events = events
        if visitor.leaving:
            visitor.leaving.cancel()
        try:
            yield events
        finally:
            if visitor.events is events and visitor.id in self._visitors:
                self._stop(visitor)
                self._let_go(visitor)

    def remove(self, visitor: Visitor) -> None:
        """Stop the visitor's jobs, end the stream and remove the files."""
        del self._visitors[visitor.id]
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
        visitor.leaving = loop.call_later(self.grace, self.remove, visitor)

    def _stop(self, visitor: Visitor) -> None:
        for job in list(visitor.jobs.values()):
            self.work.stop(job)
