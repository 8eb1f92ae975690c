"""The whole job: items in; senses, meanings, rankers, scores and orders out."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from admire.choices import Ranker
from admire.encoders import TextEncoder
from admire.errors import UserError
from admire.interpretation import Glosses, Interpretation, interpret, sense_method
from admire.items import Item, SenseLabel
from admire.llm import ChatModel, open_llms
from admire.llm.batches import Desk
from admire.llm.ledger import Ledger
from admire.meaning import Meaning
from admire.prompts import Prompts
from admire.rankers import (
    Comparison,
    Judgement,
    check_candidates,
    compare,
    judge,
    judge_listwise,
    look_where_no_caption_is,
    open_encoders,
    open_head,
)
from admire.record import source_record, take_record
from admire.recorded import Recorded
from admire.scorer import Scores, comparable, ensemble, fuse_scores, rank_names
from admire.senses import Detector, open_detector
from admire.senses.sense import majority
from admire.settings import Asking, Settings
from admire.submission import Prediction


@dataclass(frozen=True)
class Ranking:
    """One item's result.

    Attributes:
        interpretations: one for each chat model; none where the query is a baseline.
        scores: the ensemble's score of each candidate, in the item's order.
        order: the candidates' names from best to worst.
        parts: for scores.csv, one row for each ranker, model and candidate.
        judgements: what chat models that looked at the candidates made of them, one for each ranker
            and model.
        fused: the runs that it is fused from: ``run``, ``weight`` and ``order``.
    """

    item: Item
    interpretations: tuple[Interpretation, ...]
    scores: Scores
    order: tuple[str, ...]
    parts: tuple[dict[str, Any], ...] = field(repr=False)
    judgements: tuple[Judgement, ...] = field(default=(), repr=False)
    fused: tuple[dict[str, Any], ...] = ()

    @property
    def predicted_type(self) -> SenseLabel | None:
        """The sense that all models give, or else the majority of their votes.

        None for a baseline, or where no vote could be read.
        """
        labels = {i.sense.label for i in self.interpretations}
        if len(labels) == 1:
            return labels.pop()
        idiomatic = sum(i.sense.idiomatic for i in self.interpretations)
        literal = sum(i.sense.literal for i in self.interpretations)
        return majority(idiomatic, literal)


@dataclass(frozen=True)
class Run:
    """The rankings of a set of items, and the record of how they were made."""

    rankings: tuple[Ranking, ...]
    record: dict[str, Any]

    def predictions(self) -> list[Prediction]:
        """What a submission says of each item."""
        return [
            Prediction(
                r.item.compound,
                r.item.sentence,
                r.order,
                r.predicted_type,
                r.order[0] if r.item.sequence else None,
            )
            for r in self.rankings
        ]


def rank(
    items: Sequence[Item],
    settings: Settings | None = None,
    *,
    asking: Asking | None = None,
    llms: Sequence[ChatModel] | None = None,
    encoder: TextEncoder | None = None,
    caption_encoder: TextEncoder | None = None,
    detector: Detector | None = None,
    source: str | Path | None = None,
) -> Run:
    """Rank each item's candidates by how well they show the sense that is meant.

    Args:
        asking: how many questions at a time, for how much, and whether by the Batch API.
        llms, encoder, caption_encoder, detector: models as objects, in place of those that
            ``settings`` names.
        source: the file or folder that the items were read from, for the run's record.

    Raises:
        UserError: an item has no candidates, a model is missing or fails, a head does not suit, or
            the budget does not suffice.
        Waiting: questions wait for the Batch API; called again later, the run goes on.
    """
    settings = settings or Settings()
    asking = asking or Asking()
    check_items(items, settings)
    compares = "embeddings" in settings.rankers
    if compares and not encoder and not caption_encoder:
        settings = look_where_no_caption_is(items, settings)
    origin = source_record(source) if source else None
    prompts = Prompts(settings.prompts)
    # Before the encoders, which may have gigabytes to fetch.
    models = chat_models(settings, llms, parallel=asking.parallel)
    ledger = Ledger(None if asking.batch else asking.budget)
    desk = Desk(asking.budget) if asking.batch else None
    watched = [
        llm if isinstance(llm, Recorded) else ledger.watch(desk.take(llm) if desk else llm)
        for llm in models
    ]
    tracks = check_candidates(items, models, settings) if settings.looks else ()
    if not any(sense_method(settings.sense, llm) == "detector" for llm in models):
        detector = None
    elif detector is None:
        detector = open_detector(settings.detector)
    encoders = open_encoders(items, settings, encoder, caption_encoder) if compares else {}
    head = open_head(settings, encoders) if compares else None
    record = take_record(
        settings,
        len(items),
        source=origin,
        llms=models,
        encoders=encoders,
        tracks=encoders or tracks,
        detector=detector,
        head=head,
        prompts=prompts,
    )
    timings: dict[str, float] = {}
    readings, judgements = ask_models(
        items,
        watched,
        prompts,
        settings,
        detector=detector,
        settle=desk.settle if desk else lambda: None,
        timings=timings,
    )
    started = time.perf_counter()
    compared = compare(items, readings, settings, encoders, head) if compares else [()] * len(items)
    rankings = tuple(
        _rank_item(
            item,
            compared[k],
            [reading[k] for reading in readings],
            [found[k] for found in judgements],
        )
        for k, item in enumerate(items)
    )
    timings["encoding and scores"] = time.perf_counter() - started
    finished = {
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": {stage: round(seconds, 3) for stage, seconds in timings.items()},
        "asked": [entry.record() for entry in ledger.entries()],
    }
    return Run(rankings, record | finished)


def check_items(items: Sequence[Item], settings: Settings) -> None:
    """Refuse items that cannot be ranked.

    Raises:
        UserError: an item has no candidates, some items have sequences and others none, or there is
            nothing of the query that is wanted.
    """
    sequences = any(item.sequence for item in items)
    for number, item in enumerate(items, start=1):
        where = f"row {number} ('{item.compound}')"
        if not item.candidates:
            raise UserError(
                f"{where} has no candidates to rank. "
                "For items without candidates, admire sense decides the sense."
            )
        if sequences and not item.sequence:
            raise UserError(f"{where} has no sequence, but others do. Rank the two kinds apart.")
        if settings.query in ("sentence", "sequence") and not getattr(item, settings.query):
            raise UserError(f"{where} has no {settings.query} to compare candidates with.", "query")


def chat_models(
    settings: Settings, llms: Sequence[ChatModel] | None = None, *, parallel: int | None = None
) -> Sequence[ChatModel]:
    """The chat models that a run asks: those given, or else those that the settings name.

    Raises:
        UserError: there is none, or one cannot be opened.
    """
    if settings.query != "meaning" and not settings.looks:
        return ()
    models = llms or [
        model
        for name in settings.llms
        for model in open_llms(name, url=settings.llm_url, parallel=parallel)
    ]
    if not models:
        raise UserError("There is no chat model to ask for meanings.", "llms")
    return models


def ask_models(
    items: Sequence[Item],
    llms: Sequence[ChatModel],
    prompts: Prompts,
    settings: Settings,
    *,
    detector: Detector | None,
    foreseen: bool = False,
    settle: Callable[[], None] = lambda: None,
    timings: dict[str, float] | None = None,
) -> tuple[list[list[Interpretation]], list[list[tuple[Judgement, ...]]]]:
    """All that a run asks its chat models: senses and meanings, and then about the candidates.

    Args:
        foreseen: whether all is asked that may have to be, whatever the senses will be.
        settle: called where what is asked next depends on what was asked before.
        timings: takes the seconds of each stage.

    Returns:
        For each model and item, how the model understands it and what its rankers make of it.

    Raises:
        UserError: a model cannot be asked.
    """
    timings = {} if timings is None else timings
    judgements: list[list[tuple[Judgement, ...]]] = [[()] * len(items) for _ in llms]
    if not llms:
        return [], judgements
    started = time.perf_counter()
    listed = {
        llm.name: judge_listwise(items, llm, prompts, settings)
        for llm in llms
        if sense_method(settings.sense, llm, settings.rankers) == "listwise"
    }
    likely: Glosses = "possible" if foreseen else "idiomatic"
    glosses: Glosses = "all" if settings.scoring.gate == "soft" else likely
    readings = interpret(
        items,
        llms,
        prompts,
        sense=settings.sense,
        votes=settings.votes,
        seed=settings.seed,
        detector=detector,
        meanings=settings.meanings,
        glosses="none" if settings.rankers == ("listwise",) else glosses,
        known={name: [one.sense for one in said if one.sense] for name, said in listed.items()},
    )
    settle()
    timings["senses and meanings"] = time.perf_counter() - started
    if settings.looks:
        started = time.perf_counter()
        for k, llm in enumerate(llms):
            judgements[k] = judge(items, llm, prompts, settings, readings[k], listed.get(llm.name))
            readings[k] = list(map(_explained, readings[k], judgements[k]))
        settle()
        timings["rankers"] = time.perf_counter() - started
    return readings, judgements


def _explained(reading: Interpretation, judgements: Sequence[Judgement]) -> Interpretation:
    """The interpretation with what a ranker's answers say of the meaning, if nothing else does."""
    said = next((one.meaning for one in judgements if one.meaning), None)
    if not said or reading.idiomatic or reading.literal:
        return reading
    meaning = Meaning((said,))
    if reading.sense.label == "idiomatic":
        return replace(reading, idiomatic=meaning)
    return replace(reading, literal=meaning)


