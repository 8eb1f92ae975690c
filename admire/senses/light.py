"""The light detector: linear heads on a frozen encoder's vector of a sentence, with five votes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from admire.choices import Number, check_settings
from admire.encoders import open_encoder
from admire.errors import UserError, needs_extra
from admire.files import read_text
from admire.prompts import Prompts
from admire.senses.sense import Sense, majority
from admire.storage import write_whole

if TYPE_CHECKING:
    from admire.encoders import TextEncoder
    from admire.items import Item
    from admire.senses.task2a import Use

HEADS = 5
STRENGTHS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
"""Inverse regularisation strengths to choose from, the strongest regularisation first."""


@dataclass(frozen=True)
class LightDetector:
    """Logistic heads on an encoder's vectors; each head has one vote.

    Attributes:
        encoder: the encoder's name.
        encoder_identity: the encoder's exact version; the heads only suit its vectors.
        weights: shape (heads, width).
        biases: shape (heads,).
        card: how it was made.
        identity: SHA-256 of its file; of a new detector, of the file that :meth:`save` writes.
    """

    encoder: str
    encoder_identity: str
    weights: npt.NDArray[np.float64]
    biases: npt.NDArray[np.float64]
    card: dict[str, Any]
    identity: str = ""

    columns = ()
    setting = None

    def __post_init__(self) -> None:
        if not self.identity:
            object.__setattr__(self, "identity", _sha256(self._content().encode()))

    def classify(self, uses: Sequence[Use], encoder: TextEncoder | None = None) -> list[Sense]:
        """The sense of each use: the majority of the heads, and their mean probability.

        Args:
            encoder: the encoder; None opens it by its name.

        Raises:
            UserError: this is not the encoder that the heads were trained on.
        """
        if not uses:
            return []
        encoder = encoder or open_encoder(self.encoder)
        if encoder.identity != self.encoder_identity:
            raise UserError(
                f"The detector was trained on '{self.encoder_identity}', not on "
                f"'{encoder.identity}'. Train it again.",
                "detector",
            )
        vectors = encoder.encode_texts(_texts([use.item for use in uses]), role="query")
        probabilities = 1 / (1 + np.exp(-(vectors @ self.weights.T + self.biases)))
        return [_sense(row) for row in probabilities]

    def save(self, path: Path) -> None:
        """Write the detector as JSON.

        Raises:
            UserError: the file cannot be written.
        """
        with write_whole(path) as file:
            file.write(self._content())

    def _content(self) -> str:
        content = {
            "encoder": self.encoder,
            "identity": self.encoder_identity,
            "weights": np.round(self.weights, 5).tolist(),
            "biases": np.round(self.biases, 5).tolist(),
            "card": self.card,
        }
        return json.dumps(content, separators=(",", ":"))


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _sense(probabilities: npt.NDArray[np.float64]) -> Sense:
    idiomatic = int((probabilities > 0.5).sum())
    literal = len(probabilities) - idiomatic
    return Sense(majority(idiomatic, literal), float(probabilities.mean()), idiomatic, literal)


def _texts(items: Sequence[Item]) -> list[str]:
    prompts = Prompts()
    return [prompts.about(item, "detect") for item in items]


def open_light_detector(path: Path) -> LightDetector:
    """Open a detector that :meth:`LightDetector.save` wrote.

    Raises:
        UserError: the file cannot be read or holds no detector.
    """
    text = read_text(path)
    try:
        content = json.loads(text)
        weights, biases = np.array(content["weights"]), np.array(content["biases"])
        if weights.ndim != 2 or biases.shape != weights.shape[:1]:
            raise ValueError("the shapes do not fit")
        return LightDetector(
            content["encoder"],
            content["identity"],
            weights,
            biases,
            content["card"],
            identity=_sha256(text.encode()),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path}: is not a detector that admire wrote ({error!r}).", "detector"
        ) from None


# ------------------------------------------------------------------------------------- training


@dataclass(frozen=True)
class DetectorTraining:
    """How a light detector is trained.

    Attributes:
        per_compound: how many sentences of each compound and sense are used at most.
        seed: of the sample and of the folds.
    """

    per_compound: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        check_settings(self, per_compound=Number(1, whole=True), seed=Number(0, whole=True))


def sample_items(
    items: Sequence[Item], settings: DetectorTraining, *, leave_out: Sequence[str] = ()
) -> list[Item]:
    """At most ``per_compound`` items of each compound and sense, in random order.

    Many compounds teach more than many sentences of one.

    Args:
        leave_out: compounds to drop, whatever their case, so that data with them stay unseen.
    """
    unwanted = {compound.casefold() for compound in leave_out}
    taken: dict[tuple[str, str | None], int] = {}
    chosen = []
    for k in np.random.default_rng(settings.seed).permutation(len(items)):
        item = items[k]
        key = (item.compound.casefold(), item.sentence_type)
        if key[0] not in unwanted and taken.get(key, 0) < settings.per_compound:
            taken[key] = taken.get(key, 0) + 1
            chosen.append(item)
    return chosen


def train_detector(
    items: Sequence[Item],
    encoder: TextEncoder,
    settings: DetectorTraining | None = None,
    *,
    leave_out: Sequence[str] = (),
) -> LightDetector:
    """Train a light detector on a sample of the items, see :func:`sample_items`.

    Each of the heads is trained on four fifths of the compounds; the fifth that is left out serves
    to choose the regularisation. The strongest one is taken whose area under the ROC curve is
    within one standard error of the best. The card holds that area and the accuracy, so both are
    of compounds that a head never saw.

    Args:
        items: labelled sentences.
        encoder: the encoder that is frozen.
        leave_out: compounds that the detector must not see.

    Raises:
        UserError: scikit-learn is missing, or there are too few compounds or only one sense.
    """
    settings = settings or DetectorTraining()
    with needs_extra("train", "Training a detector"):
        from sklearn.linear_model import LogisticRegression
        from sklearn.metrics import roc_auc_score
        from sklearn.model_selection import StratifiedGroupKFold
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

    items = sample_items(items, settings, leave_out=leave_out)
    compounds = [item.compound.casefold() for item in items]
    if len(set(compounds)) < HEADS or len({item.sentence_type for item in items}) < 2:
        raise UserError(
            f"A detector needs both senses and at least {HEADS} compounds to learn from."
        )
    vectors = encoder.encode_texts(_texts(items), role="query")
    labels = np.array([item.sentence_type == "idiomatic" for item in items])
    folds = list(
        StratifiedGroupKFold(HEADS, shuffle=True, random_state=settings.seed).split(
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
        "seed": settings.seed,
        "prompt": Prompts().fingerprints()["detect_en.j2"],
    }
    return LightDetector(encoder.name, encoder.identity, weights, biases, card)
