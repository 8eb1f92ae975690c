"""Dual encoders of transformers: SigLIP 2, MetaCLIP 2, CLIP and others of their kind."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from admire.core.errors import UserError
from admire.core.registry import Variant
from admire.data.image_files import read_image
from admire.encoders.hub import load_cached_first, resolve_source
from admire.encoders.protocols import Role, Vectors
from admire.encoders.torch_models import LazyModel, Placement, encode, register_family


@register_family(
    "dual",
    takes="REPOSITORY",
    about="texts and images, any dual encoder of transformers",
    variants=(
        Variant(
            "google/siglip2-so400m-patch14-384",
            "texts and images, SigLIP 2 by transformers",
            "4.5 GB",
            "Apache-2.0",
            ("google/siglip2-so400m-patch14-384",),
        ),
        Variant(
            "facebook/metaclip-2-worldwide-huge-quickgelu",
            "texts and images, MetaCLIP 2, 300 languages",
            "7.4 GB",
            "CC-BY-NC-4.0",
            ("facebook/metaclip-2-worldwide-huge-quickgelu",),
        ),
    ),
)
class DualEncoder(LazyModel):
    """Text and image tower of one model of transformers, with its own tokenizer and preprocessing.

    It can be any model that ``AutoModel`` supports and that has ``get_text_features`` and
    ``get_image_features``. Texts beyond its context (77 tokens for CLIP and MetaCLIP 2, 64 for
    SigLIP 2) are cut at their end. SigLIP gets texts as in its training: in lower case, which not
    all of its tokenizers ensure, and padded to the whole context. For others they are padded to the
    longest of the batch.
    """

    batch = 32

    def __init__(self, source: str, revision: str | None, placement: Placement):
        super().__init__(f"dual:{source}", placement)
        self._source = resolve_source(source, revision=revision)
        version = metadata.version("transformers")  # it brings preprocessing and tokenizer
        self.identity = f"dual:{self._source.identity}:{version}:{placement.precision}"

    def _load(self) -> tuple[Any, Any, dict[str, Any]]:
        """Load model, processor, and the options that pad and cut texts."""
        device, dtype = self._placement.resolve()
        place, revision = self._source.place, self._source.revision

        def load() -> tuple[Any, Any]:
            from transformers import AutoModel, AutoProcessor

            options: Any = {"revision": revision, "trust_remote_code": False}  # nor ask whether to
            model = AutoModel.from_pretrained(place, dtype=dtype, **options)
            return model, AutoProcessor.from_pretrained(place, **options)  # type: ignore[no-untyped-call]

        model, processor = load_cached_first(load, place)
        parts = [(model, "get_text_features"), (model, "get_image_features")]
        parts += [(processor, "tokenizer"), (processor, "image_processor")]
        if not all(hasattr(whole, name) for whole, name in parts):
            kind = type(model).__name__
            raise UserError(f"{self.name}: is not a dual encoder ({kind}).", "encoder")
        limits = [processor.tokenizer.model_max_length]
        if hasattr(model.config, "text_config"):
            limits.append(model.config.text_config.max_position_embeddings)
        reading = {
            "padding": "max_length" if _is_siglip(model) else True,
            "truncation": True,
            "max_length": min(limits),  # a tokenizer may know none, or a shorter one
        }
        return model.to(device).eval(), processor, reading

    def encode_texts(self, texts: Sequence[str], *, role: Role) -> Vectors:
        model, processor, reading = self._loaded
        read = [text.lower() for text in texts] if _is_siglip(model) else list(texts)
        ready = processor(text=read, return_tensors="pt", **reading)
        return self._features(model.get_text_features, dict(ready))

    def prepare_image(self, path: Path) -> Any:
        _, processor, _ = self._loaded
        return dict(processor(images=[read_image(path)], return_tensors="pt"))

    def encode_prepared(self, images: Sequence[Any]) -> Vectors:
        import torch

        model, _, _ = self._loaded
        ready = {name: torch.cat([image[name] for image in images]) for name in images[0]}
        return self._features(model.get_image_features, ready)

    def _features(self, features: Any, ready: dict[str, Any]) -> Vectors:
        """Run a tower on its named tensors; shape (inputs, width)."""
        from transformers import BatchFeature

        return encode(features, **BatchFeature(ready).to(*self._placement.resolve()))


def _is_siglip(model: Any) -> bool:
    """Return whether it is a SigLIP; SigLIP 2 with fixed resolution has the first one's type."""
    return "siglip" in model.config.model_type
