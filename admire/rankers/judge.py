"""All rankers of a run put to a chat model, and what is checked before."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from admire.choices import Ranker
from admire.errors import UserError, check_extra
from admire.interpretation import Interpretation
from admire.items import Item
from admire.llm import ChatModel
from admire.prompts import Prompts
from admire.rankers.aggregate import aggregate, places
from admire.rankers.judgement import Answer, Judgement
from admire.rankers.listwise import judge_listwise
from admire.rankers.pairwise import judge_pairwise
from admire.rankers.pointwise import judge_pointwise
from admire.rankers.shown import tracks_shown
from admire.recorded import Recorded
from admire.settings import Settings

log = logging.getLogger("admire")


def check_candidates(
    items: Sequence[Item], llms: Sequence[ChatModel], settings: Settings
) -> tuple[str, ...]:
    """What of the candidates the chat models are shown, before any of them is asked.

    Raises:
        UserError: a model cannot see what it must, a candidate has nothing to show, or a package
            is missing.
    """
    if "pairwise" in settings.rankers:
        check_extra("rankers", "The ranker pairwise", "choix")
    shown: dict[str, None] = {}
    for llm in llms:
        if isinstance(llm, Recorded):
            continue
        tracks = tracks_shown(items, llm, settings.track)
        if "image" in tracks:
            check_extra("rankers", "A chat model that sees", "PIL")
        elif settings.track is None and any(c.image for item in items for c in item.candidates):
            log.warning("%s cannot see images: captions alone decide.", llm.name)
        shown |= dict.fromkeys(tracks)
    return tuple(shown)


def judge(
    items: Sequence[Item],
    llm: ChatModel,
    prompts: Prompts,
    settings: Settings,
    readings: Sequence[Interpretation],
    listed: Sequence[Judgement] | None = None,
) -> list[tuple[Judgement, ...]]:
    """What a chat model makes of each item's candidates, by each ranker of ``settings`` that asks.

    Args:
        readings: how the model understands the items.
        listed: the judgements of ``listwise``, if it was asked before to decide the senses.

    Raises:
        UserError: see :func:`judge_listwise`, :func:`judge_pointwise` and :func:`judge_pairwise`.
    """
    found: list[Sequence[Judgement]] = []
    for ranker in settings.rankers:
        if ranker != "embeddings" and isinstance(llm, Recorded):
            found.append(_recorded(items, llm, ranker))
        elif ranker == "listwise":
            found.append(listed or judge_listwise(items, llm, prompts, settings, readings))
        elif ranker == "pointwise":
            found.append(judge_pointwise(items, llm, prompts, settings, readings))
        elif ranker == "pairwise":
            found.append(judge_pairwise(items, llm, prompts, settings, readings))
    return list(zip(*found, strict=True))


def _recorded(items: Sequence[Item], llm: Recorded, ranker: Ranker) -> list[Judgement]:
    """The recorded order of each item's candidates, as the answer of any ranker."""
    orders = [llm.order(item) for item in items]
    lacking = [item.compound for item, order in zip(items, orders, strict=True) if not order]
    if lacking:
        more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
        raise UserError(
            f"{llm.name} lacks the order of '{lacking[0]}'{more}. The ranker embeddings needs "
            "senses and meanings alone.",
            "llms",
            "rankers",
        )
    found = []
    for item, order in zip(items, orders, strict=True):
        names = tuple(candidate.name for candidate in item.candidates)
        points = aggregate(places([order or ()], names))
        found.append(Judgement(ranker, llm.name, points, (Answer(names, order or ()),)))
    return found
