"""The fine-tuned detector: an encoder with a linear layer (YNU-HPCC 2022, sections 2.1 and 3)."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import numpy as np
from pydantic import Field

from admire.base.errors import UserError, needs_extra
from admire.base.files import read_text
from admire.base.schema import settings
from admire.base.storage import check_folder, write_whole
from admire.data.overlap import digests
from admire.models.encoders.hub import folder_digest, load_cached_first, resolve_source
from admire.models.encoders.placement import Placement
from admire.models.training_settings import FitSettings
from admire.scores.leakage import SAW, check_card, detector_parts
from admire.senses.sense import Sense, majority
from admire.senses.uses import LABELS, Setting, Use, context_columns, macro_f1

with needs_extra("clip", "A fine-tuned detector"):
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules.module import Module
    from sentence_transformers.sentence_transformer.modules import Dense, Pooling, Transformer

if TYPE_CHECKING:
    from admire.data.items import SenseLabel
    from admire.models.encoders import Device

log = logging.getLogger("admire")

RECORD = "admire.json"
"""The file in a saved classifier's folder that says how it was made."""

HEAD = "2_Dense"
"""The linear layer's subfolder, as sentence-transformers names that of the third module."""


class FirstStates(Module):
    """The first token's states in all hidden layers, concatenated; without the embedding layer."""

    def forward(self, features: dict[str, Any], **options: Any) -> dict[str, Any]:
        """Set ``sentence_embedding``, shape (batch, layers x width), the first layer first."""
        layers = features["all_layer_embeddings"][1:]
        first = features["attention_mask"].argmax(dim=1)  # there may be padding on the left
        rows = torch.arange(len(first), device=first.device)
        features["sentence_embedding"] = torch.cat([layer[rows, first] for layer in layers], dim=-1)
        return features

    def save(self, output_path: str, *args: Any, **options: Any) -> None:
        """Write the module's configuration, which is empty."""
        self.save_config(output_path)


@dataclass(frozen=True)
class Classifier:
    """An encoder with a linear layer to two logits, which decides whether a use is idiomatic.

    Attributes:
        model: its ``encode`` gives logits of shape (texts, 2): idiomatic, literal.
        setting: ``zero_shot`` reads a sentence with the ones before and after it, and takes the
            first token's states in all hidden layers; ``one_shot`` reads the sentence and the MWE,
            and takes those in the last layer.
        card: how it was made.
        identity: the digest of its folder.
    """

    model: SentenceTransformer
    setting: Setting
    card: Mapping[str, Any]
    identity: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a Task 2A file that it reads besides the sentence and the MWE."""
        return context_columns(self.setting)

    def classify(self, uses: Sequence[Use]) -> list[Sense]:
        """Each use's sense, with one vote and the probability of the idiomatic sense."""
        if not uses:
            return []
        logits: np.ndarray[Any, np.dtype[np.float32]] = self.model.encode(
            [self.text(use) for use in uses], convert_to_numpy=True, show_progress_bar=False
        )
        idiomatic, literal = logits.astype(np.float64).T
        probabilities = 1 / (1 + np.exp(np.clip(literal - idiomatic, -700, 700)))
        found = []
        for probability in probabilities:
            votes = int(probability > 0.5)
            found.append(Sense(majority(votes, 1 - votes), float(probability), votes, 1 - votes))
        return found

    def text(self, use: Use) -> str:
        """The text of a use that the model reads (section 3.1).

        In the zero-shot setting it is the sentence before, the sentence and the next one; the model
        cuts a long text at its end. In the one-shot setting it is the sentence, the tokenizer's
        separator and the MWE; a long sentence is cut here, so that the MWE is kept.
        """
        if self.setting == "zero_shot":
            parts = (use.previous, use.item.sentence, use.following)
            return " ".join(part.strip() for part in parts if part.strip())
        tokenizer = self.model.tokenizer
        # Some tokenizers would make a token of a space before the separator. Without a space
        # after it, the MWE's first piece would be taken for the end of a word.
        mwe = use.item.phrase.strip()
        ending = f"{tokenizer.sep_token} {mwe}"
        sentence = use.item.sentence.strip()
        room = (self.model.max_seq_length or 0) - len(tokenizer(ending)["input_ids"])
        places = tokenizer(
            sentence,
            add_special_tokens=False,
            return_offsets_mapping=True,
            verbose=False,  # it warns of long texts, which are cut here
        )["offset_mapping"]
        if len(places) > room:
            sentence = sentence[: places[room - 1][1]] if room > 0 else ""
        return sentence + ending


