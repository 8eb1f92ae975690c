"""The ranking pipeline: senses, meanings, rankers, scores and orders of items."""

from __future__ import annotations

import logging
import textwrap
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain, islice, product
from operator import attrgetter
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
from admire.llm.bound_model import account_row
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
from admire.pipeline.ranking import PartColumns, Ranking, Run, blocks, part_column
from admire.pipeline.record import (
    VERSION,
    Tallies,
    count_item,
    source_record,
    summarise_languages,
    versions,
)
from admire.prompts import Prompts
from admire.rankers import RunEncoder, look_where_no_caption_is, open_comparing, open_encoders
from admire.rankers.judgement import Judgement, Part, as_counted
from admire.rankers.run_encoders import count_long
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
        progress: whether to show it (None: in notebooks and on terminals), or a function that is
            called with the task, the number done and the total.
        models: ``llms``, ``encoder``, ``caption_encoder`` and ``detector``, by name or as objects,
            that replace those of ``settings``. Your own derive from
            :class:`admire.llm.ChatModel` or :class:`admire.encoders.TextEncoder`.

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
        images: paths, the bytes of image files, or PIL's images; None for a candidate without.
            Bytes and PIL's images are stored in ``pictures`` in admire's cache, as files named by
            their SHA-256.
        captions: in the images' order; None or an empty text for a candidate without.
        language: of sentence and captions (default: detected in the sentence).
        definitions: up to two definitions of the compound in the sentence; then no model is asked.
        settings, options: as for :func:`admire.rank`, as are the errors.
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
        caption_encoder: encodes captions, if an encoder of the run does.
        rankers: those that judge many items at once, without a chat model.
        seconds: the time of each stage so far.
        tallies: the counts of the items that are done, by language.
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
        self.seconds: dict[str, float] = defaultdict(float)
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
        self.encoders = list[RunEncoder]()
        if settings.compares:
            opened = resolved.encoder, resolved.caption_encoder
            self.encoders = open_encoders(summary, settings, *opened)
        of_captions = [e.tracks["caption"] for e in self.encoders if "caption" in e.tracks]
        self.caption_encoder = next(iter(of_captions), None)
        self.rankers = open_comparing(self.prompts, settings, encoders=self.encoders)
        self.heads = [encoder.head for encoder in self.encoders if encoder.head]
        self._training_digests = _training_digests(self.heads, self.stage.detector)
        self.record = self._begin(summary, source)

    def _begin(self, summary: SetSummary, source: Mapping[str, str] | None) -> dict[str, Any]:
        """Return the first part of the record: settings, identities, prompts' hashes, versions."""
        settings = to_jsonable_python(self.settings, fallback=str)
        if not settings["plugins"]:
            del settings["plugins"]
        if self.settings.llm_url:
            from admire.llm.address import Address

            settings["llm_url"] = Address.parse(self.settings.llm_url).shown
        llms, saw = [], set[str]()
        for speaker in self.stage.speakers:
            method = speaker.decider.name if speaker.decider else speaker.method
            method = "none" if "word" in summary.contexts else method
            meanings = meanings_method(self.settings.meanings, speaker.model)
            llms.append(_named(speaker.model) | {"sense": method, "meanings": meanings})
            for ranker in speaker.rankers:
                saw.update(ranker.tracks)
        compared: dict[str, list[dict[str, str]]] = {}
        for track, encoder in product(TRACKS, self.encoders):
            if track in encoder.tracks:
                compared.setdefault(track, []).append(_named(encoder.tracks[track]))
        tracks = sorted({*compared, *saw}, key=TRACKS.index)
        settings["track"] = "+".join(compared or tracks) or None
        return {
            "version": VERSION,
            "source": source,
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "items": summary.items,
            "settings": settings,
            "saw": tracks,
            "models": {
                "llms": llms,
                "encoders": compared,
                "detector": self.stage.detector.identity if self.stage.detector else None,
                "head": " + ".join([head.identity for head in self.heads]) or None,
                "dictionaries": list(map(_named, self.stage.dictionaries)),
            },
            "prompts": self.prompts.fingerprints,
            "versions": versions(),
        }

    def finish(self) -> dict[str, Any]:
        """Return the complete record of the run after its end."""
        long_texts = list(filter(None, map(attrgetter("long_texts"), self.encoders)))
        log_long(long_texts, "captions")
        record = self.record.copy()
        if self.skipped:
            record["items"] -= len(self.skipped)
            record["left_out"] = [*record.get("left_out", ()), *self.skipped]
        languages = trained_languages(self.stage.detector)
        trained = {
            language: base_language(language) in languages
            for language, tally in self.tallies.items()
            if languages and tally["by_detector"]
        }
        return record | {
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": {stage: round(seconds, 3) for stage, seconds in self.seconds.items()},
            "asked": list(map(account_row, self.session.entries())),
            "long_texts": long_texts,
            "noise": {encoder.name: encoder.noise for encoder in self.encoders},
            "languages": summarise_languages(self.tallies, trained),
        }

    def count(self, rankings: Sequence[Ranking]) -> None:
        """Count rankings of the run as done."""
        self.done += len(rankings)
        for ranking in rankings:
            count_item(self.tallies, ranking)
            count_long(self.encoders, ranking.item)

    def rank_blocks(self, items: Iterable[Item]) -> Iterator[list[Ranking]]:
        """Rank items block by block; only one block is in memory."""
        for block in blocks(items):
            with _show_progress(self.done, len(block), self.record["items"]):
                rankings = self.rank_block(block, first=not self.done)
            yield rankings
            self.count(rankings)

    def rank_block(self, items: Sequence[Item], *, first: bool) -> list[Ranking]:
        """Rank some items of the set; of the run's first, a chat model must give a usable reply."""
        try:
            rankings = self._rank_together(items, first=first)
        except PluginError as error:
            if not self.skips_bad:
                raise
            if half := len(items) // 2:  # results so far come from the caches
                left = self.rank_block(items[:half], first=first)
                return left + self.rank_block(items[half:], first=False)
            sentence = textwrap.shorten(items[0].sentence, 60, placeholder="…")
            log.warning("%s Skipped: “%s”", error, sentence)
            self.skipped.append(f"“{sentence}”: {error}")
            return []
        if lacking := [ranking for ranking in rankings if ranking.uncompared]:
            log.warning(
                "'%s': nothing compares %s with the other candidates, so they come last%s.",
                lacking[0].compound,
                ", ".join(lacking[0].uncompared),
                f" (as in {len(lacking) - 1} other items)" if lacking[1:] else "",
            )
        return rankings

    def _rank_together(self, items: Sequence[Item], *, first: bool) -> list[Ranking]:
        heard = list[list[Judged]]()
        if self.stage.speakers:
            started = time.perf_counter()
            decided = self.stage.decide(items, self.caption_encoder)
            self.seconds["senses and meanings"] += time.perf_counter() - started
            heard = self.stage.hold(items, decided, strict=first)
            for purpose, spent in self.session.seconds.items():
                self.seconds[STAGES.get(purpose, "senses and meanings")] += spent
            self.session.seconds.clear()
        by_model: list[list[Interpretation | None]] = [[own for own, _ in row] for row in heard]
        if self.settings.query != "meaning" or not by_model:
            by_model = [[None] * len(items)]
        started = time.perf_counter()
        compared: list[list[Evidence]] = [[] for _ in items]
        for ranker in self.rankers:
            # All models' readings at once, so that their texts are encoded together.
            results = iter(ranker.judge_all([*items] * len(by_model), [*chain(*by_model)]))
            judged = [list(islice(results, len(items))) for _ in by_model]
            for k, own in enumerate(compared):
                for of_encoder in zip(*(row[k] for row in judged), strict=True):
                    own += zip([row[k] for row in by_model], of_encoder, strict=True)
        pictures = "image" in self.record["models"]["encoders"]
        leaked = find_leaks(items, self._training_digests, pictures=pictures)
        below = self.settings.abstain_below
        rankings = [
            _rank_item(item, compared[k], [row[k] for row in heard], leaked[k], below)
            for k, item in enumerate(items)
        ]
        self.seconds["encoding and scores"] += time.perf_counter() - started
        return rankings


