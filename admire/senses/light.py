"""The light detector: linear heads on a frozen encoder's vectors of a compound in context."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from admire.base.errors import UserError, needs_extra
from admire.base.files import read_text
from admire.base.schema import Count, Positive, Seed, settings
from admire.base.storage import write_whole
from admire.data.languages import LANGUAGES, base_language
from admire.data.overlap import digests
from admire.models.encoders import Query, QueryEncoder, open_encoder
from admire.prompts import Prompts
from admire.scores.leakage import SAW, check_card, detector_parts, warn_of_shared
from admire.scores.metrics import calibration_error
from admire.senses.sense import Sense

if TYPE_CHECKING:
    from admire.data.items import Item, SenseLabel
    from admire.senses.uses import Use

log = logging.getLogger("admire")

HEADS = 5
Features = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LightDetector:
    """Logistic heads on an encoder's vectors of a compound; each head has one vote.

    Attributes:
        encoder: the encoder's name.
        encoder_identity: the encoder's exact version; the heads only suit its vectors.
        weights: shape (heads, 2 * width), see :func:`read_contexts`; they give calibrated log-odds
            of the idiomatic sense.
        biases: shape (heads,), added to the log-odds.
        neutral: whether neutral contexts are subtracted, see :class:`DetectorTraining`.
        shift: what is taken off the log-odds in languages that it was not trained on.
        card: how it was made; ``saw`` has the digests of the compounds and sentences that it was
            trained on.
        identity: SHA-256 of its file; of a new detector, of the file that :meth:`save` writes.
        keep_loaded: keep the encoder in memory between calls.
    """

    encoder: str
    encoder_identity: str
    weights: npt.NDArray[np.float64]
    biases: npt.NDArray[np.float64]
    neutral: bool
    card: dict[str, Any]
    shift: float = 0.0
    identity: str = ""
    keep_loaded: bool = False

    columns = ()
    setting = None

    def __post_init__(self) -> None:
        if not self.identity:
            object.__setattr__(self, "identity", _sha256(self._content().encode()))

    def classify(self, uses: Sequence[Use], encoder: QueryEncoder | None = None) -> list[Sense]:
        """The sense of each use, by the mean of the heads' probabilities.

        It can differ from the majority of their votes where the heads are nearly divided. The mean
        knows how sure each of them is, and it is what is calibrated.

        Args:
            encoder: the encoder; None is :attr:`reader`.

        Raises:
            UserError: this is not the encoder that the heads were trained on.
        """
        if not uses:
            return []
        encoder = encoder or self.reader
        if encoder.identity != self.encoder_identity:
            raise UserError(
                f"The detector was trained on '{self.encoder_identity}', not on "
                f"'{encoder.identity}'. Train it again.",
                "detector",
            )
        contexts = read_contexts([use.item for use in uses], encoder, neutral=self.neutral)
        if not self.keep_loaded:
            self.__dict__.pop("reader", None)
        # A product of all at once would depend in its last bits on how many there are.
        products = np.stack([(self.weights * one).sum(axis=1) for one in contexts])
        products -= self.shift * self._unknown(uses)[:, None]
        probabilities = 1 / (1 + np.exp(-(products + self.biases)))
        return [_sense(row) for row in probabilities]

    def _unknown(self, uses: Sequence[Use]) -> npt.NDArray[np.bool_]:
        """Whether it was not trained on the language of each use, which is said once a language."""
        languages = [base_language(use.item.language) for use in uses]
        trained = {base_language(tag) for tag in self.card.get("languages", languages)}
        for language in sorted(set(languages) - trained):
            _warn_of_language(language, tuple(sorted(trained)))
        return np.array([language not in trained for language in languages])

    @cached_property
    def reader(self) -> QueryEncoder:
        """The encoder of that name, opened when it is needed.

        Raises:
            UserError: it cannot be opened.
        """
        return open_context_encoder(self.encoder)

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
            "neutral": self.neutral,
            "shift": self.shift,
            "card": self.card,
        }
        return json.dumps(content, separators=(",", ":"))


@cache
def _warn_of_language(language: str, trained: tuple[str, ...]) -> None:
    log.warning(
        "The detector was not trained on %s, only on %s: trust its senses less. Votes of a strong "
        "chat model are better there (--llm openai:MODEL --sense vote).",
        LANGUAGES.get(language, f"the language '{language}'"),
        " and ".join(LANGUAGES.get(one, one) for one in trained),
    )


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _sense(probabilities: npt.NDArray[np.float64]) -> Sense:
    mean = float(probabilities.mean())
    idiomatic = int((probabilities > 0.5).sum())
    label: SenseLabel = "idiomatic" if mean > 0.5 else "literal"
    return Sense(label, mean, idiomatic, len(probabilities) - idiomatic)


def open_context_encoder(name: str) -> QueryEncoder:
    """Open an encoder that gives vectors of words in their context.

    Raises:
        UserError: there is no such encoder, or it gives no such vectors.
    """
    encoder = open_encoder(name)
    if not isinstance(encoder, QueryEncoder):
        raise UserError(
            f"The encoder '{name}' gives no vectors of words in their context. Use embedded-state "
            "or one of sbert:….",
            "encoder",
        )
    return encoder


def read_contexts(items: Sequence[Item], encoder: QueryEncoder, *, neutral: bool) -> Features:
    """Each item's compound in its sentence, shape (items, 2 * width).

    The prompt ``detect`` gives the sentence and repeats the compound. First comes the encoder's
    vector of the compound's words in the sentence, then that of the words where they are repeated.

    Args:
        neutral: subtract the mean over neutral sentences, which are the lines of the template
            ``neutral`` (one, as it comes with admire) and say nothing of what the compound means.
            What the encoder knows of the compound itself is in both and falls out; what the
            sentence adds is left. They are read once for each compound of a language. Where
            captions of a sequence stand for a sentence, so do those of ``sequence-neutral``.
    """
    prompts = Prompts()
    lines = {
        _neutral(item): [
            replace(item, sentence=line)
            for line in prompts.about(
                item, "sequence-neutral" if item.sequence else "neutral"
            ).splitlines()
        ]
        for item in items
    }
    asked = [*items, *chain.from_iterable(lines.values())] if neutral else items
    queries = [query for item in asked for query in _places(item, prompts)]
    vectors = encoder.encode_queries(queries).astype(float).reshape(len(asked), -1)
    if not neutral:
        return vectors
    ends = np.cumsum([len(items), *map(len, lines.values())])[:-1]
    contexts, *others = np.split(vectors, ends)
    means = {place: part.mean(axis=0) for place, part in zip(lines, others, strict=True)}
    added: Features = contexts - np.array([means[_neutral(item)] for item in items])
    return added


def _neutral(item: Item) -> tuple[str, str, bool]:
    """What an item's neutral sentences depend on."""
    return item.phrase, item.language, bool(item.sequence)


