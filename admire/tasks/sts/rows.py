"""What a sentence encoder is trained and validated on: rows of texts, and pairs held out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from admire.core.errors import UserError
from admire.core.files import read_text
from admire.tasks.sts.pairs import Group, Pair, read_groups, read_pairs, without
from admire.tasks.sts.settings import FROM_PAIRS, Objective

if TYPE_CHECKING:
    from admire.encoders.trainer import Row
    from admire.tasks.sts.evaluation import Similarities

Entry = TypeVar("Entry")


@dataclass(frozen=True)
class TrainingData:
    """What a sentence encoder learns from, and the pairs to choose the epoch by."""

    groups: Sequence[Group]
    """Sentences with paraphrases; empty for objectives that learn from pairs."""
    pairs: Sequence[Pair]  #: with similarities. Objectives that learn from groups mix them in
    validation: Sequence[Pair]
    mwes: Sequence[str] = ()  #: expressions to make tokens of besides those of groups and pairs


def read_training_data(
    data: Sequence[Path],
    objective: Objective,
    *,
    sts: Sequence[Path] = (),
    leave_out: Sequence[Path] = (),
    mwes: Sequence[Path] = (),
    validation: Path | None = None,
    validation_gold: Path | None = None,
    seed: int = 0,
) -> TrainingData:
    """Read what an objective learns from; without a validation file, hold some of it out.

    Data are files of groups, or of pairs for an objective that learns from pairs. Of STS Benchmark
    and of folders the split ``train`` is read, and ``dev`` to validate on. The other files are as
    in :class:`SentenceFiles`.
    """
    merged = objective != "simcse"  # which learns from rows (ChengyuSTS, section 4.2)
    of_groups, of_pairs = ((), (*data, *sts)) if objective in FROM_PAIRS else (data, sts)
    groups = [group for path in of_groups for group in read_groups(path, merged=merged)]
    pairs = [pair for path in of_pairs for pair in read_pairs(path, split="train")]
    for path in leave_out:
        pairs = without(pairs, read_pairs(path))
    if validation:
        held = read_pairs(validation, validation_gold, split="dev")
    else:
        groups, held = hold_out_groups(groups, seed=seed)
        pairs, held_pairs = hold_out_pairs(pairs, seed=seed)
        held += held_pairs
    if not any(pair.gold for pair in held):
        raise UserError("No validation data.", "validation", "validation_gold")
    expressions: list[str | None] = []
    for path in mwes:
        if path.suffix.lower() == ".txt":
            expressions += map(str.strip, read_text(path).splitlines())
        else:
            expressions += [pair.mwe for pair in read_pairs(path)]
    return TrainingData(groups, pairs, held, list(filter(None, expressions)))


def labelled(groups: Sequence[Group]) -> list[Row]:
    """Label sentences; those with the same label mean the same (He et al., table 1).

    Each incorrect paraphrase has a label of its own. Different groups have different labels; a
    group that is repeated keeps its labels. The sentences of a group stay together.
    """
    rows: list[Row] = []
    first: dict[Group, int] = {}
    free = 0
    for group in groups:
        label = first.setdefault(group, free)
        labels = [label] * (1 + len(group.correct))
        labels += range(label + 1, label + 1 + len(group.incorrect))
        pairs = zip(group.sentences, labels, strict=True)
        rows += [{"sentence": sentence, "label": number} for sentence, number in pairs]
        free = max(free, 1 + labels[-1])
    return rows


def repeated(groups: Sequence[Group], times: int) -> list[Group]:
    """Repeat the groups of each expression that has fewer than ``times`` of them, so that those
    that the task tests, which are seen only once, are learned as well."""
    expressions = [(group.language, (group.mwe or "").casefold()) for group in groups]
    counts = Counter(expressions)
    return [
        group
        for turn in range(times)
        for group, expression in zip(groups, expressions, strict=True)
        if turn == 0 or (group.mwe and turn < times // counts[expression])
    ]


def triples(groups: Sequence[Group]) -> list[Row]:
    """Combine each sentence with each of its correct and each of its incorrect paraphrases."""
    rows: list[Row] = [
        {"anchor": group.sentence, "positive": correct, "negative": incorrect}
        for group in groups
        for correct in group.correct
        for incorrect in group.incorrect
    ]
    if not rows:
        raise UserError("No group has both a correct and an incorrect paraphrase.", "objective")
    return rows


def self_labelled(
    groups: Sequence[Group], similarities: Callable[[Sequence[Pair]], Similarities]
) -> list[Row]:
    """Pair sentences with their paraphrases, and label what has no gold by a model's similarities.

    This is the baseline of Task 2B's fine-tune setting (YNU-HPCC, section 2.2): sim(S, c) is 1, and
    sim(S, i) is what the untrained model says of sim(c, i).
    """
    pairs = as_pairs(groups)
    compared = similarities(pairs)
    labels = [compared[p.reference] if p.reference else p.similarity for p in pairs]
    return [
        {"first": pair.first, "second": pair.second, "label": label}
        for pair, label in zip(pairs, labels, strict=True)
    ]


def filled_triples(groups: Sequence[Group], rng: np.random.Generator) -> list[Row]:
    """Make triples for supervised SimCSE (ChengyuSTS, section 4.2), of groups of a row each.

    A missing positive is replaced by the sentence itself, whose vector differs through dropout. A
    missing negative is replaced by the sentence of another group, drawn at random.
    """
    sentences = [*dict.fromkeys(group.sentence for group in groups)]
    places = {sentence: k for k, sentence in enumerate(sentences)}
    rows: list[Row] = []
    for group in groups:
        negatives = group.incorrect
        if not negatives and len(sentences) < 2:
            raise UserError("There is no other sentence to take as a negative.", "objective")
        if not negatives:
            other = places[group.sentence] + 1 + int(rng.integers(len(sentences) - 1))
            negatives = (sentences[other % len(sentences)],)
        rows += [
            {"anchor": group.sentence, "positive": positive, "negative": negative}
            for positive in group.correct or (group.sentence,)
            for negative in negatives
        ]
    return rows


def dealt(groups: Sequence[Group], rng: np.random.Generator) -> list[Group]:
    """Shuffle groups, but with each thousand sorted by length.

    Batches are made of neighbouring rows, which thus need little padding: half the time an epoch.
    """
    return _sorted_by_thousands(groups, [len(group.sentence) for group in groups], rng)


def mixed(first: Sequence[Row], second: Sequence[Row], rng: np.random.Generator) -> list[Row]:
    """Shuffle rows of two kinds together, but with each thousand sorted by length within its kind.

    A batch of neighbouring rows then has both kinds, even if one kind is much longer.
    """
    both: list[Row] = []
    places: list[float] = []
    for rows in (first, second):
        both += sorted(rows, key=lambda row: len(row["first"]))
        places += [place / len(rows) for place in range(len(rows))]
    return _sorted_by_thousands(both, places, rng)


def _sorted_by_thousands(
    entries: Sequence[Entry], sizes: Sequence[float], rng: np.random.Generator
) -> list[Entry]:
    parts = np.array_split(rng.permutation(len(entries)), math.ceil(len(entries) / 1000) or 1)
    return [entries[k] for part in parts for k in sorted(part, key=lambda k: sizes[k])]


def hold_out_groups(
    groups: Sequence[Group], share: float = 0.1, seed: int = 0
) -> tuple[list[Group], list[Pair]]:
    """Split into groups to train on, and pairs of the other groups to validate on.

    A share of the expressions is held out, except for one group of each if it has several, as in
    the task's fine-tune setting. Groups without an expression are held out one by one. Groups that
    share a sentence with a held-out group are dropped.
    """
    rng = np.random.default_rng(seed)
    by_mwe: dict[str, list[Group]] = {}
    for place, group in enumerate(groups):
        by_mwe.setdefault(group.mwe.casefold() if group.mwe else f"\n{place}", []).append(group)
    names = sorted(by_mwe)
    held = {names[k] for k in rng.permutation(len(names))[: round(share * len(names))]}
    kept, tested = list[Group](), list[Group]()
    for name, same_mwe in by_mwe.items():
        order = [same_mwe[k] for k in rng.permutation(len(same_mwe))]
        count = min(1, len(order) // 2) if name in held else len(order)
        kept += order[:count]
        tested += order[count:]
    unseen = {sentence for group in tested for sentence in group.sentences}
    return [g for g in kept if unseen.isdisjoint(g.sentences)], as_pairs(tested)


def as_pairs(groups: Sequence[Group]) -> list[Pair]:
    """Make the pairs of Task 2B from its groups.

    A sentence and a correct paraphrase have the similarity 1. A sentence and an incorrect one
    should be as similar as the correct and the incorrect paraphrase, or 0 without a correct one.
    """
    pairs: list[Pair] = []
    for number, group in enumerate(groups):
        similarity = None if group.correct else 0.0
        pair = Pair(f"{number}", group.language, group.sentence, "", similarity, mwe=group.mwe)
        pairs += [replace(pair, second=correct, similarity=1.0) for correct in group.correct]
        for incorrect in group.incorrect:
            reference = (group.correct[0], incorrect) if group.correct else None
            pairs.append(replace(pair, second=incorrect, reference=reference))
    return pairs


def hold_out_pairs(
    pairs: Sequence[Pair], share: float = 0.1, seed: int = 0
) -> tuple[list[Pair], list[Pair]]:
    """Split pairs for training and validation, which share no sentence."""
    order = np.random.default_rng(seed).permutation(len(pairs))
    held = [pairs[k] for k in order[: round(share * len(pairs))]]
    return without(pairs, held), held
