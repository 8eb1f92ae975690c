from __future__ import annotations

import pytest

from admire.data.compounds import find_compound, replace_compound


@pytest.mark.parametrize(
    ("sentence", "compound", "place"),
    [
        ("He is a Night Owl.", "night owl", "Night Owl"),
        ("Two night owls, hooting.", "night owl", "night owls"),
        ("They kicked the old bucket.", "kick the bucket", "kicked the old bucket"),
        ("Somos pés-frios.", "pé-frio", "pés-frios"),
        ("他是夜猫子啊", "夜猫子", "夜猫子"),
    ],
)
def test_a_compound_is_found_as_the_sentence_has_it(sentence, compound, place):
    assert sentence[slice(*find_compound(sentence, compound))] == place


def test_a_compound_is_replaced_where_it_is_found():
    assert replace_compound("Night owls hoot.", "night owl", "They") == "They hoot."
    assert find_compound("Nobody is here.", "night owl") is None
    assert replace_compound("Nobody is here.", "night owl", "They") is None
