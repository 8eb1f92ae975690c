"""Ranker: the base class of rankers, and how they are opened by name."""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import Generator, Sequence
from dataclasses import replace
from itertools import filterfalse
from typing import TYPE_CHECKING, Any

from admire.core import registry
from admire.core.errors import check_extra
from admire.core.registry import Plugin
from admire.data.items import Item
from admire.llm.chat import Capabilities, Conversation, Question, Reply, Unusable
from admire.rankers.judgement import Answer, Judgement

if TYPE_CHECKING:
    from admire.prompts import Prompts
    from admire.rankers.settings import SetSummary, Settings
    from admire.senses.interpretation import Interpretation

log = logging.getLogger("admire")


class Ranker:
    """Scores the candidates of items, with or without questions to a chat model.

    A ranker needs :meth:`scores`, or :meth:`judge` if it compares many items at once.

    Attributes:
        name: the name that ``--ranker`` takes.
        task: what it does, for the progress bar: "Comparing candidates in pairs".
        decides_senses: whether its answers contain the intended sense; it is then asked first.
        weighs_both_senses: whether the meanings of both senses count for each use.
        uses_meanings: whether it needs meanings at all.
        llm: the chat model that answers; None for a baseline.
        prompts, settings: the run's.
        tracks: the parts of the candidates that the model sees: ``image``, ``caption`` or both.
    """

    name: str = ""
    task = "Ranking candidates"
    decides_senses = False
    weighs_both_senses = False
    uses_meanings = True

    llm: Capabilities | None = None
    prompts: Prompts
    settings: Settings
    tracks: Sequence[str] = ()

    _plugin: Plugin

    def scores(self, item: Item, reading: Interpretation | None) -> Any:
        """Return a score for each candidate, in the item's order; higher is better.

        A ranker that asks a chat model is a generator, see :class:`admire.llm.Conversation`: it
        yields lists of questions, gets their replies, and returns the scores, or a
        :class:`Judgement` with the answers behind them.

        Args:
            reading: the intended sense and its meaning; None for a ranker that decides senses, as
                long as the sense is unknown.
        """
        raise NotImplementedError

    def judge(
        self, items: Sequence[Item], readings: Sequence[Interpretation | None]
    ) -> Sequence[Any]:
        """Return the scores of many items at once, for a ranker that asks no chat model.

        Each item has an array or list of scores, a :class:`Judgement`, or a tuple of judgements,
        whose scores are averaged.

        Args:
            readings: None for each item if the query is a baseline.
        """
        raise NotImplementedError

    def check(self, summary: SetSummary, llm: Capabilities) -> None:
        """Refuse a set or a chat model that the ranker does not support, before any question."""

    # ------------------------------------------------------------------------ not to be overridden

    @property
    def asks(self) -> bool:
        """Whether it asks a chat model."""
        return inspect.isgeneratorfunction(self.scores)

    def talk(self, item: Item, reading: Interpretation | None) -> Conversation[Judgement]:
        """Hold the conversation about an item, and return the judgement.

        Raises:
            PluginError: the ranker fails.
        """
        name = self.llm.name if self.llm else ""
        answers: list[Answer] = []
        with self._plugin.blamed(f"'{item.compound}'"):
            result = self.scores(item, reading)
            if isinstance(result, Generator):
                result = yield from self._ask(result, item, answers)
        return self._judgement(result, item, name, answers)

    def judge_all(
        self, items: Sequence[Item], readings: Sequence[Interpretation | None]
    ) -> list[list[Judgement]]:
        """Return the judgements of many items by :meth:`judge`.

        Raises:
            PluginError: the ranker fails.
        """
        with self._plugin.blamed():
            rows = list(self.judge(items, readings))
        if len(rows) != len(items):
            raise self._plugin.error(f"returned {len(rows)} judgements for {len(items)} items.")
        judged = []
        for row, item, reading in zip(rows, items, readings, strict=True):
            if not isinstance(row, tuple) or not all(isinstance(one, Judgement) for one in row):
                row = (row,)  # an array or a list of scores, or a judgement
            llm = reading.llm if reading else ""
            judged.append([self._judgement(result, item, llm) for result in row])
        return judged

    def _judgement(
        self, result: Any, item: Item, llm: str, answers: Sequence[Answer] = ()
    ) -> Judgement:
        """Return scores as a judgement; refuse wrong ones."""
        where = f"'{item.compound}'"
        with self._plugin.blamed(where):
            if not isinstance(result, Judgement):
                result = Judgement(self.name, llm, tuple(map(float, result)), tuple(answers))
        wrong = list(filterfalse(math.isfinite, result.scores))
        if len(result.scores) != len(item.candidates) or wrong:
            returned = f"a score of {wrong[0]}" if wrong else f"{len(result.scores)} scores"
            count = len(item.candidates)
            raise self._plugin.error(f"returned {returned} for {count} candidates.", where)
        judgement: Judgement = replace(result, ranker=self.name, llm=llm)
        return judgement

    def _ask(
        self, conversation: Conversation[Any], item: Item, answers: list[Answer]
    ) -> Conversation[Any]:
        """Let a conversation ask about an item, and keep the answers."""
        replies: Sequence[Reply] | None = None
        while True:
            try:
                asked = conversation.send(replies)  # type: ignore[arg-type]  # None starts it
            except StopIteration as end:
                return end.value
            if isinstance(asked, Unusable) or not all(isinstance(q, Question) for q in asked):
                replies = yield asked
                continue
            questions = [
                replace(q, purpose=q.purpose or "ranking", about=item, task=q.task or self.task)
                for q in asked
            ]
            replies = yield questions
            answers += [
                Answer(question.shown or item.names, reply=reply.text)
                for question, reply in zip(questions, replies, strict=True)
            ]


