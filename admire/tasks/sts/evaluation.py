"""Similarities of pairs by an encoder or a chat model, and their correlation with the gold."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from admire.base.errors import UserError
from admire.base.schema import check_setting
from admire.base.storage import write_whole
from admire.models.encoders import TextEncoder
from admire.models.llm import ChatModel, Question, ask_each
from admire.prompts import Prompts
from admire.prompts.quotations import without_words
from admire.tasks.sts.objectives import TrainingSetting
from admire.tasks.sts.pairs import Pair

Similarities = Mapping[tuple[str, str], float]
"""Similarities by a model, for each two sentences."""

ATTEMPTS = 3
"""How often a chat model is asked at most, until its reply holds a number from 0 to 1."""


def _comparisons(pairs: Sequence[Pair]) -> list[tuple[str, str]]:
    """List the sentences to compare: those of each pair, and of its reference if it has one."""
    comparisons = [(pair.first, pair.second) for pair in pairs]
    comparisons += [pair.reference for pair in pairs if pair.reference]
    return list(dict.fromkeys(comparisons))


def compare(
    pairs: Sequence[Pair], encoder: TextEncoder, as_read: Callable[[str], str] = str
) -> dict[tuple[str, str], float]:
    """Compute the cosines of the pairs and of their references, in [-1, 1].

    Args:
        as_read: changes a sentence before it is encoded, as :func:`reader` does.
    """
    comparisons = _comparisons(pairs)
    sentences = list(dict.fromkeys(sentence for pair in comparisons for sentence in pair))
    vectors = encoder.encode_texts([as_read(s) for s in sentences], role="query")
    place = {sentence: k for k, sentence in enumerate(sentences)}
    first, second = (vectors[[place[pair[side]] for pair in comparisons]] for side in (0, 1))
    cosines = np.einsum("nd,nd->n", first, second, dtype=np.float64)
    return dict(zip(comparisons, cosines.tolist(), strict=True))


def rate(
    pairs: Sequence[Pair], llm: ChatModel, prompts: Prompts, *, seed: int = 0
) -> dict[tuple[str, str], float]:
    """Ask a chat model for ratings in [0, 1] (the DeepSeek row of ChengyuSTS, section 4).

    If a reply holds no such number, the model is asked again at temperature 1. After three tries
    the pair is left out.

    Raises:
        UserError: the model cannot be asked.
    """

    def ask(pair: tuple[str, str]) -> float | None:
        prompt = prompts.render("similarity", "en", first=pair[0], second=pair[1])
        for attempt in range(ATTEMPTS):
            question = Question(
                prompt, temperature=float(attempt > 0), max_tokens=20, seed=seed + attempt
            )
            rating = read_rating(without_words(llm.ask(question).text, pair))
            if rating is not None:
                return rating
        return None

    comparisons = _comparisons(pairs)
    ratings = ask_each(ask, comparisons, llm, "Rating similarities", name_of=lambda pair: pair[0])
    rated = zip(comparisons, ratings, strict=True)
    return {pair: rating for pair, rating in rated if rating is not None}


def read_rating(reply: str) -> float | None:
    """Read the number in a reply; None unless there is just one, from 0 to 1."""
    numbers = re.findall(r"[-−]?\d*[.,]?\d+(?:\s*%)?", reply)
    if len(numbers) != 1 or numbers[0].endswith("%"):
        return None
    rating = float(numbers[0].replace(",", ".").replace("−", "-"))
    return rating if 0 <= rating <= 1 else None


def correlate(pairs: Sequence[Pair], similarities: Similarities) -> pd.DataFrame:
    """Compute Spearman's correlation as the organisers of SemEval-2022 Task 2 do.

    The gold of a pair with a reference is the similarity that the model predicts for the reference.
    Pairs without a gold or without a rating are left out.

    Returns:
        ``language, subset, n, spearman``, a row for each language and each subset of pairs (all,
        idiom, sts); if there are several languages, also for all of them together (``"all"``). The
        correlation is NaN if all predictions or all golds are equal.
    """
    table = pd.DataFrame(
        [
            (pair.language, pair.mwe is not None, similarities[pair.first, pair.second], gold)
            for pair in pairs
            if (pair.first, pair.second) in similarities
            and (gold := _gold(pair, similarities)) is not None
        ],
        columns=["language", "idiom", "predicted", "gold"],
    )
    languages = sorted(set(table["language"]))
    parts = [(name, table[table["language"] == name]) for name in languages]
    if len(languages) > 1:
        parts.append(("all", table))
    rows = []
    for language, part in parts:
        idioms = part["idiom"]
        for subset, group in (("all", part), ("idiom", part[idioms]), ("sts", part[~idioms])):
            if len(group):
                correlation = spearman(group["predicted"], group["gold"])
                rows.append((language, subset, len(group), correlation))
    return pd.DataFrame(rows, columns=["language", "subset", "n", "spearman"])


def _gold(pair: Pair, similarities: Similarities) -> float | None:
    if pair.similarity is not None:
        return pair.similarity
    return similarities.get(pair.reference) if pair.reference else None


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """Compute Spearman's correlation with mean ranks for ties; NaN if one side is constant."""
    if len(set(a)) < 2 or len(set(b)) < 2:
        return math.nan
    return float(np.corrcoef(pd.Series(a).rank(), pd.Series(b).rank())[0, 1])


def write_similarities(
    path: Path, pairs: Sequence[Pair], similarities: Similarities, setting: TrainingSetting
) -> None:
    """Write a submission to Task 2B: ``ID, Language, Setting, Sim``.

    Args:
        setting: whether the model was trained on the task's data.

    Raises:
        UserError: a pair was not rated, or the file cannot be written.
    """
    check_setting("setting", setting, TrainingSetting)
    missing = [pair.name for pair in pairs if (pair.first, pair.second) not in similarities]
    if missing:
        raise UserError(
            f"{path}: is not written, because {len(missing)} pairs have no rating, "
            f"such as {missing[0]}."
        )
    with write_whole(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("ID", "Language", "Setting", "Sim"))
        for pair in pairs:
            similarity = similarities[pair.first, pair.second]
            writer.writerow((pair.name, pair.language.upper(), setting, f"{similarity:.6f}"))
