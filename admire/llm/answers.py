"""Answers of chat servers, parsed leniently: compatible servers may send anything."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from admire.llm.chat import Reply, Usage
from admire.llm.thoughts import without_thoughts

if TYPE_CHECKING:
    import httpx2

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
    return Reply(
        without_thoughts(text) or "",
        _usage(answer.get("usage")),
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


def _usage(usage: Any) -> Usage | None:
    """Return the valid counts of tokens."""
    if not isinstance(usage, Mapping):
        return None
    return Usage(
        _count(usage.get("prompt_tokens")),
        _count(_at(usage, "prompt_tokens_details", "cached_tokens")),
        _count(usage.get("completion_tokens")),
        _count(_at(usage, "prompt_tokens_details", "image_tokens")),
    )


def _count(value: Any) -> int:
    try:
        return max(int(value), 0)
    except (TypeError, ValueError, OverflowError):
        return 0
