"""A projection head on frozen embeddings: two layers, its card, and scores in its space."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from admire.encoders import Vectors
from admire.errors import UserError
from admire.head.settings import TrainSettings
from admire.head.triplets import Indices, Triplets
from admire.scorer import Scores
from admire.storage import write_whole

try:
    import torch
    from safetensors.torch import load, save
    from torch.nn import functional
except ImportError as error:
    raise UserError(
        f"Projection heads need {error.name}, of the extra 'train' (pip install '.[train]' in the "
        "clone)."
    ) from error


class Head(torch.nn.Module):
    """Two fully connected layers with ReLU and dropout between them."""

    def __init__(self, width: int, settings: TrainSettings):
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
        """Projected vectors of unit length: (..., width) to (..., output)."""
        projected: torch.Tensor = self.layers(vectors)
        if self.residual:
            projected = projected + vectors
        return functional.normalize(projected, dim=-1)


@dataclass(frozen=True)
class Epoch:
    """Losses after an epoch, and the top-1 accuracy on samples that are only watched."""

    epoch: int
    training: float
    validation: float
    top1: float | None


@dataclass(frozen=True)
class Projection:
    """A trained head and its card: encoder, modalities, settings, split and losses."""

    head: Head
    card: dict[str, Any]
    history: tuple[Epoch, ...] = field(default=())

    def projects(self, role: str) -> bool:
        """Whether queries of this role (gloss, compound, …) are compared in the head's space."""
        return role == "gloss" or not self.head.glosses_only

    def project(self, vectors: Vectors) -> Vectors:
        """Vectors of unit length in the head's space, shape (n, output)."""
        self.head.eval()
        with torch.inference_mode():
            projected: Vectors = self.head(torch.from_numpy(np.ascontiguousarray(vectors))).numpy()
        return projected

    def check(self, name: str, identity: str) -> None:
        """Refuse vectors of another encoder than the head was trained on.

        Raises:
            UserError: the encoder's identity is not the card's.
        """
        if identity != self.card["encoder"]["identity"]:
            raise UserError(
                f"The head was trained on the encoder '{self.card['encoder']['name']}' "
                f"({self.card['encoder']['identity']}), not on '{name}' ({identity})."
            )

    def save(self, folder: Path) -> None:
        """Write ``head.safetensors`` and ``head.json`` into the folder, each whole.

        The card tells the weights' digest: if the process dies between the two, the new weights
        are not taken for those of an older card.
        """
        weights = save(self.head.state_dict())
        more = {
            "weights": hashlib.sha256(weights).hexdigest(),
            "history": [asdict(epoch) for epoch in self.history],
        }
        with write_whole(folder / "head.safetensors", "wb") as file:
            file.write(weights)
        with write_whole(folder / "head.json") as file:
            json.dump(self.card | more, file, indent=2)


def load_projection(folder: Path) -> Projection:
    """The head that :meth:`Projection.save` wrote.

    Raises:
        UserError: the folder holds none, or its files are damaged or do not belong together.
    """
    try:
        card = json.loads((folder / "head.json").read_text(encoding="utf-8"))
        weights = (folder / "head.safetensors").read_bytes()
        if hashlib.sha256(weights).hexdigest() != card.pop("weights"):
            raise ValueError("the weights are not those of the card")
        settings = TrainSettings(**card["settings"])
        head = Head(int(card["width"]), settings)
        head.load_state_dict(load(weights))
        history = tuple(Epoch(**epoch) for epoch in card.pop("history"))
        for name in ("name", "identity"):
            card["encoder"][name].strip()
    except FileNotFoundError as error:
        raise UserError(
            f"{folder}: holds no head ({Path(error.filename).name} is missing)."
        ) from None
    except Exception as error:  # a damaged file makes the readers raise nearly anything
        raise UserError(f"{folder}: the head cannot be read ({error}). Train it again.") from None
    return Projection(head, card, history)


def scores(data: Triplets, samples: Indices, head: Head | None = None) -> Scores:
    """The sum of cosines of query with image and caption, as far as there are any: (samples, C).

    Variants and rewritings are for training; no ranking has them. A candidate without image and
    caption has -inf.
    """
    found: Scores = _cosines(data, samples).numpy()
    if head:
        head.eval()
        with torch.inference_mode():
            headed = _cosines(data, samples, head).numpy()
        inside = data.gloss[samples] | (not head.glosses_only)
        found = np.where(inside[:, None], headed, found)
    return found


def _cosines(data: Triplets, samples: Indices, head: Head | None = None) -> torch.Tensor:
    anchors, documents = (torch.from_numpy(a[samples]) for a in (data.anchors, data.documents))
    if head:
        anchors, documents = head(anchors), head(documents)
    ranked = torch.tensor([modality in ("image", "caption") for modality in data.modalities])
    there = torch.from_numpy(data.present[samples]) & ranked
    # In double precision, as a ranking's, so that what is equal there is equal here.
    cosines = torch.einsum("sd,scmd->scm", anchors.double(), documents.double())
    sums = torch.where(there, cosines, 0.0).sum(dim=2)
    return sums.masked_fill(~there.any(dim=2), -torch.inf)


def top1(data: Triplets, samples: Indices, head: Head | None = None) -> float:
    """How often the best candidate has the highest score."""
    return float((scores(data, samples, head).argmax(axis=1) == data.positive[samples]).mean())
