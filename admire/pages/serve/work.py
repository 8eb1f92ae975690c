"""The work: one thread does one job after the other, and says who is next."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from admire.base.progress import hidden_progress, progress_told_to
from admire.pages.serve.problems import Problem

Tell = Callable[[str, Mapping[str, Any]], None]
"""Takes the name of an event and its data."""


class Stopped(Exception):  # noqa: N818  nobody did anything wrong
    """The work is not wanted any more."""


def _tell_nobody(event: str, data: Mapping[str, Any]) -> None:
    pass


@dataclass(eq=False)
class Job:
    """Something to do in the working thread.

    Attributes:
        do: does it and returns what there is to know.
        tell: is told of places and progress, in the event loop's thread.
        done: has what ``do`` returned or raised, or :class:`Stopped`.
        place: in the queue; 0 when it is under way.
    """

    id: str
    do: Callable[[], Any]
    tell: Tell = _tell_nobody
    done: asyncio.Future[Any] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    place: int | None = None

    def move(self, place: int) -> None:
        if place != self.place:
            self.place = place
            self.tell("place", {"job": self.id, "place": place})


class Work:
    """A queue of jobs and the thread that does them. All methods are for the event loop's thread.

    Args:
        limit: how many jobs may wait.
    """

    def __init__(self, limit: int):
        self.limit = limit
        self._waiting: list[Job] = []
        self._added = asyncio.Event()
        self._wanted = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, "admire work")
        self._stop = threading.Event()  # what is under way
        self._current: Job | None = None

    def add(self, job: Job) -> None:
        """Put a job at the end of the queue.

        Raises:
            Problem: too many are waiting.
        """
        if len(self._waiting) >= self.limit:
            raise Problem(
                429,
                f"{self.limit} jobs are waiting, and no more can. Try again later.",
                {"Retry-After": "10"},
            )
        self._waiting.append(job)
        self._tell_places()
        self._added.set()
        self.want()

    def want(self) -> None:
        """Say that somebody is there for whom the thread may begin."""
        self._wanted.set()

    def stop(self, job: Job) -> None:
        """Take a job out of the queue, or stop it at its next progress."""
        if job in self._waiting:
            self._waiting.remove(job)
            self._tell_places()
        elif job is self._current:
            self._stop.set()
        if not job.done.done():
            job.done.set_exception(Stopped())
            job.done.exception()  # somebody knows

    async def run(self, first: Callable[[], None], patience: float) -> None:
        """Do the jobs as they come, for ever.

        Args:
            first: what the thread does before the first one, unheard. Models that are loaded hold
                up everything else, the first page too: so this begins when somebody is there.
            patience: the seconds after which it begins though nobody is.
        """
        loop = asyncio.get_running_loop()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._wanted.wait(), patience)
        await loop.run_in_executor(self._thread, _unheard, first)
        while True:
            while not self._waiting:
                self._added.clear()
                await self._added.wait()
            job = self._current = self._waiting.pop(0)
            self._stop = threading.Event()
            job.move(0)
            self._tell_places()
            try:
                found = await loop.run_in_executor(self._thread, self._do, job, self._stop, loop)
            except Exception as error:
                if not job.done.done():
                    job.done.set_exception(error)
            else:
                if not job.done.done():
                    job.done.set_result(found)
            self._current = None

    def close(self) -> None:
        """Stop all jobs, without waiting for the thread."""
        for job in [*self._waiting, *([self._current] if self._current else [])]:
            self.stop(job)
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _do(self, job: Job, stop: threading.Event, loop: asyncio.AbstractEventLoop) -> Any:
        def listen(what: str, done: int, total: int) -> None:
            if stop.is_set():
                raise Stopped
            told = {"job": job.id, "what": what, "done": done, "total": total}
            loop.call_soon_threadsafe(job.tell, "progress", told)

        with progress_told_to(listen):
            return job.do()

    def _tell_places(self) -> None:
        for place, job in enumerate(self._waiting, start=1):
            job.move(place)


def _unheard(do: Callable[[], None]) -> None:
    with hidden_progress():
        do()
