"""Embeddings: compares candidates with texts about the compound, as vectors."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import numpy as np

from admire.core import registry
from admire.core.choices import TRACKS
from admire.core.errors import UserError
from admire.core.registry import register
from admire.data.items import Item, SenseLabel
from admire.data.languages import base_language, language_name
from admire.encoders import ImageEncoder, TextEncoder, open_encoder
from admire.encoders.cached import CachedEncoder, checked
from admire.encoders.protocols import reads_images
from admire.rankers.judgement import Judgement, Part, as_counted
from admire.rankers.ranker import Ranker
from admire.rankers.scorer import (
    SMALLEST,
    Scores,
    Vector,
    comparable,
    contributions,
    query_weights,
    score,
)
from admire.rankers.settings import SetSummary, Settings
from admire.senses.interpretation import Interpretation
from admire.senses.sense import likelier

if TYPE_CHECKING:
    from admire.encoders.projection import Projection

log = logging.getLogger("admire")

Default = TypeVar("Default")


@dataclass(frozen=True)
class RunEncoder:
    """An encoder of a run.

    Attributes:
        tracks: the encoder by track. Captions may have their own.
        head: projects its vectors before they are compared.
        scales: by track, the mean over items of the deviation of an item's candidates in their
            cosines with the compound. Encoders may state it, see :class:`TextEncoder`; if one
            does not, it is measured on the first items of a run. See :class:`Scoring`.
        long_texts: how many captions were longer than it reads.
    """

    tracks: Mapping[str, CachedEncoder]
    head: Projection | None = None
    scales: dict[str, float] = field(default_factory=dict)
    long_texts: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The encoder's name; of two, joined by a plus."""
        return " + ".join(dict.fromkeys(encoder.name for encoder in self.tracks.values()))

    def compares(self, item: Item) -> bool:
        """Return whether it knows the item's language, and two candidates have what it encodes."""
        known = all(knows(encoder, item.language) for encoder in self.tracks.values())
        return known and not shares_no_view(item, self.tracks)


