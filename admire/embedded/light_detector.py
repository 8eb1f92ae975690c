"""The light detector: heads on frozen encoders' vectors."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, Field

from admire.core import registry
from admire.core.errors import UserError
from admire.core.files import read_text
from admire.core.progress import log_once
from admire.core.schema import STRICT, read_as
from admire.core.storage import write_whole
from admire.data.compounds import find_compound
from admire.data.languages import base_language
from admire.encoders import Query, QueryEncoder, open_context_encoder
from admire.metrics.leakage import Card
from admire.prompts import Prompts
from admire.senses.detector import describe_untrained
from admire.senses.sense import Sense, likelier
from admire.senses.settings import Setting, Use

if TYPE_CHECKING:
    from admire.data.items import Item

BUILT_IN = Path(__file__).parent / "detector.json"  #: the light detector that admire ships

BETTER = "Votes of a strong chat model are better there (--llm openai:MODEL --sense vote)."
"""What to do about languages without training."""

Features = npt.NDArray[np.float64]


class Reader(BaseModel):
    """An encoder that heads were trained on, and its exact version, whose vectors alone fit."""

    model_config = STRICT

    name: str
    identity: str


class LightDetector(NamedTuple):
    """Logistic heads on encoders' vectors of a compound; their probabilities are averaged.

    Attributes:
        encoders: see :func:`read_contexts`.
        weights: of all places, shape (heads, width); they yield calibrated log-odds of the
            idiomatic sense.
        biases: shape (heads,), added to the log-odds.
        neutral: whether neutral contexts are subtracted, see :class:`DetectorTraining`.
        card: how it was made; ``saw`` has digests of the compounds and sentences of its training.
        digest: SHA-256 of the file that it was read from.
        columns, setting: see :class:`admire.senses.Detector`.
    """

    encoders: tuple[Reader, ...]
    weights: npt.NDArray[np.float64]
    biases: npt.NDArray[np.float64]
    neutral: bool
    card: dict[str, Any]
    digest: str = ""
    columns: tuple[str, ...] = ()
    setting: Setting | None = None

    @property
    def identity(self) -> str:
        """SHA-256 of its file, or of the file that :meth:`save` would write."""
        return self.digest or sha256(self._content().encode()).hexdigest()

    def classify(self, uses: Sequence[Use], *encoders: QueryEncoder) -> list[Sense]:
        """Return the sense of each use, by the mean of the heads' probabilities.

        The mean is calibrated, and can differ from the majority of the heads. Encoders other than
        those of the heads, which are opened without any, are refused.
        """
        if not uses:
            return []
        opened = encoders or [open_context_encoder(reader.name) for reader in self.encoders]
        trained = " + ".join([reader.identity for reader in self.encoders])
        identities = " + ".join([encoder.identity for encoder in opened])
        if identities != trained:
            raise UserError(
                f"The detector was trained on '{trained}', not on '{identities}'. Train it again.",
                "detector",
            )
        items = [use.item for use in uses]
        contexts = np.concatenate(read_contexts(items, opened, neutral=self.neutral), axis=1)
        # The last bits of one product for all contexts would depend on their number.
        products = np.stack([(self.weights * context).sum(axis=1) for context in contexts])
        used = sorted({base_language(item.language) for item in items})
        if warning := describe_untrained(self, used):
            log_once(logging.WARNING, f"{warning} {BETTER}")
        probabilities = 1 / (1 + np.exp(-(products + self.biases)))
        return [likelier(heads.mean(), "detector") for heads in probabilities]

    def save(self, path: Path) -> None:
        """Write the detector as JSON."""
        with write_whole(path) as file:
            file.write(self._content())

    def _content(self) -> str:
        content = {
            "encoders": [*map(dict, self.encoders)],
            "weights": np.round(self.weights, 5).tolist(),
            "biases": np.round(self.biases, 5).tolist(),
            "neutral": self.neutral,
            "card": self.card,
        }
        return json.dumps(content, separators=(",", ":"))


def read_contexts(
    items: Sequence[Item], encoders: Sequence[QueryEncoder], *, neutral: bool
) -> list[Features]:
    """Return vectors of each item's compound in its sentence, for each place (items, width).

    The first encoder, best a language model, reads the prompt ``detect``, which contains the
    sentence and repeats the compound in quotation marks. It has four places: the compound's words
    in the sentence, the whole sentence, the repetition and the closing quotation mark. Each further
    encoder reads the sentence alone and has one place, the compound's words.

    Args:
        neutral: subtract the mean over neutral sentences, the lines of the template ``neutral``
            (or ``sequence-neutral``), which leaves the effect of the sentence alone.
    """
    prompts = Prompts()
    keys = [(item.phrase, item.language, item.context) for item in items]
    neutral_items: dict[tuple[str, ...], list[Item]] = {}
    for key, item in dict(zip(keys, items, strict=True)).items() if neutral else ():
        prompt = "sequence-neutral" if item.context == "sequence" else "neutral"
        lines = prompts.about(item, prompt).splitlines()
        neutral_items[key] = [replace(item, sentence=line) for line in lines]
    texts = [*items, *chain.from_iterable(neutral_items.values())]
    # Where the sentence has the compound; the whole sentence if it is not there.
    spans = [find_compound(text.sentence, text.phrase) or (0, len(text.sentence)) for text in texts]
    places: list[Features] = []
    for number, encoder in enumerate(encoders):
        queries = [
            [Query(text.sentence, span=span)] if number else _in_prompt(text, prompts, *span)
            for text, span in zip(texts, spans, strict=True)
        ]
        vectors = encoder.encode_queries([*chain.from_iterable(queries)]).astype(float)
        places += [*vectors.reshape(len(texts), -1, vectors.shape[1]).swapaxes(0, 1)]
    if not neutral:
        return places
    ends = np.cumsum([len(items), *map(len, neutral_items.values())])[:-1]
    subtracted = []
    for place in places:
        own, *groups = np.split(place, ends)
        means = {key: group.mean(axis=0) for key, group in zip(neutral_items, groups, strict=True)}
        subtracted.append(own - np.array([means[key] for key in keys]))
    return subtracted


def _in_prompt(item: Item, prompts: Prompts, start: int, end: int) -> list[Query]:
    """Return the prompt up to the quotation mark after the repeated compound, with four spans."""
    text = prompts.about(item, "detect")
    before = text.index(item.sentence)
    repeated = text.rindex(item.phrase)
    quote = repeated + len(item.phrase)
    sentence, in_sentence = (before, before + len(item.sentence)), (before + start, before + end)
    spans = in_sentence, sentence, (repeated, quote), (quote, quote + 1)
    return [Query(text[: quote + 1], span=span) for span in spans]


class _File(BaseModel):
    model_config = STRICT

    encoders: tuple[Reader, ...] = Field(min_length=1)
    weights: list[list[float]] = Field(min_length=1)
    biases: list[float]
    neutral: bool
    card: dict[str, Any]


@registry.register("detector", "embedded", needs=("embedded",))
def open_built_in() -> LightDetector:
    """The light detector that admire ships: heads on the states of the embedded models."""
    return open_light(str(BUILT_IN))


@registry.register("detector", "light", takes="FILE", needs=("embedded",))
def open_light(file: str) -> LightDetector:
    """Heads on the embedded models' states, from a file of admire train detector."""
    path = Path(file)
    try:
        return _read(read_text(path))
    except (ValueError, UserError) as error:
        why = str(error).rstrip(".")
        raise UserError(
            f"{path}: is not a detector of this version of admire ({why}). Train it again.",
            "detector",
        ) from None


@lru_cache(maxsize=2)  # a server opens it for each item
def _read(text: str) -> LightDetector:
    file = read_as(_File, text, "its JSON")
    read_as(Card, file.card, "its card")
    weights, biases = np.array(file.weights), np.array(file.biases)
    if biases.shape != weights.shape[:1]:
        raise ValueError("each head needs a bias")
    digest = sha256(text.encode()).hexdigest()
    return LightDetector(file.encoders, weights, biases, file.neutral, file.card, digest)
