"""Whether rankings depend on the order of the candidates in the file."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from admire.base.choices import RankQuery
from admire.base.errors import UserError
from admire.base.schema import Seed, check_setting, read_as
from admire.data.items import Item, item_keys
from admire.rankers.settings import Settings
from admire.runs.past_runs import open_run_replies, read_run
from admire.runs.ranking import Ranking
from admire.runs.run import rank
from admire.runs.run_folder import RECORD
from admire.scores.metrics import evenness


@dataclass(frozen=True)
class OrderCheck:
    """Which orders changed when the candidates were shuffled. Items are numbered from 1.

    Attributes:
        by: what ranked.
        items: how many items were ranked twice.
        differ: those whose order differs.
        first: those of them whose first candidate differs.
        tied: items in which candidates have equal scores.
        tied_first: those of them in which several candidates share the highest score.
        shown: for each ``ranker`` and ``llm`` of a run, how many ``answers`` put candidates in an
            order, and on which ``places`` the best ones stood, as they were shown.
        unchecked: why nothing was ranked; None if it was.
    """

    by: str
    items: int = 0
    differ: tuple[int, ...] = ()
    first: tuple[int, ...] = ()
    tied: tuple[int, ...] = ()
    tied_first: tuple[int, ...] = ()
    shown: tuple[dict[str, Any], ...] = ()
    unchecked: str | None = None


def check_order(items: Sequence[Item], run: Path | None = None, *, seed: int = 0) -> OrderCheck:
    """Rank the items as they stand and with their candidates shuffled, and compare the orders.

    Candidates are identified by their names. One without a picture is named after its place, so it
    gets another name when shuffled. No chat model is asked: without a run the query is the
    sentence, in Subtask B the compound; with a run its settings and its chat models' replies are
    used.

    Items that cannot be ranked, because they have no candidates or no sentence, or a candidate has
    neither image nor caption, are left out. An error while ranking is noted in ``unchecked``.
    """
    check_setting("seed", seed, Seed)
    if run:
        return _check_run(items, run, seed)
    query: RankQuery = "compound" if any(item.sequence for item in items) else "sentence"
    captions = all(candidate.caption for item in items for candidate in item.candidates)
    settings = Settings(query=query, track="caption" if captions else None)
    check = OrderCheck(f"embeddings, with the {query} as the query")
    return _rank_twice(check, items, settings, seed)


def _check_run(items: Sequence[Item], folder: Path, seed: int) -> OrderCheck:
    run = read_run(folder)
    if item_keys(items) != item_keys([ranking.item for ranking in run.rankings]):
        raise UserError(f"{folder}: is a run of other items than the data. Name those.", "run")
    check = OrderCheck(
        f"the settings of {folder}",
        **_ties(range(1, len(items) + 1), run.rankings),
        shown=tuple(_shown(run.rankings, seed)),
    )
    if "fused" in run.record:
        return replace(check, unchecked="The run is fused: audit the runs that it is made of.")
    settings = read_as(Settings, json.dumps(run.record["settings"]), folder / RECORD)
    if "embeddings" not in settings.rankers:
        return replace(check, unchecked="Chat models alone ranked, which are not asked again.")
    interpreted = any(ranking.interpretations for ranking in run.rankings)
    if not interpreted and (settings.query == "meaning" or settings.looks):
        return replace(check, unchecked="The run lacks the replies of its chat models.")
    replies = open_run_replies(folder) if interpreted else None
    # The replies hold the senses, too.
    settings = replace(settings, sense="auto", prompts=None, detector=None)
    return _rank_twice(check, items, settings, seed, replies)


def _rank_twice(
    check: OrderCheck,
    items: Sequence[Item],
    settings: Settings,
    seed: int,
    replies: Sequence[Any] | None = None,
) -> OrderCheck:
    numbers = [number for number, item in enumerate(items, start=1) if _rankable(item)]
    if not numbers:
        return replace(check, unchecked="No item has candidates to rank.")
    rankable = (items[number - 1] for number in numbers)
    standing = [replace(item, expected_order=None, expected_item=None) for item in rankable]
    rng = np.random.default_rng(seed)
    shuffled = [_shuffled(item, rng) for item in standing]
    try:
        before, after = (
            rank(some, settings, llms=replies).rankings
            for some in (standing, [item for item, _ in shuffled])
        )
    except UserError as error:
        return replace(check, unchecked=str(error))
    orders = [
        (number, order.order, tuple(names[name] for name in other.order))
        for number, order, other, (_, names) in zip(numbers, before, after, shuffled, strict=True)
    ]
    return replace(
        check,
        items=len(numbers),
        differ=tuple(number for number, order, other in orders if order != other),
        first=tuple(number for number, order, other in orders if order[0] != other[0]),
        **_ties(numbers, before),
    )


def _rankable(item: Item) -> bool:
    things = (*item.candidates, *item.sequence)
    seen = all(thing.caption or thing.image for thing in things)
    return bool(item.candidates and (item.sentence.strip() or item.sequence) and seen)


def _shuffled(item: Item, rng: np.random.Generator) -> tuple[Item, dict[str, str]]:
    """Return the item with its candidates shuffled; and by their names there, those here."""
    candidates, names = [], {}
    for place, k in enumerate(rng.permutation(len(item.candidates)), start=1):
        candidate = item.candidates[k]
        by_place = not candidate.image and candidate.name == f"candidate{k + 1}"
        there = replace(candidate, name=f"candidate{place}") if by_place else candidate
        candidates.append(there)
        names[there.name] = candidate.name
    return replace(item, candidates=tuple(candidates)), names


def _ties(numbers: Iterable[int], rankings: Iterable[Ranking]) -> dict[str, Any]:
    tied = {number: r for number, r in zip(numbers, rankings, strict=True) if r.tied}
    first = tuple(number for number, r in tied.items() if r.order[0] in r.tied)
    return {"tied": tuple(tied), "tied_first": first}


def _shown(rankings: Sequence[Ranking], seed: int) -> Iterator[dict[str, Any]]:
    places: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for judgement in (judgement for ranking in rankings for judgement in ranking.judgements):
        places[judgement.ranker, judgement.llm] += [
            (answer.shown.index(answer.order[0]), len(answer.shown))
            for answer in judgement.answers
            if len(answer.shown) > 1 and answer.order
        ]
    for (ranker, llm), of_ranker in places.items():
        if of_ranker:
            even = evenness(of_ranker, seed=seed)
            yield {"ranker": ranker, "llm": llm, "answers": len(of_ranker), "places": even}
