"""Torch models: the device and the precision that they run with, and loading them once."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import compress
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from admire.core.cache import Opened
from admire.core.choices import Device, Precision
from admire.core.errors import UserError
from admire.core.registry import register
from admire.core.schema import settings

if TYPE_CHECKING:
    import torch

    from admire.encoders.protocols import Vectors


Model = TypeVar("Model", bound="type[LazyModel]")

LOADED: Opened[Any] = Opened(3)
"""The models loaded last; a run can have a CLIP's two towers and an encoder of captions."""


@settings(frozen=True)
class Placement:
    """The user's device and precision; torch checks them at the first use."""

    device: Device = "auto"
    precision: Precision = "float32"

    def resolve(self) -> tuple[torch.device, torch.dtype]:
        """Return the device and the precision as torch's own objects, if there are such."""
        import torch

        present = [torch.cuda.is_available(), torch.backends.mps.is_available(), True]
        available = [*compress(("cuda", "mps", "cpu"), present)]
        device = available[0] if self.device == "auto" else self.device
        if device not in available:
            missing = f"torch has no device '{device}' on this machine. Use cpu or auto."
            raise UserError(missing, "device")
        if device == "cpu" and self.precision == "float16":
            raise UserError("float16 needs a GPU. Use bfloat16 or float32.", "precision")
        return torch.device(device), getattr(torch, self.precision)


class LazyModel(ABC):
    """A torch model whose weights are loaded at the first use.

    Models of one identity and placement can share them. Derived families have a source and a
    revision: a repository on the hub, or a folder in their library's format. They raise a UserError
    if the model does not exist, its files do not match, or the hub cannot be reached.
    """

    identity: str
    _shares = False

    def __init__(self, name: str, placement: Placement):
        self.name = name
        self._placement = placement
        self._loading = threading.Lock()  # images are prepared in several threads
        self._parts: Any = None

    @abstractmethod
    def _load(self) -> Any:
        """Load the model with everything that it needs for its inputs."""

    @property
    def _loaded(self) -> Any:
        """The result of ``_load``, which may raise a UserError."""
        with self._loading:
            if self._parts is None:
                key = type(self), self.identity, self._placement
                self._parts = LOADED.get(key, self._try) if self._shares else self._try()
            return self._parts

    def share(self) -> None:
        """Share the weights with all models of the same identity and placement that do so."""
        self._shares = True

    def claim(self) -> None:
        """Stop sharing the weights, because they will be changed."""
        with self._loading:
            if self._shares:
                self._shares, self._parts = False, None

    def _try(self) -> Any:
        try:
            return self._load()
        except UserError:
            raise
        except Exception as error:  # the libraries raise the errors of all their parts
            raise UserError(f"{self.name}: cannot be loaded ({error}).") from error


def register_family(name: str, **facts: Any) -> Callable[[Model], Model]:
    """Register a family of encoders that come from a folder or the hub, with the extra ``clip``."""
    facts |= {"needs": ("clip", "hub"), "packages": ("open_clip",)}
    return register("encoder", name, size="the model's", licence="the model's", **facts)


def encode(tower: Callable[..., Any], *inputs: Any) -> Vectors:
    """Run a tower without gradients; return its vectors as float32 on the CPU."""
    import torch

    with torch.inference_mode():
        return np.asarray(tower(*inputs).float().cpu())
