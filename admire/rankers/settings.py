"""What a run is made with, and whole stacks by name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from admire.base.choices import (
    Device,
    Meanings,
    Precision,
    ProfileName,
    Ranker,
    RankQuery,
    SenseMethod,
    Track,
)
from admire.base.errors import UserError
from admire.base.schema import Count, Positive, Seed, settings
from admire.models.llm.chat import IMAGE_SIDE
from admire.rankers.scorer import Scoring


@settings(frozen=True)
class Settings:
    """What a run is made with. The defaults are the embedded profile.

    Attributes:
        rankers: what orders the candidates, see :data:`Ranker`; of several, the mean
            of their standardised scores.
        shuffles: in how many orders ``listwise`` shows the candidates.
        image_side: the longest side of an image that a chat model is shown, in pixels.
        llms: names of chat models. Their scores are averaged.
        encoder: the name of the encoder of queries and candidates, for the ranker ``embeddings``.
        caption_encoder: another encoder for captions and the queries that they are compared with;
            None takes ``encoder``.
        device, precision: where encoders on torch run, and how finely they compute.
        query: ``meaning`` is the method; ``compound``, ``sentence`` and, for Subtask B,
            ``sequence`` are baselines without a chat model.
        sense: how the sense is decided, see :data:`admire.base.choices.SenseMethod`.
        votes: how often each chat model is asked for the sense (the paper's T).
        abstain_below: items of which the sense is less sure than this, from 0.5 to 1, are marked as
            unsure; they are ranked all the same. None marks none.
        meanings: what the chat models say of each compound, see :data:`Meanings`.
        dictionaries: names of dictionaries; what they say of a compound is a hint for the chat
            models, see :func:`admire.senses.dictionaries.open_dictionaries`. ``none`` is none.
        track: what of the candidates is compared and shown; None takes all of their images and
            captions that the encoder can read and the chat model can see.
        scoring: how similarities become scores.
        head: a folder of ``admire train head``; queries and candidates are compared in its space.
        prompts: a folder of templates that replace the built-in ones of the same name.
        detector: a file of ``admire train detector`` or a folder of ``admire train classifier``;
            None is the built-in detector.
        llm_url: the address of an OpenAI-compatible server; None is the official one.
        seed: the seed of the sampled replies.
    """

    rankers: tuple[Ranker, ...] = ("embeddings",)
    shuffles: Count = 5
    image_side: Annotated[int, Field(ge=32)] = IMAGE_SIDE
    llms: tuple[str, ...] = ("embedded",)
    encoder: str = "e5"
    caption_encoder: str | None = None
    device: Device = "auto"
    precision: Precision = "float32"
    query: RankQuery = "meaning"
    sense: SenseMethod = "auto"
    votes: Count = 5
    abstain_below: Annotated[float, Field(gt=0.5, le=1)] | None = None
    meanings: Meanings = "auto"
    dictionaries: tuple[str, ...] = ("wordnet",)
    track: Track | None = None
    scoring: Scoring = Scoring()
    head: str | Path | None = None
    prompts: str | Path | None = None
    detector: str | Path | None = None
    llm_url: str | None = None
    seed: Seed = 0

    def __post_init__(self) -> None:
        if not self.rankers or len(set(self.rankers)) < len(self.rankers):
            raise UserError(
                f"rankers cannot be {self.rankers!r}: it names one or more, each once.", "rankers"
            )
        if self.abstain_below and self.query != "meaning" and not self.looks:
            raise UserError(
                f"With the query {self.query} no sense is predicted, so no item can be unsure.",
                "abstain_below",
                "query",
            )

    @property
    def looks(self) -> bool:
        """Whether chat models look at the candidates."""
        return any(ranker != "embeddings" for ranker in self.rankers)

    @property
    def weighs_both(self) -> bool:
        """Whether the idiomatic meaning counts for literal uses, too."""
        return self.scoring.gate == "soft" or "pointwise" in self.rankers


@settings(frozen=True)
class Asking:
    """How chat models are asked, which changes no result.

    Attributes:
        parallel: how many questions a server gets at the same time; None is 8.
        budget: what replies that are not in the cache may cost together, in US dollars; None is no
            limit.
    """

    parallel: Count | None = None
    budget: Positive | None = None


PROFILES: dict[ProfileName, Settings] = {
    "embedded": Settings(),
    "paper": Settings(
        llms=("openai:gpt-3.5-turbo", "openai:gpt-4", "openai:gpt-4o"),
        encoder="mclip:XLM-Roberta-Large-Vit-B-32",
        meanings="gloss",
        dictionaries=("none",),
        track="image",
        scoring=Scoring.paper(),
    ),
    "vision": Settings(llms=("openai:gpt-6.1-sol",), rankers=("listwise", "embeddings")),
    "vision-local": Settings(
        llms=("openai:gemma-4-E4B-it",),
        llm_url="http://127.0.0.1:8080/v1",
        rankers=("pointwise", "embeddings"),
    ),
    "best": Settings(
        llms=("openai:gpt-6.1-sol",),
        rankers=("listwise", "embeddings"),
        encoder="openclip:ViT-SO400M-16-SigLIP2-384/webli",
        caption_encoder="sbert:intfloat/multilingual-e5-large",
    ),
}
"""Whole stacks by name. ``embedded`` needs no key and no hub. ``paper`` is the best English row of
UoR-NCL's Table 2 (CI, ensemble, XLM-32). In ``vision`` a strong model looks at the candidates, and
the embedded encoders compare them; in ``vision-local`` a small one does, a candidate at a time, on
a server on this machine. ``best`` is ``vision`` with large encoders, which need a hub and want a
GPU: what we would try first today. Only ``embedded`` has been measured, because no hub and no API
can be reached here."""
