"""Fine-tuning sentence encoders on idioms and on sentence pairs: objectives of three papers."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from admire.core.errors import UserError, needs_extra
from admire.encoders.sentence import SentenceEncoder, query_prompt
from admire.tasks.sts import mwes
from admire.tasks.sts.evaluation import Similarities, compare, correlate
from admire.tasks.sts.pairs import Group, Pair
from admire.tasks.sts.rows import (
    TrainingData,
    dealt,
    filled_triples,
    labelled,
    mixed,
    repeated,
    self_labelled,
    triples,
)
from admire.tasks.sts.settings import FROM_PAIRS, TRIPLET_LOSSES, Objective, SentenceTraining

with needs_extra("finetune", "Fine-tuning"):
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.losses import (
        CoSENTLoss,
        CosineSimilarityLoss,
        MultipleNegativesRankingLoss,
        SoftmaxLoss,
        TripletDistanceMetric,
        TripletLoss,
    )
    from torch.nn import functional

    from admire.encoders.trainer import Batches, Figures, Row, TrainingSet, fine_tune
    from admire.tasks.sts.vectors import change_vectors


class AdaptiveTripletLoss(torch.nn.Module):
    """He et al.'s triplet loss on cosines, over triplets that a miner finds (sections 3.1 to 3.3).

    Two sentences with the same label are anchor and positive; one with another label is a negative.
    The miner keeps a triplet if the negative is less than ``miner_margin`` farther from the anchor
    than the positive, in Euclidean distance of unit vectors. The losses above 0, which are
    cos(a, n) − cos(a, p) + margin, are averaged. With ``multi_negative`` the losses of all
    negatives of an (anchor, positive) pair are added, and the sums averaged (equation 5).
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

        self.model, self.margin, self.multi_negative = model, margin, multi_negative
        self.miner = miners.TripletMarginMiner(
            margin=miner_margin, distance=distances.LpDistance(normalize_embeddings=True)
        )
        self.loss = losses.TripletMarginLoss(margin=margin, distance=distances.CosineSimilarity())

    def forward(self, features: Sequence[dict[str, Any]], labels: torch.Tensor) -> torch.Tensor:
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
        losses = cosines[anchors, negatives] - cosines[anchors, positives] + self.margin
        couples = len(set(zip(anchors.tolist(), positives.tolist(), strict=True)))
        return losses.clamp(min=0).sum() / couples


class ConsistencyLoss(torch.nn.Module):
    """The task's own gold (He et al., equation 3) as a loss over triples (S, c, i) of a sentence, a
    correct and an incorrect paraphrase. No paper has it.

    CoSENT puts every cos(S, c) of a batch above every cos(S, i) and every cos(c, i), as Spearman's
    correlation compares pairs of different sentences too. The mean of (cos(S, i) − cos(c, i))²
    makes these two equal, as the gold of an incorrect pair demands.
    """

    def __init__(self, model: SentenceTransformer, scale: float, margin: float):
        super().__init__()
        self.model, self.scale, self.margin = model, scale, margin

    def forward(
        self, features: Sequence[dict[str, Any]], labels: torch.Tensor | None = None
    ) -> torch.Tensor:
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


BATCHES: dict[Objective, Batches] = {
    **dict.fromkeys((*FROM_PAIRS, "self-labelled"), "like lengths"),
    **dict.fromkeys((*TRIPLET_LOSSES, "consistent"), "neighbours"),
    **dict.fromkeys(("triplet+ranking", "simcse"), "no duplicates"),
}
MARGINS: dict[Objective, float] = {**dict.fromkeys(TRIPLET_LOSSES, 0.3), "triplet+ranking": 0.1}
"""The papers' margins; of the other objectives it is 0."""


def train_sentences(
    encoder: SentenceEncoder, data: TrainingData, settings: SentenceTraining, out: Path
) -> list[Figures]:
    """Fine-tune a sentence encoder in place and save it to ``out``, for ``sbert:FOLDER``.

    Unless the settings name another, the epoch with the highest Spearman correlation over all
    validation pairs is kept.

    Objectives that learn from groups can have pairs of plain STS mixed in, by CoSENT, so that the
    model keeps general similarity. Sentences and their correct paraphrases are then added to these
    pairs, with the similarity 1, because the objectives never compare them with other pairs.

    Returns:
        Spearman's correlation before training and after each epoch, over ``all`` validation pairs,
        over those with an ``idiom`` and over those of plain ``sts``.
    """
    groups, pairs, validation = data.groups, data.pairs, data.validation
    mentioned = (*(group.mwe for group in groups), *(pair.mwe for pair in pairs), *data.mwes)
    expressions = {mwe for mwe in mentioned if mwe}
    _check(data, settings, expressions)
    encoder.claim()
    model = encoder.model
    change_vectors(model, settings)
    rates = {}
    if settings.mwe_tokens:
        rates[re.escape(mwes.extend(model, expressions))] = settings.token_rate
    expressions |= {pair.mwe for pair in validation if pair.mwe}
    read = mwes.reader(model, expressions)
    prompt = query_prompt(model)

    def prepared(row: Row) -> dict[str, Any]:
        return {name: prompt + read(v) if isinstance(v, str) else v for name, v in row.items()}

    def similarities(pairs: Sequence[Pair]) -> Similarities:
        return compare(pairs, encoder, read)

    def validate() -> Figures:
        scored = correlate(validation, similarities(validation))
        total = scored[scored["language"] == scored["language"].iloc[-1]]
        figures: Figures = dict(zip(total["subset"], total["spearman"], strict=True))
        # NaN: the model gives every pair the same similarity, which is the worst result.
        return figures | {"all": float(np.nan_to_num(figures["all"], nan=-1.0))}

    tasks = _tasks(model, repeated(groups, settings.repeat), pairs, settings, similarities)
    rows = {name: [*map(prepared, raw_rows)] for name, (raw_rows, _) in tasks.items()}
    losses = {name: loss for name, (_, loss) in tasks.items()}
    return fine_tune(
        model,
        TrainingSet(rows, losses, BATCHES[settings.objective]),
        validate,
        settings.fit,
        out,
        of=f"{encoder.identity} {settings} {validation}",
        learning_rates=rates,
    )


