"""Evidence for a sense by similarity: a sentence and a dictionary's definitions; a sequence of
captions and the compound (AdMIRe's Subtask B)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
import numpy.typing as npt

from admire.data.compounds import find_compound, replace_compound
from admire.data.items import Item, SenseLabel
from admire.data.languages import base_language
from admire.encoders import TextEncoder, open_encoder
from admire.senses.dictionaries import Entries
from admire.senses.meaning import DEFINITIONS
from admire.senses.sense import Sense, likelier

OFFSET, DEVIATION = 0.0038, 0.0315
"""Of :func:`likeness` by ``e5``, in the 1,191 English sentences of the detector's sources whose
expression WordNet has as an idiom. One deviation is worth 0.5 of a detector's log-odds.

``tools/make_detector.py --evaluate`` computes both, and what the evidence is worth.
"""


def add_evidence(
    items: Sequence[Item], senses: Sequence[Sense], entries: Mapping[Item, Entries]
) -> list[Sense]:
    """Adjust a detector's senses by the dictionary entries of each compound, compared by ``e5``.

    In other languages than English, where this was not measured, without an idiomatic entry, and
    without the compound in the sentence they are unchanged.
    """
    comparable: dict[int, Item] = {}
    for k, item in enumerate(items):
        english = base_language(item.language) == "en"
        if english and entries[item].idiomatic and find_compound(item.sentence, item.phrase):
            comparable[k] = item
    moved = list(senses)
    if not comparable:
        return moved
    differences = likeness([*comparable.values()], entries, open_encoder("e5"))
    for k, gain in zip(comparable, 0.5 * (differences - OFFSET) / DEVIATION, strict=True):
        p = np.clip(senses[k].probability_idiomatic, 1e-9, 1 - 1e-9)
        probability = float(1 / (1 + np.exp(-(np.log(p / (1 - p)) + gain))))
        label: SenseLabel = "idiomatic" if probability > 0.5 else "literal"
        moved[k] = replace(senses[k], probability_idiomatic=probability, label=label)
    return moved


def likeness(
    items: Sequence[Item], entries: Mapping[Item, Entries], encoder: TextEncoder
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return how much more similar a context is to the idiom's definitions than to the compound.

    The context is the sentence with "it" instead of the compound; the value is its cosine with the
    mean of the definitions' vectors, less that with the compound's.
    """
    groups = []
    for item in items:
        context = replace_compound(item.sentence, item.phrase, "it") or ""
        groups.append((context, item.phrase, *entries[item].glosses("idiomatic")[:DEFINITIONS]))
    encoded = encoder.encode_texts([*chain.from_iterable(groups)], role="query").astype(float)
    differences = []
    for context, compound, *definitions in np.split(encoded, np.cumsum([*map(len, groups)])[:-1]):
        differences.append(context @ (np.mean(definitions, axis=0) - compound))
    return np.array(differences)


MIDDLE, SLOPE = 0.0711, 53.5
"""The point of equal probability of both senses, and the slope there.

A logistic fit of :func:`nearness` by ``e5`` on the 25 items of Subtask B's train and dev, both
senses with the same weight, by ``python tools/fit_sequence.py ../shared/data``.
"""


def read_sequences(items: Sequence[Item], encoder: TextEncoder) -> list[Sense]:
    """Return the sense that the captions of each item's sequence show, by :func:`nearness`."""
    probabilities = 1 / (1 + np.exp(SLOPE * (nearness(items, encoder) - MIDDLE)))
    return [likelier(probability, "captions") for probability in probabilities]


def nearness(items: Sequence[Item], encoder: TextEncoder) -> npt.NDArray[np.float64]:
    """Return how much nearer each compound is to its sequence than to its candidates.

    A literal sequence shows what the compound names, and the candidates show both senses. This is
    the cosine with the mean vector of the sequence's captions, less the mean cosine with the
    candidates' captions, in units of the captions' spread (the root of their mean squared distance
    from their mean), so that encoders are comparable.
    """
    compounds = encoder.encode_texts([item.phrase for item in items], role="query").astype(float)
    groups = [
        [part.caption for part in parts if part.caption]
        for item in items
        for parts in (item.sequence, item.candidates)
    ]
    captions = encoder.encode_texts([*chain.from_iterable(groups)], role="document").astype(float)
    encoded = np.split(captions, np.cumsum([*map(len, groups)])[:-1])
    differences = []
    for compound, sequence, candidates in zip(compounds, encoded[::2], encoded[1::2], strict=True):
        spread = np.sqrt(np.concatenate([sequence, candidates]).var(axis=0).sum())
        center = sequence.sum(axis=0)
        center /= np.linalg.norm(center) or 1
        difference = center @ compound - (candidates @ compound).mean()
        differences.append(difference / (spread or 1))
    return np.array(differences)
