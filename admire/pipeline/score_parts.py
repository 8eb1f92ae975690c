"""The parts of a candidate's score: read from the columns of scores.csv, and in words."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import numpy as np

from admire.core.choices import TRACKS
from admire.pipeline.ranking import PART, Ranking
from admire.rankers.judgement import Part
from admire.rankers.scorer import Scores
from admire.senses.meaning import IDIOMATIC

SAME = 1e-9
"""Smaller differences are due to rounding, as in :func:`admire.rankers.scorer.rank_names`."""


def score_parts(ranking: Ranking) -> list[Part]:
    """Return the parts of the candidates' scores: texts by track, rankers, or fused runs.

    The values sum to the scores; parts that are all 0 are omitted.
    """
    names = ranking.item.names
    runs = {f"run{k}": fused.run for k, fused in enumerate(ranking.fused, start=1)}
    sums: dict[tuple[str, str | None], Scores] = {}
    for row in ranking.parts:
        for column in row:
            if column.startswith(PART):
                values = sums.setdefault((column, row.get("encoder")), np.zeros(len(names)))
                values[names.index(row["candidate"])] += row[column]
    parts = []
    for (column, encoder), values in sums.items():
        name = column.removeprefix(PART)
        of, _, text = name.partition("_")
        origin: tuple[str, str | None] = ("run", runs[name]) if name in runs else (name, None)
        if of in TRACKS:
            origin = of, re.sub("^unlike_", "unlike ", text)
        parts += [Part(*origin, values, encoder)] if values.any() else []
    return parts


def summarise_parts(ranking: Ranking) -> dict[str, Scores]:
    """Return the parts by name, summed over texts of one sense and over tracks.

    A name is ``meaning``, ``compound``, ``unlike the literal sense``, …, or a ranker.
    """
    groups: dict[str, Scores] = {}
    for part in score_parts(ranking):
        name = part.text or part.of
        if part.of in TRACKS and part.text:
            role = part.text.removeprefix("unlike ")
            name = "meaning" if role in IDIOMATIC else role
            if role != part.text:
                name = f"unlike the {'literal sense' if role.startswith('literal') else name}"
        groups[name] = groups.get(name, np.zeros_like(part.values)) + part.values
    return {name: values for name, values in groups.items() if np.abs(values).max() > SAME}


def explain_first(ranking: Ranking) -> str:
    """Return in one sentence which part of the scores puts the first candidate above the second."""
    names = ranking.item.names
    first, second = (names.index(name) for name in ranking.order[:2])
    if ranking.scores[first] - ranking.scores[second] <= SAME:
        return (
            f"“{names[first]}” and “{names[second]}” have the same score; their order is that of "
            "their names."
        )
    groups = summarise_parts(ranking)
    if not groups:
        return "What the scores are made of was not recorded."
    name, values = max(groups.items(), key=lambda group: group[1][first] - group[1][second])
    is_most = values[first] >= values.max() - SAME
    before = f"“{names[second]}”"
    if name not in _WORDS:  # a ranker or a run
        reason = f"{name} puts it {'highest' if is_most else f'before {before}'}"
        return f"“{names[first]}” is first because {reason}."
    noun, unlike = _WORDS[name]
    degree = ("least" if unlike else "most") if is_most else ("less" if unlike else "more")
    texts = [ranking.item.phrase] if noun == "words" else []
    for reading in ranking.interpretations if noun in ("meaning", "literal sense") else ():
        texts += (reading.idiomatic if noun == "meaning" else reading.literal).definitions
    text = textwrap.shorten(next(iter(texts), ""), 80, placeholder="…")
    like = f"{noun} “{text}”" if text else noun
    reason = f"it is {degree} like the {like}{'' if is_most else f' than {before}'}"
    return f"“{names[first]}” is first because {reason}."


_WORDS = {
    "meaning": ("meaning", False),
    "compound": ("words", False),
    "sentence": ("sentence", False),
    "sequence": ("sequence", False),
    "unlike the compound": ("words", True),
    "unlike the literal sense": ("literal sense", True),
}
"""By name of a part: what a candidate resembles, and whether this lowers its score."""


def by_encoder(part: Part) -> dict[str, str]:
    """Return the encoder of a part as JSON has it, if there are several."""
    return {"encoder": part.encoder} if part.encoder else {}


def parts_by_candidate(ranking: Ranking) -> dict[str, list[dict[str, Any]]]:
    """Return the parts of each candidate's score, as JSON has them."""
    parts = score_parts(ranking)
    return {
        candidate.name: [
            {"of": part.of, "text": part.text, "value": float(part.values[k]), **by_encoder(part)}
            for part in parts
        ]
        for k, candidate in enumerate(ranking.candidates)
    }
