"""The openai package's client: when it retries, and how answers are parsed."""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from bisect import bisect_right
from collections.abc import Mapping
from contextvars import ContextVar
from itertools import accumulate
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


THOUGHTS = ("reasoning_content", "reasoning")
"""Where servers put a model's thoughts, beside its message's text."""
_FINISHES = {
    "end": "stop(?:ped|_sequence|_token)?|eo[st](?:_token|_id)?|end(?:_turn|_of_turn|_of_text)?|"
    "completed?|done",
    "cut": "(?:max_|model_)?length|max_(?:output_)?tokens|model_context_window_exceeded",
    "filter": "content_filter(?:ed)?|sensitive|safety|recitation|blocklist|prohibited_content|"
    "spii|refusal|guardrail_intervened|error_toxic",
}
"""Why replies end: the words of OpenAI, Together, TGI, Anthropic, Gemini, Mistral, Zhipu, …"""


class Withheld(Exception):  # noqa: N818  it becomes a UserError, which names the model
    """An answer with a reason why it has no reply."""


class NoReply(Exception):  # noqa: N818  the same
    """An answer without a reply, and what it has instead."""


class BrokenOff(httpx2.ReadError):
    """A reply that did not end, as if the connection was lost."""


def read_json(response: httpx2.Response) -> Any:
    """Parse the JSON of an answer, whatever its media type; each answer once.

    Raise Withheld if it begins like JSON, but is invalid, and NoReply if it is not JSON.
    """
    if "json" in response.extensions:
        return response.extensions["json"]
    text = response.text.removeprefix("\ufeff").strip()
    try:
        return response.extensions.setdefault("json", json.loads(text))
    except (ValueError, RecursionError) as error:
        if text[:1] in ("{", "["):
            raise Withheld(f"returned malformed or truncated JSON ({error})") from error
    kind = response.headers.get("content-type", "").partition(";")[0].strip()
    start = " ".join(text[:60].split())
    raise NoReply(f"{kind or 'a text'} ('{start}')" if start else "nothing")


def read_reply(answer: Any, seconds: float = 0.0) -> Reply:
    """Return the reply in the JSON of a chat completion, without the model's thoughts.

    If the thoughts do not end, or a filter withheld the answer, the reply is empty. Raise Withheld
    if the answer is an error in spite of its status, and NoReply if it has no reply.
    """
    if not isinstance(answer, Mapping):
        raise NoReply(f"{json.dumps(answer)[:60]} in place of an object")
    if reason := _error(answer) or (answer.get("detail") if "choices" not in answer else None):
        text = " ".join(str(_at(reason, "message") or reason).split())
        code = _at(reason, "code") if _at(reason, "message") else None
        raise Withheld(f"returned an error: {text}" + f" ({code})" * isinstance(code, str))
    finish, text = how_ended(answer), message_text(answer)
    text = "" if finish == "filter" else without_thoughts(text) or ""
    usage, counts = None, answer.get("usage")
    if isinstance(counts, Mapping):
        usage = Usage(
            _count(counts.get("prompt_tokens")),
            _count(_at(counts, "prompt_tokens_details", "cached_tokens")),
            _count(counts.get("completion_tokens")),
            _count(_at(counts, "prompt_tokens_details", "image_tokens")),
        )
    return Reply(
        text,
        usage,
        seconds,
        finish == "cut",
        _places(_at(answer, "choices", 0, "logprobs", "content"), text),
        model=str(answer.get("model") or "")[:200],
    )


def how_ended(answer: Any) -> str:
    """Return why a reply ends, "end", "cut" or "filter"; or the server's reason, in lower case."""
    reason = str(_at(answer, "choices", 0, "finish_reason") or "stop").lower().replace("-", "_")
    return next((kind for kind, w in _FINISHES.items() if re.fullmatch(w, reason)), reason)


def why_empty(answer: Any) -> str:
    """Return why an answer has no reply: the end of a sentence; empty if unknown."""
    message, finish = _at(answer, "choices", 0, "message"), how_ended(answer)
    if finish == "filter":
        return f"was withheld by a filter ({_at(answer, 'choices', 0, 'finish_reason')})"
    if message_text(answer).strip():
        return "begins with thoughts that do not end"
    if refusal := _at(message, "refusal"):
        return f"is a refusal (“{' '.join(str(refusal).split())[:200]}”)"
    places = [place for place in THOUGHTS if _at(message, place) and finish != "cut"]
    return f"is in {places[0]}, the place of thoughts" if places else ""


