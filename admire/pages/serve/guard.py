"""What is let in: hosts, origins, the token, and bodies of a size."""

from __future__ import annotations

import hmac
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from admire.pages.serve.problems import Problem

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Of every answer."""

MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Limits:
    """What the server bears.

    Attributes:
        pictures: of a visitor, and the most candidates of an item.
        megabytes, megapixels: of a picture.
        stored: megabytes of all pictures of all visitors.
        row: megabytes of a row for ``/v1/rank``, with its pictures.
        visitors: at the same time.
        jobs: that wait for their turn, of all visitors and programs.
        grace: seconds until the files of a visitor are removed who no longer listens.
        patience: seconds until models are loaded though nobody has come.
        keep_alive: seconds between signs of life in a stream of events.
    """

    pictures: int = 50
    megabytes: float = 20
    megapixels: float = 50
    stored: float = 2000
    row: float = 64
    visitors: int = 20
    jobs: int = 20
    grace: float = 30.0
    patience: float = 30.0
    keep_alive: float = 15.0


class Guard:
    """Lets requests through that come from this server's own page or from programs.

    A page of another site can send requests to a server on this machine, too. Its own name stands
    in ``Origin`` or, where that site's name was made to lead here, in ``Host``.

    Args:
        host: the address that the server listens at.
        port: to be named in ``Host``.
        token: what the page's first address and programs have to give, if anything.
    """

    def __init__(self, app: ASGIApp, host: str, port: int, token: str | None = None):
        self.app, self.host, self.port, self.token = app, host.lower(), port, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            self.check(scope)
        except Problem as problem:
            await problem.response()(scope, receive, send_guarded)
            return
        await self.app(scope, receive, send_guarded)

    def check(self, scope: Scope) -> None:
        """Refuse a request by its address and headers.

        Raises:
            Problem: it is not for this server, comes from another site, or lacks the token.
        """
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if len(headers.getlist("host")) != 1 or not self.is_own(host):
            raise Problem(403, "This server is not called by this name. Use its own address.")
        origin = headers.get("origin")
        if origin is not None and origin.lower() != f"http://{host.lower()}":
            raise Problem(403, "Pages of other sites may not use this server.")
        others = headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
        if others and headers.get("sec-fetch-mode") != "navigate":
            raise Problem(403, "Pages of other sites may not use this server.")
        if scope["path"] == "/" or scope["path"].startswith("/v1/"):
            self.check_token(scope, headers)

    def is_own(self, host: str) -> bool:
        """Whether a ``Host`` names this server.

        Where it listens at all addresses of the machine, each address is its own, but no name is:
        anybody can make a name lead here.
        """
        try:
            address = urlsplit(f"//{host}")
            name, port = address.hostname or "", address.port or 80
        except ValueError:
            return False
        if port != self.port or address.username is not None or address.path:
            return False
        if name in LOOPBACK or name == self.host:
            return True
        return self.host in ("0.0.0.0", "::") and _is_address(name)

    def check_token(self, scope: Scope, headers: Headers) -> None:
        if self.token is None:
            return
        given = headers.get("authorization", "").removeprefix("Bearer ")
        if scope["path"] == "/":
            given = Request(scope).query_params.get("token") or given
        if not hmac.compare_digest(given.encode(), self.token.encode()):
            raise Problem(
                401,
                "The token is missing or wrong. Open the page with ?token=…, the token that "
                "admire serve was given; programs send it as Authorization: Bearer.",
                {"WWW-Authenticate": "Bearer"},
            )


def is_loopback(host: str) -> bool:
    """Whether a server at this address can only be reached from its own machine."""
    return host.lower() == "localhost" or (_is_address(host) and ip_address(host).is_loopback)


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


async def body_within(request: Request, megabytes: float) -> AsyncIterator[bytes]:
    """The body in pieces, counted as they come.

    What is a little too long is read to its end before it is refused, because a browser that is
    still sending does not read the answer.

    Raises:
        Problem: it is longer than the limit.
    """
    limit = int(megabytes * MEGABYTE)
    said = f"This is more than {megabytes:g} MB, the most that is taken."
    too_long = Problem(413, said, {"Connection": "close"})
    told = request.headers.get("content-length", "")
    if told.isdecimal() and int(told) > 4 * limit:
        raise too_long
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > 4 * limit:
            break
        if size <= limit:
            yield piece
    if size > limit:
        raise too_long


async def read_object(request: Request, megabytes: float) -> dict[str, Any]:
    """The body as a JSON object.

    Raises:
        Problem: it is something else, or longer than the limit.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Problem(415, "The body is not said to be JSON (Content-Type: application/json).")
    content = b"".join([piece async for piece in body_within(request, megabytes)])
    return await run_in_threadpool(_parsed, content)


def _parsed(content: bytes) -> dict[str, Any]:
    try:
        value = json.loads(content)
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise Problem(422, "The JSON holds half a surrogate pair (\\ud800 to \\udfff).") from None
    except (ValueError, RecursionError):
        raise Problem(400, "The body is not JSON.") from None
    if not isinstance(value, dict):
        raise Problem(422, "The body is not a JSON object.")
    return value
