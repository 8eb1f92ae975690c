"""The vector of words in their context: the mean of their tokens' states (late chunking)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from admire.core.errors import needs_extra

with needs_extra("clip", "The vector of a span"):
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Router


def prepare_spans(
    model: SentenceTransformer,
    texts: Sequence[str],
    spans: Sequence[tuple[int, int]],
    rows: Sequence[int] | None = None,
) -> tuple[dict[str, Any], torch.Tensor]:
    """Return the model's features of texts, and a mask of the spans' tokens, shape (spans, tokens).

    Args:
        spans: where each begins and ends, in characters. A token that is partly in a span belongs
            to it.
        rows: in which text each span is; None for one span per text.

    Raises:
        ValueError: a span is beyond the model's limit.
    """
    features: dict[str, Any] = model.preprocess(
        list(texts), task="query", processing_kwargs={"text": {"return_offsets_mapping": True}}
    )
    rows = range(len(texts)) if rows is None else rows
    offsets = features.pop("offset_mapping")[list(rows)]
    start, end = (torch.tensor([span[k] for span in spans])[:, None] for k in (0, 1))
    # Special tokens like [CLS] and padding have an empty range.
    inside = (offsets[..., 0] < end) & (offsets[..., 1] > start)
    mask = inside & (offsets[..., 0] < offsets[..., 1])
    for k, (row, (a, b)) in enumerate(zip(rows, spans, strict=True)):
        if not mask[k].any():
            text = texts[row]
            cut = int(offsets[k].max()) <= a < len(text.rstrip())
            why = (
                f"is beyond its limit of {model.max_seq_length} tokens" if cut else "is not a word"
            )
            raise ValueError(f"'{text[a:b]}' {why} in “{text[:60]}…”")
    return features, mask


def span_states(
    model: SentenceTransformer,
    features: dict[str, Any],
    mask: torch.Tensor,
    rows: Sequence[int] | None = None,
) -> torch.Tensor:
    """Average the masked tokens' last states, shape (spans, width).

    The modules after the model's pooling (projection, normalisation) are applied to it as well, so
    that it is in the space of the texts' vectors. Arguments are those of :func:`prepare_spans`.
    """
    modules: list[torch.nn.Module] = []
    for module in model:
        routed = isinstance(module, Router)
        modules += cast(Any, module).sub_modules["query"] if routed else [module]
    pooling = next((k for k, module in enumerate(modules) if isinstance(module, Pooling)), 0)
    for module in modules[:pooling] or modules[:1]:
        features = module(features)
    states = features["token_embeddings"]
    if rows is not None:
        states = states[list(rows)]
    weights = mask.to(states.dtype)[..., None]
    features["sentence_embedding"] = (states * weights).sum(dim=1) / weights.sum(dim=1)
    for module in modules[pooling + 1 :]:
        features = module(features)
    pooled: torch.Tensor = features["sentence_embedding"][:, : model.truncate_dim]
    return pooled