def _error(answer: Any) -> Any:
    """Return the error that an answer of success contains, or its choice does; None for none."""
    return _at(answer, "error") or _at(answer, "choices", 0, "error")


def _check_complete(response: httpx2.Response) -> None:
    """Give an error the status that it names, and take half a reply as a lost connection.

    Gateways that have begun to answer cannot take back their status of success.
    """
    try:
        answer = read_json(response)
    except (NoReply, Withheld):  # reported later
        return
    error = _error(answer)
    kind = " ".join(str(_at(error, key)) for key in ("code", "status", "status_code", "type"))
    if code := re.search(r"\b[45]\d\d\b|(?i:rate.?limit|overload|unavailable|time.?out)", kind):
        response.status_code = int(code[0]) if code[0].isdigit() else 503
    elif (finish := how_ended(answer)) not in ("end", "cut", "filter"):
        raise BrokenOff(f"finish_reason: {finish[:40]}", request=response.request)


def message_text(answer: Any) -> str:
    """Return the text of an answer's message, with the model's thoughts in it."""
    choice = _at(answer, "choices", 0)
    message = _at(choice, "message") or _at(answer, "message")  # Ollama's own API
    content = _at(message, "content") if isinstance(message, Mapping) else _at(choice, "text")
    if isinstance(content, list):
        # Parts of other types are thoughts, pictures and tools.
        texts = ("text", "output_text")
        parts = [_at(part, "text") if _at(part, "type") in texts else part for part in content]
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


def _places(content: Any, text: str) -> tuple[dict[str, float], ...] | None:
    """Return the likeliest tokens at each position of a text; without alternatives, its own token.

    Servers may list those of thoughts before it and marks after it. None if it is not at the end.
    """
    try:
        places = [
            {row["token"]: float(row["logprob"]) for row in place.get("top_logprobs") or [place]}
            for place in content
        ]
        tokens = [place["token"] for place in content]
        while (last := tokens[-1].strip()) == "" or (last[0] == "<" and last[-1] == ">"):
            tokens.pop()
        written, text = "".join(tokens).rstrip(), text.strip()
        ends = [*accumulate(map(len, tokens))]
        first = bisect_right(ends, len(written) - len(text))
        return tuple(places[first : len(tokens)]) if text and written.endswith(text) else None
    except (AttributeError, LookupError, TypeError, ValueError):  # none, or in another format
        return None


def read_target(answer: Any, target: str) -> tuple[Mapping[str, float], ...] | None:
    """Return the log-probabilities of a target's tokens; None if the server returned none.

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
REFUSALS = 2  #: retries if a server refuses the connection: it may be starting
ENCODINGS = ("gzip", "deflate")
"""Accepted compressions of answers. A packet in one of these cannot exceed 70 megabytes."""

_reason: ContextVar[str] = ContextVar("_reason", default="")


class TooLong(openai.OpenAIError):
    """An answer is longer than :data:`LONGEST`."""


class Client(openai.OpenAI):
    """The package's client, with logged retries; messages call its model ``model``."""

    model = ""
    _logged = -inf

    def _should_retry(self, response: httpx2.Response) -> bool:
        # Unlike a rate limit, an exhausted quota does not recover.
        return b"insufficient_quota" not in response.content and super()._should_retry(response)

    def _sleep_for_retry(self, **retry: Any) -> None:
        response, error = retry.get("response"), sys.exc_info()[1]
        if isinstance(error, httpx2.ConnectError) and retry["retries_taken"] >= REFUSALS:
            raise openai.APIConnectionError(request=error.request) from error
        broken = "half a reply" if isinstance(error, BrokenOff) else "no answer"
        _reason.set(broken if response is None else f"status {response.status_code}")
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
    """Open a client; refuse proxies and certificates of the environment that cannot be used.

    The timeout is from a request to the end of its answer.
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
    """Read an answer unless it is too long or too late, for which the package sets no limits."""
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
    response.read()
    if response.is_success:
        _check_complete(response)
