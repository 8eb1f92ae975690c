"""The whole job: items in, interpretations, similarities, scores and orders out."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from admire.encoders import (
    ImageEncoder,
    Role,
    TextEncoder,
    Vectors,
    open_encoder,
)
from admire.errors import UserError
from admire.interpretation import Interpretation, interpret, sense_method
from admire.items import Item, SenseLabel
from admire.llm import ChatModel, open_llm
from admire.prompts import Prompts
from admire.record import source_record, take_record
from admire.scorer import (
    Scores,
    Scoring,
    Vector,
    ensemble,
    query_weights,
    rank_names,
    score,
    similarities,
)
from admire.senses import open_detector
from admire.senses.sense import majority
from admire.settings import Settings
from admire.submission import Prediction

if TYPE_CHECKING:
    from admire.head import Projection

log = logging.getLogger("admire")

TRACKS = ("image", "caption")

PICTURES_BESIDE_CAPTIONS = 0.5
"""What the pictures that ``sight`` sees weigh where candidates have captions too."""


@dataclass(frozen=True)
class Ranking:
    """One item's result.

    Attributes:
        interpretations: one for each chat model; none where the query is a baseline.
        scores: the ensemble's score of each candidate, in the item's order.
        order: the candidates' names from best to worst.
        parts: for scores.csv, one row for each model and candidate.
    """

    item: Item
    interpretations: tuple[Interpretation, ...]
    scores: Scores
    order: tuple[str, ...]
    parts: tuple[dict[str, Any], ...] = field(repr=False)

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
    llms: Sequence[ChatModel] | None = None,
    encoder: TextEncoder | None = None,
    caption_encoder: TextEncoder | None = None,
    source: str | Path | None = None,
) -> Run:
    """Rank each item's candidates by how well they show the sense that is meant.

    Args:
        llms, encoder, caption_encoder: models as objects, in place of those that ``settings``
            names.
        source: the file or folder that the items were read from, for the run's record.

    Raises:
        UserError: an item has no candidates, a model is missing or fails, or a head does not suit.
    """
    settings = settings or Settings()
    if not encoder and not caption_encoder:
        settings = _look_where_no_caption_is(items, settings)
    origin = source_record(source) if source else None
    prompts = Prompts(settings.prompts)
    _check_items(items, settings)
    models: Sequence[ChatModel] = ()
    detector = None
    if settings.query == "meaning":  # before the encoders, which may have gigabytes to fetch
        models = llms or [open_llm(name, url=settings.llm_url) for name in settings.llms]
        if not models:
            raise UserError("There is no chat model to ask for meanings.", "llms")
        if any(sense_method(settings.sense, llm) == "detector" for llm in models):
            detector = open_detector(settings.detector)
    encoders = _encoders(items, settings, encoder, caption_encoder)
    head = _head(settings, encoders)
    record = take_record(
        settings,
        len(items),
        source=origin,
        llms=models,
        encoders=encoders,
        detector=detector,
        head=head,
        prompts=prompts,
    )
    timings = {}
    readings: list[list[Interpretation]] = []
    if models:
        started = time.perf_counter()
        readings = interpret(
            items,
            models,
            prompts,
            sense=settings.sense,
            votes=settings.votes,
            seed=settings.seed,
            detector=detector,
            meanings=settings.meanings,
            glosses="all" if settings.scoring.gate == "soft" else "idiomatic",
        )
        timings["senses and meanings"] = time.perf_counter() - started
    started = time.perf_counter()
    queries = [
        _queries(item, [reading[k] for reading in readings], settings)
        for k, item in enumerate(items)
    ]
    texts = [text for asked in queries for query in asked for text in query.texts.values() if text]
    distinct = {one.identity: one for one in encoders.values()}
    asked_of = {name: _encode_texts(texts, one, "query") for name, one in distinct.items()}
    vectors = {track: asked_of[one.identity] for track, one in encoders.items()}
    documents = {track: _encode_candidates(items, one, track) for track, one in encoders.items()}
    for track, one in encoders.items():
        _check_space(vectors[track], documents[track], one.name)
    plain = headed = _Space(vectors, documents)
    if head:
        headed = _Space(
            {track: _projected(known, head) for track, known in vectors.items()},
            {track: _projected(known, head) for track, known in documents.items()},
        )
    roles = {role for asked in queries for query in asked for role in query.texts}
    spaces = {role: headed if head and head.projects(role) else plain for role in roles}
    rankings = tuple(
        _rank_item(item, asked, spaces, settings.scoring)
        for item, asked in zip(items, queries, strict=True)
    )
    timings["encoding and scores"] = time.perf_counter() - started
    finished = {
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": {stage: round(seconds, 3) for stage, seconds in timings.items()},
    }
    return Run(rankings, record | finished)


def _check_items(items: Sequence[Item], settings: Settings) -> None:
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


def _look_where_no_caption_is(items: Sequence[Item], settings: Settings) -> Settings:
    """The settings with ``sight``, where ``e5`` alone would leave candidates without a vector.

    Its texts are e5's own. Where there are captions too, pictures count half beside them: on train,
    with captions hidden at random, that ranked better than captions alone.
    """
    candidates = [candidate for item in items for candidate in item.candidates]
    blind = sum(1 for one in candidates if one.image and not one.caption)
    chosen = settings.track or settings.caption_encoder or settings.head
    if settings.encoder != "e5" or chosen or not blind:
        return settings
    captions = any(one.caption for one in candidates)
    log.warning(
        "%d of %d candidates have no caption: the encoder sight looks at the pictures%s.",
        blind,
        len(candidates),
        ", which count half as much as captions" if captions else "",
    )
    scoring = settings.scoring
    if captions:
        scoring = replace(scoring, image_weight=PICTURES_BESIDE_CAPTIONS * scoring.image_weight)
    return replace(settings, encoder="sight", scoring=scoring)


def _encoders(
    items: Sequence[Item],
    settings: Settings,
    encoder: TextEncoder | None,
    caption_encoder: TextEncoder | None,
) -> dict[str, TextEncoder]:
    """The encoder of each track to rank by: images, captions or both.

    Raises:
        UserError: what is wanted is not there, or no encoder reads it.
    """

    def opened(name: str) -> TextEncoder:
        return open_encoder(name, device=settings.device, precision=settings.precision)

    there = [
        track
        for track in TRACKS
        if any(getattr(candidate, track) for item in items for candidate in item.candidates)
    ]
    wanted = settings.track.split("+") if settings.track else there
    for track in wanted:
        if track not in there:
            raise UserError(f"No candidate has {track}s. Use another track.", "track")
    found: dict[str, TextEncoder] = {}
    if "caption" in wanted and settings.caption_encoder and not caption_encoder:
        caption_encoder = opened(settings.caption_encoder)
    if "image" in wanted or not caption_encoder:
        encoder = encoder or opened(settings.encoder)
    if "image" in wanted and encoder:
        if isinstance(encoder, ImageEncoder):
            found["image"] = encoder
        elif settings.track:
            raise UserError(
                f"The encoder '{encoder.name}' reads no images. Use the track 'caption', or an "
                "encoder that reads them (sight, mclip:NAME, openclip:MODEL/TAG, "
                "dual:REPOSITORY).",
                "track",
                "encoder",
            )
        elif "caption" not in wanted:
            raise UserError(
                f"The encoder '{encoder.name}' reads no images; there are no captions. "
                "Use the encoder sight, mclip:NAME, openclip:MODEL/TAG or dual:REPOSITORY.",
                "encoder",
            )
        else:
            log.warning("The encoder '%s' reads no images: captions alone decide.", encoder.name)
    if "caption" in wanted:
        found["caption"] = cast(TextEncoder, caption_encoder or encoder)
    if len({one.identity for one in found.values()}) > 1 and not settings.scoring.standardise:
        raise UserError(
            "Images and captions have encoders of their own, whose cosines are on different "
            "scales: their plain sum means nothing. Standardise them, or use one encoder.",
            "standardise",
        )
    return found


def _head(settings: Settings, encoders: Mapping[str, TextEncoder]) -> Projection | None:
    """The head to compare in, made for the encoders that are used."""
    if not settings.head:
        return None
    from admire.head import load_projection

    head = load_projection(Path(settings.head))
    for encoder in encoders.values():
        head.check(encoder.name, encoder.identity)
    if settings.query != "meaning" and not head.projects(settings.query):
        raise UserError(
            f"The head compares glosses only: the query '{settings.query}' would not use it.",
            "query",
        )
    return head


def _projected(vectors: Mapping[Any, Vector], head: Projection) -> dict[Any, Vector]:
    return dict(zip(vectors, head.project(np.array(list(vectors.values()))), strict=True))


def _encode_texts(texts: Sequence[str], encoder: TextEncoder, role: Role) -> dict[str, Vector]:
    distinct = list(dict.fromkeys(texts))
    return dict(zip(distinct, encoder.encode_texts(distinct, role=role), strict=True))


def _encode_candidates(
    items: Sequence[Item], encoder: TextEncoder, track: str
) -> Mapping[Path | str, Vector]:
    """A vector for each image or caption, those of sequences too, all encoded in full batches."""
    candidates = [one for item in items for one in (*item.candidates, *item.sequence)]
    if track == "caption":
        captions = [candidate.caption for candidate in candidates if candidate.caption]
        return cast(Mapping[Path | str, Vector], _encode_texts(captions, encoder, "document"))
    images = list(dict.fromkeys(candidate.image for candidate in candidates if candidate.image))
    vectors = cast(ImageEncoder, encoder).encode_images(images)
    return dict(zip(images, vectors, strict=True))


def _check_space(
    queries: Mapping[str, Vector], documents: Mapping[Path | str, Vector], name: str
) -> None:
    widths = {len(vector) for known in (queries, documents) for vector in known.values()}
    if len(widths) > 1:
        raise UserError(
            f"The encoder '{name}' gives vectors of {' and '.join(map(str, sorted(widths)))} "
            "dimensions: its towers are not of one space, so they cannot be compared."
        )


@dataclass(frozen=True)
class _Space:
    """Vectors of the queries' texts, and of the candidates' images and captions, by track."""

    vectors: Mapping[str, Mapping[str, Vector]]
    documents: Mapping[str, Mapping[Path | str, Vector]]

    def text(self, text: str) -> dict[str, Vectors]:
        """A text's vector by track, each of shape (1, width)."""
        return {track: known[text][None] for track, known in self.vectors.items()}

    def sequence(self, item: Item) -> dict[str, Vectors]:
        """The mean vector of the things in an item's sequence by track, each of shape (1, width).

        It is a unit vector, or zeros in a track that they have nothing of.
        """
        found = {}
        for track, known in self.documents.items():
            things = [getattr(one, track) for one in item.sequence]
            zeros = np.zeros_like(next(iter(known.values())))
            total = sum((known[thing] for thing in things if thing), zeros)
            found[track] = (total / (np.linalg.norm(total) or 1))[None]
        if not any(vector.any() for vector in found.values()):
            raise UserError(
                f"'{item.compound}': its sequence has nothing of the track {'+'.join(found)}.",
                "track",
            )
        return found


