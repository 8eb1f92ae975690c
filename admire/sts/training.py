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
from torch.nn import functional

from admire.encoders.sentence import SentenceEncoder, query_prompt
from admire.errors import UserError
from admire.finetune import Batches, FitSettings, Row, fit
from admire.sts import Objective, mwes
from admire.sts.evaluation import compare, evaluate
from admire.sts.pairs import Group, Pair, without

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

ONE_SHOT = 1
"""Groups of an expression held out that stay for training, as in the task's one-shot data."""


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
    return fit(
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
        tasks["sentences"] = labelled(_dealt(groups, rng)), triplets
    elif objective == "consistent":
        tasks["triples"] = (
            triples(_dealt(groups, rng)),
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
            rows = _mixed(rows, equal(groups), rng)
            sts = _Weighted(sts, settings.sts_weight)
        tasks["pairs"] = rows, sts
    return tasks


def _dealt(groups: Sequence[Group], rng: np.random.Generator) -> list[Group]:
    """The groups at random, but of each thousand the shorter ones first.

    Their sentences have to stay together, so batches are made of neighbours; these are then of like
    length, which halves the time of an epoch.
    """
    order = rng.permutation(len(groups))
    parts = np.array_split(order, math.ceil(len(order) / 1000) or 1)
    return [
        groups[k] for part in parts for k in sorted(part, key=lambda k: len(groups[k].sentence))
    ]


def _mixed(first: Sequence[Row], second: Sequence[Row], rng: np.random.Generator) -> list[Row]:
    """Rows of both kinds at random, but in each thousand the shorter ones of each kind first.

    A batch of neighbours has both kinds then, however much longer those of one are.
    """
    found: list[tuple[float, Row]] = []
    for rows in (first, second):
        order = sorted(range(len(rows)), key=lambda k: len(rows[k]["first"]))
        found += [(place / len(rows), rows[k]) for place, k in enumerate(order)]
    parts = np.array_split(rng.permutation(len(found)), math.ceil(len(found) / 1000) or 1)
    return [found[k][1] for part in parts for k in sorted(part, key=lambda k: found[k][0])]


def labelled(groups: Sequence[Group]) -> list[Row]:
    """He et al., table 1: sentences with labels, the same where they mean the same.

    A sentence and its correct paraphrases have one label, each incorrect paraphrase has its own,
    and no label is in two groups, whose sentences stand together. A group that is there again has
    the labels that it had.
    """
    rows: list[Row] = []
    first: dict[Group, int] = {}
    free = 0
    for group in groups:
        label = first.setdefault(group, free)
        for sentence in (group.sentence, *group.correct):
            rows.append({"sentence": sentence, "label": label})
        for number, sentence in enumerate(group.incorrect, start=label + 1):
            rows.append({"sentence": sentence, "label": number})
        if label == free:
            free += 1 + len(group.incorrect)
    return rows


def repeated(groups: Sequence[Group], times: int) -> list[Group]:
    """The groups, those of an expression that has fewer than ``times`` more than once.

    Then an expression that is seen once, as those are that the task tests, is learned about as well
    as the others.
    """
    of: dict[tuple[str, str], list[Group]] = {}
    for group in groups:
        if group.mwe:
            of.setdefault((group.language, group.mwe.casefold()), []).append(group)
    found = [group for group in groups if not group.mwe]
    for some in of.values():
        found += some * max(1, times // len(some))
    return found


def equal(groups: Sequence[Group]) -> list[Row]:
    """Each sentence with each of its correct paraphrases, as pairs of similarity 1."""
    return [
        {"first": group.sentence, "second": correct, "label": 1.0}
        for group in groups
        for correct in group.correct
    ]


def triples(groups: Sequence[Group]) -> list[Row]:
    """Each sentence with each of its correct and each of its incorrect paraphrases."""
    rows: list[Row] = [
        {"anchor": group.sentence, "positive": correct, "negative": incorrect}
        for group in groups
        for correct in group.correct
        for incorrect in group.incorrect
    ]
    if not rows:
        raise UserError("No group has both a correct and an incorrect paraphrase.")
    return rows


def filled_triples(groups: Sequence[Group], rng: np.random.Generator) -> list[Row]:
    """Triples of supervised SimCSE (ChengyuSTS, section 4.2).

    Where a positive is missing the sentence itself is taken, which dropout makes another vector;
    where a negative is missing a sentence of another group is drawn.

    Raises:
        UserError: a negative must be drawn, and there is no other group.
    """
    rows: list[Row] = []
    for place, group in enumerate(groups):
        negatives = group.incorrect
        if not negatives:
            if len(groups) < 2:
                raise UserError("One group alone has no negative to draw from others.")
            other = (place + 1 + int(rng.integers(len(groups) - 1))) % len(groups)
            negatives = (groups[other].sentence,)
        rows += [
            {"anchor": group.sentence, "positive": positive, "negative": negative}
            for positive in group.correct or (group.sentence,)
            for negative in negatives
        ]
    return rows


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


class _Weighted(torch.nn.Module):
    def __init__(self, loss: torch.nn.Module, weight: float):
        super().__init__()
        self.loss = loss
        self.weight = weight

    def forward(self, features: list[dict[str, Any]], labels: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.loss(features, labels)
        return self.weight * found


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


# ------------------------------------------------------------------------------- validation


def hold_out(
    groups: Sequence[Group], share: float = 0.1, seed: int = 0
) -> tuple[list[Group], list[Pair]]:
    """Groups to train on, and pairs of the other ones to validate on.

    A share of the expressions is held out, but for one group of each (none, if there is one only),
    as in the task's fine-tune setting, whose training data has one sentence of each sense in which
    an expression is tested. Groups without an expression are dealt one by one. Groups that share a
    sentence with one held out are dropped.
    """
    rng = np.random.default_rng(seed)
    of: dict[str, list[Group]] = {}
    for place, group in enumerate(groups):
        of.setdefault(group.mwe.casefold() if group.mwe else f"\n{place}", []).append(group)
    names = sorted(of)
    held = {names[int(k)] for k in rng.permutation(len(names))[: round(share * len(names))]}
    kept: list[Group] = []
    tested: list[Group] = []
    for name, some in of.items():
        order = [some[int(k)] for k in rng.permutation(len(some))]
        shown = len(order) if name not in held else min(ONE_SHOT, len(order) // 2)
        kept += order[:shown]
        tested += order[shown:]
    unseen = {sentence for group in tested for sentence in _sentences(group)}
    return [g for g in kept if unseen.isdisjoint(_sentences(g))], as_pairs(tested)


def _sentences(group: Group) -> tuple[str, ...]:
    return (group.sentence, *group.correct, *group.incorrect)


def as_pairs(groups: Sequence[Group]) -> list[Pair]:
    """The pairs of Task 2B: of similarity 1, or as similar as the correct and an incorrect one."""
    found = []
    for number, group in enumerate(groups):
        for correct in group.correct:
            found.append(
                Pair(f"{number}", group.language, group.sentence, correct, 1.0, None, group.mwe)
            )
        for incorrect in group.incorrect:
            reference = (group.correct[0], incorrect) if group.correct else None
            known = None if reference else 0.0
            found.append(
                Pair(
                    f"{number}",
                    group.language,
                    group.sentence,
                    incorrect,
                    known,
                    reference,
                    group.mwe,
                )
            )
    return found


def split_pairs(
    pairs: Sequence[Pair], share: float = 0.1, seed: int = 0
) -> tuple[list[Pair], list[Pair]]:
    """Pairs to train on and pairs to validate on, which share no sentence with those."""
    order = np.random.default_rng(seed).permutation(len(pairs))
    held = [pairs[int(k)] for k in order[: round(share * len(pairs))]]
    return without(pairs, held), held
