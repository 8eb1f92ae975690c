"""Training a head with InfoNCE (UoR-NCL, section 2.4), stopped by the validation loss."""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import numpy.typing as npt

from admire.core.errors import UserError, needs_extra
from admire.data.overlap import digests
from admire.encoders import TextEncoder
from admire.encoders.projection import Epoch, Head, Projection
from admire.encoders.training_settings import HeadTraining
from admire.metrics.leakage import SAW, warn_of_shared
from admire.rankers.scorer import Scores
from admire.tasks.training.triplets import Indices, Triplets, draw_soft_negatives, split_compounds

with needs_extra("train", "A projection head"):
    import torch

log = logging.getLogger("admire")

CHECK_TEMPERATURE = 0.1
"""τ of the validation loss, whose soft negatives are of all training samples, so that the losses
of heads with different τ and K can be compared."""


def info_nce(
    positives: torch.Tensor,
    negatives: torch.Tensor,
    there: torch.Tensor,
    negatives_there: torch.Tensor,
    temperature: float,
) -> torch.Tensor:
    """Compute equation 1: the mean over samples of the mean over each sample's modalities.

    Args:
        positives: cosines of anchor and positive, shape (samples, M).
        negatives: cosines of anchor and negatives of the same modality, shape (samples, N, M).
        there, negatives_there: which of them exist, of the same shapes. A modality without a
            positive is left out of the mean.
        temperature: τ > 0.
    """
    positive = positives / temperature
    negative = (negatives / temperature).masked_fill(~negatives_there, -torch.inf)
    denominator = torch.cat([positive[:, None], negative], dim=1).logsumexp(dim=1)
    losses = torch.where(there, denominator - positive, 0.0)
    return (losses.sum(dim=1) / there.sum(dim=1)).mean()


def train_head(data: Triplets, settings: HeadTraining, encoder: TextEncoder) -> Projection:
    """Split by compound, train a head, and compare the test samples with and without it.

    The card of the result has the settings, the compounds of the three parts, the best epoch, the
    share of test samples whose best candidate is ranked first, and the digests of what the head saw
    for training and validation. A warning says if the test samples share some of that.
    """
    parts = split_compounds(data.compounds, settings.seed)
    head, history, outcome = fit_and_test_head(data, settings, parts)
    warn_of_shared_samples(data, [parts], "the head")
    warn_of_ties(data, parts[2])
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
    if data.items:
        learned = {*parts[0].tolist(), *parts[1].tolist()}
        card[SAW] = digests(part for part in data.parts() if part.item in learned)
    return Projection(head, card, history)


def warn_of_shared_samples(
    data: Triplets, splits: Sequence[tuple[Indices, Indices, Indices]], who: str
) -> None:
    """Warn if samples of a test share parts with those for training or validation."""
    learned = [(np.concatenate(split[:2]), split[2]) for split in splits]
    warn_of_shared(data.parts(), learned, [item.compound for item in data.items], who)


def warn_of_ties(data: Triplets, samples: Indices) -> None:
    """Warn of samples with a candidate like the best one, which no head can tell apart."""
    places = np.arange(len(samples)), data.positive[samples]
    like = np.ones(data.present[samples].shape[:2], dtype=bool)
    for k, modality in enumerate(data.modalities):
        if modality in ("image", "caption"):
            for values in (data.documents[samples, :, k], data.present[samples, :, k, None]):
                like &= (values == values[places][:, None]).all(axis=2)
    if tied := int((like.sum(axis=1) > 1).sum()):
        log.warning(
            "%d of %d test samples have a candidate with the same content as the best one: whether "
            "they count as right is decided by their order. On these may rest %.3f of each top-1.",
            *(tied, len(samples), tied / len(samples)),
        )


def fit_and_test_head(
    data: Triplets, settings: HeadTraining, parts: tuple[Indices, Indices, Indices]
) -> tuple[Head, tuple[Epoch, ...], dict[str, float]]:
    """Train a head on the first part, stop by the second, and test it on the third; return also
    its epochs, and the figures of the best as :func:`sweep_heads` names them."""
    head, history = fit_head(data, *parts[:2], settings, watched=parts[2])
    best = min(history, key=lambda epoch: epoch.validation)
    outcome = {
        "epoch": best.epoch,
        "validation_loss": best.validation,
        "test_top1": top1_share(data, parts[2], head),
        "none_top1": top1_share(data, parts[2]),
    }
    return head, history, outcome


def choose_glosses(
    gloss: npt.NDArray[np.bool_], training: Indices, validation: Indices
) -> tuple[Indices, Indices]:
    """Return the samples for training and for validation whose anchors are glosses, by a mask of
    shape (S,); if there are none of either, it is a UserError."""
    training, validation = (part[gloss[part]] for part in (training, validation))
    if not len(training) or not len(validation):
        raise UserError(
            "Too few glosses to train on and to validate on, because too few items are "
            "idiomatic. Use more items, or learn from compounds too.",
            "glosses_only",
        )
    return training, validation


