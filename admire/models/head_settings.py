"""How a projection head is made and trained."""

from __future__ import annotations

from dataclasses import dataclass

from admire.base.choices import Number, check_settings

FOLDS = Number(2, whole=True)
"""How many folds a cross-validation may have."""


@dataclass(frozen=True)
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

    hidden: int = 768
    output: int = 768
    dropout: float = 0.3
    residual: bool = False
    glosses_only: bool = False
    batch_size: int = 16
    learning_rate: float = 1e-4
    weight_decay: float = 0.0
    soft_negatives: int = 30
    temperature: float = 0.1
    epochs: int = 200
    patience: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        check_settings(
            self,
            hidden=Number(1, whole=True),
            output=Number(1, whole=True),
            dropout=Number(0, 1, below=True),
            residual=bool,
            glosses_only=bool,
            batch_size=Number(1, whole=True),
            learning_rate=Number(0, above=True),
            weight_decay=Number(0),
            soft_negatives=Number(0, whole=True),
            temperature=Number(0, above=True),
            epochs=Number(1, whole=True),
            patience=Number(1, whole=True),
            seed=Number(0, whole=True),
        )
