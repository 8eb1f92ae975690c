"""Reads the sense of a sequence of captions by similarity: AdMIRe's Subtask B."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from admire.data.items import Item
from admire.encoders import TextEncoder
from admire.senses.sense import Sense, likelier

OFFSET = 0.0711
SLOPE = 53.5
"""The point of equal probability of both senses, and the slope there.

A logistic fit of :func:`nearness` by ``e5`` on the 25 items of Subtask B's train and dev, both
senses with the same weight, by ``python tools/fit_sequence.py ../shared/data``.
"""


def shows_captions(item: Item) -> bool:
    """Return whether both the sequence and the candidates have captions to compare."""
    return all(any(part.caption for part in parts) for parts in (item.sequence, item.candidates))


def read_sequences(items: Sequence[Item], encoder: TextEncoder) -> list[Sense]:
    """Return the sense that the sequence of each item with captions shows.

    A literal sequence shows what the compound names. The candidates show both senses, so they
    are the reference for how near captions of this compound usually are.
    """
    probabilities = 1 / (1 + np.exp(SLOPE * (nearness(items, encoder) - OFFSET)))
    return [likelier(probability, "captions") for probability in probabilities]


def nearness(items: Sequence[Item], encoder: TextEncoder) -> npt.NDArray[np.float64]:
    """Return how much nearer each compound is to its sequence than to its candidates.

    This is the cosine with the mean vector of the sequence's captions, less the mean cosine with
    the candidates' captions, in units of the captions' spread: the root of their mean squared
    distance from their mean. So encoders with different ranges of cosines are comparable.
    """
    compounds = encoder.encode_texts([item.phrase for item in items], role="query").astype(float)
    groups = [
        [part.caption for part in parts if part.caption]
        for item in items
        for parts in (item.sequence, item.candidates)
    ]
    distinct = list(dict.fromkeys(caption for captions in groups for caption in captions))
    vectors = dict(zip(distinct, encoder.encode_texts(distinct, role="document"), strict=True))
    encoded = [np.array([vectors[caption] for caption in captions], float) for captions in groups]
    differences = []
    for compound, sequence, candidates in zip(compounds, encoded[::2], encoded[1::2], strict=True):
        spread = np.sqrt(np.concatenate([sequence, candidates]).var(axis=0).sum())
        center = sequence.sum(axis=0)
        center /= np.linalg.norm(center) or 1
        difference = center @ compound - (candidates @ compound).mean()
        differences.append(difference / (spread or 1))
    return np.array(differences)