@register("ranker", "embeddings", needs=("embedded",))
class Embeddings(Ranker):
    """Vectors: candidates are compared with texts about the compound.

    Args:
        encoders: see :func:`open_encoders`. Of several, an item leaves out those that do not know
            its language, or that encode too little of its candidates. If that leaves none, the
            first one compares.
    """

    def __init__(self, encoders: Sequence[RunEncoder] = ()):
        self.encoders = encoders

    def judge(
        self, items: Sequence[Item], readings: Sequence[Interpretation | None]
    ) -> list[tuple[Judgement, ...]]:
        """Return a judgement by each encoder; see :class:`Ranker`.

        Raises:
            UserError: a file cannot be read, or an encoder's vectors cannot be compared.
        """
        judged: list[tuple[Judgement, ...]] = [()] * len(items)
        compared_by = [self._compared_by(item) for item in items]
        for encoder in self.encoders:
            places = [k for k, by in enumerate(compared_by) if encoder in by]
            own = [items[k] for k in places], [readings[k] for k in places]
            for k, judgement in zip(places, self._compare(*own, encoder), strict=True):
                judged[k] += (judgement,)
        return judged

    def measure(self, items: Sequence[Item]) -> None:
        """Measure the scales that encoders do not state, on the first items of a run."""
        for run_encoder in self.encoders:
            own = [item for item in items if run_encoder in self._compared_by(item)]
            if run_encoder.tracks.keys() - run_encoder.scales.keys():
                _spaces(own, [], run_encoder)

    def count_long(self, items: Iterable[Item]) -> list[dict[str, Any]]:
        """Count the captions of further items that are longer than an encoder reads; return the
        counts so far, see :meth:`CachedEncoder.count_long`."""
        for item in items:
            captions = [thing.caption for thing in item.things if thing.caption]
            for by in self._compared_by(item) if captions else ():
                if "caption" in by.tracks:
                    counted = by.tracks["caption"].count_long(captions)
                    for name in ("texts", "longer"):
                        counted[name] += by.long_texts.get(name, 0)
                    by.long_texts.update(counted)
        return [encoder.long_texts for encoder in self.encoders if encoder.long_texts]

    def _compared_by(self, item: Item) -> list[RunEncoder]:
        """Return the encoders that compare an item's candidates."""
        return [e for e in self.encoders if e.compares(item)] or [*self.encoders[:1]]

    def _compare(
        self,
        items: Sequence[Item],
        readings: Sequence[Interpretation | None],
        run_encoder: RunEncoder,
    ) -> list[Judgement]:
        """Compare items by one encoder."""
        encoders, head = run_encoder.tracks, run_encoder.head
        viewed = {item: _share_a_view(item, encoders) for item in dict.fromkeys(items)}
        items = [viewed[item] for item in items]
        queries = [
            _query(item, reading, self.settings)
            for item, reading in zip(items, readings, strict=True)
        ]
        texts = [text for query in queries for text in query.texts.values() if text]
        plain, headed = _spaces(items, texts, run_encoder)
        roles = {role for query in queries for role in query.texts}
        spaces = {role: headed if head and head.projects(role) else plain for role in roles}
        return [
            self._compared(item, query, spaces, run_encoder)
            for item, query in zip(items, queries, strict=True)
        ]

    def _compared(
        self,
        item: Item,
        query: _Query,
        spaces: Mapping[str, Mapping[str, _Space]],
        run_encoder: RunEncoder,
    ) -> Judgement:
        arrays, scoring = _cosines(item, query, spaces), self.settings.scoring

        def points(by_role: Mapping[str, float]) -> Scores:
            weights = [by_role.get(role, 0.0) for role in query.texts]
            return score(arrays, weights, scoring, run_encoder.scales)

        scores = points(query.weights)
        by_sense = {sense: points(by_role) for sense, by_role in query.by_sense.items()}
        weights = [query.weights.get(role, 0.0) for role in query.texts]
        places = {role: place for place, role in enumerate(query.texts)}
        counted = sorted(filter(query.weights.get, places), key=lambda role: role == "compound")
        added = contributions(arrays, weights, scoring, run_encoder.scales)
        parts = [
            Part(track, "unlike " * (query.weights[role] < 0) + role, values[places[role]])
            for track, values in added.items()
            for role in counted
        ]
        if len(self.encoders) > 1 and scoring.standardise != "encoder":
            parts, scores = as_counted(parts, scores, 1), comparable(scores)
            by_sense = {sense: comparable(values) for sense, values in by_sense.items()}
        return Judgement(
            self.name,
            query.llm,
            tuple(scores.tolist()),
            (),
            encoder=run_encoder.name,
            parts=tuple(parts),
            cells={
                f"{track}_{role}": values[q]
                for track, values in arrays.items()
                for q, role in enumerate(query.texts)
            },
            by_sense={sense: tuple(values.tolist()) for sense, values in by_sense.items()},
        )


def _cosines(
    item: Item, query: _Query, spaces: Mapping[str, Mapping[str, _Space]]
) -> dict[str, Scores]:
    """Return the query's cosines by track, shape (texts, candidates)."""
    cosines: dict[str, list[Scores]] = defaultdict(list)
    for role, text in query.texts.items():
        for track, space in spaces[role].items():
            vector = space.texts[text] if role != "sequence" else space.sequence(item)
            cosines[track].append(space.cosines(vector, item))
    shown = (getattr(part, track) for part in item.sequence for track in cosines)
    if "sequence" in query.texts and not any(shown):
        raise UserError(f"'{item.compound}': its sequence has no {'+'.join(cosines)}.", "track")
    return {track: np.array(rows) for track, rows in cosines.items()}


def _spaces(
    items: Sequence[Item], texts: Sequence[str], run_encoder: RunEncoder
) -> tuple[dict[str, _Space], dict[str, _Space]]:
    """Encode queries' texts and candidates by track, without and with the head, and measure the
    encoder's scales if they are not known."""
    encoders, head, scales = run_encoder.tracks, run_encoder.head, run_encoder.scales
    unknown = encoders.keys() - scales.keys()
    phrases = [item.phrase for item in items] if unknown else []
    plain = _encode(items, [*texts, *phrases], encoders)
    headed = {track: space.projected(head) for track, space in plain.items()} if head else plain
    for track in unknown:
        space = headed[track]
        rows = [space.cosines(space.texts[item.phrase], item) for item in items]
        spreads = [float(np.nanstd(row)) for row in rows if not np.isnan(row).all()]
        if differing := [spread for spread in spreads if spread > SMALLEST]:
            scales[track] = sum(differing) / len(differing)
    return plain, headed


