"""The ranking pipeline: senses, meanings, rankers, scores and orders of items."""

from __future__ import annotations

import logging
import textwrap
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, get_args

import numpy as np
from pydantic_core import to_jsonable_python

from admire.core.choices import TRACKS
from admire.core.errors import UserError
from admire.core.progress import (
    SECONDS_BETWEEN_LINES,
    Progress,
    progress_as_wanted,
    progress_is_wanted,
    progress_told_to,
)
from admire.core.registry import PluginError
from admire.data.items import Item, SenseLabel
from admire.data.languages import base_language, check_language, detect_language
from admire.data.overlap import Digests, Kind
from admire.data.reader import Data, take_items
from admire.encoders import TextEncoder
from admire.encoders.cached import log_long
from admire.llm.account import account_row
from admire.llm.chat import Capabilities
from admire.llm.session import Session
from admire.metrics.leakage import find_leaks, training_digests
from admire.pipeline.chat_stage import (
    Judged,
    Models,
    ResolvedModels,
    open_stage,
    resolve_models,
)
from admire.pipeline.ranking import Ranking, Run, blocks, part_column
from admire.pipeline.record import (
    VERSION,
    Tallies,
    count_items,
    source_record,
    summarise_languages,
    versions,
)
from admire.prompts import Prompts
from admire.rankers import (
    Judgement,
    Part,
    RunEncoders,
    look_where_no_caption_is,
    open_comparing,
    open_encoders,
)
from admire.rankers.judgement import as_counted
from admire.rankers.scorer import Scores, fuse_scores, rank_names
from admire.rankers.settings import RequestOptions, SetSummary, Settings, check_items, summarise_set
from admire.senses import Detector, Recording
from admire.senses.detector import trained_languages
from admire.senses.dictionaries import Dictionary
from admire.senses.interpretation import Interpretation, meanings_method

if TYPE_CHECKING:
    from PIL.Image import Image

    Picture = str | Path | bytes | Image

log = logging.getLogger("admire")


def rank(
    items: Data,
    settings: Settings | None = None,
    *,
    asking: RequestOptions | None = None,
    images: str | Path | None = None,
    source: str | Path | None = None,
    progress: Progress = None,
    **models: Unpack[Models],
) -> Run:
    """Rank each item's candidates by how well they show the intended sense.

    Args:
        items: a file or folder, see :func:`admire.read_items`; a DataFrame or rows as dicts, see
            :func:`admire.items_from_frame`; or Items.
        asking: concurrency, timeout, budget and cache of the requests to chat models.
        images: a folder with the pictures, if they are elsewhere.
        source: the file or folder that the items were read from, for the run's record (default:
            ``items``, if it is a path).
        progress: whether to show it, or a function that is called with the task, the number done
            and the total. None shows it in notebooks and on terminals.
        models: ``llms``, ``encoder``, ``caption_encoder`` and ``detector``, by name or as objects,
            that replace those of ``settings``. Your own chat model or encoder derives from
            :class:`admire.llm.ChatModel` or :class:`admire.encoders.TextEncoder`. A list of
            encoders is an ensemble.

    Raises:
        UserError: an argument is invalid, an item has no candidates, a model is missing or fails, a
            head does not fit the encoder, or the budget is spent.
    """
    if source is None and isinstance(items, str | Path):
        source = items
    with progress_as_wanted(progress):
        ranked = take_items(items, images=images)
        resolved = resolve_models(settings, asking, **models)
        record = source_record(source, images=images) if source else None
        run = RankingPipeline(summarise_set(ranked), resolved, record)
        return Run(tuple(chain.from_iterable(run.rank_blocks(ranked))), run.finish())


class Options(Models, total=False):
    """The arguments that :func:`rank_one` passes on to :func:`rank`."""

    asking: RequestOptions | None
    progress: Progress


