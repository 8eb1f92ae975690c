"""What a run asked its chat models and what that took, and the budget that it keeps."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import inf
from typing import Any

from admire.base.errors import UserError
from admire.models.llm.cached import kept_reply
from admire.models.llm.chat import ChatModel, Question, Reply, Usage, capabilities, forget
from admire.models.llm.prices import Price, estimate, is_free, price, why_unknown

log = logging.getLogger("admire")

UNKNOWN = "unknown"


@dataclass
class Entry:
    """What one stage asked of one model. A sum is None where it is unknown of a reply.

    Attributes:
        why: why the price is unknown, where it is.
        answered_by: what the server called the models that answered, each once.
        seconds: unknown of replies that came in batches.
        price_now: of the replies that were not in the cache.
    """

    stage: str
    llm: str
    why: str
    answered_by: list[str]
    calls: int
    from_cache: int
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    image_tokens: int | None
    seconds: float | None
    price: Price | None
    price_now: Price | None

    def add(self, other: Entry) -> None:
        """Add an entry of the same stage and model."""
        self.answered_by = [*dict.fromkeys(self.answered_by + other.answered_by)]
        for name in SUMS:
            terms = getattr(self, name), getattr(other, name)
            setattr(self, name, None if None in terms else terms[0] + terms[1])

    def record(self) -> dict[str, Any]:
        """For run.json: tokens are None and prices "unknown" where nobody told them."""
        plain = {name: value for name, value in vars(self).items() if name not in NOT_RECORDED}
        return plain | {
            "seconds": None if self.seconds is None else round(self.seconds, 3),
            "price_usd": _dollars(self.price),
            "price_usd_now": _dollars(self.price_now),
            "price_is_at_most": bool(self.price and self.price.at_most),
            "price_unknown_because": None if self.price else self.why,
        }


SUMS = [field.name for field in fields(Entry)[4:]]
"""The fields that are added up: those after ``answered_by``."""
NOT_RECORDED = ("why", "price", "price_now")  # but in other words


class Ledger:
    """The account of a run's questions. Threads may use it at the same time.

    Args:
        budget: in US dollars, for replies that are not in the cache; None is no limit. Once so
            much is spent, no further question is asked. Those that are under way by then, eight
            at most unless ``parallel`` says otherwise, are still answered and paid for. A reply
            whose server does not tell its tokens counts nothing.
    """

    def __init__(self, budget: float | None = None):
        self._budget = inf if budget is None else budget
        self._spent = 0.0
        self._entries: dict[tuple[str, str], Entry] = {}
        self._lock = threading.Lock()

    def watch(self, llm: ChatModel) -> ChatModel:
        """Return the same model, which notes its replies here and keeps to the budget.

        Raises:
            UserError: there is a budget and the model's price is unknown.
        """
        if self._budget < inf:
            check_price(llm)
        return _Watched(llm, self)

    def entries(self) -> list[Entry]:
        """Return what each stage asked of each model, in the order of the first questions."""
        with self._lock:
            return list(self._entries.values())

    def hand_over(self) -> list[Entry]:
        """Return what was put down since the last call; see :meth:`take`."""
        with self._lock:
            entries, self._entries = list(self._entries.values()), {}
        return entries

    def take(self, entries: Sequence[Entry]) -> None:
        """Put down what another process did."""
        with self._lock:
            for entry in entries:
                self._add(entry)

    def ask(self, llm: ChatModel, question: Question) -> Reply:
        """Ask the model, unless the budget is spent, and put down the reply.

        Raises:
            UserError: the budget is spent, or see :class:`admire.models.llm.ChatModel`.
        """
        if self._spent >= self._budget and kept_reply(llm, question) is None:
            raise UserError(
                f"the budget of ${self._budget:g} ends here: ${self._spent:.4f} are spent. Each "
                "command has its budget to itself.",
                "budget",
            )
        reply = llm.ask(question)
        usage, cost = reply.usage, None
        if usage or is_free(llm):
            cost = price(llm, usage or Usage(), batched=reply.batched)
        images_told = usage and (usage.images or not question.images)
        with self._lock:
            if not reply.kept:
                spent = cost or price(llm, estimate(question, llm))
                self._spent += spent.dollars if spent else 0.0
            place = question.purpose, llm.name
            entry = Entry(
                *place,
                why="" if place in self._entries else why_unknown(llm),
                answered_by=[reply.model] if reply.model else [],
                calls=1,
                from_cache=int(reply.kept),
                prompt_tokens=usage.prompt if usage else None,
                cached_tokens=usage.cached if usage else None,
                completion_tokens=usage.completion if usage else None,
                image_tokens=usage.images if usage and images_told else None,
                seconds=reply.seconds or None,
                price=cost,
                price_now=Price(0.0) if reply.kept else cost,
            )
            self._add(entry)
        return reply

    def _add(self, new: Entry) -> None:
        """Put down an entry. Say it, once, if another model answers than has answered so far."""
        before = self._answered_by(new.llm)
        entry = self._entries.setdefault((new.stage, new.llm), new)
        if entry is not new:
            entry.add(new)
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
        return list(dict.fromkeys(name for entry in entries for name in entry.answered_by))


class _Watched(ChatModel):
    """A chat model whose replies a ledger puts down."""

    def __init__(self, llm: ChatModel, ledger: Ledger):
        self._llm, self._ledger = llm, ledger
        self.name, self.identity = llm.name, llm.identity
        vars(self).update(capabilities(llm))

    def ask(self, question: Question) -> Reply:
        return self._ledger.ask(self._llm, question)

    def forget(self, question: Question) -> None:
        forget(self._llm, question)


def check_price(llm: ChatModel) -> None:
    """Refuse a model whose price is unknown, so that no budget can be kept for it."""
    if price(llm, Usage()) is None:
        raise UserError(
            f"The price of {llm.name} is unknown ({why_unknown(llm)}): leave the budget out.",
            "budget",
        )


def _dollars(price: Price | None) -> float | str:
    return UNKNOWN if price is None else round(price.dollars, 6)
