from .errors import UserError
from .items import SAMPLES, Candidate, Item, read_items
from .run import Run, rank
from .run_folder import compare_runs, write_run
from .scorer import Scoring
from .settings import PROFILES, Settings
from .submission import read_submission

__version__: str

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
