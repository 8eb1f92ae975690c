"""The whole job: items in; senses, meanings, rankers, scores and orders out."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from admire.base.choices import Ranker
from admire.base.errors import UserError
from admire.base.progress import (
    SECONDS_BETWEEN_LINES,
    Progress,
    progress_as_wanted,
    progress_is_wanted,
    progress_told_to,
)
from admire.data.frames import Data, take_items
from admire.data.items import Item
from admire.data.overlap import Digests, Kind
from admire.models.encoders import TextEncoder
from admire.models.llm.ledger import Ledger
from admire.prompts import Prompts
from admire.rankers import (
    Comparison,
    Judgement,
    check_answers,
    check_candidates,
    compare,
    judge,
    judge_listwise,
    look_where_no_caption_is,
    open_encoders,
    open_head,
)
from admire.rankers.scorer import Scores, comparable, ensemble, fuse_scores
from admire.rankers.set_summary import SetSummary, check_items, summarise_set
from admire.rankers.settings import Asking, Settings
from admire.runs.model_arguments import Model, as_object, take_settings
from admire.runs.ranking import Ranking, Run, blocks
from admire.runs.record import source_record, take_record
from admire.runs.sources import open_sources
from admire.scores.leakage import find_seen, training_digests
from admire.scores.metrics import confidence
from admire.senses import Detector, open_detector
from admire.senses.dictionaries import Dictionary, open_dictionaries
from admire.senses.interpretation import (
    Glosses,
    Interpretation,
    ReadingSettings,
    interpret,
    sense_method,
)
from admire.senses.meaning import Meaning
from admire.senses.sense import given, mean_probability
from admire.senses.source import ChatSource, Source, as_source, check_contexts

if TYPE_CHECKING:
    from admire.models.projection import Projection


log = logging.getLogger("admire")


def rank(
    items: Data,
    settings: Settings | None = None,
    *,
    asking: Asking | None = None,
    llms: Sequence[Model] | None = None,
    encoder: str | TextEncoder | None = None,
    caption_encoder: str | TextEncoder | None = None,
    detector: str | Path | Detector | None = None,
    source: str | Path | None = None,
    progress: Progress = None,
) -> Run:
    """Rank each item's candidates by how well they show the sense that is meant.

    Args:
        items: a file or folder, see :func:`admire.read_items`; a DataFrame or rows as dicts, see
            :func:`admire.items_from_frame`; or Items.
        asking: how many questions at a time, and for how much.
        llms, encoder, caption_encoder, detector: models, by name or as objects, in place of those
            that ``settings`` names. A chat model or encoder of your own derives from
            :class:`admire.models.llm.ChatModel` or :class:`admire.models.encoders.TextEncoder`.
        source: the file or folder that the items were read from, for the run's record; where
            ``items`` is a path, that is known.
        progress: whether to show it, or a function that is called with what is done, how many are
            done, and how many there are. None shows it in notebooks and on terminals.

    Raises:
        UserError: an argument is not taken, an item has no candidates, a model is missing or fails,
            a head does not suit, or the budget does not suffice.
    """
    if source is None and isinstance(items, str | Path):
        source = items
    with progress_as_wanted(progress):
        ranked = take_items(items)
        opened = open_run(
            summarise_set(ranked),
            settings,
            asking=asking,
            llms=llms,
            encoder=encoder,
            caption_encoder=caption_encoder,
            detector=detector,
            source=source_record(source) if source else None,
        )
        return Run(tuple(chain.from_iterable(rank_blocks(ranked, opened))), opened.finished())


@dataclass(frozen=True)
class Opened:
    """What a run is made with, read and opened once for all of its items.

    Attributes:
        settings: as they are for this set.
        models: the chat models and other sources; the ledger records what they are asked.
        encoders: by track.
        record: see :func:`admire.runs.record.take_record`.
        dictionaries: what knows compounds beside the models.
        saw: what the head and the detector saw in training, as far as their cards list it.
        timings: the seconds of each stage so far.
    """

    settings: Settings
    prompts: Prompts
    models: Sequence[Source]
    ledger: Ledger
    detector: Detector | None
    encoders: dict[str, TextEncoder]
    head: Projection | None
    record: dict[str, Any]
    dictionaries: Sequence[Dictionary] = ()
    saw: Mapping[str, Digests] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)

    def finished(self) -> dict[str, Any]:
        """Return the record of the run when it has come to its end."""
        return self.record | {
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": {stage: round(seconds, 3) for stage, seconds in self.timings.items()},
            "asked": [entry.record() for entry in self.ledger.entries()],
        }


def open_run(
    summary: SetSummary,
    settings: Settings | None = None,
    *,
    asking: Asking | None = None,
    llms: Sequence[Model] | None = None,
    encoder: str | TextEncoder | None = None,
    caption_encoder: str | TextEncoder | None = None,
    detector: str | Path | Detector | None = None,
    source: Mapping[str, str] | None = None,
) -> Opened:
    """Check a set of items and open what it takes to rank them; nothing is asked yet.

    Args:
        summary: of the set, by :func:`admire.rankers.set_summary.summarise_set`.
        source: see :func:`admire.runs.record.source_record`.
        asking, llms, encoder, caption_encoder, detector: as for :func:`rank`.

    Raises:
        UserError: as for :func:`rank`.
    """
    settings = take_settings(
        settings,
        asking=asking,
        llms=llms,
        encoder=encoder,
        caption_encoder=caption_encoder,
        detector=detector,
    )
    encoder, caption_encoder = as_object(encoder), as_object(caption_encoder)
    detector = as_object(detector)
    asking = asking or Asking()
    check_items(summary, settings)
    compares = "embeddings" in settings.rankers
    if compares and not encoder and not caption_encoder:
        settings = look_where_no_caption_is(summary, settings)
    prompts = Prompts(settings.prompts)
    # Before the encoders, which may have gigabytes to fetch.
    models = chat_models(settings, llms, parallel=asking.parallel)
    dictionaries = open_dictionaries(settings.dictionaries) if models else ()
    ledger = Ledger(asking.budget)
    watched = [ChatSource(ledger.watch(model.llm)) if model.llm else model for model in models]
    tracks = check_candidates(summary, models, settings) if settings.looks else ()
    check_senses(summary, models, settings)
    if summary.words or not any(sense_method(settings.sense, llm) == "detector" for llm in models):
        detector = None
    elif detector is None:
        detector = open_detector(settings.detector)
    encoders = open_encoders(summary, settings, encoder, caption_encoder) if compares else {}
    head = open_head(settings, encoders) if compares else None
    record = take_record(
        settings,
        summary.items,
        source=source,
        llms=models,
        encoders=encoders,
        shown=tracks,
        detector=detector,
        head=head,
        prompts=prompts,
        dictionaries=dictionaries,
        senses=not summary.words,
    )
    trained = {"head": head, "detector": detector}
    saw = {name: training_digests(model) for name, model in trained.items() if model}
    return Opened(
        settings,
        prompts,
        watched,
        ledger,
        detector,
        encoders,
        head,
        record,
        dictionaries,
        {who: listed for who, listed in saw.items() if listed is not None},
    )


def rank_blocks(items: Iterable[Item], opened: Opened) -> Iterator[list[Ranking]]:
    """Rank items block by block, as many as there are; only one block is in memory.

    Raises:
        UserError: as for :func:`rank`.
    """
    done = 0
    for block in blocks(items):
        with _show_progress(done, len(block), opened.record["items"]):
            rankings = rank_block(block, opened, first=not done)
        yield rankings
        done += len(block)


def _show_progress(before: int, count: int, total: int) -> AbstractContextManager[None]:
    """Log the progress inside a block now and then, if there are several blocks."""
    if count == total or progress_is_wanted():
        return nullcontext()
    logged = time.monotonic()

    def log_progress(task: str, done: int, of: int) -> None:
        nonlocal logged
        if time.monotonic() - logged > SECONDS_BETWEEN_LINES:
            logged = time.monotonic()
            where = f"Items {before + 1} to {before + count} of {total}"
            log.info("%s. %s: %d of %d", where, task, done, of)

    return progress_told_to(log_progress)


def rank_block(items: Sequence[Item], opened: Opened, *, first: bool = True) -> list[Ranking]:
    """Rank some items of a set, or all of them.

    Args:
        first: see :func:`admire.rankers.judgement.check_answers`.

    Raises:
        UserError: as for :func:`rank`.
    """
    settings, timings = opened.settings, opened.timings
    readings, judgements = ask_models(
        items,
        opened.models,
        opened.prompts,
        settings,
        detector=opened.detector,
        encoder=opened.encoders.get("caption"),
        timings=timings,
        first=first,
        dictionaries=opened.dictionaries,
    )
    started = time.perf_counter()
    compared: Sequence[Sequence[Comparison]] = [()] * len(items)
    if "embeddings" in settings.rankers:
        compared = compare(items, readings, settings, opened.encoders, opened.head)
    seen = find_seen(items, opened.saw, pictures="image" in opened.encoders)
    rankings = [
        _rank_item(
            item,
            compared[k],
            [reading[k] for reading in readings],
            [by_model[k] for by_model in judgements],
            seen[k],
            settings.abstain_below,
        )
        for k, item in enumerate(items)
    ]
    _add_time(timings, "encoding and scores", started)
    return rankings


def _add_time(timings: dict[str, float], stage: str, started: float) -> None:
    timings[stage] = timings.get(stage, 0.0) + time.perf_counter() - started


def check_senses(summary: SetSummary, sources: Sequence[Source], settings: Settings) -> None:
    """Refuse items of which nothing will tell the sense.

    Raises:
        UserError: there is one.
    """
    methods = {
        sense_method(settings.sense, source, settings.rankers)
        for source in sources
        if settings.sense in ("given", "detector") or source.llm
    }
    if "given" in methods and "sentence_type" in summary.lacking:
        given(summary.lacking["sentence_type"][1])
    if {"vote", "detector"} & methods and "context" in summary.lacking:
        check_contexts([summary.lacking["context"][1]])


def chat_models(
    settings: Settings,
    llms: Sequence[Model] | None = None,
    *,
    parallel: int | None = None,
) -> Sequence[Source]:
    """Open the chat models and other sources of a run: those given, or those in the settings.

    Raises:
        UserError: there is none, or one cannot be opened.
    """
    if settings.query != "meaning" and not settings.looks:
        return ()
    models: list[Source] = []
    for model in llms or settings.llms:
        if isinstance(model, str):
            models += open_sources(
                model, url=settings.llm_url, parallel=parallel, dictionaries=settings.dictionaries
            )
        else:
            models.append(as_source(model))
    if not models:
        raise UserError("There is no chat model to ask for meanings.", "llms")
    return models


def ask_models(
    items: Sequence[Item],
    llms: Sequence[Source],
    prompts: Prompts,
    settings: Settings,
    *,
    detector: Detector | None,
    encoder: TextEncoder | None = None,
    timings: dict[str, float],
    first: bool,
    dictionaries: Sequence[Dictionary] = (),
) -> tuple[list[list[Interpretation]], list[list[tuple[Judgement, ...]]]]:
    """Ask chat models for senses and meanings, and then about the candidates.

    Args:
        encoder: of captions, see :func:`admire.senses.interpretation.interpret`.
        timings: takes the seconds of each stage, which are added to those that are there.
        first: see :func:`admire.rankers.judgement.check_answers`.

    Returns:
        For each model and item, how the model understands it and what its rankers make of it.

    Raises:
        UserError: a model cannot be asked.
    """
    judgements: list[list[tuple[Judgement, ...]]] = [[()] * len(items) for _ in llms]
    if not llms:
        return [], judgements
    started = time.perf_counter()
    listed = {}
    for llm in llms:
        if llm.llm and sense_method(settings.sense, llm, settings.rankers) == "listwise":
            listed[llm.name] = judge_listwise(items, llm.llm, prompts, settings)
            check_answers(items, listed[llm.name], llm.llm, first=first)
    readings = interpret(
        items,
        llms,
        prompts,
        reading_settings(settings),
        detector=detector,
        encoder=encoder,
        senses={
            name: [judgement.sense for judgement in judgements_of_model if judgement.sense]
            for name, judgements_of_model in listed.items()
        },
        dictionaries=dictionaries,
    )
    _add_time(timings, "senses and meanings", started)
    if settings.looks:
        started = time.perf_counter()
        for k, llm in enumerate(llms):
            of_llm = (readings[k], listed.get(llm.name))
            judgements[k] = judge(items, llm, prompts, settings, *of_llm, first=first)
            readings[k] = list(map(_explained, readings[k], judgements[k]))
        _add_time(timings, "rankers", started)
    return readings, judgements


def reading_settings(settings: Settings) -> ReadingSettings:
    """Return the part of a run's settings by which items are interpreted."""
    glosses: Glosses = "all" if settings.weighs_both else "idiomatic"
    return ReadingSettings(
        settings.sense,
        settings.votes,
        settings.seed,
        settings.meanings,
        "none" if settings.rankers == ("listwise",) else glosses,
    )


