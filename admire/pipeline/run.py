"""The ranking pipeline: senses, meanings, rankers, scores and orders of items."""

from __future__ import annotations

import logging
import textwrap
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from admire.core.choices import TRACKS
from admire.core.progress import (
    SECONDS_BETWEEN_LINES,
    Progress,
    progress_as_wanted,
    progress_is_wanted,
    progress_told_to,
)
from admire.core.registry import PluginError
from admire.core.schema import suggesting
from admire.data.items import Item
from admire.data.languages import base_language
from admire.data.overlap import Digests, Kind
from admire.data.reader import Data, take_items
from admire.encoders import TextEncoder
from admire.llm.address import Address
from admire.llm.session import Session
from admire.metrics.leakage import find_leaks, training_digests
from admire.metrics.metrics import confidence
from admire.pipeline.language_summary import Tally, count_items, summarise_languages
from admire.pipeline.ranking import Ranking, Run, agreed_sense, blocks
from admire.pipeline.record import VERSION, source_record, versions
from admire.pipeline.score_parts import as_counted, part_column
from admire.pipeline.sources import Model, ResolvedModels, resolve_models
from admire.prompts import Prompts
from admire.rankers import (
    Comparison,
    Judgement,
    Ranker,
    RunEncoder,
    any_ranker,
    check_answers,
    compare,
    judge,
    look_where_no_caption_is,
    open_encoders,
    open_rankers,
)
from admire.rankers.embeddings import Part
from admire.rankers.scorer import Scores, comparable, fuse_scores
from admire.rankers.set_summary import SetSummary, check_items, summarise_set
from admire.rankers.settings import RequestOptions, Settings
from admire.senses import Detector, open_detector
from admire.senses.detector import trained_languages
from admire.senses.dictionaries import Dictionary, open_dictionaries
from admire.senses.interpretation import (
    Glosses,
    Interpretation,
    interpret,
    meanings_method,
    sense_method,
)
from admire.senses.meaning import Meaning
from admire.senses.sense import given, mean_probability
from admire.senses.source import ChatSource, Source, check_contexts

log = logging.getLogger("admire")


@suggesting(settings=Settings, asking=RequestOptions)
def rank(
    items: Data,
    settings: Settings | None = None,
    *,
    asking: RequestOptions | None = None,
    llms: Sequence[Model] | None = None,
    encoder: str | TextEncoder | Sequence[str | TextEncoder] | None = None,
    caption_encoder: str | TextEncoder | None = None,
    detector: str | Path | Detector | None = None,
    source: str | Path | None = None,
    progress: Progress = None,
) -> Run:
    """Rank each item's candidates by how well they show the intended sense.

    Args:
        items: a file or folder, see :func:`admire.read_items`; a DataFrame or rows as dicts, see
            :func:`admire.items_from_frame`; or Items.
        asking: concurrency, timeout, budget and cache of the requests to chat models.
        llms, encoder, caption_encoder, detector: models, by name or as objects, that replace those
            of ``settings``. Your own chat model or encoder derives from
            :class:`admire.llm.ChatModel` or :class:`admire.encoders.TextEncoder`. A list of
            encoders is an ensemble.
        source: the file or folder that the items were read from, for the run's record (default:
            ``items``, if it is a path).
        progress: whether to show it, or a function that is called with the task, the number done
            and the total. None shows it in notebooks and on terminals.

    Raises:
        UserError: an argument is invalid, an item has no candidates, a model is missing or fails, a
            head does not fit the encoder, or the budget is spent.
    """
    if source is None and isinstance(items, str | Path):
        source = items
    with progress_as_wanted(progress):
        ranked = take_items(items)
        resolved = resolve_models(settings, asking, llms, encoder, caption_encoder, detector)
        record = source_record(source) if source else None
        run = RankingPipeline(summarise_set(ranked), resolved, record)
        return Run(tuple(chain.from_iterable(run.rank_blocks(ranked))), run.finish())


