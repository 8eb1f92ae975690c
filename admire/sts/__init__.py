"""Idiomatic semantic textual similarity: SemEval-2022 Task 2B and ChengyuSTS."""

from __future__ import annotations

from typing import Literal

Objective = Literal[
    "adaptive",
    "multi-negative",
    "consistent",
    "triplet+ranking",
    "simcse",
    "regression",
    "classification",
    "cosent",
]
"""What an encoder is fine-tuned for, see :class:`admire.sts.training.SentenceTraining`."""
