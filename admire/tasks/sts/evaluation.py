"""Measuring the similarity of pairs with an encoder or a chat model, and scoring the result."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pydantic import BaseModel, Field

from admire.core.errors import UserError
from admire.core.files import add_table, numbered_rows, read_table
from admire.core.schema import read_as
from admire.core.storage import write_whole
from admire.encoders import TextEncoder, open_encoder
from admire.encoders.cached import CachedEncoder, checked, log_long, text_windows
from admire.encoders.sentence import SentenceEncoder
from admire.llm import ChatModel, Conversation, Question, Reply, Session, converse, open_llm
from admire.llm.conversation import Reading, ask_until
from admire.metrics.figures import interval
from admire.metrics.metrics import Drawn, Statistic, bootstrap_intervals, sums_in_samples
from admire.prompts import Prompts
from admire.prompts.quotations import without_words
from admire.tasks.sts.mwes import reader
from admire.tasks.sts.pairs import Pair
from admire.tasks.sts.settings import SimilaritySettings, TrainingSetting

log = logging.getLogger("admire")

Similarities = Mapping[tuple[str, str], float]  #: similarities by a model, for each two sentences

SUBMISSION = ["ID", "Language", "Setting", "Sim"]  #: the columns of a submission to Task 2B

ATTEMPTS = 3  #: how often a chat model is asked at most, until its reply holds a number from 0 to 1


@dataclass(frozen=True)
class MeasuredPairs:
    """Similarities by a model, and how well they agree with the gold."""

    similarities: Similarities
    """Of each pair and each reference. Pairs without a rating are missing."""
    correlations: pd.DataFrame  #: Spearman's with 95 % intervals, see :func:`correlate`


def measure_similarity(
    pairs: Sequence[Pair],
    settings: SimilaritySettings | None = None,
    *,
    encoder: TextEncoder | None = None,
    llm: ChatModel | None = None,
    session: Session | None = None,
) -> MeasuredPairs:
    """Compare the pairs with an encoder, or have a chat model rate them.

    A sentence encoder that has tokens for expressions (see :mod:`mwes`) reads them in the
    sentences.

    Args:
        encoder, llm: open models in place of those that the settings name, as they are.
        session: asks the chat model that the settings name; None is one of its own.
    """
    settings = settings or SimilaritySettings()
    similarities: Similarities
    if llm or (settings.llm and not encoder):
        llm = llm or open_llm(settings.llm, session, settings.llm_url)
        similarities = rate(pairs, llm, Prompts(settings.prompts), seed=settings.seed)
        missing = sum(not set(_comparisons([pair])) <= similarities.keys() for pair in pairs)
        if missing:
            log.warning("%d of %d pairs were given no rating and are left out", missing, len(pairs))
    else:
        used = checked(encoder, settings.long_texts) if encoder else _open(settings)
        read: Callable[[str], str] = str
        if isinstance(used.encoder, SentenceEncoder):
            read = reader(used.encoder.model, {pair.mwe for pair in pairs if pair.mwe})
        similarities = compare(pairs, used, read)
        counted = used.count_long(read(text) for pair in similarities for text in pair)
        log_long([counted], "sentences")
    return MeasuredPairs(similarities, correlate(pairs, similarities, seed=settings.seed))


def _open(settings: SimilaritySettings) -> CachedEncoder:
    """Open the encoder and change how it makes vectors; its identity includes the changes."""
    opened = open_encoder(
        settings.encoder, device=settings.device, trust_remote_code=settings.trust_remote_code
    )
    encoder = checked(opened, settings.long_texts)
    if changes := settings.changes:
        if not isinstance(encoder.encoder, SentenceEncoder):
            raise UserError(
                f"The encoder '{settings.encoder}' cannot be changed. Name one of sbert:….",
                *changes,
            )
        from admire.tasks.sts.vectors import change_vectors

        encoder.encoder.claim()
        change_vectors(encoder.encoder.model, settings)
        encoder.identity += f":{changes}"
    return encoder


def _comparisons(pairs: Sequence[Pair]) -> list[tuple[str, str]]:
    """List the sentences to compare: those of each pair, and of its reference if it has one."""
    own = ((pair.first, pair.second) for pair in pairs)
    return [*dict.fromkeys([*own, *(pair.reference for pair in pairs if pair.reference)])]


def compare(
    pairs: Sequence[Pair], encoder: TextEncoder, as_read: Callable[[str], str] = str
) -> dict[tuple[str, str], float]:
    """Compute the cosines of the pairs and of their references, in [-1, 1].

    Each window of a sentence that is longer than the encoder reads counts by the other's best one;
    the cosine is the mean of both sides' means. Sentences are encoded ``as_read``.
    """
    comparisons = _comparisons(pairs)
    sentences = list(dict.fromkeys(sentence for pair in comparisons for sentence in pair))
    windows = text_windows(encoder, [as_read(s) for s in sentences], role="query").each
    by_sentence = dict(zip(sentences, windows, strict=True))
    similarities = {}
    for first, second in comparisons:
        cosines = by_sentence[first].astype(float) @ by_sentence[second].astype(float).T
        both = cosines.max(axis=1).mean(), cosines.max(axis=0).mean()
        similarities[first, second] = float(np.mean(both))
    return similarities


def rate(
    pairs: Sequence[Pair], llm: ChatModel, prompts: Prompts, *, seed: int = 0
) -> dict[tuple[str, str], float]:
    """Ask a chat model for ratings in [0, 1] (the DeepSeek row of ChengyuSTS, section 4).

    If a reply contains no such number, the model is asked again at temperature 1. After
    :data:`ATTEMPTS` the pair is left out.
    """
    comparisons = _comparisons(pairs)
    ratings = converse([_rating(pair, prompts, seed) for pair in comparisons], llm)
    rated = zip(comparisons, ratings, strict=True)
    return {pair: rating for pair, rating in rated if rating is not None}


def _rating(pair: tuple[str, str], prompts: Prompts, seed: int) -> Conversation[float | None]:
    first = Question(
        prompts.render("similarity", "en", first=pair[0], second=pair[1]),
        max_tokens=20,
        seed=seed,
        purpose="similarities",
        about=pair[0],
        task="Rating similarities",
    )

    def read(_: Question, reply: Reply) -> Reading[float | None]:
        rating = read_rating(without_words(reply.text, pair))
        return Reading(rating, rating is not None, rating is not None)

    def again(_: Question, __: Reply, count: int) -> Question | None:
        return replace(first, temperature=1.0, seed=seed + count) if count < ATTEMPTS else None

    (rating,) = yield from ask_until([first], read, again)
    return rating


def read_rating(reply: str) -> float | None:
    """Read the number in a reply; None unless there is just one, from 0 to 1."""
    numbers = re.findall(r"[-−]?\d*[.,]?\d+(?:\s*%)?", reply)
    if len(numbers) != 1 or numbers[0].endswith("%"):
        return None
    rating = float(numbers[0].replace(",", ".").replace("−", "-"))
    return rating if 0 <= rating <= 1 else None


def correlate(
    pairs: Sequence[Pair], similarities: Similarities, *, seed: int | None = None
) -> pd.DataFrame:
    """Compute Spearman's correlation as the organisers of SemEval-2022 Task 2 do.

    The gold of a pair with a reference is the similarity that the model predicts for the reference.
    Pairs without a gold or without a rating are left out.

    Returns:
        ``language, subset, n, spearman``, a row for each language and each subset of pairs (all,
        idiom, sts); if there are several languages, also for ``all`` of them together. Equal
        predictions or golds correlate by NaN. With a ``seed`` of a bootstrap over the pairs also
        ``spearman_low`` and ``spearman_high``, NaN for fewer than 3 pairs.
    """
    table = pd.DataFrame(
        [
            (pair.language, pair.mwe is not None, similarities[pair.first, pair.second], gold)
            for pair in pairs
            if (pair.first, pair.second) in similarities
            for gold in [similarities.get(pair.reference) if pair.reference else pair.similarity]
            if gold is not None
        ],
        columns=["language", "idiom", "predicted", "gold"],
    )
    parts: list[tuple[Any, Any]] = list(table.groupby("language"))
    if len(parts) > 1:
        parts.append(("all", table))
    rows = []
    for language, part in parts:
        idioms = part["idiom"]
        for subset, group in (("all", part), ("idiom", part[idioms]), ("sts", part[~idioms])):
            if len(group):
                correlation, ends = spearman(group["predicted"], group["gold"]), (math.nan,) * 2
                if seed is not None and not math.isnan(correlation):
                    sides = (group[side].tolist() for side in ("predicted", "gold"))
                    resampled = [resampled_spearman(*sides)]
                    (ends,) = bootstrap_intervals(resampled, len(group), seed=seed)
                    ends = interval(correlation, len(group), ends, share=False)
                rows.append((language, subset, len(group), correlation, *ends))
    columns = ["language", "subset", "n", "spearman", "spearman_low", "spearman_high"]
    return pd.DataFrame(rows, columns=columns)[columns[: 4 if seed is None else 6]]


def list_hard_pairs(pairs: Sequence[Pair], submissions: Sequence[Path]) -> pd.DataFrame:
    """Return the pairs of similarity 1 that all models rate below 0.6 (ChengyuSTS, table 7), with
    the similarities in each model's submission, a file of :func:`write_similarities`."""
    models: dict[str, list[float]] = {}
    for path in submissions:  # only IDs are compared, because a submission has no sentences
        rated = [
            read_as(_Rated, row, f"{path}, row {number}")
            for number, row in numbered_rows(read_table(path, SUBMISSION))
        ]
        if [row.name for row in rated] != [pair.name for pair in pairs]:
            cure = "Give what admire sts --out wrote for the same data."
            raise UserError(f"{path}: is about other pairs. {cure}", "hard")
        models[str(path)] = [row.similarity for row in rated]
    rows = [
        (pair.name, pair.mwe, pair.first, pair.second, *own)
        for pair, *own in zip(pairs, *models.values(), strict=True)
        if pair.similarity == 1 and max(own) < 0.6
    ]
    return pd.DataFrame(rows, columns=["id", "idiom", "first", "second", *models])


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """Compute Spearman's correlation with mean ranks for ties; NaN if one side is constant."""
    if len(set(a)) < 2 or len(set(b)) < 2:
        return math.nan
    return float(np.corrcoef(pd.Series(a).rank(), pd.Series(b).rank())[0, 1])


