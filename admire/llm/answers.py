"""Answers of chat servers, parsed leniently: compatible servers may send anything."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from admire.llm.chat import Reply, Usage
from admire.llm.thoughts import without_thoughts

if TYPE_CHECKING:
    import httpx2

MOST_TOKENS = 1_000_000_000
"""Upper limit for a server's count of tokens."""
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
    choice = _choice(answer)
    if reason := _error(answer) or _error(choice):
        raise Withheld(f"returned an error: {reason}")
    text = message_text(answer)
    if choice.get("finish_reason") == "content_filter":
        raise Withheld("filtered the answer (content_filter)")
    return Reply(
        without_thoughts(text) or "",
        _usage(answer.get("usage")),
        seconds,
        choice.get("finish_reason") == "length",
        tuple(_places(choice.get("logprobs"))) or None,
        model=str(answer.get("model") or "")[:200],
    )


def message_text(answer: Any) -> str:
    """Return the text of an answer's message, with the model's thoughts in it."""
    choice = _choice(answer)
    message = choice.get("message") or answer.get("message")  # Ollama's own API
    content = message.get("content") if isinstance(message, Mapping) else choice.get("text")
    if isinstance(content, list):
        return "".join(_part_text(part) for part in content)
    if not isinstance(content, str) and not (content is None and isinstance(message, Mapping)):
        keys = ", ".join(map(str, answer))
        raise NoReply(f"only {keys[:100]}" if keys else "nothing")
    return content or ""


def _choice(answer: Any) -> Mapping[str, Any]:
    if not isinstance(answer, Mapping):
        kinds = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}
        raise NoReply(f"{kinds.get(type(answer), 'a number')} in place of an object")
    choices = answer.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else {}
    return first if isinstance(first, Mapping) else {}


def _error(answer: Mapping[str, Any]) -> str:
    """Return the error in an answer; empty if there is none."""
    error = answer.get("error") or (answer.get("detail") if "choices" not in answer else None)
    message = error.get("message") if isinstance(error, Mapping) else error
    return " ".join(str(message or error or "").split())


def _part_text(part: Any) -> str:
    if isinstance(part, Mapping):
        part = part.get("text") if part.get("type") in TEXT_PARTS else ""
    return part if isinstance(part, str) else ""


def _places(logprobs: Any) -> Iterator[dict[str, float]]:
    """Yield the likeliest tokens at each position; without alternatives, the reply's token."""
    content = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    for place in content if isinstance(content, list) else ():
        if not isinstance(place, Mapping):
            return
        others = place.get("top_logprobs")
        if isinstance(others, Mapping):
            others = [{"token": token, "logprob": value} for token, value in others.items()]
        rows = others if isinstance(others, list) and others else [place]
        yield {
            str(row["token"]): float(row["logprob"])
            for row in rows
            if isinstance(row, Mapping)
            and isinstance(row.get("token"), str)
            and isinstance(row.get("logprob"), int | float)
        }


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
    usage = answer.get("usage")
    details = usage.get("completion_tokens_details") if isinstance(usage, Mapping) else None
    reasoned = isinstance(details, Mapping) and bool(details.get("reasoning_tokens"))
    return reasoned or not text.strip()


def _usage(usage: Any) -> Usage | None:
    """Return the valid counts of tokens."""
    if not isinstance(usage, Mapping):
        return None
    details = usage.get("prompt_tokens_details")
    details = details if isinstance(details, Mapping) else {}
    return Usage(
        _count(usage.get("prompt_tokens")),
        _count(details.get("cached_tokens")),
        _count(usage.get("completion_tokens")),
        _count(details.get("image_tokens")),
    )


def _count(value: Any) -> int:
    try:
        return min(max(int(value), 0), MOST_TOKENS)
    except (TypeError, ValueError, OverflowError):
        return 0
