"""Losses for idioms: He et al.'s triplet loss with its miner, and one for the task's own gold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch.nn import functional

from admire.core.errors import needs_extra


class AdaptiveTripletLoss(torch.nn.Module):
    """He et al.'s triplet loss on cosines, over triplets that a miner finds (sections 3.1 to 3.3).

    Two sentences with the same label are anchor and positive; a sentence with another label is a
    negative. The miner keeps a triplet if the negative is less than ``miner_margin`` farther from
    the anchor than the positive, in Euclidean distance of unit vectors. The loss of a triplet is
    max(cos(a, n) − cos(a, p) + margin, 0). The losses above 0 are averaged, as
    pytorch-metric-learning does it. With ``multi_negative`` the losses of all negatives of an
    (anchor, positive) pair are added, and the sums are averaged over these pairs (equation 5).
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
        with needs_extra("finetune", "The triplet loss"):
            from pytorch_metric_learning import distances, losses, miners

        self.model = model
        self.multi_negative = multi_negative
        self.margin = margin
        self.miner = miners.TripletMarginMiner(
            margin=miner_margin, distance=distances.LpDistance(normalize_embeddings=True)
        )
        self.loss = losses.TripletMarginLoss(margin=margin, distance=distances.CosineSimilarity())

    def forward(self, features: Sequence[dict[str, Any]], labels: torch.Tensor) -> torch.Tensor:
        """Compute the loss of a batch: features of one column of sentences, and their labels."""
        return self.of_vectors(self.model(features[0])["sentence_embedding"], labels)

    def of_vectors(self, vectors: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Compute the loss of vectors (sentences, width) with labels (sentences,)."""
        mined = self.miner(vectors, labels)
        if not self.multi_negative:
            mean: torch.Tensor = self.loss(vectors, labels, mined)
            return mean
        anchors, positives, negatives = mined
        if not len(anchors):
            return vectors.sum() * 0
        cosines = functional.normalize(vectors) @ functional.normalize(vectors).T
        each = cosines[anchors, negatives] - cosines[anchors, positives] + self.margin
        couples = len(set(zip(anchors.tolist(), positives.tolist(), strict=True)))
        total: torch.Tensor = each.clamp(min=0).sum()
        return total / couples


class ConsistencyLoss(torch.nn.Module):
    """The task's own gold (He et al., equation 3) as a loss over triples (S, c, i).

    S is a sentence, c a correct and i an incorrect paraphrase of it. There are two terms. CoSENT
    puts every cos(S, c) of a batch above every cos(S, i) and every cos(c, i): Spearman's
    correlation compares pairs of different sentences too, but a triplet loss only compares within
    one triple. The mean of (cos(S, i) − cos(c, i))² makes these two equal, as the gold of an
    incorrect pair demands. This loss is ours; no paper has it.
    """

    def __init__(self, model: SentenceTransformer, scale: float, margin: float):
        super().__init__()
        self.model, self.scale, self.margin = model, scale, margin

    def forward(
        self, features: Sequence[dict[str, Any]], labels: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Compute the loss of a batch: features of sentences, correct and incorrect paraphrases."""
        return self.of_vectors(*(self.model(column)["sentence_embedding"] for column in features))

    def of_vectors(
        self, sentences: torch.Tensor, correct: torch.Tensor, incorrect: torch.Tensor
    ) -> torch.Tensor:
        """Compute the loss of vectors, each of shape (triples, width)."""
        same = functional.cosine_similarity(sentences, correct)
        other = functional.cosine_similarity(sentences, incorrect)
        reference = functional.cosine_similarity(correct, incorrect)
        below = torch.cat([other, reference])
        differences = (below[None, :] - same[:, None] + self.margin).flatten() * self.scale
        ranked = torch.cat([differences.new_zeros(1), differences]).logsumexp(dim=0)
        return ranked + self.scale * (other - reference).square().mean()


class WeightedLoss(torch.nn.Module):
    """Another loss, multiplied by a weight."""

    def __init__(self, loss: torch.nn.Module, weight: float):
        super().__init__()
        self.loss, self.weight = loss, weight

    def forward(self, features: list[dict[str, Any]], labels: torch.Tensor) -> torch.Tensor:
        """Compute the weighted loss of a batch."""
        loss: torch.Tensor = self.loss(features, labels)
        return self.weight * loss
