from .aggregate import agreement, borda, bradley_terry, kemeny
from .judgement import Answer, Judgement, Part
from .ranker import Ranker, any_ranker, judges_together, open_ranker, open_rankers
from .run_encoders import (
    RunEncoder,
    RunEncoders,
    look_where_no_caption_is,
    open_encoders,
    shares_no_view,
)

__all__ = [
    "Answer",
    "Judgement",
    "Part",
    "Ranker",
    "RunEncoder",
    "RunEncoders",
    "agreement",
    "any_ranker",
    "borda",
    "bradley_terry",
    "judges_together",
    "kemeny",
    "look_where_no_caption_is",
    "open_encoders",
    "open_ranker",
    "open_rankers",
    "shares_no_view",
]
