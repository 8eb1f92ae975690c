from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from repeats import quickly, repeating
from toys import Replies, ScriptedChat, talk

from admire.data.items import Item
from admire.data.limits import LIMITS
from admire.llm import Reply
from admire.prompts import Prompts
from admire.senses.describing import ATTEMPTS, describe
from admire.senses.meaning import DEFINITIONS, Meaning, clean_gloss, is_copied, read_meaning

ITEM = Item("night owl", "My sister is a night owl who writes at midnight.")


LATE = "a person who stays up late"
LEFT = {
    LATE: (
        "*a person* who `stays up` late",
        "night owl: a person who stays up late",
        "Night owl means a person who stays up late",
        'The "night owl" describes a person who stays up late',
        "The phrase “night owl” is used to describe a person who stays up late",
        "**Definition:** a person who stays up late",
        "Definition:\na person who stays up late",
        "Night owl\na person who stays up late",
        "Sure! Here is a definition:\n\n**Night owl**: a person who stays up late",
        "a person who stays up late\nIt comes from the bird.",
        'O termo "night owl" refere-se a a person who stays up late',
        'A expressão idiomática "night owl" significa a person who stays up late',
        "A expressão «night owl» é usada para descrever a person who stays up late",
        "Significado: a person who stays up late",
    ),
    None: (
        "",
        "**Night Owl**",
        "A night owl.",
        "Night owl:",
        "Definition: night owl",
        "I'm sorry, but I can't help with that.",
        "As an AI language model, I have no opinions.",
        "Desculpe, não sei.",
    ),
}
STAYS = (
    # The opening ends with a whole word: "is" is not the beginning of "island" or "isn't".
    "Night owl island, a place where nobody sleeps",
    "A night owl isn't asleep at midnight",
    "Someone who is what a night owl is: awake at night",
    "Definitions vary: someone awake at night",
    "a sorry state of affairs",
)


def test_of_a_reply_only_the_definition_is_left():
    for left, replies in LEFT.items():
        assert [clean_gloss(reply, "night owl") for reply in replies] == [left] * len(replies)
    assert [clean_gloss(reply, "night owl") for reply in STAYS] == [*STAYS]


@pytest.mark.parametrize("compound", ["c++ (the)", "a.b", "[x", "what?", "50/50 ^$ | {2}", "\\d"])
def test_signs_of_regular_expressions_in_a_compound_are_letters(compound: str):
    assert clean_gloss(f"A {compound} means a thing of its own", compound) == "a thing of its own"
    assert clean_gloss(compound, compound) is None


OBJECT = '{"idiom": "night owl", "definitions": ["awake late", "up at night"], "scene": "a lamp"}'
WHOLE = Meaning(("awake late", "up at night"), "a lamp")


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (OBJECT, WHOLE),
        (f"```json\n{OBJECT}\n```", WHOLE),
        (f"Sure! Here is the line:\n{OBJECT}\nI hope this helps.", WHOLE),
        (OBJECT.replace("idiom", "phrase").replace("night owl", "Night Owl"), WHOLE),
        (OBJECT[OBJECT.index('"definitions"') :], WHOLE),  # the prompt has its beginning
        (OBJECT.replace("], ", "}, "), WHOLE),  # seen: the list closed by a brace
        # The examples written once more before the line that was asked for.
        (f'{{"phrase": "red tape", "definitions": ["forms"], "scene": "a desk"}}\n{OBJECT}', WHOLE),
        # Cut off within the scene, before it, and within the definitions.
        (OBJECT[:-3], Meaning(("awake late", "up at night"), "a lam")),
        (OBJECT[: OBJECT.index("scene")], Meaning(("awake late", "up at night"))),
        (OBJECT[: OBJECT.index(" night")], Meaning(("awake late",))),
        # One definition, which is no list; the same one twice; more than are kept.
        ('{"definitions": "awake late", "scene": "a lamp"}', Meaning(("awake late",), "a lamp")),
        ('{"definitions": ["Awake late.", "awake late"]}', Meaning(("Awake late.",))),
        ('{"definitions": ["one", "two", "three"]}', Meaning(("one", "two"))),
        ('{"definitions": ["\\"no\\"", "caf\\u00e9 guest"]}', Meaning(("no", "café guest"))),
        # The compound's own words lead up to a definition; in a scene they are its subject.
        (
            '{"definitions": ["Night owl: someone awake late"], "scene": "a night owl is awake"}',
            Meaning(("someone awake late",), "a night owl is awake"),
        ),
        # A scene that copies the sentence.
        (
            '{"definitions": ["awake late"], "scene": "my sister, who writes at midnight"}',
            Meaning(("awake late",)),
        ),
        # Lines, for templates and models that write no JSON.
        ("1. awake late\n2. up at night\nScene: a lamp", WHOLE),
        ("Here you are:\n\n1) **awake late**\n2) up at night\n**Scene:** a lamp", WHOLE),
        ("- awake late\n- up at night\n\nCena: a lamp", WHOLE),
        ("A night owl is someone awake late.", Meaning(("someone awake late.",))),
    ],
)
def test_definitions_and_scene_are_read(reply: str, expected: Meaning):
    assert read_meaning(reply, ITEM) == expected


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "{",
        '{"phrase": "night owl"}',
        '{"phrase": "night owl", "definitions": []}',
        '{"phrase": "night owl", "definitions": [], "scene": "a lamp"}',
        '{"phrase": "night owl", "definitions": ["night owl", "A night owl."]}',
        # Seen: another phrase, which the model finds more like an idiom.
        '{"idiom": "old hat", "definitions": ["a person who is out of date"], "scene": "a mirror"}',
        "I'm sorry, but I can't help with that.",
        "No problem, but I need the JSON data for the next line.",  # seen
        "Scene: a lamp",
        "Banana! 🍌",
        # Copies of the sentence and of the prompt's examples.
        '{"definitions": ["my sister is a night owl who writes at midnight"]}',
        '{"definitions": ["a reckless person whom nobody can control"]}',
    ],
)
def test_a_reply_without_a_usable_definition(reply: str):
    meaning = read_meaning(reply, ITEM, Prompts().about(ITEM, "idiomatic"))
    assert not meaning
    assert meaning.fault
    assert reply or meaning.fault == "no line of it is a definition"


