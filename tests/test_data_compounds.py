import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from repeats import quickly, repeating

from admire.data.compounds import find_compound, replace_compound


@pytest.mark.parametrize(
    ("sentence", "compound", "place"),
    [
        ("He is a Night Owl.", "night owl", "Night Owl"),
        ("Two night owls, hooting.", "night owl", "night owls"),
        ("They kicked the old bucket.", "kick the bucket", "kicked the old bucket"),
        ("Somos pés-frios.", "pé-frio", "pés-frios"),
        ("他是夜猫子啊", "夜猫子", "夜猫子"),
        ("Who spilled the beans?", "spill the beans", "spilled the beans"),
        ("She has made a real killing.", "make a killing", "made a real killing"),
        ("It blew my mind.", "blow someone's mind", "blew my mind"),
        ("He got on one's nerves, on hers.", "get on one's nerves", "got on one's nerves"),
        ("They Stood him in good stead.", "stand someone in good stead", "Stood him in good stead"),
        ("He was in a real fog.", "in the fog", "in a real fog"),
        ("Two flies on walls.", "fly on the wall", "flies on walls"),
        ("Test eden kişi.", "test etmek", "Test eden"),
        ("KALTE FÜSSE!", "kalte Füße", "KALTE FÜSSE"),
        ("Er hat kalte Füße.", "KALTE FÜSSE", "kalte Füße"),
        ("o İKİ YÜZLÜ adam", "iki yüzlü", "İKİ YÜZLÜ"),
        ("هو قَلْبٌ أَبْيَضُ جدا", "قلب أبيض", "قَلْبٌ أَبْيَضُ"),
        ("הוא שלום עליכם", "שָׁלוֹם עֲלֵיכֶם", "שלום עליכם"),
        ("می\u200cخواهم بروم", "میخواهم", "می\u200cخواهم"),
    ],
)
def test_a_compound_is_found_as_the_sentence_has_it(sentence, compound, place):
    assert sentence[slice(*find_compound(sentence, compound))] == place


def test_a_compound_is_replaced_where_it_is_found():
    assert replace_compound("Night owls hoot.", "night owl", "They") == "They hoot."
    assert find_compound("Nobody is here.", "night owl") is None
    assert replace_compound("Nobody is here.", "night owl", "They") is None
    assert replace_compound("Nobody is here.", "!?", "They") is None
    assert find_compound("Nobody is here.", "someone's") is None
    assert find_compound("Once Mona came.", "on the money") is None


def by_one_expression(sentence: str, compound: str) -> tuple[int, int] | None:
    """What is to be found; this takes exponential time."""
    match = re.search(re.escape(compound) + r"[a-zà-öø-ÿ]{0,3}", sentence, re.IGNORECASE)
    if match is None:
        stems = [re.escape(word[: max(3, len(word) - 3)]) for word in re.findall(r"\w+", compound)]
        between = r"\W+(?:\w+\W+){0,2}?"
        match = re.search(between.join(rf"\b{stem}\w*" for stem in stems), sentence, re.IGNORECASE)
    return match.span() if match else None


PIECES = ("aaa", "aaab", "AAA", "b", "zzz", " ", "-", ", ", "é", "_", "1")
WORDS = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)
COMPOUNDS = WORDS.filter(lambda text: re.search(r"\w", text) or not text)
SOME = st.lists(st.sampled_from(("aaa", "aaab", "b", "zzzz")), min_size=1, max_size=5)


@given(st.tuples(WORDS, COMPOUNDS) | st.tuples(SOME.map(" ".join), SOME.map("-".join)))
def test_a_place_is_that_of_one_regular_expression(texts: tuple[str, str]):
    assert find_compound(*texts) == by_one_expression(*texts)


@given(repeating("aaa ", "aaab ", "b", " ", "-"), repeating("aaa ", "aaab", "zzz", "-", times=40))
def test_what_repeats_is_searched_at_once(sentence: str, compound: str):
    with quickly():
        find_compound(sentence, compound)


@pytest.mark.parametrize(
    ("sentence", "compound"),
    [
        ("aaa " * 80, "aaa " * 25 + "zzz"),
        ("aaa " * 5_000, "aaa " * 75 + "zzz"),
        ("a" * 20_000, "a" * 300 + " z"),
        ("a" * 40 + " b" * 2_000, " ".join("a" * k for k in range(1, 24))),
    ],
)
def test_a_long_compound_takes_time_linear_in_the_sentence(sentence: str, compound: str):
    with quickly():
        assert find_compound(sentence, compound) is None
