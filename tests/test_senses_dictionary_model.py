from dataclasses import replace

import pytest
from lexica import wordnet
from toys import OWL, WordEncoder

from admire import Item
from admire.llm import open_llm
from admire.pipeline.chat_stage import interpret_items
from admire.prompts import Prompts
from admire.senses.dictionaries import open_dictionaries
from admire.senses.dictionary_model import NO_ENTRY, DictionaryModel
from admire.senses.interpretation import Approach, Interpretation
from admire.senses.sense import NO_SENSE
from admire.senses.settings import SenseSettings

MEANT = replace(OWL, sentence_type="idiomatic")


def looked_up(*items: Item) -> list[Interpretation]:
    how = Approach(Prompts(), SenseSettings("given"))
    (found,) = interpret_items(items, [open_llm("dictionary")], how)
    return found


def test_a_dictionary_alone_defines_both_senses(owls):
    (found,) = looked_up(MEANT)
    assert found.texts() == {
        "gloss": "who stays up late",
        "scene": "My sister is a who stays up late.",
        "literal": "an owl of the night",
    }


@pytest.mark.parametrize(
    ("compound", "sentence", "scene"),
    [
        ("night owl", "All Night Owls work.", "All who stays up late work."),
        ("night owls", "No night owl works.", "No who stays up late works."),
        ("night owl", "She never sleeps.", "She never sleeps."),
        ("cold feet", "He got cold feet.", None),  # no entry
        ("night owl", "", None),
    ],
)
def test_its_scene_is_the_sentence_in_other_words(owls, compound, sentence, scene):
    (found,) = looked_up(Item(compound, sentence, sentence_type="idiomatic"))
    assert found.texts().get("scene") == scene


def test_compounds_without_an_entry_are_marked_and_counted(owls, caplog):
    feet = Item("cold feet", "He got cold feet.", sentence_type="idiomatic")
    found = looked_up(feet, replace(feet, sentence_type="literal"), MEANT)
    assert [one.idiomatic.fault for one in found] == [NO_ENTRY, NO_ENTRY, None]
    assert "of 1 of 2 idiomatic items ('cold feet')" in caplog.text


def test_of_a_word_in_a_phrase_the_gloss_nearest_to_the_phrase_counts(tmp_path, monkeypatch):
    senses = [("noun", "noun.artifact", ["bank"], "where money is kept")]
    senses += [("noun", "noun.object", ["bank"], "land beside a river")]
    monkeypatch.setenv("ADMIRE_WORDNET", str(wordnet(tmp_path / "wordnet", synsets=senses)))
    source = DictionaryModel("dictionary", open_dictionaries(["wordnet"]), WordEncoder())
    phrases = ("river bank", "money bank", "river bat")
    items = [Item(phrase, "", word=phrase.split()[1]) for phrase in phrases]
    (found,) = interpret_items(items, [source], Approach(Prompts()))
    glosses = ["land beside a river", "where money is kept", None]
    assert [one.texts().get("gloss") for one in found] == glosses
    assert [one.sense for one in found] == [NO_SENSE] * 3
