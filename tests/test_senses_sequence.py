from math import exp, sqrt

import numpy as np
import pytest
from toys import WordEncoder

from admire import Candidate, Item
from admire.senses.evidence import nearness, read_sequences

ITEM = Item(
    "night owl",
    "",
    candidates=(Candidate("a", caption="owl"), Candidate("b", caption="desk")),
    sequence=(Candidate("1", caption="night"), Candidate("2", caption="owl")),
)


def test_nearness_is_worked_out_by_hand():
    # Their mean vector is (1/4, 1/2, 1/4), so the spread is √(1 - 3/8). The sequence is the
    # compound's own words; of the candidates one has half of them.
    expected = (1 - 1 / sqrt(2) / 2) / sqrt(5 / 8)
    assert nearness([ITEM, ITEM], WordEncoder()) == pytest.approx([expected] * 2, abs=1e-6)


def test_a_sequence_is_likelier_literal_the_nearer_it_is(monkeypatch):
    monkeypatch.setattr("admire.senses.evidence.nearness", lambda *_: np.array([0.0811, 0.0711]))
    literal, tie = read_sequences([ITEM, ITEM], WordEncoder())
    assert literal.probability_idiomatic == pytest.approx(1 / (1 + exp(53.5 * 0.01)))
    assert (literal.label, tie.probability_idiomatic) == ("literal", pytest.approx(0.5))
