from .errors import UserError, Waiting
from .forecast import Forecast, plan
from .items import SAMPLES, Candidate, Item, read_items
from .past_runs import compare_runs
from .run import Run, rank
from .run_folder import write_run
from .scorer import Scoring
from .settings import PROFILES, Asking, Settings
from .submission import read_submission

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
