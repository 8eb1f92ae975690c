"""All rankers of a run put to a chat model, and what is checked before."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from admire.base.choices import Ranker
from admire.base.errors import UserError, check_extra
from admire.data.items import Item
from admire.prompts import Prompts
from admire.rankers.aggregate import aggregate, places
from admire.rankers.judgement import Answer, Judgement, check_answers
from admire.rankers.likelihood import judge_likelihood
from admire.rankers.listwise import check_letters, judge_listwise
from admire.rankers.pairwise import judge_pairwise
from admire.rankers.pointwise import judge_pointwise
from admire.rankers.presentation import tracks_shown
from admire.rankers.set_summary import SetSummary
from admire.rankers.settings import Settings
from admire.senses.interpretation import Interpretation
from admire.senses.source import Source

log = logging.getLogger("admire")


def check_candidates(
    summary: SetSummary, sources: Sequence[Source], settings: Settings
) -> tuple[str, ...]:
    """Return what chat models will see of the candidates, checked before any of them is asked.

    Raises:
        UserError: a model cannot see what it must, a candidate has nothing to show, an item has
            too many candidates, or a package is missing.
    """
    if "pairwise" in settings.rankers:
        check_extra("rankers", "The ranker pairwise", "choix")
    seen_tracks: dict[str, None] = {}
    for llm in [source.llm for source in sources if source.llm]:
        if "listwise" in settings.rankers and summary.largest:
            check_letters(summary.largest)
        if "likelihood" in settings.rankers and not llm.rates:
            raise UserError(
                f"{llm.name} does not tell how probable a given text is, which the ranker "
                "likelihood needs. Take embedded, gguf:PATH, or a model of a vLLM server.",
                "rankers",
                "llms",
            )
        tracks = tracks_shown(summary, llm, settings.track)
        if "image" in tracks:
            check_extra("rankers", "A chat model that sees", "PIL")
        elif settings.track is None and summary.images:
            log.warning("%s cannot see images: captions alone decide.", llm.name)
        seen_tracks |= dict.fromkeys(tracks)
    return tuple(seen_tracks)


def judge(
    items: Sequence[Item],
    source: Source,
    prompts: Prompts,
    settings: Settings,
    readings: Sequence[Interpretation],
    listed: Sequence[Judgement] | None = None,
    *,
    first: bool = True,
) -> list[tuple[Judgement, ...]]:
    """Return a source's judgement of each item, by each ranker of ``settings`` that asks.

    Args:
        readings: how the model understands the items.
        listed: the judgements of ``listwise``, if it has already decided the senses.
        first: see :func:`admire.rankers.judgement.check_answers`.

    Raises:
        UserError: see the functions in :data:`JUDGES`; or no answer on the first items of a run
            could be read.
    """
    judgements: list[Sequence[Judgement]] = []
    for ranker in settings.rankers:
        if ranker not in JUDGES:
            continue
        if source.llm is None:
            judgements.append(_recorded(items, source, ranker))
        elif ranker == "listwise" and listed:
            judgements.append(listed)
        else:
            judged = JUDGES[ranker](items, source.llm, prompts, settings, readings)
            check_answers(items, judged, source.llm, first=first)
            judgements.append(judged)
    return list(zip(*judgements, strict=True))


JUDGES: dict[Ranker, Callable[..., list[Judgement]]] = {
    "listwise": judge_listwise,
    "pointwise": judge_pointwise,
    "pairwise": judge_pairwise,
    "likelihood": judge_likelihood,
}
"""The rankers that ask a chat model; all take the same arguments."""


def _recorded(items: Sequence[Item], source: Source, ranker: Ranker) -> list[Judgement]:
    """Return the recorded order of each item's candidates, as the answer of any ranker."""
    orders = []
    for item, order in zip(items, recorded_orders(items, source), strict=True):
        names = tuple(candidate.name for candidate in item.candidates)
        points = tuple(aggregate(places([order], names)).tolist())
        orders.append(Judgement(ranker, source.name, points, (Answer(names, order),)))
    return orders


def recorded_orders(items: Iterable[Item], source: Source) -> list[tuple[str, ...]]:
    """Return the recorded order of each item's candidates.

    Raises:
        UserError: there is none for some items, or one of other candidates.
    """
    orders = [(item.compound, source.order(item)) for item in items]
    lacking = [compound for compound, order in orders if not order]
    if lacking:
        others = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
        raise UserError(
            f"{source.name} lacks the order of '{lacking[0]}'{others}. Rank by embeddings.",
            "llms",
            "rankers",
        )
    return [order for _, order in orders if order]
