"""How sentence pairs are compared, and how and for what encoders are fine-tuned."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from admire.core import options as opt
from admire.core.options import Option
from admire.core.schema import Count, Positive, Weight, settings
from admire.encoders.training_settings import (
    DATA,
    LEARNED,
    LOSS,
    OPTIMISER,
    FitSettings,
    ValidationFiles,
)

Objective = Literal[
    "adaptive",
    "multi-negative",
    "consistent",
    "triplet+ranking",
    "self-labelled",
    "simcse",
    "regression",
    "classification",
    "cosent",
]
"""Whose they are, :attr:`SentenceTraining.objective` says; see He et al., section 3, YNU-HPCC,
section 2.2, ChengyuSTS, equation 2, and :class:`admire.tasks.sts.training.ConsistencyLoss`."""

FROM_PAIRS: tuple[Objective, ...] = ("regression", "classification", "cosent")
"""Objectives that learn from pairs with similarities. The others learn from groups."""

TRIPLET_LOSSES: tuple[Objective, ...] = ("adaptive", "multi-negative")
"""He et al.'s objectives, whose rows are single sentences with labels."""

TrainingSetting = Literal["pre_train", "fine_tune"]
"""The two settings of Task 2B, by which a submission says whether its training data was used."""


@settings(frozen=True, kw_only=True)
class VectorSettings:
    """How a sentence encoder makes vectors, if not in its own way."""

    pooling: Annotated[Literal["mean", "cls", "first-last-avg"] | None, Option("Models")] = None
    """Pooling of an sbert: model's last layer: mean of all tokens, or the first token (cls; in
    XLNet the last one); first-last-avg (YNU-HPCC) is the mean of the first and the last layer
    (default: the model's own)."""
    last_layers: Annotated[int, Field(ge=1, le=2), Option("Models")] = 1
    """Layers to pool: the last one, or the mean of the last two (He et al.)."""
    max_length: Annotated[Annotated[int, Field(ge=8)] | None, Option("Models")] = None
    """Maximum sequence length in tokens, up to the number of positions that the model has (default:
    the model's)."""
    drop_dense: Annotated[bool, Option("Models")] = False
    """Leave out the dense layer behind the pooling (YNU-HPCC)."""

    @property
    def changes(self) -> dict[str, Any]:
        """The settings that are not the model's own way."""
        usual = vars(VectorSettings())
        return {name: getattr(self, name) for name in usual if getattr(self, name) != usual[name]}


@settings(frozen=True, kw_only=True)
class SimilaritySettings(VectorSettings):
    """What measures similarity."""

    encoder: Annotated[str, Option("Models", completes="encoder")] = "e5"
    """Encoder of texts: e5 or sbert:…"""
    llm: Annotated[str | None, Option("Chat models and costs", completes="chat")] = None
    """Chat model that rates the pairs in place of an encoder."""
    long_texts: opt.ReadingOfLongTexts = "parts"
    llm_url: opt.LlmUrl = None
    device: opt.EncoderDevice = "auto"
    trust_remote_code: opt.RemoteCode = False
    prompts: opt.PromptFolder = None
    seed: opt.SampleSeed = 0


@settings(frozen=True)
class SentenceTraining(VectorSettings):
    """How a sentence encoder is fine-tuned."""

    objective: Annotated[Objective, Option(LEARNED, daily=True)] = "adaptive"
    """Objective: He et al.'s adaptive and multi-negative; YNU-HPCC's triplet+ranking, regression,
    classification, cosent and its baseline self-labelled; ChengyuSTS's simcse; our own
    consistent."""
    miner_margin: Annotated[Weight, Option(LOSS)] = 0.4
    """Margin of He et al.'s miner: a triplet is used if its negative is less than this farther from
    the anchor than its positive (Euclidean distance of unit vectors)."""
    margin: Annotated[Weight | None, Option(LOSS)] = None
    """Margin of the triplet loss, and of consistent (default: the paper's, 0.3 for He et al. and
    0.1 for YNU-HPCC; 0 for consistent)."""
    temperature: Annotated[Positive, Option(LOSS)] = 0.05
    """Divisor of cosines in SimCSE, ranking, CoSENT (0.05 is its λ = 20) and consistent."""
    mwe_tokens: Annotated[bool, Option(LEARNED, daily=True)] = False
    """Make each expression a token of its own. The vectors of all other tokens then stay."""
    token_rate: Annotated[Positive, Option(OPTIMISER)] = 1e-3
    """Learning rate of these tokens' vectors, which are in few batches (the papers': 2e-5)."""
    shuffle: Annotated[bool, Option(OPTIMISER)] = True
    """Shuffle the groups to learn from. Without it they are in the order of the files (He et al.),
    which adaptive, multi-negative and consistent allow."""
    repeat: Annotated[Count, Option(LOSS)] = 1
    """Repeat the groups of rare expressions up to this number."""
    sts_weight: Annotated[Positive, Option(LOSS)] = 1.0
    """Weight of the loss on pairs that are mixed in."""
    fit: FitSettings = field(default_factory=FitSettings)
    """Settings of the trainer. The batch size counts single sentences for adaptive and
    multi-negative, and rows of two or three sentences for the others."""


@settings(frozen=True, kw_only=True)
class SentenceFiles(ValidationFiles):
    """What a sentence encoder learns from besides the training data, and is validated on."""

    sts: Annotated[tuple[Path, ...], Option(DATA, daily=True)] = ()
    """Pairs to mix in by CoSENT, so that general similarity is kept; of STS Benchmark and of a
    folder the split train. Repeat for several."""
    leave_out: Annotated[tuple[Path, ...], Option(DATA)] = ()
    """Pairs whose sentences must not be learned from. Repeat for several."""
    mwes: Annotated[tuple[Path, ...], Option(DATA)] = ()
    """Expressions that --mwe-tokens makes tokens of besides those of the data: a file of Task 2B,
    or a .txt with one a line. Repeat for several."""
