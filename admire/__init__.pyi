from .base.errors import UserError
from .cli.reproduce import reproduce_table
from .data.frames import items_from_frame, items_to_frame
from .data.items import SAMPLES, Candidate, Item
from .data.reader import read_items
from .data.submission import read_submission
from .rankers.settings import PROFILES, Asking, Scoring, Settings
from .runs.forecast import Forecast, plan
from .runs.fusion import fuse
from .runs.past_runs import read_run
from .runs.ranking import Ranking, Run
from .runs.run import rank
from .runs.run_folder import write_run
from .runs.scoring import agreement, compare_runs, score
from .runs.single_item import rank_one
from .senses.interpretation import Interpretation

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
    "agreement",
    "compare_runs",
    "fuse",
    "items_from_frame",
    "items_to_frame",
    "plan",
    "rank",
    "rank_one",
    "read_items",
    "read_run",
    "read_submission",
    "reproduce_table",
    "score",
    "write_run",
]