def rank_one(
    compound: str,
    sentence: str,
    images: Iterable[Picture | None] | None = None,
    captions: Iterable[str | None] | None = None,
    *,
    definitions: Iterable[str] | None = None,
    language: str | None = None,
    settings: Settings | None = None,
    **options: Unpack[Options],
) -> Run:
    """Rank pictures, captions, or pictures with captions, for one sentence.

    A candidate's name is that of its picture's file, or ``image1``, ``image2``, … for pictures in
    memory, or ``candidate1``, ``candidate2``, … without a picture. Repeated names get a number.

    Args:
        images: paths, the bytes of image files, or PIL's images, in a list, an array or a column
            of a table; None for a candidate without. Bytes and PIL's images are stored in
            ``pictures`` in admire's cache, as files named by their SHA-256.
        captions: in the images' order; None or an empty text for a candidate without.
        language: of sentence and captions (default: detected in the sentence).
        definitions: up to two definitions of the compound in the sentence; then no model is asked.
        settings, options: as for :func:`admire.rank`.

    Raises:
        UserError: an argument is invalid; and as for :func:`admire.rank`.
    """
    from admire.data.rows import RowReader
    from admire.data.sources import describe_type, plain_row

    lists = {"definitions": definitions, "images": images, "captions": captions}
    row = plain_row({"compound": compound, "sentence": sentence, **lists})
    for name in lists:
        if row[name] and not isinstance(row[name], list):
            raise UserError(f"{name} must be a list, not {describe_type(row[name])}.", name)
    row["images"] = [
        Path(image).expanduser() if isinstance(image, str) and image else image
        for image in row["images"]
    ]
    tag = check_language(language) if language else detect_language(sentence)
    return rank([RowReader(language=tag).item(row, "")], settings, **options)


