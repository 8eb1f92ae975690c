import json

import pytest
from toys import Replies, ScriptedChat, talk

from admire.data.items import Item
from admire.prompts import Prompts
from admire.senses.describing import ATTEMPTS, describe, repeats_words, translate_words
from admire.senses.meaning import REPEATS, Meaning

FEET = Item("kalte Füße", "Vor der Hochzeit bekam er kalte Füße.", language="de")
EAR = Item("pig's ear", "He made a pig's ear of the repair.")
WORDS = '{"phrase": "kalte Füße", "words": "cold feet"}'


@pytest.mark.parametrize(
    ("definition", "phrases", "expected"),
    [
        ("feet that are cold", ["kalte Füße", "cold feet"], True),
        ("Kalte Füße haben", ["kalte Füße"], False),
        ("someone with cold feet", ["kalte Füße", "cold feet"], True),
        ("a sudden fear before something important", ["kalte Füße", "cold feet"], False),
        ("a small, round ear", ["pig's ear"], True),
        ("a bridge made of logs", ["Eselsbrücke", "donkey bridge"], True),
        ("bridges", ["donkey bridge"], True),
        ("boxes", ["red box"], True),
        ("to kick a bucket", ["kick the bucket"], True),
        ("to take something seriously", ["take to heart"], False),
        ("", ["night owl"], False),
        ("the", ["the"], False),
    ],
)
def test_a_definition_may_only_repeat_the_words(definition, phrases, expected):
    assert repeats_words(definition, phrases) == expected


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (WORDS, "cold feet"),
        (f"Here:\n```json\n{WORDS}\n```", "cold feet"),
        ('cold feet"}', "cold feet"),
        ('cold feet"}\n{"phrase": "x", "words": "y"}', "cold feet"),
        ('{"phrase": "kaltes Wasser", "words": "cold water"}', None),
        ("cold feet", None),
        ("", None),
        ('{"phrase": "kalte Füße", "words": 3}', None),
    ],
)
def test_the_words_are_read_from_a_reply(reply: str, expected: str | None):
    words = (FEET.phrase, expected) if expected else (FEET.phrase,)
    assert talk(translate_words(FEET, Prompts()), Replies(reply)) == words


def test_english_has_its_words():
    llm = ScriptedChat(lambda _: pytest.fail("asked"))
    assert talk(translate_words(EAR, Prompts()), llm) == (EAR.phrase,)


def chat(*definitions: str, words: str = WORDS) -> ScriptedChat:
    """Answer with these definitions in turn, and with the words where they are asked for."""
    turns = iter(definitions)

    def answer(prompt: str) -> str:
        if "one by one" in prompt:
            return words
        text = next(turns)
        return json.dumps({"definitions": [text]}) if "JSON" in prompt else text

    return ScriptedChat(answer)


FEAR = "a sudden fear"


@pytest.mark.parametrize("kind", ["idiomatic", "gloss"])
def test_words_are_asked_for_again_and_marked(kind):
    def definitions(*replies: str, item: Item = FEET, words: str = WORDS) -> Meaning:
        return talk(describe(item, kind, Prompts()), chat(*replies, words=words))

    assert definitions("cold feet", "feet that are cold", FEAR) == Meaning((FEAR,))
    marked = definitions(*["cold feet"] * ATTEMPTS)
    assert marked == Meaning(("cold feet",), fault=REPEATS)
    assert definitions("a round ear", "a mess", item=EAR) == Meaning(("a mess",))
    assert definitions("cold feet", words="?") == Meaning(("cold feet",))


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (("fear", "dread"), Meaning(("fear", "dread"))),
        (("feet without warmth",), Meaning(("cold feet",))),  # the dictionary says it, too
    ],
)
def test_a_dictionary_stands_in_for_words(hint, expected):
    llm = chat("cold feet")
    assert talk(describe(FEET, "idiomatic", Prompts(), hint=hint), llm) == expected


def test_the_literal_sense_may_have_the_words():
    llm = ScriptedChat(lambda _: '{"definitions": ["feet that are cold"]}')
    assert talk(describe(FEET, "literal", Prompts()), llm) == Meaning(("feet that are cold",))
    assert len(llm.prompts) == 1