def open_classifier(folder: Path, *, device: Device = "auto") -> Classifier:
    """Open a classifier that :func:`train_classifier` wrote; nothing is asked of the network.

    Raises:
        UserError: the folder holds no classifier or a part of it is missing, or there is no such
            device.
    """
    record, identity = _read_record(folder), folder_digest(folder)
    for part in ("model.safetensors", f"{HEAD}/model.safetensors"):
        if not (folder / part).is_file():  # otherwise the library would load a pickle
            raise UserError(f"{folder}: '{part}' is missing. Copy the whole folder again.")
    place, dtype = Placement(device).resolve()

    def load() -> SentenceTransformer:
        transformer = Transformer.load(
            str(folder), model_kwargs={"dtype": dtype, "use_safetensors": True}
        )
        return _assembled(
            transformer, Dense.load(str(folder), subfolder=HEAD), record["setting"], str(place)
        )

    try:
        model = load_cached_first(load, str(folder))
    except Exception as error:  # the library lets the errors of all its parts through
        raise UserError(f"{folder}: sentence-transformers cannot load it ({error}).") from error
    return Classifier(model, record["setting"], record, identity)


def _read_record(folder: Path) -> dict[str, Any]:
    path = folder / RECORD
    try:
        record = json.loads(read_text(path))
        check_card(record)
        if record["setting"] in get_args(Setting):
            return dict(record)
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise UserError(f"{path}: does not describe a classifier that admire trained.", "detector")


def _assembled(
    transformer: Transformer, head: Dense, setting: Setting, device: str
) -> SentenceTransformer:
    every = setting == "zero_shot"
    transformer.config.output_hidden_states = every
    states: Module = Pooling(transformer.get_embedding_dimension(), "cls")
    if every:
        states = FirstStates()  # type: ignore[no-untyped-call]
    return SentenceTransformer(modules=[transformer, states, head], device=device)


# ---------------------------------------------------------------------------------------- training


def paper_fit(setting: Setting) -> FitSettings:
    """The trainer's settings of the paper (section 3.3); every epoch is trained, the best is kept.

    Raises:
        UserError: the extra ``finetune`` is missing.
    """
    size = {"zero_shot": 32, "one_shot": 4}[setting]
    return FitSettings(
        batch_size=size, learning_rate=2e-5, warmup=0.05, epochs=10, patience=10, seed=4
    )


@settings(frozen=True)
class ClassifierTraining:
    """How a classifier is trained; the defaults are the paper's (section 3.3).

    Attributes:
        setting: what it reads, see :class:`Classifier`.
        max_length: how many tokens it reads, special tokens included.
        fit: the trainer's settings; None is :func:`paper_fit` of the setting.
    """

    setting: Setting
    max_length: Annotated[int, Field(ge=8)] = 128
    fit: FitSettings | None = None


