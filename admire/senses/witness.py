"""A dictionary as a witness of the sense: does the sentence speak of what the idiom means?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from admire.data.items import Item, SenseLabel
from admire.data.languages import base_language
from admire.models.encoders import TextEncoder, open_encoder
from admire.senses.dictionaries import Known
from admire.senses.light import find_compound
from admire.senses.meaning import DEFINITIONS
from admire.senses.sense import Sense

OFFSET = 0.0158
SLOPE = 13.4
"""The mean of :func:`likeness` by ``e5``, and what a detector's log-odds gain for each unit of it.

The slope is a half for each deviation, 0.0373. Both are those of the 65 compounds of AdMIRe's
English train and dev that WordNet defines, without their labels; the half was chosen elsewhere.
"""


def heed(
    items: Sequence[Item],
    senses: Sequence[Sense],
    known: Mapping[Item, Known],
    encoder: TextEncoder | None = None,
) -> list[Sense]:
    """A detector's senses, moved by what dictionaries say of each compound.

    Left as they are: items in other languages than English, for which this was not measured, those
    without an idiomatic entry, and those in which the compound is not found.

    Args:
        encoder: None is ``e5``, whose scale the constants are on.

    Raises:
        UserError: ``e5`` is needed and not installed.
    """
    places = [
        k
        for k, item in enumerate(items)
        if known[item].idiomatic and base_language(item.language) == "en" and _without(item)
    ]
    found = list(senses)
    if not places:
        return found
    gains = SLOPE * (
        likeness([items[k] for k in places], known, encoder or open_encoder("e5")) - OFFSET
    )
    for k, gain in zip(places, gains, strict=True):
        p = np.clip(senses[k].probability, 1e-9, 1 - 1e-9)
        moved = float(1 / (1 + np.exp(-(np.log(p / (1 - p)) + gain))))
        label: SenseLabel = "idiomatic" if moved > 0.5 else "literal"
        found[k] = replace(senses[k], probability=moved, label=label)
    return found


def likeness(
    items: Sequence[Item], known: Mapping[Item, Known], encoder: TextEncoder
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """How much more each sentence is like the idiom's definitions than like the compound's words.

    The sentence is taken with "it" in the compound's place, so that what is left is the context.
    """
    glosses = [[entry.gloss for entry in known[item].idiomatic[:DEFINITIONS]] for item in items]
    texts = [[_without(item), item.phrase, *own] for item, own in zip(items, glosses, strict=True)]
    distinct = list(dict.fromkeys(text for own in texts for text in own))
    encoded = encoder.encode_texts(distinct, role="query").astype(float)
    vectors = dict(zip(distinct, encoded, strict=True))
    found = []
    for context, compound, *defined in texts:
        told = np.mean([vectors[gloss] for gloss in defined], axis=0)
        found.append(vectors[context] @ (told - vectors[compound]))
    return np.array(found)


def _without(item: Item) -> str:
    """The sentence with "it" in the compound's place; empty where the compound is not found."""
    start, end = find_compound(item.sentence, item.phrase)
    if (start, end) == (0, len(item.sentence)):
        return ""
    return f"{item.sentence[:start]}it{item.sentence[end:]}"
