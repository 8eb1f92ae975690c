"""The openai package's client: it logs why it asks again, and bounds the size of answers."""

from __future__ import annotations

import logging
import os
import time
from contextvars import ContextVar
from math import inf
from typing import Any
from urllib.parse import parse_qsl

import httpx2
import openai
from pydantic import SecretStr

from admire.base.errors import UserError
from admire.models.llm.address import Address

log = logging.getLogger("admire")

LONGEST = 16_000_000
"""The most bytes of an answer: 4,096 tokens with 20 log-probabilities each take about 8 million."""
SECONDS_BETWEEN_RETRIES = 1.0
"""A retry is not logged if another one was within so many seconds, as of questions beside it."""
ENCODINGS = ("gzip", "deflate")
"""How answers may be compressed. A packet in one of these cannot grow beyond 70 megabytes."""

_reason: ContextVar[str] = ContextVar("_reason", default="")


class TooLong(openai.OpenAIError):
    """An answer is longer than :data:`LONGEST`."""


class Client(openai.OpenAI):
    """The package's client, which logs why and when it asks again."""

    model = ""
    """The name that messages give to the model."""
    _logged = -inf

    def _sleep_for_retry(self, **retry: Any) -> None:
        response = retry.get("response")
        _reason.set("no answer" if response is None else f"status {response.status_code}")
        super()._sleep_for_retry(**retry)

    def _calculate_retry_timeout(self, *arguments: Any, **options: Any) -> float:
        seconds = super()._calculate_retry_timeout(*arguments, **options)
        if time.monotonic() - self._logged > SECONDS_BETWEEN_RETRIES:
            self._logged = time.monotonic()
            log.info("%s: %s; asking again in %.1f s.", self.model, _reason.get(), seconds)
        return seconds


def open_client(
    address: Address, key: SecretStr, *, timeout: float, retries: int, model: str
) -> Client:
    """Open a client.

    Args:
        timeout: seconds for each try, from the request to the end of its answer.
        retries: how often to ask again.
        model: the name that messages give to the model.

    Raises:
        UserError: the certificates that the environment names cannot be read.
    """

    def begin(request: httpx2.Request) -> None:
        request.extensions["deadline"] = time.monotonic() + timeout

    try:
        http_client = openai.DefaultHttpxClient(
            timeout=timeout,
            follow_redirects=False,
            event_hooks={"request": [begin], "response": [_read]},
        )
    except OSError as error:  # names no file
        file = os.environ.get("SSL_CERT_FILE", "")
        raise UserError(
            f"SSL_CERT_FILE: the certificates '{file}' cannot be read ({error}). Correct it, or "
            "unset it."
        ) from None
    client = Client(
        # The package insists on a key, other servers need none.
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
    """Read an answer as long as it is neither too long nor too late.

    The package would read an answer of any length, and give a server that sends a blank now and
    then any time. A file of a batch, which the user asked for, is read by the package.
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
