"""The work: threads do jobs in their order, and report their places and their progress."""

from __future__ import annotations

import asyncio
import threading
from bisect import insort
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, Field

from admire.apps.serve.problems import LATER, Problem
from admire.core.progress import Cancelled, cancelled_by, progress_told_to

Result = TypeVar("Result")


PIECE = 0.1
"""Seconds for which a job lets those that come later go first, for each of its candidates more."""


class Progress(BaseModel):
    """How far a request is."""

    place: int = Field(description="In the queue; 0 when it is under way.")
    stage: str | None = Field(default=None, description="What is being done.")
    done: int = Field(default=0, description="How many steps of the stage are done.")
    total: int = Field(default=0, description="How many steps the stage has.")


class Stopped(Problem, Cancelled):
    """Nobody waits for the result any more, or the server is shutting down."""

    def __init__(self) -> None:
        super().__init__(503, "The server is shutting down, or nobody waits any more.", LATER)


@dataclass(eq=False)
class _Job:
    """Something to do in a working thread; None is the last of its news."""

    do: Callable[[], Any]
    turn: float
    reports: bool
    result: Future[Any] = field(default_factory=Future)
    news: asyncio.Queue[Progress | None] = field(default_factory=asyncio.Queue)
    place: int | None = None
    stopped: threading.Event = field(default_factory=threading.Event)

    def move(self, place: int) -> None:
        """Report a new place in the queue, if somebody wants it."""
        if self.reports and self.place != place:
            self.place = place
            self.news.put_nowait(Progress(place=place))

    def stop(self) -> None:
        """Stop at the next question or progress, and report nothing any more."""
        self.stopped.set()
        self.news.put_nowait(None)

    def check(self) -> None:
        """End the work if nobody waits for it."""
        if self.stopped.is_set():
            raise Stopped


class Work:
    """Two queues of jobs and the threads that do them, for use in the event loop's thread.

    One thread does the jobs that need this machine alone, one after the other; small ones soon,
    also where others always have large ones. Those that ask a chat server, which may keep them
    waiting, have several, so that they hold nobody up.

    Args:
        limit: how many jobs can wait.
        asking: how many jobs ask chat servers at the same time.
    """

    def __init__(self, limit: int, asking: int):
        self.limit = limit
        threads = {False: (1, "admire work"), True: (asking, "admire asking")}
        self._threads = {asks: ThreadPoolExecutor(*pair) for asks, pair in threads.items()}
        self.jobs = set[_Job]()
        self._waiting: dict[bool, list[_Job]] = {False: [], True: []}
        self._closed = False

    async def run(
        self,
        do: Callable[[], Result],
        request: Request,
        pieces: int,
        *,
        asks: bool = False,
        reports: bool = True,
    ) -> AsyncGenerator[Progress | Result, None]:
        """Do something when its turn comes; yield its places and progress, and last its result.

        When the client has closed the connection, or this generator is closed, the job leaves the
        queue or stops at its next question or progress.

        Args:
            pieces: how much it is to do.
            asks: whether it asks a chat server.
            reports: whether places and progress are yielded.
        """
        self.check_room()
        loop, waiting = asyncio.get_running_loop(), self._waiting[asks]
        job = _Job(do, loop.time() + PIECE * pieces, reports)
        leaving = asyncio.create_task(_gone(request))
        leaving.add_done_callback(lambda _: job.stop())
        self.jobs.add(job)
        insort(waiting, job, key=attrgetter("turn"))
        self._threads[asks].submit(self._do_next, waiting, loop)
        result = asyncio.wrap_future(job.result)
        result.add_done_callback(lambda _: job.news.put_nowait(None))
        self._report_places()
        try:
            while news := await job.news.get():
                yield news
            job.check()
            yield result.result()
        finally:
            leaving.cancel()
            job.stopped.set()
            result.cancel()
            self.jobs.remove(job)
            with suppress(ValueError):  # a thread has it
                waiting.remove(job)
            self._report_places()

    def check_open(self) -> None:
        """End what is done when the server is shutting down."""
        if self._closed:
            raise Stopped

    def check_room(self) -> None:
        """Refuse a job if too many wait, or at the end; call it before work is done for one."""
        self.check_open()
        if sum(map(len, self._waiting.values())) >= self.limit:
            raise Problem(429, f"The queue is full ({self.limit} jobs). Try again later.", LATER)

    def close(self) -> None:
        """Stop all jobs, without waiting for the threads."""
        self._closed = True
        for job in self.jobs:
            job.stop()
        for threads in self._threads.values():
            threads.shutdown(wait=False, cancel_futures=True)

    def _do_next(self, waiting: list[_Job], loop: asyncio.AbstractEventLoop) -> None:
        """Do the job whose turn it is, unless it was left."""
        try:
            job = waiting.pop(0)
        except IndexError:
            return
        if not job.result.set_running_or_notify_cancel():
            return

        def listen(stage: str, done: int, total: int) -> None:
            job.check()
            if job.reports:
                progress = Progress(place=0, stage=stage, done=done, total=total)
                loop.call_soon_threadsafe(job.news.put_nowait, progress)

        loop.call_soon_threadsafe(job.move, 0)
        loop.call_soon_threadsafe(self._report_places)
        try:
            with progress_told_to(listen), cancelled_by(job.check):
                job.result.set_result(job.do())
        except BaseException as error:
            job.result.set_exception(error)

    def _report_places(self) -> None:
        for waiting in self._waiting.values():
            for place, job in enumerate(waiting, start=1):
                job.move(place)


async def _gone(request: Request) -> None:
    """Wait until the client has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
