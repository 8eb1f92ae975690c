import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from repeats import quickly, repeating

from admire.prompts.quotations import DEEPEST, json_objects, without_objects, without_words

JSON = ("{", "}", "[", "]", '"', "\\", '"a":', '{"a":', ":", ",", "1", "{}", '{"b":"{"}', "\n", "x")


def one_by_one(text: str) -> list[tuple[int, int, Any]]:
    """The outermost objects, by trying each brace; this takes quadratic time."""
    found, at = [], text.find("{")
    while at >= 0:
        try:
            value, end = json.JSONDecoder(strict=False).raw_decode(text, at)
            found.append((at, end, value))
        except ValueError:
            end = at + 1
        at = text.find("{", end)
    return found


@given(st.lists(st.sampled_from(JSON), max_size=25).map("".join))
def test_objects_are_found_as_by_trying_each_brace(text: str):
    assert list(json_objects(text)) == one_by_one(text)
    before = "x" * 20_000 + '{"a":}'
    shifted = [(at + len(before), end + len(before), value) for at, end, value in one_by_one(text)]
    assert list(json_objects(before + text)) == shifted


@given(repeating(*JSON, times=3_000))
def test_objects_of_what_repeats_are_found_at_once(text: str):
    with quickly():
        list(json_objects(text))
        without_objects(text, [text[:2_000], '{"a": 1}'])


def nested(depth: int, inside: str = "1") -> str:
    return '{"a":' * depth + inside + "}" * depth


MANY = 100_000
HOSTILE = {
    "braces": "{" * MANY,
    "unclosed": '{"a":' * MANY,
    "unclosed list": '{"a":' * 900 + "[" + "1," * MANY,
    "deep": nested(MANY),
    "deep behind a list": '{"a":' * 500 + "[[" + "1," * MANY + "1]," + nested(2_000) + "]",
    "digits": '{"a":' * 900 + "[" + "1," * MANY + "9" * 5_000,
    "errors": '{"a":x' * MANY,
    "braces in strings": '{"":"{","":"{",' * (MANY // 10),
    "objects": "{}" * (MANY // 2),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_reply_takes_long_to_be_searched_for_objects(text: str):
    with quickly(2):
        list(json_objects(text))


def test_objects_that_are_nested_too_deep_are_left_out():
    whole = nested(DEEPEST - 1)
    assert [value for *_, value in json_objects(whole)] == [json.loads(whole)]
    deep = f'{nested(3 * DEEPEST)} {{"order": "{"9" * 5_000}"}}'
    assert [*json_objects(deep)][-1][2] == {"order": "9" * 5_000}


WORDS = ("the ", "night owl ", '"', "“", "literal ", "\n", "not ", "a b ")


@given(repeating(*WORDS), st.lists(repeating(*WORDS, times=60), max_size=3))
def test_words_of_what_repeats_are_removed_at_once(reply: str, data: list[str]):
    with quickly():
        kept = without_words(reply, data)
    assert len(kept.split()) <= len(reply.split())
    assert without_words(reply, []) == reply


@pytest.mark.parametrize(
    "reply", ['"night owl" ' * 20_000, '"' * MANY, "the night owl is " * 20_000]
)
def test_no_reply_takes_long_to_be_searched_for_quotations(reply: str):
    with quickly(2):
        without_words(reply, ["The night owl is a bird. " * 150] * 5)
