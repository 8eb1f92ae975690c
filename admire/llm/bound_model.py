"""A chat model that is asked through a session: by its cache, account and budget."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from operator import mul
from weakref import WeakValueDictionary

from admire.core import registry
from admire.llm.account import Account
from admire.llm.chat import Capabilities, ChatModel, Price, Question, Reply, Usage
from admire.llm.replies import Replies, question_key

_LOCKS = WeakValueDictionary[str, threading.Lock]()
"""Locks of pending questions, by their keys."""
_GUARD = threading.Lock()


class BoundModel(Capabilities):
    """A chat model with the cache and the account of a session; :func:`converse` asks it.

    Replies are cached on disk by model, question and settings, unless the model's identity is only
    its name, which does not change when its replies do. Empty replies are not cached. If several
    threads ask the same question at the same time, one of them asks the model.

    Attributes:
        unbound: the model itself.
        imagines: whether it makes up replies, see :class:`admire.pipeline.forecast.DryRun`.
        cuts: whether the server cuts questions off, once it is known.
        sees: whether it is known to see pictures; see :mod:`admire.llm.probes`.
    """

    imagines = False

    def __init__(
        self, model: ChatModel, account: Account | None = None, replies: Replies | None = None
    ):
        self.unbound, self.account = model, account
        self.name, self.identity = model.name, model.identity
        for name in Capabilities.__annotations__:
            setattr(self, name, getattr(model, name, getattr(Capabilities, name)))
        self._replies = replies if self.identity != self.name else None
        self.cuts: bool | None = None
        self.sees = False

    def answer(self, question: Question) -> Reply:
        """Ask the model, and cache the reply.

        Raises:
            UserError: the model fails; a plug-in is blamed for its errors.
        """
        if not self._replies:
            return self._ask(question)
        with _GUARD:
            lock = _LOCKS.setdefault(key := self.key(question), threading.Lock())
        with lock:
            return self.cached(key) or self._replies.put(key, self._ask(question), self.name)

    def _ask(self, question: Question) -> Reply:
        with registry.blamed(self.unbound):
            reply = self.unbound.ask(question)
        plugin = registry.plugin_of(self.unbound)
        if plugin and not (isinstance(reply, Reply) and isinstance(reply.text, str)):
            raise plugin.error(f"returned {type(reply).__name__}, not a Reply with a text.")
        return reply

    def answer_together(self, questions: Sequence[Question]) -> Iterator[Reply]:
        """Ask the model several questions, and cache the replies as they come."""
        with registry.blamed(self.unbound):
            replies = self.unbound.ask_together(questions)
            for question, reply in zip(questions, replies, strict=True):
                key = self.key(question)
                yield self._replies.put(key, reply, self.name) if self._replies else reply

    def check_budget(self) -> None:
        """Refuse a question that is not cached if the budget is spent."""
        if self.account:
            self.account.check_budget()

    def record(self, question: Question, reply: Reply, *, cut: bool, again: bool) -> None:
        """Add a reply to the account of the session; ``cut`` says whether its question was cut off,
        and ``again`` whether other replies may have decided that it is asked."""
        if self.account:
            self.account.record(self, question, reply, cut=cut)

    def price(self, usage: Usage) -> Price | None:
        if self.account and self.account.prices and not self.free:
            tokens = usage.prompt, usage.completion
            return Price(sum(map(mul, tokens, self.account.prices)) / 1e6)
        return Price(0.0) if self.free else self.unbound.price(usage)

    def most_tokens(self, question: Question) -> int:
        return self.unbound.most_tokens(question)

    def key(self, question: Question) -> str:
        """Return the key of a question in the cache."""
        return question_key(question, self.identity)

    def cached(self, key: str) -> Reply | None:
        """Return the cached reply to a question with this key; None if there is none."""
        return self._replies.get(key) if self._replies else None

    def evict(self, *questions: Question) -> None:
        """Remove the replies to questions from the cache."""
        if self._replies:
            for question in questions:
                self._replies.drop(self.key(question))
