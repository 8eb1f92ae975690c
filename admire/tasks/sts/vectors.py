"""How a sentence encoder makes a vector: changes to its layers, its pooling and its length."""

from __future__ import annotations

from admire.core.errors import UserError, needs_extra
from admire.tasks.sts.settings import VectorSettings

with needs_extra("clip", "Another pooling"):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import (
        Dense,
        Pooling,
        WeightedLayerPooling,
    )


def change_vectors(model: SentenceTransformer, settings: VectorSettings) -> None:
    """Change in place how a model makes vectors; one that cannot be changed is a UserError."""
    transformer, changes = model[0], settings.changes
    if not changes:
        return
    poolings = [place for place, module in enumerate(model) if isinstance(module, Pooling)]
    if not isinstance(transformer, Transformer) or len(poolings) != 1:
        raise UserError("Only a model of a transformer and a pooling can be changed.", *changes)
    if settings.max_length is not None:
        model.max_seq_length = min(settings.max_length, limit(transformer) or settings.max_length)
    if settings.drop_dense:
        dense = [place for place, module in enumerate(model) if isinstance(module, Dense)]
        for place in reversed(dense):
            del model[place]
    if settings.pooling:
        mode, tokenizer = "mean", model.tokenizer
        if settings.pooling == "cls":  # the token that stands for a text, in XLNet the last
            ids, own = tokenizer("a")["input_ids"], tokenizer.cls_token_id
            mode = "lasttoken" if own is not None and ids[-1] == own != ids[0] else "cls"
        model[poolings[0]] = Pooling(transformer.get_embedding_dimension(), mode)
    if settings.pooling == "first-last-avg":
        _average(model, transformer, 1)
    if settings.last_layers == 2:
        _average(model, transformer, transformer.config.num_hidden_layers - 1)


def _average(model: SentenceTransformer, transformer: Transformer, first: int) -> None:
    """Make a model pool the mean of its last layer and an earlier one, counted from 1."""
    if any(isinstance(module, WeightedLayerPooling) for module in model):
        raise UserError("The model averages layers already.", "pooling", "last_layers")
    transformer.config.output_hidden_states = True
    mean = WeightedLayerPooling(
        transformer.get_embedding_dimension(), transformer.config.num_hidden_layers, first
    )
    mean.layer_weights.requires_grad_(False)[1:-1] = 0
    model.insert(1, mean.to(model.device))


def limit(transformer: Transformer) -> int | None:
    """Return how many tokens a transformer has positions for; None if any number."""
    positions = getattr(transformer.config.get_text_config(), "max_position_embeddings", -1)
    for name, module in transformer.model.named_modules():
        if name.endswith("position_embeddings") and module.padding_idx is not None:
            positions -= module.padding_idx + 1  # in RoBERTa and its kin
    return positions if positions > 0 else None  # XLNet has -1, and T5 none
