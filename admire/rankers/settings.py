"""Settings of runs, presets by name, and what a set of items must have for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from admire.core import registry
from admire.core.choices import (
    TEXTS,
    TRACKS,
    Gate,
    Precision,
    ProfileName,
    RankQuery,
    Standardise,
    TextRole,
    Track,
)
from admire.core.errors import UserError
from admire.core.options import (
    EncoderDevice,
    LlmUrl,
    Option,
    PromptFolder,
    ReadingOfLongTexts,
    SampleSeed,
)
from admire.core.schema import SEVERAL, Count, Positive, Weight, check_once, settings
from admire.data.items import Candidate, Context, Item
from admire.llm.chat import IMAGE_SIDE
from admire.senses.settings import SenseSettings

CHAT = "Chat models and costs"


@settings(frozen=True)
class Scoring:
    """How similarities become a score.

    With p the probability of the idiomatic sense, I the mean over the texts of that sense, L the
    mean over those of the literal sense and C the compound, the score is

        p · (I − contrast · L) + (1 − p) · C.

    In Subtask B the mean similarity to the pictures or captions of the sequence is added. For a
    word in a phrase (V-WSD) the score is the mean over all texts, the phrase included. How terms
    are standardised: :func:`admire.rankers.scorer.contributions`.

    The defaults are those of :class:`admire.Settings`; :meth:`paper` is the UoR-NCL paper's.
    """

    image_weight: Annotated[Weight, Option("Scoring")] = 1.0
    """Weight of the image term."""
    caption_weight: Annotated[Weight, Option("Scoring")] = 1.0
    """Weight of the caption term."""
    gate: Annotated[Gate, Option("Scoring")] = "hard"
    """Weight the senses by their probability (soft), or use only the likelier one (hard)."""
    contrast: Annotated[float, Option("Scoring")] = 1.0
    """Penalty for similarity to the literal sense (0: none, as in the paper)."""
    standardise: Annotated[Standardise, Option("Scoring")] = "noise"
    """Divide cosines by their deviation over the item's candidates before they are added, with the
    encoder's noise (noise) or without it (item); or add plain cosines, as in the paper (no)."""
    texts: Annotated[tuple[TextRole, ...], Option("Scoring")] = TEXTS
    """Texts that count, separated by commas (the paper's: gloss,compound). Missing texts are
    skipped; without any text of the idiomatic sense the compound is used."""

    @classmethod
    def paper(cls, **changes: Any) -> Scoring:
        """Return the UoR-NCL paper's scoring (section 2.2), or one that differs in some fields.

        The query is the gloss where the sense is idiomatic and the compound where it is literal.
        """
        formula: dict[str, Any] = {"contrast": 0.0, "standardise": "no"}
        return cls(**formula | {"texts": ("gloss", "compound")} | changes)


@settings(frozen=True)
class RankerSettings:
    """Which rankers order candidates, and what they compare by which models."""

    rankers: Annotated[tuple[str, ...], Option(CHAT, "ranker", completes="ranker")] = (
        "embeddings",
    )
    """Ranker of the candidates: vectors (embeddings), or a chat model that sees all of them
    (listwise), one (pointwise) or two (pairwise) at a time, or rates how probable the meaning is
    after each (likelihood). Repeat to fuse several by the mean of their standardised scores."""
    shuffles: Annotated[Count, Option(CHAT)] = 5
    """Number of candidate permutations for listwise ranking."""
    image_side: Annotated[int, Field(ge=32), Option(CHAT)] = IMAGE_SIDE
    """Longest side of an image for a chat model, in pixels."""
    llms: Annotated[tuple[str, ...], Option(CHAT, "llm", daily=True, completes="chat")] = (
        "embedded",
    )
    """Chat model, such as openai:MODEL or gguf:PATH; or replies from recorded:FILE or run:FOLDER.
    Repeat for an ensemble."""
    encoder: Annotated[
        tuple[str, ...], SEVERAL, Option("Models", daily=True, completes="encoder")
    ] = ("e5", "minilm")
    """Encoder of queries and candidates, such as openclip:MODEL/TAG or sbert:REPOSITORY, or the
    same with a local folder. Repeat for an ensemble: the mean of their scores."""
    caption_encoder: Annotated[str | None, Option("Models", completes="encoder")] = None
    """Separate encoder for captions and their queries (default: the encoder). Not for several
    encoders."""
    long_texts: ReadingOfLongTexts = "parts"
    device: EncoderDevice = "auto"
    precision: Annotated[Precision, Option("Models")] = "float32"
    """Precision for torch; float16 needs a GPU."""
    query: Annotated[RankQuery, Option("Scoring")] = "meaning"
    """Text that candidates are compared with; all but the meaning are baselines without a chat
    model."""