def test_what_the_prompts_example_says_of_the_compound_itself_is_no_copy():
    swan = Item("swan song", "")
    prompt = Prompts().about(swan, "idiomatic")
    reply = '{"definitions": ["the farewell of an artist", "too much bureaucracy"]}'
    assert read_meaning(reply, swan, prompt) == Meaning(("the farewell of an artist",))


PARTS = ["night owl", "Night Owl", "A ", "The idiom ", " is ", " means ", ":", '"', "*", "\n", "é"]
PARTS += [*"{}[]\\", '"definitions": ', '"scene": ', '"phrase": ', "1. ", ", "]
COMPOUNDS = st.sampled_from(["night owl", "pé-frio", "c++ ("]) | st.text(min_size=1)


@given(st.text() | st.lists(st.sampled_from(PARTS), max_size=30).map("".join), COMPOUNDS)
def test_every_reply_gives_a_meaning_or_none(reply: str, compound: str):
    meaning = read_meaning(reply, Item(compound, f"This is {compound}."))
    assert len(meaning.definitions) <= DEFINITIONS
    for text in meaning.definitions:
        assert text.strip(" .").casefold() not in ("", compound.casefold())
    assert meaning.scene is None or meaning.scene.strip()
    assert meaning.definitions or not meaning.scene


@given(repeating(*PARTS, "night owl", "is ", "a b ", ". ", times=1_000), st.booleans())
def test_a_reply_that_repeats_itself_is_read_at_once(reply: str, copied: bool):
    sentence = reply if copied else "The night owl is a b. " * 150
    with quickly():
        read_meaning(reply, Item("night owl", sentence[:4_000]), reply[:500])
        clean_gloss(reply, "'" if copied else "night owl")


LONG = {
    "spaces": "night owl" + " " * 20_000 + "x",
    "signs": "night owl" + ". " * 20_000 + "x",
    "quotes": "'" * 20_000 + "x",
    "lines": "a b\n" * 100_000,
    "definitions": '{"definitions": [' + '"a b",' * 100_000,
    "escapes": '{"definitions": ["' + '\\"' * 200_000,
}


@pytest.mark.parametrize("reply", LONG.values(), ids=LONG)
def test_a_long_reply_is_read_at_once_and_kept_in_part(reply: str):
    llm = ScriptedChat(lambda prompt: reply)
    for compound in ("night owl", "'"):
        with quickly(2):
            meaning = talk(describe(Item(compound, f"A {compound}."), "literal", Prompts()), llm)
            clean_gloss(reply, compound)
        assert len(meaning.unread or "") <= LIMITS["reply"]
        assert all(len(text) <= LIMITS["definition"] for text in meaning.definitions)


