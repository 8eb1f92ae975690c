"""Fine-tuning for retrieval of the same meaning (IdioLink, section 4.3)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from admire.core.choices import Device
from admire.core.errors import UserError, needs_extra
from admire.core.storage import check_folder
from admire.encoders.cached import open_trainable
from admire.encoders.sentence import SentenceEncoder, document_prompt, query_prompt
from admire.tasks.retrieval.passages import Passage, Split, relevance
from admire.tasks.retrieval.queries import TRAINED, TrainedOn, encoder_query, instruction_format_of
from admire.tasks.retrieval.query_scores import score_queries, summarise_queries
from admire.tasks.retrieval.settings import RetrieverTraining
from admire.tasks.retrieval.similarities import dense

with needs_extra("finetune", "Fine-tuning"):
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling
    from torch.nn import functional

    from admire.encoders.sentence import prepare_spans, span_states
    from admire.encoders.trainer import Figures, Row, TrainingSet, fine_tune

log = logging.getLogger("admire")


@dataclass(frozen=True)
class Example:
    """Equation 1: a query, one positive, and its negatives, first soft and then hard ones."""

    query: Passage
    positive: Passage
    negatives: tuple[Passage, ...]


def draw_examples(split: Split, settings: RetrieverTraining) -> list[Example]:
    """Draw one example for each query that has a positive, repeating scarce hard negatives."""
    rng = np.random.default_rng(settings.fit.seed)
    documents = split.documents
    idioms = np.array([document.idiom.casefold() for document in documents])
    examples = []
    for query, relevant in zip(split.queries, relevance(split), strict=True):
        same = idioms == query.idiom.casefold()
        positives, hard, soft = map(np.flatnonzero, (relevant, same & ~relevant, ~same))
        if not len(positives) or (settings.hard_negatives and not len(hard)):
            continue
        if len(soft) < settings.soft_negatives:
            raise UserError(
                f"{settings.soft_negatives} soft negatives are too many: there are only "
                f"{len(soft)} documents of other PIEs than '{query.idiom}'.",
                "soft_negatives",
            )
        negatives = [
            *rng.permutation(soft)[: settings.soft_negatives],
            *np.resize(rng.permutation(hard), settings.hard_negatives),
        ]
        positive = documents[rng.choice(positives)]
        examples.append(Example(query, positive, tuple(documents[k] for k in negatives)))
    if not examples:
        raise UserError("No query has a positive and a hard negative to learn from.")
    return examples


def contrastive_loss(
    positives: torch.Tensor,
    negatives: torch.Tensor,
    *,
    temperature: float = 1.0,
    positive_in_denominator: bool = False,
) -> torch.Tensor:
    """Compute equation 2 or a variant, the mean over a batch, of the cosines of queries with
    positives, shape (batch,), and with negatives, shape (batch, negatives)."""
    positive, denominator = positives / temperature, negatives / temperature
    if positive_in_denominator:
        denominator = torch.cat([positive[:, None], denominator], dim=1)
    return (denominator.logsumexp(dim=1) - positive).mean()


def train_retriever(
    encoder: SentenceEncoder, train: Split, val: Split, settings: RetrieverTraining, out: Path
) -> list[float]:
    """Fine-tune a sentence encoder in place and save it to ``out``, for ``sbert:FOLDER``.

    Unless the settings name another, the epoch with the highest mean nDCG@10 on ``val`` is kept.
    Returns that figure before training and after each epoch.

    Raises:
        UserError: the splits lack what the settings ask for. Or the model leaves prompts out of its
            pooling (INSTRUCTOR), for which ``instruction+sentence`` is not implemented.
    """
    encoder.claim()
    model = encoder.model
    style = instruction_format_of(encoder.name, settings.query, settings.instruction_format)
    settings = replace(settings, instruction_format=style)
    if settings.query == "instruction+sentence" and any(
        isinstance(module, Pooling) and not module.include_prompt for module in model
    ):
        raise UserError(
            f"{encoder.name}: leaves instructions out of its sentences' vectors and cannot be "
            "trained with the query 'instruction+sentence'. Use 'instruction+span' or 'sentence'.",
            "query",
        )
    rows = [_row(example, settings, model) for example in draw_examples(train, settings)]
    loss = _ContrastiveLoss(model, settings)
    data = TrainingSet(rows, loss, collate=lambda batch: _features(model, batch))
    of = f"{encoder.identity} {settings}"

    def validate() -> Figures:
        return {"ndcg": float(_scores(encoder, val, settings)["ndcg"].mean())}

    def finish(folder: Path, kept: Figures) -> None:
        trained_on = TrainedOn(query=settings.query, instruction_format=style)
        (folder / TRAINED).write_text(trained_on.model_dump_json(indent=2), encoding="utf-8")

    history = fine_tune(model, data, validate, settings.fit, out, of=of, finish=finish)
    return [figures["ndcg"] for figures in history]


def _scores(encoder: SentenceEncoder, split: Split, settings: RetrieverTraining) -> pd.DataFrame:
    """Return the scores of queries, encoded as the settings say."""
    cosines = dense(split, encoder, settings.query, settings.instruction_format)
    return score_queries(split, cosines)


def train_retrievers(
    name: str,
    splits: Mapping[str, Split],
    settings: RetrieverTraining,
    out: Path,
    *,
    seeds: int = 1,
    device: Device = "auto",
    trust_remote_code: bool = False,
) -> pd.DataFrame:
    """Train several models of the encoder ``name``, and score them on the split ``test``.

    The settings have the seed of the first model; the others have the next ones, and are in the
    folders ``seed-N`` of ``out``.

    Returns:
        Mean and deviation over the models, in percent, a row for ``before`` and ``after`` and each
        group of queries: ``model, group, r_precision, ndcg, r_precision_deviation,
        ndcg_deviation``.
    """
    numbers = range(settings.fit.seed, settings.fit.seed + seeds)
    folders = {seed: out / f"seed-{seed}" if seeds > 1 else out for seed in numbers}
    for folder in folders.values():
        check_folder(folder, "model")
    scores: list[tuple[str, pd.DataFrame]] = []
    for seed, folder in folders.items():
        encoder = open_trainable(
            name, device=device, own_prompts=False, trust_remote_code=trust_remote_code
        )
        if not scores:
            scores.append(("before", _scores(encoder, splits["test"], settings)))
        seeded = replace(settings, fit=replace(settings.fit, seed=seed))
        train_retriever(encoder, splits["train"], splits["val"], seeded, folder)
        log.info("Wrote %s", folder)
        scores.append(("after", _scores(encoder, splits["test"], settings)))
    tables = [summarise_queries(table).assign(model=model) for model, table in scores]
    figures = pd.concat(tables).groupby(["model", "group"], sort=False)[["r_precision", "ndcg"]]
    deviations = figures.std(ddof=0).add_suffix("_deviation")
    return pd.concat([figures.mean(), deviations], axis=1).reset_index()


def _row(
    example: Example, settings: RetrieverTraining, model: SentenceTransformer
) -> dict[str, Any]:
    """Put the prompts before the texts of an example; without a span, ``start`` is -1."""
    query = encoder_query(example.query, settings.query, settings.instruction_format)
    prompt = query_prompt(model) if query.prompt is None else query.prompt
    start, end = query.span or (0, 0)
    documents = (example.positive, *example.negatives)
    return {
        "query": prompt + query.text,
        "start": len(prompt) + start if query.span else -1,
        "end": len(prompt) + end,
        "documents": [document_prompt(model) + document.sentence for document in documents],
    }


def _features(model: SentenceTransformer, rows: Sequence[Row]) -> dict[str, torch.Tensor]:
    """Return features of the queries, with the masks of their spans, and of their documents."""
    texts = [row["query"] for row in rows]
    if rows[0]["start"] < 0:
        queries = model.preprocess(texts, task="query")
    else:
        try:
            queries, mask = prepare_spans(
                model, texts, [(row["start"], row["end"]) for row in rows]
            )
        except ValueError as error:
            raise UserError(f"A query to train on: {error}.", "query") from None
        queries["span_mask"] = mask
    texts = [text for row in rows for text in row["documents"]]
    documents = model.preprocess(texts, task="document")
    return {
        f"{column}_{name}": value
        for column, features in (("query", queries), ("documents", documents))
        for name, value in features.items()
        if isinstance(value, torch.Tensor)
    }


class _ContrastiveLoss(torch.nn.Module):
    """Equation 2 for features of queries and of their documents, the positive first."""

    def __init__(self, model: SentenceTransformer, settings: RetrieverTraining):
        super().__init__()
        self.model, self.settings = model, settings

    def forward(self, features: list[dict[str, Any]], labels: Any = None) -> torch.Tensor:
        query_features, document_features = features
        mask = query_features.pop("span_mask", None)
        if mask is None:
            queries = self.model(query_features, task="query")["sentence_embedding"]
        else:
            queries = span_states(self.model, query_features, mask)
        documents = self.model(document_features, task="document")["sentence_embedding"]
        queries, documents = (
            functional.normalize(vectors[:, : self.model.truncate_dim], dim=-1)
            for vectors in (queries, documents)
        )
        documents = documents.reshape(len(queries), -1, queries.shape[1])
        cosines = torch.einsum("bd,bnd->bn", queries, documents)
        negatives = cosines[:, 1:]
        if self.settings.in_batch:
            others = ~torch.eye(len(queries), dtype=torch.bool, device=queries.device)
            positives = (queries @ documents[:, 0].T)[others].reshape(len(queries), -1)
            negatives = torch.cat([negatives, positives], dim=1)
        return contrastive_loss(
            cosines[:, 0],
            negatives,
            temperature=self.settings.temperature,
            positive_in_denominator=self.settings.positive_in_denominator,
        )
