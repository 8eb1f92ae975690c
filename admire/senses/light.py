"""A detector of idiomatic use: linear heads on frozen features of a sentence, in five votes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from admire.encoders import TextEncoder, open_encoder
from admire.errors import UserError
from admire.files import read_text
from admire.items import Item
from admire.prompts import Prompts
from admire.senses.sense import Sense, majority
from admire.senses.task2a import Use
from admire.storage import write_whole

BUILT_IN = Path(__file__).parent / "detector.json"
HEADS = 5
STRENGTHS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
"""Inverse regularisation strengths to choose from, weakest fit first."""


@dataclass(frozen=True)
class Detector:
    """Logistic heads over an encoder's vectors; each head has one vote.

    Attributes:
        encoder: the encoder's name; ``identity`` what exactly it was, vectors of another one would
            mean nothing to the heads.
        weights: (heads, width); biases: (heads,).
        card: how it was made.
    """

    encoder: str
    identity: str
    weights: npt.NDArray[np.float64]
    biases: npt.NDArray[np.float64]
    card: dict[str, Any]

    def classify(self, uses: Sequence[Use]) -> list[Sense]:
        """Each use's sense."""
        return self.senses([use.item for use in uses])

    def senses(self, items: Sequence[Item], encoder: TextEncoder | None = None) -> list[Sense]:
        """Each item's sense: the majority of the heads, and their mean probability.

        Raises:
            UserError: the encoder is another one than the heads were fitted to.
        """
        encoder = encoder or open_encoder(self.encoder)
        if encoder.identity != self.identity:
            raise UserError(
                f"The detector was fitted to '{self.identity}', not to '{encoder.identity}'. "
                "Fit it again: admire detector."
            )
        if not items:
            return []
        vectors = encoder.encode_texts(_texts(items), role="query")
        probabilities = 1 / (1 + np.exp(-(vectors @ self.weights.T + self.biases)))
        return [_sense(row) for row in probabilities]

    def save(self, path: Path) -> None:
        """Write the detector as JSON.

        Raises:
            UserError: the file cannot be written.
        """
        content = asdict(self) | {
            "weights": np.round(self.weights, 5).tolist(),
            "biases": np.round(self.biases, 5).tolist(),
        }
        with write_whole(path) as file:
            json.dump(content, file, separators=(",", ":"))


def _sense(probabilities: npt.NDArray[np.float64]) -> Sense:
    idiomatic = int((probabilities > 0.5).sum())
    literal = len(probabilities) - idiomatic
    return Sense(majority(idiomatic, literal), float(probabilities.mean()), idiomatic, literal)


def _texts(items: Sequence[Item]) -> list[str]:
    prompts = Prompts()
    return [prompts.about(item, "detect") for item in items]


def read_detector(path: Path = BUILT_IN) -> Detector:
    """The detector that ships with admire, or one that :meth:`Detector.save` wrote.

    Raises:
        UserError: the file cannot be read or is no detector.
    """
    try:
        content = json.loads(read_text(path))
        weights, biases = np.array(content["weights"]), np.array(content["biases"])
        if weights.ndim != 2 or biases.shape != weights.shape[:1]:
            raise ValueError("the shapes do not fit")
        return Detector(content["encoder"], content["identity"], weights, biases, content["card"])
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: is not a detector that admire wrote ({error!r}).") from None


# -------------------------------------------------------------------------------------- fitting


def sample(
    items: Sequence[Item], per_compound: int, leave_out: Sequence[str], seed: int
) -> list[Item]:
    """At most ``per_compound`` items of each compound and sense, in random order.

    Many compounds teach more than many sentences of one. Those in ``leave_out`` (compared without
    case) are dropped, so that a set with the same compounds stays unseen.
    """
    unwanted = {compound.casefold() for compound in leave_out}
    taken: dict[tuple[str, str | None], int] = {}
    chosen = []
    for k in np.random.default_rng(seed).permutation(len(items)):
        item = items[k]
        key = (item.compound.casefold(), item.sentence_type)
        if key[0] not in unwanted and taken.get(key, 0) < per_compound:
            taken[key] = taken.get(key, 0) + 1
            chosen.append(item)
    return chosen


def fit(items: Sequence[Item], encoder: TextEncoder, *, seed: int = 0) -> Detector:
    """Fit one head on each four fifths of the compounds; the fifth left out chooses the strength.

    The strongest regularisation whose area under the ROC curve on the compounds left out is within
    one standard error of the best is taken. The card holds that area and the accuracy, so both are
    of compounds that a head never saw.

    Raises:
        UserError: scikit-learn is missing, or there are too few compounds or one sense only.
    """
    try:
        from sklearn.linear_model import LogisticRegression
        from sklearn.metrics import roc_auc_score
        from sklearn.model_selection import StratifiedGroupKFold
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
    except ImportError as error:
        raise UserError(
            "Fitting needs scikit-learn: the extra 'train' (pip install '.[train]')."
        ) from error

    compounds = [item.compound.casefold() for item in items]
    if len(set(compounds)) < HEADS or len({item.sentence_type for item in items}) < 2:
        raise UserError(f"Fitting needs both senses and at least {HEADS} compounds.")
    vectors = encoder.encode_texts(_texts(items), role="query")
    labels = np.array([item.sentence_type == "idiomatic" for item in items])
    folds = list(
        StratifiedGroupKFold(HEADS, shuffle=True, random_state=seed).split(
            vectors, labels, compounds
        )
    )
    fitted = {
        strength: [
            make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=5000)).fit(
                vectors[train], labels[train]
            )
            for train, _ in folds
        ]
        for strength in STRENGTHS
    }
    areas = {
        strength: [
            roc_auc_score(labels[test], head.decision_function(vectors[test]))
            for head, (_, test) in zip(heads, folds, strict=True)
        ]
        for strength, heads in fitted.items()
    }
    best = max(areas.values(), key=np.mean)
    tolerance = np.std(best, ddof=1) / np.sqrt(HEADS)
    strength = next(s for s in STRENGTHS if np.mean(areas[s]) >= np.mean(best) - tolerance)
    heads = fitted[strength]
    right = [
        head.score(vectors[test], labels[test])
        for head, (_, test) in zip(heads, folds, strict=True)
    ]
    # The scaling is folded into the heads, which then apply to the encoder's vectors as they are.
    weights = np.array([logistic.coef_[0] / scaler.scale_ for scaler, logistic in heads])
    offsets = [logistic.intercept_[0] for _, logistic in heads]
    means = [scaler.mean_ for scaler, _ in heads]
    biases = np.array(offsets) - (weights * means).sum(axis=1)
    card = {
        "made": datetime.now(UTC).date().isoformat(),
        "items": len(items),
        "compounds": len(set(compounds)),
        "languages": sorted({item.language for item in items}),
        "strength": strength,
        "unseen compounds": {
            "accuracy": round(float(np.mean(right)), 4),
            "auc": round(float(np.mean(areas[strength])), 4),
        },
        "seed": seed,
        "prompt": Prompts().fingerprints()["detect_en.j2"],
    }
    return Detector(encoder.name, encoder.identity, weights, biases, card)
