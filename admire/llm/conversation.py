"""Conversations with chat models: methods say what they ask, and :func:`converse` asks it.

A method is a generator: it yields a round of questions, gets the replies, and returns a result, as
:func:`admire.senses.vote` does.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext, suppress
from copy import copy
from itertools import chain
from typing import Any, Generic, NamedTuple, TypeVar, cast

from admire.core.errors import UserError
from admire.core.progress import Cancelled, check_cancelled, hidden_progress, show_progress
from admire.llm.bound_model import BoundModel
from admire.llm.chat import ChatModel, Question, Reply, Result
from admire.llm.chat import Conversation as Conversation
from admire.llm.chat import Unusable as Unusable
from admire.llm.probes import DIGITS, lost_words, measure_cuts, prove_eyes

Read = TypeVar("Read")
FEW = 3  #: if none of at least so many replies is usable, the model is at fault, not a compound
Kind = tuple[str, str | None]
"""What questions of a purpose have in common that are asked together: task and sense."""


def converse(
    conversations: Iterable[Conversation[Result]],
    model: ChatModel | BoundModel,
    *,
    strict: bool = False,
) -> list[Result]:
    """Ask a chat model what the conversations ask, and return their results in their order.

    Questions of one kind are asked together, in the order of their texts, so that a server can
    reuse prefixes. What several conversations ask is asked once. A reply is taken from the cache,
    or cached when it comes, and sent on at once.

    Args:
        model: asked by its session (:meth:`admire.llm.Session.bind`), or directly, without a cache.
        strict: whether to refuse a model none of whose replies to the questions of one purpose
            could be used, before those of another are asked; see :class:`Unusable`.

    Raises:
        UserError: the model raised one, the budget is spent, or no reply can be used; the message
            names the subject.
        Cancelled: the replies are no longer needed.
    """
    asking = _Asking(model if isinstance(model, BoundModel) else BoundModel(model))
    talks = list(map(_Talk, conversations))
    waits = True
    try:
        for talk in talks:
            asking.proceed(talk)
        while purposes := [purpose for purpose, kinds in asking.waiting.items() if kinds]:
            asking.answer(purposes[0])
            if strict and not asking.waiting[purposes[0]]:
                asking.refuse(purposes[0], talks)
    except (KeyboardInterrupt, Cancelled):
        waits = False  # replies that are under way are cached when they come
        raise
    finally:
        if asking.pool:  # questions that have not begun are dropped
            asking.pool.shutdown(waits, cancel_futures=True)
    return [cast("Result", talk.result) for talk in talks]


def ask(model: ChatModel | BoundModel, *questions: Question) -> list[Reply]:
    """Return a chat model's replies to some questions, in their order; see :func:`converse`."""

    def once() -> Conversation[Sequence[Reply]]:
        return (yield questions)

    (replies,) = converse([once()], model)
    return list(replies)


class Reading(NamedTuple, Generic[Read]):
    """What is read of a reply: whether that is ``usable``, and so good that it is ``enough``."""

    value: Read
    usable: bool
    enough: bool


def ask_until(
    questions: Sequence[Question],
    read: Callable[[Question, Reply], Reading[Read]],
    again: Callable[[Question, Reply, int], Question | None],
    refusal: Callable[[str, Sequence[Any]], UserError | None] | None = None,
) -> Conversation[list[Read]]:
    """Ask questions, and those again whose replies are not good enough.

    Return what was read of each: the first that is enough, else the first that can be used, else
    the last, whose questions are then :class:`Unusable`. ``again`` returns the question to ask next
    in place of one, after so many replies, or None.
    """
    tries = [[question] for question in questions]
    best: dict[int, Reading[Read]] = {}
    lost = list(range(len(questions)))
    while lost:
        replies = yield [tries[place][-1] for place in lost]
        left = []
        for place, reply in zip(lost, replies, strict=True):
            question = tries[place][-1]
            reading = read(question, reply)
            if reading.enough or place not in best or not best[place].usable:
                best[place] = reading
            if reading.enough:
                continue
            if following := again(question, reply, len(tries[place])):
                tries[place].append(following)
                left.append(place)
            elif not best[place].usable:
                yield Unusable(tries[place], reading.value, refusal)
        lost = left
    return [best[place].value for place in range(len(questions))]


