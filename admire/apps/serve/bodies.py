"""Bodies of requests: counted as they arrive, until they are parsed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Request
from fastapi.responses import Response
from fastapi.routing import APIRoute

from admire.apps.serve.guard import MEGABYTE
from admire.apps.serve.problems import LATER, Problem

PATIENCE = 30.0
"""Seconds after which a body is given up of which nothing more arrives."""


SMALL = 128
"""A body of up to this fraction of the memory for all is small."""


class Bodies:
    """The bodies of all requests that are in memory.

    Args:
        megabytes: the most that they may have together. Small ones are let in all the same, so
            that those who send large ones cannot keep out everybody.
    """

    def __init__(self, megabytes: float):
        self._most = megabytes * MEGABYTE
        self._bodies: dict[int, bytearray] = {}

    @property
    def size(self) -> int:
        """Of all of them, in bytes."""
        return sum(map(len, self._bodies.values()))

    @asynccontextmanager
    async def read(self, request: Request, megabytes: float) -> AsyncIterator[bytearray]:
        """Read a body, which counts as long as the block lasts; what is deleted of it does not.

        Its size is that of what arrives: ``Content-Length`` may be missing or wrong.

        Raises:
            Problem: it is compressed, or has more than so many megabytes, or those of all requests
                have more than they may, or it does not arrive.
        """
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            raise Problem(415, "The body is compressed. Send it without Content-Encoding.")
        too_large = Problem(413, f"The body has more than {megabytes:g} MB, the limit.")
        if int(request.headers.get("content-length", 0)) > megabytes * MEGABYTE:
            raise too_large
        body, now = bytearray(), asyncio.get_running_loop().time
        self._bodies[id(body)] = body
        try:
            async with asyncio.timeout(PATIENCE) as limit:
                async for part in request.stream():
                    body += part
                    if len(body) > megabytes * MEGABYTE:
                        raise too_large
                    if self.size > self._most and len(body) > self._most / SMALL:
                        raise Problem(
                            503, "Other requests use all available memory. Try again later.", LATER
                        )
                    limit.reschedule(now() + PATIENCE)
            yield body
        except TimeoutError:
            raise Problem(408, "The body does not arrive. Send it again.") from None
        finally:
            del self._bodies[id(body)]


def media_type(request: Request) -> str:
    """Return the media type of a request's body, without parameters; empty if it names none."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


class JsonRoute(APIRoute):
    """A route for a JSON object about which there is work to do.

    Its function gets the body, the request and the service, and returns the response. FastAPI would
    read a body of any size, and parse it in the event loop.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        async def answer(request: Request) -> Response:
            service = request.app.state.service
            if media_type(request) != "application/json":
                raise Problem(415, "Send JSON, with the header Content-Type: application/json.")
            async with service.bodies.read(request, service.limits.row) as body:
                response: Response = await self.endpoint(body, request, service)
                return response

        return answer
