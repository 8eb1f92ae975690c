"""The models that admire knows by name: what is here, what is missing and how to get it."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from admire.core import registry
from admire.core.choices import nearest
from admire.core.errors import UserError, pip_install
from admire.core.registry import Plugin
from admire.core.storage import open_file
from admire.encoders import open_encoder, openclip

WEIGHTS = (
    *("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"),
    *openclip.WEIGHTS,
)


@dataclass(frozen=True)
class Model:
    """One row of ``admire models``: what the plug-in that opens it, or a variant, says of it."""

    name: str  #: what the user calls it; a word in capitals is a placeholder
    what: str
    size: str
    licence: str
    weights: tuple[str, ...]  #: the repositories on the hub that hold them
    plugin: Plugin

    @property
    def commercial(self) -> bool:
        """Whether its licence lets it be used commercially, as far as admire knows it."""
        return "-NC" not in self.licence

    def status(self) -> str:
        """Say whether the model can be used now, or how to get it."""
        needs, packages = self.plugin.needs, self.plugin.packages
        if not all(map(find_spec, packages)):
            return f"no: {pip_install(needs[0])}"
        if self.plugin.status:
            return self.plugin.status()
        if "hub" not in needs:
            return "yes"
        if not self.weights:
            return "fetched at first use"
        from huggingface_hub import try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError

        with suppress(HFValidationError):  # it is not the name of a repository
            files = ({try_to_load_from_cache(r, name) for name in WEIGHTS} for r in self.weights)
            if all(any(isinstance(file, str) for file in of_one) for of_one in files):
                return "yes"
        return "no: fetched at first use"

    @property
    def placeholder(self) -> str:
        """The placeholder of a family, in capitals, such as REPOSITORY; empty for a model."""
        family = re.search(r":([A-Z/]+)$", self.name)
        return family[1] if family else ""


def pull_model(name: str) -> Path | str:
    """Put a model's files in place; return where they are, or why nothing has to be fetched."""
    model = find_model(name)
    plugin, source = model.plugin, name.partition(":")[2]
    if source and plugin.kind == "encoder" and Path(source).expanduser().is_dir():
        return "it is a folder of yours"
    if plugin.takes == "PATH":
        open_file(Path(source).expanduser()).close()
        return "it is a file of yours"
    status = model.status()
    if status.startswith("no: pip"):
        raise UserError(f"{name} is not installed: {status.removeprefix('no: ')}")
    if "hub" in plugin.needs:
        _pull_encoder(name)
        from huggingface_hub import constants

        return Path(constants.HF_HUB_CACHE)
    if not plugin.pull:
        return f"{plugin.distribution} brings it"
    if plugin.kind == "encoder" and not isinstance(place := plugin.pull(), str):
        _pull_encoder(name)
        return place
    return plugin.pull()


def _pull_encoder(name: str) -> None:
    """Encode a text, which puts every file in place; the hub's client shows the progress."""
    open_encoder(name, device="cpu").encoder.encode_texts(["a"], role="query")


def models() -> list[Model]:
    """Return all models: each plug-in that asks or encodes, and the variants that it recommends."""
    rows = []
    for plugin in (*registry.plugins("chat"), *registry.plugins("encoder")):
        if plugin.ships and not plugin.size:
            continue
        about = "chat model: " * (plugin.kind == "chat")
        for v in plugin.variants:
            name = f"{plugin.name}:{v.name}"
            rows.append(Model(name, about + v.about, v.size, v.licence, v.weights, plugin))
        about += plugin.about
        rows.append(Model(plugin.written, about, plugin.size, plugin.licence, (), plugin))
    return rows


def find_model(name: str) -> Model:
    """Find the row of a model at any ``@REVISION``, or that of its family."""
    all_models = models()
    names = [model.name for model in all_models]
    bare = name.partition("@")[0]
    if bare in names:
        return all_models[names.index(bare)]
    for model in all_models:
        if model.placeholder and name.startswith(model.name.removesuffix(model.placeholder)):
            return model
    close = nearest(name, names)
    raise UserError(f"Unknown model '{name}'.{close} Available: {', '.join(names)}.")


FROM_HUB = "from the hub"  #: what a model lacks that is fetched at first use


def lacks(name: str) -> str:
    """Return in a few words why a model, a recording or a run cannot be used; nothing if it can."""
    family, _, source = name.partition(":")
    plugin = registry.find("chat", family) if family in registry.names("chat") else None
    if plugin and (plugin.takes == "PATH" or not plugin.size):
        return ""
    if source and Path(source).expanduser().is_dir():
        return ""
    if source.startswith((".", "/", "~")):  # as open_encoder reads names
        return "there is no such folder"
    model = find_model(name)
    if model.placeholder == "REPOSITORY":
        model = replace(model, weights=(source.partition("@")[0],))
    status = model.status()
    if status.endswith("fetched at first use"):
        return FROM_HUB
    return status.removeprefix("no: ") if status.startswith("no: ") else ""