@dataclass(frozen=True)
class _Query:
    """What candidates are compared with: texts and their weights by role (gloss, compound, …).

    A role without a weight does not count, but its cosines are recorded too. The role ``sequence``
    has a weight and no text: it is the things of the item's sequence.
    """

    texts: dict[str, str]
    weights: dict[str, float]
    interpretation: Interpretation | None = None


def _queries(
    item: Item, interpretations: Sequence[Interpretation], settings: Settings
) -> list[_Query]:
    """One query for each chat model's interpretation, or the baseline's only one."""
    if settings.query != "meaning":
        texts = {"compound": item.phrase, "sentence": item.sentence, "sequence": ""}
        return [_Query({settings.query: texts[settings.query]}, {settings.query: 1.0})]
    found = []
    for reading in interpretations:
        texts = {"compound": item.phrase} | reading.texts()
        if item.sequence:
            texts["sequence"] = ""
        weights = query_weights(settings.scoring, reading.sense, texts)
        found.append(_Query(texts, weights, reading))
    return found


def _rank_item(
    item: Item,
    queries: Sequence[_Query],
    spaces: Mapping[str, _Space],
    scoring: Scoring,
) -> Ranking:
    names = [candidate.name for candidate in item.candidates]
    scores = []
    parts: list[dict[str, Any]] = []
    for query in queries:
        compared = [
            similarities(
                spaces[role].sequence(item) if role == "sequence" else spaces[role].text(text),
                item.candidates,
                spaces[role].documents,
            )
            for role, text in query.texts.items()
        ]
        cosines = {track: np.concatenate([one[track] for one in compared]) for track in compared[0]}
        weights = [query.weights.get(role, 0.0) for role in query.texts]
        scores.append(score(cosines, weights, scoring))
        for j, name in enumerate(names):
            columns = {
                f"{track}_{role}": values[q, j]
                for track, values in cosines.items()
                for q, role in enumerate(query.texts)
            }
            parts.append(
                {
                    "candidate": name,
                    **_columns(query.interpretation),
                    **columns,
                    "llm_score": scores[-1][j],
                }
            )
    mean = ensemble(scores)
    order = rank_names(names, mean)
    total = dict(zip(names, mean, strict=True))
    rows = tuple(
        part | {"score": total[part["candidate"]], "rank": 1 + order.index(part["candidate"])}
        for part in parts
    )
    interpretations = tuple(q.interpretation for q in queries if q.interpretation)
    return Ranking(item, interpretations, mean, order, rows)


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