class RankingPipeline:
    """The models of a run, opened for a checked set, and the state of its ranking.

    Attributes:
        settings: resolved for this set.
        stage: the conversations with chat models.
        caption_encoder: encodes captions, if an encoder of the run does.
        encoders: see :func:`admire.rankers.open_encoders`.
        rankers: those that judge many items at once, without a chat model.
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
        self.seconds: dict[str, float] = {}
        self.done = 0
        self.tallies: Tallies = {}
        settings = resolved.settings
        check_items(summary, settings)
        if settings.compares and not resolved.encoder and not resolved.caption_encoder:
            settings = look_where_no_caption_is(summary, settings)
            resolved = resolved._replace(settings=settings)
        self.settings = settings
        self.prompts = Prompts(settings.prompts)
        # Before the encoders, which may download gigabytes.
        self.session = Session(**vars(resolved.asking), plugins=settings.plugins)
        self.stage = open_stage(summary, resolved, self.session, self.prompts)
        self.detector = self.stage.detector
        self.encoders = RunEncoders()
        if settings.compares:
            given_encoders = resolved.encoder, resolved.caption_encoder
            self.encoders = open_encoders(summary, settings, *given_encoders)
        by_captions = [e.tracks["caption"] for e in self.encoders if "caption" in e.tracks]
        self.caption_encoder = by_captions[0] if by_captions else None
        self.rankers = open_comparing(
            settings.rankers, self.prompts, settings, encoders=self.encoders
        )
        self.heads = [encoder.head for encoder in self.encoders if encoder.head]
        self._training_digests = _training_digests(self.heads, self.detector)
        self.record = self._begin(summary, source)

    def _begin(self, summary: SetSummary, source: Mapping[str, str] | None) -> dict[str, Any]:
        """Return the first part of the record: settings, identities, prompts' hashes, versions."""
        settings = to_jsonable_python(self.settings, fallback=str)
        if not settings["plugins"]:
            del settings["plugins"]
        if self.settings.llm_url:
            from admire.llm.address import Address

            settings["llm_url"] = Address.parse(self.settings.llm_url).shown
        llms, seen = [], set[str]()
        for speaker in self.stage.speakers:
            method = speaker.decider.name if speaker.decider else speaker.method
            method = "none" if "word" in summary.contexts else method
            meanings = meanings_method(self.settings.meanings, speaker.model)
            llms.append(_named(speaker.model) | {"sense": method, "meanings": meanings})
            for ranker in speaker.rankers:
                seen.update(ranker.tracks)
        compared = defaultdict(list)
        for track in TRACKS:
            for encoder in self.encoders:
                if track in encoder.tracks:
                    compared[track].append(_named(encoder.tracks[track]))
        saw = sorted({*compared, *seen}, key=TRACKS.index)
        settings["track"] = "+".join(compared or saw) or None
        return {
            "version": VERSION,
            "source": source,
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "items": summary.items,
            "settings": settings,
            "saw": saw,
            "models": {
                "llms": llms,
                "encoders": dict(compared),
                "detector": self.detector.identity if self.detector else None,
                "head": " + ".join([head.identity for head in self.heads]) or None,
                "dictionaries": list(map(_named, self.stage.dictionaries)),
            },
            "prompts": self.prompts.fingerprints,
            "versions": versions(),
        }

    def finish(self) -> dict[str, Any]:
        """Return the complete record of the run after its end."""
        long_texts = self.encoders.long_texts
        log_long(long_texts, "captions")
        record = self.record.copy()
        if self.skipped:
            record["items"] -= len(self.skipped)
            record["left_out"] = [*record.get("left_out", ()), *self.skipped]
        known = trained_languages(self.detector)
        trained = {
            language: base_language(language) in known
            for language, tally in self.tallies.items()
            if known and tally["by_detector"]
        }
        return record | {
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": {stage: round(seconds, 3) for stage, seconds in self.seconds.items()},
            "asked": list(map(account_row, self.session.entries())),
            "long_texts": long_texts,
            "noise": {
                encoder.name: noise
                for encoder, noise in zip(self.encoders, self.encoders.noise, strict=True)
            },
            "languages": summarise_languages(self.tallies, trained),
        }

    def count(self, rankings: Sequence[Ranking]) -> None:
        """Count rankings of the run as done."""
        self.done += len(rankings)
        count_items(self.tallies, rankings)
        self.encoders.count_long(ranking.item for ranking in rankings)

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
            rankings = self._rank_together(items, first=first)
        except PluginError as error:
            if not self.skips_bad:
                raise
            if len(items) == 1:
                sentence = textwrap.shorten(items[0].sentence, 60, placeholder="…")
                log.warning("%s Skipped: “%s”", error, sentence)
                self.skipped.append(f"“{sentence}”: {error}")
                return []
        else:
            if lacking := [ranking for ranking in rankings if ranking.uncompared]:
                log.warning(
                    "'%s': nothing compares %s with another candidate, so it is last%s.",
                    lacking[0].compound,
                    ", ".join(lacking[0].uncompared),
                    f" (as in {len(lacking) - 1} other items)" if lacking[1:] else "",
                )
            return rankings
        half = len(items) // 2  # results so far come from the caches
        left = self.rank_block(items[:half], first=first)
        return left + self.rank_block(items[half:], first=False)

    def _rank_together(self, items: Sequence[Item], *, first: bool) -> list[Ranking]:
        said = list[list[Judged]]()
        if self.stage.speakers:
            with self._timed("senses and meanings"):
                decided = self.stage.decide(items, self.caption_encoder)
            said = self.stage.hold(items, decided, strict=first)
            for purpose, seconds in self.session.pop_seconds().items():
                self._spend("rankers" if purpose == "ranking" else "senses and meanings", seconds)
        by_model: list[list[Interpretation | None]] = [[own for own, _ in row] for row in said]
        if self.settings.query != "meaning" or not by_model:
            by_model = [[None] * len(items)]
        with self._timed("encoding and scores"):
            compared = self._compare(items, by_model)
            pictures = any("image" in encoder.tracks for encoder in self.encoders)
            leaked = find_leaks(items, self._training_digests, pictures=pictures)
            below = self.settings.abstain_below
            return [
                _rank_item(item, compared[k], [row[k] for row in said], leaked[k], below)
                for k, item in enumerate(items)
            ]

    def _compare(
        self, items: Sequence[Item], by_model: Sequence[Sequence[Interpretation | None]]
    ) -> list[list[Evidence]]:
        """Return what the rankers that compare many items judge of each item.

        Args:
            by_model: the readings of the items by each chat model; None for a baseline.
        """
        # All models' readings at once, so that their texts are encoded together.
        readings = [reading for row in by_model for reading in row]
        evidence: list[list[Evidence]] = [[] for _ in items]
        for ranker in self.rankers:
            results = iter(ranker.judge_all([*items] * len(by_model), readings))
            judged = [[next(results) for _ in items] for _ in by_model]
            for k, own in enumerate(evidence):
                for of_encoder in zip(*(row[k] for row in judged), strict=True):
                    own += zip([row[k] for row in by_model], of_encoder, strict=True)
        return evidence

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        """Add the time of a block to a stage."""
        started = time.perf_counter()
        yield
        self._spend(stage, time.perf_counter() - started)

    def _spend(self, stage: str, seconds: float) -> None:
        self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds


def _training_digests(heads: Sequence[Any], detector: Detector | None) -> Mapping[str, Digests]:
    """Return what the heads and the detector of a run saw in training, by kind."""
    by_kind: dict[str, dict[str, Any]] = {}
    for kind, model in [*(("head", head) for head in heads), ("detector", detector)]:
        if model and (digests := training_digests(model)) is not None:
            known = by_kind.setdefault(kind, {})
            for of, listed in digests.items():
                known[of] = [*known.get(of, ()), *listed]
    return by_kind


