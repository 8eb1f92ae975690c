"""Which sense of a compound is meant, what it means, and which candidates show it best."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from admire.errors import UserError
    from admire.items import SAMPLES, Candidate, Item, read_items
    from admire.run import Run, rank
    from admire.run_folder import compare_runs, write_run
    from admire.scorer import Scoring
    from admire.settings import PROFILES, Settings
    from admire.submission import read_submission

_HOMES = {
    "PROFILES": "settings",
    "SAMPLES": "items",
    "Candidate": "items",
    "Item": "items",
    "Run": "run",
    "Scoring": "scorer",
    "Settings": "settings",
    "UserError": "errors",
    "compare_runs": "run_folder",
    "rank": "run",
    "read_items": "items",
    "read_submission": "submission",
    "write_run": "run_folder",
}
__all__ = [
    "PROFILES",
    "SAMPLES",
    "Candidate",
    "Item",
    "Run",
    "Scoring",
    "Settings",
    "UserError",
    "compare_runs",
    "rank",
    "read_items",
    "read_submission",
    "write_run",
]

# In a source checkout `prompts` lies beside this package; installed, it lies in it.
_checkout = Path(__file__).parent.parent
if (_checkout / "pyproject.toml").is_file():
    __path__.append(str(_checkout))


def __getattr__(name: str) -> Any:
    # pandas and the rest are imported when they are used, so that `import admire` is instant.
    if name not in _HOMES:
        raise AttributeError(f"module 'admire' has no attribute '{name}'")
    return getattr(import_module(f"admire.{_HOMES[name]}"), name)
