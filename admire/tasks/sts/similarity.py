"""Measuring the similarity of pairs with an encoder or a chat model, and scoring the result."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from admire.models.encoders import TextEncoder, open_encoder
from admire.models.encoders.cached import CachedEncoder
from admire.models.encoders.sentence import SentenceEncoder
from admire.models.llm import ChatModel, open_llm
from admire.prompts import Prompts
from admire.tasks.sts.evaluation import Similarities, compare, correlate, rate
from admire.tasks.sts.mwes import reader
from admire.tasks.sts.pairs import Pair
from admire.tasks.sts.settings import SimilaritySettings

log = logging.getLogger("admire")


@dataclass(frozen=True)
class MeasuredPairs:
    """Similarities by a model, and how well they agree with the gold.

    Attributes:
        similarities: of each pair and each reference. Pairs without a rating are missing.
        correlations: Spearman's, see :func:`admire.tasks.sts.evaluation.correlate`.
    """

    similarities: Similarities
    correlations: pd.DataFrame


def measure_similarity(
    pairs: Sequence[Pair],
    settings: SimilaritySettings | None = None,
    *,
    encoder: TextEncoder | None = None,
    llm: ChatModel | None = None,
) -> MeasuredPairs:
    """Compare the pairs with an encoder, or have a chat model rate them.

    A sentence encoder that has tokens for expressions (see :mod:`mwes`) reads them in
    the sentences.

    Args:
        settings: the defaults where they are None.
        encoder, llm: open models in place of those that the settings name.

    Raises:
        UserError: a model cannot be opened or asked.
    """
    settings = settings or SimilaritySettings()
    similarities: Similarities
    if llm or (settings.llm and not encoder):
        llm = llm or open_llm(settings.llm or "", url=settings.llm_url)
        similarities = rate(pairs, llm, Prompts(settings.prompts), seed=settings.seed)
        missing = sum(
            (pair.first, pair.second) not in similarities
            or (pair.reference is not None and pair.reference not in similarities)
            for pair in pairs
        )
        if missing:
            log.warning("%d of %d pairs were given no rating and are left out", missing, len(pairs))
    else:
        encoder = encoder or open_encoder(settings.encoder, device=settings.device)
        inner = encoder.encoder if isinstance(encoder, CachedEncoder) else encoder
        if isinstance(inner, SentenceEncoder):
            read = reader(inner.model, {pair.mwe for pair in pairs if pair.mwe})
            similarities = compare(pairs, encoder, read)
        else:
            similarities = compare(pairs, encoder)
    return MeasuredPairs(similarities, correlate(pairs, similarities))
