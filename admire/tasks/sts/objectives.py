"""What sentence encoders can be fine-tuned for."""

from __future__ import annotations

from typing import Literal, get_args

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
"""``adaptive`` and ``multi-negative`` are He et al.'s (section 3, equation 5); ``triplet+ranking``
(fine-tune setting), ``regression``, ``classification`` and ``cosent`` (pre-train setting) are
YNU-HPCC's; ``simcse`` is ChengyuSTS's (equation 2); ``consistent`` is ours, see
:class:`admire.tasks.sts.losses.ConsistencyLoss`."""

OBJECTIVES: tuple[Objective, ...] = get_args(Objective)
"""All training objectives."""

FROM_PAIRS: tuple[Objective, ...] = ("regression", "classification", "cosent")
"""Objectives that learn from pairs with similarities. The others learn from groups."""

TRIPLET_LOSSES: tuple[Objective, ...] = ("adaptive", "multi-negative")
"""He et al.'s objectives, whose rows are single sentences with labels."""

TrainingSetting = Literal["pre_train", "fine_tune"]
"""The two settings of Task 2B, by which a submission says whether its training data was used."""


def usual_batch_size(objective: Objective) -> int:
    """Return the default batch size: 64 single sentences, or 16 rows of several."""
    return 64 if objective in TRIPLET_LOSSES else 16