class RankingPipeline:
    """The models of a run, opened for a checked set, and the state of its ranking.

    Attributes:
        settings: resolved for this set.
        models: the chat models and other sources; asked through the session.
        encoders: see :func:`admire.rankers.open_encoders`.
        record: the record of the run, as in run.json.
        seconds: the time of each stage so far.
        done: how many items are ranked.
        tallies: their counts, by language.
        skipped: why items were skipped.

    Args:
        skips_bad: whether an item is skipped, with a warning, if a plug-in fails on it.
    """

    def __init__(
        self,
        summary: SetSummary,
        resolved: ResolvedModels,
        source: Mapping[str, str] | None = None,
        *,
        skips_bad: bool = False,
    ):
        self.skips_bad = skips_bad
        self.skipped: list[str] = []
        settings = resolved.settings
        check_items(summary, settings)
        if settings.compares and not resolved.encoder and not resolved.caption_encoder:
            settings = look_where_no_caption_is(summary, settings)
        self.settings = settings
        self.prompts = Prompts(settings.prompts)
        # Before the encoders, which may download gigabytes.
        self.session = Session(resolved.asking.budget, fresh=resolved.asking.fresh)
        models = resolved.open_sources()
        self.dictionaries = open_dictionaries(settings.dictionaries) if models else ()
        self.models: list[Source] = [
            ChatSource(self.session.bind(model.llm)) if model.llm else model for model in models
        ]
        self.rankers: list[list[Ranker]] = [
            open_rankers(summary, model, self.prompts, settings) for model in self.models
        ]
        tracks_seen = {track for row in self.rankers for r in row for track in r.tracks}
        self.methods = sense_methods(settings, self.models)
        check_senses(summary, self.models, self.methods)
        detects = "detector" in self.methods
        self.detector: Detector | None = None
        if detects and "word" not in summary.contexts:
            self.detector = resolved.detector or open_detector(settings.detector)
        self.encoders: list[RunEncoder] = []
        if settings.compares:
            given_encoders = resolved.encoder, resolved.caption_encoder
            self.encoders = open_encoders(summary, settings, *given_encoders)
        self.heads = [encoder.head for encoder in self.encoders if encoder.head]
        trained = [*(("head", head) for head in self.heads), ("detector", self.detector)]
        self._training_digests: dict[str, Digests] = {}
        for kind, model in trained:
            if model and (digests := training_digests(model)) is not None:
                known = self._training_digests.get(kind, {})
                more = {of: [*known.get(of, ()), *listed] for of, listed in digests.items()}
                self._training_digests[kind] = {**known, **more}
        self.record = self._begin(summary, source, tracks_seen)
        self.seconds: dict[str, float] = {}
        self.done = 0
        self.tallies: dict[str, Tally] = {}

    def _begin(
        self, summary: SetSummary, source: Mapping[str, str] | None, tracks_seen: Collection[str]
    ) -> dict[str, Any]:
        """Return the first part of the record: settings, identities, prompts' hashes, versions."""
        settings = {
            name: str(value) if isinstance(value, Path) else value
            for name, value in asdict(self.settings).items()
            if name != "plugins" or value
        }
        compared = {track for encoder in self.encoders for track in encoder.tracks}
        settings["track"] = "+".join(t for t in TRACKS if t in (compared or tracks_seen)) or None
        settings["llm_url"] = self.settings.llm_url and Address.parse(self.settings.llm_url).shown

        return {
            "version": VERSION,
            "source": source,
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "items": summary.items,
            "settings": settings,
            "saw": [track for track in TRACKS if track in {*compared, *tracks_seen}],
            "models": {
                "llms": [
                    _named(model)
                    | {"sense": "none" if "word" in summary.contexts else method}
                    | {"meanings": meanings_method(self.settings.meanings, model)}
                    for model, method in zip(self.models, self.methods, strict=True)
                ],
                "encoders": {
                    track: [_named(e.tracks[track]) for e in self.encoders if track in e.tracks]
                    for track in TRACKS
                    if track in compared
                },
                "detector": self.detector.identity if self.detector else None,
                "head": " + ".join(head.identity for head in self.heads) or None,
                "dictionaries": list(map(_named, self.dictionaries)),
            },
            "prompts": self.prompts.fingerprints(),
            "versions": versions(),
        }

    def finish(self) -> dict[str, Any]:
        """Return the complete record of the run after its end."""
        left_out = [*self.record.get("left_out", ()), *self.skipped]
        left = {"items": self.record["items"] - len(self.skipped)} if self.skipped else {}
        return (self.record | left | ({"left_out": left_out} if left_out else {})) | {
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": {stage: round(seconds, 3) for stage, seconds in self.seconds.items()},
            "asked": [entry.record() for entry in self.session.entries()],
            "languages": summarise_languages(self.tallies, self._trained()),
        }

    def _trained(self) -> dict[str, bool]:
        """Return by language whether the detector that decided senses was trained on it."""
        trained = trained_languages(self.detector)
        return {
            language: base_language(language) in trained
            for language, tally in self.tallies.items()
            if trained and tally.counts["by_detector"]
        }

    def count(self, rankings: Sequence[Ranking]) -> None:
        """Count rankings of the run as done."""
        self.done += len(rankings)
        count_items(self.tallies, rankings)

    def rank_blocks(self, items: Iterable[Item]) -> Iterator[list[Ranking]]:
        """Rank items block by block; only one block is in memory."""
        for block in blocks(items):
            with _show_progress(self.done, len(block), self.record["items"]):
                rankings = self.rank_block(block, first=not self.done)
            yield rankings
            self.count(rankings)

    def rank_block(self, items: Sequence[Item], *, first: bool) -> list[Ranking]:
        """Rank some items of the set, or all of them.

        Args:
            first: whether they are the run's first. Then a chat model without any usable reply is
                an error; otherwise a warning lists the items.

        Raises:
            PluginError: a plug-in fails, and ``skips_bad`` is False.
        """
        try:
            return self._rank_together(items, first=first)
        except PluginError as error:
            if not self.skips_bad:
                raise
            if len(items) == 1:
                sentence = textwrap.shorten(items[0].sentence, 60, placeholder="…")
                log.warning("%s Skipped: “%s”", error, sentence)
                self.skipped.append(f"“{sentence}”: {error}")
                return []
        half = len(items) // 2  # results so far come from the caches
        left = self.rank_block(items[:half], first=first)
        return left + self.rank_block(items[half:], first=False)

    def _rank_together(self, items: Sequence[Item], *, first: bool) -> list[Ranking]:
        settings = self.settings
        readings: list[list[Interpretation]] = []
        judgements: list[list[tuple[Judgement, ...]]] = [[()] * len(items) for _ in self.models]
        decided: dict[str, list[Judgement]] = {}
        if self.models:
            with self._timed("senses and meanings"):
                for model, method, rankers in zip(
                    self.models, self.methods, self.rankers, strict=True
                ):
                    for ranker in rankers:
                        if model.llm and ranker.name == method:
                            decided[model.name] = ranker.judge(items, [None] * len(items))
                            check_answers(items, decided[model.name], model.llm, first=first)
                readings = interpret(
                    items,
                    self.models,
                    self.prompts,
                    settings,
                    seed=settings.seed,
                    glosses=requested_glosses(settings),
                    strict=first,
                    detector=self.detector,
                    encoder=next(
                        (e.tracks["caption"] for e in self.encoders if "caption" in e.tracks), None
                    ),
                    senses={
                        name: [judgement.sense for judgement in row if judgement.sense]
                        for name, row in decided.items()
                    },
                    dictionaries=self.dictionaries,
                )
        if settings.looks:
            with self._timed("rankers"):
                for k, model in enumerate(self.models):
                    inputs = (readings[k], decided.get(model.name))
                    judgements[k] = judge(items, model, self.rankers[k], *inputs, first=first)
                    readings[k] = list(map(_explained, readings[k], judgements[k]))
        with self._timed("encoding and scores"):
            compared: Sequence[Sequence[Comparison]] = [()] * len(items)
            if settings.compares:
                compared = compare(items, readings, settings, self.encoders)
            pictures = any("image" in encoder.tracks for encoder in self.encoders)
            leaked = find_leaks(items, self._training_digests, pictures=pictures)
            return [
                _rank_item(
                    item,
                    compared[k],
                    [row[k] for row in readings],
                    [row[k] for row in judgements],
                    leaked[k],
                    settings.abstain_below,
                )
                for k, item in enumerate(items)
            ]

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        """Add the time of a block to a stage."""
        started = time.perf_counter()
        yield
        self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - started


