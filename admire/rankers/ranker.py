"""Ranker: the base class of rankers, and how they are opened by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from admire.core import registry
from admire.core.registry import Plugin
from admire.data.items import Item
from admire.llm import ChatModel, Question, ask_each
from admire.rankers.judgement import Answer, Judgement, ask_twice

if TYPE_CHECKING:
    from admire.prompts import Prompts
    from admire.rankers.set_summary import SetSummary
    from admire.rankers.settings import Settings
    from admire.senses.interpretation import Interpretation


class Ranker:
    """Scores the candidates of items one by one, with or without questions to a chat model.

    A ranker needs :meth:`scores`, and :meth:`questions` if it asks a chat model. The other methods
    are for rankers that parse replies in their own way.

    Attributes:
        name: the name that ``--ranker`` takes.
        task: what it does, for the progress bar: "Comparing candidates in pairs".
        decides_senses: whether its answers contain the intended sense; it is then asked first.
        weighs_both_senses: whether the meanings of both senses count for each use.
        uses_meanings: whether it needs meanings at all.
        llm: the chat model; None for recorded replies, never for a ranker that asks.
        prompts, settings: the run's.
        tracks: the parts of the candidates that the model sees: ``image``, ``caption`` or both.
    """

    name: str
    task = "Ranking candidates"
    decides_senses = False
    weighs_both_senses = False
    uses_meanings = True

    llm: ChatModel | None
    prompts: Prompts
    settings: Settings
    tracks: Sequence[str]

    _plugin: Plugin

    def questions(self, item: Item, reading: Interpretation | None) -> Sequence[Question]:
        """Return the questions about an item's candidates; none if the ranker asks nothing.

        Args:
            reading: the intended sense and its meaning; None for a ranker that decides senses, as
                long as the sense is unknown.
        """
        return ()

    def scores(
        self, item: Item, reading: Interpretation | None, answers: Sequence[Answer]
    ) -> Sequence[float]:
        """Return a score for each candidate, in the item's order; higher is better.

        Args:
            answers: to the questions, in their order.
        """
        raise NotImplementedError

    def read(self, item: Item, question: Question, reply: str) -> Answer | None:
        """Parse a reply; None if that fails, and the question is asked once more."""
        return Answer(question.shown or item.names, reply=reply)

    def answer(self, item: Item, reading: Interpretation | None, question: Question) -> Answer:
        """Ask one question and parse its reply."""
        read = partial(self.read, item, question)
        return ask_twice(self.model, question, read, question.shown or item.names, item)

    def judgement(
        self, item: Item, reading: Interpretation | None, answers: tuple[Answer, ...]
    ) -> Judgement:
        """Return the scores with the answers behind them."""
        with self._plugin.blamed(f"'{item.compound}'"):
            scores = [float(score) for score in self.scores(item, reading, answers)]
        wrong = [score for score in scores if not math.isfinite(score)]
        if len(scores) != len(item.candidates) or wrong:
            returned = f"a score of {wrong[0]}" if wrong else f"{len(scores)} scores"
            raise self._plugin.error(
                f"returned {returned} for {len(item.candidates)} candidates.", f"'{item.compound}'"
            )
        return Judgement(self.name, self.judge_name, tuple(scores), answers)

    def check(self, summary: SetSummary, llm: ChatModel) -> None:
        """Refuse a set or a chat model that the ranker does not support, before any question."""

    # ------------------------------------------------------------------------ not to be overridden

    judge_name: str
    """The name of the chat model, or of the source that replaces it."""

    @property
    def asks(self) -> bool:
        """Whether it asks a chat model."""
        return type(self).questions is not Ranker.questions

    @property
    def model(self) -> ChatModel:
        """The chat model of a ranker that asks."""
        assert self.llm is not None
        return self.llm

    def judge(
        self, items: Sequence[Item], readings: Sequence[Interpretation | None]
    ) -> list[Judgement]:
        """Return the judgement of each item: questions, answers and scores.

        Raises:
            UserError: the model cannot be asked, or the ranker fails.
        """
        turns: list[tuple[int, Question]] = []  # with the index of the item
        for place, (item, reading) in enumerate(zip(items, readings, strict=True)):
            with self._plugin.blamed(f"'{item.compound}'"):
                turns += [(place, question) for question in self.questions(item, reading)]
        answers: list[list[Answer]] = [[] for _ in items]
        if turns:
            replies = ask_each(
                lambda turn: self.answer(items[turn[0]], readings[turn[0]], turn[1]),
                turns,
                self.model,
                self.task,
                name_of=lambda turn: items[turn[0]].compound,
            )
            for (place, _), answer in zip(turns, replies, strict=True):
                answers[place].append(answer)
        return [
            self.judgement(item, reading, tuple(row))
            for item, reading, row in zip(items, readings, answers, strict=True)
        ]


class _ByFunction(Ranker):
    """A function ``(item, reading)`` that returns scores, as a ranker."""

    def __init__(self, function: Callable[[Item, Interpretation | None], Sequence[float]]):
        self._function = function

    def scores(
        self, item: Item, reading: Interpretation | None, answers: Sequence[Answer]
    ) -> Sequence[float]:
        return self._function(item, reading)


def open_ranker(name: str, plugins: Mapping[str, Mapping[str, Any]] | None = None) -> Ranker:
    """Open a ranker by its name; a function ``(item, reading)`` that returns scores is one as well.

    Args:
        plugins: see :attr:`admire.Settings.plugins`.

    Raises:
        UserError: the name is unknown, or a plug-in cannot be used.
    """
    plugin, _ = registry.resolve("ranker", name)
    if isinstance(plugin.make, type):
        ranker: Ranker = plugin.open(plugins=plugins or {})
        plugin.check(ranker)
    else:
        ranker = _ByFunction(plugin.make)
    ranker.name, ranker._plugin = name, plugin  # also for shipped ones, for their messages
    return ranker


def any_ranker(names: Sequence[str], attribute: str) -> bool:
    """Return whether one of these rankers has an attribute that is true."""
    plugins = [registry.resolve("ranker", name)[0] for name in names]
    return any(getattr(plugin.make, attribute, getattr(Ranker, attribute)) for plugin in plugins)
