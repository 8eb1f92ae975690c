"""Training a light detector: logistic heads on a frozen encoder, calibrated on other compounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from admire.core.errors import UserError, needs_extra
from admire.data.overlap import digests, stem
from admire.embedded.light_detector import PLACES, Features, LightDetector, read_contexts, sha256
from admire.metrics.leakage import SAW, detector_parts, warn_of_shared
from admire.metrics.metrics import calibration_error
from admire.prompts import Prompts
from admire.tasks.training.settings import DetectorTraining

if TYPE_CHECKING:
    from admire.data.items import Item
    from admire.encoders import QueryEncoder

HEADS = 5


def sample_items(
    items: Sequence[Item], settings: DetectorTraining, *, leave_out: Sequence[str] = ()
) -> list[Item]:
    """Draw at most ``per_compound`` items of each compound and sense, in random order.

    The sentences of a compound do not depend on the other compounds, so after adding data only the
    new sentences have to be encoded.

    Args:
        leave_out: compounds to drop, so that data with them stay unseen. Case, spaces, hyphens and
            a plural's s make no difference.
    """
    dropped = {stem(compound) for compound in leave_out}
    counts = Counter[tuple[str, str | None]]()
    sample = []
    for item in sorted(items, key=lambda i: sha256(f"{settings.seed}\0{i.sentence}")):
        key = (stem(item.compound), item.sentence_type)
        if key[0] not in dropped and counts[key] < settings.per_compound:
            counts[key] += 1
            sample.append(item)
    return sample


def train_detector(
    items: Sequence[Item],
    encoder: QueryEncoder,
    settings: DetectorTraining | None = None,
    *,
    leave_out: Sequence[str] = (),
) -> LightDetector:
    """Train a light detector on a sample of the items, see :func:`sample_items`.

    Each head is trained on four fifths of the compounds, with the senses balanced. The fifth that
    it never saw serves to calibrate it and for the card's figures. A warning says if sentences of
    that fifth also belong to compounds that the head did see.

    With ``settings.neutral`` the heads learn what a sentence adds to neutral ones, and only
    compounds that occur in both senses count for the calibration and the card, with equal weight
    for each sense. So nothing is gained by knowing which compounds are usually idioms.

    Args:
        items: labelled sentences.
        leave_out: compounds that the detector must not see.

    Raises:
        UserError: scikit-learn is missing, or fewer than ``HEADS`` compounds occur in both senses.
    """
    settings = settings or DetectorTraining()
    with needs_extra("train", "Training a detector"):
        from sklearn.linear_model import LogisticRegression
        from sklearn.metrics import roc_auc_score
        from sklearn.model_selection import StratifiedGroupKFold

    items = sample_items(items, settings, leave_out=leave_out)
    compounds = np.array([stem(item.compound) for item in items])
    labels = np.array([item.sentence_type == "idiomatic" for item in items])
    sizes = Counter(zip(compounds, labels, strict=True))
    both = np.array([(c, True) in sizes and (c, False) in sizes for c in compounds], dtype=bool)
    if len(set(compounds[both])) < HEADS:
        raise UserError(f"A detector needs at least {HEADS} compounds that occur in both senses.")
    contexts = read_contexts(items, encoder, neutral=settings.neutral)
    splitter = StratifiedGroupKFold(HEADS, shuffle=True, random_state=settings.seed)
    folds = list(splitter.split(contexts, labels, compounds))
    weights = np.ones(len(items))
    if settings.neutral:
        folds = [(train, test[both[test]]) for train, test in folds]
        weights = np.array([1 / sizes[pair] for pair in zip(compounds, labels, strict=True)])
    parts = detector_parts(items)
    warn_of_shared(parts, folds, [item.compound for item in items], "the detector's heads")

    heads = [_fit_head(contexts[train], labels[train], settings.strength) for train, _ in folds]
    scores = [contexts[test] @ head for head, (_, test) in zip(heads, folds, strict=True)]
    log_odds = np.concatenate(scores)[:, None]
    places = np.concatenate([test for _, test in folds])
    labels, weights = labels[places], weights[places]
    scale = LogisticRegression(C=np.inf)
    scale.fit(log_odds, labels, sample_weight=weights)
    probabilities = scale.predict_proba(log_odds)[:, 1]
    accuracy = np.average((probabilities > 0.5) == labels, weights=weights)
    area = roc_auc_score(labels, probabilities, sample_weight=weights)
    card = {
        "made": datetime.now(UTC).date().isoformat(),
        "items": len(items),
        "compounds": len(set(compounds)),
        "languages": sorted({item.language for item in items}),
        "strength": settings.strength,
        "unseen compounds": {
            "items": len(labels),
            "accuracy": round(float(accuracy), 4),
            "auc": round(float(area), 4),
            "calibration error": round(calibration_error(probabilities, labels), 4),
        },
        "seed": settings.seed,
        "prompts": {
            name: fingerprint
            for name, fingerprint in Prompts().fingerprints().items()
            if name.startswith(("detect_", "neutral_"))
        },
        SAW: digests(parts),
    }
    return LightDetector(
        encoder.name,
        encoder.identity,
        np.array(heads) * scale.coef_[0, 0],
        np.full(HEADS, np.ravel(scale.intercept_)[0]),
        settings.neutral,
        card,
    )


def _fit_head(contexts: Features, labels: npt.NDArray[np.bool_], strength: float) -> Features:
    """Return one head's weights for contexts, shape (4 * width,).

    Each place has weights of its own, scaled so that the scores of all places have the same spread.
    """
    from sklearn.linear_model import LogisticRegression

    parts = []
    for place in np.split(contexts, PLACES, axis=1):
        spread = place.std() or 1
        head = LogisticRegression(C=strength, max_iter=5000, class_weight="balanced")
        head.fit(place / spread, labels)
        weights = head.coef_[0]
        parts.append(weights / ((place @ weights).std() or 1))
    return np.concatenate(parts)
