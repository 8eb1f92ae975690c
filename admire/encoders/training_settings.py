"""How heads and encoders are trained."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from admire.core.choices import TrainingPrecision
from admire.core.errors import UserError
from admire.core.options import EncoderDevice, Option, Panel, RemoteCode
from admire.core.schema import Count, Positive, Seed, Weight, settings

Folds = Annotated[int, Field(ge=2)]
WarmupShare = Annotated[float, Field(ge=0, lt=1)]

DATA: Panel = "Data and output"
LEARNED: Panel = "What is learned"
LOSS: Panel = "Loss"
OPTIMISER: Panel = "Optimiser"


@settings(frozen=True)
class HeadTraining:
    """How a head is made and trained; the defaults are in the paper's grid (section 3)."""

    hidden: Annotated[Count, Option(LEARNED)] = 768
    """Width of the first layer."""
    output: Annotated[Count, Option(LEARNED)] = 768
    """Width of the second layer."""
    dropout: Annotated[float, Field(ge=0, lt=1), Option(LEARNED)] = 0.3
    """Dropout between the two layers."""
    residual: Annotated[bool, Option(LEARNED)] = False
    """Add the head's output to its input, so that an untrained head changes little (not the
    paper's). The output then has the encoder's width."""
    glosses_only: Annotated[bool, Option(LEARNED)] = False
    """Learn from glosses, and compare them alone in the head's space (not the paper's)."""
    batch_size: Annotated[Count, Option(OPTIMISER)] = 16
    """Items in a batch."""
    learning_rate: Annotated[Positive, Option(OPTIMISER)] = 1e-4
    """Learning rate of Adam."""
    weight_decay: Annotated[Weight, Option(OPTIMISER)] = 0.0
    """Weight decay of AdamW; 0 is plain Adam."""
    soft_negatives: Annotated[int, Field(ge=0), Option(LOSS)] = 30
    """Candidates of other compounds for each item (the paper's K), drawn anew in each epoch."""
    temperature: Annotated[Positive, Option(LOSS)] = 0.1
    """Temperature τ of equation 1."""
    epochs: Annotated[Count, Option(OPTIMISER, daily=True)] = 200
    """Epochs at most."""
    patience: Annotated[Count, Option(OPTIMISER)] = 10
    """Epochs without a lower validation loss after which training stops."""
    seed: Annotated[Seed, Option(OPTIMISER)] = 0
    """Seed of weights, batches, dropout and draws."""


@settings(frozen=True)
class FitSettings:
    """How an encoder is fine-tuned."""

    batch_size: Annotated[Count, Option(OPTIMISER)] = 16
    """Rows or sentences in a batch."""
    learning_rate: Annotated[Positive, Option(OPTIMISER)] = 2e-5
    """Learning rate of AdamW at its highest, with a linear schedule."""
    weight_decay: Annotated[Weight, Option(OPTIMISER)] = 0.01
    """Weight decay of AdamW; norms, biases and the vectors of added tokens have none."""
    warmup: Annotated[Count | WarmupShare, Option(OPTIMISER)] = 0.1
    """Steps in which the learning rate rises: a number of them, or below 1 their share."""
    epochs: Annotated[Count, Option(OPTIMISER, daily=True)] = 10
    """Epochs at most."""
    keep: Annotated[Literal["best", "last"] | Count, Option(OPTIMISER)] = "best"
    """Epoch to keep: the best on the validation data, the last of all, or the one of a number."""
    patience: Annotated[Count, Option(OPTIMISER)] = 3
    """Epochs without a better figure on the validation data after which training stops, where the
    best is kept."""
    precision: Annotated[TrainingPrecision, Option("Models")] = "float32"
    """Precision of training; bfloat16 takes about 0.6 of the time on processors that support it."""
    seed: Annotated[Seed, Option(OPTIMISER)] = 0
    """Seed of all that is drawn."""

    def __post_init__(self) -> None:
        if isinstance(self.keep, int) and self.keep > self.epochs:
            raise UserError(
                f"Epoch {self.keep} cannot be kept: there are {self.epochs} epochs.",
                "keep",
                "epochs",
            )


@settings(frozen=True, kw_only=True)
class StartEncoder:
    """The encoder that a training begins with."""

    encoder: Annotated[str, Option("Models", daily=True)]
    """Encoder to begin with: sbert:REPOSITORY or sbert:FOLDER."""
    device: EncoderDevice = "auto"
    trust_remote_code: RemoteCode = False


@settings(frozen=True, kw_only=True)
class ValidationFiles:
    """The data by which the best epoch is chosen."""

    validation: Annotated[Path | None, Option(DATA, daily=True)] = None
    """File to choose the epoch by (default: a tenth of the training data is held out)."""
    validation_gold: Annotated[Path | None, Option(DATA, daily=True)] = None
    """Gold file of the validation data, if they have no labels."""

    def __post_init__(self) -> None:
        if self.validation_gold and not self.validation:
            raise UserError("The gold labels of a validation file need that file.", "validation")
