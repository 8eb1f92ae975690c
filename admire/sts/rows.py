"""From groups to what a sentence encoder is trained and validated on: rows of texts, and pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from admire.errors import UserError
from admire.sts.pairs import Group, Pair, without

if TYPE_CHECKING:
    from admire.trainer import Row

Thing = TypeVar("Thing")

ONE_SHOT = 1
"""Groups of an expression held out that stay for training, as in the task's one-shot data."""


# -------------------------------------------------------------------------------------- training


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


def dealt(groups: Sequence[Group], rng: np.random.Generator) -> list[Group]:
    """The groups at random, but of each thousand the shorter ones first.

    Their sentences have to stay together, so batches are made of neighbours; these are then of like
    length, which halves the time of an epoch.
    """
    return _sorted_by_thousands(groups, [len(group.sentence) for group in groups], rng)


def mixed(first: Sequence[Row], second: Sequence[Row], rng: np.random.Generator) -> list[Row]:
    """Rows of both kinds at random, but in each thousand the shorter ones of each kind first.

    A batch of neighbours has both kinds then, however much longer those of one are.
    """
    found: list[Row] = []
    places: list[float] = []
    for rows in (first, second):
        found += sorted(rows, key=lambda row: len(row["first"]))
        places += [place / len(rows) for place in range(len(rows))]
    return _sorted_by_thousands(found, places, rng)


def _sorted_by_thousands(
    things: Sequence[Thing], sizes: Sequence[float], rng: np.random.Generator
) -> list[Thing]:
    parts = np.array_split(rng.permutation(len(things)), math.ceil(len(things) / 1000) or 1)
    return [things[k] for part in parts for k in sorted(part, key=lambda k: sizes[k])]


# ------------------------------------------------------------------------------------ validation


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
