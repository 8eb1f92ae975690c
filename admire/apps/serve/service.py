"""What the server holds while it runs: the models, their state, and the work."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Annotated, Any, Literal

from fastapi import Depends, FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel

from admire.apps.serve.bodies import Bodies
from admire.apps.serve.guard import Limits
from admire.apps.serve.models import Models, OpeningError
from admire.apps.serve.problems import LATER, Problem
from admire.apps.serve.work import Stopped, Work
from admire.core.cache import CacheError
from admire.core.errors import UserError
from admire.core.progress import cancelled_by, hidden_progress
from admire.core.storage import cache_dir
from admire.llm.chat import ServerError

log = logging.getLogger("admire")


class State(BaseModel):
    """How far the loading of the first profile's models is; ``keyless`` profiles lack a key."""

    state: Literal["loading", "ready", "failed"] = "loading"
    message: str = "The models are being loaded."
    loaded: list[str] = []
    loading: list[str] = []
    keyless: list[str] = []


class Service:
    """Models, their state, and the work.

    Attributes:
        folder: for files of requests under way.
        bodies: of requests that are in memory.
        parsing, decoding: held for one row or one picture, which may take hundreds of megabytes
            then. Requests that wait take turns.
    """

    folder: Path
    work: Work

    def __init__(self, models: Models, limits: Limits | None = None):
        self.models, self.limits = models, limits or Limits()
        self.state = State()
        self.bodies = Bodies(self.limits.bodies)
        self._asks: dict[str, bool] = {}
        self.parsing, self.decoding = asyncio.Semaphore(1), asyncio.Semaphore(1)

    @asynccontextmanager
    async def running(self, app: FastAPI) -> AsyncIterator[None]:
        """Start the work and load the models beside it; stop both at the end."""
        self.folder = Path(mkdtemp(prefix="admire-"))
        self.work = Work(self.limits.jobs, self.limits.asking)
        loading = ThreadPoolExecutor(1, "admire loading")
        loading.submit(self._load)
        try:
            yield
        finally:
            self.work.close()
            loading.shutdown(wait=False)  # a hub or a large file may keep it for long
            shutil.rmtree(self.folder, ignore_errors=True)

    async def asks(self, profile: str) -> bool:
        """Open a profile, outside the queue; return whether it asks a chat server."""
        if profile not in self._asks:
            self._asks[profile] = await run_in_threadpool(self.models.open, profile)
        return self._asks[profile]

    def _load(self) -> None:
        """Load the first profile's models one after the other, and keep how far that is."""
        profile, state = self.models.profiles[0], self.state
        try:
            with hidden_progress(), cancelled_by(self.work.check_open):
                steps = self.models.steps()
                state.loading, state.keyless = [*steps], self.models.keyless()
                for name, load in steps.items():
                    self.work.check_open()
                    state.message = f"The models are being loaded: {', '.join(state.loading)}."
                    load()
                    state.loaded.append(name)
                    state.loading.remove(name)
            state.message = f"The models of the profile {profile} are loaded."
            state.state = "ready"
        except Stopped:
            return
        except UserError as error:
            state.message = f"The profile {profile} cannot be used. {error}"
            log.error("%s", state.message)
            state.message = self.without_paths(state.message)
            state.state = "failed"
        except Exception:
            state.message = f"The models of the profile {profile} could not be loaded."
            log.exception("%s", state.message)
            state.state = "failed"

    def without_paths(self, message: str, names: Mapping[str, str] | None = None) -> str:
        """Return a message without folders of this machine; see :meth:`hidden_paths`."""
        for path, name in sorted((names or {}).items(), reverse=True):  # 10 before 1
            message = message.replace(path, name)
        message = _FOLDERS.sub("…/", message)
        for path in map(str, (self.folder, cache_dir(), Path.home())):
            message = message.replace(path, "…") if path != os.sep else message
        return message

    @contextmanager
    def hidden_paths(self, names: Mapping[str, str]) -> Iterator[None]:
        """Turn a user's error into a problem with the client's names of files, by paths here."""
        try:
            yield
        except UserError as error:
            message = self.without_paths(str(error), names)
            status, headers = 422, None
            if isinstance(error, OpeningError | CacheError):
                status = 503
            elif isinstance(error, ServerError):
                status, headers = (503, LATER) if error.later else (502, None)
            raise Problem(status, message, headers) from None
        except OSError:
            self.work.check_open()  # at the end, the folder is gone
            raise


_START = r"(?:(?<![\w:/.…-])|(?<=\bfile://)|(?<![\w/.])\.\.?)/"
_FOLDERS = re.compile(rf"{_START}(?:[^\s/:'\"]+(?: [^\s/:'\".][^\s/:'\"]*)*/)+")
"""Folders at the start of a path, with spaces in their names, but not of an address."""


def _service(request: Request) -> Any:
    return request.app.state.service


TheService = Annotated[Service, Depends(_service)]