@settings(frozen=True)
class Settings(SenseSettings, RankerSettings):
    """Settings of a run. The defaults are the embedded profile."""

    track: Annotated[Track | None, Option("Scoring")] = None
    """Parts of the candidates to use (default: all images and captions that the encoder and the
    chat model support)."""
    scoring: Scoring = Scoring()
    """How similarities become scores."""
    head: Annotated[tuple[str | Path, ...], SEVERAL, Option("Models")] = ()
    """Head from admire train head; queries and candidates are compared in its space. Several
    encoders need one each: repeat it."""
    prompts: PromptFolder = None
    detector: Annotated[str | Path | None, Option("Senses and meanings")] = None
    """File of admire train detector or folder of admire train classifier (default: the built-in
    detector)."""
    llm_url: LlmUrl = None
    seed: SampleSeed = 0
    plugins: dict[str, dict[str, Any]] = field(default_factory=dict, hash=False)
    """Settings of plug-ins by name, such as {"length": {"longest": 10}}. On the command line and in
    files each has its own option, such as --length-longest 10."""

    def __post_init__(self) -> None:
        check_once("rankers", self.rankers)
        check_once("encoder", self.encoder)
        if self.caption_encoder and len(self.encoder) > 1:
            raise UserError(
                "Several encoders and a separate one for captions cannot be combined. Name one "
                "encoder.",
                "encoder",
                "caption_encoder",
            )
        if self.abstain_below and self.query != "meaning" and not self.looks:
            raise UserError(
                f"The query {self.query} predicts no sense, so there is no confidence.",
                "abstain_below",
                "query",
            )

    @property
    def compares(self) -> bool:
        """True if an encoder compares candidates with texts."""
        return any(map(compares_vectors, self.rankers))

    @property
    def looks(self) -> bool:
        """True if a ranker does not compare vectors, but looks at candidates in another way."""
        return not all(map(compares_vectors, self.rankers))


def compares_vectors(ranker: str) -> bool:
    """Return whether a ranker compares the vectors of encoders (``uses_encoders`` of its class)."""
    there = ranker in registry.names("ranker")
    return there and getattr(registry.find("ranker", ranker).make, "uses_encoders", False)


@settings(frozen=True)
class RequestOptions:
    """Options of requests to chat models. They do not belong to the settings of a run."""

    parallel: Annotated[Count | None, Option(CHAT, in_file=False)] = None
    """Concurrent requests to a server (default: 8)."""
    timeout: Annotated[Positive | None, Option(CHAT, in_file=False)] = None
    """Timeout for a whole answer of a server, in seconds (default: 60)."""
    budget: Annotated[Positive | None, Option(CHAT, daily=True, in_file=False)] = None
    """Spending limit in US dollars for uncached requests; requests in flight may exceed it."""
    price: Annotated[tuple[Weight, ...] | None, Option(CHAT, in_file=False)] = None
    """Price of a server without a price list: IN,OUT, US dollars for a million tokens each."""
    most_requests: Annotated[Count | None, Option(CHAT, in_file=False)] = None
    """Limit of uncached requests."""
    fresh: Annotated[bool, Option(CHAT, in_file=False)] = False
    """Ignore and overwrite cached replies. Omit to resume an interrupted run."""

    def __post_init__(self) -> None:
        if self.price and len(self.price) != 2:
            raise UserError("A price is two numbers, for tokens in and out: 0.15,0.6.", "price")