def _named(model: Source | TextEncoder | Dictionary) -> dict[str, str]:
    return {"name": model.name, "identity": model.identity}


def _show_progress(before: int, count: int, total: int) -> AbstractContextManager[None]:
    """Log the progress inside a block from time to time, if there are several blocks."""
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


def sense_methods(settings: Settings, sources: Sequence[Source]) -> list[str]:
    """Return how the sense is decided for each source: its own votes, a detector, a ranker."""
    decide = (name for name in settings.judges if any_ranker([name], "decides_senses"))
    decided_by = next(decide, "")
    return [sense_method(settings.sense, source, decided_by) for source in sources]


def check_senses(summary: SetSummary, sources: Sequence[Source], chosen: Sequence[str]) -> None:
    """Refuse items whose sense cannot be decided.

    Args:
        chosen: how the sense is decided for each source.
    """
    pairs = zip(sources, chosen, strict=True)
    methods = {method for source, method in pairs if source.llm or method != "vote"}
    if "given" in methods and "sentence_type" in summary.first_missing:
        given(summary.first_missing["sentence_type"][1])
    if {"vote", "detector"} & methods and "context" in summary.first_missing:
        check_contexts([summary.first_missing["context"][1]])


def requested_glosses(settings: Settings) -> Glosses:
    """Return the items whose gloss a run requests."""
    if not any_ranker(settings.rankers, "uses_meanings"):
        return "none"
    both = settings.scoring.gate == "soft" or any_ranker(settings.rankers, "weighs_both_senses")
    return "all" if both else "idiomatic"


