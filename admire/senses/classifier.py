"""Idiomaticity detection by a fine-tuned encoder (YNU-HPCC at SemEval-2022, sections 2.1 and 3)."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from admire.encoders import Device
from admire.encoders.hub import load_cached_first, resolve_source
from admire.encoders.placement import Placement
from admire.errors import UserError
from admire.files import read_text
from admire.items import Item, SenseLabel
from admire.senses.sense import Sense, majority
from admire.senses.task2a import LABELS, Setting, Use, macro_f1
from admire.storage import check_folder, write_whole

try:
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules.module import Module
    from sentence_transformers.sentence_transformer.modules import Dense, Pooling, Transformer
except ImportError as error:
    raise UserError(
        f"A fine-tuned detector needs {error.name}, of the extra 'clip' (pip install '.[clip]' in "
        "the clone)."
    ) from error

if TYPE_CHECKING:
    from admire.trainer import FitSettings

log = logging.getLogger("admire")

RECORD = "admire.json"
"""The file of a saved classifier's folder that says how it was made."""

HEAD = "2_Dense"
"""The subfolder of the linear layer, as sentence-transformers names the third module's."""

CONTEXT = ("Previous", "Next")
"""Task 2A's columns of what stands around a sentence, which the zero-shot setting reads."""


class FirstStates(Module):
    """The first token's states of all hidden layers, without the embeddings, side by side."""

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
class ClassifierTraining:
    """How a classifier is fine-tuned; the defaults are the paper's (section 3.3).

    Attributes:
        setting: ``zero_shot`` reads a sentence with what stands around it, in all hidden layers;
            ``one_shot`` reads the sentence and the MWE, in the last one.
        batch_size: None is the paper's, 32 for zero_shot and 4 for one_shot.
        max_length: tokens that are read, special ones included.
    """

    setting: Setting
    batch_size: int | None = None
    learning_rate: float = 2e-5
    warmup: float = 0.05
    epochs: int = 10
    max_length: int = 128
    precision: Literal["float32", "bfloat16"] = "float32"
    seed: int = 4

    def __post_init__(self) -> None:
        if self.setting not in get_args(Setting):
            raise UserError(f"setting cannot be {self.setting}.")
        if self.max_length < 8:
            raise UserError(f"max_length cannot be {self.max_length}; 8 is the least.")

    @property
    def fit(self) -> FitSettings:
        """The trainer's settings: all epochs are trained, and the best is kept.

        Raises:
            UserError: a setting is out of its range, or the extra ``finetune`` is missing.
        """
        from admire.trainer import FitSettings

        size = {"zero_shot": 32, "one_shot": 4}[self.setting]
        return FitSettings(
            batch_size=size if self.batch_size is None else self.batch_size,
            learning_rate=self.learning_rate,
            warmup=self.warmup,
            epochs=self.epochs,
            patience=max(1, self.epochs),
            precision=self.precision,
            seed=self.seed,
        )


class Classifier:
    """An encoder with a linear layer to two logits, which decides whether a use is idiomatic.

    Attributes:
        model: its ``encode`` gives logits, shape (texts, 2): idiomatic, literal.
        setting: what of a use it reads, see :class:`ClassifierTraining`.
        record: how it was made.
    """

    def __init__(self, model: SentenceTransformer, setting: Setting, record: Mapping[str, Any]):
        self.model = model
        self.setting = setting
        self.record = record

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a Task 2A file that it reads besides the sentence and the MWE."""
        return CONTEXT if self.setting == "zero_shot" else ()

    def senses(self, items: Sequence[Item]) -> list[Sense]:
        """Each item's sense, with one vote; nothing but the sentence is taken as its context."""
        return self.classify([Use(item) for item in items])

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
        """What the model reads of a use (section 3.1).

        In the zero-shot setting the sentence before, the sentence and the next, of which the model
        cuts what is too long at the end; in the one-shot setting the sentence, the tokenizer's
        separator and the MWE, where it is the sentence that is cut.
        """
        if self.setting == "zero_shot":
            parts = (use.previous, use.item.sentence, use.following)
            return " ".join(part.strip() for part in parts if part.strip())
        tokenizer = self.model.tokenizer
        # A space before the separator would be a token of its own to some tokenizers; without one
        # behind it the MWE's first piece would be taken for the rest of a word.
        mwe = use.item.compound.strip()
        told = f"{tokenizer.sep_token} {mwe}"
        sentence = use.item.sentence.strip()
        room = (self.model.max_seq_length or 0) - len(tokenizer(told)["input_ids"])
        places = tokenizer(
            sentence,
            add_special_tokens=False,
            return_offsets_mapping=True,
            verbose=False,  # it warns of what is too long, which is cut here
        )["offset_mapping"]
        if len(places) > room:
            sentence = sentence[: places[room - 1][1]] if room > 0 else ""
        return sentence + told


def open_classifier(folder: Path, *, device: Device = "auto") -> Classifier:
    """The classifier that :func:`finetune_classifier` wrote; the network is never asked.

    Raises:
        UserError: the folder holds none or a part of it is missing, or there is no such device.
    """
    record = _read_record(folder)
    for part in ("model.safetensors", f"{HEAD}/model.safetensors"):
        if not (folder / part).is_file():  # the library would look for pickles instead
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
    except Exception as error:  # the library passes on whatever its parts raise
        raise UserError(f"{folder}: sentence-transformers cannot load it ({error}).") from error
    return Classifier(model, record["setting"], record)