def open_ranker(name: str, prompts: Prompts, settings: Settings, **options: Any) -> Ranker:
    """Open a ranker by its name; a function ``(item, reading)`` is one as well.

    Args:
        options: further arguments that a ranker may accept, such as ``encoders``.

    Raises:
        UserError: the name is unknown, or a plug-in cannot be used.
    """
    plugin, _ = registry.resolve("ranker", name)
    if isinstance(plugin.make, type):
        ranker: Ranker = plugin.open(plugins=settings.plugins, **options)
    else:
        ranker = Ranker()
        ranker.scores = plugin.make  # type: ignore[method-assign]
    ranker.name, ranker._plugin = name, plugin  # also for shipped ones, for their messages
    ranker.prompts, ranker.settings = prompts, settings
    return ranker


def open_rankers(
    summary: SetSummary, llm: Capabilities | None, prompts: Prompts, settings: Settings
) -> list[Ranker]:
    """Open the rankers of a run that judge items one by one, for one chat model.

    Args:
        llm: answers them; None if no model will be asked.

    Raises:
        UserError: a name is unknown, the model does not accept images but must, a candidate has no
            content, an item has too many candidates, or a package is missing.
    """
    rankers = [
        open_ranker(name, prompts, settings)
        for name in settings.rankers
        if not judges_together(name)
    ]
    tracks: tuple[str, ...] = ()
    if llm and any(ranker.asks for ranker in rankers):
        from admire.rankers.presentation import tracks_shown

        for ranker in rankers:
            ranker.check(summary, llm)
        tracks = tracks_shown(summary, llm, settings.track)
        if "image" in tracks:
            check_extra("rankers", "A chat model that sees", "PIL")
        elif settings.track is None and summary.images:
            log.warning("%s does not accept images: only captions are used.", llm.name)
    for ranker in rankers:
        ranker.llm, ranker.tracks = llm, tracks
    return rankers


def judges_together(name: str) -> bool:
    """Return whether a ranker judges many items at once, without a chat model."""
    make = registry.resolve("ranker", name)[0].make
    return getattr(make, "judge", Ranker.judge) is not Ranker.judge


def any_ranker(names: Sequence[str], attribute: str) -> bool:
    """Return whether one of these rankers has an attribute that is true."""
    default = getattr(Ranker, attribute)
    makes = (registry.resolve("ranker", name)[0].make for name in names)
    return any(getattr(make, attribute, default) for make in makes)
