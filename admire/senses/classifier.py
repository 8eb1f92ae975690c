"""The fine-tuned detector: an encoder with linear layers (YNU-HPCC 2022, sections 2.1 and 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from admire.core.errors import UserError, needs_extra
from admire.core.files import read_text
from admire.core.schema import read_as
from admire.core.storage import describe_other
from admire.encoders.hub import folder_digest, load_cached_first
from admire.encoders.torch_models import Placement
from admire.metrics.leakage import Card
from admire.senses.sense import Sense, likelier
from admire.senses.settings import Layers, Setting, Use, context_columns

with needs_extra("clip", "A fine-tuned detector"):
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules.module import Module
    from sentence_transformers.sentence_transformer.modules import Dense, Pooling, Transformer

if TYPE_CHECKING:
    from admire.encoders import Device

RECORD = "admire.json"
HEADS = ("2_Dense", "3_Dense")
"""The linear layers' subfolders, as sentence-transformers names those of the modules."""


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
    """An encoder with linear layers to two logits, which decides whether a use is idiomatic.

    Attributes:
        model: its ``encode`` gives logits of shape (texts, 2): idiomatic, literal.
        setting: ``zero_shot`` reads a sentence with the previous and the next one; ``one_shot``
            reads the sentence and the MWE.
        card: how it was made.
    """

    model: SentenceTransformer
    setting: Setting
    card: Mapping[str, Any]
    identity: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """See :class:`admire.senses.Detector`."""
        return context_columns(self.setting)

    def classify(self, uses: Sequence[Use]) -> list[Sense]:
        """Return each use's sense."""
        if not uses:
            return []
        logits: np.ndarray[Any, np.dtype[np.float32]] = self.model.encode(
            [self.text(use) for use in uses], convert_to_numpy=True, show_progress_bar=False
        )
        idiomatic, literal = logits.astype(np.float64).T
        probabilities = 1 / (1 + np.exp(np.clip(literal - idiomatic, -700, 700)))
        return [likelier(probability, "detector") for probability in probabilities]

    def text(self, use: Use) -> str:
        """Return the text of a use that the model reads (section 3.1).

        In the one-shot setting a long sentence is cut, so that the MWE after it fits.
        """
        if self.setting == "zero_shot":
            parts = (use.previous, use.item.sentence, use.following)
            return " ".join(part.strip() for part in parts if part.strip())
        tokenizer = self.model.tokenizer
        # Some tokenizers make a token of a space before the separator. Without a space after it,
        # the MWE's first piece would count as the end of a word.
        ending = f"{tokenizer.sep_token} {use.item.phrase.strip()}"
        sentence = use.item.sentence.strip()
        room = (self.model.max_seq_length or 0) - len(tokenizer(ending)["input_ids"])
        tokens = tokenizer(
            sentence, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        spans = tokens["offset_mapping"]
        if len(spans) > room:
            sentence = sentence[: spans[room - 1][1]] if room > 0 else ""
        return sentence + ending


def open_classifier(folder: Path, *, device: Device = "auto") -> Classifier:
    """Open a classifier that ``admire train classifier`` wrote, without the network."""
    path = folder / RECORD
    if not path.is_file():
        described = describe_other(folder, "classifier", "admire train classifier")
        raise UserError(described, "detector")
    record = read_as(dict[str, Any], read_text(path), path)
    read_as(_Record, record, path)
    identity = folder_digest(folder)
    heads = HEADS[: record["linear_layers"]]
    for part in ("model.safetensors", *(f"{head}/model.safetensors" for head in heads)):
        if not (folder / part).is_file():  # otherwise the library would load a pickle
            raise UserError(f"{folder}: '{part}' is missing. Copy the whole folder again.")
    torch_device, dtype = Placement(device).resolve()
    options = {"dtype": dtype, "use_safetensors": True}

    def load() -> SentenceTransformer:
        transformer = Transformer.load(str(folder), model_kwargs=options)
        linear = [Dense.load(str(folder), subfolder=head) for head in heads]
        return assemble_model(transformer, linear, record["layers"], str(torch_device))

    try:
        model = load_cached_first(load, str(folder))
    except Exception as error:  # the library raises errors of all its parts
        raise UserError(f"{folder}: sentence-transformers cannot load it ({error}).") from error
    return Classifier(model, record["setting"], record, identity)


class _Record(Card):
    setting: Setting
    layers: Layers
    linear_layers: Literal[1, 2]


def assemble_model(
    transformer: Transformer, linear: Sequence[Dense], layers: Layers, device: str
) -> SentenceTransformer:
    """Join an encoder and linear layers by the first token's states in some layers."""
    transformer.config.output_hidden_states = layers == "all"
    width = transformer.get_embedding_dimension()
    states = FirstStates() if layers == "all" else Pooling(width, "cls")  # type: ignore[no-untyped-call]
    return SentenceTransformer(modules=[transformer, states, *linear], device=device)