def _explained(reading: Interpretation, judgements: Sequence[Judgement]) -> Interpretation:
    """Add the meaning from a ranker's answers to a reading that has none."""
    gloss = next((judgement.meaning for judgement in judgements if judgement.meaning), None)
    if not gloss or reading.idiomatic or reading.literal:
        return reading
    meaning = Meaning((gloss,))
    if reading.sense.label == "idiomatic":
        return replace(reading, idiomatic=meaning)
    return replace(reading, literal=meaning)


def _rank_item(
    item: Item,
    compared: Sequence[Comparison],
    readings: Sequence[Interpretation],
    judgements: Sequence[Sequence[Judgement]],
    seen: dict[str, list[Kind]],
    abstain_below: float | None,
) -> Ranking:
    """Rank an item by comparison, if there is any, and by each chat model's judgements."""
    names = [candidate.name for candidate in item.candidates]
    by_ranker: dict[Ranker, list[Scores]] = {}
    parts: list[dict[str, Any]] = []
    for comparison in compared:
        by_ranker.setdefault("embeddings", []).append(comparison.scores)
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
    for reading, of_model in zip(readings, judgements, strict=True):
        for judgement in of_model:
            by_ranker.setdefault(judgement.ranker, []).append(
                comparable(np.array(judgement.scores))
            )
            for name, points in zip(names, judgement.scores, strict=True):
                parts.append(
                    {
                        "candidate": name,
                        "ranker": judgement.ranker,
                        **_columns(reading),
                        "llm_score": points,
                        "agreement": judgement.agreement,
                        "unread": judgement.unread,
                    }
                )
    means = [ensemble(models) for models in by_ranker.values()]
    mean = means[0] if len(means) == 1 else fuse_scores(means)
    probability = mean_probability(reading.sense for reading in readings)
    return Ranking.of(
        item,
        mean,
        parts,
        readings,
        judgements=tuple(judgement for of_model in judgements for judgement in of_model),
        seen=seen,
        unsure=not item.word
        and abstain_below is not None
        and confidence(probability) < abstain_below,
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
