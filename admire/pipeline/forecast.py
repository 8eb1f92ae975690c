"""Forecasts the uncached requests of a run to its chat models, and their cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from admire.core.progress import hidden_progress
from admire.data.items import Item
from admire.data.reader import Data, take_items
from admire.llm import BoundModel, ChatModel, Question, Reply, Session, Unanswered, Usage
from admire.llm.chat import Price
from admire.llm.prices import estimate, price, why_unknown
from admire.pipeline.run import requested_glosses, sense_methods
from admire.pipeline.sources import Model, resolve_models
from admire.prompts import Prompts
from admire.rankers import open_rankers
from admire.rankers.set_summary import SetSummary, check_items, summarise_set
from admire.rankers.settings import RequestOptions, Settings
from admire.senses import Detector
from admire.senses.dictionaries import Dictionary, open_dictionaries
from admire.senses.interpretation import Glosses, interpret, meanings_method, sense_method
from admire.senses.sense import UNDECIDED, Sense
from admire.senses.settings import SenseSettings
from admire.senses.source import ChatSource, Source


def check_questions(
    items: Iterable[Item], models: Sequence[Source], prompts: Prompts, settings: Settings
) -> SetSummary:
    """Refuse items that cannot be ranked, before questions about them are counted."""
    summary = summarise_set(items)
    check_items(summary, settings)
    for model in models:
        open_rankers(summary, model, prompts, settings)
    return summary


def put_questions(
    items: Iterable[Item],
    summary: SetSummary,
    llm: BoundModel,
    prompts: Prompts,
    settings: Settings,
    detector: Detector | None = None,
    *,
    dictionaries: Sequence[Dictionary] = (),
    guess: bool = False,
) -> bool:
    """Ask a model a run's questions about some items, as far as the cache allows.

    Args:
        detector: for the sense method ``detector``; if it is None, those senses are unknown.
        guess: whether to also ask questions that depend on replies that are still missing.

    Returns:
        Whether the senses of all items are known.
    """
    source = ChatSource(llm)
    (method,) = sense_methods(settings, [source])
    rankers = [r for r in open_rankers(summary, source, prompts, settings) if r.asks]
    all_known = True
    with hidden_progress():
        for item in items:  # one by one, so that a missing reply does not hold up other items
            missing = llm.session.missing
            senses: dict[str, list[Sense]] = {}
            for ranker in rankers:
                if ranker.name == method:
                    senses[llm.name] = [UNDECIDED]
                    with suppress(Unanswered):
                        (judgement,) = ranker.judge([item], [None])
                        senses[llm.name] = [judgement.sense or UNDECIDED]
            if method == "detector" and not detector and item.has_sense:
                senses[llm.name] = [UNDECIDED]
            (readings,) = interpret(
                [item],
                [llm],
                prompts,
                settings,
                seed=settings.seed,
                glosses=requested_glosses(settings),
                guess=guess,
                strict=False,
                detector=detector,
                senses=senses,
                dictionaries=dictionaries,
            )
            if guess or llm.session.missing == missing:
                for ranker in rankers:
                    if ranker.name != method:
                        with suppress(Unanswered):
                            ranker.judge([item], readings)
            all_known &= readings[0].sense != UNDECIDED
    return all_known


@dataclass
class Forecast:
    """The requests of one stage to one model.

    Attributes:
        kept: how many of the questions are cached.
        at_most: whether there may be fewer, because they depend on replies that are still missing.
        prompt, completion: the expected tokens of the others in total, see
            :func:`admire.llm.prices.estimate`; if the cache has replies of the stage with
            their usage, by these.
        price: the expected cost of the others; None if unknown.
        unknown: why the price is unknown.
    """

    stage: str
    llm: str
    questions: int
    kept: int
    at_most: bool
    prompt: int
    completion: int
    price: Price | None
    unknown: str


def plan(
    items: Data,
    settings: Settings | None = None,
    *,
    asking: RequestOptions | None = None,
    llms: Sequence[Model] | None = None,
    batch: bool = False,
    counted: set[str] | None = None,
) -> list[Forecast]:
    """Return the requests of :func:`admire.rank` to its chat models, with their estimated cost.

    No request is sent and no model is loaded, so no key is needed; only the cache of replies is
    read. Questions that are repeated after an unusable reply are not counted.

    Args:
        items, asking, llms: as for :func:`admire.rank`.
        batch: whether the Batch API is used, at its prices.
        counted: keys of questions that are left out because another run asks them; those of this
            run are added.

    Returns:
        One forecast for each stage and model, in the order of the run; an empty list if the run
        asks no chat model.

    Raises:
        UserError: as for :func:`admire.rank`.
    """
    items = take_items(items)
    resolved = resolve_models(settings, asking, llms)
    settings, models = resolved.settings, resolved.open_sources(asked=False)
    prompts = Prompts(settings.prompts)
    summary = check_questions(items, models, prompts, settings)
    dictionaries = open_dictionaries(settings.dictionaries)
    stages = []
    for llm in [source.llm for source in models if source.llm]:
        counts = Counts(llm, counted, fresh=resolved.asking.fresh)
        senses_known = put_questions(
            items,
            summary,
            counts.bound,
            prompts,
            settings,
            dictionaries=dictionaries,
            guess=True,
        )
        meanings = meanings_method(settings.meanings, ChatSource(llm))
        waits = settings.scoring.gate == "hard" and meanings != "both"
        for stage in counts.stages:
            at_most = stage == "meanings" and waits and not senses_known
            stages.append(counts.forecast(stage, batch, at_most=at_most))
    return stages


def plan_readings(
    items: Sequence[Item],
    source: Source,
    prompts: Prompts,
    settings: SenseSettings,
    dictionaries: Sequence[Dictionary] = (),
    *,
    seed: int,
    glosses: Glosses,
    counted: set[str] | None = None,
) -> list[Forecast]:
    """Return the requests of :func:`interpret` to a source's chat model; see :func:`plan`."""
    if not source.llm:
        return []
    counts = Counts(source.llm, counted)
    detected = sense_method(settings.sense, source) == "detector"
    with hidden_progress():
        for item in items:  # one by one, so that a missing reply does not hold up other items
            interpret(
                [item],
                [counts.bound],
                prompts,
                settings,
                seed=seed,
                glosses=glosses,
                guess=True,
                strict=False,
                senses={source.name: [UNDECIDED]} if detected else None,
                dictionaries=dictionaries,
            )
    return counts.forecasts()


