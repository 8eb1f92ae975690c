"""What a run would ask its chat models and about what that would cost, before it asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from admire.data.items import Item
from admire.models.llm import ChatModel, Question, Reply, Unanswered, Usage
from admire.models.llm.cached import CachedChat, kept_reply
from admire.models.llm.prices import Price, estimate, price, why_unknown
from admire.base.progress import hidden_progress
from admire.prompts import Prompts
from admire.rankers import check_candidates
from admire.senses.recorded import Recorded
from admire.runs.run import ask_models, chat_models
from admire.senses.sense import UNDECIDED, Sense
from admire.senses.uses import (Use)
from admire.rankers.settings import Settings
from admire.rankers.survey import check_items, take_survey


@dataclass
class Forecast:
    """What one stage would ask one model.

    Attributes:
        questions: how many.
        kept: how many of them the cache answers.
        at_most: whether there may be fewer, because they depend on replies that are not there yet.
        prompt, completion: the tokens that the others are expected to take together. They are
            estimated by :func:`admire.models.llm.prices.estimate`, and where the cache has replies of the
            stage that tell theirs, by these.
        price: what the others are expected to cost; None where that is unknown.
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
    items: Sequence[Item],
    settings: Settings | None = None,
    *,
    llms: Sequence[ChatModel] | None = None,
    batch: bool = False,
) -> list[Forecast]:
    """What :func:`admire.rank` would ask its chat models, and about what that would cost.

    Nothing is asked, encoded or loaded; only the cache of replies is read. A question that is asked
    again because its reply cannot be used is not counted.

    Args:
        llms: as for :func:`admire.rank`.
        batch: whether questions go by the Batch API, at its prices.

    Returns:
        One forecast for each stage and model, in the order of the run; none where the run asks
        none.

    Raises:
        UserError: as for :func:`admire.rank`.
    """
    settings = settings or Settings()
    known = take_survey(items)
    check_items(known, settings)
    models = [
        llm if isinstance(llm, Recorded) else _Foreseen(llm) for llm in chat_models(settings, llms)
    ]
    if not models:
        return []
    if settings.looks:
        check_candidates(known, models, settings)
    prompts = Prompts(settings.prompts)
    with hidden_progress():
        readings, _ = ask_models(
            items, models, prompts, settings, detector=_Undecided(), foreseen=True
        )
    waits = settings.meanings == "gloss" and settings.scoring.gate == "hard"
    return [
        model.forecast(stage, batch, at_most=stage == "meanings" and waits and undecided)
        for model, read in zip(models, readings, strict=True)
        if isinstance(model, _Foreseen)
        for undecided in [any(one.sense == UNDECIDED for one in read)]
        for stage in model.stages
    ]


class _Undecided:
    """In place of a detector, which would have to be loaded."""

    identity = "none"
    columns = ()
    setting = None

    def classify(self, uses: Sequence[Use]) -> list[Sense]:
        return [UNDECIDED] * len(uses)


@dataclass
class _Stage:
    """Questions to one model: those that are not kept as estimated, and of those that are kept what
    was estimated and what they took."""

    kept: int = 0
    waiting: list[Usage] = field(default_factory=list)
    known: list[tuple[Usage, Usage]] = field(default_factory=list)


class _Foreseen:
    """A chat model that gives the replies of its cache, and only counts the other questions."""

    def __init__(self, llm: ChatModel):
        self._llm = llm
        self.name, self.identity = llm.name, llm.identity
        self.parallel, self.sees = 1, llm.sees
        self.stages: dict[str, _Stage] = {}
        self._counted: set[str] = set()

    def ask(self, question: Question) -> Reply:
        """See :class:`admire.models.llm.ChatModel`."""
        stage = self.stages.setdefault(question.purpose, _Stage())
        reply = kept_reply(self._llm, question)
        if reply is not None:
            stage.kept += 1
            if reply.usage:
                stage.known.append((estimate(question, self._llm), reply.usage))
            return reply
        key = self._llm.key(question) if isinstance(self._llm, CachedChat) else None
        if key in self._counted:
            stage.kept += 1  # by then
        else:
            stage.waiting.append(estimate(question, self._llm))
        if key:
            self._counted.add(key)
        raise Unanswered

    def forecast(self, name: str, batch: bool, *, at_most: bool) -> Forecast:
        stage = self.stages[name]
        n, known = len(stage.waiting), stage.known
        prompt = float(sum(one.prompt for one in stage.waiting))
        completion = float(sum(one.completion for one in stage.waiting))
        if known:
            told = sum(took.prompt for _, took in known)
            prompt *= told / max(1, sum(guess.prompt for guess, _ in known))
            completion = n * sum(took.completion for _, took in known) / len(known)
        mean = Usage(prompt=round(prompt / max(1, n)), completion=round(completion / max(1, n)))
        each = price(self._llm, mean, batched=batch)
        return Forecast(
            stage=name,
            llm=self.name,
            questions=n + stage.kept,
            kept=stage.kept,
            at_most=at_most,
            prompt=round(prompt),
            completion=round(completion),
            price=Price(n * each.dollars, each.at_most or at_most) if each else None,
            unknown="" if each else why_unknown(self._llm),
        )