@pytest.mark.parametrize("escape", [r"\ud800", r"\u0000", "\0"])
def test_what_is_no_text_is_left_out_of_a_meaning(escape: str):
    reply = f'{{"definitions": ["awake{escape} late"], "scene": "a {escape}lamp"}}'
    assert read_meaning(reply, ITEM) == Meaning(("awake late",), "a lamp")
    llm = ScriptedChat(lambda prompt: "x\0\ud800")
    assert talk(describe(ITEM, "literal", Prompts()), llm).unread == "x"


SENTENCE = "The concentrate is then passed through a tower of hot air to dry it."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It is what then passed through a tower, as one says", True),  # five in a row
        ("It is what goes through a tower of wind, as one says", False),  # four
        ("hot air rises beside a tower", True),  # four of its six words, in two runs
        ("hot air that rises beside a tower", False),  # of seven: fewer than two thirds
        ("through a tower", False),
        ("", False),
    ],
)
def test_a_copy_of_the_sentence_is_told_by_its_runs_of_words(text: str, expected: bool):
    assert is_copied(text, SENTENCE) == expected


def test_a_copy_of_words_that_repeat_themselves_is_told_at_once():
    with quickly():
        assert is_copied("a b x " * 600, "a b " * 1_000)
        assert not is_copied("a x " * 1_000, "a y " * 1_000)


THOUGHTS = "Okay, the user wants to know what a night owl is. It is a bird of the night."


@pytest.mark.parametrize(
    ("reply", "cut", "expected"),
    [
        (f"{THOUGHTS}\nSo it may be a person, too.\n{LATE}", False, LATE),
        (f"{THOUGHTS}\nSo it may be a person, too.\n{LATE}", True, None),
        (THOUGHTS, False, None),
        (f"{LATE}\nWait, the sentence says", True, None),
        (f"{LATE}\nThe sentence says that the sister", True, LATE),
        (f"{LATE}. It is said of people who", True, f"{LATE}."),
        ("The phrase is used here of a person who could be said to", True, None),
        ("late " * 51, False, None),
        (f"```\n{LATE}\n```", False, LATE),
        (f'```json\n{{"definitions": ["{LATE}"]}}\n```', False, LATE),
        ('{"answer": "yes"}', False, None),
    ],
)
def test_a_thought_is_no_definition(reply: str, cut: bool, expected: str | None):
    chat = ScriptedChat(str)
    chat.ask = lambda _: Reply(reply, cut=cut)
    gloss = talk(describe(ITEM, "gloss", Prompts()), chat)
    assert gloss.definitions == ((expected,) if expected else ())
    assert bool(gloss.fault) == (not expected)
    meaning = talk(describe(ITEM, "idiomatic", Prompts()), chat)
    assert meaning.definitions[:1] == gloss.definitions


HINT = ("who stays up late", "an owl")


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ('"definitions": ["who stays up late"], "scene": "a lamp"}', Meaning(HINT[:1], "a lamp")),
        ('who stays up late"], "scene": "a lamp"}', Meaning(HINT[:1], "a lamp")),  # goes on
        ("", Meaning(HINT, unread="")),
        ("I'm sorry.", Meaning(HINT, unread="I'm sorry.")),
        ('{"definitions": ["night owl"]}', Meaning(HINT, unread='{"definitions": ["night owl"]}')),
    ],
)
def test_a_dictionary_may_be_repeated_and_stands_in_for_what_cannot_be_used(reply, expected):
    chat = Replies(reply)  # asked again, it has no reply
    meaning = talk(describe(ITEM, "idiomatic", Prompts(), hint=HINT), chat)
    assert replace(meaning, fault=None) == expected


@pytest.mark.parametrize(
    "useless",
    ["", "night owl", "I'm sorry, I cannot help.", "**", "A night owl who writes at midnight"],
)
@pytest.mark.parametrize("kind", ["gloss", "idiomatic", "literal"])
def test_a_useless_reply_is_asked_for_again_with_another_seed(kind, useless: str):
    # At temperature 0 the second reply would be the first one again.
    llm = Replies(useless, useless, "someone awake at night")
    meaning = talk(describe(ITEM, kind, Prompts(), seed=7), llm)
    assert meaning == Meaning(("someone awake at night",))
    assert llm.sampled == [(0.0, 7), (1.0, 8), (1.0, 9)]
    chat = ScriptedChat(lambda _: useless)
    meaning = talk(describe(ITEM, kind, Prompts()), chat)
    assert meaning.unread == useless
    assert meaning.fault
    assert chat.prompts == [Prompts().about(ITEM, kind)] * ATTEMPTS
