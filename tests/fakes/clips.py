"""What the tests of the encoders that run on torch share: texts, comparisons, a hub to ask."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("torch", reason="needs the extra 'clip'")
pytest.importorskip("transformers", reason="needs the extra 'clip'")

import huggingface_hub
import numpy as np
import torch
import transformers
from PIL import Image
from seeing import save_seeing
from towers import (
    PREPROCESS,
    TEXT,
    save_mclip,
    save_openclip,
    save_sentence_transformer,
    save_text_tower,
)

from admire import UserError
from admire.encoders import CachedEncoder, Precision, Role, Vectors, open_encoder
from admire.encoders.mclip import MClipEncoder
from admire.encoders.openclip import OpenClipEncoder
from admire.encoders.sentence import SentenceEncoder
from admire.encoders.torch_models import Placement

TEXTS = [
    "a night owl",
    "the owl in the big green tree at night",
    "my sister",
    "a small red circle on a blue square",
    "who writes at midnight on a desk is a real night owl",
]
LONG = " ".join((TEXT.split() * 4)[:150])
CPU = Placement("cpu")
Encoder = MClipEncoder | OpenClipEncoder | SentenceEncoder
FAMILIES = pytest.mark.parametrize("family", ["mclip", "openclip", "sbert"])


def unit(vectors: object) -> Vectors:
    array = np.asarray(vectors, dtype=np.float32)
    return array / np.linalg.norm(array, axis=-1, keepdims=True)


def texts_of(encoder: Encoder, texts: Sequence[str], role: Role = "document") -> Vectors:
    """Without the cache, which would hide that two encodings differ."""
    return unit(encoder.encode_texts(texts, role=role))


def images_of(encoder: Encoder, images: Sequence[Path]) -> Vectors:
    return unit(encoder.encode_prepared([encoder.prepare_image(image) for image in images]))


def same(found: Vectors, wanted: Vectors, within: float = 1e-5) -> bool:
    assert found.shape == wanted.shape
    return bool(np.abs(found - wanted).max() < within)


def distinct(vectors: Vectors) -> bool:
    """Whether no two of the vectors are alike: else comparing them would show nothing."""
    cosines = vectors @ vectors.T
    return bool(cosines[~np.eye(len(vectors), dtype=bool)].max() < 0.9999)


def opened(name: str, precision: Precision = "float32") -> CachedEncoder:
    return open_encoder(name, device="cpu", precision=precision)


def encode(name: str, texts: Sequence[str] = TEXTS) -> Vectors:
    return opened(name).encode_texts(texts, role="document")


def complaint(name: str) -> str:
    """What opening the encoder and encoding with it ends with, which must be a UserError."""
    with pytest.raises(UserError) as caught:
        encode(name, ["an owl"])
    return str(caught.value)


class Evil:
    """A pickle that, once read, makes a file."""

    def __init__(self, mark: Path):
        self.mark = mark

    def __reduce__(self) -> tuple:
        return Path.touch, (self.mark,)


def truncated(content: bytes) -> bytes:
    return content[: len(content) // 2]


def pointer(content: bytes) -> bytes:
    """What lies in a clone where Git LFS has not run."""
    digest = hashlib.sha256(content).hexdigest()
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\n".encode()


XLM = {
    "hf_model_name": "tiny-xlm-roberta",
    "hf_tokenizer_name": "tiny-xlm-roberta",
    "hf_pooler_type": "mean_pooler",
    "context_length": 16,
}


def plain_clip(model_name: str, **options: object) -> tuple:
    import open_clip

    model, _, preprocess = open_clip.create_model_and_transforms(model_name, **options)
    return model.eval(), preprocess, open_clip.get_tokenizer(model_name)


def plain_images(model_name: str, images: Sequence[Path], **options: object) -> Vectors:
    model, preprocess, _ = plain_clip(model_name, **options)
    ready = [preprocess(Image.open(path).convert("RGB"))[None] for path in images]
    with torch.inference_mode():
        return unit(torch.cat([model.encode_image(one) for one in ready]))


def plain_texts(model_name: str, texts: Sequence[str], **options: object) -> Vectors:
    model, _, tokenizer = plain_clip(model_name, **options)
    with torch.inference_mode():
        return unit(model.encode_text(tokenizer(list(texts))))


def plain_mclip(folder: Path, texts: Sequence[str]) -> Vectors:
    """M-CLIP's own class with the weights of its own; the tokenizer's file alone."""
    from multilingual_clip.Config_MCLIP import MCLIPConfig
    from multilingual_clip.pt_multilingual_clip import MultilingualCLIP

    settings = json.loads((folder / "config.json").read_text())
    tower = MultilingualCLIP(
        MCLIPConfig(**settings | {"modelBase": str(folder / "tiny-xlm-roberta")})
    )
    weights = torch.load(folder / "pytorch_model.bin", weights_only=True)
    tower.load_state_dict({k: v for k, v in weights.items() if "position_ids" not in k})
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    with torch.inference_mode():
        return unit(tower.eval()(list(texts), tokenizer))


def plain_sbert(folder: Path, given: Sequence[str | Path], prompt: str = "") -> Vectors:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    return unit(model.encode([str(one) for one in given], prompt=prompt, show_progress_bar=False))


@dataclass(frozen=True)
class Kind:
    """A kind of model: how a small one is saved, and what the package it is of gives for it.

    ``words`` is how many words of a text it reads.
    """

    family: str
    save: Callable[[Path], Path]
    texts: Callable[[Path, Sequence[str]], Vectors]
    images: Callable[[Path, Sequence[Path]], Vectors] | None
    words: int


MODELS = {
    "mclip": Kind(
        "mclip",
        save_mclip,
        plain_mclip,
        lambda folder, images: plain_images(f"local-dir:{folder / 'image'}", images),
        62,  # of 66 positions XLM-R leaves two unused, and two are marks
    ),
    "openclip": Kind(
        "openclip",
        save_openclip,
        lambda folder, texts: plain_texts(f"local-dir:{folder}", texts),
        lambda folder, images: plain_images(f"local-dir:{folder}", images),
        14,
    ),
    "sbert": Kind("sbert", save_sentence_transformer, plain_sbert, None, 62),
    "seeing": Kind("sbert", save_seeing, plain_sbert, plain_sbert, 14),
}


COMMIT, OTHER_COMMIT = "1" * 40, "2" * 40


class Hub:
    """The hub's cache as huggingface_hub lays it out, in front of a hub that answers as told.

    ``error`` is what the hub's client raises; ``online`` holds repositories that it gives.
    """

    def __init__(self, cache: Path):
        self.cache = cache
        self.error: Exception = huggingface_hub.errors.LocalEntryNotFoundError("no connection")
        self.online: dict[str, Path] = {}
        self.asked: list[tuple[str, str, str | None]] = []
        self._cached = huggingface_hub.hf_hub_download

    def add(
        self, repository: str, files: Mapping[str, bytes | Path] | Path, commit: str = COMMIT
    ) -> Path:
        """Put the files into the cache as the repository's newest commit."""
        if isinstance(files, Path):
            found = [path for path in files.rglob("*") if path.is_file()]
            files = {str(path.relative_to(files)): path for path in found}
        home = self.cache / f"models--{repository.replace('/', '--')}"
        snapshot = home / "snapshots" / commit
        for name, content in files.items():
            if isinstance(content, Path):
                content = content.read_bytes()
            blob = home / "blobs" / hashlib.sha256(content).hexdigest()
            for path in (blob, snapshot / name, home / "refs" / "main"):
                path.parent.mkdir(parents=True, exist_ok=True)
            blob.write_bytes(content)
            (snapshot / name).symlink_to(os.path.relpath(blob, (snapshot / name).parent))
        (home / "refs" / "main").write_text(commit)
        return snapshot

    def tag(self, repository: str, name: str, commit: str) -> None:
        home = self.cache / f"models--{repository.replace('/', '--')}"
        (home / "refs" / name).write_text(commit)

    def download(
        self,
        repository: str,
        name: str,
        *,
        revision: str | None = None,
        local_files_only: bool = False,
        **_: str,
    ) -> str:
        """Stands for huggingface_hub.hf_hub_download."""
        if local_files_only:
            return self._cached(repository, name, revision=revision, local_files_only=True)
        self.asked.append((repository, name, revision))
        if repository not in self.online:
            raise self.error
        if not (self.online[repository] / name).is_file():
            missing = huggingface_hub.errors.RemoteEntryNotFoundError
            raise missing("404", response=answer(404))
        return str(self.add(repository, {name: self.online[repository] / name}) / name)


def answer(status: int) -> SimpleNamespace:
    return SimpleNamespace(status_code=status, headers={}, request=None)


def labse(folder: Path, image: Path) -> Path:
    """A tower in the layout of M-CLIP/LABSE-Vit-L-14, with BERT's tokenizer, 40 positions."""
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {word: k for k, word in enumerate([*marks, *TEXT.split(), "Owl", "##s"])}
    base = transformers.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=40,
    )
    base.save_pretrained(folder / "LaBSE")
    transformers.BertTokenizer(vocab=vocabulary, do_lower_case=False).save_pretrained(folder)
    torch.manual_seed(4)
    save_text_tower(folder, base, "sentence-transformers/LaBSE")
    shutil.copytree(image, folder / "image")
    return folder


TAGS = {
    "openai": {
        "url": "",
        "hf_hub": "tests/tiny/",
        "mean": (0.1, 0.2, 0.3),
        "std": (0.4, 0.5, 0.6),
        "interpolation": "bilinear",
        "resize_mode": "squash",
        "quick_gelu": True,
    },
    "elsewhere": PREPROCESS | {"url": "https://example.com/tiny.pt", "hf_hub": ""},
}
