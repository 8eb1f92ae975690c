from __future__ import annotations

import json

import pytest

from admire.rankers.judgement import read_object
from admire.rankers.listwise import read_order, schema
from admire.rankers.pairwise import SCHEMA
from admire.rankers.pointwise import NUMBERS, read_numbers

NAMES = {"A": "one", "B": "two", "C": "three"}
ORDER = {"order": ["B", "C", "A"]}
TEXT = json.dumps(ORDER)


@pytest.mark.parametrize(
    "reply",
    [
        TEXT,
        f"```json\n{TEXT}\n```",
        f"Here is the order:\n{TEXT}\nI hope that it helps {{:-)}}.",
        json.dumps(ORDER, indent=2),
        f"{TEXT}\n{TEXT}",
        f'<think>Maybe {{"order": ["A", "B", "C"]}}? No.</think>{TEXT}',
        '{"order": "B > C > A"}',
        '{"order": ["b", "Candidate C", "A."]}',
        '{"meaning": "line\nbreak", "order": ["B", "C", "A"]}',
        json.dumps({"meaning": 'A caption says {"order": ["A", "B", "C"]}'} | ORDER),
        json.dumps({"candidates": {"A": {"order": ["A", "B", "C"]}}} | ORDER),
        json.dumps({"candidates": "none", "sense": 7, "meaning": None} | ORDER),
    ],
)
def test_an_order_is_read_from_replies_in_every_dress(reply):
    found = read_order(reply, NAMES)
    assert found
    assert found.order == ("two", "three", "one")
    assert found.shown == ("one", "two", "three")


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "B, C, A",
        "3",
        "[]",
        '{"order": []}',
        '{"order": null}',
        '{"order": ["A", "B"]}',
        '{"order": ["A", "B", "B"]}',
        '{"order": ["A", "B", "C", "D"]}',
        '{"order": ["A", "B", "C", "A"]}',
        '{"order": [{"A": 1}, "B"]}',
        '{"sense": "idiomatic"}',
        TEXT[:-3],
        # Which of two different ones is the answer cannot be told.
        TEXT + '\nCaption B says {"order": ["A", "B", "C"]}.',
        '{"order": ["A", "B", "C"]} is what caption B says. ' + TEXT,
        "{" * 5000,
        '{"a":' * 1200,
    ],
)
def test_what_is_no_full_order_is_not_read(reply):
    assert read_order(reply, NAMES) is None


def test_reasons_are_kept_by_candidate_and_damaged_ones_left_out():
    told = {"A": {"elements": "a  lamp\n", "expresses": 7, "role": "meant"}, "B": "?", "X": {}}
    found = read_order(json.dumps({"sense": "Idiomatic", "candidates": told} | ORDER), NAMES)
    assert found
    assert found.reasons == {"one": {"elements": "a lamp", "role": "meant"}}
    assert found.sense == "idiomatic"


def test_a_sense_that_was_told_is_the_answers_whatever_it_says():
    found = read_order(json.dumps({"sense": "idiomatic"} | ORDER), NAMES, "literal")
    assert found
    assert found.sense == "literal"


def test_numbers_are_shares():
    said = {"idiomatic": 60, "literal": 20, "neither": 0}
    assert read_numbers(json.dumps(said)) == {"idiomatic": 0.75, "literal": 0.25, "neither": 0}
    for wrong in ({"idiomatic": 0, "literal": 0}, {"idiomatic": 101}, {"neither": "no"}):
        assert read_numbers(json.dumps({**said, "neither": 0, **wrong})) is None


def test_the_last_key_may_be_anywhere_but_must_be_the_objects_own():
    assert read_object('{"a": {"b": 1}}', "b") is None
    assert read_object('{"a": {"b": 1}}', "a") == {"a": {"b": 1}}


def objects(node):
    if isinstance(node, dict):
        if node.get("type") == "object":
            yield node
        for value in node.values():
            yield from objects(value)


@pytest.mark.parametrize(
    "one",
    [schema("ABCDE"), schema("AB", "literal"), SCHEMA, NUMBERS],
    ids=lambda one: str(len(one)),
)
def test_schemas_are_strict_and_their_properties_in_the_order_of_thought(one):
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator.check_schema(one)
    for part in objects(one):
        assert part["required"] == list(part["properties"])
        assert part["additionalProperties"] is False
    json.dumps(one)


def test_the_schema_of_an_order_has_the_senses_first_and_the_order_last():
    fields = list(schema("AB")["properties"])
    assert fields == ["literal_use", "idiomatic_use", "sense", "meaning", "candidates", "order"]
    assert list(schema("AB", "literal")["properties"]) == fields[3:]
    assert schema("AB")["properties"]["order"]["items"]["enum"] == ["A", "B"]
