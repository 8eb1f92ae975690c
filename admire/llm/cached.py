"""Replies on disk: nothing is asked twice, in this run or a later one."""

from __future__ import annotations

import hashlib
import json

from admire.llm.chat import ChatModel
from admire.storage import Cache, cache_dir


class CachedChat:
    """A chat model whose replies are cached on disk, by model, prompt and settings."""

    def __init__(self, model: ChatModel, cache: Cache | None = None):
        self.model = model
        self.name = model.name
        self.identity = model.identity
        self.parallel = model.parallel
        self.asked = 0
        """How many prompts went to the model itself, not to the cache."""
        self._cache = cache or Cache(cache_dir() / "replies.sqlite")

    def ask(
        self, prompt: str, *, temperature: float = 0.0, max_tokens: int = 64, seed: int = 0
    ) -> str:
        """See :class:`admire.llm.ChatModel`."""
        question = [self.identity, prompt, temperature, max_tokens, seed]
        key = hashlib.sha256(json.dumps(question).encode()).hexdigest()
        kept = self._cache.get(key)
        if kept is not None:
            return kept.decode()
        self.asked += 1
        reply = self.model.ask(prompt, temperature=temperature, max_tokens=max_tokens, seed=seed)
        reply = reply.encode(errors="replace").decode()  # half an emoji cannot be encoded
        self._cache.put(key, reply.encode())
        return reply
