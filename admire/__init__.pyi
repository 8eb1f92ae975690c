from .base.errors import UserError, Waiting
from .data.items import SAMPLES, Candidate, Item, read_items
from .data.submission import read_submission
from .rankers.scorer import Scoring
from .rankers.settings import PROFILES, Asking, Settings
from .runs.forecast import Forecast, plan
from .runs.past_runs import compare_runs
from .runs.run import Run, rank
from .runs.run_folder import write_run

__version__: str

__all__ = [
    "PROFILES",
    "SAMPLES",
    "Asking",
    "Candidate",
    "Forecast",
    "Item",
    "Run",
    "Scoring",
    "Settings",
    "UserError",
    "Waiting",
    "compare_runs",
    "plan",
    "rank",
    "read_items",
    "read_submission",
    "write_run",
]
