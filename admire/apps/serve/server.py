"""The server itself: its socket, its start and its end."""

from __future__ import annotations

import logging
import socket
import threading
import warnings
import webbrowser
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from urllib.parse import urlencode

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from admire.apps.serve import bodies
from admire.apps.serve.app import create_app
from admire.apps.serve.guard import is_loopback
from admire.apps.serve.models import Models
from admire.apps.serve.service import Service
from admire.core.errors import UserError

log = logging.getLogger("admire")


class Connection(H11Protocol):
    """A connection whose client has to read."""

    def pause_writing(self) -> None:
        """Wait for the client to read, but not for ever."""
        super().pause_writing()
        self.cut = self.loop.call_later(bodies.PATIENCE, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on: the client has read."""
        super().resume_writing()
        self.cut.cancel()


class Server(uvicorn.Server):
    """A server that ends the work and the streams before it waits for connections to close."""

    def __init__(self, config: uvicorn.Config, service: Service):
        super().__init__(config)
        self.service = service

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.service.work.close()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End, but do not raise the signal again afterwards, as uvicorn does."""
        self.should_exit = True


def make_server(service: Service, host: str, token: str | None = None) -> Server:
    """Return a server for that address; ``run(sockets=[…])`` runs it."""
    config = uvicorn.Config(
        create_app(service, host, token),
        http=Connection,  # of h11, not httptools, which does not limit a head
        h11_max_incomplete_event_size=16_384,
        limit_concurrency=service.limits.connections,
        log_config=None,
        log_level=logging.CRITICAL,  # its lines name addresses; the app logs errors itself
        access_log=False,
        proxy_headers=False,
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=1,  # second, for answers under way
    )
    return Server(config, service)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens there; with port 0 at a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=128)
        # Connections inherit it. asyncio sets it only for sockets that name their protocol, and
        # without it the last packet of an answer waits 40 ms for the client.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except OSError as error:
        raise UserError(
            f"{host}:{port}: cannot listen there ({error.strerror}). Choose another port, or 0.",
            "port",
        ) from None


def run_server(
    models: Models,
    *,
    host: str = "127.0.0.1",
    port: int = 8765,
    token: str | None = None,
    opens: bool = False,
) -> None:
    """Serve the page until Ctrl-C or SIGTERM.

    Args:
        port: 0 takes a free one.
        token: has to be given for the page and by programs.
        opens: the page in the browser.
    """
    if not is_loopback(host) and not token:
        raise UserError(f"Other machines can reach {host}. Give a token.", "token")
    if token is not None and not (token and token.isascii() and token.isprintable()):
        raise UserError(
            "The token is empty, or contains characters that are invalid in an address.", "token"
        )
    with listen(host, port) as listening, TemporaryDirectory(prefix="admire-") as folder:
        port = listening.getsockname()[1]
        server = make_server(Service(models), host, token)
        address = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
        log.info("Open %s%s. Ctrl-C ends.", address, "?token=… with your token" if token else "")
        if opens:
            page = address
            if token:
                # All users of this machine can read the command line of a browser, so the token
                # must not be in it. Only this user can read the folder.
                place = escape(f"{address}?{urlencode({'token': token})}")
                file = Path(folder, "open.html")
                file.write_text(
                    f'<!doctype html><meta http-equiv="refresh" content="0; url={place}">'
                    f'<title>admire</title><a href="{place}">Open the page</a>',
                    encoding="utf-8",
                )
                page = file.as_uri()
            threading.Thread(target=webbrowser.open, args=(page,), daemon=True).start()
        warnings.filterwarnings("ignore", "Image size")  # Pillow's; we refuse such pictures
        log.addFilter(_is_of_the_server)
        try:
            server.run(sockets=[listening])
        finally:
            log.removeFilter(_is_of_the_server)


def _is_of_the_server(record: logging.LogRecord) -> bool:
    """Return whether a message is an error, or not about a request, which has another thread."""
    return record.levelno >= logging.ERROR or record.thread == threading.main_thread().ident
