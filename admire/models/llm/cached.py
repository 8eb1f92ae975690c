"""Replies on disk: nothing is asked twice."""

from __future__ import annotations

import hashlib
import json
import threading
from dataclasses import asdict, replace
from weakref import WeakValueDictionary

from admire.base import registry
from admire.base.cache import Cache, open_cache
from admire.models.llm.chat import ChatModel, Image, Question, Reply, Usage, capabilities
from admire.models.llm.pictures import digest

REPLIES = "replies.sqlite"
"""The file in the cache directory."""
RECORD = b"\x1e"
"""What a kept reply begins with; its record in JSON follows."""


class CachedChat(ChatModel):
    """A chat model whose replies are cached on disk, by model, question and settings.

    Replies without text are not kept. If several threads ask the same question at the same time,
    one of them asks the model.

    Args:
        fresh: whether to ignore and overwrite the replies that were cached before.
    """

    def __init__(
        self,
        model: ChatModel,
        cache: Cache | None = None,
        *,
        fresh: bool = False,
    ):
        self.model = model
        self.name, self.identity = model.name, model.identity
        vars(self).update(capabilities(model))
        self._cache = open_cache(REPLIES) if cache is None else cache
        # Which replies are new cannot be told by their dates: clocks are set back.
        self._fresh: set[str] | None = set() if fresh else None
        self._guard = threading.Lock()
        self._locks = WeakValueDictionary[str, threading.Lock]()  # of questions under way

    def ask(self, question: Question) -> Reply:
        """See :class:`admire.models.llm.ChatModel`."""
        key = self.key(question)
        with self._guard:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            kept = self.kept(key)
            if kept is not None:
                return kept
            return self.keep(key, self._asked(question))

    def _asked(self, question: Question) -> Reply:
        """Ask the model; a plug-in is blamed for its errors."""
        with registry.blamed(self.model):
            reply = self.model.ask(question)
        plugin = registry.plugin_of(self.model)
        if plugin and not (isinstance(reply, Reply) and isinstance(reply.text, str)):
            raise plugin.error(f"returned {type(reply).__name__}, not a Reply with a text.")
        return reply

    def key(self, question: Question) -> str:
        """Return the SHA-256 of all that the reply depends on; images count by their content."""
        parts: list[object] = [self.identity, question.parts, question.temperature]
        parts += [question.max_tokens, question.seed]
        if question.images:
            parts[1] = [
                {"image": digest(part), "side": part.side} if isinstance(part, Image) else part
                for part in question.parts
            ]
        if question.schema is not None or question.logprobs:
            parts += [question.schema, question.logprobs]
        if question.target:
            parts.append({"target": question.target})
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def kept(self, key: str) -> Reply | None:
        """Return the reply in the cache; None if there is none, or it is damaged."""
        if self._fresh is not None and key not in self._fresh:
            return None
        value = self._cache.get(key)
        if value is None:
            return None
        try:
            record = json.loads(value.removeprefix(RECORD))
            if record["usage"] is not None:
                record["usage"] = Usage(**record["usage"])
            if record["logprobs"] is not None:
                record["logprobs"] = tuple(record["logprobs"])
            return Reply(**record, kept=True)
        except (ValueError, TypeError, LookupError, RecursionError):
            return None

    def keep(self, key: str, reply: Reply) -> Reply:
        """Put a reply into the cache, if it has text, and return it as it is stored."""
        # Half an emoji cannot be encoded, here or in any file.
        reply = replace(reply, text=reply.text.encode(errors="replace").decode())
        if reply.text.strip():
            record = {name: value for name, value in asdict(reply).items() if name != "kept"}
            self._cache.put(key, RECORD + json.dumps(record).encode(), self.name)
            if self._fresh is not None:
                self._fresh.add(key)
        return reply

    def forget(self, question: Question) -> None:
        """See :func:`admire.models.llm.chat.forget`."""
        self._cache.drop(self.key(question))


def kept_reply(llm: ChatModel, question: Question) -> Reply | None:
    """Return the reply in the model's cache; None if it has none, or the model has no cache."""
    return llm.kept(llm.key(question)) if isinstance(llm, CachedChat) else None
