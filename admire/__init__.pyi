from .apps.reproduce.table import reproduce_table
from .core.errors import UserError
from .data.items import SAMPLES, Candidate, Item
from .data.reader import items_from_frame, read_items
from .data.sources import items_to_frame
from .data.submission import read_submission
from .pipeline.forecast import Forecast, plan
from .pipeline.fusion import fuse
from .pipeline.ranking import Ranking, Run
from .pipeline.run import rank, rank_one
from .pipeline.run_folder import read_run, write_run
from .pipeline.scoring import agreement, compare_runs, score
from .rankers.settings import PROFILES, RequestOptions, Scoring, Settings
from .senses.interpretation import Interpretation

__version__: str

__all__ = [
    "PROFILES",
    "SAMPLES",
    "Candidate",
    "Forecast",
    "Interpretation",
    "Item",
    "Ranking",
    "RequestOptions",
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
