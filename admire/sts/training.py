"""Fine-tuning sentence encoders on idioms and on sentence pairs: the objectives of three papers."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sentence_transformer.losses import (
    CoSENTLoss,
    CosineSimilarityLoss,
    MultipleNegativesRankingLoss,
    SoftmaxLoss,
    TripletDistanceMetric,
    TripletLoss,
)
from sentence_transformers.sentence_transformer.modules import WeightedLayerPooling

from admire.encoders.sentence import SentenceEncoder, query_prompt
from admire.errors import UserError
from admire.sts import Objective, mwes
from admire.sts.evaluation import compare, evaluate
from admire.sts.losses import AdaptiveTripletLoss, ConsistencyLoss, WeightedLoss
from admire.sts.pairs import Group, Pair
from admire.sts.rows import dealt, equal, filled_triples, labelled, mixed, repeated, triples
from admire.trainer import Batches, FitSettings, Row, fine_tune

OBJECTIVES: tuple[Objective, ...] = get_args(Objective)
FROM_PAIRS: tuple[Objective, ...] = ("regression", "classification", "cosent")
"""Objectives that learn from pairs with similarities; the others learn from groups."""

TRIPLET_LOSSES: tuple[Objective, ...] = ("adaptive", "multi-negative")
"""He et al.'s objectives, whose batches are of single sentences with labels."""

BATCHES: dict[Objective, Batches] = {
    **dict.fromkeys(FROM_PAIRS, "like lengths"),
    **dict.fromkeys((*TRIPLET_LOSSES, "consistent"), "neighbours"),
    **dict.fromkeys(("triplet+ranking", "simcse"), "no duplicates"),
}


@dataclass(frozen=True)
class SentenceTraining:
    """How an encoder is fine-tuned.

    Attributes:
        objective: ``adaptive`` and ``multi-negative`` are He et al.'s (section 3, equation 5);
            ``triplet+ranking`` (fine-tune setting), ``regression``, ``classification`` and
            ``cosent`` (pre-train setting) are YNU-HPCC's; ``simcse`` is ChengyuSTS's (equation 2);
            ``consistent`` is ours: :class:`ConsistencyLoss`.
        miner_margin: He et al.: triplets are learned from whose Euclidean distances, of unit
            vectors, differ by less.
        margin: of the triplet loss; None is the paper's own, 0.3 (He et al.) or 0.1 (YNU-HPCC).
        temperature: what cosines are divided by in SimCSE, multiple negatives ranking, CoSENT
            (0.05 is its λ = 20) and ``consistent``.
        last_layers: 2 for the mean of the last two layers (He et al.), 1 for the last one.
        max_length: tokens of a sentence that are read, now and later; None is the model's own.
        mwe_tokens: whether each expression becomes a token of its own. The vectors of the other
            tokens stay as they are then.
        token_rate: learning rate of those tokens' vectors. At that of the model they would hardly
            move, because each is only in a few batches.
        repeat: groups of an expression that has fewer are repeated until there are so many.
        sts_weight: of the loss on sentence pairs that are mixed in.
        fit: the trainer's settings. A batch of ``adaptive`` and ``multi-negative`` is that many
            sentences, of the others that many rows.
    """

    objective: Objective = "adaptive"
    miner_margin: float = 0.4
    margin: float | None = None
    temperature: float = 0.05
    last_layers: Literal[1, 2] = 1
    max_length: int | None = None
    mwe_tokens: bool = False
    token_rate: float = 1e-3
    repeat: int = 1
    sts_weight: float = 1.0
    fit: FitSettings = field(default_factory=FitSettings)

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise UserError(
                f"'{self.objective}' is no objective. There are: {', '.join(OBJECTIVES)}."
            )
        if not (0 < self.temperature < math.inf and 0 < self.sts_weight < math.inf):
            raise UserError("temperature and sts_weight must be above 0.")
        if not (0 <= self.miner_margin < math.inf and 0 <= (self.margin or 0) < math.inf):
            raise UserError("Margins cannot be below 0.")
        if self.repeat < 1 or not 0 < self.token_rate < math.inf:
            raise UserError("repeat must be at least 1, and token_rate above 0.")
        if self.max_length is not None and self.max_length < 8:
            raise UserError(f"max_length cannot be {self.max_length}; 8 is the least.")
        if self.last_layers not in (1, 2):
            raise UserError(f"last_layers cannot be {self.last_layers}.")