def _named(model: Capabilities | Recording | TextEncoder | Dictionary) -> dict[str, str]:
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


Evidence = tuple[Interpretation | None, Judgement]
"""A judgement, and the reading that it is of; None for a baseline."""


def _rank_item(
    item: Item,
    together: Sequence[Evidence],
    said: Sequence[Judged],
    leaked: dict[str, list[Kind]],
    abstain_below: float | None,
) -> Ranking:
    """Rank an item by the judgements of all rankers and chat models.

    Models have equal weights (section 2.3 of the paper), and so have a ranker's encoders and then
    the rankers.
    """
    evidence, readings = [*together], list[Interpretation]()
    for own, judgements in said:
        readings.append(own)
        evidence += [(own, judgement) for judgement in judgements]
    points, fused = _fuse(judgement for _, judgement in evidence)
    leads = [j.leads for _, j in evidence if j.leads is not None]
    last = _uncompared(item.names, [judgement for _, judgement in evidence])
    several = len({judgement.encoder for _, judgement in together}) > 1
    rows: list[dict[str, Any]] = []
    for reading, judgement in evidence:
        ranker = judgement.ranker
        parts = [
            part._replace(values=part.values / len(points[ranker]))
            for part in judgement.parts or [Part(ranker, None, judgement.points)]
        ]
        if len(points) > 1:
            parts = as_counted(parts, np.mean(points[ranker], axis=0), len(points))
        rows += _rows(item, reading, judgement, parts, several=several and judgement.encoder != "")
    by_sense: dict[SenseLabel, tuple[str, ...]] = {}
    for label in get_args(SenseLabel) if all(j.by_sense for _, j in evidence) else ():
        meant = (replace(j, scores=j.by_sense[label]) for _, j in evidence)
        by_sense[label] = rank_names(item.names, _fuse(meant)[1], last)
    return Ranking.of(
        item,
        fused,
        rows,
        readings,
        abstain_below=abstain_below,
        uncompared=last,
        leads=np.mean(leads, axis=0) if len(leads) == len(evidence) else None,
        judgements=tuple(j for _, j in evidence if not j.cells),
        seen=leaked,
        by_sense=by_sense,
    )


def _uncompared(names: Sequence[str], judgements: Sequence[Judgement]) -> tuple[str, ...]:
    """Return the candidates that no judgement compares with another one."""
    masks = [judgement.compared or [True] * len(names) for judgement in judgements]
    return tuple(name for name, *by in zip(names, *masks, strict=True) if not any(by))


def _fuse(judgements: Iterable[Judgement]) -> tuple[dict[str, list[Scores]], Scores]:
    """Return the points by ranker, and the fused means of the rankers, or the mean of one."""
    points: defaultdict[str, list[Scores]] = defaultdict(list)
    for judgement in judgements:
        points[judgement.ranker].append(judgement.points)
    means = [np.mean(of_ranker, axis=0) for of_ranker in points.values()]
    return points, fuse_scores(means) if len(means) > 1 else means[0]


def _rows(
    item: Item,
    reading: Interpretation | None,
    judgement: Judgement,
    parts: Sequence[Part],
    *,
    several: bool,
) -> list[dict[str, Any]]:
    """Return a judgement's rows of scores.csv, one for each candidate.

    Args:
        several: whether the ranker has several encoders.
    """
    own: dict[str, Any] = {"ranker": judgement.ranker}
    if several:
        own["encoder"] = judgement.encoder
    if reading:
        sense = reading.sense
        own |= {
            "llm": reading.llm,
            "predicted_type": sense.label or "",
            "probability_idiomatic": sense.probability_idiomatic,
            "confidence": sense.confidence,
        }
        if sense.by:
            own["by"] = sense.by
        else:
            own["votes_idiomatic"], own["votes_literal"] = sense.idiomatic, sense.literal
            own["votes_unparsed"] = sense.unparsed
        own["gloss"] = reading.gloss or ""
    columns: dict[str, Any] = {**judgement.cells, "llm_score": judgement.scores}
    if not judgement.cells:
        columns["agreement"] = [judgement.agreement] * len(item.names)
        columns["unread"] = [judgement.unread] * len(item.names)
    for part in parts:
        columns[part_column(part)] = part.values
    return [
        {"candidate": name, **own, **dict(zip(columns, values, strict=True))}
        for name, *values in zip(item.names, *columns.values(), strict=True)
    ]
