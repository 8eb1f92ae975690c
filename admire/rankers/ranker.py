"""Rankers: the base classes of both kinds, and how they are opened by name."""

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


class AnyRanker:
    """What both kinds of rankers have, beside the run's prompts and settings.

    Attributes:
        name: the name that ``--ranker`` takes.
        weighs_both_senses: whether the meanings of both senses count for each use.
        uses_meanings: whether it needs meanings at all.
        uses_encoders: whether it compares the vectors of the run's encoders.
    """

    name: str = ""
    weighs_both_senses = False
    uses_meanings = True
    uses_encoders = False

    prompts: Prompts
    settings: Settings

    _plugin: Plugin

    def _judgement(
        self, result: Any, item: Item, llm: str, answers: Sequence[Answer] = ()
    ) -> Judgement:
        """Return scores as a judgement; refuse wrong ones."""
        where, count = f"'{item.compound}'", len(item.candidates)
        with self._plugin.blamed(where):
            if not isinstance(result, Judgement):
                result = Judgement(self.name, llm, tuple(map(float, result)), tuple(answers))
        wrong = list(filterfalse(math.isfinite, result.scores))
        if len(result.scores) != count or wrong:
            returned = f"a score of {wrong[0]}" if wrong else f"{len(result.scores)} scores"
            raise self._plugin.error(f"returned {returned} for {count} candidates.", where)
        judgement: Judgement = replace(result, ranker=self.name, llm=llm)
        return judgement


class Ranker(AnyRanker):
    """Scores the candidates of an item, usually by questions to a chat model.

    Attributes:
        task: what it does, for the progress bar: "Comparing candidates in pairs".
        asks: whether it asks a chat model: whether :meth:`scores` is a generator.
        decides_senses: whether its answers contain the intended sense; it is then asked first.
        llm: the chat model that answers; None for a baseline.
        tracks: the parts of the candidates that the model sees: ``image``, ``caption`` or both.
    """

    task = "Ranking candidates"
    asks = False
    decides_senses = False

    llm: Capabilities | None = None
    tracks: Sequence[str] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.asks = inspect.isgeneratorfunction(cls.scores)

    def scores(self, item: Item, reading: Interpretation | None) -> Any:
        """Return a score for each candidate, in the item's order; higher is better.

        A ranker that asks a chat model is a generator, see :class:`admire.llm.Conversation`: it
        yields lists of questions, gets their replies, and returns the scores, or a
        :class:`Judgement` with the answers behind them.

        Args:
            reading: the intended sense and its meaning; None for a ranker that decides senses, as
                long as the sense is unknown.
        """
        raise NotImplementedError("write scores, or derive it from ComparingRanker and write judge")

    def check(self, summary: SetSummary, llm: Capabilities) -> None:
        """Refuse a set or a chat model that the ranker does not support, before any question."""

    def talk(self, item: Item, reading: Interpretation | None) -> Conversation[Judgement]:
        """Hold the conversation about an item, and return the judgement. Not to be overridden."""
        name = self.llm.name if self.llm else ""
        answers: list[Answer] = []
        with self._plugin.blamed(f"'{item.compound}'"):
            result = self.scores(item, reading)
            if isinstance(result, Generator):
                result = yield from self._ask(result, item, answers)
        return self._judgement(result, item, name, answers)

    def _ask(
        self, conversation: Conversation[Any], item: Item, answers: list[Answer]
    ) -> Conversation[Any]:
        """Let a conversation ask about an item, and keep the answers."""
        replies: Sequence[Reply] | None = None
        while True:
            try:
                turn = conversation.send(replies)  # type: ignore[arg-type]  # None starts it
            except StopIteration as end:
                return end.value
            if isinstance(turn, Unusable) or not all(isinstance(q, Question) for q in turn):
                replies = yield turn
                continue
            questions = [
                replace(q, purpose=q.purpose or "ranking", about=item, task=q.task or self.task)
                for q in turn
            ]
            replies = yield questions
            answers += [
                Answer(question.shown or item.names, reply=reply.text)
                for question, reply in zip(questions, replies, strict=True)
            ]


class ComparingRanker(AnyRanker):
    """Scores the candidates of many items at once, and asks no chat model."""

    plugs_in_as = ("admire.rankers.ComparingRanker", "judge")

    def judge(
        self, items: Sequence[Item], readings: Sequence[Interpretation | None]
    ) -> Sequence[Any]:
        """Return for each item its scores, a :class:`Judgement`, or a tuple of judgements.

        Args:
            readings: None for each item if the query is a baseline.
        """
        raise NotImplementedError

    def judge_all(
        self, items: Sequence[Item], readings: Sequence[Interpretation | None]
    ) -> list[list[Judgement]]:
        """Return the judgements of the items by :meth:`judge`. Not to be overridden."""
        with self._plugin.blamed():
            rows = list(self.judge(items, readings))
        if len(rows) != len(items):
            raise self._plugin.error(f"returned {len(rows)} judgements for {len(items)} items.")
        judged = []
        for row, item, reading in zip(rows, items, readings, strict=True):
            if not isinstance(row, tuple) or not all(isinstance(part, Judgement) for part in row):
                row = (row,)  # an array or a list of scores, or a judgement
            llm = reading.llm if reading else ""
            judged.append([self._judgement(result, item, llm) for result in row])
        return judged


def ranker_class(name: str) -> type[AnyRanker]:
    """Return the class of a ranker; of a function ``(item, reading)``, a class around it."""
    plugin, _ = registry.resolve("ranker", name)
    if isinstance(plugin.make, type):
        return plugin.make
    return type(name, (Ranker,), {"scores": staticmethod(plugin.make)})


def open_ranker(name: str, prompts: Prompts, settings: Settings, **options: Any) -> Any:
    """Open a ranker by its name, with options that it may accept, such as ``encoders``."""
    plugin, _ = registry.resolve("ranker", name)
    made = plugin._replace(make=ranker_class(name))
    ranker = made.open(plugins=settings.plugins, **options)
    ranker.name, ranker._plugin = name, plugin  # also for shipped ones, for their messages
    ranker.prompts, ranker.settings = prompts, settings
    return ranker


def open_comparing(prompts: Prompts, settings: Settings, **options: Any) -> list[ComparingRanker]:
    """Open the rankers of a run that judge many items at once; see :func:`open_ranker`."""
    return [
        open_ranker(name, prompts, settings, **options)
        for name in settings.rankers
        if issubclass(ranker_class(name), ComparingRanker)
    ]


def open_rankers(
    summary: SetSummary, llm: Capabilities | None, prompts: Prompts, settings: Settings
) -> list[Ranker]:
    """Open the rankers of a run that judge items one by one, by a chat model; of None, by none."""
    rankers: list[Ranker] = [
        open_ranker(name, prompts, settings)
        for name in settings.rankers
        if issubclass(ranker_class(name), Ranker)
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


def any_ranker(names: Sequence[str], attribute: str) -> bool:
    """Return whether one of these rankers has an attribute that is true."""
    return any(getattr(ranker_class(name), attribute, False) for name in names)