def _encode(
    items: Sequence[Item], texts: Sequence[str], encoders: Mapping[str, CachedEncoder]
) -> dict[str, _Space]:
    """Encode queries' texts, and each image or caption, also those of sequences, by track."""
    distinct = {encoder.identity: encoder for encoder in encoders.values()}
    texts = list(dict.fromkeys(texts))
    encoded = {
        name: dict(zip(texts, encoder.encode_texts(texts, role="query"), strict=True))
        for name, encoder in distinct.items()
    }
    spaces: dict[str, _Space] = {}
    for track, encoder in encoders.items():
        every = (getattr(candidate, track) for item in items for candidate in item.things)
        things = list(dict.fromkeys(filter(None, every)))
        if track == "caption":
            of_things = encoder.encode_texts(things, role="document")
        else:
            of_things = encoder.encode_images(things)
        vectors, documents = encoded[encoder.identity], dict(zip(things, of_things, strict=True))
        widths = {len(vector) for vector in (*vectors.values(), *documents.values())}
        if len(widths) > 1:
            numbers = " and ".join(map(str, sorted(widths)))
            what = f"returned vectors of {numbers} dimensions, which cannot be compared."
            raise UserError(f"The encoder '{encoder.name}' {what}")
        spaces[track] = _Space(track, vectors, documents)
    return spaces


def shares_no_view(item: Item, tracks: Iterable[str] = TRACKS) -> bool:
    """Return whether no two candidates have a modality in common, such as image and caption."""
    return all(sum(bool(getattr(c, track)) for c in item.candidates) < 2 for track in tracks)


def _share_a_view(item: Item, encoders: Mapping[str, TextEncoder]) -> Item:
    """Return the item with captions from ``sight``'s labels if no modality is in common."""
    if not shares_no_view(item, encoders):
        return item
    in_words: Any = getattr(getattr(encoders.get("image"), "encoder", None), "in_words", None)
    described = in_words and "caption" in encoders
    how = "captions are generated from sight's labels" if described else "their scores are 0"
    log.warning("'%s': candidates have no modality in common: %s.", item.compound, how)
    if not described:
        return item
    candidates = (
        candidate
        if candidate.caption or not candidate.image
        else replace(candidate, caption=in_words(candidate.image))
        for candidate in item.candidates
    )
    return replace(item, candidates=tuple(candidates))


def knows(encoder: CachedEncoder, language: str) -> bool:
    """Return whether an encoder reads texts of a language; any, unless it has ``languages``."""
    languages = getattr(encoder.encoder, "languages", None)
    return not languages or base_language(language) in languages


def look_where_no_caption_is(summary: SetSummary, settings: Settings) -> Settings:
    """Return settings with an encoder that also encodes pictures, if candidates lack captions: for
    ``e5``, ``sight``.

    It encodes texts as e5 does. If there are captions as well, pictures have half their weight: on
    train, with captions hidden at random, that ranked better than captions alone.
    """
    if settings.track or settings.caption_encoder or settings.head or not summary.without_caption:
        return settings
    companions = {name: encoder_attribute(name, "companion", "") for name in settings.encoder}
    companion = next(filter(None, companions.values()), "")
    if not companion:
        return settings
    weight = encoder_attribute(companion, "picture_weight", 1.0)
    log.warning(
        "%d of %d candidates have no caption: the encoder %s encodes the pictures%s.",
        summary.without_caption,
        summary.candidates,
        companion,
        f", with weight {weight:g} relative to captions" if summary.captions else "",
    )
    scoring = settings.scoring
    if summary.captions:
        scoring = replace(scoring, image_weight=weight * scoring.image_weight)
    encoders = tuple(companions[name] or name for name in settings.encoder)
    return replace(settings, encoder=encoders, scoring=scoring)


def encoder_attribute(name: str, attribute: str, default: Default) -> Default:
    """Return an attribute of an encoder by its name, without opening it, see :class:`TextEncoder`;
    the default if it has none, or the encoder is not installed."""
    family = name.partition(":")[0]
    if family not in registry.names("encoder"):
        return default
    value: Default = getattr(registry.find("encoder", family).make, attribute, default)
    return value