def _check(data: TrainingData, settings: SentenceTraining, expressions: Collection[str]) -> None:
    """Check settings against the data and the expressions in it."""
    objective, groups, pairs = settings.objective, data.groups, data.pairs
    from_pairs = objective in FROM_PAIRS
    if not (pairs if from_pairs else groups):
        needed = "pairs with similarities" if from_pairs else "groups with paraphrases"
        raise UserError(f"'{objective}' needs {needed} to learn from.", "objective")
    if settings.mwe_tokens and not expressions:
        raise UserError("The data name no expressions to make tokens of.", "mwe_tokens")
    if data.mwes and not settings.mwe_tokens:
        raise UserError("Expressions become tokens only where that is on.", "mwes", "mwe_tokens")
    if not settings.shuffle and BATCHES[objective] != "neighbours":
        raise UserError(f"'{objective}' draws its batches at random. Leave shuffle on.", "shuffle")
    if any(pair.similarity is None for pair in pairs):
        raise UserError("Pairs to learn from need similarities of their own.")


def _tasks(
    model: SentenceTransformer,
    groups: Sequence[Group],
    pairs: Sequence[Pair],
    settings: SentenceTraining,
    similarities: Callable[[Sequence[Pair]], Similarities],
) -> dict[str, tuple[list[Row], torch.nn.Module]]:
    """Return rows and loss of each task, by its name; the tasks are learned together."""
    rng = np.random.default_rng(settings.fit.seed)
    objective, scale = settings.objective, 1 / settings.temperature
    margin = MARGINS.get(objective, 0.0) if settings.margin is None else settings.margin
    ranking = MultipleNegativesRankingLoss(model, scale=scale)
    tasks: dict[str, tuple[list[Row], torch.nn.Module]] = {}
    shuffled = settings.shuffle and BATCHES[objective] == "neighbours"
    order = dealt(groups, rng) if shuffled else groups
    if objective in TRIPLET_LOSSES:
        margins = {"miner_margin": settings.miner_margin, "margin": margin}
        several = objective == "multi-negative"
        loss = AdaptiveTripletLoss(model, **margins, multi_negative=several)
        tasks["sentences"] = labelled(order), loss
    elif objective == "consistent":
        tasks["triples"] = triples(order), ConsistencyLoss(model, scale, margin)
    elif objective == "triplet+ranking":
        distance = TripletLoss(model, TripletDistanceMetric.EUCLIDEAN, triplet_margin=margin)
        tasks["triples"] = triples(groups), distance
        own: list[Row] = [{"anchor": g.sentence, "positive": c} for g in groups for c in g.correct]
        tasks["positives"] = own, ranking
    elif objective == "self-labelled":
        tasks["groups"] = self_labelled(groups, similarities), CosineSimilarityLoss(model)
    elif objective == "simcse":
        tasks["triples"] = filled_triples(groups, rng), ranking
    if objective in FROM_PAIRS:
        tasks["pairs"] = _pair_task(model, pairs, settings)
    elif pairs:
        rows, sts = _pair_task(model, pairs, settings)
        sts.register_forward_hook(lambda module, features, loss: settings.sts_weight * loss)
        same = [{"first": g.sentence, "second": c, "label": 1.0} for g in groups for c in g.correct]
        tasks["pairs"] = mixed(rows, same, rng), sts
    return tasks


def _pair_task(
    model: SentenceTransformer, pairs: Sequence[Pair], settings: SentenceTraining
) -> tuple[list[Row], torch.nn.Module]:
    """Return rows and loss of pairs with similarities; by CoSENT if they are mixed in."""
    loss: torch.nn.Module = CoSENTLoss(model, scale=1 / settings.temperature)
    labels: list[float] = [pair.similarity or 0.0 for pair in pairs]
    if settings.objective == "regression":
        loss = CosineSimilarityLoss(model)
    elif settings.objective == "classification":
        labels = [int(similarity * 5 + 0.5) for similarity in labels]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.fit.seed)
            loss = SoftmaxLoss(model, model.get_embedding_dimension() or 0, num_labels=6)
    return [
        {"first": pair.first, "second": pair.second, "label": label}
        for pair, label in zip(pairs, labels, strict=True)
    ], loss
