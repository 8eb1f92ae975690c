"""Embeddings: compares candidates with texts about the compound, as vectors."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import chain, filterfalse
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import numpy as np

from admire.core import registry
from admire.core.choices import TRACKS
from admire.core.errors import UserError
from admire.core.registry import register
from admire.data.items import Candidate, Item, SenseLabel
from admire.data.languages import language_name
from admire.encoders import ImageEncoder, TextEncoder, open_encoder
from admire.encoders.cached import CachedEncoder, checked
from admire.encoders.protocols import Vectors, reads_images
from admire.rankers.judgement import Judgement, Part, as_counted
from admire.rankers.ranker import Ranker
from admire.rankers.scorer import SMALLEST, Scores, comparable, contributions, query_weights, score
from admire.rankers.settings import SetSummary, Settings
from admire.senses.interpretation import Interpretation
from admire.senses.sense import likelier

if TYPE_CHECKING:
    from admire.encoders.projection import Projection

log = logging.getLogger("admire")

Default = TypeVar("Default")


_Query = tuple[dict[str, str], dict[SenseLabel | None, dict[str, float]]]
"""What candidates are compared with: texts by role (gloss, compound, …), and the weights of these
roles by sense. Those of None give the scores; an unsure sense that has an idiomatic text also has
those under either sense. A role of weight 0 does not count, but its cosines are recorded. The role
``sequence`` has no text, because it stands for the item's sequence."""

_Spaces = dict[str, list[dict[Any, Vectors]]]
"""By track, the unit vectors of the queries' texts, and of the candidates' images or captions."""


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
        known = all(encoder.knows(item.language) for encoder in self.tracks.values())
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
        queries = list(map(self._query, items, readings))
        compared_by = list(map(self._compared_by, items))
        for run_encoder in self.encoders:
            places = [k for k, by in enumerate(compared_by) if run_encoder in by]
            share_a_view = cache(partial(_share_a_view, encoders=run_encoder.tracks))  # warns once
            own = [share_a_view(items[k]) for k in places]
            texts = [text for k in places for text in queries[k][0].values() if text]
            spaces = _encode(own, texts, run_encoder)
            for k, item in zip(places, own, strict=True):
                judged[k] += (self._compare(item, queries[k], spaces, run_encoder),)
        return judged

    def measure(self, items: Sequence[Item]) -> None:
        """Measure the scales that encoders do not state, on the first items of a run."""
        for run_encoder in self.encoders:
            own = [item for item in items if run_encoder in self._compared_by(item)]
            if run_encoder.tracks.keys() - run_encoder.scales.keys():
                _encode(own, [], run_encoder)

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

    def _query(self, item: Item, reading: Interpretation | None) -> _Query:
        """Return the query for a chat model's interpretation, or for a baseline."""
        scoring, baseline = self.settings.scoring, self.settings.query
        if reading is None or baseline != "meaning":
            texts = {"compound": item.phrase, "sentence": item.sentence, "sequence": ""}
            return {baseline: texts[baseline]}, {None: {baseline: 1.0}}
        texts = {"compound": item.phrase} | reading.texts()
        if item.sequence:
            texts["sequence"] = ""
        zeros, weights = dict.fromkeys(texts, 0.0), dict[SenseLabel | None, dict[str, float]]()
        weights[None] = zeros | query_weights(scoring, reading.sense, texts)
        if reading.sense.is_unsure and reading.idiomatic:
            for label in get_args(SenseLabel):
                sense = likelier(label == "idiomatic", "given")
                weights[label] = zeros | query_weights(scoring, sense, texts)
        return texts, weights

    def _compare(
        self, item: Item, query: _Query, spaces: tuple[_Spaces, _Spaces], run_encoder: RunEncoder
    ) -> Judgement:
        """Compare an item's candidates with its query, by one encoder."""
        (texts, weights), scoring, scales = query, self.settings.scoring, run_encoder.scales
        cosines = _cosines(item, texts, spaces, run_encoder.head)
        if "sequence" in texts and not any(
            getattr(part, track) for part in item.sequence for track in cosines
        ):
            raise UserError(f"'{item.compound}': its sequence has no {'+'.join(cosines)}.", "track")
        by_sense = {
            sense: score(cosines, [*by_role.values()], scoring, scales)
            for sense, by_role in weights.items()
        }
        added = contributions(cosines, [*weights[None].values()], scoring, scales)
        roles = [*texts]  # the first is the compound, whose part is the last
        parts = [
            Part(track, "unlike " * (weights[None][role] < 0) + role, values[roles.index(role)])
            for track, values in added.items()
            for role in roles[1:] + roles[:1]
            if weights[None][role]
        ]
        if len(self.encoders) > 1 and scoring.standardise != "encoder":
            parts = as_counted(parts, by_sense[None], 1)
            by_sense = {sense: comparable(values) for sense, values in by_sense.items()}
        return Judgement(
            self.name,
            "",
            tuple(by_sense[None].tolist()),
            (),
            encoder=run_encoder.name,
            parts=tuple(parts),
            cells={
                f"{track}_{role}": values
                for track, rows in cosines.items()
                for role, values in zip(roles, rows, strict=True)
            },
            by_sense={sense: tuple(values.tolist()) for sense, values in by_sense.items() if sense},
        )


