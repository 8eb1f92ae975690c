"""A projection head on frozen embeddings, trained with InfoNCE (UoR-NCL, section 2.4)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from admire.encoders import TextEncoder
from admire.errors import UserError
from admire.head.projection import Epoch, Head, Projection, top1
from admire.head.settings import TrainSettings
from admire.head.triplets import Indices, Triplets, soft_negatives, split

try:
    import torch
except ImportError as error:
    raise UserError(
        f"Projection heads need {error.name}, of the extra 'train' (pip install '.[train]' in the "
        "clone)."
    ) from error


CHECK_TEMPERATURE = 0.1
"""τ of the validation loss. It has a candidate of every training sample as soft negatives, too,
whatever a head is trained with: so the losses of heads with different τ and K can be compared."""


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
