from .aggregate import agreement, borda, bradley_terry, kemeny
from .embeddings import (
    Comparison,
    compare,
    look_where_no_caption_is,
    open_encoders,
    open_head,
    shares_no_view,
)
from .judge import check_candidates, judge
from .judgement import Answer, Judgement, check_answers
from .likelihood import judge_likelihood
from .listwise import judge_listwise
from .pairwise import judge_pairwise
from .pointwise import judge_pointwise

__all__ = [
    "Answer",
    "Comparison",
    "Judgement",
    "agreement",
    "borda",
    "bradley_terry",
    "check_answers",
    "check_candidates",
    "compare",
    "judge",
    "judge_likelihood",
    "judge_listwise",
    "judge_pairwise",
    "judge_pointwise",
    "kemeny",
    "look_where_no_caption_is",
    "open_encoders",
    "open_head",
    "shares_no_view",
]
