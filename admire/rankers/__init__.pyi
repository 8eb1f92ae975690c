from .aggregate import agreement, borda, bradley_terry, kemeny
from .judgement import Answer, Judgement, Part
from .ranker import ComparingRanker, Ranker, any_ranker, open_comparing, open_rankers
from .run_encoders import (
    RunEncoder,
    look_where_no_caption_is,
    open_encoders,
    shares_no_view,
)

__all__ = [
    "Answer",
    "ComparingRanker",
    "Judgement",
    "Part",
    "Ranker",
    "RunEncoder",
    "agreement",
    "any_ranker",
    "borda",
    "bradley_terry",
    "kemeny",
    "look_where_no_caption_is",
    "open_comparing",
    "open_encoders",
    "open_rankers",
    "shares_no_view",
]
