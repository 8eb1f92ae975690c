"""What the server holds while it runs."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

from fastapi import Depends, FastAPI, Header, Request

from admire.base.errors import UserError
from admire.base.storage import temporary_folder
from admire.pages.serve.guard import Limits
from admire.pages.serve.models import Models, OpeningError, load_and_tell
from admire.pages.serve.problems import Problem
from admire.pages.serve.visitors import Visitor, Visitors
from admire.pages.serve.work import Work

log = logging.getLogger("admire")


class Service:
    """Models, the work, and visitors with their files.

    Attributes:
        state: of the models, as the page shows it.
        one_at_a_time: for pictures, which may take hundreds of megabytes when they are decoded.
    """

    folder: Path
    work: Work
    visitors: Visitors

    def __init__(self, models: Models, limits: Limits | None = None):
        self.models, self.limits = models, limits or Limits()
        self.state = {"state": "loading", "said": "The models are being loaded."}
        self.one_at_a_time = asyncio.Semaphore(1)

    @asynccontextmanager
    async def running(self, app: FastAPI) -> AsyncIterator[None]:
        """Start the work, and stop it at the end."""
        loop = asyncio.get_running_loop()

        def tell(state: str, said: str) -> None:
            loop.call_soon_threadsafe(self._tell_state, state, said)

        self.folder = temporary_folder()
        self.work = Work(self.limits.jobs, partial(load_and_tell, self.models, tell))
        self.visitors = Visitors(self.folder, self.limits.grace, self.work)
        waiting = loop.call_later(self.limits.patience, self.work.want)
        try:
            yield
        finally:
            waiting.cancel()
            self.end()

    def end(self) -> None:
        """Stop all work, end all streams, remove all files."""
        self.work.close()
        self.visitors.remove_all()
        shutil.rmtree(self.folder, ignore_errors=True)

    def check_profile(self, profile: str | None) -> str:
        """The name of a profile, by default of the first.

        Raises:
            Problem: there is no such profile.
        """
        if profile and profile not in self.models.profiles:
            raise Problem(422, f"profile: is none of {', '.join(self.models.profiles)}.")
        return profile or self.models.profiles[0]

    def problem(self, error: UserError, names: Mapping[str, str]) -> Problem:
        """A user's error without paths of this machine.

        Args:
            names: what the client calls files, by their paths or names here.
        """
        message = str(error)
        for path in sorted(names, key=len, reverse=True):  # some begin as others do
            message = message.replace(path, names[path])
        status = 503 if isinstance(error, OpeningError) else 422
        return Problem(status, message.replace(str(self.folder), "…"))

    def _tell_state(self, state: str, said: str) -> None:
        if state == "failed":
            log.warning("%s", said)
        self.state = {"state": state, "said": said}
        for visitor in self.visitors:
            visitor.tell("models", self.state)


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


TheService = Annotated[Service, Depends(_service)]


def _visitor(
    service: TheService, admire_visitor: Annotated[str, Header()] = "", visitor: str = ""
) -> Visitor:
    return service.visitors.find(admire_visitor or visitor)


TheVisitor = Annotated[Visitor, Depends(_visitor)]
"""Who sent the request, by a header or in the address."""
