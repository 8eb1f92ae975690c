"""What a run asked its chat models and what that took, and the budget that it keeps."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from admire.base.errors import UserError
from admire.models.llm.cached import kept_reply
from admire.models.llm.chat import ChatModel, Question, Reply, Usage
from admire.models.llm.prices import Price, estimate, is_free, price, why_unknown

log = logging.getLogger("admire")

UNKNOWN = "unknown"
TINY = 1e-9
"""Dollars that rounding may leave of nothing."""


@dataclass
class Sum:
    """Replies and what they took together.

    Attributes:
        replies: how many.
        untold: how many of them came without their usage, so that the tokens are unknown.
        blind: how many with images came without telling how many tokens these took.
        untimed: how many came without the time that it took, as those of batches do.
        models: what the server called the models that answered, each once.
        price: None where it is unknown.
    """

    replies: int = 0
    untold: int = 0
    prompt: int = 0
    cached: int = 0
    completion: int = 0
    images: int = 0
    blind: int = 0
    untimed: int = 0
    seconds: float = 0.0
    models: list[str] = field(default_factory=list)
    price: Price | None = field(default_factory=lambda: Price(0.0))

    @classmethod
    def of(cls, question: Question, reply: Reply, cost: Price | None) -> Sum:
        usage = reply.usage or Usage()
        return cls(
            replies=1,
            untold=int(reply.usage is None),
            prompt=usage.prompt,
            cached=usage.cached,
            completion=usage.completion,
            images=usage.images,
            blind=int(bool(question.images) and not usage.images),
            untimed=int(not reply.seconds),
            seconds=reply.seconds,
            models=[reply.model] if reply.model else [],
            price=cost,
        )

    def add(self, other: Sum) -> None:
        for name in NUMBERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.models = [*dict.fromkeys([*self.models, *other.models])]
        self.price = self.price + other.price if self.price and other.price else None


NUMBERS = [field.name for field in fields(Sum) if field.name not in ("models", "price")]


@dataclass
class Entry:
    """What one stage asked of one model: all replies, and those that were not in the cache.

    Attributes:
        why: why the price is unknown, where it is.
    """

    stage: str
    llm: str
    why: str
    all: Sum = field(default_factory=Sum)
    now: Sum = field(default_factory=Sum)

    def record(self) -> dict[str, Any]:
        """For run.json: tokens are None and prices "unknown" where nobody told them."""
        usage, tokens = self.all, not self.all.untold
        return {
            "stage": self.stage,
            "llm": self.llm,
            "answered_by": usage.models,
            "calls": usage.replies,
            "from_cache": usage.replies - self.now.replies,
            "prompt_tokens": usage.prompt if tokens else None,
            "cached_tokens": usage.cached if tokens else None,
            "completion_tokens": usage.completion if tokens else None,
            "image_tokens": usage.images if tokens and not usage.blind else None,
            "seconds": None if usage.untimed else round(usage.seconds, 3),
            "price_usd": _dollars(usage.price),
            "price_usd_now": _dollars(self.now.price),
            "price_is_at_most": bool(usage.price and usage.price.at_most),
            "price_unknown_because": None if usage.price else self.why,
        }


class Ledger:
    """The account of a run's questions. Threads may use it at the same time.

    Args:
        budget: in US dollars, what the replies that are not in the cache may cost; None is no
            limit.
    """

    def __init__(self, budget: float | None = None):
        self.budget = budget
        self._entries: dict[tuple[str, str], Entry] = {}
        self._spent = self._under_way = 0.0
        self._changed = threading.Condition()

    def watch(self, llm: ChatModel) -> ChatModel:
        """Return the same model, which notes its replies here and keeps to the budget.

        Raises:
            UserError: there is a budget and the model's price is unknown.
        """
        if self.budget is not None:
            check_price(llm)
        return _Watched(llm, self)

    def entries(self) -> list[Entry]:
        """Return what each stage asked of each model, in the order of the first questions."""
        with self._changed:
            return list(self._entries.values())

    def hand_over(self) -> list[Entry]:
        """Return what was put down since the last call; see :meth:`take`."""
        with self._changed:
            entries, self._entries = list(self._entries.values()), {}
        return entries

    def take(self, entries: Sequence[Entry]) -> None:
        """Put down what another process did."""
        for entry in entries:
            self._add(entry)

    def ask(self, llm: ChatModel, question: Question) -> Reply:
        """Ask the model, if the budget allows it, and put down the reply.

        Raises:
            UserError: the budget does not suffice, or see :class:`admire.models.llm.ChatModel`.
        """
        reply = kept_reply(llm, question) if self.budget is not None else None
        if reply is None:
            most = self._reserve(llm, question)
            spent = 0.0
            try:
                reply = llm.ask(question)
                if not reply.kept:
                    cost = _cost(llm, reply)
                    spent = cost.dollars if cost else most
            finally:
                with self._changed:
                    self._under_way -= most
                    self._spent += spent
                    self._changed.notify_all()
        entry = Sum.of(question, reply, _cost(llm, reply))
        now = Sum() if reply.kept else entry
        with self._changed:
            place = question.purpose, llm.name
            why = "" if place in self._entries else why_unknown(llm)
            self._add(Entry(*place, why, entry, now))
        return reply

    def _add(self, new: Entry) -> None:
        """Put down an entry. Say it, once, if another model answers than has answered so far."""
        entry = self._entries.setdefault((new.stage, new.llm), Entry(new.stage, new.llm, new.why))
        before = self._answered_by(new.llm)
        entry.all.add(new.all)
        entry.now.add(new.now)
        after = self._answered_by(new.llm)
        if len(before) == 1 and len(after) > 1:
            log.warning(
                "%s: the answers are of '%s', and from here on of '%s' too: the server changed the "
                "model. run.json lists the names (answered_by). For answers of one model, name it "
                "with its version, or begin with another ADMIRE_CACHE.",
                new.llm,
                *after[:2],
            )

    def _answered_by(self, llm: str) -> list[str]:
        entries = [entry for entry in self._entries.values() if entry.llm == llm]
        return list(dict.fromkeys(name for entry in entries for name in entry.all.models))

    def _reserve(self, llm: ChatModel, question: Question) -> float:
        """Reserve the most that a question may cost, in dollars, while it is under way.

        Where that is more than is left, this waits for the others, which may turn out cheaper.
        """
        if self.budget is None:
            return 0.0
        expected = price(llm, estimate(question, llm))
        most = expected.dollars if expected else 0.0
        with self._changed:
            while self._spent + self._under_way + most > self.budget:
                if self._under_way < TINY:
                    raise UserError(
                        f"the budget of ${self.budget:g} ends here: ${self._spent:.4f} are spent, "
                        f"and the next question to {llm.name} may cost ${most:.4f}. Each command "
                        "has its budget to itself.",
                        "budget",
                    )
                self._changed.wait()
            self._under_way += most
        return most


class _Watched:
    """A chat model whose replies a ledger puts down."""

    def __init__(self, llm: ChatModel, ledger: Ledger):
        self._llm, self._ledger = llm, ledger
        self.name, self.identity = llm.name, llm.identity
        self.parallel, self.sees = llm.parallel, llm.sees

    def ask(self, question: Question) -> Reply:
        """See :class:`admire.models.llm.ChatModel`."""
        return self._ledger.ask(self._llm, question)


def check_price(llm: ChatModel) -> None:
    """Refuse a model that no budget can be kept for.

    Raises:
        UserError: its price is unknown.
    """
    if price(llm, Usage()) is None:
        raise UserError(
            f"The price of {llm.name} is unknown ({why_unknown(llm)}), so no budget can be kept. "
            "Leave the budget out, or set a limit where the account is.",
            "budget",
        )


def _cost(llm: ChatModel, reply: Reply) -> Price | None:
    """Return what a reply cost; None where its usage or the price is unknown."""
    if is_free(llm):
        return Price(0.0)
    return price(llm, reply.usage, batched=reply.batched) if reply.usage else None


def _dollars(price: Price | None) -> float | str:
    return UNKNOWN if price is None else round(price.dollars, 6)
