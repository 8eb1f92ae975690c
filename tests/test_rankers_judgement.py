from __future__ import annotations

import json

import pytest

from admire.rankers.judgement import read_object
from admire.rankers.listwise import schema
from admire.rankers.pairwise import SCHEMA
from admire.rankers.pointwise import NUMBERS


def test_a_key_must_be_the_objects_own():
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
