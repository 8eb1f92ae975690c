"""A detector of idiomatic use: linear heads on frozen features of a sentence, in five votes.

Also the files of SemEval-2022 Task 2A that it is fitted to, and how detectors are scored on them.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from admire.encoders import TextEncoder, open_encoder
from admire.errors import UserError
from admire.items import Item, SenseLabel, check_language, read_table, read_text
from admire.prompts import Prompts
from admire.sense import Sense, majority
from admire.storage import write_whole

if TYPE_CHECKING:
    from admire.classifier import Classifier

BUILT_IN = Path(__file__).parent / "detector.json"
HEADS = 5
STRENGTHS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
"""Inverse regularisation strengths to choose from, weakest fit first."""

Setting = Literal["zero_shot", "one_shot"]
"""Task 2A's settings: whether the MWEs of the evaluation were unseen in training, or seen once."""

LABELS: tuple[SenseLabel, SenseLabel] = ("idiomatic", "literal")
"""What Task 2A's labels 0 and 1 mean."""


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


def load_detector(path: Path = BUILT_IN) -> Detector | Classifier:
    """The detector that ships with admire, or one that :meth:`Detector.save` wrote.

    A folder is a fine-tuned encoder that ``admire finetune detector`` wrote.

    Raises:
        UserError: the file or folder cannot be read or is no detector, or an extra is missing.
    """
    if path.is_dir():
        from admire.classifier import open_classifier

        return open_classifier(path)
    try:
        content = json.loads(read_text(path))
        weights, biases = np.array(content["weights"]), np.array(content["biases"])
        if weights.ndim != 2 or biases.shape != weights.shape[:1]:
            raise ValueError("the shapes do not fit")
        return Detector(content["encoder"], content["identity"], weights, biases, content["card"])
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: is not a detector that admire wrote ({error!r}).") from None


# -------------------------------------------------------------- the files of SemEval-2022 Task 2A


@dataclass(frozen=True)
class Use:
    """A row of Task 2A: an MWE in a sentence, and what stands before and after that."""

    item: Item
    previous: str = ""
    following: str = ""
    id: str = ""


def read_uses(path: Path, gold: Path | None = None, *, required: Sequence[str] = ()) -> list[Use]:
    """The rows of a Task 2A file: Language, MWE, Target, and what it has of the other columns.

    Args:
        gold: file with the columns ID and Label (0: idiomatic, 1: not) where the other has no
            Label. Without either the senses are None.
        required: columns, of ID, Previous, Next and Label, that have to be there.

    Raises:
        UserError: the file, row and column that cannot be used, and why.
    """
    needed = ("Language", "MWE", "Target", *required, *(["ID"] if gold else []))
    table = read_table(path, needed)
    if table.empty:
        raise UserError(f"{path}: holds no rows.")
    known = _gold(gold) if gold else {}
    uses = []
    for number, row in enumerate(table.to_dict("records"), start=1):
        for column in ("MWE", "Target"):
            if not row[column].strip():
                raise UserError(f"{path}, row {number}, {column}: is empty.")
        try:
            language = check_language(row["Language"].strip())
        except UserError as error:
            raise UserError(f"{path}, row {number}, Language: {error}") from None
        sense = None
        if gold:
            where = f"{path}, row {number}, ID: '{row['ID']}' has no label in {gold}"
            if row["ID"] not in known:
                raise UserError(f"{where}.")
            gold_row, label = known[row["ID"]]
            sense = _sense_of(label, f"{where}: its row {gold_row}, Label,")
        elif "Label" in row:
            sense = _sense_of(row["Label"], f"{path}, row {number}, Label:")
        item = Item(row["MWE"], row["Target"], language, sentence_type=sense)
        uses.append(Use(item, row.get("Previous", ""), row.get("Next", ""), row.get("ID", "")))
    return uses


def _gold(path: Path) -> dict[str, tuple[int, str]]:
    """The row and label of each ID in a gold file."""
    table = read_table(path, ("ID", "Label"))
    found: dict[str, tuple[int, str]] = {}
    pairs = zip(table["ID"], table["Label"], strict=True)
    for number, (name, label) in enumerate(pairs, start=1):
        if name in found:
            raise UserError(f"{path}, row {number}, ID: '{name}' is there twice.")
        found[name] = number, label
    return found


def _sense_of(label: str, where: str) -> SenseLabel:
    if label not in ("0", "1"):
        raise UserError(f"{where} is '{label}', not 0 or 1.")
    return LABELS[int(label)]


def read_idiomaticity(path: Path, gold: Path | None = None) -> list[Item]:
    """Labelled items of a Task 2A file, with its labels or those of a gold file, joined on ID.

    Raises:
        UserError: the file, row and column that cannot be used, and why.
    """
    required = () if gold else ("Label",)
    return [use.item for use in read_uses(path, gold, required=required)]


def write_predictions(
    path: Path, uses: Sequence[Use], senses: Sequence[Sense], setting: Setting
) -> None:
    """Write a submission as Task 2A's organisers read it: ID, Language, Setting, Label.

    Raises:
        UserError: the file cannot be written.
    """
    with write_whole(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("ID", "Language", "Setting", "Label"))
        for use, sense in zip(uses, senses, strict=True):
            label = int(sense.label != "idiomatic")
            writer.writerow((use.id, use.item.language.upper(), setting, label))


@dataclass(frozen=True)
class Score:
    """How well ``n`` uses of a language, or of ``all``, were decided; figures from 0 to 1."""

    language: str
    n: int
    macro_f1: float
    accuracy: float


def score_senses(items: Sequence[Item], senses: Sequence[Sense]) -> list[Score]:
    """Task 2A's macro F1, and the accuracy, for each language in order, and for all of them.

    Raises:
        UserError: scikit-learn is missing.
    """
    languages = sorted({item.language for item in items})
    pairs = list(zip(items, senses, strict=True))
    found = []
    for language in (*languages, "all"):
        chosen = [(i, s) for i, s in pairs if language in (i.language, "all")]
        gold = [item.sentence_type for item, _ in chosen]
        told = [sense.label for _, sense in chosen]
        right = sum(one == other for one, other in zip(gold, told, strict=True))
        found.append(Score(language, len(chosen), macro_f1(gold, told), right / len(chosen)))
    return found


def macro_f1(gold: Sequence[SenseLabel | None], told: Sequence[SenseLabel | None]) -> float:
    """Mean of the F1 scores of the senses that occur, as the organisers compute it, from 0 to 1.

    Raises:
        UserError: scikit-learn is missing.
    """
    try:
        from sklearn.metrics import f1_score
    except ImportError as error:
        raise UserError(
            "Macro F1 needs scikit-learn: the extra 'train' (pip install '.[train]')."
        ) from error
    return float(f1_score(gold, told, average="macro", zero_division=0))


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
