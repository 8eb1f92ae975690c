"""Checks which requests are let in, by host, origin and token."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from admire.apps.serve.problems import Problem

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
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
    """What the server accepts; sizes are in megabytes."""

    pictures: int = 50  #: in the page's form, and candidates of one ranking
    megabytes: float = 20  #: of a picture
    megapixels: float = 50  #: of a picture
    row: float = 64  #: any other request, such as a row for ``/v1/rank`` with its pictures
    json: float = 8  #: a row without its pictures; parsed, it may take seventy times as much
    text: float = 0.1  #: a text whose language is asked for
    bodies: float = 128  #: all requests together whose bodies are in memory
    jobs: int = 20  #: that wait for their turn, of all pages and programs
    asking: int = 16  #: jobs at a time that ask chat servers, which may keep them waiting
    connections: int = 200  #: that are open at the same time


class Guard:
    """Lets in requests from this server's own page and from programs.

    A page of another site can also send requests to a server on this machine. Its name is in
    ``Origin`` or, if that site's name was made to point here (DNS rebinding), in ``Host``.
    """

    def __init__(self, app: ASGIApp, host: str, token: str | None = None):
        self.app, self.host, self.token = app, host.lower(), token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(SECURITY_HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        answer: ASGIApp = self.app
        try:
            self._check(scope)
        except Problem as problem:
            answer = problem.response(Headers(scope=scope))
        await answer(scope, receive, send_guarded)

    def _check(self, scope: Scope) -> None:
        """Refuse a request that is not for this server, or is another site's."""
        headers, path = Headers(scope=scope), scope["path"]
        host = headers.get("host", "").lower()
        try:  # anybody can point a name here, no address
            name = urlsplit(f"//{host}").hostname or ""
            is_own = name in ("localhost", self.host) or _is_address(name)
        except ValueError:
            is_own = False
        if not is_own:
            raise Problem(
                403,
                "The Host header does not match this server. Use the address that admire serve "
                "printed.",
            )
        if headers.get("origin", f"http://{host}").lower() != f"http://{host}":
            raise Problem(403, "Pages of other sites may not use this server.")
        if not path.startswith(("/static/", "/favicon.ico", "/healthz")):
            scheme, _, credentials = headers.get("authorization", "").partition(" ")
            token = credentials.strip() if scheme.lower() == "bearer" else ""
            if path == "/":  # its address may have the token
                query = parse_qs(scope["query_string"].decode("latin-1"))
                token = query.get("token", [token])[0]
            if self.token and not hmac.compare_digest(token.encode(), self.token.encode()):
                raise Problem(
                    401,
                    "The token is missing or wrong. Open the page with ?token=…, the token that "
                    "admire serve was given; programs send it as Authorization: Bearer.",
                    {"WWW-Authenticate": "Bearer"},
                )


def is_loopback(host: str) -> bool:
    """Tell whether a server at this address can only be reached from its own machine."""
    return host.lower() == "localhost" or (_is_address(host) and ip_address(host).is_loopback)


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
