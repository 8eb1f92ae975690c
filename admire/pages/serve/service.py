"""What the server holds while it runs: models, the work, and visitors with their files."""

from __future__ import annotations

import asyncio
import logging
import secrets
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, FastAPI, Header, Request
from fastapi.sse import ServerSentEvent

from admire.base.errors import UserError
from admire.base.progress import hidden_progress
from admire.base.storage import temporary_folder
from admire.pages.serve.guard import Limits
from admire.pages.serve.models import Models, OpeningError
from admire.pages.serve.pictures import Picture
from admire.pages.serve.problems import Problem
from admire.pages.serve.work import Job, Work

if TYPE_CHECKING:
    from admire.pages.serve.ranking import Ranked

log = logging.getLogger("admire")

Events = asyncio.Queue[ServerSentEvent | None]
"""What a stream sends; None ends it."""


@dataclass(eq=False)
class Visitor:
    """Somebody who has the page open: each load of the page is one.

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


class Service:
    """Models, the work, and visitors with their files.

    Attributes:
        state: of the models, as the page shows it.
        visitors: by id.
        one_at_a_time: for pictures, which may take hundreds of megabytes when they are decoded.
    """

    folder: Path
    work: Work

    def __init__(self, models: Models, limits: Limits | None = None):
        self.models, self.limits = models, limits or Limits()
        self.state: dict[str, Any] = {
            "state": "loading",
            "said": "The models are being loaded.",
            "keyless": [],
        }
        self.visitors: dict[str, Visitor] = {}
        self.one_at_a_time = asyncio.Semaphore(1)

    @asynccontextmanager
    async def running(self, app: FastAPI) -> AsyncIterator[None]:
        """Start the work, and stop it at the end."""
        loop = asyncio.get_running_loop()
        self.folder = temporary_folder()
        self.work = Work(self.limits.jobs, lambda: self._load(loop))
        waiting = loop.call_later(self.limits.patience, self.work.want)
        try:
            yield
        finally:
            waiting.cancel()
            self.end()

    def end(self) -> None:
        """Stop all work, end all streams, remove all files."""
        self.work.close()
        for visitor in list(self.visitors.values()):
            self._remove(visitor)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _load(self, loop: asyncio.AbstractEventLoop) -> None:
        """Load the first profile's models, and tell the visitors the outcome."""
        profile = self.models.profiles[0]
        state, said = "ready", f"The models of the profile {profile} are loaded."
        keyless: list[str] = []
        try:
            keyless = self.models.keyless()
            loop.call_soon_threadsafe(self._tell_state, self.state | {"keyless": keyless})
            with hidden_progress():
                self.models.load()
        except UserError as error:
            state, said = "failed", f"The profile {profile} cannot be used. {error}"
        except Exception:
            state, said = "failed", f"The models of the profile {profile} could not be loaded."
            log.exception("Loading failed.")
        told = {"state": state, "said": said, "keyless": keyless}
        loop.call_soon_threadsafe(self._tell_state, told)

    def _tell_state(self, told: dict[str, Any]) -> None:
        if told["state"] == "failed":
            log.warning("%s", told["said"])  # in the main thread: see run_server's filter
        self.state = told
        for visitor in self.visitors.values():
            visitor.tell("models", self.state)

    # ------------------------------------------------------------------------------ visitors

    def enter(self) -> Visitor:
        """A new visitor."""
        id = secrets.token_hex(16)
        visitor = self.visitors[id] = Visitor(id, self.folder / id)
        visitor.folder.mkdir(mode=0o700)
        self._let_go(visitor)
        return visitor

    def find(self, id: str) -> Visitor:
        """The visitor of that id.

        Raises:
            Problem: there is none.
        """
        if id not in self.visitors:
            raise Problem(403, "The server does not know this page any more. Load it again.")
        return self.visitors[id]

    def open_result(self, job: str, visitor: Visitor) -> Ranked:
        """The result of a job, whoever ranked it; the visitor gets a copy of another's.

        Raises:
            Problem: there is no such job, or all who had its result have left.
        """
        from admire.pages.serve.ranking import copied

        holders = [one for one in (visitor, *self.visitors.values()) if job in one.ranked]
        if not holders:
            raise Problem(
                404,
                "There is no result at this address any more. A result is kept as long as a page "
                "that shows it is open. Rank again.",
            )
        found = holders[0].ranked[job]
        if holders[0] is not visitor:
            found = visitor.ranked[job] = copied(found, visitor.folder)
            visitor.pictures |= {one.id: one for one in found.pictures.values()}
        return found

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
            if visitor.events is events and visitor.id in self.visitors:
                self._stop(visitor)
                self._let_go(visitor)

    def _let_go(self, visitor: Visitor) -> None:
        loop = asyncio.get_running_loop()
        visitor.leaving = loop.call_later(self.limits.grace, self._remove, visitor)

    def _remove(self, visitor: Visitor) -> None:
        """Stop the visitor's jobs, end the stream and remove the files."""
        del self.visitors[visitor.id]
        if visitor.leaving:
            visitor.leaving.cancel()
        self._stop(visitor)
        visitor.events.put_nowait(None)
        shutil.rmtree(visitor.folder, ignore_errors=True)

    def _stop(self, visitor: Visitor) -> None:
        for job in list(visitor.jobs.values()):
            self.work.stop(job)

    # -------------------------------------------------------------------------- for requests

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


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


TheService = Annotated[Service, Depends(_service)]


def _visitor(
    service: TheService, admire_visitor: Annotated[str, Header()] = "", visitor: str = ""
) -> Visitor:
    return service.find(admire_visitor or visitor)


TheVisitor = Annotated[Visitor, Depends(_visitor)]
"""Who sent the request, by a header or in the address."""
