"""Choosing how similarities become scores from a run folder, without asking or encoding again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from admire import metrics
from admire.choices import Gate
from admire.errors import UserError
from admire.items import Item
from admire.run import TRACKS
from admire.run_folder import read_run
from admire.scorer import (
    TEXTS,
    Scores,
    Scoring,
    ensemble,
    query_weights,
    rank_names,
    score,
)
from admire.senses.sense import Sense

GLOSS = ("gloss", "compound")
GATES: tuple[Gate, ...] = ("hard", "soft")
WEIGHTS = ((1.0, 1.0), (1.0, 0.0), (1.0, 0.5), (0.5, 1.0), (0.0, 1.0))
"""Weights of images and captions that are tried where both are there."""


def tune(folder: Path, *, seed: int = 0) -> tuple[pd.DataFrame, Scoring]:
    """Choose how a run's similarities become scores.

    Returns:
        The figures of :func:`cross_validate_scoring`, and the scoring that all items together
        choose.

    Raises:
        UserError: the folder is not a run with meanings and gold orders, or has too few compounds.
    """
    items, parts, encoders = read_run(folder)
    if any(item.expected_order is None for item in items):
        raise UserError(
            f"{folder}: is a run of Subtask B. Tuning needs the gold orders of Subtask A."
        )
    tracks = sum(f"{track}_compound" in parts[0] for track in TRACKS)
    tried = scorings(tracks, encoders, gates(parts), sides(parts))
    return cross_validate_scoring(items, parts, tried, seed=seed)


def gates(parts: Sequence[pd.DataFrame]) -> tuple[Gate, ...]:
    """The gates that can be tried on a run's rows.

    A run with a hard gate that asked for glosses alone did not ask for those of literal uses, which
    the soft gate needs.
    """
    rows = pd.concat(parts)
    literal = rows[rows["predicted_type"] != "idiomatic"]
    return GATES if literal.empty or (literal["gloss"] != "").any() else ("hard",)


def sides(parts: Sequence[pd.DataFrame]) -> tuple[tuple[str, ...], ...]:
    """The texts that can be tried on a run's rows: the paper's, and all if there are more."""
    columns = set(parts[0].columns)
    there = [role for role in TEXTS if any(f"{track}_{role}" in columns for track in TRACKS)]
    return (GLOSS, TEXTS) if set(there) - set(GLOSS) else (GLOSS,)


def scorings(
    tracks: int = 1,
    encoders: int = 1,
    gates: Sequence[Gate] = GATES,
    sides: Sequence[tuple[str, ...]] = (GLOSS,),
) -> tuple[Scoring, ...]:
    """The scorings to try, the paper's first where it is among them.

    Args:
        tracks: with two, images and captions, their weights are tried as well.
        encoders: with two, plain sums are left out, whose terms are on different scales.
        gates: those to try, see :func:`gates`.
        sides: the texts to try, see :func:`sides`.
    """
    return tuple(
        Scoring(image, caption, gate, contrast, standardise, texts)
        for texts in sides
        for standardise in ((False, True) if encoders == 1 else (True,))
        for image, caption in (WEIGHTS if tracks == 2 else WEIGHTS[:1])
        for gate in gates
        for contrast in (0.0, 0.5, 1.0)
    )


def rescore(part: pd.DataFrame, scoring: Scoring) -> tuple[str, ...]:
    """One item's order under another scoring, from its rows of scores.csv."""
    return _order(_recorded(part), scoring)


@dataclass(frozen=True)
class _Recorded:
    """What one chat model made of an item: its sense, and the cosines of its queries by track."""

    names: list[str]
    sense: Sense
    roles: list[str]
    cosines: dict[str, Scores]


def _recorded(part: pd.DataFrame) -> list[_Recorded]:
    """One item's rows of scores.csv, by chat model."""
    found = []
    for _, rows in part.groupby("llm", sort=False):
        table = {
            (track, role): pd.to_numeric(rows[f"{track}_{role}"]).to_numpy(float)
            for track in TRACKS
            for role in TEXTS
            if f"{track}_{role}" in rows
        }
        # What a model did not say, or was not asked, has no cosine with any candidate.
        there = {role for (_, role), values in table.items() if not np.isnan(values).all()}
        roles = [role for role in TEXTS if role in there]
        cosines = {
            track: np.array([table[track, role] for role in roles])
            for track in TRACKS
            if (track, "compound") in table
        }
        first = rows.iloc[0]
        sense = Sense(first["predicted_type"] or None, float(first["probability"]))
        found.append(_Recorded(rows["candidate"].tolist(), sense, roles, cosines))
    return found


def _order(models: Sequence[_Recorded], scoring: Scoring) -> tuple[str, ...]:
    scores = []
    for one in models:
        weights = query_weights(scoring, one.sense, one.roles)
        scores.append(score(one.cosines, [weights.get(role, 0.0) for role in one.roles], scoring))
    return rank_names(models[-1].names, ensemble(scores))


def cross_validate_scoring(
    items: Sequence[Item],
    parts: Sequence[pd.DataFrame],
    scorings: Sequence[Scoring],
    *,
    folds: int = 5,
    repeats: int = 50,
    seed: int = 0,
) -> tuple[pd.DataFrame, Scoring]:
    """The figures of items that had no say in how they were scored, and the choice of all items.

    The compounds are dealt into folds; each fold is scored as gives the other folds the highest
    mean DCG, of equals the first in ``scorings``. One deal decides little with as few items as
    AdMIRe has, so each item's figures are the means over many.

    Returns the columns of :func:`admire.evaluation.score_items`, one row an item.

    Raises:
        UserError: there are fewer compounds than folds.
    """
    names, compound = np.unique([item.compound.casefold() for item in items], return_inverse=True)
    if len(names) < folds:
        raise UserError(f"{folds} folds need at least {folds} compounds; there are {len(names)}.")
    tried = [
        [metrics.figures(item.expected_order or (), _order(known, scoring)) for scoring in scorings]
        for item, known in zip(items, map(_recorded, parts), strict=True)
    ]
    figures = {
        metric: np.array([[one[metric] for one in row] for row in tried])
        for metric in metrics.METRICS
    }
    means = {metric: np.zeros(len(items)) for metric in metrics.METRICS}
    rng = np.random.default_rng(seed)
    for _ in range(repeats):
        fold = (rng.permutation(len(names)) % folds)[compound]
        for left_out in range(folds):
            held = fold == left_out
            chosen = figures["dcg"][~held].mean(axis=0).argmax()
            for metric in metrics.METRICS:
                means[metric][held] += figures[metric][held, chosen] / repeats
    table = pd.DataFrame(
        {
            "compound": [item.compound for item in items],
            "sentence": [item.sentence for item in items],
            "sentence_type": [item.sentence_type for item in items],
            **means,
        }
    )
    return table, scorings[int(figures["dcg"].mean(axis=0).argmax())]