def _cosines(
    item: Item,
    texts: Mapping[str, str],
    spaces: tuple[_Spaces, _Spaces],
    head: Projection | None = None,
) -> dict[str, Scores]:
    """Return the cosines of texts by role with an item's candidates, by track.

    The shape is (texts, candidates); a candidate that lacks the track has NaN.

    Args:
        spaces: without and with the head.
    """
    (plain, headed), cosines = spaces, dict[str, Scores]()
    for track in plain:
        things = [getattr(candidate, track) for candidate in item.candidates]
        rows = []
        for role, text in texts.items():
            of_texts, of_things = (headed if head and head.projects(role) else plain)[track]
            query = of_texts[text] if role != "sequence" else _mean(item.sequence, track, of_things)
            vector = query[None].astype(float)
            row = [
                np.nan if thing is None else (vector @ of_things[thing].astype(float))[0]
                for thing in things
            ]
            rows.append(row)
        cosines[track] = np.array(rows)
    return cosines


def _mean(parts: Sequence[Candidate], track: str, vectors: Mapping[Path | str, Vectors]) -> Vectors:
    """Return the mean vector of a sequence, of unit length; zeros if no part has the track."""
    zeros = np.zeros_like(next(iter(vectors.values()), np.zeros(0, np.float32)))
    things = (getattr(part, track) for part in parts)
    total = sum((vectors[thing] for thing in things if thing), zeros)
    mean: Vectors = total / (np.linalg.norm(total) or 1)
    return mean


def _encode(
    items: Sequence[Item], texts: Iterable[str], run_encoder: RunEncoder
) -> tuple[_Spaces, _Spaces]:
    """Encode queries' texts, and each image or caption, also those of sequences.

    Return their vectors without and with the head. Scales that are not known are measured.
    """
    plain, headed, encoded = _Spaces(), _Spaces(), dict[str, Vectors]()
    head, known = run_encoder.head, run_encoder.tracks.keys() <= run_encoder.scales.keys()
    texts = list(dict.fromkeys([*texts, *([] if known else [item.phrase for item in items])]))
    for encoder in run_encoder.tracks.values():
        if encoder.identity not in encoded:
            encoded[encoder.identity] = encoder.encode_texts(texts, role="query")
    for track, encoder in run_encoder.tracks.items():
        every = [getattr(candidate, track) for item in items for candidate in item.things]
        things = list(dict.fromkeys(filter(None, every)))
        if track == "caption":
            of_things = encoder.encode_texts(things, role="document")
        else:
            of_things = encoder.encode_images(things)
        of_texts = encoded[encoder.identity]
        _check_widths(encoder.name, of_texts.shape[1], of_things.shape[1])
        pairs = [(texts, of_texts), (things, of_things)]
        plain[track] = [dict(zip(keys, vectors, strict=True)) for keys, vectors in pairs]
        if head:  # which projects no empty array
            pairs = [(keys, head.project(vectors) if keys else vectors) for keys, vectors in pairs]
            headed[track] = [dict(zip(keys, vectors, strict=True)) for keys, vectors in pairs]
    headed = headed or plain
    if not known:
        _measure(items, headed, run_encoder)
    return plain, headed


def _check_widths(name: str, *widths: int) -> None:
    """Refuse an encoder whose texts and pictures have vectors of different widths; 0 is of none."""
    narrow, wide = sorted(widths)
    if 0 < narrow < wide:
        wrong = f"returned vectors of {narrow} and {wide} dimensions, which cannot be compared."
        raise UserError(f"The encoder '{name}' {wrong}")


def _measure(items: Sequence[Item], spaces: _Spaces, run_encoder: RunEncoder) -> None:
    """Measure the scales that are not known, on the compounds of some items."""
    spreads: dict[str, list[float]] = defaultdict(list)
    for item in items:
        for track, (row,) in _cosines(item, {"compound": item.phrase}, (spaces, spaces)).items():
            if not np.isnan(row).all() and (spread := float(np.nanstd(row))) > SMALLEST:
                spreads[track].append(spread)
    for track in spreads.keys() - run_encoder.scales.keys():
        run_encoder.scales[track] = sum(spreads[track]) / len(spreads[track])


def shares_no_view(item: Item, tracks: Iterable[str] = TRACKS) -> bool:
    """Return whether no two candidates have a modality in common, such as image and caption."""
    shown = Counter(track for track in tracks for c in item.candidates if getattr(c, track))
    return max(shown.values(), default=0) < 2


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
        c if c.caption or not c.image else replace(c, caption=in_words(c.image))
        for c in item.candidates
    )
    return replace(item, candidates=tuple(candidates))