class Counts:
    """Counts the questions to one chat model; a repeated one counts as cached.

    Args:
        counted: see :func:`plan`.

    Attributes:
        bound: the model for asking them; only the cache of replies is read.
        stages: by stage, for each question whether it is cached, its estimate and its real usage.
    """

    def __init__(self, llm: ChatModel, counted: set[str] | None = None, *, fresh: bool = False):
        self._llm, self.bound = llm, Session(fresh=fresh, note=self._note).bind(llm)
        self.stages: dict[str, list[tuple[bool, Usage, Usage | None]]] = {}
        self._counted = set() if counted is None else counted
        self._before = frozenset(self._counted)

    def _note(self, question: Question, reply: Reply | None) -> None:
        key = self._llm.key(question) if isinstance(self._llm, BoundModel) else None
        if key in self._before:
            return
        kept, took = reply is not None or key in self._counted, reply.usage if reply else None
        guess = Usage() if kept and not took else estimate(question, self._llm)
        self.stages.setdefault(question.purpose, []).append((kept, guess, took))
        if key:
            self._counted.add(key)

    def forecasts(self) -> list[Forecast]:
        """Return the forecast of each stage."""
        return [self.forecast(stage) for stage in self.stages]

    def forecast(self, name: str, batch: bool = False, *, at_most: bool = False) -> Forecast:
        notes = self.stages[name]
        missing = [guess for kept, guess, _ in notes if not kept]
        answered = [(guess, took) for _, guess, took in notes if took]
        n = len(missing)
        prompt = float(sum(guess.prompt for guess in missing))
        completion = float(sum(guess.completion for guess in missing))
        if answered:
            took = sum(usage.prompt for _, usage in answered)
            prompt *= took / max(1, sum(guess.prompt for guess, _ in answered))
            completion = n * sum(usage.completion for _, usage in answered) / len(answered)
        mean = Usage(prompt=round(prompt / max(1, n)), completion=round(completion / max(1, n)))
        each = price(self._llm, mean, batched=batch)
        return Forecast(
            stage=name,
            llm=self._llm.name,
            questions=len(notes),
            kept=len(notes) - n,
            at_most=at_most,
            prompt=round(prompt),
            completion=round(completion),
            price=Price(n * each.dollars, each.at_most or at_most) if each else None,
            unknown="" if each else why_unknown(self._llm),
        )
