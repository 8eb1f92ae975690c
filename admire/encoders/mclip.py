"""M-CLIP (Carlsson et al., 2022): a multilingual text tower trained to agree with OpenAI's CLIP."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from admire.core.errors import UserError
from admire.core.registry import Variant
from admire.encoders.hub import base_folder, local_folder, resolve_source
from admire.encoders.openclip import OpenClipEncoder
from admire.encoders.protocols import Role, Vectors
from admire.encoders.torch_models import LazyModel, Placement, encode, register_family

NAMES = ("XLM-Roberta-Large-Vit-L-14", "XLM-Roberta-Large-Vit-B-32", "LABSE-Vit-L-14")
IMAGE_TOWERS = {512: "ViT-B-32-quickgelu/openai", 768: "ViT-L-14-quickgelu/openai"}
"""The image tower that a text tower was trained to agree with, by the width of their space."""


@register_family(
    "mclip",
    takes="NAME",
    about="texts and images, M-CLIP with OpenAI's image tower",
    citation="Carlsson et al. 2022, LREC",
    variants=tuple(
        Variant(
            name,
            f"texts and images, the paper's {paper}",
            size,
            "MIT, Apache-2.0",
            (f"M-CLIP/{name}", f"timm/vit_{tower}_clip_224.openai"),
        )
        for name, paper, size, tower in (
            ("XLM-Roberta-Large-Vit-B-32", "XLM-32", "2.9 GB", "base_patch32"),
            ("XLM-Roberta-Large-Vit-L-14", "XLM-14", "4.0 GB", "large_patch14"),
            ("LABSE-Vit-L-14", "LABSE-14", "3.6 GB", "large_patch14"),
        )
    ),
)
class MClipEncoder(LazyModel):
    """An M-CLIP text tower with the image tower that it was trained for.

    Its source is one of :data:`NAMES`, a repository on the hub, or a folder with the same files. A
    folder may contain its own image tower in ``image``, in open_clip's format, and the
    configuration of the base model (``xlm-roberta-large/config.json``).
    """

    batch = 32

    def __init__(self, source: str, revision: str | None, placement: Placement):
        super().__init__(f"mclip:{source}", placement)
        is_listed = source in NAMES and not local_folder(source)
        repository = f"M-CLIP/{source}" if is_listed else source
        self._source = resolve_source(repository, revision=revision)
        config = self._source.file("config.json")
        try:
            self._settings = json.loads(config.read_text(encoding="utf-8"))
            self._base = str(self._settings["modelBase"])
        except (ValueError, KeyError, TypeError):
            fault = "is not a config of M-CLIP (modelBase is missing)"
            raise UserError(f"{config}: {fault}.") from None
        width = self._settings.get("numDims", self._settings.get("imageDimSize", 768))
        self._folder = config.parent
        own = self._folder / "image"
        if not own.is_dir() and width not in IMAGE_TOWERS:
            missing = f"no image tower of {width} dimensions is known"
            raise UserError(f"{self.name}: {missing}. Put one into {own}.")
        image_tower = str(own) if own.is_dir() else IMAGE_TOWERS[width]
        self._images = OpenClipEncoder(image_tower, None, placement)
        self._images.share()
        folder, revision = self._source.folder, self._source.revision
        version = self._source.identity if folder else f"{source}@{revision}"
        self.identity = f"mclip:{version}:{placement.precision}+{self._images.identity}"

    def _load(self) -> tuple[Any, Any, int]:
        """Load text tower and tokenizer, with its limit."""
        import torch
        import transformers
        from multilingual_clip.Config_MCLIP import MCLIPConfig
        from multilingual_clip.pt_multilingual_clip import MultilingualCLIP
        from safetensors.torch import load_file

        base = transformers.AutoConfig.from_pretrained(
            base_folder(self._folder, self._base), trust_remote_code=False
        )

        class TextTower(MultilingualCLIP):  # type: ignore[misc]
            """M-CLIP's own class would download the base model, only to overwrite its weights."""

            def __init__(self, config: MCLIPConfig):
                transformers.PreTrainedModel.__init__(self, config)
                self.transformer = transformers.AutoModel.from_config(base, dtype=torch.float32)
                sizes = config.transformerDimensions, config.numDims
                self.LinearTransformation = torch.nn.Linear(*sizes)

        device, dtype = self._placement.resolve()
        tower = TextTower(MCLIPConfig(**self._settings))
        file = self._source.file("model.safetensors", "pytorch_model.bin")
        if file.suffix == ".safetensors":
            weights = load_file(file)
        else:  # only tensors are ever read from a pickle
            weights = torch.load(file, map_location="cpu", weights_only=True)
        # Old checkpoints contain the positions' numbers, which are not weights.
        weights.pop("transformer.embeddings.position_ids", None)
        tower.load_state_dict(weights)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            self._source.file(name)
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            self._folder, config=base, trust_remote_code=False
        )
        positions = base.max_position_embeddings
        if "roberta" in base.model_type:  # its positions begin after the padding token's number
            positions -= base.pad_token_id + 1
        limit = min(tokenizer.model_max_length, positions)
        return tower.to(device=device, dtype=dtype).eval(), tokenizer, limit

    @property
    def max_tokens(self) -> int:
        return int(self._loaded[2])

    def count_tokens(self, text: str) -> int:
        return len(self._loaded[1](text, verbose=False).input_ids)

    def encode_texts(self, texts: Sequence[str], *, role: Role) -> Vectors:
        tower, tokenizer, limit = self._loaded
        device, _ = self._placement.resolve()

        def tokenize(texts: list[str], **options: Any) -> Any:
            return tokenizer(texts, truncation=True, max_length=limit, **options).to(device)

        return encode(tower, list(texts), tokenize)

    def prepare_image(self, path: Path) -> Any:
        return self._images.prepare_image(path)

    def encode_prepared(self, images: Sequence[Any]) -> Vectors:
        return self._images.encode_prepared(images)
