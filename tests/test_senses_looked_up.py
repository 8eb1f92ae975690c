from __future__ import annotations

from dataclasses import replace

import pytest
from toys import OWL

from admire import Item
from admire.prompts import Prompts
from admire.runs.sources import open_source
from admire.senses.interpretation import interpret


def looked_up(item: Item) -> dict[str, str]:
    """The texts that a dictionary alone has of an item."""
    item = replace(item, sentence_type="idiomatic")
    (found,) = interpret([item], [open_source("dictionary")], Prompts(), sense="given")
    return found[0].texts()


def test_a_dictionary_alone_defines_both_senses(owls):
    assert looked_up(OWL) == {
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
        ("cold feet", "He got cold feet.", "He got cold feet."),
        ("night owl", "", None),
        ("cold feet", "", None),
    ],
)
def test_its_scene_is_the_sentence_in_other_words(owls, compound, sentence, scene):
    assert looked_up(Item(compound, sentence)).get("scene") == scene