def reads_pictures(summary: SetSummary, settings: Settings) -> bool:
    """Return whether a run with these settings reads pictures, without opening any model.

    For models of sentence-transformers, only the track shows whether they encode pictures.
    """
    if not summary.images or "image" not in (settings.track or "image"):
        return False
    llms = [registry.resolve("chat", name)[0] for name in settings.llms]
    sends_pictures = settings.looks and any("key" in plugin.needs for plugin in llms)
    encoders = [registry.resolve("encoder", name)[0] for name in settings.encoder]
    reads = any(reads_images(encoder.make) for encoder in encoders)
    return bool(sends_pictures or settings.track or summary.without_caption or reads)


def open_encoders(
    summary: SetSummary,
    settings: Settings,
    encoders: Sequence[str | TextEncoder] | None = None,
    caption_encoder: TextEncoder | None = None,
) -> list[RunEncoder]:
    """Open the encoders of a run for the tracks to rank by: images, captions or both.

    Args:
        encoders: names and opened encoders in place of those of the settings.

    Raises:
        UserError: no candidate has the track, no encoder supports it, or a head does not fit.
    """
    opened = partial(
        open_encoder,
        device=settings.device,
        precision=settings.precision,
        plugins=settings.plugins,
    )
    tracks = settings.track.split("+") if settings.track else summary.tracks
    for track in tracks:
        if track not in summary.tracks:
            raise UserError(f"No candidate has {track}s. Use another track.", "track")
    if "caption" in tracks and settings.caption_encoder and not caption_encoder:
        caption_encoder = opened(settings.caption_encoder)
    for_captions = checked(caption_encoder, settings.long_texts) if caption_encoder else None
    named: Sequence[str | TextEncoder] = encoders or settings.encoder
    if caption_encoder and "image" not in tracks:
        named = [caption_encoder]
    several = [
        checked(opened(encoder) if isinstance(encoder, str) else encoder, settings.long_texts)
        for encoder in named
    ]
    several = _by_language(several, summary.languages)
    run_encoders = _by_track(several, for_captions, tracks, settings)
    apart = any(len({e.identity for e in run.tracks.values()}) > 1 for run in run_encoders)
    if apart and settings.scoring.standardise == "no":
        raise UserError(
            "Cosines of two encoders differ in scale: standardise them, or use one encoder.",
            "standardise",
        )
    return _with_scales(_with_heads(run_encoders, settings))


def _with_scales(run_encoders: list[RunEncoder]) -> list[RunEncoder]:
    """Give encoders the scales that they state, if all do for each track; else all are measured."""
    runs = []
    for run in run_encoders:
        by_track = {t: getattr(e.encoder, "scales", {}) for t, e in run.tracks.items()}
        stated: dict[str, Any] = {track: scales.get(track) for track, scales in by_track.items()}
        if run.head or None in stated.values():
            return run_encoders
        runs.append(replace(run, scales=stated))
    return runs


def _by_language(
    encoders: Sequence[CachedEncoder], languages: Sequence[str]
) -> list[CachedEncoder]:
    """Leave out encoders that know none of a set's languages, if others do; say which stay out."""
    used = []
    for encoder in encoders:
        unknown = [language for language in languages if not knows(encoder, language)]
        if unknown and len(encoders) > 1:
            names = ", ".join(dict.fromkeys(map(language_name, unknown)))
            log.info("The encoder '%s' does not compare texts in %s.", encoder.name, names)
        if len(unknown) < len(languages) or not languages:
            used.append(encoder)
    return used or [*encoders]


def _by_track(
    encoders: Sequence[CachedEncoder],
    for_captions: CachedEncoder | None,
    tracks: Sequence[str],
    settings: Settings,
) -> list[RunEncoder]:
    """Return what encodes each track. Captions may have an encoder of their own.

    Images that no encoder encodes are refused, or logged if captions can be ranked without them.
    """
    blind = [encoder.name for encoder in encoders if not isinstance(encoder, ImageEncoder)]
    if "image" in tracks and blind:
        names = " and ".join(f"'{name}'" for name in blind)
        all_blind = len(blind) == len(encoders)
        if all_blind and (settings.track or "caption" not in tracks):
            raise UserError(
                f"Images are not encoded by {names}. Compare captions, or use an encoder that does "
                "(sight, mclip:NAME, openclip:MODEL/TAG).",
                "track",
                "encoder",
            )
        level = logging.WARNING if all_blind else logging.INFO
        log.log(level, "Images are not encoded by %s: only captions count there.", names)
    run_encoders = []
    for encoder in encoders:
        sees = "image" in tracks and isinstance(encoder, ImageEncoder)
        by_track = {"image": encoder} if sees else {}
        by_track |= {"caption": for_captions or encoder} if "caption" in tracks else {}
        run_encoders += [RunEncoder(by_track)] if by_track else []
    return run_encoders


