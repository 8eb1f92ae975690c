"""The sense that a sequence of captions shows, by similarity: AdMIRe's Subtask B."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from admire.data.items import Item
from admire.models.encoders import TextEncoder
from admire.senses.sense import Sense

OFFSET = 0.0711
SLOPE = 53.5
"""Where a literal sequence is as probable as an idiomatic one, and how fast that changes around it.

A logistic fit of :func:`nearness` by ``e5`` on the 25 items of Subtask B's train and dev, both
senses with the same weight, by ``python tools/fit_sequence.py ../shared/data``.
"""


def shows_captions(item: Item) -> bool:
    """Whether an item's sequence and its candidates both have captions, which can be compared."""
    return all(any(one.caption for one in things) for things in (item.sequence, item.candidates))


def read_sequences(items: Sequence[Item], encoder: TextEncoder) -> list[Sense]:
    """The sense that each item's sequence shows, as one vote.

    A sequence of literal pictures has what the compound names; the candidates have some of both
    senses, so they say how near that is for captions of this compound.

    Args:
        items: such as :func:`shows_captions` finds.
    """
    probabilities = 1 / (1 + np.exp(SLOPE * (nearness(items, encoder) - OFFSET)))
    return [
        Sense("idiomatic", float(p), 1, 0) if p > 0.5 else Sense("literal", float(p), 0, 1)
        for p in probabilities
    ]


def nearness(items: Sequence[Item], encoder: TextEncoder) -> npt.NDArray[np.float64]:
    """How much nearer each item's compound is to its sequence than to its candidates.

    It is the cosine with the mean vector of the sequence's captions less the mean cosine with those
    of the candidates, in units of the captions' spread: the root of their mean squared distance
    from their mean. So it is of one size for encoders whose cosines are all about 0.8 and for those
    that use the whole scale.
    """
    compounds = encoder.encode_texts([item.phrase for item in items], role="query").astype(float)
    told = [
        [one.caption for one in things if one.caption]
        for item in items
        for things in (item.sequence, item.candidates)
    ]
    distinct = list(dict.fromkeys(caption for captions in told for caption in captions))
    vectors = dict(zip(distinct, encoder.encode_texts(distinct, role="document"), strict=True))
    parts = [np.array([vectors[caption] for caption in captions], float) for captions in told]
    found = []
    for compound, sequence, candidates in zip(compounds, parts[::2], parts[1::2], strict=True):
        spread = np.sqrt(np.concatenate([sequence, candidates]).var(axis=0).sum())
        shown = sequence.sum(axis=0)
        shown /= np.linalg.norm(shown) or 1
        found.append((shown @ compound - (candidates @ compound).mean()) / (spread or 1))
    return np.array(found)
