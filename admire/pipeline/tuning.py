"""Tunes a run's scoring and fusion weights from run folders, without any model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from math import comb, gcd
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from admire.core.choices import TEXTS, TRACKS, Fusion, Gate, Standardise, TextRole
from admire.core.errors import UserError
from admire.data.items import Item
from admire.metrics import metrics
from admire.pipeline.fusion import read_same
from admire.pipeline.run_folder import read_cosines, read_record, read_rows
from admire.rankers.scorer import Scores, comparable, compared, query_weights, rank_and_tie, score
from admire.rankers.settings import Scoring
from admire.senses.sense import Sense

METRICS = ("top1", "dcg", "corr_official", "corr_rank")  #: the figures of items with a whole order
GLOSS: tuple[TextRole, ...] = ("gloss", "compound")
GATES: tuple[Gate, ...] = ("hard", "soft")
STANDARDISED: tuple[Standardise, ...] = ("no", "noise", "item")
WEIGHTS = ((1.0, 1.0), (1.0, 0.0), (1.0, 0.5), (0.5, 1.0), (0.0, 1.0))
"""Weights of images and captions to try if there are both."""


def tune(folder: Path, *, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame, Scoring]:
    """Return the figures of a run, those of :func:`cross_validate`, and the best scoring."""
    items, parts, encoders = read_cosines(folder)
    if any(item.expected_order is None for item in items):
        raise UserError(f"{folder}: is of Subtask B or V-WSD. Tuning needs gold orders.")
    tracks = sum(f"{track}_compound" in parts[0] for track in TRACKS)
    tried = scorings(tracks, encoders, gates(parts), sides(parts))
    noise = read_record(folder).get("noise", {})
    table, best = cross_validate(items, rescore_all(parts, tried, noise), seed=seed)
    own = [(row.order, row.prediction.tied_first) for row in read_rows(folder)]
    return _figures(items, own), table, tried[best]


def tune_weights(
    folders: Sequence[Path], method: Fusion = "scores", *, seed: int = 0
) -> tuple[pd.DataFrame, pd.DataFrame, tuple[int, ...]]:
    """Return figures of equal weights, those of :func:`cross_validate`, and the best weights."""
    tried = weightings(len(folders))
    shares = np.array(tried) / np.sum(tried, axis=1, keepdims=True)
    items, orders = list[Item](), []
    for number, rankings in enumerate(read_same(folders), start=1):
        item = rankings[0].item
        if not item.expected_order:
            raise UserError(f"{folders[0]}: item {number} ('{item.compound}') has no gold order.")
        items.append(item)
        fused = shares @ np.array([comparable(ranking.scores, method) for ranking in rankings])
        orders.append([rank_and_tie(item.names, scores) for scores in fused])
    table, best = cross_validate(items, orders, seed=seed)
    return _figures(items, [equal for equal, *_ in orders]), table, tried[best]


_Order = tuple[tuple[str, ...], bool]
"""An item's candidates, best first, and whether the first is tied."""


def _figures(items: Sequence[Item], orders: Sequence[_Order]) -> pd.DataFrame:
    """Return the figures of one order for each item, as :func:`cross_validate` has them."""
    opened = metrics.open_metrics()
    texts = ("compound", "sentence", "sentence_type")
    columns: dict[str, list[Any]] = {name: [getattr(i, name) for i in items] for name in texts}
    for name in METRICS:
        pairs = zip(orders, items, strict=True)
        columns[name] = [opened[name](order, i, None, i.compound) for (order, _), i in pairs]
    return pd.DataFrame(columns | {"tied_first": [tied for _, tied in orders]})