def _with_heads(run_encoders: Sequence[RunEncoder], settings: Settings) -> list[RunEncoder]:
    """Open the heads of a run, and give each encoder the one that was trained on it."""
    if not settings.head:
        return [*run_encoders]
    from admire.encoders.projection import load_projection

    heads = [load_projection(Path(folder)) for folder in settings.head]
    trained_on = [
        (head.card["encoder"]["name"], head.card["encoder"]["identity"]) for head in heads
    ]
    used = [{(e.name, e.identity) for e in run.tracks.values()} for run in run_encoders]
    if sorted(of for _, of in chain(*used)) != sorted(of for _, of in trained_on):
        described = (
            ", ".join(f"'{name}' ({identity})" for name, identity in sorted(encoders))
            for encoders in (trained_on, set().union(*used))
        )
        raise UserError(
            "Each encoder needs one head that was trained on it, or none has one. The heads are of "
            "{}; the encoders are {}.".format(*described),
            "head",
        )
    if settings.query != "meaning" and not all(head.projects(settings.query) for head in heads):
        raise UserError(f"The head compares glosses, not the query '{settings.query}'.", "query")
    by_identity = {identity: head for (_, identity), head in zip(trained_on, heads, strict=True)}
    return [
        replace(run, head=by_identity[next(iter(run.tracks.values())).identity])
        for run in run_encoders
    ]


@dataclass(frozen=True)
class _Space:
    """Unit vectors of the queries' texts, and of the candidates' images or captions."""

    track: str
    texts: Mapping[str, Vector]
    documents: Mapping[Path | str, Vector]

    def projected(self, head: Projection) -> _Space:
        """Return the same in a head's space."""

        def project(vectors: Mapping[Any, Vector]) -> dict[Any, Vector]:
            if not vectors:  # these items have nothing of this track
                return {}
            return dict(zip(vectors, head.project(np.array(list(vectors.values()))), strict=True))

        return _Space(self.track, project(self.texts), project(self.documents))

    def sequence(self, item: Item) -> Vector:
        """Return the mean vector of an item's sequence, of unit length; zeros without any."""
        things = [getattr(candidate, self.track) for candidate in item.sequence]
        zeros = np.zeros_like(next(iter(self.documents.values()), np.zeros(0, np.float32)))
        total = sum((self.documents[thing] for thing in things if thing), zeros)
        mean: Vector = total / (np.linalg.norm(total) or 1)
        return mean

    def cosines(self, query: Vector, item: Item) -> Scores:
        """Return a query's cosine with each candidate, NaN for one that lacks the track."""
        things = [getattr(candidate, self.track) for candidate in item.candidates]
        vector = query[None].astype(float)
        return np.array(
            [
                np.nan if thing is None else (vector @ self.documents[thing].astype(float))[0]
                for thing in things
            ]
        )


@dataclass(frozen=True)
class _Query:
    """What candidates are compared with: texts and their weights by role (gloss, compound, …).

    A role without a weight does not count, but its cosines are recorded. The role ``sequence`` has
    a weight and no text, because it stands for the item's sequence. If the sense is unsure, and has
    an idiomatic text, ``by_sense`` has the weights under either sense.
    """

    texts: dict[str, str]
    weights: dict[str, float]
    llm: str = ""
    by_sense: dict[SenseLabel, dict[str, float]] = field(default_factory=dict)


def _query(item: Item, reading: Interpretation | None, settings: Settings) -> _Query:
    """Return the query for a chat model's interpretation, or for a baseline."""
    if reading is None or settings.query != "meaning":
        texts = {"compound": item.phrase, "sentence": item.sentence, "sequence": ""}
        return _Query({settings.query: texts[settings.query]}, {settings.query: 1.0})
    texts = {"compound": item.phrase} | reading.texts()
    if item.sequence:
        texts["sequence"] = ""
    weigh = partial(query_weights, settings.scoring, roles=texts)
    both: tuple[SenseLabel, ...] = (
        get_args(SenseLabel) if reading.sense.is_unsure and reading.idiomatic else ()
    )
    by_sense = {label: weigh(likelier(label == "idiomatic", "given")) for label in both}
    return _Query(texts, weigh(reading.sense), reading.llm, by_sense)