def train_classifier(
    base: str,
    train: Sequence[Use],
    validation: Sequence[Use] | None,
    settings: ClassifierTraining,
    out: Path,
    *,
    device: Device = "auto",
) -> list[float]:
    """Fine-tune an encoder to detect idiomatic use, and save it to ``out``.

    The loss is cross-entropy. The epoch with the highest macro F1 on ``validation`` is kept. The
    same call continues where an earlier one was killed.

    Args:
        base: folder or repository of an encoder of transformers or sentence-transformers; it may
            be written ``sbert:NAME``, as other commands do.
        validation: None holds out a tenth of the MWEs of ``train``, see
            :func:`hold_out_compounds`.

    Returns:
        Macro F1 on ``validation`` before training and after each epoch, from 0 to 1.

    Raises:
        UserError: there is no such encoder, a use has no sense or one sense is missing from
            ``train``, ``out`` cannot be written, or an extra is missing.
    """
    from admire.models.trainer import fine_tune

    fit = settings.fit or paper_fit(settings.setting)
    if validation is None:
        train, validation = hold_out_compounds(train, fit.seed)
    gold = [_sense_of(use) for use in validation]
    if not gold:
        raise UserError("There are no uses to validate on.", "validation")
    if {_sense_of(use) for use in train} != set(LABELS):
        raise UserError("Training needs idiomatic and literal uses.")
    macro_f1(gold, gold)  # tells of a missing package before hours of training
    check_folder(out, "model")
    base = base.removeprefix("sbert:")
    transformer, identity = _open_base(base, device)
    transformer.max_seq_length = min(
        transformer.max_seq_length or settings.max_length, settings.max_length
    )
    tokenizer = transformer.tokenizer
    if settings.setting == "one_shot" and not (tokenizer and tokenizer.sep_token):
        raise UserError(
            f"{base}: its tokenizer has no separator, which the setting one_shot needs.",
            "encoder",
            "setting",
        )
    width = transformer.get_embedding_dimension()
    layers = transformer.config.num_hidden_layers if settings.setting == "zero_shot" else 1
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(fit.seed)
        head = Dense(width * layers, len(LABELS), activation_function=torch.nn.Identity())
    place = str(Placement(device).resolve()[0])
    model = _assembled(transformer, head, settings.setting, place)
    classifier = Classifier(model, settings.setting, {})
    rows = [_row(classifier, use) for use in train]
    held = [_row(classifier, use) for use in validation]
    log.info("%d sentences to train and %d to validate on", len(rows), len(held))
    made = {
        "base": base,
        "identity": identity,
        "setting": settings.setting,
        "max_length": settings.max_length,
        "fit": asdict(fit),
    }

    def validate() -> float:
        return macro_f1(gold, [sense.label for sense in classifier.classify(validation)])

    def finish(folder: Path, figures: list[float]) -> None:
        record = made | {
            "languages": sorted({use.item.language for use in train}),
            "rows": len(rows),
            "validation_rows": len(held),
            "macro_f1": max(figures[1:]),
            SAW: digests(detector_parts(use.item for use in (*train, *validation))),
        }
        with write_whole(folder / RECORD) as file:
            json.dump(record, file, indent=2, ensure_ascii=False)

    return fine_tune(
        model,
        _CrossEntropy(model),
        rows,
        validate,
        fit,
        out,
        of=json.dumps([made, held]),
        finish=finish,
    )


def hold_out_compounds(uses: Sequence[Use], seed: int) -> tuple[list[Use], list[Use]]:
    """Split into uses to train and to validate on; the latter are all those of a tenth of the MWEs.

    The MWEs are drawn at random.

    Raises:
        UserError: there is only one MWE.
    """
    mwes = sorted({use.item.compound.casefold() for use in uses})
    if len(mwes) < 2:
        raise UserError(
            "There is only one MWE, so none can be held out to validate on. Give a file for that.",
            "validation",
        )
    count = max(1, round(len(mwes) / 10))
    held = {mwes[k] for k in np.random.default_rng(seed).permutation(len(mwes))[:count]}
    return (
        [use for use in uses if use.item.compound.casefold() not in held],
        [use for use in uses if use.item.compound.casefold() in held],
    )


def _sense_of(use: Use) -> SenseLabel:
    if use.item.sentence_type is None:
        raise UserError(f"'{use.item.compound}': has no label to learn from or to compare with.")
    return use.item.sentence_type


def _row(classifier: Classifier, use: Use) -> dict[str, Any]:
    return {"text": classifier.text(use), "label": LABELS.index(_sense_of(use))}


def _open_base(base: str, device: Device) -> tuple[Transformer, str]:
    """The encoder of a folder or repository, and its identity."""
    found = resolve_source(base)
    place, dtype = Placement(device).resolve()

    def load() -> SentenceTransformer:
        return SentenceTransformer(
            found.place,
            revision=found.revision,
            device=str(place),
            model_kwargs={"dtype": dtype, "use_safetensors": True},
        )

    try:
        opened = load_cached_first(load, found.place)[0]
    except Exception as error:  # the library lets the errors of all its parts through
        raise UserError(f"{base}: sentence-transformers cannot load it ({error}).") from error
    if not isinstance(opened, Transformer):
        raise UserError(
            f"{base}: is not an encoder of transformers, but of {type(opened).__name__}."
        )
    return opened, found.identity


class _CrossEntropy(torch.nn.Module):
    def __init__(self, model: SentenceTransformer):
        super().__init__()
        self.model = model

    def forward(self, features: Sequence[dict[str, Any]], labels: torch.Tensor) -> torch.Tensor:
        (texts,) = features
        logits = self.model(texts)["sentence_embedding"]
        return torch.nn.functional.cross_entropy(logits, labels)
