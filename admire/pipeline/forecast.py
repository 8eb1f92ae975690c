"""Dry runs: the uncached requests of a run to its chat models, and their cost."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from admire.core.progress import hidden_progress
from admire.data.items import Item
from admire.data.reader import Data, take_items
from admire.llm.bound_model import BoundModel
from admire.llm.chat import ChatModel, Price, Question, Reply, Usage, inner
from admire.llm.prices import estimate
from admire.llm.session import Session
from admire.pipeline.chat_stage import Model, ResolvedModels, open_stage, resolve_models
from admire.pipeline.ranking import blocks
from admire.prompts import Prompts
from admire.rankers.settings import RequestOptions, Settings, check_items, summarise_set
from admire.senses.interpretation import meanings_method


@dataclass
class Forecast:
    """The requests of one stage to one model.

    Attributes:
        kept: how many of the questions are cached.
        at_most: whether there may be fewer, because they depend on replies that are still missing.
        prompt, completion: the expected tokens of the others in total; by cached replies of the
            stage with their usage, if there are some.
        price, unknown: the expected cost of the others; or None, and why it is unknown.
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


@dataclass
class _Stage:
    """The questions of one stage to one model: estimates, and the usage of cached replies."""

    llm: BoundModel
    missing: list[Usage] = field(default_factory=list)
    kept: list[tuple[Usage, Usage | None]] = field(default_factory=list)
    at_most: bool = False

    def forecast(self, name: str) -> Forecast:
        n, prompt = len(self.missing), float(sum(usage.prompt for usage in self.missing))
        completion = float(sum(usage.completion for usage in self.missing))
        if answered := [(expected, took) for expected, took in self.kept if took]:
            took = sum(usage.prompt for _, usage in answered)
            prompt *= took / max(1, sum(expected.prompt for expected, _ in answered))
            completion = n * sum(usage.completion for _, usage in answered) / len(answered)
        mean = Usage(prompt=round(prompt / max(1, n)), completion=round(completion / max(1, n)))
        each = self.llm.price(mean) if n else Price(0.0)  # all is cached
        return Forecast(
            stage=name,
            llm=self.llm.name,
            questions=n + len(self.kept),
            kept=len(self.kept),
            at_most=self.at_most,
            prompt=round(prompt),
            completion=round(completion),
            price=Price(n * each.dollars, each.at_most or self.at_most) if each else None,
            unknown="" if each else self.llm.why_unknown,
        )


class DryRun(Session):
    """A session whose models make up the replies that the cache lacks, and ask nothing.

    The made-up replies lead to the most questions: the idiomatic sense, one definition, the first
    order. A question that several runs share is counted once.
    """

    imagines = True

    def __init__(self, budget: float | None = None, **options: Any):
        super().__init__(**options)
        self.counted: set[str] = set()
        self.stages: dict[tuple[str, str], _Stage] = {}

    def bind(self, model: ChatModel) -> BoundModel:
        """Return the same model, to be asked in the dry run."""
        return _Imagining(inner(model), self)

    def forecasts(self) -> list[Forecast]:
        """Return the forecast of each stage and model, in the order of the first questions."""
        return [stage.forecast(name) for (name, _), stage in self.stages.items()]


class _Imagining(BoundModel):
    """A chat model that makes up the replies that the cache lacks."""

    imagines = True

    def answer(self, question: Question) -> Reply:
        return imagine(question)

    def answer_together(self, questions: Sequence[Question]) -> Any:
        return map(imagine, questions)

    def record(self, question: Question, reply: Reply, *, cut: bool, again: bool) -> None:
        """Count a question, unless it was counted before."""
        session: Any = self.account
        if (key := self.key(question)) in session.counted:
            return
        session.counted.add(key)
        stage = session.stages.setdefault((question.purpose, self.name), _Stage(self))
        if reply.cached:
            expected = estimate(question, self) if reply.usage else Usage()
            stage.kept.append((expected, reply.usage))
        else:
            stage.missing.append(estimate(question, self))
            stage.at_most |= again


IMAGINED = "placeholder for what nobody has written so far"
"""The made-up meaning, which repeats no compound's words."""


def imagine(question: Question) -> Reply:
    """Return the reply to a question that leads to the most further questions."""
    if question.target:
        return Reply(question.target, logprobs=({question.target: 0.0},))
    if question.logprobs:
        return Reply("A", logprobs=({"A": 0.0},))
    if question.schema:
        return Reply(json.dumps(_fill(question.schema)))
    return Reply({"senses": "Idiomatic", "similarities": "0.5"}.get(question.purpose, IMAGINED))


def _fill(schema: Mapping[str, Any]) -> Any:
    """Return a value that fits a JSON schema: the first choices, in their order."""
    if "enum" in schema:
        return schema["enum"][0]
    if schema["type"] == "object":
        return {name: _fill(value) for name, value in schema["properties"].items()}
    if schema["type"] == "array":
        choices = schema["items"].get("enum") or [_fill(schema["items"])]
        return choices[: schema.get("maxItems", len(choices))]
    return schema.get("minimum", 1) if schema["type"] in ("integer", "number") else "?"


def plan(
    items: Data,
    settings: Settings | None = None,
    *,
    asking: RequestOptions | None = None,
    llms: Sequence[Model] | None = None,
) -> list[Forecast]:
    """Return the requests of :func:`admire.rank` to its chat models, with their estimated cost.

    No request is sent and no model is loaded, so no key is needed; only the cache of replies is
    read. Questions that are repeated after an unusable reply are not counted. There is one forecast
    for each stage and model, in the order of the run; none if no chat model is asked.

    Args:
        items, asking, llms: as for :func:`admire.rank`, as are the errors.
    """
    resolved = resolve_models(settings, asking, llms=llms)
    session = DryRun(**vars(resolved.asking))
    rehearse(take_items(items), resolved, session)
    return session.forecasts()


def rehearse(items: Sequence[Item], resolved: ResolvedModels, session: DryRun) -> None:
    """Hold the conversations of a run in a dry run."""
    settings = resolved.settings
    summary = summarise_set(items)
    check_items(summary, settings)
    stage = open_stage(summary, resolved, session, Prompts(settings.prompts))
    with hidden_progress():
        for block in blocks(items):
            stage.hold(block, stage.decide(block), strict=False)
    for speaker in stage.speakers:
        if speaker.method == "given":
            continue
        deciding = "senses" if speaker.method == "vote" else "ranking"
        decided = session.stages.get((deciding, speaker.model.name))
        guessed = speaker.method == "detector" or bool(decided and decided.missing)
        meanings = session.stages.get(("meanings", speaker.model.name))
        both = meanings_method(settings.meanings, speaker.model) == "both"
        if meanings and guessed and settings.scoring.gate == "hard" and not both:
            meanings.at_most = True  # fewer meanings are needed in the other sense
