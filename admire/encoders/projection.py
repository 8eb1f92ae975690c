"""A trained head: two layers, and the card that says how they were made."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from admire.core.errors import UserError, needs_extra
from admire.core.storage import describe_other, replace_folder
from admire.encoders import Vectors
from admire.encoders.training_settings import HeadTraining
from admire.metrics.leakage import Card

with needs_extra("train", "A projection head"):
    import torch
    from safetensors.torch import load, save
    from torch.nn import functional


class Head(torch.nn.Module):
    """Two fully connected layers with ReLU and dropout between them."""

    def __init__(self, width: int, settings: HeadTraining):
        super().__init__()
        self.residual = settings.residual
        self.glosses_only = settings.glosses_only
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(width, settings.hidden),
            torch.nn.ReLU(),
            torch.nn.Dropout(settings.dropout),
            torch.nn.Linear(settings.hidden, width if settings.residual else settings.output),
        )

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """Project vectors of shape (..., width) to unit vectors of shape (..., output)."""
        projected: torch.Tensor = self.layers(vectors)
        if self.residual:
            projected = projected + vectors
        return functional.normalize(projected, dim=-1)


@dataclass(frozen=True)
class Epoch:
    """The losses after an epoch, and the top-1 accuracy on the samples that are only watched."""

    epoch: int
    training: float
    validation: float
    top1: float | None


@dataclass(frozen=True)
class Projection:
    """A trained head with its card: encoder, modalities, settings, split, losses, what it saw."""

    head: Head
    card: dict[str, Any]
    history: tuple[Epoch, ...] = ()

    @property
    def identity(self) -> str:
        """The digest of all that its vectors depend on: the weights and how they are used."""
        used = json.dumps([self.head.residual, self.head.glosses_only])
        return hashlib.sha256(save(self.head.state_dict()) + used.encode()).hexdigest()

    def projects(self, role: str) -> bool:
        """Return whether queries of this role (``gloss``, …) are compared in its space."""
        return role.startswith("gloss") or not self.head.glosses_only

    def project(self, vectors: Vectors) -> Vectors:
        """Project vectors of shape (n, width) to unit vectors of shape (n, output)."""
        self.head.eval()
        with torch.inference_mode():
            return np.asarray(self.head(torch.from_numpy(np.ascontiguousarray(vectors))))

    def save(self, folder: Path) -> None:
        """Write a folder with ``head.safetensors`` and ``head.json``, which appears whole."""
        card = self.card | {"history": [asdict(epoch) for epoch in self.history]}
        with replace_folder(folder, "head") as part:
            (part / "head.safetensors").write_bytes(save(self.head.state_dict()))
            (part / "head.json").write_text(json.dumps(card, indent=2), encoding="utf-8")


def load_projection(folder: Path) -> Projection:
    """Read the head that :meth:`Projection.save` wrote."""
    if not (folder / "head.json").is_file():
        raise UserError(describe_other(folder, "head", "admire train head"), "head")
    try:
        card = json.loads((folder / "head.json").read_text(encoding="utf-8"))
        head = Head(card["width"], HeadTraining(**card["settings"]))
        head.load_state_dict(load((folder / "head.safetensors").read_bytes()))
        history = tuple(Epoch(**epoch) for epoch in card.pop("history"))
        for name in ("name", "identity"):
            card["encoder"][name].strip()
        Card.model_validate(card)
    except Exception as error:  # a damaged file makes the readers raise nearly anything
        message = f"{folder}: the head cannot be read ({error}). Train it again."
        raise UserError(message, "head") from None
    return Projection(head, card, history)
