"""Any model of open_clip: OpenAI's CLIP, LAION's multilingual ones, SigLIP 2, NLLB-CLIP."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from admire.base.choices import nearest
from admire.base.errors import UserError
from admire.models.encoders.hub import (
    base_folder,
    from_disk,
    hub_file,
    local_folder,
    resolve_source,
)
from admire.models.encoders.placement import Placement, to_numpy
from admire.models.encoders.protocols import Role, Vectors

WEIGHTS = (
    "open_clip_model.safetensors",
    "open_clip_pytorch_model.safetensors",
    "open_clip_pytorch_model.bin",
)


class OpenClipEncoder:
    """Text and image tower of one open_clip model, with its own tokenizer and preprocessing.

    Texts beyond the model's context (77 tokens for CLIP, 64 for SigLIP 2) are cut at their end.

    Args:
        source: ``MODEL/TAG`` of open_clip's list, or a folder with ``open_clip_config.json`` and
            weights, as open_clip saves them.
        revision: of the repository on the hub that holds the weights.

    Raises:
        UserError: there is no such model, tag or folder, or its weights are not here and cannot be
            fetched.
    """

    def __init__(self, source: str, revision: str | None, placement: Placement):
        self.name = f"openclip:{source}"
        self.batch = 32
        self._placement = placement
        self._loading = threading.Lock()  # images are prepared in several threads
        self._parts: tuple[Any, Any, Any] | None = None
        self._folder = local_folder(source)
        if self._folder:
            if not (self._folder / "open_clip_config.json").is_file():
                raise UserError(
                    f"{self._folder}: holds no open_clip_config.json. Name a folder as open_clip "
                    "saves them (open_clip.push_to_hf_hub, or a copy of a hub repository)."
                )
            self._model_name = f"local-dir:{self._folder}"
            self._weights: Path | None = None
            self._tag: dict[str, Any] = {}
            model = resolve_source(source).identity
        else:
            self._model_name, self._tag, repository, files = _known(source)
            found = resolve_source(repository, *files, revision=revision)
            self._weights = found.config
            model = f"{source}@{found.revision}"
        version = metadata.version("open-clip-torch")  # it brings preprocessing and tokenizer
        self.identity = f"openclip:{model}:{version}:{placement.precision}"

    @property
    def _loaded(self) -> tuple[Any, Any, Any]:
        """Model, preprocessing and tokenizer."""
        with self._loading:
            if self._parts is None:
                self._parts = self._load()
            return self._parts

    def _load(self) -> tuple[Any, Any, Any]:
        import open_clip

        device, dtype = self._placement.resolve()
        overrides: dict[str, Any] = {}
        try:
            text = open_clip.get_model_config(self._model_name)["text_cfg"]
        except (ValueError, LookupError, TypeError, AttributeError):
            raise UserError(
                f"{self._folder}/open_clip_config.json: is no config of an open_clip model."
            ) from None
        if "hf_model_name" in text:  # only its configuration: the weights are the checkpoint's
            base = base_folder(self._folder or Path(), text["hf_model_name"])
            overrides["text_cfg"] = text | {
                "hf_model_name": str(base),
                "hf_model_pretrained": False,
            }
        if not self._folder and "hf_tokenizer_name" in text:
            for file in ("tokenizer.json", "tokenizer_config.json"):
                hub_file(text["hf_tokenizer_name"], file)
        try:
            with from_disk():
                model, _, preprocess = open_clip.create_model_and_transforms(
                    self._model_name,
                    pretrained=str(self._weights) if self._weights else None,
                    # OpenAI's weights were trained with QuickGELU, whatever the model's name says.
                    force_quick_gelu=bool(self._tag.get("quick_gelu")),
                    image_mean=self._tag.get("mean"),
                    image_std=self._tag.get("std"),
                    image_interpolation=self._tag.get("interpolation"),
                    image_resize_mode=self._tag.get("resize_mode"),
                    weights_only=True,
                    require_pretrained=True,
                    **overrides,
                )
                tokenizer = open_clip.get_tokenizer(self._model_name)
        except Exception as error:  # open_clip lets the errors of all its parts through
            raise UserError(f"{self.name}: open_clip cannot load it ({error}).") from error
        return model.to(device=device, dtype=dtype).eval(), preprocess, tokenizer

    def encode_texts(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """See :class:`admire.models.encoders.TextEncoder`. Roles make no difference."""
        import torch

        model, _, tokenizer = self._loaded
        device, _ = self._placement.resolve()
        with torch.inference_mode():
            return to_numpy(model.encode_text(tokenizer(list(texts)).to(device)))

    def prepare_image(self, path: Path) -> Any:
        """See :class:`admire.models.encoders.Towers`."""
        from admire.data.pictures import read_image

        _, preprocess, _ = self._loaded
        return preprocess(read_image(path))

    def encode_prepared(self, images: Sequence[Any]) -> Vectors:
        """See :class:`admire.models.encoders.Towers`."""
        import torch

        model, _, _ = self._loaded
        device, dtype = self._placement.resolve()
        with torch.inference_mode():
            return to_numpy(model.encode_image(torch.stack(list(images)).to(device, dtype)))


def _known(source: str) -> tuple[str, dict[str, Any], str, Sequence[str]]:
    """Model, settings of the tag, repository and names of its weights, from open_clip's list."""
    import open_clip
    from open_clip.pretrained import get_pretrained_cfg

    model, _, tag = source.partition("/")
    settings = get_pretrained_cfg(model, tag)
    if not settings:
        known = open_clip.list_pretrained(as_str=True)
        hint = nearest(source, [name.replace(":", "/") for name in known])
        raise UserError(
            f"'openclip:{source}' is no model and tag of open_clip, and no folder.{hint} "
            "open_clip.list_pretrained() lists them.",
            "encoder",
        )
    # (roberta-ViT-B-32 was trained with it and has it in its config, though not in its tag.)
    if model.endswith("-quickgelu") and not settings.get("quick_gelu"):
        raise UserError(
            f"'openclip:{source}': these weights were trained without QuickGELU. "
            f"Use openclip:{model.removesuffix('-quickgelu')}/{tag}."
        )
    repository, _, file = settings.get("hf_hub", "").rpartition("/")
    if not repository:
        raise UserError(
            f"'openclip:{source}' is not on the hub. Name a folder with its weights.", "encoder"
        )
    return model, settings, repository, [file] if file else WEIGHTS