def _training_digests(heads: Sequence[Any], detector: Detector | None) -> Mapping[str, Digests]:
    """Return what the heads and the detector of a run saw in training, by kind."""
    by_kind: dict[str, dict[str, Any]] = {}
    for model in (*heads, detector):
        if model and (digests := training_digests(model)) is not None:
            own = by_kind.setdefault("detector" if model is detector else "head", {})
            for of, listed in digests.items():
                own[of] = [*own.get(of, ()), *listed]
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


STAGES = {"ranking": "rankers"}
"""The stage of a purpose's questions in a run's seconds; of other purposes it is meanings."""

Evidence = tuple[Interpretation | None, Judgement]
"""A judgement, and the reading that it is of; None for a baseline."""


def _rank_item(
    item: Item,
    together: Sequence[Evidence],
    alone: Sequence[Judged],
    leaked: dict[str, list[Kind]],
    abstain_below: float | None,
) -> Ranking:
    """Rank an item by all judgements, with equal weights of models (section 2.3 of the paper)."""
    evidence, readings = [*together], list[Interpretation]()
    for reading, judgements in alone:
        readings.append(reading)
        evidence += [(reading, judgement) for judgement in judgements]
    every = [judgement for _, judgement in evidence]
    points, fused = _fuse(every)
    leads = [judgement.leads for judgement in every if judgement.leads is not None]
    masks = [judgement.compared or [True] * len(item.candidates) for judgement in every]
    last = tuple(name for name, *by in zip(item.names, *masks, strict=True) if not any(by))
    several = len({judgement.encoder for _, judgement in together}) > 1
    by_sense: dict[SenseLabel, tuple[str, ...]] = {}
    for label in get_args(SenseLabel) if all(judgement.by_sense for judgement in every) else ():
        meant = (replace(judgement, scores=judgement.by_sense[label]) for judgement in every)
        by_sense[label] = rank_names(item.names, _fuse(meant)[1], last)
    return Ranking.of(
        item,
        fused,
        [_columns(reading, judgement, points, several=several) for reading, judgement in evidence],
        readings,
        abstain_below=abstain_below,
        uncompared=last,
        leads=np.mean(leads, axis=0) if len(leads) == len(every) else None,
        judgements=tuple(judgement for judgement in every if not judgement.cells),
        seen=leaked,
        by_sense=by_sense,
    )


