"""The work: one thread does one job after the other, and tells each its place in the queue."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from admire.base.progress import progress_told_to
from admire.pages.serve.problems import Problem

Tell = Callable[[str, Mapping[str, Any]], None]
"""Takes the name of an event and its data."""


class Stopped(Exception):  # noqa: N818  nobody did anything wrong
    """The result of a job is no longer wanted."""


@dataclass(eq=False)
class Job:
    """Something to do in the working thread.

    Attributes:
        do: does it and returns its result.
        tell: gets places in the queue and progress, in the event loop's thread.
        done: has the result once the job is in the queue; cancelled if the job was stopped.
        place: in the queue; 0 when it is under way.
    """

    id: str
    do: Callable[[], Any]
    tell: Tell = lambda event, data: None
    done: asyncio.Future[Any] = field(init=False)
    place: int | None = None
    stopped: threading.Event = field(default_factory=threading.Event)


class Work:
    """A queue of jobs and the thread that does them, for use in the event loop's thread.

    Args:
        limit: how many jobs may wait.
        load: what the thread does first, once somebody is there. Loading models slows down
            everything else, the first page too.
    """

    def __init__(self, limit: int, load: Callable[[], None]):
        self.limit, self.load = limit, load
        self._jobs: list[Job] = []  # the one under way, and those that wait
        self._thread = ThreadPoolExecutor(1, "admire work")
        self._loads = False

    def want(self) -> None:
        """Load the models, unless that has begun."""
        if not self._loads:
            self._loads = True
            self._thread.submit(self.load)

    def add(self, job: Job) -> None:
        """Put a job at the end of the queue.

        Raises:
            Problem: too many are waiting.
        """
        if sum(other.place != 0 for other in self._jobs) >= self.limit:
            raise Problem(
                429,
                f"{self.limit} jobs are waiting, and no more can. Try again later.",
                {"Retry-After": "10"},
            )
        self.want()
        loop = asyncio.get_running_loop()
        self._jobs.append(job)
        job.done = loop.run_in_executor(self._thread, self._do, job, loop)
        job.done.add_done_callback(lambda _: self._remove(job))
        self._tell_places()

    def stop(self, job: Job) -> None:
        """Take a job out of the queue, or stop it at its next progress."""
        job.stopped.set()
        job.done.cancel()
        self._remove(job)

    def close(self) -> None:
        """Stop all jobs, without waiting for the thread."""
        for job in list(self._jobs):
            self.stop(job)
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _remove(self, job: Job) -> None:
        if job in self._jobs:
            self._jobs.remove(job)
            self._tell_places()

    def _do(self, job: Job, loop: asyncio.AbstractEventLoop) -> Any:
        def listen(what: str, done: int, total: int) -> None:
            if job.stopped.is_set():
                raise Stopped
            progress = {"job": job.id, "what": what, "done": done, "total": total}
            loop.call_soon_threadsafe(job.tell, "progress", progress)

        loop.call_soon_threadsafe(self._begin, job)
        with progress_told_to(listen):
            return job.do()

    def _begin(self, job: Job) -> None:
        _move(job, 0)
        self._tell_places()

    def _tell_places(self) -> None:
        waiting = [job for job in self._jobs if job.place != 0]
        for place, job in enumerate(waiting, start=1):
            _move(job, place)


def _move(job: Job, place: int) -> None:
    if job.place != place:
        job.place = place
        job.tell("place", {"job": job.id, "place": place})
