"""Fine-tuning the classifier of YNU-HPCC 2022 (sections 2.1 and 3)."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from admire.core.errors import UserError, needs_extra
from admire.core.storage import check_folder, write_whole
from admire.data.items import SenseLabel
from admire.data.overlap import digests
from admire.encoders import Device
from admire.encoders.hub import load_cached_first, resolve_source
from admire.encoders.torch_models import Placement
from admire.encoders.trainer import Figures, TrainingSet, fine_tune
from admire.metrics.leakage import SAW, detector_parts
from admire.senses.classifier import RECORD, Classifier, assemble_model
from admire.senses.settings import Layers, Use
from admire.senses.task2a import LABELS, macro_f1
from admire.tasks.training.settings import ClassifierTraining, paper_fit

with needs_extra("finetune", "Training a classifier"):
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense, Transformer

log = logging.getLogger("admire")


def train_classifier(
    base: str,
    train: Sequence[Use],
    validation: Sequence[Use] | None,
    settings: ClassifierTraining,
    out: Path,
    *,
    device: Device = "auto",
) -> list[float]:
    """Fine-tune an encoder to detect idiomatic use, by cross-entropy, and save it to ``out``.

    Unless the settings name another, the epoch with the highest macro F1 on ``validation`` is kept.
    If a training was killed, the same call continues it.

    Args:
        base: folder or repository of an encoder of transformers or sentence-transformers, with or
            without the prefix ``sbert:``.
        validation: None holds out a tenth of the MWEs of ``train``.

    Returns:
        Macro F1 on ``validation`` before training and after each epoch, from 0 to 1.
    """
    fit = settings.fit or paper_fit(settings.setting)
    if validation is None:
        train, validation = hold_out_compounds(train, fit.seed)
    gold = [_label(use) for use in validation]
    if {_label(use) for use in train} != set(LABELS):
        raise UserError("Training needs idiomatic and literal uses.")
    check_folder(out, "model")
    base = base.removeprefix("sbert:")
    # As in YNU-HPCC's submission.
    layers: Layers = settings.layers or ("all" if settings.setting == "zero_shot" else "last")
    classifier, identity = _untrained(base, settings, layers, fit.seed, device)
    rows, held_out = (
        [{"text": classifier.text(use), "label": LABELS.index(_label(use))} for use in uses]
        for uses in (train, validation)
    )
    log.info("%d sentences to train and %d to validate on", len(rows), len(held_out))
    settings_record = {"base": base, "identity": identity}
    settings_record |= asdict(replace(settings, fit=fit, layers=layers))

    def validate() -> Figures:
        senses = classifier.classify(validation)
        return {"macro_f1": macro_f1(gold, [sense.label for sense in senses])}

    def finish(folder: Path, figures: Figures) -> None:
        record = settings_record | {
            "languages": sorted({use.item.language for use in train}),
            "linear_layers": len(classifier.model) - 2,
            "rows": len(rows),
            "validation_rows": len(held_out),
            **figures,
            SAW: digests(detector_parts(use.item for use in (*train, *validation))),
        }
        with write_whole(folder / RECORD) as file:
            json.dump(record, file, indent=2, ensure_ascii=False)

    history = fine_tune(
        classifier.model,
        TrainingSet(rows, _CrossEntropy(classifier.model)),
        validate,
        fit,
        out,
        of=json.dumps([settings_record, held_out]),
        finish=finish,
    )
    return [figures["macro_f1"] for figures in history]


def hold_out_compounds(uses: Sequence[Use], seed: int) -> tuple[list[Use], list[Use]]:
    """Split uses into training and validation, which gets those of a random tenth of the MWEs."""
    mwes = sorted({use.item.compound.casefold() for use in uses})
    count = max(1, round(len(mwes) / 10))
    held_out = {mwes[k] for k in np.random.default_rng(seed).permutation(len(mwes))[:count]}
    parts: tuple[list[Use], list[Use]] = [], []
    for use in uses:
        parts[use.item.compound.casefold() in held_out].append(use)
    return parts


def _label(use: Use) -> SenseLabel:
    if use.item.sentence_type is None:
        raise UserError(f"'{use.item.compound}': has no label to learn from or to compare with.")
    return use.item.sentence_type


def _untrained(
    base: str, settings: ClassifierTraining, layers: Layers, seed: int, device: Device
) -> tuple[Classifier, str]:
    """Return the encoder with new linear layers, and its identity. If the states of all layers are
    used, the first one brings them to the encoder's width (figure 1, "Linear 1")."""
    source = resolve_source(base)
    torch_device, dtype = Placement(device).resolve()

    def load() -> SentenceTransformer:
        return SentenceTransformer(
            source.place,
            revision=source.revision,
            device=str(torch_device),
            model_kwargs={"dtype": dtype, "use_safetensors": True},
        )

    try:
        transformer = load_cached_first(load, source.place)[0]
    except Exception as error:  # the library lets the errors of all its parts through
        raise UserError(f"{base}: sentence-transformers cannot load it ({error}).") from error
    if not isinstance(transformer, Transformer):
        raise UserError(
            f"{base}: is not an encoder of transformers, but of {type(transformer).__name__}."
        )
    length = transformer.max_seq_length or settings.max_length
    transformer.max_seq_length = min(length, settings.max_length)
    tokenizer = transformer.tokenizer
    if settings.setting == "one_shot" and not (tokenizer and tokenizer.sep_token):
        raise UserError(
            f"{base}: its tokenizer has no separator, which the setting one_shot needs.",
            "encoder",
            "setting",
        )
    width = transformer.get_embedding_dimension()
    widths = [width, len(LABELS)]
    if layers == "all":
        widths.insert(0, width * transformer.config.num_hidden_layers)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        linear = [
            Dense(*sizes, activation_function=torch.nn.Identity()) for sizes in pairwise(widths)
        ]
    model = assemble_model(transformer, linear, layers, str(torch_device))
    return Classifier(model, settings.setting, {}), source.identity


class _CrossEntropy(torch.nn.Module):
    def __init__(self, model: SentenceTransformer):
        super().__init__()
        self.model = model

    def forward(self, features: Sequence[dict[str, Any]], labels: torch.Tensor) -> torch.Tensor:
        (texts,) = features
        logits = self.model(texts)["sentence_embedding"]
        return torch.nn.functional.cross_entropy(logits, labels)
