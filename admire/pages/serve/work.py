"""The work: one thread does one job after the other, and reports its place and its progress."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from fastapi import Request
from pydantic import BaseModel, Field

from admire.base.progress import progress_told_to
from admire.pages.serve.problems import Problem

Result = TypeVar("Result")


class Progress(BaseModel):
    """How far a request is."""

    place: int = Field(description="In the queue; 0 when it is under way.")
    stage: str | None = Field(default=None, description="What is being done.")
    done: int = Field(default=0, description="How many steps of the stage are done.")
    total: int = Field(default=0, description="How many steps the stage has.")


class Stopped(Problem):
    """Nobody waits for the result any more, or the server is ending."""

    def __init__(self) -> None:
        super().__init__(503, "The server is ending, or nobody waits any more.")


@dataclass(eq=False)
class _Job:
    """Something to do in the working thread; None is the last of its news."""

    news: asyncio.Queue[Progress | None] = field(default_factory=asyncio.Queue)
    place: int | None = None
    stopped: threading.Event = field(default_factory=threading.Event)

    def move(self, place: int) -> None:
        """Report a new place in the queue."""
        if self.place != place:
            self.place = place
            self.news.put_nowait(Progress(place=place))

    def stop(self) -> None:
        """Stop at the next progress, and report nothing any more."""
        self.stopped.set()
        self.news.put_nowait(None)


class Work:
    """A queue of jobs and the thread that does them, for use in the event loop's thread.

    Args:
        load: what the thread does first, once somebody is there. Loading models slows down
            everything else, the first page too.
    """

    def __init__(self, limit: int, load: Callable[[], None]):
        self.limit, self.load = limit, load
        self._jobs: list[_Job] = []  # the one under way, and those that wait
        self._thread = ThreadPoolExecutor(1, "admire work")
        self._loads = False

    def want(self) -> None:
        """Load the models, unless that has begun."""
        if not self._loads:
            self._loads = True
            self._thread.submit(self.load)

    async def run(
        self, do: Callable[[], Result], request: Request
    ) -> AsyncGenerator[Progress | Result, None]:
        """Do something when its turn comes; yield its places and progress, and last its result.

        When the client has closed the connection, or this generator is closed, the job leaves the
        queue or stops at its next progress.
        """
        if sum(job.place != 0 for job in self._jobs) >= self.limit:
            raise Problem(
                429,
                f"{self.limit} jobs are waiting, and no more can. Try again later.",
                {"Retry-After": "10"},
            )
        self.want()
        job, leaving = _Job(), asyncio.create_task(_disconnected(request))
        leaving.add_done_callback(lambda _: job.stop())
        loop = asyncio.get_running_loop()
        self._jobs.append(job)
        result = loop.run_in_executor(self._thread, self._do, job, do, loop)
        result.add_done_callback(lambda _: job.news.put_nowait(None))
        self._report_places()
        try:
            while news := await job.news.get():
                yield news
            if job.stopped.is_set():
                raise Stopped
            yield result.result()
        finally:
            leaving.cancel()
            job.stopped.set()
            result.cancel()
            self._jobs.remove(job)
            self._report_places()

    def close(self) -> None:
        """Stop all jobs, without waiting for the thread."""
        for job in self._jobs:
            job.stop()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _do(self, job: _Job, do: Callable[[], Result], loop: asyncio.AbstractEventLoop) -> Result:
        def listen(stage: str, done: int, total: int) -> None:
            if job.stopped.is_set():
                raise Stopped
            progress = Progress(place=0, stage=stage, done=done, total=total)
            loop.call_soon_threadsafe(job.news.put_nowait, progress)

        loop.call_soon_threadsafe(job.move, 0)
        loop.call_soon_threadsafe(self._report_places)
        with progress_told_to(listen):
            return do()

    def _report_places(self) -> None:
        waiting = [job for job in self._jobs if job.place != 0]
        for place, job in enumerate(waiting, start=1):
            job.move(place)


async def _disconnected(request: Request) -> None:
    """Wait until the client has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