def _places(item: Item, prompts: Prompts) -> tuple[Query, Query]:
    """The two places where the prompt has the compound; what comes after them is not read."""
    text = prompts.about(item, "detect")
    start, end = find_compound(item.sentence, item.phrase)
    before = text.index(item.sentence)
    repeated = text.rindex(item.phrase)
    text = text[: repeated + len(item.phrase)]
    return (
        Query(text, span=(before + start, before + end)),
        Query(text, span=(repeated, len(text))),
    )


def find_compound(sentence: str, compound: str) -> tuple[int, int]:
    """Where a sentence has a compound, in characters, also if its words are inflected or apart.

    Words count as the same if they begin alike, and up to two others may stand between them. If
    the compound is not there, the place is the whole sentence.
    """
    found = re.search(re.escape(compound) + r"[a-zà-öø-ÿ]{0,3}", sentence, re.IGNORECASE)
    if found is None:
        stems = [re.escape(word[: max(3, len(word) - 3)]) for word in re.findall(r"\w+", compound)]
        between = r"\W+(?:\w+\W+){0,2}?"
        found = re.search(between.join(rf"\b{stem}\w*" for stem in stems), sentence, re.IGNORECASE)
    return found.span() if found else (0, len(sentence))


class _File(BaseModel):
    """A detector's file."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    encoder: str
    identity: str
    weights: list[list[float]] = Field(min_length=1)
    biases: list[float]
    neutral: bool
    shift: float = 0.0
    card: dict[str, Any]


def open_light_detector(path: Path, *, keep_loaded: bool = False) -> LightDetector:
    """Open a detector that :meth:`LightDetector.save` wrote.

    Raises:
        UserError: the file cannot be read or holds no detector.
    """
    text = read_text(path)
    try:
        file = _File.model_validate_json(text)
        check_card(file.card)
        weights, biases = np.array(file.weights), np.array(file.biases)
        if biases.shape != weights.shape[:1]:
            raise ValueError("each head needs a bias")
    except ValueError as error:
        raise UserError(
            f"{path}: is not a detector that admire wrote ({error}).", "detector"
        ) from None
    return LightDetector(
        file.encoder,
        file.identity,
        weights,
        biases,
        file.neutral,
        file.card,
        file.shift,
        identity=_sha256(text.encode()),
        keep_loaded=keep_loaded,
    )


# ------------------------------------------------------------------------------------- training


@settings(frozen=True)
class DetectorTraining:
    """How a light detector is trained.

    Attributes:
        per_compound: how many sentences of each compound and sense are used at most.
        neutral: score what a sentence adds to neutral ones, so that a compound which is usually an
            idiom counts no more than another; without it, what is known of the compound counts
            too, as suits Task 2A, where most compounds occur in one sense only.
        strength: the inverse of the regularisation, scikit-learn's C.
        seed: of the sample and of the folds.
    """

    per_compound: Count = 4
    neutral: bool = True
    strength: Positive = 1e-3
    seed: Seed = 0


def sample_items(
    items: Sequence[Item], settings: DetectorTraining, *, leave_out: Sequence[str] = ()
) -> list[Item]:
    """At most ``per_compound`` items of each compound and sense, in random order.

    Many compounds teach more than many sentences of one. Which sentences of a compound are chosen
    does not depend on the other compounds, so more data need not have all read again.

    Args:
        leave_out: compounds to drop, so that data with them stay unseen. Case, spaces, hyphens and
            a plural's s make no difference.
    """
    unwanted = {_plain(compound) for compound in leave_out}
    taken: dict[tuple[str, str | None], int] = {}
    chosen = []
    for item in sorted(items, key=lambda i: _sha256(f"{settings.seed}\0{i.sentence}".encode())):
        key = (_plain(item.compound), item.sentence_type)
        if key[0] not in unwanted and taken.get(key, 0) < settings.per_compound:
            taken[key] = taken.get(key, 0) + 1
            chosen.append(item)
    return chosen


def _plain(compound: str) -> str:
    return re.sub(r"[\W_]+", "", compound.casefold()).removesuffix("s")


def train_detector(
    items: Sequence[Item],
    encoder: QueryEncoder,
    settings: DetectorTraining | None = None,
    *,
    leave_out: Sequence[str] = (),
) -> LightDetector:
    """Train a light detector on a sample of the items, see :func:`sample_items`.

    Each of the heads is trained on four fifths of the compounds, with the senses balanced. The
    fifth that is left out serves to calibrate. The card's figures are of these compounds, which a
    head never saw. A warning tells if a sentence of theirs is also one of another compound that it
    did see.

    With ``settings.neutral``, what a head says of neutral sentences is subtracted there, as it is
    in use. Only compounds that occur in both senses count, with as much weight for one sense as
    for the other. So nothing can be gained by knowing which compounds are usually idioms.

    Args:
        items: labelled sentences.
        encoder: the encoder that is frozen.
        leave_out: compounds that the detector must not see.

    Raises:
        UserError: scikit-learn is missing, or there are too few compounds in both senses.
    """
    settings = settings or DetectorTraining()
    with needs_extra("train", "Training a detector"):
        from sklearn.linear_model import LogisticRegression
        from sklearn.metrics import roc_auc_score
        from sklearn.model_selection import StratifiedGroupKFold

    items = sample_items(items, settings, leave_out=leave_out)
    compounds = np.array([_plain(item.compound) for item in items])
    labels = np.array([item.sentence_type == "idiomatic" for item in items])
    senses_of = {compound: set(labels[compounds == compound]) for compound in set(compounds)}
    both = np.array([len(senses_of[compound]) == 2 for compound in compounds], dtype=bool)
    if len(set(compounds[both])) < HEADS:
        raise UserError(
            f"A detector needs at least {HEADS} compounds that occur in both senses to learn from."
        )
    contexts = scored = read_contexts(items, encoder, neutral=False)
    folds = list(
        StratifiedGroupKFold(HEADS, shuffle=True, random_state=settings.seed).split(
            contexts, labels, compounds
        )
    )
    unseen = [test for _, test in folds]
    weights = np.ones(len(items))
    if settings.neutral:
        scored = np.zeros_like(contexts)
        wanted = [item for item, chosen in zip(items, both, strict=True) if chosen]
        scored[both] = read_contexts(wanted, encoder, neutral=True)
        unseen = [test[both[test]] for test in unseen]
        sizes = Counter(zip(compounds, labels, strict=True))
        weights = np.array([1 / sizes[pair] for pair in zip(compounds, labels, strict=True)])

    heads = [_fit(contexts[train], labels[train], settings.strength) for train, _ in folds]
    scores = [scored[test] @ head for head, test in zip(heads, unseen, strict=True)]
    places = np.concatenate(unseen)
    found = np.concatenate(scores)[:, None]
    scale = LogisticRegression(C=np.inf)
    scale.fit(found, labels[places], sample_weight=weights[places])
    probabilities = scale.predict_proba(found)[:, 1]
    parts = detector_parts(items)
    splits = [(train, test) for (train, _), test in zip(folds, unseen, strict=True)]
    warn_of_shared(parts, splits, [item.compound for item in items], "the detector's heads")
    right = (probabilities > 0.5) == labels[places]
    area = roc_auc_score(labels[places], probabilities, sample_weight=weights[places])
    prompts = Prompts().fingerprints()
    card = {
        "made": datetime.now(UTC).date().isoformat(),
        "items": len(items),
        "compounds": len(set(compounds)),
        "languages": sorted({item.language for item in items}),
        "strength": settings.strength,
        "unseen compounds": {
            "items": len(places),
            "accuracy": round(float(np.average(right, weights=weights[places])), 4),
            "auc": round(float(area), 4),
            "calibration error": round(calibration_error(probabilities, labels[places]), 4),
        },
        "seed": settings.seed,
        "prompts": {
            name: digest
            for name, digest in prompts.items()
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


def _fit(contexts: Features, labels: npt.NDArray[np.bool_], strength: float) -> Features:
    """One head's weights, shape (2 * width,), for contexts as they are.

    Each place of the compound has weights of its own; they are scaled so that the scores of both
    have the same spread.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    found = []
    for place in np.split(contexts, 2, axis=1):
        scaler = StandardScaler().fit(place)
        head = LogisticRegression(C=strength, max_iter=5000, class_weight="balanced")
        head.fit(scaler.transform(place), labels)
        weights = head.coef_[0] / scaler.scale_
        found.append(weights / ((place @ weights).std() or 1))
    return np.concatenate(found)
