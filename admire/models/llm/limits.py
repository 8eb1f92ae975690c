"""What a server may do to an answer: how long it may take, how large it may be, where it may lead.

The openai package's own client has a time limit for each *piece* of an answer, reads as many pieces
as there are, unpacks them, and follows to other addresses.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import httpx2
import openai

from admire.base.errors import UserError
from admire.models.llm.openai import without_secrets

ANSWER_BYTES = 16 * 2**20
"""Of one answer; one of 4,096 tokens with 20 log-probabilities each has about 8 MB."""
FILE_BYTES, FILE_SECONDS = 2**30, 3600.0
"""Of a batch's file."""


def _hide(record: logging.LogRecord) -> bool:
    """Take user name, password and query out of the addresses that httpx2 logs, and log them."""
    if isinstance(record.args, tuple):
        record.args = tuple(
            without_secrets(str(one)) if isinstance(one, httpx2.URL) else one for one in record.args
        )
    return True


logging.getLogger("httpx2").addFilter(_hide)


def careful_client(name: str, where: str, timeout: float) -> httpx2.Client:
    """A client for the openai package that reads an answer within limits and from nowhere else.

    Args:
        name: what messages call the model.
        where: the server's address, as messages show it.
        timeout: how many seconds an answer may take from the request to its last byte.

    Raises (when it is used):
        UserError: the answer is too large, packed although it was not to be (a few bytes could
            unpack into more than the memory holds), or a redirect to another address.
        httpx2.ReadTimeout: the time is over; the openai package tries again.
    """

    def start(request: httpx2.Request) -> None:
        request.extensions["started"] = time.monotonic()

    def check(response: httpx2.Response) -> None:
        if response.has_redirect_location:
            raise UserError(
                f"{name}: {where} sends its questions on to another address"
                f"{_target(response)}, and admire does not follow. If you trust that one, give it "
                "in place of this one.",
                "llm_url",
            )
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise UserError(
                f"{name}: {where} packs its answers "
                f"({response.headers['content-encoding'][:20]!r}), which it was asked not to do. "
                "Look at the settings of the server, or of a proxy before it."
            )
        is_file = response.request.url.path.endswith("/content")
        response.stream = _Limited(
            response,
            f"{name}: {where} sends an answer without end",
            *((FILE_BYTES, FILE_SECONDS) if is_file else (ANSWER_BYTES, timeout)),
        )

    return openai.DefaultHttpxClient(
        timeout=timeout,
        follow_redirects=False,
        headers={"Accept-Encoding": "identity"},
        event_hooks={"request": [start], "response": [check]},
    )


class _Limited(httpx2.SyncByteStream):
    """The pieces of an answer, as long as it keeps to its limits."""

    def __init__(self, response: httpx2.Response, what: str, most: int, seconds: float):
        self._stream, self._request = response.stream, response.request
        self._what, self._most = what, most
        self._end = response.request.extensions["started"] + seconds

    def __iter__(self) -> Iterator[bytes]:
        read = 0
        for piece in self._stream:  # type: ignore[union-attr]  # of a client that is not async
            read += len(piece)
            if read > self._most:
                raise UserError(
                    f"{self._what}: it was given up after {self._most // 2**20} MB. Look at the "
                    "server's log, or name another one.",
                    "llm_url",
                )
            if time.monotonic() > self._end:
                raise httpx2.ReadTimeout("the answer takes too long", request=self._request)
            yield piece

    def close(self) -> None:
        self._stream.close()  # type: ignore[union-attr]


def _target(response: httpx2.Response) -> str:
    """Where a redirect leads, in brackets, without user name, password and query."""
    try:
        found = response.url.join(response.headers["location"])
    except (httpx2.InvalidURL, ValueError):
        return ""
    shown = f"{found.scheme}://{found.netloc.decode(errors='replace')}{found.path}"
    return f" ({shown[:200]})" if found.host and shown.isprintable() else ""