def weightings(runs: int) -> tuple[tuple[int, ...], ...]:
    """Return weights to try for some runs: equal ones first, then all tenths from near to far.

    With five runs or more the steps are coarser, so that at most about a thousand are tried.
    """
    steps = max(k for k in range(1, 11) if k == 1 or comb(k + runs - 1, runs - 1) <= 1001)
    tried = {(1,) * runs}
    for cuts in combinations(range(1, steps + runs), runs - 1):
        weights = [b - a - 1 for a, b in pairwise((0, *cuts, steps + runs))]
        tried.add(tuple(weight // gcd(*weights) for weight in weights))

    def unevenness(weights: Sequence[int]) -> tuple[float, Sequence[int]]:
        # Rounded, so that the order of the weights does not matter.
        return round(sum((weight / sum(weights) - 1 / runs) ** 2 for weight in weights), 9), weights

    return tuple(sorted(tried, key=unevenness))


def gates(parts: Sequence[pd.DataFrame]) -> tuple[Gate, ...]:
    """Return the gates to try; a hard one's run may lack the glosses that the soft one needs."""
    rows = pd.concat(parts)
    literal = rows[rows["predicted_type"] != "idiomatic"]
    return GATES if literal.empty or (literal["gloss"] != "").any() else ("hard",)


def sides(parts: Sequence[pd.DataFrame]) -> tuple[tuple[TextRole, ...], ...]:
    """Return the texts to try on a run's rows: the paper's, and all if there are more."""
    columns = set(parts[0].columns)
    present = {role for role in TEXTS if any(f"{track}_{role}" in columns for track in TRACKS)}
    return (GLOSS, TEXTS) if present - set(GLOSS) else (GLOSS,)


def scorings(
    tracks: int = 1,
    encoders: int = 1,
    gates: Sequence[Gate] = GATES,
    sides: Sequence[tuple[TextRole, ...]] = (GLOSS,),
) -> tuple[Scoring, ...]:
    """Return the scorings to try, beginning with the paper's if it is one of them.

    With two tracks their weights are tried as well. With two encoders plain sums are omitted,
    because their terms are on different scales.
    """
    return tuple(
        Scoring(image, caption, gate, contrast, standardise, texts)
        for texts in sides
        for standardise in STANDARDISED[encoders > 1 :]
        for image, caption in (WEIGHTS if tracks == 2 else WEIGHTS[:1])
        for gate in gates
        for contrast in (0.0, 0.5, 1.0)
    )


def rescore_all(
    parts: Sequence[pd.DataFrame],
    scorings: Sequence[Scoring],
    noise: Mapping[str, Mapping[str, float]] | None = None,
) -> list[list[_Order]]:
    """Return each item's order under each of several scorings, from its rows of scores.csv."""
    by_encoder = dict(noise or {})
    by_encoder[""] = next(iter(by_encoder.values()), {})  # one encoder has no column
    orders = []
    for part in parts:
        models = list[_Recorded]()
        keyed = part if "encoder" in part else part.assign(encoder="")
        for (encoder, _), rows in keyed.groupby(["encoder", "llm"], sort=False):
            # Missing texts have no cosines.
            filled = rows.dropna(axis="columns", how="all")
            roles = [role for role in TEXTS if any(f"{track}_{role}" in filled for track in TRACKS)]
            cosines = {
                track: filled.reindex(columns=[f"{track}_{role}" for role in roles]).to_numpy().T
                for track in TRACKS
                if any(f"{track}_{role}" in filled for role in roles)
            }
            first = rows.iloc[0]
            sense = Sense(first["predicted_type"] or None, float(first["probability_idiomatic"]))
            models.append((str(encoder), sense, roles, cosines))
        names = rows["candidate"].tolist()
        orders.append([_order(names, models, scoring, by_encoder) for scoring in scorings])
    return orders


_Recorded = tuple[str, Sense, Sequence[str], dict[str, Scores]]
"""One encoder's and chat model's results for an item: the sense, and cosines of roles by track."""


def _order(
    names: Sequence[str],
    models: Sequence[_Recorded],
    scoring: Scoring,
    noise: Mapping[str, Mapping[str, float]],
) -> _Order:
    apart = len({encoder for encoder, *_ in models}) > 1 and scoring.standardise != "noise"
    rows = []
    for encoder, sense, roles, cosines in models:
        by_role = query_weights(scoring, sense, roles)
        weights = [by_role.get(role, 0.0) for role in roles]
        row = score(cosines, weights, scoring, noise.get(encoder))
        rows.append(comparable(row) if apart else row)
    masks = [compared(cosines, scoring) for *_, cosines in models]
    last = [name for name, *by in zip(names, *masks, strict=True) if not any(by)]
    return rank_and_tie(names, np.mean(rows, axis=0), last)


def cross_validate(
    items: Sequence[Item],
    orders: Sequence[Sequence[_Order]],
    *,
    folds: int = 5,
    repeats: int = 50,
    seed: int = 0,
) -> tuple[pd.DataFrame, int]:
    """Return figures of held-out items, and the index of the way that is best on all items.

    The compounds are split into folds; each fold is ranked in the way with the highest mean DCG on
    the other folds; of ties, the first. With as few items as in AdMIRe one split is not reliable,
    so each item's figures are the means over many splits, and it is tied if it is in any.
    ``orders`` has for each item one for each way of ranking.
    """
    names, compound = np.unique([item.compound.casefold() for item in items], return_inverse=True)
    if len(names) < folds:
        raise UserError(f"{folds} folds need at least {folds} compounds; there are {len(names)}.")
    figures = [_figures(items, way) for way in zip(*orders, strict=True)]
    averaged = [*METRICS, "tied_first"]
    values = np.array([table[averaged].astype(float) for table in figures])  # ways, items, columns
    dcg = np.array([table["dcg"] for table in figures]).T.copy()
    means = np.zeros(values.shape[1:])
    rng = np.random.default_rng(seed)
    for _ in range(repeats):
        fold = (rng.permutation(len(names)) % folds)[compound]
        for left_out in range(folds):
            held = fold == left_out
            means[held] += values[dcg[~held].mean(axis=0).argmax(), held] / repeats
    table = figures[0].assign(**dict(zip(averaged, means.T, strict=True)))
    return table.assign(tied_first=table["tied_first"] > 0), int(dcg.mean(axis=0).argmax())