def finetune_sentences(
    encoder: SentenceEncoder,
    groups: Sequence[Group],
    pairs: Sequence[Pair],
    validation: Sequence[Pair],
    settings: SentenceTraining,
    out: Path,
) -> list[float]:
    """Fine-tune a sentence encoder in place and save it to ``out``, which ``sbert:`` opens.

    The epoch with the highest Spearman correlation over all of ``validation`` is kept.

    Args:
        groups: what the objective learns from; empty for those in ``FROM_PAIRS``.
        pairs: what those learn from; for the others STS pairs to mix in, by CoSENT, so that general
            similarity is kept. Sentences and correct paraphrases join them, as pairs of
            similarity 1, which no other objective sets beside other pairs.

    Returns:
        That correlation before training and after each epoch.

    Raises:
        UserError: there is nothing for the objective to learn from, or the model's layers cannot be
            averaged.
    """
    from_pairs = settings.objective in FROM_PAIRS
    if from_pairs and groups:
        raise UserError(f"'{settings.objective}' learns from pairs with similarities alone.")
    if not (pairs if from_pairs else groups):
        wanted = "pairs with similarities" if from_pairs else "groups with paraphrases"
        raise UserError(f"'{settings.objective}' needs {wanted} to learn from.")
    if any(pair.similarity is None for pair in pairs):
        raise UserError("Pairs to learn from need similarities of their own.")
    if not any(pair.gold for pair in validation):
        raise UserError("There is nothing to validate on.")
    model = encoder.model
    if settings.last_layers == 2:
        average_last_two(model)
    if settings.max_length is not None:
        model.max_seq_length = min(settings.max_length, model.max_seq_length or settings.max_length)
    known = {group.mwe for group in groups if group.mwe}
    rates = {}
    if settings.mwe_tokens:
        rates[re.escape(mwes.extend(model, known))] = settings.token_rate
    known |= {pair.mwe for pair in validation if pair.mwe}
    read = mwes.reader(model, known)
    prompt = query_prompt(model)

    def told(rows: Sequence[Row]) -> list[dict[str, Any]]:
        return [
            {name: prompt + read(v) if isinstance(v, str) else v for name, v in row.items()}
            for row in rows
        ]

    def validate() -> float:
        scored = evaluate(validation, compare(validation, encoder, read))
        every = scored[scored["subset"] == "all"]["spearman"].iloc[-1]
        # A model that gives every pair the same similarity has learned nothing.
        return float(every) if every == every else -1.0

    rows: dict[str, list[dict[str, Any]]] = {}
    losses: dict[str, torch.nn.Module] = {}
    groups = repeated(groups, settings.repeat)
    for name, (some, loss) in _tasks(model, groups, pairs, settings).items():
        rows[name], losses[name] = told(some), loss
    return fine_tune(
        model,
        losses,
        rows,
        validate,
        settings.fit,
        out,
        of=f"{encoder.identity} {settings} {validation}",
        batches=BATCHES[settings.objective],
        learning_rates=rates,
    )


def _tasks(
    model: SentenceTransformer,
    groups: Sequence[Group],
    pairs: Sequence[Pair],
    settings: SentenceTraining,
) -> dict[str, tuple[list[Row], torch.nn.Module]]:
    """Rows and loss of each thing that is learned at once."""
    rng = np.random.default_rng(settings.fit.seed)
    objective = settings.objective
    scale = 1 / settings.temperature
    ranking = MultipleNegativesRankingLoss(model, scale=scale)
    tasks: dict[str, tuple[list[Row], torch.nn.Module]] = {}
    if objective in TRIPLET_LOSSES:
        triplets = AdaptiveTripletLoss(
            model,
            miner_margin=settings.miner_margin,
            margin=0.3 if settings.margin is None else settings.margin,
            multi_negative=objective == "multi-negative",
        )
        tasks["sentences"] = labelled(dealt(groups, rng)), triplets
    elif objective == "consistent":
        tasks["triples"] = (
            triples(dealt(groups, rng)),
            ConsistencyLoss(model, scale, 0.0 if settings.margin is None else settings.margin),
        )
    elif objective == "triplet+ranking":
        margin = 0.1 if settings.margin is None else settings.margin
        distance = TripletLoss(
            model, distance_metric=TripletDistanceMetric.EUCLIDEAN, triplet_margin=margin
        )
        tasks["triples"] = triples(groups), distance
        tasks["positives"] = (
            [{"anchor": g.sentence, "positive": c} for g in groups for c in g.correct],
            ranking,
        )
    elif objective == "simcse":
        tasks["triples"] = filled_triples(groups, rng), ranking
    if objective in FROM_PAIRS or pairs:
        sts: torch.nn.Module
        if objective == "regression":
            sts = CosineSimilarityLoss(model)
        elif objective == "classification":
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(settings.fit.seed)
                sts = SoftmaxLoss(model, model.get_embedding_dimension() or 0, num_labels=6)
        else:
            sts = CoSENTLoss(model, scale=scale)
        classes = objective == "classification"
        rows: list[Row] = [
            {
                "first": pair.first,
                "second": pair.second,
                "label": int((pair.similarity or 0.0) * 5 + 0.5) if classes else pair.similarity,
            }
            for pair in pairs
        ]
        if objective not in FROM_PAIRS:
            rows = mixed(rows, equal(groups), rng)
            sts = WeightedLoss(sts, settings.sts_weight)
        tasks["pairs"] = rows, sts
    return tasks


def average_last_two(model: SentenceTransformer) -> None:
    """Let the model pool the mean of its last two layers (He et al., section 4.1).

    Raises:
        UserError: the model does not begin with a transformer, or averages layers already.
    """
    transformer = model[0]
    if not isinstance(transformer, Transformer) or any(
        isinstance(module, WeightedLayerPooling) for module in model
    ):
        raise UserError("The last two layers can only be averaged in a plain transformer's model.")
    config = transformer.model.config
    config.output_hidden_states = True
    layers = config.num_hidden_layers
    width = transformer.get_embedding_dimension()
    mean = WeightedLayerPooling(width, num_hidden_layers=layers, layer_start=layers - 1)
    mean.layer_weights.requires_grad_(False)
    modules = [transformer, mean.to(model.device), *list(model)[1:]]
    for place, module in enumerate(modules):
        model._modules[str(place)] = module
