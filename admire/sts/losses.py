"""Losses for idioms: He et al.'s triplet loss with its miner, and one for the task's own rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch.nn import functional

from admire.errors import UserError


class AdaptiveTripletLoss(torch.nn.Module):
    """He et al., sections 3.1 to 3.3: a triplet loss on cosines, over triplets that a miner finds.

    Of sentences with labels, those with one label are anchors and positives to each other, all
    others are negatives. The miner keeps triplets in which the negative is not farther than the
    positive by ``miner_margin``, in Euclidean distance of unit vectors; the loss is the mean of
    max(cos(a, n) − cos(a, p) + margin, 0) over those that are not yet 0, as
    pytorch-metric-learning averages it, or with ``multi_negative`` the sum over an (anchor,
    positive)'s negatives, averaged over those pairs (equation 5).
    """

    def __init__(
        self,
        model: SentenceTransformer,
        *,
        miner_margin: float = 0.4,
        margin: float = 0.3,
        multi_negative: bool = False,
    ):
        super().__init__()
        try:
            from pytorch_metric_learning import distances, losses, miners
        except ImportError as error:
            raise UserError(
                "This objective needs pytorch-metric-learning, of the extra 'finetune' "
                "(pip install '.[finetune]' in the clone)."
            ) from error

        self.model = model
        self.multi_negative = multi_negative
        self.margin = margin
        self.miner = miners.TripletMarginMiner(
            margin=miner_margin, distance=distances.LpDistance(normalize_embeddings=True)
        )
        self.loss = losses.TripletMarginLoss(margin=margin, distance=distances.CosineSimilarity())

    def forward(self, features: Sequence[dict[str, Any]], labels: torch.Tensor) -> torch.Tensor:
        """The loss of one batch: features of one column of sentences, and their labels."""
        return self.of(self.model(features[0])["sentence_embedding"], labels)

    def of(self, vectors: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The loss of vectors (sentences, width) with labels (sentences,)."""
        mined = self.miner(vectors, labels)
        if not self.multi_negative:
            found: torch.Tensor = self.loss(vectors, labels, mined)
            return found
        anchors, positives, negatives = mined
        if not len(anchors):
            return vectors.sum() * 0
        cosines = functional.normalize(vectors) @ functional.normalize(vectors).T
        each = cosines[anchors, negatives] - cosines[anchors, positives] + self.margin
        couples = len(set(zip(anchors.tolist(), positives.tolist(), strict=True)))
        total: torch.Tensor = each.clamp(min=0).sum()
        return total / couples


class ConsistencyLoss(torch.nn.Module):
    """The task's own definition (He et al., equation 3) as a loss, over triples (S, c, i).

    CoSENT over a batch puts every cos(S, c) above every cos(S, i) and cos(c, i), because Spearman's
    correlation compares pairs of different sentences too, where a triplet loss compares within
    one; and the mean of (cos(S, i) − cos(c, i))² is what the gold of an incorrect pair asks for.
    Ours; no paper has it.
    """

    def __init__(self, model: SentenceTransformer, scale: float = 20.0, margin: float = 0.0):
        super().__init__()
        self.model = model
        self.scale = scale
        self.margin = margin

    def forward(
        self, features: Sequence[dict[str, Any]], labels: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The loss of one batch: features of sentences, correct and incorrect paraphrases."""
        return self.of(*(self.model(column)["sentence_embedding"] for column in features))

    def of(
        self, sentences: torch.Tensor, correct: torch.Tensor, incorrect: torch.Tensor
    ) -> torch.Tensor:
        """The loss of vectors, each (triples, width)."""
        same = functional.cosine_similarity(sentences, correct)
        other = functional.cosine_similarity(sentences, incorrect)
        reference = functional.cosine_similarity(correct, incorrect)
        below = torch.cat([other, reference])
        differences = (below[None, :] - same[:, None] + self.margin).flatten() * self.scale
        ranked = torch.cat([differences.new_zeros(1), differences]).logsumexp(dim=0)
        return ranked + self.scale * (other - reference).square().mean()


class WeightedLoss(torch.nn.Module):
    """A loss of a batch with labels, times a weight."""

    def __init__(self, loss: torch.nn.Module, weight: float):
        super().__init__()
        self.loss = loss
        self.weight = weight

    def forward(self, features: list[dict[str, Any]], labels: torch.Tensor) -> torch.Tensor:
        """The loss of one batch."""
        found: torch.Tensor = self.loss(features, labels)
        return self.weight * found
