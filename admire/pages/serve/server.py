"""The server itself: its socket, its start and its end."""

from __future__ import annotations

import logging
import os
import socket
import threading
import warnings
import webbrowser
from contextlib import suppress
from urllib.parse import urlencode

import uvicorn

from admire.base.errors import UserError
from admire.pages.serve.app import create_app
from admire.pages.serve.guard import is_loopback
from admire.pages.serve.models import Models
from admire.pages.serve.service import Service

log = logging.getLogger("admire")

LAST_WORDS = 2
"""Seconds that answers under way have at the end."""


class Server(uvicorn.Server):
    """A server that at its end stops the work and ends the streams, which no browser would."""

    def __init__(self, config: uvicorn.Config, service: Service):
        super().__init__(config)
        self.service = service

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn."""
        self.service.end()
        await super().shutdown(sockets)


def make_server(service: Service, host: str, port: int, token: str | None = None) -> Server:
    """A server that is called by that host and port; ``run(sockets=[…])`` runs it."""
    config = uvicorn.Config(
        create_app(service, host, port, token),
        log_config=None,
        log_level=logging.CRITICAL,  # its lines name addresses; the app tells errors itself
        access_log=False,
        proxy_headers=False,
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=LAST_WORDS,
    )
    return Server(config, service)


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there; with port 0 at a free one.

    Raises:
        UserError: there is no such address, or another program has the port.
    """
    if not 0 <= port <= 65535:
        raise UserError(f"{port} is no port: it is a number from 0 to 65535.", "port")
    try:
        family, kind, *_, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind)
        try:
            if os.name == "posix":  # elsewhere it would let two programs have the port
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(128)
        except BaseException:
            listening.close()
            raise
    except socket.gaierror:
        raise UserError(f"'{host}' is no address of this machine.", "host") from None
    except OSError as error:
        raise UserError(
            f"{host}:{port}: the server cannot listen there ({error.strerror}). Another program "
            "may have the port: take another, or 0 for a free one.",
            "port",
        ) from None
    return listening


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

    Raises:
        UserError: other machines can reach the address and there is no token, or the server
            cannot listen there.
    """
    if not is_loopback(host) and not token:
        raise UserError(
            f"Other machines can reach {host}. Give a token, which people and programs that use "
            "the server must know.",
            "token",
        )
    if token is not None and not (token and token.isascii() and token.isprintable()):
        raise UserError("The token is empty, or holds characters that no address takes.", "token")
    with listen(host, port) as listening:
        port = listening.getsockname()[1]
        server = make_server(Service(models), host, port, token)
        address = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
        log.info("Open %s%s. Ctrl-C ends.", address, "?token=… with your token" if token else "")
        if opens:
            page = f"{address}?{urlencode({'token': token})}" if token else address
            threading.Thread(target=webbrowser.open, args=(page,), daemon=True).start()
        log.addFilter(_is_of_the_server)
        warnings.filterwarnings("ignore", "Image size")  # Pillow's; we refuse such pictures
        with suppress(KeyboardInterrupt):
            server.run(sockets=[listening])


def _is_of_the_server(record: logging.LogRecord) -> bool:
    """Whether a message is not of a visitor's job, which works in another thread.

    What is noted of an item names it, and concerns the visitor alone. Errors are of the server.
    """
    return record.levelno >= logging.ERROR or record.thread == threading.main_thread().ident
