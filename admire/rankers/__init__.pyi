from .aggregate import agreement, borda, bradley_terry, kemeny
from .judge import check_candidates, judge
from .judgement import Answer, Judgement
from .listwise import judge_listwise
from .pairwise import judge_pairwise
from .pointwise import judge_pointwise

__all__ = [
    "Answer",
    "Judgement",
    "agreement",
    "borda",
    "bradley_terry",
    "check_candidates",
    "judge",
    "judge_listwise",
    "judge_pairwise",
    "judge_pointwise",
    "kemeny",
]
