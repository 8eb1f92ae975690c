"""Fine-tuning for retrieval of the same meaning (IdioLink, section 4.3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling
from torch.nn import functional

from admire.encoders.sentence import SentenceEncoder, document_prompt, query_prompt
from admire.encoders.spans import prepare_spans, span_states
from admire.errors import UserError
from admire.retrieval import evaluation, retrievers
from admire.retrieval.passages import Passage, Split, relevant
from admire.retrieval.retrievers import Format, Mode
from admire.trainer import FitSettings, Row, fine_tune


@dataclass(frozen=True)
class RetrievalTraining:
    """How an encoder is fine-tuned; the paper's four configurations are the four modes.

    Attributes:
        mode, style: what of a query is encoded, in training as in evaluation.
        soft_negatives: α_N, documents of other PIEs for each query.
        hard_negatives: α_H, documents of the same PIE in the other sense.
        positive_in_denominator: the usual form of the loss; the paper's equation 2 as it is printed
            has the negatives alone there.
        temperature: what cosines are divided by; the paper has none, which is 1.
        fit: the trainer's settings.
    """

    mode: Mode = "sentence"
    style: Format = "auto"
    soft_negatives: int = 3
    hard_negatives: int = 3
    positive_in_denominator: bool = False
    temperature: float = 1.0
    fit: FitSettings = field(default_factory=FitSettings)

    def __post_init__(self) -> None:
        if min(self.soft_negatives, self.hard_negatives) < 0:
            raise UserError("soft_negatives and hard_negatives cannot be below 0.")
        if self.soft_negatives + self.hard_negatives < 1:
            raise UserError("There must be negatives, soft or hard.")
        if not 0 < self.temperature < math.inf:
            raise UserError(f"temperature cannot be {self.temperature}.")


@dataclass(frozen=True)
class Example:
    """Equation 1: a query, one positive, its soft and then its hard negatives."""

    query: Passage
    positive: Passage
    negatives: tuple[Passage, ...]


def examples(split: Split, settings: RetrievalTraining) -> list[Example]:
    """One example for each query that has a positive, drawn at random.

    Of a query with fewer hard negatives than wanted each is taken again in turn.

    Raises:
        UserError: no query has a positive and negatives.
    """
    rng = np.random.default_rng(settings.fit.seed)
    documents = split.documents
    found = []
    for query in split.queries:
        same = [d for d in documents if d.idiom.casefold() == query.idiom.casefold()]
        positives = [d for d in same if relevant(query, d)]
        hard = [d for d in same if not relevant(query, d)]
        soft = [d for d in documents if d.idiom.casefold() != query.idiom.casefold()]
        if not positives or (settings.hard_negatives and not hard):
            continue
        if len(soft) < settings.soft_negatives:
            raise UserError(
                f"{settings.soft_negatives} soft negatives are asked for, but there are only "
                f"{len(soft)} documents of other PIEs than '{query.idiom}'."
            )
        negatives = _drawn(soft, settings.soft_negatives, rng)
        negatives += _drawn(hard, settings.hard_negatives, rng)
        positive = positives[int(rng.integers(len(positives)))]
        found.append(Example(query, positive, tuple(negatives)))
    if not found:
        raise UserError("No query has a positive and a hard negative to learn from.")
    return found


def _drawn(pool: Sequence[Passage], wanted: int, rng: np.random.Generator) -> list[Passage]:
    return [pool[int(k)] for k in np.resize(rng.permutation(len(pool)), wanted)]


def contrastive_loss(
    positives: torch.Tensor,
    negatives: torch.Tensor,
    *,
    temperature: float = 1.0,
    positive_in_denominator: bool = False,
) -> torch.Tensor:
    """Equation 2, the mean over a batch.

    Args:
        positives: cosines of queries and positives, shape (batch,).
        negatives: cosines of queries and their negatives, shape (batch, negatives).
        temperature: what cosines are divided by; 1 is as printed.
        positive_in_denominator: whether the positive is there as well, as usual; not as printed.
    """
    positive, every = positives / temperature, negatives / temperature
    if positive_in_denominator:
        every = torch.cat([positive[:, None], every], dim=1)
    return (every.logsumexp(dim=1) - positive).mean()


def finetune_retrieval(
    encoder: SentenceEncoder, train: Split, val: Split, settings: RetrievalTraining, out: Path
) -> list[float]:
    """Fine-tune a sentence encoder in place and save it to ``out``, which ``sbert:`` opens.

    The epoch with the highest mean nDCG@10 on ``val`` is kept.

    Returns:
        That figure before training and after each epoch.

    Raises:
        UserError: the splits do not give what is asked for, or the model leaves prompts out of its
            pooling (INSTRUCTOR) and ``mode`` is instruction+sentence, which is not implemented.
    """
    model = encoder.model
    if settings.mode == "instruction+sentence" and any(
        isinstance(module, Pooling) and not module.include_prompt for module in model
    ):
        raise UserError(
            f"{encoder.name}: leaves instructions out of its sentences' vectors, and cannot be "
            "trained with --query instruction+sentence. Use instruction+span or sentence."
        )
    style = retrievers.style_of(encoder.name) if settings.style == "auto" else settings.style

    def validate() -> float:
        similarities = retrievers.dense(val, encoder, settings.mode, style)
        return float(evaluation.evaluate(val, similarities)["ndcg"].mean())

    rows = [_row(one, settings.mode, style, model) for one in examples(train, settings)]
    loss = _Loss(model, settings)
    return fine_tune(
        model,
        loss,
        rows,
        validate,
        settings.fit,
        out,
        lambda some: _features(model, some),
        of=f"{encoder.identity} {settings}",
    )


def _row(example: Example, mode: Mode, style: Format, model: SentenceTransformer) -> dict[str, Any]:
    asked = retrievers.as_query(example.query, mode, style)
    prompt = query_prompt(model) if asked.prompt is None else asked.prompt
    start, end = asked.span or (0, 0)
    before = document_prompt(model)
    documents = (example.positive, *example.negatives)
    return {
        "query": prompt + asked.text,
        "start": len(prompt) + start if asked.span else -1,
        "end": len(prompt) + end,
        "documents": [before + document.sentence for document in documents],
    }


def _features(model: SentenceTransformer, rows: Sequence[Row]) -> dict[str, torch.Tensor]:
    """Features of the queries, with their spans' masks, and of all their documents in one batch."""
    texts = [row["query"] for row in rows]
    if rows[0]["start"] >= 0:
        spans = [(row["start"], row["end"]) for row in rows]
        try:
            asked, mask = prepare_spans(model, texts, spans)
        except ValueError as error:
            raise UserError(f"A query to train on: {error}.") from None
        asked["span_mask"] = mask
    else:
        asked = model.preprocess(texts, task="query")
    told = [text for row in rows for text in row["documents"]]
    documents = model.preprocess(told, task="document")
    return {
        f"{column}_{name}": value
        for column, features in (("query", asked), ("documents", documents))
        for name, value in features.items()
        if isinstance(value, torch.Tensor)
    }


class _Loss(torch.nn.Module):
    def __init__(self, model: SentenceTransformer, settings: RetrievalTraining):
        super().__init__()
        self.model = model
        self.settings = settings

    def forward(self, features: list[dict[str, Any]], labels: Any = None) -> torch.Tensor:
        asked, told = features
        mask = asked.pop("span_mask", None)
        if mask is None:
            queries = self.model(asked, task="query")["sentence_embedding"]
        else:
            queries = span_states(self.model, asked, mask)
        documents = self.model(told, task="document")["sentence_embedding"]
        queries, documents = (one[:, : self.model.truncate_dim] for one in (queries, documents))
        queries = functional.normalize(queries, dim=-1)
        documents = functional.normalize(documents, dim=-1).reshape(
            len(queries), -1, len(queries.T)
        )
        cosines = torch.einsum("bd,bnd->bn", queries, documents)
        return contrastive_loss(
            cosines[:, 0],
            cosines[:, 1:],
            temperature=self.settings.temperature,
            positive_in_denominator=self.settings.positive_in_denominator,
        )
