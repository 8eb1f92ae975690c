"""Choosing how similarities become scores from a run folder, without asking or encoding again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd

from admire import metrics
from admire.errors import UserError
from admire.items import Item, Prediction
from admire.scorer import Scoring, ensemble, query_weights, rank_names, score
from admire.sense import Sense

GATES: tuple[Literal["hard", "soft"], ...] = ("hard", "soft")
GRID = tuple(
    Scoring(gate=gate, contrast=contrast, standardise=standardise)
    for standardise in (False, True)
    for gate in GATES
    for contrast in (0.0, 0.25, 0.5, 0.75, 1.0, 1.5)
)
"""The scorings that are tried, the paper's first."""


def rescore(part: pd.DataFrame, scoring: Scoring) -> tuple[str, ...]:
    """One item's order under another scoring, from its rows of scores.csv."""
    scores, names = [], []
    for _, rows in part.groupby("llm", sort=False):
        names = rows["candidate"].tolist()
        first = rows.iloc[0]
        sense = Sense(first["predicted_type"] or None, float(first["probability"]))
        roles = ["compound", "gloss"] if first["gloss"] else ["compound"]
        weights = query_weights(scoring, sense, has_gloss=bool(first["gloss"]))
        cosines = {
            kind: np.array([pd.to_numeric(rows[f"{kind}_{role}"]) for role in roles])
            for kind in ("image", "caption")
            if f"{kind}_compound" in rows
        }
        scores.append(score(cosines, [weights.get(role, 0.0) for role in roles], scoring))
    return rank_names(names, ensemble(scores))


def leave_one_out(
    items: Sequence[Item], parts: Sequence[pd.DataFrame], grid: Sequence[Scoring] = GRID
) -> tuple[list[Prediction], Scoring]:
    """Orders of items that had no say in how they were scored, and the choice of all items.

    Each item is scored as gives the other items the highest mean DCG; of equals the first in
    ``grid``. All items of the same compound are left out together.
    """
    orders = [[rescore(part, scoring) for scoring in grid] for part in parts]
    gains = np.array(
        [
            [metrics.dcg(item.expected_order or (), order) for order in tried]
            for item, tried in zip(items, orders, strict=True)
        ]
    )
    compounds = np.array([item.compound.casefold() for item in items])
    predictions = []
    for item, tried in zip(items, orders, strict=True):
        others = compounds != item.compound.casefold()
        if not others.any():
            raise UserError("Leaving one out needs at least two compounds.")
        chosen = int(gains[others].mean(axis=0).argmax())
        predictions.append(Prediction(item.compound, item.sentence, tried[chosen]))
    return predictions, grid[int(gains.mean(axis=0).argmax())]
