"""Conversations with chat models: methods say what they ask, and :func:`converse` asks it.

A method is a generator: it yields a round of questions, gets the replies, and returns a result::

    def vote(item):
        replies = yield [Question(f"Is {item.compound} an idiom here?", seed=k) for k in range(5)]
        return majority(reply.text for reply in replies)
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext, suppress
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from admire.core.errors import UserError
from admire.core.progress import Cancelled, check_cancelled, hidden_progress, show_progress
from admire.llm.chat import ChatModel, Question, Reply
from admire.llm.session import BoundModel

Result = TypeVar("Result")


@dataclass(frozen=True)
class Unusable:
    """What a conversation yields, and gets nothing for, if replies to these questions are useless.

    They are removed from the cache. So the same command asks again, perhaps when the server works.
    """

    questions: Sequence[Question]


Kind = tuple[str, str, str | None]
"""What questions have in common that are asked together: purpose, task and sense."""

PURPOSES = ("senses", "meanings", "ranking")
"""The order in which questions of these purposes are asked, if conversations wait for several."""

Conversation = Generator[Sequence[Question] | Unusable, Sequence[Reply], Result]
"""A method that asks a chat model; see :mod:`admire.llm.conversation`."""


def converse(
    conversations: Iterable[Conversation[Result]],
    model: ChatModel,
    *,
    check: Callable[[], None] | None = None,
) -> list[Result]:
    """Ask a chat model what the conversations ask, and return their results in their order.

    Questions of one kind are asked together, in the order of their texts, so that a server can
    reuse the prefix that a prompt shares with the one before. What several conversations ask is
    asked once. A reply is taken from the cache, or cached when it comes, and sent on at once.

    Args:
        model: asked by its session (:meth:`admire.llm.Session.bind`), or directly, without a cache.
        check: called when all questions of one purpose are answered. It may raise a UserError,
            because no reply can be used, before questions of another purpose are asked.

    Raises:
        UserError: the model raised one, or the budget is spent; the message names the subject.
        Cancelled: the replies are no longer needed.
    """
    asking = _Asking(model if isinstance(model, BoundModel) else BoundModel(model))
    talks = [_Talk(conversation) for conversation in conversations]
    waits = True
    try:
        for talk in talks:
            asking.proceed(talk)
        while asking.waiting:
            kind = min(asking.waiting, key=lambda kind: (*PURPOSES, kind[0]).index(kind[0]))
            asking.answer(kind)
            if check and kind[0] not in {purpose for purpose, *_ in asking.waiting}:
                check()
    except (KeyboardInterrupt, Cancelled):
        waits = False  # replies that are under way are cached when they come
        raise
    finally:
        if asking.pool:  # questions that have not begun are dropped
            asking.pool.shutdown(waits, cancel_futures=True)
    return [cast("Result", talk.result) for talk in talks]


@dataclass
class _Talk(Generic[Result]):
    """A conversation under way: the replies to its last questions, and how many are missing."""

    conversation: Conversation[Result]
    replies: list[Reply] | None = None
    missing: int = 0
    kinds: set[Kind] = field(default_factory=set)
    result: Result | None = None


@dataclass
class _Asked:
    """A question, its reply, and the places in conversations that wait for it.

    Attributes:
        again: whether the first of these had asked a question of its kind before.
    """

    question: Question
    again: bool
    reply: Reply | None = None
    places: list[tuple[_Talk[Any], int]] = field(default_factory=list)


class _Asking:
    """The questions of some conversations.

    Attributes:
        waiting: those that have no reply yet, by kind; of each kind a heap by their texts.
    """

    def __init__(self, model: BoundModel):
        self.model = model
        self.waiting: dict[Kind, list[tuple[str, int, _Asked]]] = {}
        self._asked: dict[str, _Asked] = {}
        self.pool: ThreadPoolExecutor | None = None

    def proceed(self, talk: _Talk[Any]) -> None:
        """Send a conversation its replies, and let its next questions wait."""
        try:
            asked: Any = talk.conversation.send(talk.replies)  # type: ignore[arg-type]  # None starts
            while isinstance(asked, Unusable) or asked in ([], ()):
                if isinstance(asked, Unusable):
                    self.model.evict(*asked.questions)
                asked = talk.conversation.send(())
            is_list = isinstance(asked, list | tuple)
            if not is_list or not all(isinstance(question, Question) for question in asked):
                wrong = TypeError(f"it yields {type(asked).__name__}, not a list of questions")
                talk.conversation.throw(wrong)
        except StopIteration as end:
            talk.result = end.value
            return
        questions: list[Question] = list(asked)
        talk.replies, talk.missing = [Reply("")] * len(questions), len(questions)
        before = talk.kinds.copy()
        for place, question in enumerate(questions):
            with _naming(question):
                key = self.model.key(question)
            kind = question.purpose, question.task, question.sense
            talk.kinds.add(kind)
            if key not in self._asked:
                entry = self._asked[key] = _Asked(question, kind in before)
                waiting = self.waiting.setdefault(kind, [])
                heapq.heappush(waiting, (question.text, len(self._asked), entry))
            self._asked[key].places.append((talk, place))
            if self._asked[key].reply:
                self._send(self._asked[key])

    def answer(self, kind: Kind) -> None:
        """Answer the questions of a kind, and those that join them meanwhile."""
        purpose, task, _ = kind
        questions, started = self.waiting[kind], time.perf_counter()
        replies, total = self._replies(questions), len(questions)
        hides = self.model.recorded or self.model.imagines or not task
        with hidden_progress() if hides else nullcontext():
            for _ in show_progress(replies, f"{task} (model {self.model.name})", total):
                pass
        del self.waiting[kind]
        if session := self.model.session:
            seconds = time.perf_counter() - started
            session.seconds[purpose] = session.seconds.get(purpose, 0.0) + seconds

    def _replies(self, waiting: list[tuple[str, int, _Asked]]) -> Iterator[None]:
        """Answer questions, several at a time; yield for each that waits already."""
        total, slots = len(waiting), self.model.parallel if self.model.batch == 1 else 1
        for done, (asked, reply) in enumerate(self._pairs(waiting, slots)):
            self.model.record(asked.question, reply, again=asked.again)
            asked.reply = reply
            self._send(asked)
            if done < total:
                yield

    def _pairs(
        self, waiting: list[tuple[str, int, _Asked]], slots: int
    ) -> Iterator[tuple[_Asked, Reply]]:
        """Yield the questions, and those that join them, with their replies as these come."""
        under_way: dict[Future[list[Reply]], list[_Asked]] = {}
        while waiting or under_way:
            while waiting and len(under_way) < slots:
                check_cancelled()
                together: list[_Asked] = []
                while waiting and len(together) < self.model.batch:
                    *_, asked = heapq.heappop(waiting)
                    if reply := self.model.cached(asked.question):
                        yield asked, reply
                    else:
                        together.append(asked)
                if together:
                    with _naming(together[0].question):
                        self.model.check_budget()
                    if any(asked.question.images for asked in together):
                        self.model.look()
                    self.pool = self.pool or ThreadPoolExecutor(slots)
                    under_way[self.pool.submit(self._ask, together)] = together
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                yield from zip(under_way.pop(future), future.result(), strict=True)

    def _ask(self, together: Sequence[_Asked]) -> list[Reply]:
        """Ask the model in a thread: all at once, and if that fails one after the other."""
        if len(together) > 1:
            with suppress(UserError):
                return list(self.model.ask_together([asked.question for asked in together]))
        replies = []
        for asked in together:
            with _naming(asked.question):
                replies.append(self.model.answer(asked.question))
        return replies

    def _send(self, asked: _Asked) -> None:
        """Give the reply to all that wait for it; a conversation with all replies proceeds."""
        places, asked.places = asked.places, []
        for talk, place in places:
            assert talk.replies is not None
            assert asked.reply is not None
            talk.replies[place] = asked.reply
            talk.missing -= 1
            if not talk.missing:
                self.proceed(talk)


@contextmanager
def _naming(question: Question) -> Iterator[None]:
    """Name the subject of a question in its error."""
    try:
        yield
    except UserError as error:
        subject = getattr(question.about, "compound", question.about)
        if not subject:
            raise
        named = copy(error)
        cached = "The answers so far are cached: run the same command again to resume."
        named.args = (f"'{subject}': {error} {cached}",)
        raise named from error
