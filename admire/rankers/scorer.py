"""From similarities to scores to an order, for every track."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from admire.core.choices import Fusion, Standardise
from admire.rankers.settings import Scoring
from admire.senses.meaning import IDIOMATIC, LITERAL
from admire.senses.sense import NO_SENSE, Sense

Scores = npt.NDArray[np.float64]
Unit = Standardise | Literal["noise alone"]

RRF_K = 60  #: constant of reciprocal rank fusion (Cormack, Clarke and Büttcher 2009)

SMALLEST = 1e-6  #: smaller deviations of cosines are due to rounding


def query_weights(scoring: Scoring, sense: Sense, roles: Collection[str]) -> dict[str, float]:
    """Return the weight of each text that an item has; see :class:`Scoring`."""
    counted = [role for role in scoring.texts if role in roles]
    if sense == NO_SENSE:
        counted = counted or ["compound"]
        return dict.fromkeys(counted, 1 / len(counted))
    idiomatic = [role for role in counted if role in IDIOMATIC]
    literal = [role for role in counted if role in LITERAL]
    weights: dict[str, float] = dict.fromkeys([*counted, "compound"], 0.0)
    if "sequence" in roles:
        weights["sequence"] = 1.0
    if not idiomatic:
        return weights | {"compound": 1.0}
    p = sense.probability_idiomatic if scoring.gate == "soft" else float(sense.label == "idiomatic")
    for role in idiomatic:
        weights[role] += p / len(idiomatic)
    for role in literal:
        weights[role] -= scoring.contrast * p / len(literal)
    weights["compound"] += 1 - p
    return weights


def score(
    cosines: Mapping[str, Scores],
    weights: Sequence[float],
    scoring: Scoring,
    noise: Mapping[str, float] | None = None,
    *,
    unit: Unit | None = None,
) -> Scores:
    """Return candidates' scores, shape (candidates,): the sum of all :func:`contributions`.

    With :meth:`Scoring.paper` and both tracks this is r = s(query, image) + s(query, caption), the
    paper's section 2.2. A missing track adds nothing where 0 is the mean; a plain sum uses the mean
    of the item's other candidates. In units of the encoder's noise alone, scores are comparable
    between items: the lead of the first candidate then says how likely it is to be right.
    """
    total: Scores = np.zeros(next(iter(cosines.values())).shape[1])
    for added in contributions(cosines, weights, scoring, noise, unit=unit).values():
        total = total + added.sum(axis=0)
    return total


NOISE = 0.25
"""The share of an encoder's noise that is added to each query's own deviation. On compounds that
nothing was chosen on, a tenth to 0.7 made no difference."""


def contributions(
    cosines: Mapping[str, Scores],
    weights: Sequence[float],
    scoring: Scoring,
    noise: Mapping[str, float] | None = None,
    *,
    unit: Unit | None = None,
) -> dict[str, Scores]:
    """Return what each query adds to the :func:`score` of each candidate, by track.

    The shape is (queries, candidates). A track that no candidate has is omitted. Unless plain
    cosines are added, a query's are divided by s = √(own² + c²): their own deviation over the
    item's candidates, with c, a quarter of the encoder's noise, added in quadrature. So a query
    whose cosines differ by no more than noise counts little. ``standardise="item"`` is c = 0.

    Args:
        cosines: by track, shape (queries, candidates); NaN where a candidate lacks it.
        weights: one for each query.
        noise: by track, see :class:`admire.encoders.TextEncoder`. A track without one has the mean
            deviation of the item's queries.
        unit: what cosines are divided by; None is the scoring's ``standardise``.
    """
    unit, terms = unit or scoring.standardise, dict[str, Scores]()
    for track, values in cosines.items():
        present = ~np.isnan(values).any(axis=0)
        if not present.any():
            continue
        mean = values[:, present].mean(axis=1, keepdims=True)
        own = values[:, present].std(axis=1, keepdims=True)
        unrelated = (noise or {}).get(track, float(own.mean()))
        filled = np.where(present, values, mean)
        if unit != "no":
            units = {"noise": np.hypot(own, NOISE * unrelated), "item": own}
            spread = units.get(unit, unrelated)
            filled = (filled - mean) / np.where(np.greater(spread, SMALLEST), spread, 1.0)
        weight = getattr(scoring, f"{track}_weight")
        terms[track] = weight * np.asarray(weights)[:, None] * filled
    return terms


def fuse_scores(
    scores: Sequence[Scores], weights: Sequence[float] | None = None, method: Fusion = "scores"
) -> Scores:
    """Return the weighted mean of rankers' :func:`comparable` scores, shape (candidates,)."""
    points = np.array([comparable(points, method) for points in scores])
    fused: Scores = np.average(points, axis=0, weights=weights)
    return fused


