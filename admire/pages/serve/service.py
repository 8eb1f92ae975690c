"""What the server holds while it runs."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request

from admire.base.errors import UserError
from admire.base.storage import temporary_folder
from admire.pages.serve.guard import Limits
from admire.pages.serve.models import Models, OpeningError, load_and_tell
from admire.pages.serve.problems import Problem
from admire.pages.serve.visitors import Event, Visitor, Visitors
from admire.pages.serve.work import Work

log = logging.getLogger("admire")


class Service:
    """Models, the work, and visitors with their files."""

    folder: Path
    work: Work
    visitors: Visitors

    def __init__(self, models: Models, limits: Limits | None = None):
        self.models, self.limits = models, limits or Limits()
        self.state: Event = ("models", {"state": "loading", "said": "The models are being loaded."})
        self.one_at_a_time = asyncio.Semaphore(1)
        """For pictures, which may take hundreds of megabytes when they are decoded."""

    @asynccontextmanager
    async def running(self, app: Starlette) -> AsyncIterator[None]:
        """Start the work, and at the end stop it."""
        self.folder = temporary_folder()
        self.work = Work(self.limits.jobs)
        self.visitors = Visitors(self.folder, self.limits, self.work)
        loop = asyncio.get_running_loop()

        def tell(state: str, said: str) -> None:
            loop.call_soon_threadsafe(lambda: self._tell_state(state, said))

        load = partial(load_and_tell, self.models, tell)
        working = asyncio.create_task(self.work.run(load, self.limits.patience))
        try:
            yield
        finally:
            self.end()
            working.cancel()

    def end(self) -> None:
        """Stop all work, end all streams, remove all files."""
        self.work.close()
        self.visitors.remove_all()
        shutil.rmtree(self.folder, ignore_errors=True)

    def check_profile(self, profile: object) -> None:
        """Refuse a profile that there is not.

        Raises:
            Problem: the message names those that there are.
        """
        if profile not in self.models.profiles:
            known = ", ".join(self.models.profiles)
            raise Problem(422, f"profile: is none of {known}.")

    def told(self, error: UserError, names: Mapping[str, str]) -> Problem:
        """What a user's error is for somebody far away: without paths of this machine."""
        message = str(error)
        for path in sorted(names, key=len, reverse=True):  # some begin as others do
            message = message.replace(path, names[path])
        status = 503 if isinstance(error, OpeningError) else 422
        return Problem(status, message.replace(str(self.folder), "…"))

    def _tell_state(self, state: str, said: str) -> None:
        if state == "failed":
            log.warning("%s", said)
        self.state = ("models", {"state": state, "said": said})
        for visitor in self.visitors:
            visitor.tell(*self.state)


def service_of(request: Request) -> Service:
    """What holds the server's state."""
    service: Service = request.app.state.service
    return service


def visitor_of(request: Request) -> Visitor:
    """Who asks.

    Raises:
        Problem: the request does not say it, or nobody is known by that id.
    """
    given = request.headers.get("admire-visitor") or request.query_params.get("visitor")
    return service_of(request).visitors.find(given)
