"""How queries are understood: each one's sense and gloss, by a chat model."""

from __future__ import annotations

from collections.abc import Sequence

from admire.base.choices import Meanings
from admire.data.items import Item
from admire.models.llm import ChatModel
from admire.prompts import Prompts
from admire.runs.sources import open_source
from admire.senses import Detector
from admire.senses.dictionaries import open_dictionaries
from admire.senses.interpretation import Interpretation, interpret
from admire.senses.source import Source
from admire.tasks.retrieval.settings import QuerySettings


def understand(
    items: Sequence[Item],
    settings: QuerySettings,
    llm: ChatModel | Source | None = None,
    detector: Detector | None = None,
    *,
    meanings: Meanings = "both",
) -> list[Interpretation]:
    """The sense and the gloss of each item; a gloss is asked for literal ones too.

    Args:
        llm: an open chat model in place of the one that the settings name.
        detector: an open detector in place of the built-in one.
        meanings: what is asked for, see :data:`admire.base.choices.Meanings`.

    Raises:
        UserError: the model cannot be opened or asked.
    """
    source = llm or open_source(
        settings.llm, url=settings.llm_url, dictionaries=settings.dictionaries
    )
    (found,) = interpret(
        items,
        [source],
        Prompts(settings.prompts),
        sense=settings.sense,
        seed=settings.seed,
        detector=detector,
        meanings=meanings,
        glosses="all",
        dictionaries=open_dictionaries(settings.dictionaries),
    )
    return found
