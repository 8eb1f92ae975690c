import json

import pytest

from admire.llm import Question
from admire.rankers.listwise import order_reply
from admire.rankers.pairwise import SCHEMA, read_better
from admire.rankers.pointwise import NUMBERS


def strict(**properties):
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def words(*one_of):
    return {"type": "string", "enum": list(one_of)}


TEXT = {"type": "string"}
ROLE = words("meant", "related", "other", "other_related", "unrelated")
REASON = strict(elements=TEXT, expresses=TEXT, role=ROLE)
ORDER = {
    "meaning": TEXT,
    "candidates": strict(A=REASON, B=REASON),
    "order": {"type": "array", "items": words("A", "B"), "minItems": 2, "maxItems": 2},
}
SENSES = {"literal_use": TEXT, "idiomatic_use": TEXT, "sense": words("idiomatic", "literal")}
SHARE = {"type": "integer", "minimum": 0, "maximum": 100}


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (order_reply(("A", "B"), False).strict_schema(), strict(**SENSES, **ORDER)),
        (order_reply(("A", "B"), True).strict_schema(), strict(**ORDER)),
        (SCHEMA, strict(reason=TEXT, better=words("A", "B", "equal"))),
        (NUMBERS, strict(idiomatic=SHARE, literal=SHARE, neither=SHARE)),
    ],
    ids=["listwise", "sense given", "pairwise", "pointwise"],
)
def test_schemas_are_strict_and_the_same_bytes_in_every_cache_key(made, expected):
    assert json.dumps(made) == json.dumps(expected)


@pytest.mark.parametrize(
    ("reply", "order"),
    [
        ('{"better": " B\\n", "reason": 7, "more": 1}', ("two", "one")),
        ('{"better": "equal"}', ()),
        ('{"better": "C"}', None),
        ('{"better": ["A"]}', None),
        ('{"a": {"better": "A"}}', None),  # the key must be the object's own
    ],
)
def test_a_comparison_is_read_from_the_object_that_has_it(reply, order):
    answer = read_better(Question("", shown=("one", "two")), reply)
    assert (answer and answer.order) == order
