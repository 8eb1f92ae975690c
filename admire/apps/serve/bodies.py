"""Bodies of requests: counted as they arrive, and parsed in a thread."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from inspect import signature
from typing import Any, get_type_hints

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response
from fastapi.routing import APIRoute

from admire.apps.serve.guard import MEGABYTE
from admire.apps.serve.problems import LATER, Problem


class Bodies:
    """The bodies of all requests that are in memory.

    Attributes:
        size: of all of them, in bytes.

    Args:
        megabytes: the most that they may have together.
    """

    def __init__(self, megabytes: float):
        self._most = megabytes * MEGABYTE
        self.size = 0

    @asynccontextmanager
    async def read(self, request: Request, megabytes: float) -> AsyncIterator[bytes]:
        """Read a body, which counts as long as the block lasts.

        Its size is that of what arrives: ``Content-Length`` may be missing or wrong.

        Raises:
            Problem: it is compressed, or has more than so many megabytes, or those of all requests
                have more than they may.
        """
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            raise Problem(415, "The body is compressed. Send it without Content-Encoding.")
        too_large = Problem(413, f"The body has more than {megabytes:g} MB, the limit.")
        if int(request.headers.get("content-length", 0)) > megabytes * MEGABYTE:
            raise too_large
        parts, size = list[bytes](), 0
        try:
            async for part in request.stream():
                size += len(part)
                self.size += len(part)
                if size > megabytes * MEGABYTE:
                    raise too_large
                if self.size > self._most:
                    raise Problem(
                        503, "Other requests use all available memory. Try again later.", LATER
                    )
                parts.append(part)
            parts[:] = [b"".join(parts)]
            yield parts.pop()  # so that whoever has parsed it can let it go
        finally:
            self.size -= size


def media_type(request: Request) -> str:
    """Return the media type of a request's body, without parameters; empty if it names none."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


class JsonRoute(APIRoute):
    """A route for a JSON object about which there is work to do.

    Its function gets it as a pydantic model, its first parameter. The others are the request and
    the service. It returns the response. FastAPI would read a body of any size, and parse it in the
    event loop.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        endpoint = self.endpoint
        kind = get_type_hints(endpoint)[next(iter(signature(endpoint).parameters))]

        async def answer(request: Request) -> Response:
            service = request.app.state.service
            if media_type(request) != "application/json":
                raise Problem(415, "Send JSON, with the header Content-Type: application/json.")
            async with service.bodies.read(request, service.limits.row) as body:
                service.work.check_room()
                value = await run_in_threadpool(kind.model_validate_json, body)
                del body
                response: Response = await endpoint(value, request, service)
                return response

        return answer
