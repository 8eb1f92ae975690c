"""The openai package's client: when it retries, and how answers are parsed."""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections.abc import Mapping
from contextvars import ContextVar
from math import inf
from typing import Any
from urllib.parse import parse_qsl

import httpx2
import openai
from pydantic import SecretStr

from admire.core.errors import UserError
from admire.llm.address import Address
from admire.llm.chat import Reply, Usage
from admire.llm.thoughts import without_thoughts

log = logging.getLogger("admire")


TEXT_PARTS = ("text", "output_text")
"""The types of parts of a message that are its text; others are thoughts, pictures and tools."""


class Withheld(Exception):  # noqa: N818  it becomes a UserError, which names the model
    """An answer with a reason why it has no reply."""


class NoReply(Exception):  # noqa: N818  it becomes a UserError, which names the model
    """An answer without a reply, and what it has instead."""


def read_json(response: httpx2.Response) -> Any:
    """Parse the JSON of an answer, whatever its media type.

    Raises:
        Withheld: it begins like JSON, but is invalid.
        NoReply: it is not JSON.
    """
    text = response.text.removeprefix("\ufeff").strip()
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        if text[:1] in ("{", "["):
            raise Withheld(f"returned malformed or truncated JSON ({error})") from error
    kind = response.headers.get("content-type", "").partition(";")[0].strip()
    start = " ".join(text[:60].split())
    raise NoReply(f"{kind or 'a text'} ('{start}')" if start else "nothing")


def read_reply(answer: Any, seconds: float = 0.0) -> Reply:
    """Return the reply in the JSON of a chat completion, without the model's thoughts.

    If the thoughts do not end, there is no answer, and the reply is empty.

    Raises:
        Withheld: the answer is an error in spite of its status, or was filtered.
        NoReply: it has no reply.
    """
    if not isinstance(answer, Mapping):
        raise NoReply(f"{json.dumps(answer)[:60]} in place of an object")
    choice = _at(answer, "choices", 0)
    finish = _at(choice, "finish_reason")
    reason = answer.get("error") or (answer.get("detail") if "choices" not in answer else None)
    if reason := reason or _at(choice, "error"):
        reason = " ".join(str(_at(reason, "message") or reason).split())
        raise Withheld(f"returned an error: {reason}")
    text = message_text(answer)
    if finish == "content_filter":
        raise Withheld("filtered the answer (content_filter)")
    usage, counts = None, answer.get("usage")
    if isinstance(counts, Mapping):
        usage = Usage(
            _count(counts.get("prompt_tokens")),
            _count(_at(counts, "prompt_tokens_details", "cached_tokens")),
            _count(counts.get("completion_tokens")),
            _count(_at(counts, "prompt_tokens_details", "image_tokens")),
        )
    return Reply(
        without_thoughts(text) or "",
        usage,
        seconds,
        finish == "length",
        _places(_at(choice, "logprobs", "content")),
        model=str(answer.get("model") or "")[:200],
    )


def message_text(answer: Any) -> str:
    """Return the text of an answer's message, with the model's thoughts in it."""
    choice = _at(answer, "choices", 0)
    message = _at(choice, "message") or _at(answer, "message")  # Ollama's own API
    content = _at(message, "content") if isinstance(message, Mapping) else _at(choice, "text")
    if isinstance(content, list):
        parts = [_at(part, "text") if _at(part, "type") in TEXT_PARTS else part for part in content]
        return "".join(part for part in parts if isinstance(part, str))
    if not isinstance(content, str) and not (content is None and isinstance(message, Mapping)):
        keys = ", ".join(map(str, answer))
        raise NoReply(f"only {keys[:100]}" if keys else "nothing")
    return content or ""


def _at(value: Any, *path: str | int) -> Any:
    """Return what JSON has at a path of keys and places; None if it has nothing there."""
    for step in path:
        try:
            value = value[step]
        except (LookupError, TypeError):
            return None
    return value


def _places(content: Any) -> tuple[dict[str, float], ...] | None:
    """Return the likeliest tokens at each position; without alternatives, the reply's token."""
    try:
        places = [
            {row["token"]: float(row["logprob"]) for row in place.get("top_logprobs") or [place]}
            for place in content
        ]
        return tuple(places) or None
    except (AttributeError, LookupError, TypeError, ValueError):  # none, or in another format
        return None


def read_target(answer: Any, target: str) -> tuple[Mapping[str, float], ...] | None:
    """Return the log-probability of each token of a target; None if the server returned none.

    vLLM returns those of the whole prompt, which ends with the target.
    """
    places: list[Mapping[str, float]] = []
    length = 0
    try:
        for place in reversed(answer.get("prompt_logprobs") or ()):
            if length >= len(target) or not place:  # the prompt's first token has none
                break
            (token,) = place.values()
            places.append({token["decoded_token"]: float(token["logprob"])})
            length += len(token["decoded_token"])
    except (AttributeError, LookupError, TypeError, ValueError):  # another server's format
        return None
    return tuple(reversed(places)) or None


def holds_thoughts(answer: Any, text: str) -> bool:
    """Return whether thoughts used up the tokens of an answer that was cut off."""
    reasoned = _at(answer, "usage", "completion_tokens_details", "reasoning_tokens")
    return bool(reasoned) or not text.strip()


def _count(value: Any) -> int:
    """Return a number of tokens; 0 for what is none."""
    try:
        return max(int(value), 0)
    except (TypeError, ValueError, OverflowError):
        return 0


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
