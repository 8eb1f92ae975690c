"""From similarities to scores to an order: the only place where that happens, for every track."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from admire.encoders import ImageEncoder, TextEncoder
from admire.errors import UserError
from admire.items import Candidate
from admire.sense import Sense

Scores = npt.NDArray[np.float64]
Track = Literal["image", "caption", "image+caption"]


@dataclass(frozen=True)
class Scoring:
    """How similarities become a score.

    The defaults are the UoR-NCL paper's: the query is the gloss where the sense is idiomatic and
    the compound where it is literal, and the cosines to image and caption are added (section 2.2).

    Attributes:
        image_weight, caption_weight: what a track's cosines are multiplied with before the sum.
        gate: ``hard`` follows the decided sense; ``soft`` weighs gloss and compound by the
            probability of the idiomatic sense.
        contrast: how much similarity to the bare compound counts *against* a candidate in the
            idiomatic sense, which pushes literal pictures down; 0 is the paper's.
        standardise: bring each query's cosines to mean 0 and deviation 1 over the item's
            candidates before they are added, so that no track or query outweighs another by its
            spread alone.
    """

    image_weight: float = 1.0
    caption_weight: float = 1.0
    gate: Literal["hard", "soft"] = "hard"
    contrast: float = 0.0
    standardise: bool = False


def query_weights(
    scoring: Scoring, sense: Sense, gloss: str | None, compound: str
) -> dict[str, float]:
    """The query texts of one item and what each counts; without a gloss, the compound alone."""
    if gloss is None:
        return {compound: 1.0}
    idiomatic = sense.probability if scoring.gate == "soft" else float(sense.label == "idiomatic")
    weights = {gloss: idiomatic, compound: 1 - idiomatic - scoring.contrast * idiomatic}
    return {text: weight for text, weight in weights.items() if weight}


def similarities(
    encoder: TextEncoder, queries: Sequence[str], candidates: Sequence[Candidate], track: Track
) -> dict[str, Scores]:
    """Cosines of each query with each candidate, by track: shape (queries, candidates).

    A candidate that lacks its caption or image has NaN there.

    Raises:
        UserError: the track needs images and the encoder reads none, or nothing can be compared.
    """
    vectors = encoder.encode_texts(queries, role="query").astype(float)
    found: dict[str, Scores] = {}
    for kind in track.split("+"):
        things = [getattr(candidate, kind) for candidate in candidates]
        there = [k for k, thing in enumerate(things) if thing is not None]
        cosines = np.full((len(queries), len(candidates)), np.nan)
        if there and kind == "image":
            if not isinstance(encoder, ImageEncoder):
                raise UserError(
                    f"The encoder '{encoder.name}' reads no images. Use --track caption."
                )
            cosines[:, there] = vectors @ encoder.encode_images([things[k] for k in there]).T
        elif there:
            documents = encoder.encode_texts([things[k] for k in there], role="document")
            cosines[:, there] = vectors @ documents.T
        found[kind] = cosines
    return found


def score(cosines: Mapping[str, Scores], weights: Sequence[float], scoring: Scoring) -> Scores:
    """One score a candidate, shape (candidates,): the weighted sum over tracks and queries.

    ``cosines`` holds (queries, candidates) by track and ``weights`` one number a query. With the
    default :class:`Scoring` and both tracks this is r = s(query, image) + s(query, caption), the
    paper's section 2.2. What a candidate lacks adds nothing to a standardised sum, where 0 is the
    mean; a plain sum takes the mean of the item's other candidates for it.
    """
    total: Scores = np.zeros(next(iter(cosines.values())).shape[1])
    for kind, values in cosines.items():
        there = ~np.isnan(values).any(axis=0)
        if not there.any():
            continue
        mean = values[:, there].mean(axis=1, keepdims=True)
        filled = np.where(there, values, mean)
        if scoring.standardise:
            spread = values[:, there].std(axis=1, keepdims=True)
            filled = (filled - mean) / np.where(spread > 0, spread, 1.0)
        weight = scoring.image_weight if kind == "image" else scoring.caption_weight
        total = total + weight * (np.asarray(weights) @ filled)
    return total


def ensemble(scores: Sequence[Scores]) -> Scores:
    """The mean of the models' scores with equal weights (section 2.3 of the paper)."""
    mean: Scores = np.mean(scores, axis=0)
    return mean


def rank_names(names: Sequence[str], scores: Scores) -> tuple[str, ...]:
    """The names from the highest score to the lowest; equal scores go by name.

    Scores that differ by rounding alone count as equal, so that an order does not depend on the
    machine that computed it.
    """
    keyed = sorted(
        zip(np.round(scores, 9), names, strict=True), key=lambda pair: (-pair[0], pair[1])
    )
    return tuple(name for _, name in keyed)
