"""Which sense of a compound is meant, what it means, and which candidates show it best."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import lazy_loader

from admire.base.notebook import DRAWN_BY

if TYPE_CHECKING:
    from admire.base.errors import UserError
    from admire.data.frames import items_from_frame
    from admire.data.items import SAMPLES, Candidate, Item
    from admire.data.reader import read_items
    from admire.data.submission import read_submission
    from admire.rankers.settings import PROFILES, Asking, Scoring, Settings
    from admire.runs.forecast import Forecast, plan
    from admire.runs.fusion import fuse
    from admire.runs.past_runs import read_run
    from admire.runs.ranking import Ranking, Run
    from admire.runs.run import rank
    from admire.runs.run_folder import write_run
    from admire.runs.scoring import compare_runs, score
    from admire.runs.single_item import rank_one
    from admire.senses.interpretation import Interpretation

    __version__: str

__all__ = [
    "PROFILES",
    "SAMPLES",
    "Asking",
    "Candidate",
    "Forecast",
    "Interpretation",
    "Item",
    "Ranking",
    "Run",
    "Scoring",
    "Settings",
    "UserError",
    "compare_runs",
    "fuse",
    "items_from_frame",
    "plan",
    "rank",
    "rank_one",
    "read_items",
    "read_run",
    "read_submission",
    "score",
    "write_run",
]

# The hub's package reads it when it is imported, whichever part of admire does that.
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

# In a clone, prompts and augment lie beside this package; installed, they lie in it.
_clone = os.path.dirname(os.path.dirname(__file__))
if os.path.isfile(os.path.join(_clone, "pyproject.toml")):
    __path__.append(_clone)

DRAWN_BY["Run"] = "admire.pages.report.notebook:run_cards"

# pandas and the rest are imported when they are used, so that `import admire` is instant.
_public, _, _ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "base.errors": ["UserError"],
        "data.frames": ["items_from_frame"],
        "data.items": ["SAMPLES", "Candidate", "Item"],
        "data.reader": ["read_items"],
        "data.submission": ["read_submission"],
        "rankers.settings": ["PROFILES", "Asking", "Scoring", "Settings"],
        "runs.forecast": ["Forecast", "plan"],
        "runs.fusion": ["fuse"],
        "runs.single_item": ["rank_one"],
        "runs.past_runs": ["read_run"],
        "runs.ranking": ["Ranking", "Run"],
        "runs.run": ["rank"],
        "runs.run_folder": ["write_run"],
        "runs.scoring": ["compare_runs", "score"],
        "senses.interpretation": ["Interpretation"],
    },
)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib import metadata

        from admire.base.errors import DISTRIBUTION

        return metadata.version(DISTRIBUTION)
    return _public(name)
