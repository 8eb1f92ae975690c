"""A server of raw bytes, for answers that no web framework would give.

with RawServer(lambda connection, request: connection.sendall(b"HTTP/1.1 200 OK\\r\\n…")) as server:
    … run against server.url …
    assert server.requests
"""

from __future__ import annotations

import json
import re
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

Handler = Callable[[socket.socket, bytes], None]


class RawServer:
    """The server, as a context manager. It answers each connection once, and closes it.

    Args:
        answer: is given the connection and the whole request, and sends what it likes.
        context: with TLS, where given.

    Attributes:
        requests: as they came, head and body.
        over: set when the test is over: what waits may wait for it.
    """

    def __init__(self, answer: Handler, context: ssl.SSLContext | None = None):
        self.answer, self._context = answer, context
        self.requests: list[bytes] = []
        self.over = threading.Event()

    def __enter__(self) -> RawServer:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.url = f"{'https' if self._context else 'http'}://127.0.0.1:{self.port}/v1"
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                connection, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError):  # the other side has gone
            if self._context:
                connection = self._context.wrap_socket(connection, server_side=True)
            with connection:
                request = _read(connection)
                self.requests.append(request)
                self.answer(connection, request)


def _read(connection: socket.socket) -> bytes:
    """A whole request."""
    read = b""
    while b"\r\n\r\n" not in read:
        read += connection.recv(65536) or b"\r\n\r\n"
    head, _, body = read.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: *(\d+)", head)
    while length and len(body) < int(length[1]):
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


def asked(request: bytes) -> str:
    """The prompt of a request."""
    return str(json.loads(request.partition(b"\r\n\r\n")[2])["messages"][0]["content"])


def head(*lines: str, status: str = "200 OK") -> bytes:
    """An answer's head, of JSON unless a line says otherwise; the connection is closed after it."""
    first = [f"HTTP/1.1 {status}", "Connection: close", "Content-Type: application/json"]
    return "\r\n".join([*first, *lines, "", ""]).encode()


def whole(body: bytes | str, *lines: str, status: str = "200 OK") -> bytes:
    """A whole answer."""
    body = body.encode() if isinstance(body, str) else body
    return head(f"Content-Length: {len(body)}", *lines, status=status) + body


def completion(text: object = "Literal", **more: Any) -> str:
    """The body of a chat completion; ``more`` goes into the choice, or beside it as ``model``."""
    outer = {name: more.pop(name) for name in ("model", "usage", "error") if name in more}
    choice = {"index": 0, "message": {"role": "assistant", "content": text}}
    choice |= {"finish_reason": "stop"} | more
    return json.dumps({"object": "chat.completion", "model": "m", "choices": [choice]} | outer)
