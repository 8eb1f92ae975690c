"""Opens the rankers of a run, after checks."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from admire.core.errors import check_extra
from admire.llm.chat import ChatModel
from admire.prompts import Prompts
from admire.rankers.embeddings import RunEncoder
from admire.rankers.ranker import Ranker, judges_together, open_ranker
from admire.rankers.set_summary import SetSummary
from admire.rankers.settings import Settings

log = logging.getLogger("admire")


def open_rankers(
    summary: SetSummary, llm: ChatModel, prompts: Prompts, settings: Settings
) -> list[Ranker]:
    """Open the rankers of a run that judge items one by one, for one chat model.

    Raises:
        UserError: a name is unknown, the model does not accept images but must, a candidate has no
            content, an item has too many candidates, or a package is missing.
    """
    names = [name for name in settings.rankers if not judges_together(name)]
    rankers = [open_ranker(name, settings.plugins) for name in names]
    tracks: tuple[str, ...] = ()
    if not llm.recorded and any(ranker.asks for ranker in rankers):
        from admire.rankers.presentation import tracks_shown

        for ranker in rankers:
            ranker.check(summary, llm)
        tracks = tracks_shown(summary, llm, settings.track)
        if "image" in tracks:
            check_extra("rankers", "A chat model that sees", "PIL")
        elif settings.track is None and summary.images:
            log.warning("%s does not accept images: only captions are used.", llm.name)
    for ranker in rankers:
        ranker.llm, ranker.prompts = llm, prompts
        ranker.settings, ranker.tracks = settings, tracks
    return rankers


def open_together(
    prompts: Prompts, settings: Settings, encoders: Sequence[RunEncoder]
) -> list[Ranker]:
    """Open the rankers of a run that judge many items at once, without a chat model.

    Raises:
        UserError: as for :func:`open_rankers`.
    """
    names = [name for name in settings.rankers if judges_together(name)]
    rankers = [open_ranker(name, settings.plugins, encoders=encoders) for name in names]
    for ranker in rankers:
        ranker.prompts, ranker.settings = prompts, settings
    return rankers