def _read_record(folder: Path) -> dict[str, Any]:
    path = folder / RECORD
    try:
        record = json.loads(read_text(path))
        if record["setting"] in get_args(Setting):
            return dict(record)
    except (ValueError, KeyError, TypeError):
        pass
    raise UserError(f"{path}: is not of a detector that admire finetune detector wrote.")


def _assembled(
    transformer: Transformer, head: Dense, setting: Setting, device: str
) -> SentenceTransformer:
    every = setting == "zero_shot"
    transformer.config.output_hidden_states = every
    states: Module = Pooling(transformer.get_embedding_dimension(), "cls")
    if every:
        states = FirstStates()  # type: ignore[no-untyped-call]
    return SentenceTransformer(modules=[transformer, states, head], device=device)


# ------------------------------------------------------------------------------------- fine-tuning


def finetune_classifier(
    base: str,
    train: Sequence[Use],
    validation: Sequence[Use],
    settings: ClassifierTraining,
    out: Path,
    *,
    device: Device = "auto",
) -> list[float]:
    """Fine-tune an encoder to detect idiomatic use, and save it to ``out``.

    The loss is cross-entropy. The epoch with the highest macro F1 on ``validation`` is kept. The
    same call goes on where an earlier one was killed.

    Args:
        base: folder or repository of an encoder, of transformers or sentence-transformers.

    Returns:
        Macro F1 on ``validation`` before training and after each epoch, from 0 to 1.

    Raises:
        UserError: there is no such encoder, a use has no sense or one sense is missing from
            ``train``, ``out`` cannot be written, or an extra is missing.
    """
    from admire.trainer import fine_tune

    fitting = settings.fit
    gold = [_sense_of(use) for use in validation]
    if not gold:
        raise UserError("There is nothing to validate on.")
    if {_sense_of(use) for use in train} != set(LABELS):
        raise UserError("Training needs idiomatic and literal uses.")
    macro_f1(gold, gold)  # a missing package is told before hours of training
    check_folder(out, "model")
    transformer, identity = _open_base(base, device)
    transformer.max_seq_length = min(
        transformer.max_seq_length or settings.max_length, settings.max_length
    )
    tokenizer = transformer.tokenizer
    if settings.setting == "one_shot" and not (tokenizer and tokenizer.sep_token):
        raise UserError(
            f"{base}: its tokenizer has no separator, which the one-shot setting needs."
        )
    width = transformer.get_embedding_dimension()
    layers = transformer.config.num_hidden_layers if settings.setting == "zero_shot" else 1
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        head = Dense(width * layers, len(LABELS), activation_function=torch.nn.Identity())
    place = str(Placement(device).resolve()[0])
    model = _assembled(transformer, head, settings.setting, place)
    classifier = Classifier(model, settings.setting, {})
    rows = [_row(classifier, use) for use in train]

    def validate() -> float:
        return macro_f1(gold, [sense.label for sense in classifier.classify(validation)])

    held = [_row(classifier, use) for use in validation]
    made = {"base": base, "identity": identity} | asdict(settings)
    figures = fine_tune(
        model, _CrossEntropy(model), rows, validate, fitting, out, of=json.dumps([made, held])
    )
    record = made | {
        "batch_size": fitting.batch_size,
        "languages": sorted({use.item.language for use in train}),
        "rows": len(rows),
        "validation_rows": len(held),
        "macro_f1": max(figures[1:]),
    }
    with write_whole(out / RECORD) as file:
        json.dump(record, file, indent=2, ensure_ascii=False)
    return figures


def hold_out(uses: Sequence[Use], seed: int) -> tuple[list[Use], list[Use]]:
    """Those to train and those to validate on: the uses of a tenth of the MWEs, drawn at random.

    Raises:
        UserError: there is one MWE only.
    """
    mwes = sorted({use.item.compound.casefold() for use in uses})
    if len(mwes) < 2:
        raise UserError("Holding out needs two MWEs at least. Name a file with --validation.")
    count = max(1, round(len(mwes) / 10))
    held = {mwes[k] for k in np.random.default_rng(seed).permutation(len(mwes))[:count]}
    return (
        [use for use in uses if use.item.compound.casefold() not in held],
        [use for use in uses if use.item.compound.casefold() in held],
    )


def _sense_of(use: Use) -> SenseLabel:
    if use.item.sentence_type is None:
        raise UserError(f"'{use.item.compound}': has no label to learn from or compare with.")
    return use.item.sentence_type


def _row(classifier: Classifier, use: Use) -> dict[str, Any]:
    return {"text": classifier.text(use), "label": LABELS.index(_sense_of(use))}


def _open_base(base: str, device: Device) -> tuple[Transformer, str]:
    """The encoder of a folder or repository, and what exactly it is."""
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
    except Exception as error:  # the library passes on whatever its parts raise
        raise UserError(f"{base}: sentence-transformers cannot load it ({error}).") from error
    if not isinstance(opened, Transformer):
        raise UserError(f"{base}: is no encoder of transformers, but of {type(opened).__name__}.")
    return opened, found.identity


class _CrossEntropy(torch.nn.Module):
    def __init__(self, model: SentenceTransformer):
        super().__init__()
        self.model = model

    def forward(self, features: Sequence[dict[str, Any]], labels: torch.Tensor) -> torch.Tensor:
        (texts,) = features
        logits = self.model(texts)["sentence_embedding"]
        return torch.nn.functional.cross_entropy(logits, labels)