def look_where_no_caption_is(summary: SetSummary, settings: Settings) -> Settings:
    """Return settings with an encoder that also encodes pictures, if candidates lack captions: for
    ``e5``, ``sight``.

    It encodes texts as e5 does. If there are captions as well, pictures have half their weight: on
    train, with captions hidden at random, that ranked better than captions alone.
    """
    if settings.track or settings.caption_encoder or settings.head or not summary.without_caption:
        return settings
    encoders = tuple(encoder_attribute(name, "companion", "") or name for name in settings.encoder)
    companion = next((new for new in encoders if new not in settings.encoder), "")
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
    reads = bool(settings.track or summary.without_caption)
    for name in settings.llms:
        plugin, _ = registry.resolve("chat", name)
        reads |= settings.looks and "key" in plugin.needs
    for name in settings.encoder:
        plugin, _ = registry.resolve("encoder", name)
        reads |= reads_images(plugin.make)
    return reads


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
    tracks = settings.track.split("+") if settings.track else summary.tracks
    for track in tracks:
        if track not in summary.tracks:
            raise UserError(f"No candidate has {track}s. Use another track.", "track")

    for_captions = None
    if "caption" in tracks and (chosen := caption_encoder or settings.caption_encoder):
        for_captions = _open(chosen, settings)
    if for_captions and "image" not in tracks:
        several = [for_captions]
    else:
        several = [_open(encoder, settings) for encoder in encoders or settings.encoder]
    several = _by_language(several, summary.languages)
    run_encoders = _by_track(several, for_captions, tracks, settings)
    if settings.scoring.standardise == "no" and any(
        len({encoder.identity for encoder in run.tracks.values()}) > 1 for run in run_encoders
    ):
        raise UserError(
            "Cosines of two encoders differ in scale: standardise them, or use one encoder.",
            "standardise",
        )
    if settings.head:
        return _with_heads(run_encoders, settings)
    return _with_scales(run_encoders)


def _open(encoder: str | TextEncoder, settings: Settings) -> CachedEncoder:
    if isinstance(encoder, str):
        placed: Any = {"device": settings.device, "precision": settings.precision}
        encoder = open_encoder(encoder, plugins=settings.plugins, **placed)
    return checked(encoder, settings.long_texts)


def _by_language(encoders: list[CachedEncoder], languages: list[str]) -> list[CachedEncoder]:
    """Leave out encoders that know none of a set's languages, if others do; say which stay out."""
    used = []
    for encoder in encoders:
        unknown = list(filterfalse(encoder.knows, languages))
        if unknown and len(encoders) > 1:
            names = ", ".join(dict.fromkeys(map(language_name, unknown)))
            log.info("The encoder '%s' does not compare texts in %s.", encoder.name, names)
        if len(unknown) < len(languages) or not languages:
            used.append(encoder)
    return used or encoders


def _with_scales(run_encoders: list[RunEncoder]) -> list[RunEncoder]:
    """Give encoders the scales that they state, if all do for each track; else all are measured."""
    runs = []
    for run in run_encoders:
        scales: dict[str, float] = {}
        for track, encoder in run.tracks.items():
            stated = getattr(encoder.encoder, "scales", {}).get(track)
            if stated is None:
                return run_encoders
            scales[track] = stated
        runs.append(replace(run, scales=scales))
    return runs


def _by_track(
    encoders: Sequence[CachedEncoder],
    for_captions: CachedEncoder | None,
    tracks: Sequence[str],
    settings: Settings,
) -> list[RunEncoder]:
    """Return what encodes each track. Captions may have an encoder of their own.

    Images that no encoder encodes are refused, or logged if captions can be ranked without them.
    """
    run_encoders, blind = [], []
    for encoder in encoders:
        by_track: dict[str, CachedEncoder] = {}
        if "image" in tracks and isinstance(encoder, ImageEncoder):
            by_track["image"] = encoder
        elif "image" in tracks:
            blind.append(f"'{encoder.name}'")
        if "caption" in tracks:
            by_track["caption"] = for_captions or encoder
        if by_track:
            run_encoders.append(RunEncoder(by_track))
    if blind:
        names, all_blind = " and ".join(blind), len(blind) == len(encoders)
        if all_blind and (settings.track or "caption" not in tracks):
            raise UserError(
                f"Images are not encoded by {names}. Compare captions, or use an encoder that does "
                "(sight, mclip:NAME, openclip:MODEL/TAG).",
                "track",
                "encoder",
            )
        level = logging.WARNING if all_blind else logging.INFO
        log.log(level, "Images are not encoded by %s: only captions count there.", names)
    return run_encoders


def _with_heads(run_encoders: Sequence[RunEncoder], settings: Settings) -> list[RunEncoder]:
    """Open the heads of a run, and give each encoder the one that was trained on it."""
    from admire.encoders.projection import load_projection

    heads = [load_projection(Path(folder)) for folder in settings.head]
    cards = [head.card["encoder"] for head in heads]
    trained_on = [(card["name"], card["identity"]) for card in cards]
    used = [{(e.name, e.identity) for e in run.tracks.values()} for run in run_encoders]
    if sorted(of for _, of in chain(*used)) != sorted(of for _, of in trained_on):
        described = (
            ", ".join(f"'{name}' ({identity})" for name, identity in sorted(pairs))
            for pairs in (trained_on, set().union(*used))
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