def fit_head(
    data: Triplets,
    training: Indices,
    validation: Indices,
    settings: HeadTraining,
    *,
    watched: Indices | None = None,
) -> tuple[Head, tuple[Epoch, ...]]:
    """Train a head; return it with the weights of the lowest validation loss, and all epochs.

    The top-1 accuracy on ``watched`` samples, which have no influence, is recorded after each
    epoch, for figures like the paper's 3 to 5.

    Raises:
        UserError: there are too few compounds to draw the soft negatives from, glosses are missing
            where only they are wanted, or the loss is infinite.
    """
    pool = training
    if settings.glosses_only:
        training, validation = choose_glosses(data.gloss, training, validation)
    rng = np.random.default_rng(settings.seed)
    fixed = np.random.default_rng(settings.seed)  # the same draws after every epoch
    checks = draw_soft_negatives(data, validation, pool, len(pool), fixed)
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
            samples, candidates = draw_soft_negatives(
                data, training, pool, settings.soft_negatives, rng
            )
            losses = []
            order = rng.permutation(len(training))
            for start in range(0, len(order), settings.batch_size):
                batch = order[start : start + settings.batch_size]
                negatives = samples[batch], candidates[batch]
                loss = triplet_loss(data, head, training[batch], *negatives, settings.temperature)
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                losses.append(loss.item() * len(batch))
            head.eval()
            with torch.no_grad():
                value = triplet_loss(data, head, validation, *checks, CHECK_TEMPERATURE).item()
            top1 = None if watched is None else top1_share(data, watched, head)
            history.append(Epoch(epoch, sum(losses) / len(training), value, top1))
            since += 1
            if value < best_loss:
                best, best_loss, since = copy.deepcopy(head.state_dict()), value, 0
            if since >= settings.patience:
                break
    if best_loss == float("inf"):
        raise UserError(
            "The validation loss is not finite. Use a lower learning rate.", "learning_rate"
        )
    head.load_state_dict(best)
    return head.eval(), tuple(history)


def triplet_loss(
    data: Triplets,
    head: Head,
    batch: Indices,
    soft_samples: Indices,
    soft_candidates: Indices,
    temperature: float,
) -> torch.Tensor:
    """Compute equation 1 for a batch of samples, shape (B,), at once.

    The soft negatives of each, shape (B, K), are those of :func:`draw_soft_negatives`. The other
    candidates of a sample are its hard negatives.
    """
    rows, soft = torch.from_numpy(batch), torch.from_numpy(soft_samples)
    # Project each document once, even if it is a negative of several anchors.
    used, places = torch.unique(torch.cat([rows, soft.flatten()]), return_inverse=True)
    projected = head(torch.from_numpy(data.documents)[used])
    present = torch.from_numpy(data.present)[used]
    own, others = places[: len(rows)], places[len(rows) :].reshape(soft.shape)
    drawn = others, torch.from_numpy(soft_candidates)
    candidates = torch.cat([projected[own], projected[drawn]], dim=1)
    there = torch.cat([present[own], present[drawn]], dim=1)
    anchors = head(torch.from_numpy(data.anchors)[rows])
    cosines = torch.einsum("bd,bnmd->bnm", anchors, candidates)
    best = torch.arange(len(rows)), torch.from_numpy(data.positive)[rows]
    positive = torch.zeros_like(there)
    positive[best] = True
    return info_nce(cosines[best], cosines, there[best], there & ~positive, temperature)


def head_scores(data: Triplets, samples: Indices, head: Head | None = None) -> Scores:
    """Score each candidate by the sum of its image's and its caption's cosines: (samples, C).

    Without a head, vectors are compared in the encoder's space. Variants of images and rewritten
    captions are left out, as no ranking has them. A candidate without image and caption gets -inf.
    """
    scores: Scores = _cosines(data, samples).numpy()
    if head:
        head.eval()
        with torch.inference_mode():
            headed = _cosines(data, samples, head).numpy()
        inside = data.gloss[samples] | (not head.glosses_only)
        scores = np.where(inside[:, None], headed, scores)
    return scores


def _cosines(data: Triplets, samples: Indices, head: Head | None = None) -> torch.Tensor:
    anchors, documents = (torch.from_numpy(a[samples]) for a in (data.anchors, data.documents))
    if head:
        anchors, documents = head(anchors), head(documents)
    ranked = torch.tensor([modality in ("image", "caption") for modality in data.modalities])
    there = torch.from_numpy(data.present[samples]) & ranked
    # In double precision, as in a ranking, so that the same candidates are tied in both.
    cosines = torch.einsum("sd,scmd->scm", anchors.double(), documents.double())
    sums = torch.where(there, cosines, 0.0).sum(dim=2)
    return sums.masked_fill(~there.any(dim=2), -torch.inf)


def top1_share(data: Triplets, samples: Indices, head: Head | None = None) -> float:
    """Return the share of samples whose best candidate scores highest; see :func:`head_scores`."""
    chosen = head_scores(data, samples, head).argmax(axis=1)
    return float((chosen == data.positive[samples]).mean())
