"""Asks a chat model with all rankers of a run, after checks."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from admire.core.errors import UserError, check_extra
from admire.data.items import Item
from admire.prompts import Prompts
from admire.rankers.aggregate import aggregate, places
from admire.rankers.judgement import Answer, Judgement, check_answers
from admire.rankers.presentation import tracks_shown
from admire.rankers.ranker import Ranker, open_ranker
from admire.rankers.set_summary import SetSummary
from admire.rankers.settings import Settings
from admire.senses.interpretation import Interpretation
from admire.senses.source import Source

log = logging.getLogger("admire")


def open_rankers(
    summary: SetSummary, source: Source, prompts: Prompts, settings: Settings
) -> list[Ranker]:
    """Open the rankers of a run for one source, all but ``embeddings``, and check that they fit.

    Raises:
        UserError: a name is unknown, the model does not accept images but must, a candidate has no
            content, an item has too many candidates, or a package is missing.
    """
    rankers = [open_ranker(name, settings.plugins) for name in settings.judges]
    tracks: tuple[str, ...] = ()
    if source.llm and any(ranker.asks for ranker in rankers):
        for ranker in rankers:
            ranker.check(summary, source.llm)
        tracks = tracks_shown(summary, source.llm, settings.track)
        if "image" in tracks:
            check_extra("rankers", "A chat model that sees", "PIL")
        elif settings.track is None and summary.images:
            log.warning("%s does not accept images: only captions are used.", source.name)
    for ranker in rankers:
        ranker.llm, ranker.judge_name = source.llm, source.name
        ranker.prompts, ranker.settings, ranker.tracks = prompts, settings, tracks
    return rankers


def judge(
    items: Sequence[Item],
    source: Source,
    rankers: Sequence[Ranker],
    readings: Sequence[Interpretation],
    decided: Sequence[Judgement] | None = None,
    *,
    first: bool = True,
) -> list[tuple[Judgement, ...]]:
    """Return a source's judgement of each item, by each ranker.

    Args:
        readings: the model's interpretation of each item.
        decided: the judgements of the ranker that decided senses, if it was asked already.
        first: see :func:`admire.rankers.judgement.check_answers`.

    Raises:
        UserError: see :meth:`admire.rankers.ranker.Ranker.judge`; or no answer about the first
            items of a run could be parsed.
    """
    judgements: list[Sequence[Judgement]] = []
    for ranker in rankers:
        if source.llm is None and ranker.asks:
            judgements.append(_recorded(items, source, ranker.name))
        elif ranker.decides_senses and decided:
            judgements.append(decided)
        else:
            judged = ranker.judge(items, readings)
            if source.llm and ranker.asks:
                check_answers(items, judged, source.llm, first=first)
            judgements.append(judged)
    return list(zip(*judgements, strict=True))


def _recorded(items: Sequence[Item], source: Source, ranker: str) -> list[Judgement]:
    """Return the recorded order of each item's candidates, as the answer of any ranker."""
    orders = []
    for item, order in zip(items, recorded_orders(items, source), strict=True):
        points = tuple(aggregate(places([order], item.names)).tolist())
        orders.append(Judgement(ranker, source.name, points, (Answer(item.names, order),)))
    return orders


def recorded_orders(items: Iterable[Item], source: Source) -> list[tuple[str, ...]]:
    """Return the recorded order of each item's candidates.

    Raises:
        UserError: some items have none, or one of other candidates.
    """
    orders = [(item.compound, source.order(item)) for item in items]
    missing = [compound for compound, order in orders if not order]
    if missing:
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise UserError(
            f"{source.name} has no order for '{missing[0]}'{others}. Rank by embeddings.",
            "llms",
            "rankers",
        )
    return [order for _, order in orders if order]
