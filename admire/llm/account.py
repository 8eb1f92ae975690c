"""The account of a command's questions: calls, tokens, prices, and a budget."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from dataclasses import astuple, fields
from itertools import islice
from math import inf
from typing import Any, NamedTuple

from admire.core.errors import UserError
from admire.llm.chat import Capabilities, Price, Question, Reply, Usage
from admire.llm.prices import estimate, why_unknown

log = logging.getLogger("admire")

UNKNOWN = "unknown"


class Entry(NamedTuple):
    """The account of one stage and one model. A sum is None if it is unknown for a reply.

    Attributes:
        answered_by: the server's names of the models that answered, each once.
        cut_off: how many questions the server cut off, because they did not fit into its context.
        price_now: of the replies that were not in the cache.
        why: why the price is unknown; empty if it is known.
    """

    stage: str
    llm: str
    answered_by: list[str]
    calls: int
    from_cache: int
    cut_off: int
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    image_tokens: int | None
    seconds: float | None
    price: Price | None
    price_now: Price | None
    why: str


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


class Account:
    """What a command asked, by stage and model. Several threads may use it at the same time.

    Attributes:
        budget: in US dollars, for replies that are not cached; infinite for no limit.
        prices: in US dollars for a million tokens in and out; None is each model's own.
        most_requests: how many replies that are not cached; infinite for no limit.
        seconds: how long conversations took, by purpose.
    """

    def __init__(
        self,
        budget: float | None = None,
        price: tuple[float, ...] | None = None,
        most_requests: int | None = None,
    ):
        self.budget = inf if budget is None else budget
        self.prices = price
        self.most_requests = most_requests or inf
        self.seconds: dict[str, float] = {}
        self._spent = 0.0
        self._entries: dict[tuple[str, str], Entry] = {}
        self._answered_by: dict[str, dict[str, None]] = {}  # by model, each name once, in order
        self._lock = threading.Lock()

    def entries(self) -> list[Entry]:
        """Return the account of each stage and model, in the order of the first questions."""
        with self._lock:
            return list(self._entries.values())

    def pop_seconds(self) -> dict[str, float]:
        """Return the seconds so far, and forget them."""
        seconds, self.seconds = self.seconds, {}
        return seconds

    def pop_entries(self) -> list[Entry]:
        """Return what was recorded since the last call; see :meth:`add_entries`."""
        with self._lock:
            entries = list(self._entries.values())
            self._entries, self._answered_by = {}, {}
        return entries

    def add_entries(self, entries: Iterable[Entry], spent: float = 0.0) -> None:
        """Add to the account; warn once if a server changes the model that answers.

        Args:
            spent: of the budget, in US dollars.
        """
        with self._lock:
            self._spent += spent
            for entry in entries:
                names = self._answered_by.setdefault(entry.llm, {})
                before = len(names)
                names |= dict.fromkeys(entry.answered_by)
                if before == 1 < len(names):
                    log.warning(
                        "%s: the server changed the model: '%s' answered first, and now also '%s'. "
                        "run.json lists the names (answered_by). For answers of one model, give "
                        "its name with the version, or start with another ADMIRE_CACHE.",
                        entry.llm,
                        *islice(names, 2),
                    )
                if old := self._entries.get(entry[:2]):
                    pairs: Iterable[Any] = zip(old[3:-1], entry[3:-1], strict=True)
                    sums = (None if None in pair else pair[0] + pair[1] for pair in pairs)
                    answered = [*dict.fromkeys(old.answered_by + entry.answered_by)]
                    entry = Entry._make((*old[:2], answered, *sums, old.why or entry.why))
                self._entries[entry[:2]] = entry

    def check_budget(self) -> None:
        """Refuse a question that is not cached if the budget or the requests are spent."""
        if sum(entry.calls - entry.from_cache for entry in self.entries()) >= self.most_requests:
            limit = f"limit of {self.most_requests} requests reached"
            raise UserError(f"{limit}. Limits apply per command.", "most_requests")
        if self._spent >= self.budget:
            raise UserError(
                f"budget of ${self.budget:g} exhausted (${self._spent:.4f} spent). Budgets apply "
                "per command.",
                "budget",
            )

    def record(self, llm: Capabilities, question: Question, reply: Reply, *, cut: bool) -> None:
        """Add a reply to the account; ``cut`` says whether the server cut off its question."""
        usage = reply.usage
        cost = llm.price(usage or Usage()) if usage or llm.free else None
        tokens: Any = astuple(usage) if usage else (None,) * len(fields(Usage))
        prompt, cached, completion, images = tokens
        place = question.purpose, llm.name
        entry = Entry(
            *place,
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
            why="" if place in self._entries else why_unknown(llm),  # which takes time
        )
        spent = None if reply.cached else cost or llm.price(estimate(question, llm))
        self.add_entries([entry], spent.dollars if spent else 0.0)
