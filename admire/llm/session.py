"""The session of a command that asks chat models: opened by name, cached, with a budget."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, fields, replace
from itertools import islice
from math import inf
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from admire.core import registry
from admire.core.cache import open_cache
from admire.core.errors import UserError
from admire.data.items import Item
from admire.llm.chat import SEEING, ChatModel, Image, Price, Question, Reply, Usage, inner
from admire.llm.prices import estimate, why_unknown

log = logging.getLogger("admire")


REPLIES = "replies.sqlite"
"""File name in the cache directory."""
RECORD = b"\x1e"
"""First byte of a cached reply; its record in JSON follows."""
UNSTORED = ("cached", "data")
"""The fields of a reply that its record does not have."""
UNKNOWN = "unknown"
NUMBER = "582"
DIGITS = Question(
    (
        "Which number is in this picture? Reply with its digits and nothing else.",
        Image(Path(__file__).with_name("digits.png")),
    ),
    purpose="ranking",
    about="a picture of a number",
)
"""A question that only a model with eyes can answer."""
_LOCKS = WeakValueDictionary[str, threading.Lock]()
"""Locks of pending questions, by their keys."""
_GUARD = threading.Lock()


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
        row[name] = UNKNOWN if paid is None else round(paid.dollars, 6)
    row["price_is_at_most"] = bool(cost and cost.at_most)
    row["price_unknown_because"] = None if cost else why
    return row


class Session:
    """Asks the questions of a command: each once, within a budget, with an account of the costs.

    Several threads may use it at the same time.

    Args:
        budget: in US dollars, for replies that are not cached; None for no limit. Once it is
            spent, no further question is asked. Pending ones, by default eight at most (see
            ``parallel``), are still answered and paid for. A reply without a token count from its
            server costs nothing.
        fresh: whether to ignore and overwrite replies that were cached before.

    Attributes:
        seconds: how long conversations took, by purpose.
        imagines: whether its models make up replies, see :class:`admire.pipeline.forecast.DryRun`.
    """

    imagines = False

    def __init__(self, budget: float | None = None, *, fresh: bool = False):
        self.cache = open_cache(REPLIES)
        # Dates do not show which replies are new, because clocks may be set back.
        self.fresh: set[str] | None = set() if fresh else None
        self._budget = inf if budget is None else budget
        self._spent = 0.0
        self.seconds: dict[str, float] = {}
        self._entries: dict[tuple[str, str], Entry] = {}
        self._answered_by: dict[str, dict[str, None]] = {}  # by model, each name once, in order
        self._lock = threading.Lock()

    def bind(self, model: ChatModel) -> BoundModel:
        """Return the same model, to be asked through this session; a recorded one as it is.

        Raises:
            UserError: there is a budget and the model's price is unknown.
        """
        recorded = getattr(model, "recorded", False)
        bound = BoundModel(inner(model), None if recorded else self)
        if self._budget < inf and not recorded and bound.price(Usage()) is None:
            unknown = f"The price of {bound.name} is unknown ({why_unknown(bound)})"
            raise UserError(f"{unknown}. Omit the budget.", "budget")
        return bound

    def entries(self) -> list[Entry]:
        """Return the account of each stage and model, in the order of the first questions."""
        with self._lock:
            return list(self._entries.values())

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
        """Refuse a question that is not cached if the budget is spent."""
        if self._spent >= self._budget:
            raise UserError(
                f"budget of ${self._budget:g} exhausted (${self._spent:.4f} spent). Budgets apply "
                "per command.",
                "budget",
            )

    def record(self, llm: BoundModel, question: Question, reply: Reply, *, cut: bool) -> None:
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


class BoundModel(ChatModel):
    """A chat model that is asked through a :class:`Session`, or, without one, directly.

    Replies are cached on disk by model, question and settings, unless the model's identity is only
    its name, which does not change when its replies do. Empty replies are not cached. If several
    threads ask the same question at the same time, one of them asks the model.

    Attributes:
        unbound: the model itself.
        imagines: see :attr:`Session.imagines`.
    """

    def __init__(self, model: ChatModel, session: Session | None = None):
        self.unbound, self.session = model, session
        self.name, self.identity = model.name, model.identity
        for name in ChatModel.__annotations__:
            setattr(self, name, getattr(model, name, getattr(ChatModel, name)))
        self.imagines = bool(session and session.imagines)
        self._caches = session is not None and self.identity != self.name
        self._cuts: bool | None = None  # whether the server cuts questions off, once it is known
        self._sees = self.recorded

    def ask(self, question: Question) -> Reply:
        """Return the cached reply, or ask; see :class:`admire.llm.ChatModel`.

        Raises:
            UserError: the budget is spent, or the model fails.
        """
        reply = self.cached(question)
        if not reply:
            self.check_budget()
            reply = self.answer(question)
        self.record(question, reply)
        return reply

    def answer(self, question: Question) -> Reply:
        """Ask the model, and cache the reply."""
        if not self._caches:
            return self._ask(question)
        with _GUARD:
            lock = _LOCKS.setdefault(key := self.key(question), threading.Lock())
        with lock:
            return self.cached_at(key) or self.store(key, self._ask(question))

    def _ask(self, question: Question) -> Reply:
        """Ask the model; a plug-in is blamed for its errors."""
        with registry.blamed(self.unbound):
            reply = self.unbound.ask(question)
        plugin = registry.plugin_of(self.unbound)
        if plugin and not (isinstance(reply, Reply) and isinstance(reply.text, str)):
            raise plugin.error(f"returned {type(reply).__name__}, not a Reply with a text.")
        return reply

    def ask_together(self, questions: Sequence[Question]) -> Iterator[Reply]:
        """Ask the model several questions, and cache the replies as they come."""
        with registry.blamed(self.unbound):
            for question, reply in zip(
                questions, self.unbound.ask_together(questions), strict=True
            ):
                yield self.store(self.key(question), reply)

    def check_budget(self) -> None:
        """Refuse a question that is not cached if the budget is spent."""
        if self.session:
            self.session.check_budget()

    def record(self, question: Question, reply: Reply, *, again: bool = False) -> None:
        """Add a reply to the account of the session.

        Args:
            again: whether other replies may have decided that the question is asked.
        """
        if self.session:
            cut = not reply.cached and self._is_cut(question, reply)
            self.session.record(self, question, reply, cut=cut)

    def _is_cut(self, question: Question, reply: Reply) -> bool:
        """Return whether the server cut the question off; then the reply leaves the cache.

        Too few tokens may also be all that the server had not cached. So of the first such question
        a copy is asked that nothing can have cached, because it begins in another way.
        """
        lost = None if self._cuts is False else lost_words(question, reply)
        if not lost:
            return False
        if self._cuts is None:
            parts = (question.parts,) if isinstance(question.parts, str) else question.parts
            digest = hashlib.sha256(question.text.encode(errors="replace")).hexdigest()
            copy = replace(question, parts=(f"({digest})", *parts))
            again = self.answer(copy)
            self.evict(copy)
            self._cuts = bool(lost_words(copy, again))
            self.record(copy, again)
            if self._cuts:
                log.warning(
                    "%s cuts questions off: it counts %d tokens in one of %d words, so its replies "
                    "are about a part of what was asked. Give the server more context "
                    "(OLLAMA_CONTEXT_LENGTH=16384, llama-server -c 16384) and run this again. "
                    "These replies are not cached.",
                    self.name,
                    *lost,
                )
        if self._cuts:
            self.evict(question)
        return self._cuts

    def look(self) -> None:
        """Ask a model once for the number in a picture, before it is asked about the data's.

        Servers hand pictures to models without eyes, too, and these answer all the same
        (https://github.com/huggingface/text-generation-inference/issues/2565).

        Raises:
            UserError: the reply has another number, or none.
        """
        if self._sees:
            return
        reply = self.ask(DIGITS)
        if re.sub(r"\D", "", reply.text) != NUMBER and not self.imagines:
            raise UserError(
                f"{self.name} does not see pictures: asked for the number {NUMBER} in one, it "
                f"replied “{reply.text.strip()[:80]}”. {SEEING}",
                *("track", "llms"),
            )
        self._sees = True

    def check(self, items: Sequence[Item], purposes: Collection[str]) -> None:
        """See :class:`admire.llm.ChatModel`."""
        with registry.blamed(self.unbound):
            if check := getattr(self.unbound, "check", None):
                check(items, purposes)

    def price(self, usage: Usage) -> Price | None:
        """See :class:`admire.llm.ChatModel`."""
        return Price(0.0) if self.free else self.unbound.price(usage)

    def most_tokens(self, question: Question) -> int:
        """See :class:`admire.llm.ChatModel`."""
        return self.unbound.most_tokens(question)

    def key(self, question: Question) -> str:
        """Return the SHA-256 of everything that the reply depends on; of images, the content."""
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
        if self.recorded:
            parts.append(str(question.about))
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def cached(self, question: Question) -> Reply | None:
        """Return the cached reply; None if there is none, or it is damaged."""
        return self.cached_at(self.key(question)) if self._caches else None

    def cached_at(self, key: str) -> Reply | None:
        """Return the cached reply to a question with this key; see :meth:`cached`."""
        session = self.session if self._caches else None
        if not session or (session.fresh is not None and key not in session.fresh):
            return None
        value = session.cache.get(key)
        if value is None:
            return None
        try:
            record = json.loads(value.removeprefix(RECORD))
            record.pop("batched", None)  # older versions used OpenAI's Batch API
            if record["usage"] is not None:
                record["usage"] = Usage(**record["usage"])
            if record["logprobs"] is not None:
                record["logprobs"] = tuple(record["logprobs"])
            return Reply(**record, cached=True)
        except (ValueError, TypeError, LookupError, RecursionError):
            return None

    def store(self, key: str, reply: Reply) -> Reply:
        """Cache a reply, if it has text, and return it as stored."""
        if not (self._caches and self.session):
            return reply
        # Half an emoji cannot be encoded in a file.
        reply = replace(reply, text=reply.text.encode(errors="replace").decode())
        if reply.text.strip():
            record = {name: value for name, value in asdict(reply).items() if name not in UNSTORED}
            self.session.cache.put(key, RECORD + json.dumps(record).encode(), self.name)
            if self.session.fresh is not None:
                self.session.fresh.add(key)
        return reply

    def evict(self, *questions: Question) -> None:
        """Remove the replies to questions from the cache."""
        if self._caches and self.session:
            for question in questions:
                self.session.cache.drop(self.key(question))


def open_llm(name: str, **options: Any) -> ChatModel:
    """Open the chat model of that name, a plug-in, asked through a session of its own.

    - ``embedded``: the model that comes with the extra ``embedded``;
    - ``gguf:PATH``: a local file, run by llama.cpp;
    - ``openai:MODEL``: the official API, or the compatible server at ``url`` or
      ``OPENAI_BASE_URL``;
    - ``recorded:FILE``: replies in a file, see :func:`admire.senses.recorded.open_replies`;
    - ``run:FOLDER``: the replies of a run's chat model;
    - ``dictionary``: the dictionaries only.

    No model is loaded before the first question that is not cached; every reply is cached on
    disk.

    Args:
        options: see :func:`open_models`.

    Raises:
        UserError: no chat model has that name, a file or key is missing, or it is a run of several
            chat models.
    """
    model, *others = open_models(name, **options)
    if others:
        raise UserError(f"'{name}' contains the replies of {1 + len(others)} chat models.", "llms")
    return model


def open_models(
    name: str,
    *,
    url: str | None = None,
    timeout: float | None = None,
    parallel: int | None = None,
    session: Session | None = None,
    asked: bool = True,
    dictionaries: tuple[str, ...] = ("wordnet",),
    plugins: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[BoundModel]:
    """Open the chat models of a name: one, or as many as an earlier run had.

    Args:
        url: the address of a server, for ``openai:`` models.
        timeout: seconds that a server may take for a whole answer; None is 60.
        parallel: how many questions to ask a server at the same time; None is 8.
        session: asks the models; None creates one for them.
        asked: whether they will be asked at all; if not, a server's key may be missing.
        dictionaries: the names of those that ``dictionary`` looks up.
        plugins: see :attr:`admire.Settings.plugins`.
    """
    plugin, source = registry.resolve("chat", name)
    session = session or Session()
    options = {"url": url, "timeout": timeout, "parallel": parallel}
    options["asked"] = asked and not session.imagines
    opened = plugin.open(source, dictionaries=dictionaries, plugins=plugins or {}, **options)
    return list(map(session.bind, opened if isinstance(opened, list) else [opened]))


def lost_words(question: Question, reply: Reply) -> tuple[int, int] | None:
    """Return how many tokens a server counts in a question's text and how many words it has, if
    these are more than the tokens can be; None if they fit.

    Words have a token or more each, with the few tokenizers that join words three for four of them.
    Nothing is said of servers that count nothing. Some count the cached tokens apart.
    """
    usage, words = reply.usage or Usage(), len(question.text.split())
    tokens = usage.prompt - usage.images + usage.cached
    return (tokens, words) if usage.prompt and tokens < 0.75 * words else None
