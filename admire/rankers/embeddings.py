"""Embeddings: compares candidates with texts about the compound, as vectors."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from admire.core import registry
from admire.core.choices import TRACKS
from admire.core.errors import UserError
from admire.core.registry import register
from admire.data.items import Item
from admire.encoders import ImageEncoder, Role, TextEncoder, open_encoder
from admire.encoders.protocols import reads_images
from admire.rankers.ranker import Ranker
from admire.rankers.scorer import LIKE, PAIRED, Scores, Vector, contributions, query_weights, score
from admire.rankers.set_summary import SetSummary
from admire.rankers.settings import Settings
from admire.senses.interpretation import Interpretation
from admire.senses.meaning import IDIOMATIC

if TYPE_CHECKING:
    from admire.encoders.projection import Projection

log = logging.getLogger("admire")


class Part(NamedTuple):
    """A part of candidates' scores.

    Attributes:
        of: the compared track, or a ranker or run.
        text: the role of the text, see :data:`TEXTS`; ``unlike compound`` if similarity lowers the
            score; or ``pair``. None for a ranker.
        values: shape (candidates,).
    """

    of: str
    text: str | None
    values: Scores


@dataclass(frozen=True)
class Comparison:
    """An item's candidates compared with one chat model's texts, or with a baseline's.

    Attributes:
        roles: of the texts: gloss, compound, …, see :data:`TEXTS`; for five candidates, also the
            candidates, see :data:`admire.rankers.scorer.LIKE`.
        cosines: by track, shape (roles, candidates).
        scores: shape (candidates,).
        parts: the contribution of each text to the scores.
        interpretation: the source of the texts; None for a baseline.
    """

    roles: tuple[str, ...]
    cosines: dict[str, Scores]
    scores: Scores
    parts: tuple[Part, ...]
    interpretation: Interpretation | None = None


@register("ranker", "embeddings", needs=("embedded",))
class Embeddings(Ranker):
    """Vectors: candidates are compared with texts about the compound.

    :func:`compare` does it; a run also records its cosines.
    """


def compare(
    items: Sequence[Item],
    readings: Sequence[Sequence[Interpretation]],
    settings: Settings,
    encoders: Mapping[str, TextEncoder],
    head: Projection | None = None,
) -> list[tuple[Comparison, ...]]:
    """Compare each item's candidates with each chat model's texts about it.

    Args:
        readings: for each chat model, its interpretation of each item.
        encoders: by track, see :func:`open_encoders`.
        head: projects the vectors before they are compared.

    Returns:
        For each item one comparison per chat model, or one for a baseline.

    Raises:
        UserError: a file cannot be read, or an encoder's vectors cannot be compared.
    """
    items = [_share_a_view(item, encoders) for item in items]
    queries = [
        _queries(item, [reading[k] for reading in readings], settings)
        for k, item in enumerate(items)
    ]
    texts = [text for row in queries for query in row for text in query.texts.values() if text]
    distinct = {encoder.identity: encoder for encoder in encoders.values()}
    encoded = {name: _encode_texts(texts, encoder, "query") for name, encoder in distinct.items()}
    plain: dict[str, _Space] = {}
    for track, encoder in encoders.items():
        vectors, documents = encoded[encoder.identity], _encode_candidates(items, encoder, track)
        _check_space((*vectors.values(), *documents.values()), encoder.name)
        plain[track] = _Space(track, vectors, documents)
    headed = {track: space.projected(head) for track, space in plain.items()} if head else plain
    roles = {role for row in queries for query in row for role in query.texts}
    spaces = {role: headed if head and head.projects(role) else plain for role in roles}
    return [
        tuple(_compared(item, query, spaces, settings) for query in row)
        for item, row in zip(items, queries, strict=True)
    ]


def shares_no_view(item: Item, tracks: Iterable[str] = TRACKS) -> bool:
    """Return whether no two candidates have a modality in common, such as image and caption."""
    return all(sum(bool(getattr(c, track)) for c in item.candidates) < 2 for track in tracks)


def _share_a_view(item: Item, encoders: Mapping[str, TextEncoder]) -> Item:
    """Return the item with captions from ``sight``'s labels if no modality is in common."""
    if not shares_no_view(item, encoders):
        return item
    encoder = encoders.get("image")
    in_words = getattr(getattr(encoder, "encoder", encoder), "in_words", None)
    if not (encoder and in_words and "caption" in encoders):
        log.warning(
            "'%s': candidates have no modality in common, so their scores are 0.", item.compound
        )
        return item
    log.warning(
        "'%s': candidates have no modality in common; captions are generated from sight's labels.",
        item.compound,
    )
    candidates = (
        candidate
        if candidate.caption or not candidate.image
        else replace(candidate, caption=in_words(candidate.image))
        for candidate in item.candidates
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
    companion = companion_of(settings.encoder)
    if not companion:
        return settings
    weight = picture_weight(companion)
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
    return replace(settings, encoder=companion, scoring=scoring)


def picture_weight(name: str) -> float:
    """Return the weight of pictures relative to captions by this encoder's attribute; 1 without it,
    or if the encoder is no longer installed."""
    return float(_attribute(name, "picture_weight", 1.0))


def companion_of(name: str) -> str:
    """Return the encoder that also encodes pictures and encodes texts as this one does; empty if
    there is none, or this one is not installed."""
    return str(_attribute(name, "companion", ""))


def _attribute(name: str, attribute: str, default: object) -> Any:
    """Return an attribute of an encoder's class by its name, without opening it."""
    family = name.partition(":")[0]
    if family not in registry.names("encoder"):
        return default
    return getattr(registry.find("encoder", family).make, attribute, default)


def reads_pictures(summary: SetSummary, settings: Settings) -> bool:
    """Return whether a run with these settings reads pictures, without opening any model.

    For models of sentence-transformers, only the track shows whether they encode pictures.
    """
    if not summary.images or "image" not in (settings.track or "image"):
        return False
    llms = [registry.resolve("chat", name)[0] for name in settings.llms]
    sends_pictures = settings.looks and any("key" in plugin.needs for plugin in llms)
    encoder, _ = registry.resolve("encoder", settings.encoder)
    reads = reads_images(encoder.make)
    return bool(sends_pictures or settings.track or summary.without_caption or reads)


def open_encoders(
    summary: SetSummary,
    settings: Settings,
    encoder: TextEncoder | None,
    caption_encoder: TextEncoder | None,
) -> dict[str, TextEncoder]:
    """Open the encoder of each track to rank by: images, captions or both.

    Raises:
        UserError: no candidate has the track, or no encoder supports it.
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
    encoders: dict[str, TextEncoder] = {}
    if "caption" in tracks and settings.caption_encoder and not caption_encoder:
        caption_encoder = opened(settings.caption_encoder)
    if "image" in tracks or not caption_encoder:
        encoder = encoder or opened(settings.encoder)
    if "image" in tracks and encoder:
        if isinstance(encoder, ImageEncoder):
            encoders["image"] = encoder
        elif settings.track or "caption" not in tracks:
            cure = "Use the track 'caption', or" if settings.track else "Without captions, use"
            raise UserError(
                f"The encoder '{encoder.name}' does not encode images. {cure} one that does "
                "(sight, mclip:NAME, openclip:MODEL/TAG, dual:REPOSITORY).",
                *(["track"] if settings.track else []),
                "encoder",
            )
        else:
            log.warning(
                "The encoder '%s' does not encode images: only captions count.", encoder.name
            )
    if "caption" in tracks:
        encoders["caption"] = cast(TextEncoder, caption_encoder or encoder)
    several = len({encoder.identity for encoder in encoders.values()}) > 1
    if several and not settings.scoring.standardise:
        raise UserError(
            "Cosines of two encoders differ in scale: standardise them, or use one encoder.",
            "standardise",
        )
    return encoders


def open_head(settings: Settings, encoders: Mapping[str, TextEncoder]) -> Projection | None:
    """Open the head of a run, and check that it fits the encoders."""
    if not settings.head:
        return None
    from admire.encoders.projection import load_projection

    head = load_projection(Path(settings.head))
    for encoder in encoders.values():
        head.check(encoder.name, encoder.identity)
    if settings.query != "meaning" and not head.projects(settings.query):
        raise UserError(f"The head compares glosses, not the query '{settings.query}'.", "query")
    return head


def _encode_texts(texts: Sequence[str], encoder: TextEncoder, role: Role) -> dict[str, Vector]:
    distinct = list(dict.fromkeys(texts))
    return dict(zip(distinct, encoder.encode_texts(distinct, role=role), strict=True))


def _encode_candidates(
    items: Sequence[Item], encoder: TextEncoder, track: str
) -> Mapping[Path | str, Vector]:
    """Encode each image or caption, also those of sequences, in full batches."""
    candidates = [candidate for item in items for candidate in (*item.candidates, *item.sequence)]
    if track == "caption":
        captions = [candidate.caption for candidate in candidates if candidate.caption]
        return cast(Mapping[Path | str, Vector], _encode_texts(captions, encoder, "document"))
    images = list(dict.fromkeys(candidate.image for candidate in candidates if candidate.image))
    vectors = cast(ImageEncoder, encoder).encode_images(images)
    return dict(zip(images, vectors, strict=True))


def _check_space(vectors: Iterable[Vector], name: str) -> None:
    widths = set(map(len, vectors))
    if len(widths) > 1:
        raise UserError(
            f"The encoder '{name}' returned vectors of {' and '.join(map(str, sorted(widths)))} "
            "dimensions, which cannot be compared."
        )


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

    def likeness(self, item: Item) -> Scores:
        """Return the candidates' cosines with each other, NaN for one that lacks the track.

        The shape is (candidates, candidates).
        """
        things = [getattr(candidate, self.track) for candidate in item.candidates]
        missing = np.full_like(next(iter(self.documents.values()), np.zeros(1)), np.nan)
        vectors = np.array([self.documents.get(thing, missing) for thing in things], float)
        cosines: Scores = vectors @ vectors.T
        return cosines

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
    a weight and no text, because it stands for the item's sequence.
    """

    texts: dict[str, str]
    weights: dict[str, float]
    interpretation: Interpretation | None = None


def _queries(
    item: Item, interpretations: Sequence[Interpretation], settings: Settings
) -> list[_Query]:
    """Return a query for each chat model's interpretation, or one for a baseline."""
    if settings.query != "meaning":
        texts = {"compound": item.phrase, "sentence": item.sentence, "sequence": ""}
        return [_Query({settings.query: texts[settings.query]}, {settings.query: 1.0})]
    queries = []
    for reading in interpretations:
        texts = {"compound": item.phrase} | reading.texts()
        if item.sequence:
            texts["sequence"] = ""
        weights = query_weights(settings.scoring, reading.sense, texts)
        queries.append(_Query(texts, weights, reading))
    return queries


def _compared(
    item: Item, query: _Query, spaces: Mapping[str, Mapping[str, _Space]], settings: Settings
) -> Comparison:
    cosines: dict[str, list[Scores]] = defaultdict(list)
    for role, text in query.texts.items():
        by_track = spaces[role].items()
        if role == "sequence":
            vectors = {track: space.sequence(item) for track, space in by_track}
            if not any(vector.any() for vector in vectors.values()):
                raise UserError(
                    f"'{item.compound}': its sequence has no {'+'.join(vectors)}.", "track"
                )
        else:
            vectors = {track: space.texts[text] for track, space in by_track}
        for track, space in by_track:
            cosines[track].append(space.cosines(vectors[track], item))
    weights = [query.weights.get(role, 0.0) for role in query.texts]
    roles = tuple(query.texts)
    if len(item.candidates) == PAIRED and not query.texts.keys().isdisjoint(IDIOMATIC):
        roles += LIKE
        for track, space in spaces["compound"].items():
            cosines[track].extend(space.likeness(item))
    arrays = {track: np.array(rows) for track, rows in cosines.items()}
    scores = score(arrays, weights, settings.scoring)
    added = contributions(arrays, weights, settings.scoring)
    parts = tuple(_parts(query, added))
    return Comparison(roles, arrays, scores, parts, query.interpretation)


def _parts(query: _Query, added: Mapping[str, Scores]) -> Iterator[Part]:
    """Yield the contribution of each text by track, the compound last, and then of the pairs."""
    roles = list(query.texts)
    for track, values in added.items():
        for role in sorted(roles, key=lambda role: role == "compound"):
            weight = query.weights.get(role)
            if weight:
                yield Part(track, "unlike " * (weight < 0) + role, values[roles.index(role)])
    for track, values in added.items():
        if len(values) > len(roles):
            yield Part(track, "pair", values[-1])
