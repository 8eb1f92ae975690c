"""The stand-in server notices what OpenAI's would refuse, and takes what it would take."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from PIL import Image as Pillow
from strict_server import SLOW, StrictServer, images_of, problems, prompt_of, simplest

from admire.models.llm import Image, Question
from admire.models.llm.openai import OpenAIChat

SCHEMA = {
    "type": "object",
    "properties": {
        "reason": {"type": "string"},
        "order": {"type": "array", "items": {"type": "string", "enum": ["A", "B"]}, "minItems": 2},
        "sure": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
    },
    "required": ["reason", "order", "sure"],
    "additionalProperties": False,
}
PLAIN = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def picture(path: Path) -> Path:
    Pillow.new("RGB", (9, 6), "red").save(path)
    return path


def shown(address: str) -> dict[str, Any]:
    part = {"type": "image_url", "image_url": {"url": address}}
    return PLAIN | {"messages": [{"role": "user", "content": [part]}]}


def answering(schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    named = {"name": "answer", "strict": True, "schema": schema} | more
    return PLAIN | {"response_format": {"type": "json_schema", "json_schema": named}}


def test_what_the_client_asks_is_valid_with_images_a_schema_and_log_probabilities(
    strict: StrictServer, tmp_path: Path
):
    strict.answer = lambda body: ("B", [{"B": -0.1, "A": -2.4, "C": -9.0}])
    strict.honours = True
    llm = OpenAIChat("m", url=strict.url)
    parts = ("Which?", Image(picture(tmp_path / "a.png")), Image(picture(tmp_path / "b.jpg")))
    reply = llm.ask(Question(parts, schema=SCHEMA, logprobs=2))
    assert strict.problems == []
    assert json.loads(reply.text) == {"reason": "", "order": ["A", "A"], "sure": 1}
    assert reply.logprobs == ({"B": -0.1, "A": -2.4},)
    assert reply.usage is not None
    assert reply.usage.cached == 4
    (body,) = strict.requests
    assert (prompt_of(body), len(images_of(body))) == ("Which?", 2)


def test_the_simplest_answer_fits_its_schema():
    jsonschema.validate(simplest(SCHEMA), SCHEMA)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"messages": []}, "'model' is a required property"),
        (PLAIN | {"top_k": 5}, "'top_k' was unexpected"),
        (PLAIN | {"seed": "one"}, "'one' is not valid"),
        (PLAIN | {"temperature": 3}, "temperature"),
        (PLAIN | {"top_logprobs": 5}, "without logprobs"),
        (PLAIN | {"max_tokens": 5, "max_completion_tokens": 5}, "exclude each other"),
        (shown("a.png"), "an image's address is 'a.png'"),
        (shown("data:image/png;base64," + base64.b64encode(b"no picture").decode()), "be read"),
        (answering(SCHEMA, strict=False), "is not strict"),
        (answering(SCHEMA, name="an answer"), "the name 'an answer'"),
        (answering(SCHEMA | {"required": ["order"]}), "schema: not all properties"),
        (answering(SCHEMA | {"type": "word"}), "schema: 'word' is not valid"),
        (answering({"type": "array", "items": SCHEMA}), "the root is no object"),
    ],
)
def test_what_openai_would_refuse_is_a_problem(body: dict[str, Any], said: str):
    assert any(said in problem for problem in problems(body)), problems(body)


def test_a_schema_is_strict_in_all_of_its_parts():
    inner = {"type": "object", "properties": {}, "required": []}
    listed = {"type": "array", "items": inner, "uniqueItems": True}
    schema = SCHEMA | {"properties": {"x": listed}, "required": ["x"]}
    assert problems(answering(schema)) == [
        "schema.x: uniqueItems is not permitted",
        "schema.x.items: additionalProperties is not false",
    ]


def test_a_picture_that_is_not_what_its_address_says_is_a_problem(tmp_path: Path):
    content = base64.b64encode(picture(tmp_path / "a.png").read_bytes()).decode()
    assert problems(shown(f"data:image/jpeg;base64,{content}")) == ["an image is PNG, not jpeg"]


def test_faults_come_before_the_answer_and_a_refused_option_is_named(
    strict: StrictServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("openai._base_client.time.sleep", lambda seconds: None)
    strict.faults = [(), (429, 500), (503, SLOW)]
    llm = OpenAIChat("m", url=strict.url)
    for text in "abc":
        assert llm.ask(Question(text)).text == "Literal"
    assert len(strict.headers) == 3 + 2 + 1
    assert set(strict.answers.values()) == {1}
    strict.faults, strict.refuses = (), {"max_tokens"}
    llm.ask(Question("d"))
    assert "max_completion_tokens" in strict.requests[-1]
    assert strict.problems == []
