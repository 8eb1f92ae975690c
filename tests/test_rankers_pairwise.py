import pytest
from judges import Judge, item_of, settings

from admire import rank


def test_comparisons_that_a_liking_for_the_first_decides_are_a_draw():
    judge = Judge({"a": 0.5, "b": 0.4, "c": 0.0}, first=0.2)
    (ranking,) = rank([item_of(["a", "b", "c"])], settings("pairwise"), llms=[judge]).rankings
    (judgement,) = ranking.judgements
    assert judgement.scores[0] == judgement.scores[1] > judgement.scores[2]
    assert judgement.agreement == pytest.approx(2 / 3)
