"""A chat model that is asked through a session: by its cache, account and budget."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple, replace
from functools import cached_property
from importlib.util import find_spec
from operator import mul
from typing import Any, NamedTuple, cast
from weakref import WeakValueDictionary

from pydantic import ValidationError

from admire.core import registry
from admire.core.cache import Cache
from admire.core.errors import pip_install
from admire.core.schema import adapter
from admire.llm.chat import Capabilities, ChatModel, Image, Price, Question, Reply, Usage
from admire.llm.prices import estimate

REPLIES = "replies.sqlite"  #: file name in the cache directory
RECORD = b"\x1e"  #: first byte of a cached reply; its record in JSON follows
_LOCKS = WeakValueDictionary[str, threading.Lock]()  #: locks of pending questions, by their keys
_GUARD = threading.Lock()
UNKNOWN = "unknown"


class Entry(NamedTuple):
    """The account of one stage and one model. A sum is None if it is unknown for a reply."""

    stage: str
    llm: str
    answered_by: list[str]  #: the server's names of the models that answered, each once
    calls: int
    from_cache: int
    cut_off: int  #: how many questions the server cut off
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    image_tokens: int | None
    seconds: float | None
    price: Price | None
    price_now: Price | None  #: of the replies that were not in the cache
    why: str  #: why the price is unknown; empty if it is known


def account_row(entry: Entry) -> dict[str, Any]:
    """Return an entry for run.json; unknown tokens are None, and unknown prices "unknown"."""
    *plain, cost, cost_now, why = entry
    row: dict[str, Any] = dict(zip(Entry._fields, plain, strict=False))
    row["seconds"] = None if entry.seconds is None else round(entry.seconds, 3)
    for name, paid in ("price_usd", cost), ("price_usd_now", cost_now):
        # Twice, because sums in another order differ in their last digits.
        row[name] = UNKNOWN if paid is None else round(round(paid.dollars, 9), 6)
    row["price_is_at_most"] = bool(cost and cost.at_most)
    row["price_unknown_because"] = None if cost else why
    return row


class BoundModel(Capabilities):
    """A chat model with the cache and the account of a session; :func:`converse` asks it.

    Replies are cached on disk by model, question and settings, unless the model's identity is only
    its name, which does not change when its replies do. Empty replies are not cached. If several
    threads ask the same question at the same time, one of them asks the model.

    Attributes:
        account: the session that asks it and counts its replies; None without.
        imagines: whether it makes up replies, see :class:`admire.pipeline.forecast.DryRun`.
        cuts: whether the server cuts questions off, once it is known.
        sees: whether it is known to see pictures; see :mod:`admire.llm.probes`.
    """

    imagines = False

    def __init__(self, model: ChatModel, account: Any = None):
        self.unbound, self.account = model, account
        self.name, self.identity = model.name, model.identity
        for name in Capabilities.__annotations__:
            setattr(self, name, getattr(model, name, getattr(Capabilities, name)))
        is_known = account is not None and self.identity != self.name
        self._replies: Cache | None = account.replies if is_known else None
        self.cuts: bool | None = None
        self.sees = False

    def answer(self, question: Question) -> Reply:
        """Ask the model, and cache the reply; a plug-in is blamed for its errors."""
        if self._replies is None:
            return self._ask(question)
        with _GUARD:
            lock = _LOCKS.setdefault(key := self.key(question), threading.Lock())
        with lock:
            return self.cached(key) or self._keep(key, self._ask(question))

    def _ask(self, question: Question) -> Reply:
        with registry.blamed(self.unbound):
            (reply,) = registry.checked(self.unbound, [self.unbound.ask(question)], Reply)
        return cast("Reply", reply)

    def answer_together(self, questions: Sequence[Question]) -> Iterator[Reply]:
        """Ask the model several questions, and cache the replies as they come."""
        with registry.blamed(self.unbound):
            replies = self.unbound.ask_together(questions)
            for question, reply in zip(questions, replies, strict=True):
                (valid,) = registry.checked(self.unbound, [reply], Reply)
                yield self._keep(self.key(question), valid)

    def _keep(self, key: str, reply: Reply) -> Reply:
        """Cache a reply with this key, if it has text, and return it as stored."""
        if self._replies is None:
            return reply
        # Half an emoji cannot be encoded in a file.
        reply = replace(reply, text=reply.text.encode(errors="replace").decode())
        if reply.text.strip():
            record = asdict(reply)
            del record["cached"]
            self._replies.put(key, RECORD + json.dumps(record).encode(), self.name)
            if self.account.renewed is not None:
                self.account.renewed.add(key)
        return reply

    def record(self, question: Question, reply: Reply, *, cut: bool, again: bool) -> None:
        """Add a reply to the session's account; ``cut`` says whether its question was cut off, and
        ``again`` whether other replies may have decided that it is asked."""
        if not self.account:
            return
        usage = reply.usage
        cost = self.price(usage or Usage()) if usage or self.free else None
        prompt, cached, completion, images = astuple(usage) if usage else (None,) * 4
        entry = Entry(
            stage=question.purpose,
            llm=self.name,
            answered_by=[reply.model] if reply.model else [],
            calls=1,
            from_cache=int(reply.cached),
            cut_off=int(cut),
            prompt_tokens=prompt,
            cached_tokens=cached,
            completion_tokens=completion,
            # 0 is that of a server that does not count them
            image_tokens=(images or None) if question.images else images,
            seconds=reply.seconds or None,
            price=cost,
            price_now=Price(0.0) if reply.cached else cost,
            why="" if cost else self.why_unknown,
        )
        spent = None if reply.cached else cost or self.price(estimate(question, self))
        self.account.add_entries([entry], spent.dollars if spent else 0.0)

    @cached_property
    def why_unknown(self) -> str:
        """Why the cost of replies is unknown."""
        if self.price(Usage()) is not None:
            return "not all replies came with the number of their tokens"
        if find_spec("genai_prices") is None:
            return f"prices need genai-prices, of the extra 'rankers': {pip_install('rankers')}"
        return f"genai-prices does not list {self.identity}"

    def price(self, usage: Usage) -> Price | None:
        if self.account and self.account.prices and not self.free:
            tokens = usage.prompt, usage.completion
            return Price(sum(map(mul, tokens, self.account.prices)) / 1e6)
        return Price(0.0) if self.free else self.unbound.price(usage)

    def most_tokens(self, question: Question) -> int:
        return self.unbound.most_tokens(question)

    def key(self, question: Question) -> str:
        """Return the SHA-256 of all that a reply depends on; of images, the content."""
        parts: list[object] = [self.identity, question.parts, question.temperature]
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

    def cached(self, key: str) -> Reply | None:
        """Return the cached reply to a question with this key; None without, or if damaged."""
        renewed = self.account.renewed if self.account else None
        if self._replies is None or (renewed is not None and key not in renewed):
            return None
        try:
            record = (self._replies.get(key) or b"").removeprefix(RECORD)
            reply: Reply = adapter(Reply).validate_json(record)
            return replace(reply, cached=True)
        except ValidationError:
            return None

    def evict(self, *questions: Question) -> None:
        """Remove the replies to questions from the cache."""
        if self._replies is not None:
            for question in questions:
                self._replies.drop(self.key(question))
