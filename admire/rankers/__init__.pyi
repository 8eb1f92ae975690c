from .aggregate import agreement, borda, bradley_terry, kemeny
from .embeddings import (
    RunEncoder,
    look_where_no_caption_is,
    open_encoders,
    shares_no_view,
)
from .judge import open_rankers, open_together
from .judgement import Answer, Judgement, Part
from .ranker import Ranker, any_ranker, open_ranker

__all__ = [
    "Answer",
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
    "open_encoders",
    "open_ranker",
    "open_rankers",
    "open_together",
    "shares_no_view",
]
