"""Texts of requests are limited as in files."""

from typing import Any

import pytest
from serving import drawn, shared_server, uri

from admire.data.limits import LIMITS

PICTURES = [{"image": uri(drawn(colour=colour))} for colour in ("blue", "red")]
ROW = {"compound": "night owl", "sentence": "A night owl.", "candidates": PICTURES}
READING = {"llm": "x", "sense": "literal", "probability_idiomatic": 0}

served = shared_server()


def reading(**changes: Any) -> dict[str, Any]:
    return {"readings": [READING | changes]}


CASES = [
    ("compound", "compound", lambda text: {"compound": text}),
    ("sentence", "sentence", lambda text: {"sentence": text}),
    ("language", "language", lambda text: {"language": text}),
    ("expected_item", "image", lambda text: {"expected_item": text}),
    ("expected_order[1]", "image", lambda text: {"expected_order": ["a", text]}),
    ("candidates[1].name", "image", lambda text: {"candidates": [*PICTURES[:1], {"name": text}]}),
    ("sequence[0].caption", "caption", lambda text: {"sequence": [{"caption": text}]}),
    ("definitions[0]", "definition", lambda text: {"definitions": [text]}),
    ("readings[0].llm", "llm", lambda text: reading(llm=text)),
    ("readings[0].wording", "definition", lambda text: reading(wording=text)),
    (
        "readings[0].literal.definitions[0]",
        "definition",
        lambda text: reading(literal={"definitions": [text]}),
    ),
    ("readings[0].literal.scenes[0]", "scene", lambda text: reading(literal={"scenes": [text]})),
    ("id", "id", lambda text: {"id": text}),
    ("subset", "id", lambda text: {"subset": text}),
    ("readings[0].idiomatic.unread", "reply", lambda text: reading(idiomatic={"unread": text})),
]


@pytest.mark.parametrize(("key", "column", "changes"), CASES)
def test_a_text_that_is_too_long_or_is_none_is_named(served, key, column, changes):
    most = LIMITS[column]
    for text, why in (
        ("x" * (most + 1), f"{key}: has {most + 1:,} characters, more than {most:,}"),
        ("x\0", f"{key}: contains a NUL character"),
        ("x\ud800", "JSON"),
    ):
        assert all(why in detail for detail in served.refusals(ROW | changes(text)))


@pytest.mark.parametrize(
    ("key", "changes"),
    [
        *(
            (f"readings[0].{key}", reading(**{key: wrong}))
            for key in ("probability_idiomatic", "confidence")
            for wrong in (2.0, -1e308, 10**400, float("nan"), float("inf"), "x", [0.5], {})
        ),
        *(
            (f"readings[0].votes.{key}", reading(votes={key: wrong}))
            for key in ("idiomatic", "literal", "unparsed")
            for wrong in (-5, 0.5, 10**400, float("nan"), "x", None)
        ),
        ("readings", {"readings": [READING] * 2}),
        ("readings", {"readings": [READING] * 2_000}),
        ("readings[0].literal.definitions", reading(literal={"definitions": [""] * 2_000})),
        ("sequence", {"sequence": [{"caption": "a"}] * 2_000}),
        ("expected_order", {"expected_order": [""] * 2_000}),
    ],
)
def test_readings_are_as_many_as_chat_models_and_their_numbers_have_ranges(served, key, changes):
    assert all(detail.startswith(f"{key}: ") for detail in served.refusals(ROW | changes))


def test_the_description_has_the_limits(served):
    schemas = served.client.get("/v1/openapi.json").json()["components"]["schemas"]
    row = schemas["Row"]["properties"]
    assert row["compound"]["maxLength"] == LIMITS["compound"]
    assert row["sentence"]["anyOf"][0]["maxLength"] == LIMITS["sentence"]