PROFILES: dict[ProfileName, Settings] = {
    "embedded": Settings(),
    "paper": Settings(
        llms=("openai:gpt-3.5-turbo", "openai:gpt-4", "openai:gpt-4o"),
        encoder=("mclip:XLM-Roberta-Large-Vit-B-32",),
        long_texts="cut",
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
        encoder=("openclip:ViT-SO400M-16-SigLIP2-384/webli",),
        caption_encoder="sbert:intfloat/multilingual-e5-large",
    ),
}
"""Presets by name. ``embedded`` needs no API key and no download. ``paper`` is the best English row
of UoR-NCL's Table 2 (CI, ensemble, XLM-32); OpenAI retires its GPTs by 2027-01-14. In ``vision`` a
strong model ranks the candidates, fused with the embedded encoders; in ``vision-local`` a small one
does, one candidate at a time, on a local server. ``best`` is ``vision`` with large encoders, which
need downloads and should have a GPU; we expect it to be strongest. Only ``embedded`` has been
measured, because no hub and no API was available."""


Lack = Literal["candidates", "sequence", "sentence", "context", "sentence_type"]


@dataclass
class SetSummary:
    """Counts of a set, and the first items that lack something.

    Attributes:
        images, captions: how many candidates have one.
        without_caption: how many have an image and no caption.
        first_missing: the first row that lacks something, with its item. A word in a phrase lacks
            neither a context nor a sense.
        without_content: by missing tracks (image, caption, both or none), the first candidate that
            lacks all of these, with its item's compound.
        largest: the first item with the most candidates.
    """

    items: int = 0
    candidates: int = 0
    images: int = 0
    captions: int = 0
    without_caption: int = 0
    contexts: set[Context] = field(default_factory=set)
    languages: list[str] = field(default_factory=list)
    first_missing: dict[Lack, tuple[int, Item]] = field(default_factory=dict)
    without_content: dict[tuple[str, ...], tuple[str, Candidate]] = field(default_factory=dict)
    largest: Item | None = None

    def add(self, item: Item) -> None:
        self.items += 1
        self.contexts.add(item.context)
        if item.language not in self.languages:
            self.languages.append(item.language)
        if self.largest is None or len(item.candidates) > len(self.largest.candidates):
            self.largest = item
        content: dict[Lack, object] = {
            "candidates": item.candidates,
            "sequence": item.sequence,
            "sentence": item.sentence,
            "context": item.shows_sense or not item.has_sense,
            "sentence_type": item.sentence_type or not item.has_sense,
        }
        for name, value in content.items():
            if not value:
                self.first_missing.setdefault(name, (self.items, item))
        for candidate in item.candidates:
            present = {track for track in TRACKS if getattr(candidate, track)}
            self.candidates += 1
            self.images += "image" in present
            self.captions += "caption" in present
            self.without_caption += present == {"image"}
            for tracks in ((), ("image",), ("caption",), TRACKS):
                if present.isdisjoint(tracks):
                    self.without_content.setdefault(tracks, (item.compound, candidate))

    @property
    def tracks(self) -> list[str]:
        """The tracks that any candidate has: images, captions or both."""
        return [track for track in TRACKS if getattr(self, f"{track}s")]


def summarise_set(items: Iterable[Item]) -> SetSummary:
    summary = SetSummary()
    for item in items:
        summary.add(item)
    return summary


def check_items(summary: SetSummary, settings: Settings) -> None:
    """Refuse items that cannot be ranked with these settings; the message names the first."""
    if "word" in summary.contexts and settings.looks:
        raise UserError(
            "For V-WSD only embeddings rank: the other rankers ask about idioms.", "rankers"
        )
    needs: dict[Lack, tuple[str, ...]] = {
        "candidates": ("has no candidates to rank. admire sense decides the sense without them.",)
    }
    if "sequence" in summary.contexts:
        needs["sequence"] = ("has no sequence, but others do. Rank the two kinds apart.",)
    if settings.query == "sentence" or settings.query == "sequence":
        text = f"has no {settings.query} to compare candidates with."
        needs.setdefault(settings.query, (text, "query"))
    for name, (number, item) in summary.first_missing.items():  # in the order of the rows
        if name in needs:
            text, *places = needs[name]
            raise UserError(f"row {number} ('{item.compound}') {text}", *places)
