"""Any model of open_clip: OpenAI's CLIP, LAION's multilingual ones, SigLIP 2, MetaCLIP 2."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from admire.core.choices import nearest
from admire.core.errors import UserError
from admire.core.registry import Variant
from admire.data.image_files import read_image
from admire.encoders import hub
from admire.encoders.protocols import Role, Vectors
from admire.encoders.torch_models import LazyModel, Placement, encode, register_family

WEIGHTS = (
    "open_clip_model.safetensors",
    "open_clip_pytorch_model.safetensors",
    "open_clip_pytorch_model.bin",
)


@register_family(
    "openclip",
    takes="MODEL/TAG",
    about="texts and images, any of open_clip's list",
    citation="Cherti et al. 2023, arXiv 2212.07143",
    variants=(
        Variant(
            "ViT-SO400M-16-SigLIP2-384/webli",
            "texts and images, SigLIP 2, about 100 languages",
            "4.5 GB",
            "Apache-2.0",
            ("timm/ViT-SO400M-16-SigLIP2-384",),
        ),
        Variant(
            "xlm-roberta-base-ViT-B-32/laion5b_s13b_b90k",
            "texts and images, LAION's multilingual CLIP",
            "1.5 GB",
            "MIT",
            ("laion/CLIP-ViT-B-32-xlm-roberta-base-laion5B-s13B-b90k",),
        ),
        Variant(
            "xlm-roberta-large-ViT-H-14/frozen_laion5b_s13b_b90k",
            "texts and images, LAION's largest multilingual CLIP",
            "4.8 GB",
            "MIT",
            ("laion/CLIP-ViT-H-14-frozen-xlm-roberta-large-laion5B-s13B-b90k",),
        ),
        Variant(
            "ViT-H-14-worldwide-quickgelu/metaclip2_worldwide",
            "texts and images, MetaCLIP 2, 300 languages",
            "7.4 GB",
            "CC-BY-NC-4.0",
            ("timm/vit_huge_patch14_clip_224.metaclip2_worldwide",),
        ),
        Variant(
            "nllb-clip-base/v1",
            "texts and images, 201 languages",
            "2.0 GB",
            "CC-BY-NC-4.0",
            ("visheratin/nllb-clip-base-oc",),
        ),
    ),
)
class OpenClipEncoder(LazyModel):
    """Text and image tower of one open_clip model, with its own tokenizer and preprocessing.

    Its source is ``MODEL/TAG`` of open_clip's list, or a folder with ``open_clip_config.json`` and
    weights, in open_clip's format.
    """

    batch = 32

    def __init__(self, source: str, revision: str | None, placement: Placement):
        super().__init__(f"openclip:{source}", placement)
        self._folder = hub.local_folder(source)
        if self._folder:
            self._model_name, self._tag = f"local-dir:{self._folder}", dict[str, Any]()
            files = hub.resolve_source(source)
            files.file("open_clip_config.json")
            model = files.identity
        else:
            import open_clip
            from open_clip.pretrained import get_pretrained_cfg

            self._model_name, _, tag = source.partition("/")
            listed = get_pretrained_cfg(self._model_name, tag)
            if not listed:
                names = [name.replace(":", "/") for name in open_clip.list_pretrained(as_str=True)]
                unknown = f"'{self.name}' is neither a model and tag of open_clip nor a folder."
                lister = "open_clip.list_pretrained() lists them."
                raise UserError(f"{unknown}{nearest(source, names)} {lister}", "encoder")
            # (roberta-ViT-B-32 was trained with it: its config says so, though not its tag.)
            if self._model_name.endswith("-quickgelu") and not listed.get("quick_gelu"):
                plain = f"openclip:{self._model_name.removesuffix('-quickgelu')}/{tag}"
                raise UserError(f"'{self.name}' was trained without QuickGELU. Use {plain}.")
            repository, _, file = listed.get("hf_hub", "").rpartition("/")
            if not repository:
                missing = f"'{self.name}' is not on the hub. Use a folder with its weights."
                raise UserError(missing, "encoder")
            weights = [file] if file else WEIGHTS
            files = hub.resolve_source(repository, *weights, revision=revision)
            self._tag = {
                # OpenAI's weights were trained with QuickGELU, whatever the model's name says.
                "force_quick_gelu": bool(listed.get("quick_gelu")),
                "image_mean": listed.get("mean"),
                "image_std": listed.get("std"),
                "image_interpolation": listed.get("interpolation"),
                "image_resize_mode": listed.get("resize_mode"),
                "pretrained": str(files.file(*weights)),
            }
            model = f"{source}@{files.revision}"
        version = metadata.version("open-clip-torch")  # it brings preprocessing and tokenizer
        self.identity = f"openclip:{model}:{version}:{placement.precision}"

    def _load(self) -> tuple[Any, Any, Any]:
        """Load model, preprocessing and tokenizer."""
        import open_clip

        device, dtype = self._placement.resolve()
        options = dict(self._tag)
        text = open_clip.get_model_config(self._model_name)["text_cfg"]
        if "hf_model_name" in text:  # only its configuration: the weights are the checkpoint's
            base = str(hub.base_folder(self._folder or Path(), text["hf_model_name"]))
            own = {"hf_model_name": base, "hf_model_pretrained": False}
            options["text_cfg"] = text | own
        if not self._folder and "hf_tokenizer_name" in text:
            for file in ("tokenizer.json", "tokenizer_config.json"):  # or it may be an empty one
                hub.hub_file(text["hf_tokenizer_name"], file)

        def load() -> tuple[Any, Any, Any]:
            model, _, preprocess = open_clip.create_model_and_transforms(
                self._model_name, weights_only=True, require_pretrained=True, **options
            )
            return model, preprocess, open_clip.get_tokenizer(self._model_name)

        model, preprocess, tokenizer = hub.load_cached_first(load, str(self._folder or ""))
        return model.to(device=device, dtype=dtype).eval(), preprocess, tokenizer

    @property
    def max_tokens(self) -> int:
        return int(self._loaded[2].context_length)

    def count_tokens(self, text: str) -> int:
        tokenizer = self._loaded[2]
        if hasattr(tokenizer, "tokenizer"):  # of transformers
            return len(tokenizer.tokenizer(tokenizer.clean_fn(text), verbose=False).input_ids)
        return 2 + len(tokenizer.encode(text))

    def encode_texts(self, texts: Sequence[str], *, role: Role) -> Vectors:
        model, _, tokenizer = self._loaded
        device, _ = self._placement.resolve()
        return encode(model.encode_text, tokenizer(list(texts)).to(device))

    def prepare_image(self, path: Path) -> Any:
        _, preprocess, _ = self._loaded
        return preprocess(read_image(path))

    def encode_prepared(self, images: Sequence[Any]) -> Vectors:
        import torch

        model, _, _ = self._loaded
        device, dtype = self._placement.resolve()
        return encode(model.encode_image, torch.stack(list(images)).to(device, dtype))
