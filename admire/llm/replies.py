"""Cached replies, by everything that a reply depends on."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace

from admire.core.cache import open_cache
from admire.llm.chat import Image, Question, Reply, Usage

REPLIES = "replies.sqlite"
"""File name in the cache directory."""
RECORD = b"\x1e"
"""First byte of a cached reply; its record in JSON follows."""


class Replies:
    """The replies in the cache directory; ``fresh`` ignores and overwrites those of before."""

    def __init__(self, *, fresh: bool = False):
        self._cache = open_cache(REPLIES)
        # Dates do not show which replies are new, because clocks may be set back.
        self._fresh: set[str] | None = set() if fresh else None

    def get(self, key: str) -> Reply | None:
        """Return the cached reply to a question with this key; None without, or if damaged."""
        if self._fresh is not None and key not in self._fresh:
            return None
        try:
            record = json.loads((self._cache.get(key) or b"").removeprefix(RECORD))
            record.pop("batched", None)  # older versions used OpenAI's Batch API
            if record["usage"] is not None:
                record["usage"] = Usage(**record["usage"])
            if record["logprobs"] is not None:
                record["logprobs"] = tuple(record["logprobs"])
            return Reply(**record, cached=True)
        except (ValueError, TypeError, LookupError, RecursionError):
            return None

    def put(self, key: str, reply: Reply, model: str) -> Reply:
        """Cache a model's reply, if it has text, and return it as stored."""
        # Half an emoji cannot be encoded in a file.
        reply = replace(reply, text=reply.text.encode(errors="replace").decode())
        if reply.text.strip():
            record = asdict(reply)
            del record["cached"]
            self._cache.put(key, RECORD + json.dumps(record).encode(), model)
            if self._fresh is not None:
                self._fresh.add(key)
        return reply

    def drop(self, key: str) -> None:
        """Remove a reply."""
        self._cache.drop(key)


def question_key(question: Question, identity: str) -> str:
    """Return the SHA-256 of all that a model's reply depends on; of images, the content."""
    parts: list[object] = [identity, question.parts, question.temperature]
    parts += [question.max_tokens, question.seed]
    if question.images:
        from admire.llm.pictures import digest

        parts[1] = [
            {"image": digest(part.path, part.path.stat().st_mtime_ns), "side": part.side}
            if isinstance(part, Image)
            else part
            for part in question.parts
        ]
    if question.schema is not None or question.logprobs:
        parts += [question.schema, question.logprobs]
    if question.target:
        parts.append({"target": question.target})
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
