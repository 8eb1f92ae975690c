"""The session of a command: opens its chat models, with one cache, one account and a budget."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from math import inf
from typing import Any

from admire.core import registry
from admire.core.cache import open_cache
from admire.core.errors import UserError
from admire.llm.bound_model import REPLIES, BoundModel, Entry
from admire.llm.chat import ChatModel, Usage, inner

log = logging.getLogger("admire")


class Session:
    """Opens a command's chat models, and has the cache and the account of their replies.

    Several threads may use it at the same time.

    Args:
        budget: in US dollars, for replies that are not cached; None for no limit. Once it is
            spent, no further question is asked. Pending ones, by default eight at most (see
            ``parallel``), are still answered and paid for. A reply without a token count from its
            server costs nothing.
        fresh: whether to ignore and overwrite replies that were cached before.
        timeout: seconds that a server may take for a whole answer; None is 60.
        parallel: how many questions to ask a server at the same time; None is 8.
        price: in US dollars for a million tokens in and out; None is each model's own.
        most_requests: how many replies that are not cached; None for no limit.

    Attributes:
        imagines: whether its models make up replies, see :class:`admire.pipeline.forecast.DryRun`.
        seconds: how long conversations took, by purpose.
        renewed: the keys of the new replies, if those cached before are ignored; else None.
    """

    imagines = False

    def __init__(
        self,
        budget: float | None = None,
        *,
        fresh: bool = False,
        timeout: float | None = None,
        parallel: int | None = None,
        plugins: Mapping[str, Mapping[str, Any]] | None = None,
        price: tuple[float, ...] | None = None,
        most_requests: int | None = None,
    ):
        self.budget = inf if budget is None else budget
        self.prices = price
        self.most_requests = most_requests or inf
        self.replies = open_cache(REPLIES)
        # Dates do not show which replies are new, because clocks may be set back.
        self.renewed: set[str] | None = set() if fresh else None
        self.plugins = plugins or {}
        self.seconds: dict[str, float] = {}
        self._options = {"timeout": timeout, "parallel": parallel}
        self._spent, self._sent = 0.0, 0
        self._entries: dict[tuple[str, str], Entry] = {}
        self._answered_by: dict[str, dict[str, None]] = {}  # by model, each name once, in order
        self._lock = threading.Lock()

    def entries(self) -> list[Entry]:
        """Return the account of each stage and model, in the order of the first questions."""
        with self._lock:
            return list(self._entries.values())

    def pop_entries(self) -> list[Entry]:
        """Return what was recorded since the last call; see :meth:`add_entries`."""
        with self._lock:
            entries, self._entries, self._answered_by = self._entries, {}, {}
        return list(entries.values())

    def add_entries(self, entries: Iterable[Entry], spent: float = 0.0) -> None:
        """Add to the account, and to the dollars spent; warn once if a server changes the model."""
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

    def check_budget(self, count: int = 1) -> None:
        """Count questions that are sent; refuse them if the budget or the requests are spent."""
        with self._lock:
            self._sent += count
        if self._sent > self.most_requests:
            limit = f"limit of {self.most_requests} requests reached"
            raise UserError(f"{limit}. Limits apply per command.", "most_requests")
        if self._spent >= self.budget:
            raise UserError(
                f"budget of ${self.budget:g} exhausted (${self._spent:.4f} spent). Budgets apply "
                "per command.",
                "budget",
            )

    def bind(self, model: ChatModel) -> BoundModel:
        """Return the same model, to be asked through this session; its price must be known if
        there is a budget."""
        bound = BoundModel(inner(model), self)
        if self.budget < inf and bound.price(Usage()) is None:
            unknown = f"The price of {bound.name} is unknown ({bound.why_unknown})"
            raise UserError(f"{unknown}. Give it, or omit the budget.", "price", "budget")
        return bound

    def open(
        self,
        model: Any,
        url: str | None = None,
        dictionaries: Sequence[str] = ("wordnet",),
        plugins: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> list[Any]:
        """Open the chat models of a name: one, or as many as an earlier run had.

        Args:
            model: the name; or an open model, which is bound to this session, or a recording.
            url: the address of a server, for ``openai:`` models.
            dictionaries: the names of those that ``dictionary`` looks up.
            plugins: settings of plug-ins; None is the session's.

        Raises:
            UserError: no chat model has that name, or a file or key is missing.
        """
        opened = model
        if isinstance(model, str):
            plugin, source = registry.resolve("chat", model)
            options: dict[str, Any] = {"url": url, "dictionaries": dictionaries}
            options |= self._options | {"asked": not self.imagines}
            opened = plugin.open(source, **options | {"plugins": plugins or self.plugins})
        models = opened if isinstance(opened, list) else [opened]
        return [self.bind(each) if hasattr(inner(each), "ask") else each for each in models]


def open_llm(
    name: Any,
    session: Session | None = None,
    url: str | None = None,
    dictionaries: Sequence[str] = ("wordnet",),
) -> Any:
    """Open one chat model: ``embedded``, ``gguf:PATH``, ``openai:MODEL``, ``recorded:FILE``,
    ``run:FOLDER`` of a run with one, ``dictionary``, or a plug-in of your own.

    No model is loaded before the first question that is not cached; every reply is cached.

    Args:
        name: also a model that is open already.
        session: asks the model; None creates one for it.
        url, dictionaries: see :meth:`Session.open`, also for errors.
    """
    model, *others = (session or Session()).open(name, url, dictionaries)
    if others:
        raise UserError(f"'{name}' contains the replies of {1 + len(others)} chat models.", "llms")
    return model