def _fuse(judgements: Iterable[Judgement]) -> tuple[dict[str, list[Scores]], Scores]:
    """Return the points by ranker, and the fused means of the rankers, or the mean of one."""
    points: defaultdict[str, list[Scores]] = defaultdict(list)
    for judgement in judgements:
        points[judgement.ranker].append(judgement.points)
    means = [np.mean(of_ranker, axis=0) for of_ranker in points.values()]
    return points, fuse_scores(means) if len(means) > 1 else means[0]


def _columns(
    reading: Interpretation | None,
    judgement: Judgement,
    points: Mapping[str, Sequence[Scores]],
    *,
    several: bool,
) -> PartColumns:
    """Return a judgement's columns of scores.csv; ``points`` are of all judgements of the item."""
    ranker, scores = judgement.ranker, points[judgement.ranker]
    own: dict[str, Any] = {"ranker": ranker}
    if several and judgement.encoder:
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
        columns["agreement"] = [judgement.agreement] * len(judgement.scores)
        columns["unread"] = [judgement.unread] * len(judgement.scores)
    parts = [
        part._replace(values=part.values / len(scores))
        for part in judgement.parts or [Part(ranker, None, judgement.points)]
    ]
    if len(points) > 1:
        parts = as_counted(parts, np.mean(scores, axis=0), len(points))
    for part in parts:
        columns[part_column(part)] = part.values
    return own, columns
