"""Whether what ranks depends on the order in which candidates stand in the file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from admire.base.choices import RankQuery
from admire.base.errors import UserError
from admire.base.schema import Seed, check_setting
from admire.data.items import Item, item_keys
from admire.models.encoders import TextEncoder
from admire.rankers.scorer import Scoring
from admire.rankers.settings import Settings
from admire.runs.past_runs import open_run_replies, read_run
from admire.runs.run import Ranking, rank
from admire.scores.metrics import Evenness, evenness


@dataclass(frozen=True)
class Shown:
    """On which places those candidates stood that a chat model found best, as it was shown them.

    Attributes:
        answers: how many orders it gave.
        places: how the first of these fall on the places.
    """

    ranker: str
    llm: str
    answers: int
    places: Evenness


@dataclass(frozen=True)
class OrderCheck:
    """What became of the orders when the candidates were shuffled.

    Items are told by their numbers, from 1.

    Attributes:
        by: what ranked.
        items: how many items were ranked twice.
        differ: those whose order differs.
        first: those of them whose first candidate differs.
        tied: items in which candidates have equal scores.
        tied_first: those of them in which several candidates share the highest score.
        shown: of a run, how chat models chose among the places that they were shown.
        unchecked: why nothing was ranked; None if it was.
    """

    by: str
    items: int = 0
    differ: tuple[int, ...] = ()
    first: tuple[int, ...] = ()
    tied: tuple[int, ...] = ()
    tied_first: tuple[int, ...] = ()
    shown: tuple[Shown, ...] = ()
    unchecked: str | None = None


def check_order(
    items: Sequence[Item],
    run: Path | None = None,
    *,
    encoder: TextEncoder | None = None,
    seed: int = 0,
) -> OrderCheck:
    """Rank the items as they stand and with their candidates shuffled, and compare the orders.

    Candidates are told apart by their names. Those without a picture are called by their places, as
    in a file; here that means what they are called in the shuffled one. No chat model is asked:
    without a run candidates are compared with the sentence, and in Subtask B with the compound;
    with one its settings hold, and its chat models' replies.

    Items that cannot be ranked, because they have no candidates or no sentence, or a candidate has
    neither image nor caption, are left out. What hinders the ranking is told in ``unchecked``.

    Args:
        run: a run folder of these items.
        encoder: as an object, in place of that of the settings.
        seed: of the shuffling.

    Raises:
        UserError: the folder is no run, it is damaged, or it is a run of other items; or the seed
            is negative.
    """
    check_setting("seed", seed, Seed)
    if run:
        return _check_run(items, run, encoder, seed)
    query: RankQuery = "compound" if any(item.sequence for item in items) else "sentence"
    captions = all(one.caption for item in items for one in item.candidates)
    settings = Settings(query=query, track="caption" if captions else None)
    return _check(items, settings, f"embeddings, with the {query} as the query", encoder, seed)


def _check(
    items: Sequence[Item],
    settings: Settings,
    by: str,
    encoder: TextEncoder | None,
    seed: int,
    replies: Sequence[Any] | None = None,
) -> OrderCheck:
    chosen = [k for k, item in enumerate(items) if _rankable(item)]
    if not chosen:
        return OrderCheck(by, unchecked="No item has candidates to rank.")
    standing = [_without_gold(items[k]) for k in chosen]
    rng = np.random.default_rng(seed)
    mixed = [_shuffled(item, rng) for item in standing]
    try:
        first = rank(standing, settings, llms=replies, encoder=encoder).rankings
        second = rank([item for item, _ in mixed], settings, llms=replies, encoder=encoder).rankings
    except UserError as error:
        return OrderCheck(by, unchecked=str(error))
    orders = [
        tuple(names[name] for name in ranking.order)
        for ranking, (_, names) in zip(second, mixed, strict=True)
    ]
    numbers = [k + 1 for k in chosen]
    pairs = [(k, one.order, other) for k, one, other in zip(numbers, first, orders, strict=True)]
    return OrderCheck(
        by,
        len(chosen),
        tuple(k for k, one, other in pairs if one != other),
        tuple(k for k, one, other in pairs if one[0] != other[0]),
        *_ties(numbers, first),
    )


def _rankable(item: Item) -> bool:
    things = all(one.caption or one.image for one in (*item.candidates, *item.sequence))
    return bool(item.candidates and (item.sentence.strip() or item.sequence) and things)


def _without_gold(item: Item) -> Item:
    return replace(item, expected_order=None, expected_item=None)


def _shuffled(item: Item, rng: np.random.Generator) -> tuple[Item, dict[str, str]]:
    """The item with its candidates in another order; and by their names there, those here."""
    candidates, names = [], {}
    for place, k in enumerate(rng.permutation(len(item.candidates)), start=1):
        one = item.candidates[k]
        by_place = not one.image and one.name == f"candidate{k + 1}"
        there = replace(one, name=f"candidate{place}") if by_place else one
        candidates.append(there)
        names[there.name] = one.name
    return replace(item, candidates=tuple(candidates)), names


def _ties(
    numbers: Iterable[int], rankings: Iterable[Ranking]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The items in which candidates have equal scores, and in which the highest ones are equal."""
    tied, tied_first = [], []
    for number, ranking in zip(numbers, rankings, strict=True):
        scores = np.round(ranking.scores, 9)  # as admire.rankers.scorer.rank_names has it
        if len(np.unique(scores)) < len(scores):
            tied.append(number)
        if (scores == scores.max()).sum() > 1:
            tied_first.append(number)
    return tuple(tied), tuple(tied_first)


