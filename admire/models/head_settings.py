"""How heads and encoders are trained."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from admire.base.schema import Count, Positive, Seed, Weight, settings

Folds = Annotated[int, Field(ge=2)]
"""How many folds a cross-validation may have."""


@settings(frozen=True)
class HeadTraining:
    """How a head is made and trained; the defaults are in the paper's grid (section 3).

    Attributes:
        hidden, output: widths of the two layers. The paper's output is 768.
        dropout: between the layers.
        residual: add the head's output to its input, so that an untrained head changes little. The
            output then has the encoder's width, and ``output`` is not used. Not in the paper.
        glosses_only: learn from glosses alone, and compare only glosses in the head's space;
            compounds are compared in the encoder's space. Not in the paper.
        batch_size, learning_rate: of Adam.
        weight_decay: of AdamW; 0 is plain Adam.
        soft_negatives: the paper's K: how many candidates of other compounds each anchor has as
            negatives, drawn anew in each epoch.
        temperature: τ of equation 1.
        epochs: how many there are at most.
        patience: training stops after this many epochs without a lower validation loss.
        seed: of weights, batches, dropout and draws.
    """

    hidden: Count = 768
    output: Count = 768
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.3
    residual: bool = False
    glosses_only: bool = False
    batch_size: Count = 16
    learning_rate: Positive = 1e-4
    weight_decay: Weight = 0.0
    soft_negatives: Annotated[int, Field(ge=0)] = 30
    temperature: Positive = 0.1
    epochs: Count = 200
    patience: Count = 10
    seed: Seed = 0


@settings(frozen=True)
class FitSettings:
    """How an encoder is fine-tuned.

    Attributes:
        batch_size, learning_rate, weight_decay: of AdamW, with a linear schedule.
        warmup: the share of the steps in which the learning rate rises.
        epochs: how many there are at most.
        patience: training stops after this many epochs without a better figure on validation.
        precision: of the matrix products. bfloat16 takes about 0.6 of the time on processors that
            support it.
        seed: of everything that is drawn.
    """

    batch_size: Count = 16
    learning_rate: Positive = 2e-5
    weight_decay: Weight = 0.01
    warmup: Annotated[float, Field(ge=0, lt=1)] = 0.1
    epochs: Count = 10
    patience: Count = 3
    precision: Literal["float32", "bfloat16"] = "float32"
    seed: Seed = 0
