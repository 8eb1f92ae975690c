"""How queries are understood: each one's sense and gloss, by a chat model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from admire.base.choices import Device, Meanings, SenseMethod
from admire.base.schema import Seed, Weight, settings
from admire.data.items import Item
from admire.models.llm import ChatModel
from admire.prompts import Prompts
from admire.rankers.scorer import Scoring
from admire.runs.sources import open_source
from admire.senses import Detector
from admire.senses.dictionaries import open_dictionaries
from admire.senses.interpretation import Interpretation, interpret
from admire.senses.source import Source


@settings(frozen=True, kw_only=True)
class QuerySettings:
    """What retrieval and search have in common.

    Attributes:
        llm: the chat model that finds sense and gloss, by name.
        llm_url: the address of an OpenAI-compatible server; None is the official one.
        sense: how the sense is decided, see :data:`admire.base.choices.SenseMethod`.
        contrast: how much similarity to the bare expression counts against a text if the sense is
            idiomatic; None is 0 for texts, and what :func:`admire.rank` takes for pictures.
        lang: the language of the queries, for the prompts.
        prompts: a folder of templates that replace the built-in ones of the same name.
        dictionaries: as in :class:`admire.Settings`; they are no hint where glosses alone are
            asked for.
        device: where encoders that run on torch do so.
        seed: of the sampled replies.
    """

    llm: str = "embedded"
    llm_url: str | None = None
    sense: SenseMethod = "auto"
    contrast: Weight | None = None
    lang: str = "en"
    prompts: str | Path | None = None
    dictionaries: tuple[str, ...] = ("wordnet",)
    device: Device = "auto"
    seed: Seed = 0

    @property
    def scoring(self) -> Scoring:
        """How the similarities to gloss and expression become a score."""
        return Scoring.paper(gate="soft", contrast=self.contrast or 0.0, standardise=True)


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