def resampled_spearman(a: Sequence[float], b: Sequence[float]) -> Statistic:
    """Return :func:`spearman` as a statistic of samples, which have many ties."""
    sides = [np.unique(side, return_inverse=True)[1] for side in (a, b)]

    def ranks(side: npt.NDArray[np.int64], drawn: Drawn) -> npt.NDArray[np.float64]:
        """Return the ranks in each sample, (samples, pairs), which sum to 0."""
        values = side[drawn]
        counts = sums_in_samples(values, side.max() + 1)
        means = counts.cumsum(axis=1) - (counts + drawn.shape[1]) / 2
        return np.take_along_axis(means, values, axis=1)

    def correlations(drawn: Drawn) -> npt.NDArray[np.float64]:
        x, y = (ranks(side, drawn) for side in sides)
        spread = (x * x).sum(axis=1) * (y * y).sum(axis=1)
        constant = spread == 0
        rho: npt.NDArray[np.float64] = (x * y).sum(axis=1) / np.sqrt(np.where(constant, 1, spread))
        return np.where(constant, np.nan, rho)

    return correlations


def write_similarities(
    path: Path, pairs: Sequence[Pair], similarities: Similarities, setting: TrainingSetting
) -> None:
    """Write a submission to Task 2B, see :data:`SUBMISSION`; a pair without a rating is a
    UserError."""
    missing = [pair.name for pair in pairs if (pair.first, pair.second) not in similarities]
    if missing:
        raise UserError(
            f"{path}: is not written, because {len(missing)} pairs have no rating, "
            f"such as {missing[0]}."
        )
    rows = [
        (pair.name, pair.language.upper(), setting, f"{similarities[pair.first, pair.second]:.6f}")
        for pair in pairs
    ]
    with write_whole(path) as file:
        add_table(file, pd.DataFrame(rows, columns=SUBMISSION))


class _Rated(BaseModel):
    """A row of a submission."""

    name: str = Field(alias="ID")
    similarity: Annotated[float, Field(ge=-1, le=1)] = Field(alias="Sim")
