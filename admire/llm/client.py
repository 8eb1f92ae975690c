"""The openai package's client: when it retries, and which answers it reads."""

from __future__ import annotations

import logging
import re
import sys
import time
from contextvars import ContextVar
from math import inf
from typing import Any
from urllib.parse import parse_qsl

import httpx2
import openai
from pydantic import SecretStr

from admire.core.errors import UserError
from admire.llm.address import Address

log = logging.getLogger("admire")

LONGEST = 16_000_000
"""Maximum bytes of an answer: 4,096 tokens with 20 log-probabilities each take about 8 million."""
SECONDS_BETWEEN_RETRIES = 1.0
"""A retry is not logged if another one was logged within so many seconds."""
REFUSALS = 2
"""Retries if a server refuses the connection: it may be starting."""
ENCODINGS = ("gzip", "deflate")
"""Accepted compressions of answers. A packet in one of these cannot exceed 70 megabytes."""

_reason: ContextVar[str] = ContextVar("_reason", default="")


class TooLong(openai.OpenAIError):
    """An answer is longer than :data:`LONGEST`."""


class Client(openai.OpenAI):
    """The package's client, with logged retries."""

    model = ""
    """The name that messages give to the model."""
    _logged = -inf

    def _should_retry(self, response: httpx2.Response) -> bool:
        # Unlike a rate limit, an exhausted quota does not recover.
        return b"insufficient_quota" not in response.content and super()._should_retry(response)

    def _sleep_for_retry(self, **retry: Any) -> None:
        response, error = retry.get("response"), sys.exc_info()[1]
        if isinstance(error, httpx2.ConnectError) and retry["retries_taken"] >= REFUSALS:
            raise openai.APIConnectionError(request=error.request) from error
        _reason.set("no answer" if response is None else f"status {response.status_code}")
        super()._sleep_for_retry(**retry)

    def _calculate_retry_timeout(self, *arguments: Any, **options: Any) -> float:
        seconds = super()._calculate_retry_timeout(*arguments, **options)
        if time.monotonic() - self._logged > SECONDS_BETWEEN_RETRIES:
            self._logged = time.monotonic()
            log.info("%s: %s; retrying in %.1f s.", self.model, _reason.get(), seconds)
        return seconds


def open_client(
    address: Address, key: SecretStr, *, timeout: float, retries: int, model: str
) -> Client:
    """Open a client.

    Args:
        timeout: seconds for each try, from the request to the end of its answer.
        retries: maximum number of retries.
        model: the name that messages give to the model.

    Raises:
        UserError: a proxy or the certificates that the environment names cannot be used.
    """

    def begin(request: httpx2.Request) -> None:
        request.extensions["deadline"] = time.monotonic() + timeout

    local = address.on_this_machine
    try:
        http_client = openai.DefaultHttpxClient(
            timeout=timeout,
            follow_redirects=False,
            event_hooks={"request": [begin], "response": [_read]},
            trust_env=not local,  # without a proxy for servers on this machine
            verify=httpx2.create_ssl_context(
                trust_env=not (local and address.shown.startswith("http:"))
            ),
        )
    except (ImportError, OSError, ValueError, httpx2.InvalidURL) as error:
        reason = re.sub("//[^@]*@", "//***@", str(error))
        raise UserError(
            f"{model}: the proxies or certificates that the environment names cannot be used "
            f"({reason})."
        ) from None
    client = Client(
        # The package requires a key; other servers need none.
        api_key=key.get_secret_value() or "none",
        base_url=address.url.get_secret_value(),
        default_query=dict(parse_qsl(address.query.get_secret_value())),
        default_headers={"Accept-Encoding": ", ".join(ENCODINGS)},
        timeout=timeout,
        max_retries=retries,
        http_client=http_client,
    )
    client.model = model
    return client


def _read(response: httpx2.Response) -> None:
    """Read an answer unless it is too long or too late.

    The package would read an answer of any length, and wait forever for a server that sends a
    blank from time to time. It reads files of batches, which the user has requested.
    """
    if response.request.url.path.endswith("/content"):
        return
    encoding = response.headers.pop("Content-Encoding", "identity")
    if encoding.lower() not in (*ENCODINGS, "identity"):
        raise httpx2.DecodingError(f"unknown encoding {encoding[:40]!r}", request=response.request)
    headers = {"Content-Encoding": encoding}
    answer = httpx2.Response(response.status_code, headers=headers, stream=response.stream)
    parts, size = [], 0
    for part in answer.iter_bytes():
        parts.append(part)
        size += len(part)
        if size > LONGEST:
            raise TooLong(f"the answer has more than {LONGEST // 1_000_000} million bytes")
        if time.monotonic() > response.request.extensions["deadline"]:
            raise httpx2.ReadTimeout("the answer takes too long", request=response.request)
    response.stream = httpx2.ByteStream(b"".join(parts))
