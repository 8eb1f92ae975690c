"""Training a light detector: logistic heads on frozen encoders, calibrated on other compounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from admire.core.errors import UserError, needs_extra
from admire.data.items import Item
from admire.data.overlap import digests, stem
from admire.embedded.light_detector import Features, LightDetector, Reader, read_contexts
from admire.encoders import QueryEncoder
from admire.metrics.leakage import SAW, detector_parts, warn_of_shared
from admire.metrics.metrics import calibration_error
from admire.prompts import Prompts
from admire.tasks.training.settings import DetectorTraining

HEADS = 5
PLACES = 4  #: places of the first encoder
STRENGTH = 30  #: times the setting ``strength``, for further encoders, whose vectors are shorter


def sample_items(
    items: Sequence[Item],
    settings: DetectorTraining,
    *,
    leave_out: Sequence[str] = (),
    expressions: Mapping[str, str] = MappingProxyType({}),
) -> list[Item]:
    """Draw at most ``per_compound`` items of each expression and sense, in random order.

    The sentences of an expression do not depend on the others, so after adding data only the new
    sentences have to be encoded.

    Args:
        leave_out: compounds and expressions to drop, so that data with them stay unseen. Case,
            spaces, hyphens and a plural's s make no difference.
        expressions: the expression of each compound that is only a form of it: spilled the beans,
            spill the beans. Other compounds are expressions of their own.
    """
    dropped = {stem(compound) for compound in leave_out}
    counts = Counter[tuple[str, str | None]]()
    sample, seed = [], settings.seed
    for item in sorted(items, key=lambda i: sha256(f"{seed}\0{i.sentence}".encode()).digest()):
        expression = stem(expressions.get(item.compound, item.compound))
        key = (expression, item.sentence_type)
        new = dropped.isdisjoint((expression, stem(item.compound)))
        if new and counts[key] < settings.per_compound:
            counts[key] += 1
            sample.append(item)
    return sample


def train_detector(
    items: Sequence[Item],
    encoders: Sequence[QueryEncoder],
    settings: DetectorTraining | None = None,
    *,
    leave_out: Sequence[str] = (),
    expressions: Mapping[str, str] = MappingProxyType({}),
) -> LightDetector:
    """Train a light detector on a sample of labelled items, see :func:`sample_items`.

    Each head is trained on four fifths of the expressions, with the senses balanced. The fifth that
    it never saw serves to calibrate it and for the card's figures. A warning says if sentences of
    that fifth also belong to expressions that the head did see.

    With ``settings.neutral`` the heads learn what a sentence adds to neutral ones. Each expression
    then has the same weight in each sense, and only those that occur in both senses count for the
    calibration and the card. So nothing is gained by knowing which are usually idioms.

    Raises:
        UserError: scikit-learn is missing, or fewer than ``HEADS`` compounds occur in both senses.
    """
    settings = settings or DetectorTraining()
    with needs_extra("train", "Training a detector"):
        from sklearn.linear_model import LogisticRegression
        from sklearn.metrics import roc_auc_score
        from sklearn.model_selection import StratifiedGroupKFold

    items = sample_items(items, settings, leave_out=leave_out, expressions=expressions)
    groups = np.array([stem(expressions.get(i.compound, i.compound)) for i in items])
    labels = np.array([item.sentence_type == "idiomatic" for item in items], dtype=bool)
    in_both = np.intersect1d(groups[labels], groups[~labels])
    if len(in_both) < HEADS:
        raise UserError(f"A detector needs at least {HEADS} compounds that occur in both senses.")
    places = read_contexts(items, encoders, neutral=settings.neutral)
    splitter = StratifiedGroupKFold(HEADS, shuffle=True, random_state=settings.seed)
    folds = list(splitter.split(labels, labels, groups))
    weights = np.ones(len(items))
    if settings.neutral:
        folds = [(train, test[np.isin(groups[test], in_both)]) for train, test in folds]
        sizes = Counter(zip(groups, labels, strict=True))
        weights = np.array([1 / sizes[pair] for pair in zip(groups, labels, strict=True)])
    parts = detector_parts(items)
    renamed = [replace(i, compound=expressions.get(i.compound, i.compound)) for i in items]
    warn_of_shared(parts, folds, [item.compound for item in items], "the detector's heads")

    heads = [_fit_head(places, train, labels, weights, settings) for train, _ in folds]
    contexts = np.concatenate(places, axis=1)
    scores = [contexts[test] @ head for head, (_, test) in zip(heads, folds, strict=True)]
    log_odds = np.concatenate(scores)[:, None]
    tested = np.concatenate([test for _, test in folds])
    labels, weights = labels[tested], weights[tested]
    scale = LogisticRegression(C=np.inf)
    scale.fit(log_odds, labels, sample_weight=weights)
    probabilities = scale.predict_proba(log_odds)[:, 1]
    accuracy = np.average((probabilities > 0.5) == labels, weights=weights)
    area = roc_auc_score(labels, probabilities, sample_weight=weights)
    prompts = Prompts().fingerprints.items()
    card = {
        "items": len(items),
        "compounds": len(set(groups)),
        "languages": sorted({item.language for item in items}),
        "strength": settings.strength,
        "unseen compounds": {
            "items": len(labels),
            "accuracy": round(float(accuracy), 4),
            "auc": round(float(area), 4),
            "calibration error": round(calibration_error(probabilities, labels), 4),
        },
        "seed": settings.seed,
        "prompts": {name: f for name, f in prompts if name.startswith(("detect_", "neutral_"))},
        SAW: digests([*parts, *detector_parts(renamed)]),
    }
    return LightDetector(
        tuple(Reader(name=e.name, identity=e.identity) for e in encoders),
        np.array(heads) * scale.coef_[0, 0],
        np.full(HEADS, np.ravel(scale.intercept_)[0]),
        settings.neutral,
        card,
    )


def _fit_head(
    places: Sequence[Features],
    rows: npt.NDArray[np.intp],
    labels: npt.NDArray[np.bool_],
    weights: npt.NDArray[np.float64],
    settings: DetectorTraining,
) -> Features:
    """Return one head's weights for the vectors of all places, side by side, trained on some rows.

    Each place has weights of its own, scaled so that the scores of all places have the same spread.
    Contexts have weights within their sense; both senses weigh the same.
    """
    from sklearn.linear_model import LogisticRegression

    labels, weights = labels[rows], weights[rows]
    for sense in (True, False):
        weights = np.where(labels == sense, weights / weights[labels == sense].sum(), weights)
    weights = weights * len(labels) / 2
    parts = []
    for number, place in enumerate(place[rows] for place in places):
        spread = place.std() or 1
        strength = settings.strength * (1 if number < PLACES else STRENGTH)
        head = LogisticRegression(C=strength, max_iter=5000)
        head.fit(place / spread, labels, sample_weight=weights)
        coefficients = head.coef_[0]
        parts.append(coefficients / ((place @ coefficients).std() or 1))
    return np.concatenate(parts)