def _explained(reading: Interpretation, judgements: Sequence[Judgement]) -> Interpretation:
    """Add the meaning from a ranker's answers to an interpretation without one."""
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
    leaked: dict[str, list[Kind]],
    abstain_below: float | None,
) -> Ranking:
    """Rank an item by its comparisons, if there are any, and each chat model's judgements."""
    names = item.names
    # Scores of chat models by what ranks, an encoder or another ranker; and by ranker, its members.
    by_member: defaultdict[str, list[Scores]] = defaultdict(list)
    members: defaultdict[str, dict[str, None]] = defaultdict(dict)
    rows: list[dict[str, Any]] = []
    added: list[tuple[str, str, list[Part]]] = []
    several = len({comparison.encoder for comparison in compared}) > 1
    for comparison in compared:
        member = f"encoder {comparison.encoder}"
        by_member[member].append(comparison.scores)
        members["embeddings"][member] = None
        added.append(("embeddings", member, list(comparison.parts)))
        own = {"ranker": "embeddings"} | ({"encoder": comparison.encoder} if several else {})
        own |= _columns(comparison.interpretation)
        for j, name in enumerate(names):
            cosines = {
                f"{track}_{role}": values[q, j]
                for track, values in comparison.cosines.items()
                for q, role in enumerate(comparison.roles)
            }
            scores = {"llm_score": comparison.scores[j]}
            rows.append({"candidate": name} | own | cosines | scores)
    for reading, row in zip(readings, judgements, strict=True):
        for judgement in row:
            points = comparable(np.array(judgement.scores))
            by_member[judgement.ranker].append(points)
            members[judgement.ranker][judgement.ranker] = None
            part = Part(judgement.ranker, None, points)
            added.append((judgement.ranker, judgement.ranker, [part]))
            own = {"ranker": judgement.ranker} | _columns(reading)
            answers = {"agreement": judgement.agreement, "unread": judgement.unread}
            rows += [
                {"candidate": name} | own | {"llm_score": value} | answers
                for name, value in zip(names, judgement.scores, strict=True)
            ]
    # Models have equal weights (section 2.3 of the paper).
    means: dict[str, Scores] = {m: np.mean(models, axis=0) for m, models in by_member.items()}
    by_ranker = {ranker: _together([means[m] for m in own]) for ranker, own in members.items()}
    for start, (ranker, member, parts) in zip(range(0, len(rows), len(names)), added, strict=True):
        counted = [part._replace(values=part.values / len(by_member[member])) for part in parts]
        counted = as_counted(counted, means[member], len(members[ranker]))
        for part in as_counted(counted, by_ranker[ranker], len(by_ranker)):
            for cells, value in zip(rows[start : start + len(names)], part.values, strict=True):
                cells[part_column(part)] = value
    sure = confidence(mean_probability(r.sense for r in readings), agreed_sense(readings))
    return Ranking.of(
        item,
        _together([*by_ranker.values()]),
        rows,
        readings,
        judgements=tuple(judgement for row in judgements for judgement in row),
        seen=leaked,
        unsure=item.has_sense and abstain_below is not None and sure < abstain_below,
    )


def _together(scores: Sequence[Scores]) -> Scores:
    """Return the scores of one encoder or ranker as they are, and of several fused."""
    return scores[0] if len(scores) == 1 else fuse_scores(scores)


def _columns(reading: Interpretation | None) -> dict[str, Any]:
    if reading is None:
        return {}
    sense = reading.sense
    counts = () if sense.by else ("idiomatic", "literal", "unparsed")
    return {
        "llm": reading.llm,
        "predicted_type": sense.label or "",
        "probability_idiomatic": sense.probability_idiomatic,
        "confidence": sense.confidence,
        **({"by": sense.by} if sense.by else {}),
        **{f"votes_{name}": getattr(sense, name) for name in counts},
        "gloss": reading.gloss or "",
    }
