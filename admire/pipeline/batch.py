"""Submits a run's uncached questions to the Batch API, and collects the answers."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from admire.core.errors import UserError
from admire.core.storage import cache_dir, only_writer
from admire.data.items import Item
from admire.llm import BoundModel, ChatModel, Question, Reply, Session
from admire.llm.batches import Batches
from admire.llm.chat import Price
from admire.llm.openai import OpenAIChat
from admire.llm.prices import estimate, price
from admire.llm.session import check_price
from admire.pipeline.forecast import check_questions, put_questions
from admire.pipeline.run import sense_methods
from admire.pipeline.sources import resolve_models
from admire.prompts import Prompts
from admire.rankers.set_summary import SetSummary
from admire.rankers.settings import Settings
from admire.senses import open_detector
from admire.senses.dictionaries import open_dictionaries
from admire.senses.source import ChatSource, Source

log = logging.getLogger("admire")


def batch(
    items: Sequence[Item],
    settings: Settings | None = None,
    *,
    llms: Sequence[ChatModel | Source] | None = None,
    budget: float | None = None,
) -> list[str]:
    """Collect the answers of batches, and submit the questions that :func:`admire.rank` would ask.

    Questions that depend on missing answers, as a gloss depends on the sense, are submitted by a
    later call.

    Args:
        budget: in US dollars, for the questions that this call submits; None for no limit.

    Returns:
        A line for each batch in progress; an empty list if all replies from batches are cached.

    Raises:
        UserError: as for :func:`admire.rank`; a server fails or has no Batch API, or the budget is
            too small.
    """
    resolved = resolve_models(settings, llms=llms)
    settings, models = resolved.settings, resolved.open_sources()
    prompts = Prompts(settings.prompts)
    summary = check_questions(items, models, prompts, settings)
    missing: list[tuple[Batches, dict[str, Question]]] = []
    with only_writer(cache_dir() / "batches"):
        for llm in [source.llm for source in models if source.llm]:
            if isinstance(llm, BoundModel) and isinstance(llm.unbound, OpenAIChat):
                if budget is not None:
                    check_price(llm)
                batches = Batches(llm, llm.unbound)
                batches.collect()
                missing.append((batches, _missing(items, summary, llm, prompts, settings)))
            else:
                log.info("%s has no Batch API; admire rank asks it directly.", llm.name)
        unsent = [_unsent(batches, questions) for batches, questions in missing]
        if budget is not None:
            _check_budget([batches for batches, _ in missing], unsent, budget)
        lines = []
        for (batches, questions), new in zip(missing, unsent, strict=True):
            batches.submit(new)
            for sent in batches.open:
                if not questions.keys().isdisjoint(sent.keys):
                    size = f"{len(sent.keys)} questions"
                    lines.append(f"{batches.llm.name}: batch {sent.id} with {size} is in progress")
            reasons = [batches.failed[key] for key in questions if key in batches.failed]
            if reasons:
                log.warning(
                    "%s: no batch can answer %d questions (%s). admire rank asks them directly.",
                    batches.llm.name,
                    len(reasons),
                    reasons[0],
                )
    return lines


def _missing(
    items: Sequence[Item],
    summary: SetSummary,
    llm: BoundModel,
    prompts: Prompts,
    settings: Settings,
) -> dict[str, Question]:
    """Return the questions without a reply that can be asked now, by their keys in the cache."""
    questions: dict[str, Question] = {}

    def note(question: Question, reply: Reply | None) -> None:
        if reply is None:
            questions[llm.key(question)] = question

    detects = sense_methods(settings, [ChatSource(llm)]) == ["detector"]
    detector = open_detector(settings.detector) if detects else None
    dictionaries = open_dictionaries(settings.dictionaries)
    model = Session(note=note).bind(llm)
    put_questions(items, summary, model, prompts, settings, detector, dictionaries=dictionaries)
    return questions


def _unsent(batches: Batches, questions: Mapping[str, Question]) -> dict[str, Question]:
    """Return the questions that are neither pending nor failed."""
    handled = {key for batch in batches.open for key in batch.keys} | batches.failed.keys()
    return {key: question for key, question in questions.items() if key not in handled}


def _check_budget(
    batches: Sequence[Batches], questions: Sequence[Mapping[str, Question]], budget: float
) -> None:
    """Refuse to submit questions that may cost more than the budget."""
    costs = [
        price(model.llm, estimate(question, model.llm), batched=True)
        for model, unsent in zip(batches, questions, strict=True)
        for question in unsent.values()
    ]
    total = sum((cost for cost in costs if cost), Price(0.0))
    if total.dollars > budget:
        raise UserError(
            f"The missing replies may cost {total}, more than ${budget:g}: nothing was submitted.",
            "budget",
        )