def unusable_model(name: str, reason: str, *settings: str) -> UserError:
    """Return the error about a chat model whose replies are all useless."""
    return UserError(
        f"{name}: {reason}. See its answers on one item (admire one), or use another model.",
        *("llms", "llm_url", *settings),
    )


class _Talk(Generic[Result]):
    """A conversation under way: the replies to its last questions, and how many are missing."""

    def __init__(self, conversation: Conversation[Result]):
        self.conversation = conversation
        self.replies: list[Reply] | None = None
        self.missing = 0
        self.kinds: set[tuple[str, Kind]] = set()
        self.unusable: list[Unusable] = []
        self.result: Result | None = None


_Asked = tuple[str, int, str, Question, bool]
"""A question that waits: its text and number, by which it is sorted, its key, itself, and whether
the first conversation that waits for it had asked a question of its kind before."""


class _Asking:
    """The questions of some conversations: those ``waiting`` for a reply are heaps, by kind."""

    def __init__(self, model: BoundModel):
        self.model = model
        self.waiting: dict[str, dict[Kind, list[_Asked]]]
        self.waiting = {"senses": {}, "meanings": {}, "ranking": {}}  # in the order of asking
        self.pool: ThreadPoolExecutor | None = None
        self.asked: dict[str, set[str]] = {}  # keys, by purpose
        self.lost: set[str] = set()  # keys of those whose replies cannot be used
        self._replies: dict[str, Reply] = {}
        self._places: dict[str, list[tuple[_Talk[Any], int]]] = {}  # that wait for a reply, by key

    def proceed(self, talk: _Talk[Any]) -> None:
        """Send a conversation its replies, and let its next questions wait; until one has to."""
        while not talk.missing:
            try:
                questions: Any = talk.conversation.send(talk.replies)  # type: ignore[arg-type]  # None starts
                if isinstance(questions, Unusable):
                    self.model.evict(*questions.questions)
                    self.lost.update(map(self.model.key, questions.questions))
                    talk.unusable.append(questions)
                    talk.replies = []
                    continue
                is_list = isinstance(questions, list | tuple)
                if not is_list or not all(isinstance(each, Question) for each in questions):
                    kind = type(questions).__name__
                    talk.conversation.throw(TypeError(f"it yields {kind}, not a list of questions"))
            except StopIteration as end:
                talk.result = end.value
                return
            talk.replies = [Reply("")] * len(questions)
            before = talk.kinds.copy()
            for place, question in enumerate(questions):
                with _naming(question):
                    key = self.model.key(question)
                purpose, task = question.purpose, (question.task, question.sense)
                talk.kinds.add((purpose, task))
                self.asked.setdefault(purpose, set()).add(key)
                if key in self._replies:
                    talk.replies[place] = self._replies[key]
                    continue
                if key not in self._places:
                    self._places[key] = []
                    waiting = self.waiting.setdefault(purpose, {}).setdefault(task, [])
                    number = len(self._replies) + len(self._places)
                    again = (purpose, task) in before
                    heapq.heappush(waiting, (question.text, number, key, question, again))
                self._places[key].append((talk, place))
                talk.missing += 1

    def answer(self, purpose: str) -> None:
        """Answer the first kind of questions of a purpose, and those that join them meanwhile."""
        kind, waiting = next(iter(self.waiting[purpose].items()))
        task, total, started = kind[0], len(waiting), time.perf_counter()
        before = account.seconds.get(purpose, 0.0) if (account := self.model.account) else 0.0
        hides = self.model.imagines or not task
        with hidden_progress() if hides else nullcontext():
            replies = self._send_replies(waiting)
            for _ in show_progress(replies, f"{task} (model {self.model.name})", total):
                pass
        del self.waiting[purpose][kind]
        if account:  # the seconds of probes meanwhile are among these
            account.seconds[purpose] = before + time.perf_counter() - started

    def refuse(self, purpose: str, talks: Sequence[_Talk[Any]]) -> None:
        """Refuse the model if no reply to the questions of a purpose could be used."""
        keys, refusal, readings = self.asked.get(purpose, set()), None, []
        if not keys <= self.lost:
            return
        for each in chain.from_iterable(talk.unusable for talk in talks):
            if each.refusal and keys.issuperset(map(self.model.key, each.questions)):
                refusal = refusal or each.refusal
                readings.append(each.reading)
        if refusal and (error := refusal(self.model.name, readings)):
            raise error

    def _send_replies(self, waiting: list[_Asked]) -> Iterator[None]:
        """Answer questions, and let conversations go on; yield for each that waits already.

        Both are inside the progress, which an error in a conversation must end first.
        """
        total = len(waiting)
        for done, ((*_, key, question, again), reply) in enumerate(self._answered(waiting)):
            cut = not reply.cached and self._is_cut(question, reply)
            self.model.record(question, reply, cut=cut, again=again)
            self._replies[key] = reply
            for talk, place in self._places.pop(key):
                assert talk.replies is not None
                talk.replies[place] = reply
                talk.missing -= 1
                self.proceed(talk)
            if done < total:
                yield

    def _is_cut(self, question: Question, reply: Reply) -> bool:
        """Return whether the server cut the question off; then the reply leaves the cache."""
        model = self.model
        lost = model.account and model.cuts is not False and lost_words(question, reply)
        if lost and model.cuts is None:
            converse([measure_cuts(model, question, lost)], model)
        if lost and model.cuts:
            model.evict(question)
        return bool(lost and model.cuts)

    def _answered(self, waiting: list[_Asked]) -> Iterator[tuple[_Asked, Reply]]:
        """Yield questions, and those that join them, with their replies as these come."""
        slots = self.model.parallel if self.model.batch == 1 else 1
        under_way: dict[Future[list[Reply]], list[_Asked]] = {}
        while waiting or under_way:
            while waiting and len(under_way) < slots:
                check_cancelled()
                together: list[_Asked] = []
                while waiting and len(together) < self.model.batch:
                    first = heapq.heappop(waiting)
                    if reply := self.model.cached(first[2]):
                        yield first, reply
                    else:
                        together.append(first)
                if together:
                    questions = [question for *_, question, _ in together]
                    self._check(questions)
                    self.pool = self.pool or ThreadPoolExecutor(slots)
                    under_way[self.pool.submit(self._ask, questions)] = together
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                yield from zip(under_way.pop(future), future.result(), strict=True)

    def _check(self, questions: Sequence[Question]) -> None:
        """Check that the budget is not spent, and that the model sees pictures if there are any."""
        if account := self.model.account:
            with _naming(questions[0]):
                account.check_budget(len(questions))
        looks = any(question.images for question in questions)
        if looks and not self.model.sees and questions != [DIGITS]:
            converse([prove_eyes(self.model)], self.model)

    def _ask(self, questions: Sequence[Question]) -> list[Reply]:
        """Ask the model in a thread: all at once, and if that fails one after the other."""
        if len(questions) > 1:
            with suppress(UserError):
                return list(self.model.answer_together(questions))
        replies = []
        for question in questions:
            with _naming(question):
                replies.append(self.model.answer(question))
        return replies


@contextmanager
def _naming(question: Question) -> Iterator[None]:
    """Name the subject of a question in its error."""
    try:
        yield
    except UserError as error:
        subject = getattr(question.about, "compound", question.about)
        if not subject:
            raise
        about_subject = copy(error)
        cached = "The answers so far are cached: run the same command again to resume."
        about_subject.args = (f"'{subject}': {error} {cached}",)
        raise about_subject from error