# --------------------------------------------------------------------------------- of a run


def _check_run(
    items: Sequence[Item], folder: Path, encoder: TextEncoder | None, seed: int
) -> OrderCheck:
    run = read_run(folder)
    by = f"the settings of {folder}"
    if item_keys(items) != item_keys([ranking.item for ranking in run.rankings]):
        raise UserError(f"{folder}: is a run of other items than the data. Name those.", "run")
    numbers = range(1, len(run.rankings) + 1)
    tied, tied_first = _ties(numbers, run.rankings)
    as_ranked = OrderCheck(by, tied=tied, tied_first=tied_first, shown=_shown(run.rankings, seed))
    if "fused" in run.record:
        why = "The run is fused: audit the runs that it is made of."
        return replace(as_ranked, unchecked=why)
    settings = read_settings(run.record, folder)
    if "embeddings" not in settings.rankers:
        why = "Chat models alone ranked, which are not asked again."
        return replace(as_ranked, unchecked=why)
    asked = any(ranking.interpretations for ranking in run.rankings)
    replies = open_run_replies(folder) if asked else None
    # What was said of the sense is in the replies.
    settings = replace(settings, sense="auto", prompts=None, detector=None)
    return replace(_check(items, settings, by, encoder, seed, replies), shown=as_ranked.shown)


def read_settings(record: Mapping[str, Any], folder: Path) -> Settings:
    """The settings that a run's record tells.

    Raises:
        UserError: they are damaged, or those of another version.
    """
    try:
        told = dict(record["settings"])
        scoring = dict(told.pop("scoring"))
        if "texts" in scoring:
            scoring["texts"] = tuple(scoring["texts"])
        for name in ("rankers", "llms"):
            if name in told:
                told[name] = tuple(told[name])
        return Settings(scoring=Scoring(**scoring), **told)
    except (KeyError, TypeError, ValueError, AttributeError, UserError):
        raise UserError(
            f"{folder}: its settings are damaged, or those of another version. Run admire rank "
            "again."
        ) from None


def _shown(rankings: Sequence[Ranking], seed: int) -> tuple[Shown, ...]:
    """How the answers of each ranker and chat model fall on the places that it was shown."""
    found: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for ranking in rankings:
        for judgement in ranking.judgements:
            of_ranker = found.setdefault((judgement.ranker, judgement.llm), [])
            for answer in judgement.answers:
                if len(answer.shown) > 1 and answer.order:
                    place = answer.shown.index(answer.order[0])
                    of_ranker.append((place, len(answer.shown)))
    return tuple(
        Shown(ranker, llm, len(places), evenness(places, seed=seed))
        for (ranker, llm), places in found.items()
        if places
    )
