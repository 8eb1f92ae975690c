"""What a run is made with, and whole stacks by name."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from admire.base.choices import (
    TEXTS,
    Gate,
    Meanings,
    Precision,
    ProfileName,
    RankQuery,
    TextRole,
    Track,
)
from admire.base.errors import UserError
from admire.base.options import (
    DecidedBy,
    Dictionaries,
    EncoderDevice,
    LlmUrl,
    Option,
    PromptFolder,
    SampleSeed,
)
from admire.base.schema import Count, Positive, Weight, settings
from admire.models.llm.chat import IMAGE_SIDE


@settings(frozen=True)
class Scoring:
    """How similarities become a score.

    With p the probability of the idiomatic sense, I the mean over the texts of that sense, L the
    mean over those of the literal sense and C the compound, the score is

        p · (I − contrast · L) + (1 − p) · C.

    For a literal use the compound says itself what to look for. The words for the literal sense
    tell what not to look for where the idiomatic one is meant. In Subtask B the likeness to the
    sequence, by the mean vector of its pictures or captions, is added to that. For a word in a
    phrase (V-WSD) the score is the mean over all texts, of which the phrase is one.

    Where an idiomatic use has five candidates, as in AdMIRe, the pairs are added: see
    :func:`admire.rankers.scorer.pair_chances`. With any other number of candidates a standardised L
    below the item's mean counts as 0: what shows neither sense does not gain by being unlike the
    literal one.

    Of two candidates each standardised query would have -1 and 1, and I − L would be 0, so there
    all queries share one spread, the root of their mean variance. Where images and captions have
    encoders of their own, only standardising gives their sum a meaning: cosines of a CLIP lie about
    0.2, those of an E5 about 0.8.

    The defaults are what :class:`admire.Settings` has; :meth:`paper` is the UoR-NCL paper's.
    """

    image_weight: Annotated[Weight, Option("Scoring")] = 1.0
    """Weight of the image term."""
    caption_weight: Annotated[Weight, Option("Scoring")] = 1.0
    """Weight of the caption term."""
    gate: Annotated[Gate, Option("Scoring")] = "hard"
    """Weigh the senses by their probability (soft), or follow the likelier one."""
    contrast: Annotated[float, Option("Scoring")] = 1.0
    """Weight of the literal sense against literal pictures (0: the paper's)."""
    standardise: Annotated[bool, Option("Scoring")] = True
    """Bring each query's cosines over an item's candidates to mean 0 and deviation 1 before they
    are added."""
    texts: Annotated[tuple[TextRole, ...], Option("Scoring")] = TEXTS
    """Texts that count, with commas (the paper's: gloss,compound). Texts that an item lacks are
    left out; without any text of the idiomatic sense the compound is compared."""
    pairs: Annotated[Weight, Option("Scoring")] = 2.0
    """Weight of the pairs: of five candidates two show each sense, and the two of a sense resemble
    each other (0: each candidate by itself). Needs contrast and standardised cosines."""

    @classmethod
    def paper(cls, **changes: Any) -> Scoring:
        """Return the UoR-NCL paper's scoring, or one that differs from it in some fields.

        The query is the gloss where the sense is idiomatic and the compound where it is literal,
        and the cosines to image and caption are added (section 2.2).
        """
        formula: dict[str, Any] = {
            "contrast": 0.0,
            "standardise": False,
            "texts": ("gloss", "compound"),
            "pairs": 0.0,
        }
        return cls(**formula | changes)


@settings(frozen=True)
class Settings:
    """What a run is made with. The defaults are the embedded profile."""

    rankers: Annotated[
        tuple[str, ...], Option("Chat models and costs", "ranker", completes="ranker")
    ] = ("embeddings",)
    """What orders the candidates: vectors (embeddings), or chat models that look at all of them, at
    one, or at two, or tell how probable the meaning is after each (likelihood). Repeat to fuse
    several by the mean of their standardised scores."""
    shuffles: Annotated[Count, Option("Chat models and costs")] = 5
    """Orders in which listwise shows the candidates."""
    image_side: Annotated[int, Field(ge=32), Option("Chat models and costs")] = IMAGE_SIDE
    """Longest side of an image that a chat model is shown, in pixels."""
    llms: Annotated[
        tuple[str, ...],
        Option("Chat models and costs", "llm", daily=True, completes="chat"),
    ] = ("embedded",)
    """Chat model, such as openai:MODEL or gguf:PATH; or earlier replies, recorded:FILE or
    run:FOLDER. Repeat for an ensemble."""
    encoder: Annotated[str, Option("Models", daily=True, completes="encoder")] = "e5"
    """Encoder of queries and candidates, such as openclip:MODEL/TAG or sbert:REPOSITORY, or a
    family and a folder."""
    caption_encoder: Annotated[str | None, Option("Models", completes="encoder")] = None
    """Another encoder for captions and the queries that they are compared with."""
    device: EncoderDevice = "auto"
    precision: Annotated[Precision, Option("Models")] = "float32"
    """Precision of torch's computations; float16 needs a GPU."""
    query: Annotated[RankQuery, Option("Scoring")] = "meaning"
    """Text that candidates are compared with; all but the meaning are baselines without a chat
    model."""
    sense: DecidedBy = "auto"
    votes: Annotated[Count, Option("Senses and meanings")] = 5
    """Votes asked of each chat model (the paper's T)."""
    vote_temperature: Annotated[float, Field(ge=0, le=2), Option("Senses and meanings")] = 0.7
    """Temperature at which votes are sampled, from 0 to 2."""
    abstain_below: Annotated[
        Annotated[float, Field(gt=0.5, le=1)] | None, Option("Senses and meanings")
    ] = None
    """Flag items whose sense confidence is below this, from 0.5 to 1; they are ranked all the
    same."""
    meanings: Annotated[Meanings, Option("Senses and meanings")] = "auto"
    """Replies of each chat model: definitions and a scene of the sense that is meant, or of both
    (auto: the embedded model of idioms alone, others of both), or one gloss of the idiom (as in the
    paper)."""
    gloss_tokens: Annotated[Count, Option("Senses and meanings")] = 60
    """Tokens that the one gloss of --meanings gloss may have."""
    dictionaries: Dictionaries = ("wordnet",)
    track: Annotated[Track | None, Option("Scoring")] = None
    """Parts of the candidates that are compared and shown; else all images and captions that the
    encoder can read and the chat model can see."""
    scoring: Scoring = Scoring()
    """How similarities become scores."""
    head: Annotated[str | Path | None, Option("Models")] = None
    """Head written by admire train head; queries and candidates are compared in its space."""
    prompts: PromptFolder = None
    detector: Annotated[str | Path | None, Option("Senses and meanings")] = None
    """File of admire train detector or folder of admire train classifier; else the built-in
    detector."""
    llm_url: LlmUrl = None
    seed: SampleSeed = 0
    plugins: dict[str, dict[str, Any]] = field(default_factory=dict, hash=False)
    """Settings of plug-ins by their names, as {"length": {"longest": 10}}. On the command line and
    in files each has an option of its own, as --length-longest 10."""

    def __post_init__(self) -> None:
        if not self.rankers or len(set(self.rankers)) < len(self.rankers):
            raise UserError(
                f"rankers cannot be {self.rankers!r}: it names one or more, each once.", "rankers"
            )
        if self.abstain_below and self.query != "meaning" and not self.looks:
            raise UserError(
                f"The query {self.query} predicts no sense to be unsure of.",
                "abstain_below",
                "query",
            )

    @property
    def compares(self) -> bool:
        """True if an encoder compares candidates with texts."""
        return "embeddings" in self.rankers

    @property
    def judges(self) -> tuple[str, ...]:
        """The rankers that judge candidates, all but ``embeddings``."""
        return tuple(name for name in self.rankers if name != "embeddings")

    @property
    def looks(self) -> bool:
        """True if chat models look at the candidates, or another ranker scores them."""
        return bool(self.judges)


@settings(frozen=True)
class Asking:
    """How chat models are asked, which is no part of a run's settings."""

    parallel: Annotated[Count | None, Option("Chat models and costs", in_file=False)] = None
    """Questions that a server gets at the same time (default: 8)."""
    timeout: Annotated[Positive | None, Option("Chat models and costs", in_file=False)] = None
    """Seconds that a server may take for a whole answer (default: 60)."""
    budget: Annotated[
        Positive | None, Option("Chat models and costs", daily=True, in_file=False)
    ] = None
    """US dollars for replies that are not in the cache; questions under way may overshoot it."""
    fresh: Annotated[bool, Option("Chat models and costs", in_file=False)] = False
    """Ask anew, and replace the replies that were kept before. Leave it out to go on after a stop.
    """


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
UoR-NCL's Table 2 (CI, ensemble, XLM-32); OpenAI retires its GPTs by 2027-01-14. In ``vision`` a
strong model looks at the candidates, and the embedded encoders compare them; in ``vision-local`` a
small one does, a candidate at a time, on a server on this machine. ``best`` is ``vision`` with
large encoders, which need a hub and want a GPU: what we would try first today. Only ``embedded``
has been measured, because no hub and no API can be reached here."""
