from .aggregate import agreement, borda, bradley_terry, kemeny
from .embeddings import (
    Comparison,
    RunEncoder,
    compare,
    look_where_no_caption_is,
    open_encoders,
    shares_no_view,
)
from .judge import judge, open_rankers, recorded_orders
from .judgement import Answer, Judgement, check_answers
from .ranker import Ranker, any_ranker, open_ranker

__all__ = [
    "Answer",
    "Comparison",
    "Judgement",
    "Ranker",
    "RunEncoder",
    "agreement",
    "any_ranker",
    "borda",
    "bradley_terry",
    "check_answers",
    "compare",
    "judge",
    "kemeny",
    "look_where_no_caption_is",
    "open_encoders",
    "open_ranker",
    "open_rankers",
    "recorded_orders",
    "shares_no_view",
]
