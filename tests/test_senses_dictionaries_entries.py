import logging
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from repeats import quickly, repeating

from admire.data.limits import LIMITS
from admire.senses.dictionaries import Entry, key_of, look_up, sort_by_sense, spellings

TEXTS = st.text(max_size=40) | st.text("ab’'-_ S ÉéßİΐΣς½ﬁ가क्षि\u200d\u0301", max_size=12)


@given(TEXTS)
def test_a_key_is_its_own_key_and_the_first_spelling(text: str):
    key = key_of(text)
    assert key_of(key) == key
    assert key_of(text.swapcase().swapcase()) == key_of(text.swapcase().swapcase().lower())
    for language in ("en", "pt"):
        found = list(spellings(text, language))
        assert found[:1] == ([key] if key else [])
        assert len(found) == len(set(found))


WORDS = ("stopped ", "cats'", "our", "é", "_", "-", "feet ", "greys ", "knives ")


@given(repeating(*WORDS, times=60), st.sampled_from(["en", "pt"]))
def test_spellings_of_what_repeats_are_listed_at_once(text: str, language: str):
    with quickly():
        assert len(list(spellings(text[: LIMITS["compound"]], language))) <= 300 * 8


def test_a_long_expression_has_one_spelling():
    with quickly():
        assert len(list(spellings("stopped cats " * 20_000, "en"))) == 1


@pytest.mark.parametrize(
    ("written", "entry"),
    [
        ("night-owl", "night owl"),
        ("nightowl", "night owl"),
        ("Night Owls", "night owl"),
        ("cat_s eyes", "cat’s-eye"),
        ("CAT'S EYE", "cats' eye"),
        ("color blind", "colour-blind"),
        ("colour-blind", "color blind"),
        ("gray matter", "grey matter"),
        ("spilled the beans", "spill the beans"),
        ("spilling the secret bean", "spill the beans"),
        ("long knives", "long knife"),
        ("cold feet", "cold foot"),
    ],
)
def test_a_spelling_is_found(written: str, entry: str):
    assert {key_of(entry), *spellings(entry, "en")} & set(spellings(written, "en"))


def test_what_differs_is_not_folded():
    assert key_of("काला") != key_of("कल")  # vowel signs
    assert key_of("maçã") != key_of("maca")
    assert list(spellings("gatos", "pt")) == ["gatos"]
    assert "foreyes" not in spellings("four eyes", "en")


def entries(*glosses: str) -> list[Entry]:
    """Entries of glosses, each with its tag after a slash."""
    pairs = [gloss.partition("/") for gloss in glosses]
    return [Entry("", gloss, "made up", tags=(tag,)) for gloss, _, tag in pairs]


@pytest.mark.parametrize(
    ("expression", "idiomatic", "literal"),
    [
        ("spring chicken", ["someone of few years"], ["a tender chicken"]),
        ("spring chicken", [], ["a chicken hatched in spring"]),
        ("flea market", ["an open-air market for used things/noun.group"], []),
        ("black sheep", ["who brings shame/noun.person"], ["sheep with dark wool/noun.animal"]),
        (
            "guinea pigs",
            ["who is tried something out on/noun.person"],
            ["a plump rodent/noun.animal", "the pig of Guinea"],
        ),
        ("big fish", ["a fish that is big/figuratively"], ["a star/literally"]),
        ("画蛇添足", ["多此一举"], []),
        ("—", ["a dash"], []),
    ],
)
def test_which_entry_is_of_which_sense(expression: str, idiomatic: list[str], literal: list[str]):
    glosses = [*literal, *idiomatic, *idiomatic, *literal]
    by_sense = sort_by_sense(entries(*glosses), expression, "en")
    assert [*by_sense.idiomatic] == entries(*idiomatic)
    assert [*by_sense.literal] == entries(*literal)


def test_an_entrys_own_words_tell_the_sense_of_a_joined_spelling():
    bird = Entry("night owl", "an owl of the night", "made up")
    assert sort_by_sense([bird], "nightowl", "en").literal == (bird,)


def toy(name: str, language: str, *expressions: str) -> SimpleNamespace:
    def found(key: str, _: str) -> list[Entry]:
        return [Entry(own, name, name) for own in expressions if key_of(own) == key]

    return SimpleNamespace(identity=name, name=name, languages={language}, entries=found)


def test_the_first_dictionary_that_has_it_tells(caplog: pytest.LogCaptureFixture):
    first, second = toy("first", "en", "big fish"), toy("second", "en", "big fish", "cold foot")
    pt, zh = toy("pt", "pt", "big fish"), toy("zh", "zh", "画蛇添足")
    asked = ("Big Fish", "en"), ("cold feet", "xe"), ("big fish", "pt-br")
    entries = [look_up([pt, first, second, zh], *pair) for pair in asked]
    assert [entry.glosses("idiomatic") for entry in entries] == [("first",), ("second",), ("pt",)]
    assert look_up([zh], "画蛇添足", "cmn").idiomatic
    assert not look_up([first, pt], "cold feet", "en").idiomatic
    assert not caplog.records


def test_a_language_that_no_dictionary_has_is_said_once(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.WARNING, "admire")
    for expression in "ab":
        known = look_up([toy("this", "en"), toy("that", "pt")], expression, "ka")
        assert known.idiomatic == known.literal == ()
    look_up([], "c", "ka")
    (warning,) = caplog.messages
    assert "Georgian" in warning
