"""How a projection head is made and trained."""

from __future__ import annotations

from dataclasses import dataclass

from admire.errors import UserError


@dataclass(frozen=True)
class TrainSettings:
    """How a head is made and trained; the defaults lie in the paper's grid (section 3).

    Attributes:
        hidden, output: widths of the two layers; the paper fixes the output at 768.
        dropout: between the layers.
        residual: add the head's output to its input, so that an untrained head changes little;
            ``output`` is then the encoder's width. Not in the paper.
        glosses_only: learn from glosses, and compare only them in the head's space; compounds are
            compared in the encoder's. Not in the paper.
        batch_size, learning_rate, weight_decay: of Adam (with decoupled decay, where there is one).
        soft_negatives: K, candidates of other compounds for each anchor, drawn anew each epoch.
        temperature: τ of equation 1.
        epochs, patience: at most so many, and so many without a lower validation loss.
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
        for name, holds in (
            ("hidden", self.hidden >= 1),
            ("output", self.output >= 1),
            ("dropout", 0 <= self.dropout < 1),
            ("batch_size", self.batch_size >= 1),
            ("learning_rate", self.learning_rate > 0),
            ("weight_decay", self.weight_decay >= 0),
            ("soft_negatives", self.soft_negatives >= 0),
            ("temperature", self.temperature > 0),
            ("epochs", self.epochs >= 1),
            ("patience", self.patience >= 1),
        ):
            if not holds:
                raise UserError(f"{name} cannot be {getattr(self, name)}.")
