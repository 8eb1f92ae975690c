"""Finds ties, and counts at which positions chat models saw the candidates that they rank first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from admire.core.choices import RankQuery
from admire.core.errors import UserError
from admire.data.items import Item, item_keys
from admire.metrics.metrics import evenness
from admire.pipeline.past_runs import read_run
from admire.pipeline.ranking import Ranking
from admire.pipeline.run import rank
from admire.rankers.settings import Settings


@dataclass(frozen=True)
class OrderCheck:
    """Where the order of candidates may matter. Items are numbered from 1.

    Attributes:
        by: how the items were ranked.
        items: how many items were ranked.
        tied: items in which candidates have equal scores.
        tied_first: those of them in which several candidates share the highest score.
        shown: for each ``ranker`` and ``llm`` of a run, how many ``answers`` contain an order, and
            the ``places`` at which their best candidates were shown.
        unchecked: why nothing was ranked; None if it was.
    """

    by: str
    items: int = 0
    tied: tuple[int, ...] = ()
    tied_first: tuple[int, ...] = ()
    shown: tuple[dict[str, Any], ...] = ()
    unchecked: str | None = None


def check_order(items: Sequence[Item], run: Path | None = None, *, seed: int = 0) -> OrderCheck:
    """Find ties in a run of the items, and positions that its chat models prefer.

    Without a run the items are ranked once by embeddings; the query is the sentence, in Subtask B
    the compound. Items that cannot be ranked, because they have no candidates or no sentence, or a
    candidate has neither image nor caption, are skipped. An error while ranking is stored in
    ``unchecked``. No chat model is asked.

    Raises:
        UserError: the run cannot be read, or is of other items.
    """
    if run:
        rankings = read_run(run).rankings
        if item_keys(items) != item_keys([ranking.item for ranking in rankings]):
            raise UserError(
                f"{run}: is a run of other items than the data. Give its own data.", "run"
            )
        numbers = range(1, len(items) + 1)
        best_places = tuple(_best_places(rankings, seed))
        by = f"the settings of {run}"
        return OrderCheck(by, len(items), shown=best_places, **_ties(numbers, rankings))
    contexts = {item.context for item in items}
    query: RankQuery = "compound" if "sequence" in contexts else "sentence"
    captions = all(candidate.caption for item in items for candidate in item.candidates)
    settings = Settings(query=query, track="caption" if captions else None)
    check = OrderCheck(f"embeddings, with the {query} as the query")
    rankable = [number for number, item in enumerate(items, start=1) if _rankable(item)]
    if not rankable:
        return replace(check, unchecked="No item has candidates to rank.")
    try:
        rankings = rank([items[number - 1] for number in rankable], settings).rankings
    except UserError as error:
        return replace(check, unchecked=str(error))
    return replace(check, items=len(rankable), **_ties(rankable, rankings))


def _rankable(item: Item) -> bool:
    things = item.things
    complete = all(thing.caption or thing.image for thing in things)
    return bool(item.candidates and (item.sentence.strip() or item.sequence) and complete)


def _ties(numbers: Iterable[int], rankings: Iterable[Ranking]) -> dict[str, Any]:
    tied = {number: r for number, r in zip(numbers, rankings, strict=True) if r.tied}
    first = tuple(number for number, r in tied.items() if r.order[0] in r.tied)
    return {"tied": tuple(tied), "tied_first": first}


def _best_places(rankings: Sequence[Ranking], seed: int) -> Iterator[dict[str, Any]]:
    places: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for judgement in (judgement for ranking in rankings for judgement in ranking.judgements):
        places[judgement.ranker, judgement.llm] += [
            (answer.shown.index(answer.order[0]), len(answer.shown))
            for answer in judgement.answers
            if len(answer.shown) > 1 and answer.order
        ]
    for (ranker, llm), shown_at in places.items():
        if shown_at:
            even = evenness(shown_at, seed=seed)
            yield {"ranker": ranker, "llm": llm, "answers": len(shown_at), "places": even}