def _rank_item(
    item: Item,
    compared: Sequence[Comparison],
    readings: Sequence[Interpretation],
    judgements: Sequence[Sequence[Judgement]],
) -> Ranking:
    """The item's ranking by comparison, if there is any, and by each chat model's judgements."""
    names = [candidate.name for candidate in item.candidates]
    found: dict[Ranker, list[Scores]] = {}
    parts: list[dict[str, Any]] = []
    for comparison in compared:
        found.setdefault("embeddings", []).append(comparison.scores)
        for j, name in enumerate(names):
            columns = {
                f"{track}_{role}": values[q, j]
                for track, values in comparison.cosines.items()
                for q, role in enumerate(comparison.roles)
            }
            parts.append(
                {
                    "candidate": name,
                    "ranker": "embeddings",
                    **_columns(comparison.interpretation),
                    **columns,
                    "llm_score": comparison.scores[j],
                }
            )
    for reading, said in zip(readings, judgements, strict=True):
        for one in said:
            found.setdefault(one.ranker, []).append(comparable(one.scores))
            for name, points in zip(names, one.scores, strict=True):
                parts.append(
                    {
                        "candidate": name,
                        "ranker": one.ranker,
                        **_columns(reading),
                        "llm_score": points,
                        "agreement": one.agreement,
                        "unread": one.unread,
                    }
                )
    means = [ensemble(scores) for scores in found.values()]
    mean = means[0] if len(means) == 1 else fuse_scores(means)
    order = rank_names(names, mean)
    total = dict(zip(names, mean, strict=True))
    rows = tuple(
        part | {"score": total[part["candidate"]], "rank": 1 + order.index(part["candidate"])}
        for part in parts
    )
    return Ranking(
        item, tuple(readings), mean, order, rows, tuple(one for said in judgements for one in said)
    )


def _columns(reading: Interpretation | None) -> dict[str, Any]:
    if reading is None:
        return {}
    return {
        "llm": reading.llm,
        "predicted_type": reading.sense.label or "",
        "probability": reading.sense.probability,
        "votes_idiomatic": reading.sense.idiomatic,
        "votes_literal": reading.sense.literal,
        "votes_unparsed": reading.sense.unparsed,
        "gloss": reading.gloss or "",
    }
