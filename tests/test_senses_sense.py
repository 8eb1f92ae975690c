from __future__ import annotations

import pytest

from admire.errors import UserError
from admire.items import Item
from admire.senses import Sense, given, known_senses, sense_table


@pytest.mark.parametrize(
    ("probability", "confidence"), [(1.0, 1.0), (0.0, 1.0), (0.25, 0.75), (0.5, 0.5)]
)
def test_confidence_is_that_of_the_side_taken(probability: float, confidence: float):
    assert Sense(None, probability).confidence == confidence


@pytest.mark.parametrize(
    ("label", "expected"),
    [("idiomatic", Sense("idiomatic", 1.0, 1, 0)), ("literal", Sense("literal", 0.0, 0, 1))],
)
def test_the_sense_of_the_data_is_taken_as_it_is(label, expected: Sense):
    assert given(Item("night owl", "…", sentence_type=label)) == expected


def test_data_without_a_sense_is_named():
    with pytest.raises(UserError, match="'night owl'") as caught:
        given(Item("night owl", "…"))
    assert caught.value.settings == ("sense",)


def test_a_table_tells_what_was_decided_and_how_often_it_is_right():
    items = [
        Item("night owl", "A.", sentence_type="idiomatic"),
        Item("night owl", "B."),
        Item("big fish", "C.", sentence_type="literal"),
        Item("big fish", "D.", sentence_type="literal"),
    ]
    senses = [
        Sense("idiomatic", 0.8, 4, 1),
        Sense("literal", 0.2, 1, 4),
        Sense("idiomatic", 1.0, 3, 0, 2),
        Sense(None, 0.5, unparsed=5),
    ]

    table = sense_table(items, senses)

    votes = table[["idiomatic", "literal", "unparsed"]].to_numpy().tolist()
    assert votes == [[4, 1, 0], [1, 4, 0], [3, 0, 2], [0, 0, 5]]
    assert table["confidence"].tolist() == [0.8, 0.8, 1.0, 0.5]
    assert table["predicted_type"].isna().tolist() == [False, False, False, True]
    known = known_senses(table)
    assert known["sentence"].tolist() == ["A.", "C.", "D."]
    assert known["accuracy"].tolist() == [1.0, 0.0, 0.0]
