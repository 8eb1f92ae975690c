"""Settings of retrieval and of training for it, and the values that they can have."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Literal, get_args

from pydantic import Field

from admire.core import options as opt
from admire.core.errors import UserError
from admire.core.options import Option
from admire.core.schema import SEVERAL, Count, Positive, Weight, check_once, settings
from admire.encoders.training_settings import DATA, LEARNED, LOSS, FitSettings, StartEncoder
from admire.rankers.settings import Scoring

FolderName = Literal["train", "val", "test"]
SPLITS: tuple[str, ...] = get_args(FolderName)  #: the folders of a benchmark

SplitName = Literal[FolderName, "test-gold", "test-silver"]
"""A folder, or of ``test`` the PIEs whose texts people checked (gold) or not (IdioLink, 3.2.3)."""

Usage = Literal["literal", "idiomatic", "simplification", "sense", "distractor"]
"""Usages of documents. A ``distractor`` (ours) misses the meaning: it is relevant to no query."""

QueryForm = Literal["sentence", "span", "instruction+sentence", "instruction+span"]
"""What of a query is encoded: the paper's four configurations (section 4.1)."""

ComparedForm = Literal[QueryForm, "meaning"]
"""What of a query is compared with documents: one of the four forms, or its sense and gloss."""

InstructionFormat = Literal[
    "auto", "instruct", "qwen3", "bge-gemma2", "gritlm", "tart", "nomic", "prompt", "plain"
]
"""How an instruction is given to an encoder: see :data:`queries.PROMPTS`."""

Bm25Variant = Literal["robertson", "okapi"]
"""Whose BM25: Robertson's, or Okapi's as the package rank_bm25 computes it."""

QueryInstruction = Annotated[
    InstructionFormat,
    Option(
        LEARNED,
        help="How an instruction is given: as 'Instruct: … Query: …', as a family of models "
        "has it, as the prompt argument of sentence-transformers, or plainly before the query; "
        "auto goes by the model's name.",
    ),
]


@settings(frozen=True, kw_only=True)
class QuerySettings:
    """Settings that retrieval and search share."""

    llm: Annotated[str, Option(opt.CHAT_MODELS, completes="chat")] = "embedded"
    """Chat model for senses and glosses, as for rank."""
    llm_url: opt.LlmUrl = None
    sense: opt.DecidedBy = "auto"
    contrast: Annotated[Weight | None, Option("Scoring")] = None
    """Penalty for similarity to the bare expression if the sense is idiomatic (default: 0 for
    texts, 1 for pictures)."""
    lang: Annotated[str | None, Option(DATA)] = None
    """Language of queries, for the prompts (default: detected)."""
    prompts: opt.PromptFolder = None
    dictionaries: opt.Dictionaries = ("wordnet",)
    device: opt.EncoderDevice = "auto"
    seed: opt.SampleSeed = 0

    @property
    def scoring(self) -> Scoring:
        """The formula that makes a score of the similarities to gloss and expression."""
        return Scoring.paper(gate="soft", contrast=self.contrast or 0.0, standardise="item")


@settings(frozen=True, kw_only=True)
class RetrieveSettings(QuerySettings):
    """What is retrieved, and how."""

    encoder: Annotated[tuple[str, ...], SEVERAL, Option("Models", completes="encoder")] = ("e5",)
    """bm25, or an encoder of texts: e5, sbert:REPOSITORY, sbert:FOLDER. Repeat for an ensemble: the
    mean of the scores, each standardised over the documents."""
    query: Annotated[ComparedForm, Option("Scoring")] = "sentence"
    """Part of a query that is compared with the documents; meaning is sense and gloss, as in rank.
    BM25 takes sentence or span."""
    split: Annotated[SplitName, Option(DATA)] = "test"
    """Split to score; test-gold has the PIEs that people checked whole, test-silver the others."""
    usage: Annotated[tuple[Usage, ...], Option(DATA)] = ()
    """Usage of documents to keep in the index (default: all). Repeat for several."""
    gold: Annotated[bool, Option(DATA)] = False
    """Only queries and documents that people checked."""
    long_texts: opt.ReadingOfLongTexts = "parts"
    trust_remote_code: opt.RemoteCode = False
    instruction_format: QueryInstruction = "auto"
    bm25_variant: Annotated[Bm25Variant, Option("Scoring")] = "robertson"
    """Formula of BM25: Robertson's, or rank_bm25's Okapi, which the paper has."""
    k1: Annotated[Weight | None, Option("Scoring")] = None
    """Parameter k1 of BM25 (default: k1 and b are tuned on val; the paper's are 0.9 and 0.4)."""
    b: Annotated[Annotated[float, Field(ge=0, le=1)] | None, Option("Scoring")] = None
    """Parameter b of BM25."""

    def __post_init__(self) -> None:
        check_once("encoder", self.encoder)
        if "bm25" in self.encoder and self.query not in ("sentence", "span"):
            raise UserError(
                f"BM25 cannot compare by '{self.query}'. Use 'sentence' or 'span'.", "query"
            )
        if (self.k1 is None) != (self.b is None):
            raise UserError("Give both k1 and b, or neither.", "k1", "b")


@settings(frozen=True)
class RetrieverTraining:
    """How an encoder is fine-tuned for retrieval."""

    query: Annotated[QueryForm, Option(LEARNED, daily=True)] = "sentence"
    """Part of a query that is encoded, in training and in evaluation: the paper's four
    configurations."""
    instruction_format: QueryInstruction = "auto"
    soft_negatives: Annotated[int, Field(ge=0), Option(LOSS)] = 3
    """Documents of other PIEs for each query (α_N)."""
    hard_negatives: Annotated[int, Field(ge=0), Option(LOSS)] = 3
    """Documents of the same PIE in its other sense (α_H)."""
    positive_in_denominator: Annotated[bool, Option(LOSS)] = False
    """Use the usual form of the loss; the paper's equation 2 has only the negatives in its
    denominator."""
    in_batch: Annotated[bool, Option(LOSS)] = False
    """Also take the other positives of a batch as negatives, as the authors' code does."""
    temperature: Annotated[Positive, Option(LOSS)] = 1.0
    """Divisor of cosines in the loss; the paper has none, which is 1."""
    fit: FitSettings = field(default_factory=FitSettings)
    """Settings of the trainer."""

    def __post_init__(self) -> None:
        if self.soft_negatives + self.hard_negatives < 1:
            raise UserError(
                "There must be negatives, soft or hard.", "soft_negatives", "hard_negatives"
            )


@settings(frozen=True, kw_only=True)
class RetrieverStart(StartEncoder):
    """The encoder that training begins with, and how often it is trained."""

    seeds: Annotated[Count, Option(DATA)] = 1
    """Models to train, with seeds from --seed; the figures are mean ± deviation."""
