"""M-CLIP (Carlsson et al., 2022): a multilingual text tower trained to agree with OpenAI's CLIP."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from admire.base.choices import nearest
from admire.base.errors import UserError
from admire.models.encoders.hub import base_folder, hub_file, local_folder, resolve_source
from admire.models.encoders.openclip import OpenClipEncoder
from admire.models.encoders.placement import Placement, to_numpy
from admire.models.encoders.protocols import Role, Vectors

NAMES = ("XLM-Roberta-Large-Vit-L-14", "XLM-Roberta-Large-Vit-B-32", "LABSE-Vit-L-14")
IMAGE_TOWERS = {512: "ViT-B-32-quickgelu/openai", 768: "ViT-L-14-quickgelu/openai"}
"""The image tower that a text tower was trained to agree with, by the width of their space."""


class MClipEncoder:
    """An M-CLIP text tower with the image tower that it was trained for.

    Args:
        source: one of :data:`NAMES`, a repository on the hub, or a folder with the same files. A
            folder may hold an image tower of its own in ``image``, as open_clip saves them, and
            the configuration of the base model (``xlm-roberta-large/config.json``).
        revision: of the repository.

    Raises:
        UserError: there is no such model or folder, or its files are missing or do not fit.
    """

    def __init__(self, source: str, revision: str | None, placement: Placement):
        self.name = f"mclip:{source}"
        self.batch = 32
        self._placement = placement
        repository = source if local_folder(source) else _repository(source)
        found = resolve_source(repository, "config.json", revision=revision)
        if found.config:
            self._folder = found.config.parent
        elif found.folder and (found.folder / "config.json").is_file():
            self._folder = found.folder
        else:
            raise UserError(f"{found.place}: holds no config.json of an M-CLIP text tower.")
        self._found = found
        version = f"{source}@{found.revision}" if found.config else found.identity
        settings = _settings(self._folder / "config.json")
        self._base = settings["modelBase"]
        self._width = settings.get("numDims", settings.get("imageDimSize", 768))
        own = self._folder / "image"
        if not own.is_dir() and self._width not in IMAGE_TOWERS:
            raise UserError(
                f"{self.name}: no image tower is known for a space of {self._width} dimensions. "
                f"Put one into {own}."
            )
        image_tower = str(own) if own.is_dir() else IMAGE_TOWERS[self._width]
        self._images = OpenClipEncoder(image_tower, None, placement)
        self.identity = f"mclip:{version}:{placement.precision}+{self._images.identity}"

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        """Text tower and tokenizer."""
        import torch
        import transformers
        from multilingual_clip.Config_MCLIP import MCLIPConfig
        from multilingual_clip.pt_multilingual_clip import MultilingualCLIP

        base_config = base_folder(self._folder, self._base)
        with _readable(base_config / "config.json"):
            base = transformers.AutoConfig.from_pretrained(base_config, trust_remote_code=False)

        class TextTower(MultilingualCLIP):  # type: ignore[misc]
            """M-CLIP's own class would fetch the base model, only to overwrite its weights."""

            def __init__(self, config: MCLIPConfig):
                transformers.PreTrainedModel.__init__(self, config)
                self.transformer = transformers.AutoModel.from_config(  # type: ignore[no-untyped-call]
                    base, dtype=torch.float32
                )
                self.LinearTransformation = torch.nn.Linear(
                    config.transformerDimensions, config.numDims
                )

        device, dtype = self._placement.resolve()
        config = self._folder / "config.json"
        with _readable(config):
            tower = TextTower(MCLIPConfig(**_settings(config)))
        weights = _read_weights(self._file("model.safetensors", "pytorch_model.bin"))
        # Old checkpoints hold the positions' numbers, which are not weights.
        weights.pop("transformer.embeddings.position_ids", None)
        try:
            tower.load_state_dict(weights)
        except (RuntimeError, AttributeError) as error:
            raise UserError(f"{self.name}: its weights do not fit its config ({error}).") from None
        for file in ("tokenizer.json", "tokenizer_config.json"):
            self._file(file)
        with _readable(self._folder / "tokenizer.json"):
            tokenizer = transformers.AutoTokenizer.from_pretrained(
                self._folder, config=base, trust_remote_code=False
            )
        positions = base.max_position_embeddings
        if "roberta" in base.model_type:  # its positions begin after the padding token's number
            positions -= base.pad_token_id + 1
        limit = min(tokenizer.model_max_length, positions)

        def tokenize(texts: list[str], **options: Any) -> Any:
            batch = tokenizer(texts, truncation=True, max_length=limit, **options)
            return batch.to(device)

        return tower.to(device=device, dtype=dtype).eval(), tokenize

    def _file(self, *names: str) -> Path:
        """The first of the files that the checkpoint has."""
        if self._found.config:
            return hub_file(self._found.place, *names, revision=self._found.revision)
        for name in names:
            if (self._folder / name).is_file():
                return self._folder / name
        raise UserError(f"{self._folder}: holds no {' or '.join(names)}.")

    def encode_texts(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """See :class:`admire.models.encoders.TextEncoder`. Roles make no difference.

        A vector is the mean of the base model's last states over the text's tokens, after one
        linear layer. 512 tokens are read; longer texts are cut at their end.
        """
        import torch

        tower, tokenize = self._loaded
        with torch.inference_mode():
            return to_numpy(tower(list(texts), tokenize))

    def prepare_image(self, path: Path) -> Any:
        """See :class:`admire.models.encoders.Towers`."""
        return self._images.prepare_image(path)

    def encode_prepared(self, images: Sequence[Any]) -> Vectors:
        """See :class:`admire.models.encoders.Towers`."""
        return self._images.encode_prepared(images)


def _repository(source: str) -> str:
    """The repository of one of :data:`NAMES`; the name of another repository stays as it is."""
    if source in NAMES:
        return f"M-CLIP/{source}"
    if "/" in source:
        return source
    raise UserError(
        f"'mclip:{source}' is no M-CLIP model.{nearest(source, NAMES)} There are "
        f"{', '.join(NAMES)}, and any repository or folder with such a model.",
        "encoder",
    )


def _settings(path: Path) -> dict[str, Any]:
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
        settings["modelBase"].strip()
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UserError(f"{path}: is no config of an M-CLIP text tower (no modelBase).") from None
    found: dict[str, Any] = settings
    return found


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn the errors of transformers on a damaged file, which may be of any type, into one."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{path}: cannot be used ({error}). Download it again.") from None


def _read_weights(path: Path) -> dict[str, Any]:
    """A checkpoint's tensors; nothing but tensors is ever read from a pickle."""
    import torch
    from safetensors.torch import load_file

    try:
        if path.suffix == ".safetensors":
            return dict(load_file(path))
        return dict(torch.load(path, map_location="cpu", weights_only=True))
    except Exception as error:  # damaged files make the readers raise nearly anything
        raise UserError(
            f"{path}: the weights cannot be read ({error}). Download the file again."
        ) from None