def comparable(scores: Scores, method: Fusion = "scores") -> Scores:
    """Put one ranker's scores, shape (candidates,), on a scale that rankers share.

    ``scores`` have mean 0 and deviation 1 over the candidates, or are all 0 if equal; ``borda`` is
    the number of candidates that rank lower; ``rrf`` is 1 / (60 + rank), ranks from 1. Equal
    candidates share the mean of their ranks; see :func:`rank_names`.
    """
    rounded = np.round(scores, 9)
    if method == "scores":
        spread = rounded.std()
        standardised: Scores = (rounded - rounded.mean()) / (spread if spread > 0 else 1.0)
        return standardised
    before = (rounded[None] > rounded[:, None]).sum(axis=1)
    equal = (rounded[None] == rounded[:, None]).sum(axis=1)
    ranks: Scores = before + (equal + 1) / 2
    return len(ranks) - ranks if method == "borda" else 1 / (RRF_K + ranks)


def compared(cosines: Mapping[str, Scores], scoring: Scoring) -> npt.NDArray[np.bool_]:
    """Return which candidates are compared with one another, shape (candidates,).

    A track of weight 0 compares nothing. If no candidate joins pictures to captions, so that each
    are compared among themselves, these are the pictures or the captions, whichever are more.
    """
    groups = []
    for track, values in cosines.items():
        there = ~np.isnan(values).any(axis=0)
        if getattr(scoring, f"{track}_weight") and there.sum() > 1:
            groups.append(there)
    mask = np.zeros_like(there)
    for own in sorted(groups, key=np.sum, reverse=True):
        if (own & mask).any() or not mask.any():
            mask |= own
    return mask


def rank_names(names: Sequence[str], scores: Scores, last: Collection[str] = ()) -> tuple[str, ...]:
    """Return the names from the highest score to the lowest, and ``last`` after them.

    Ties are sorted by name. Scores that differ by rounding alone count as equal, so that an order
    does not depend on the machine that computed it.
    """
    keyed = sorted(
        (name in last, score, name) for name, score in zip(names, -np.round(scores, 9), strict=True)
    )
    return tuple(name for *_, name in keyed)


def rank_and_tie(
    names: Sequence[str], scores: Scores, last: Collection[str] = ()
) -> tuple[tuple[str, ...], bool]:
    """Return the order of :func:`rank_names`, and whether nothing but its name puts its first
    candidate first."""
    order = rank_names(names, scores, last)
    pairs = zip(names, np.round(scores, 9).tolist(), strict=True)
    ranked = [score for name, score in pairs if name not in last]
    return order, not ranked or ranked.count(max(ranked)) > 1


def tied_names(names: Sequence[str], scores: Scores, last: Collection[str] = ()) -> tuple[str, ...]:
    """Return the names with tied scores, in the order of :func:`rank_names`, without the last."""
    rounded = dict(zip(names, np.round(scores, 9).tolist(), strict=True))
    counts = Counter(score for name, score in rounded.items() if name not in last)
    return tuple(
        name for name in rank_names(names, scores) if counts[rounded[name]] > 1 and name not in last
    )
