"""A projection head on frozen embeddings, trained with InfoNCE (UoR-NCL, section 2.4)."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from admire.encoders import TextEncoder, Vectors
from admire.errors import UserError
from admire.scorer import Scores
from admire.storage import write_whole
from admire.triplets import Indices, Triplets, soft_negatives, split

try:
    import torch
    from safetensors.torch import load, save
    from torch.nn import functional
except ImportError as error:
    raise UserError(
        f"Projection heads need {error.name}, of the extra 'train' (pip install '.[train]' in the "
        "clone)."
    ) from error


@dataclass(frozen=True)
class TrainSettings:
    """How a head is made and trained; the defaults lie in the paper's grid (section 3).

    Attributes:
        hidden, output: widths of the two layers; the paper fixes the output at 768.
        dropout: between the layers.
        residual: add the head's output to its input, so that an untrained head changes little;
            ``output`` is then the encoder's width. Not in the paper.
        glosses_only: learn from glosses, and compare only them in the head's space; compounds are
            compared in the encoder's. Not in the paper.
        batch_size, learning_rate, weight_decay: of Adam (with decoupled decay, where there is one).
        soft_negatives: K, candidates of other compounds for each anchor, drawn anew each epoch.
        temperature: τ of equation 1.
        epochs, patience: at most so many, and so many without a lower validation loss.
        seed: of weights, batches, dropout and draws.
    """

    hidden: int = 768
    output: int = 768
    dropout: float = 0.3
    residual: bool = False
    glosses_only: bool = False
    batch_size: int = 16
    learning_rate: float = 1e-4
    weight_decay: float = 0.0
    soft_negatives: int = 30
    temperature: float = 0.1
    epochs: int = 200
    patience: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        for name, holds in (
            ("hidden", self.hidden >= 1),
            ("output", self.output >= 1),
            ("dropout", 0 <= self.dropout < 1),
            ("batch_size", self.batch_size >= 1),
            ("learning_rate", self.learning_rate > 0),
            ("weight_decay", self.weight_decay >= 0),
            ("soft_negatives", self.soft_negatives >= 0),
            ("temperature", self.temperature > 0),
            ("epochs", self.epochs >= 1),
            ("patience", self.patience >= 1),
        ):
            if not holds:
                raise UserError(f"{name} cannot be {getattr(self, name)}.")


CHECK_TEMPERATURE = 0.1
"""τ of the validation loss. It has a candidate of every training sample as soft negatives, too,
whatever a head is trained with: so the losses of heads with different τ and K can be compared."""


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


def info_nce(
    positives: torch.Tensor,
    negatives: torch.Tensor,
    there: torch.Tensor,
    negatives_there: torch.Tensor,
    temperature: float,
) -> torch.Tensor:
    """Equation 1: the mean over samples of the mean over a sample's modalities.

    Args:
        positives: cosines of anchor and positive, shape (samples, M).
        negatives: cosines of anchor and negatives of the same modality, shape (samples, N, M).
        there, negatives_there: which of them exist, of the same shapes. A modality without a
            positive does not count.
        temperature: τ > 0.
    """
    positive = positives / temperature
    negative = (negatives / temperature).masked_fill(~negatives_there, -torch.inf)
    every = torch.cat([positive[:, None], negative], dim=1).logsumexp(dim=1)
    losses = torch.where(there, every - positive, 0.0)
    return (losses.sum(dim=1) / there.sum(dim=1)).mean()


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


def train_head(data: Triplets, settings: TrainSettings, encoder: TextEncoder) -> Projection:
    """Split by compound, train, and put on the card how the test samples fare with and without.

    Raises:
        UserError: there are too few compounds for the split or the soft negatives.
    """
    parts = split(data.compounds, settings.seed)
    head, history, outcome = train_and_test(data, settings, parts)
    card = {
        "encoder": {"name": encoder.name, "identity": encoder.identity},
        "width": data.anchors.shape[1],
        "modalities": list(data.modalities),
        "settings": asdict(settings),
        "compounds": {
            name: sorted({data.compounds[k] for k in part})
            for name, part in zip(("training", "validation", "test"), parts, strict=True)
        },
        "epoch": outcome["epoch"],
        "validation_loss": outcome["validation_loss"],
        "test_top1": {"head": outcome["test_top1"], "none": outcome["none_top1"]},
    }
    return Projection(head, card, history)


def train_and_test(
    data: Triplets, settings: TrainSettings, parts: tuple[Indices, Indices, Indices]
) -> tuple[Head, tuple[Epoch, ...], dict[str, float]]:
    """A head trained on the first part and stopped by the second, and how it does on the third.

    The outcome has ``epoch`` and ``validation_loss`` of the best epoch, and on the test samples
    ``test_top1`` with the head and ``none_top1`` without one.
    """
    training, validation, test = parts
    head, history = train(data, training, validation, settings, watched=test)
    best = min(history, key=lambda epoch: epoch.validation)
    outcome = {
        "epoch": best.epoch,
        "validation_loss": best.validation,
        "test_top1": top1(data, test, head),
        "none_top1": top1(data, test),
    }
    return head, history, outcome


def train(
    data: Triplets,
    training: Indices,
    validation: Indices,
    settings: TrainSettings,
    *,
    watched: Indices | None = None,
) -> tuple[Head, tuple[Epoch, ...]]:
    """Fit a head on the training samples and stop by the validation loss; the best is returned.

    ``watched`` samples have no say: their top-1 accuracy is told by epoch, for figures like the
    paper's 3 to 5.

    Raises:
        UserError: there are not enough compounds to draw the soft negatives from, no glosses where
            only they are wanted, or the loss grew beyond all bounds.
    """
    pool = training
    if settings.glosses_only:
        training, validation = (part[data.gloss[part]] for part in (training, validation))
        if not len(training) or not len(validation):
            raise UserError("There are no glosses to train and to validate on. Use more items.")
    rng = np.random.default_rng(settings.seed)
    fixed = np.random.default_rng(settings.seed)  # the same draws after every epoch
    checks = soft_negatives(data, validation, pool, len(pool), fixed)
    tensors = _Tensors(data)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        head = Head(data.anchors.shape[1], settings)
        optimiser = torch.optim.AdamW(
            head.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )
        best, best_loss, since = copy.deepcopy(head.state_dict()), float("inf"), 0
        history: list[Epoch] = []
        for epoch in range(1, settings.epochs + 1):
            head.train()
            samples, candidates = soft_negatives(data, training, pool, settings.soft_negatives, rng)
            losses = []
            for batch in _batches(rng.permutation(len(training)), settings.batch_size):
                loss = tensors.loss(
                    head, training[batch], samples[batch], candidates[batch], settings.temperature
                )
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                losses.append(loss.item() * len(batch))
            head.eval()
            with torch.no_grad():
                value = tensors.loss(head, validation, *checks, CHECK_TEMPERATURE).item()
            seen = None if watched is None else top1(data, watched, head)
            history.append(Epoch(epoch, sum(losses) / len(training), value, seen))
            since += 1
            if value < best_loss:
                best, best_loss, since = copy.deepcopy(head.state_dict()), value, 0
            if since >= settings.patience:
                break
    if best_loss == float("inf"):
        raise UserError("The validation loss is no number. Use a lower learning rate.")
    head.load_state_dict(best)
    return head.eval(), tuple(history)


def _batches(order: Indices, size: int) -> Sequence[Indices]:
    return [order[start : start + size] for start in range(0, len(order), size)]


class _Tensors:
    """The triplets as tensors, and the loss of a batch of them without a loop over samples."""

    def __init__(self, data: Triplets):
        self.anchors = torch.from_numpy(data.anchors)
        self.documents = torch.from_numpy(data.documents)
        self.present = torch.from_numpy(data.present)
        self.positive = torch.from_numpy(data.positive)

    def loss(
        self,
        head: Head,
        batch: Indices,
        soft_samples: Indices,
        soft_candidates: Indices,
        temperature: float,
    ) -> torch.Tensor:
        rows, soft = torch.from_numpy(batch), torch.from_numpy(soft_samples)
        # Each document is projected once, however many anchors it is a negative of.
        used, places = torch.unique(torch.cat([rows, soft.flatten()]), return_inverse=True)
        projected, present = head(self.documents[used]), self.present[used]
        own, others = places[: len(rows)], places[len(rows) :].reshape(soft.shape)
        drawn = others, torch.from_numpy(soft_candidates)
        every = torch.cat([projected[own], projected[drawn]], dim=1)
        there = torch.cat([present[own], present[drawn]], dim=1)
        cosines = torch.einsum("bd,bnmd->bnm", head(self.anchors[rows]), every)
        best = self.positive[rows]
        order = torch.arange(len(rows))
        positive = torch.zeros_like(there)
        positive[order, best] = True
        return info_nce(
            cosines[order, best], cosines, there[order, best], there & ~positive, temperature
        )


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
