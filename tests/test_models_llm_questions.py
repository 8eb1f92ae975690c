"""Questions with images, schemas and log-probabilities, and what replies tell of themselves."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from chats import completion, refusal, serve
from pytest_httpserver import HTTPServer
from test_models_llm_pictures import drawn
from toys import ScriptedChat
from werkzeug import Response

from admire.base.errors import UserError
from admire.models.llm import CachedChat, Image, Question, Reply, Usage, open_llm
from admire.models.llm.openai import OpenAIChat

SCHEMA = {
    "type": "object",
    "properties": {"sense": {"type": "string", "enum": ["idiomatic", "literal"]}},
    "required": ["sense"],
    "additionalProperties": False,
}


@pytest.fixture
def chat(httpserver: HTTPServer) -> OpenAIChat:
    return OpenAIChat("tiny", url=httpserver.url_for("/v1"))


def bodies(server: HTTPServer) -> list[dict]:
    return [request.get_json() for request, _ in server.log]


def told(**more: object) -> Response:
    """A completion whose server tells more than its text."""
    body = json.loads(completion("Idiomatic").get_data())
    body["choices"][0] |= more.pop("choice", {})
    return Response(json.dumps(body | more), content_type="application/json")


# ------------------------------------------------------------------------------ what is sent


def test_texts_and_images_are_sent_in_their_order(httpserver: HTTPServer, chat, tmp_path: Path):
    serve(httpserver, completion("A"))
    paths = [drawn(tmp_path / name) for name in ("a.png", "b.png")]
    parts = ("Which?", "A:", Image(paths[0], 100), "B:", Image(paths[1], 100))
    chat.ask(Question(parts))
    (body,) = bodies(httpserver)
    content = body["messages"][0]["content"]
    assert [part["type"] for part in content] == ["text", "text", "image_url", "text", "image_url"]
    assert [part["text"] for part in content if "text" in part] == ["Which?", "A:", "B:"]
    assert content[2]["image_url"]["url"].startswith("data:image/png;base64,")


def test_a_schema_is_sent_as_a_strict_one(httpserver: HTTPServer, chat):
    serve(httpserver, completion('{"sense": "literal"}'))
    reply = chat.ask(Question("Which?", schema=SCHEMA))
    assert reply.text == '{"sense": "literal"}'
    (body,) = bodies(httpserver)
    assert body["response_format"]["type"] == "json_schema"
    assert body["response_format"]["json_schema"]["strict"] is True
    assert body["response_format"]["json_schema"]["schema"] == SCHEMA
    assert body["messages"][0]["content"] == "Which?"


@pytest.mark.parametrize("with_image", [False, True])
def test_a_server_that_refuses_schemas_gets_it_in_the_question_ever_after(
    httpserver: HTTPServer, chat, tmp_path: Path, with_image: bool
):
    no = refusal(422, "Extra inputs are not permitted: response_format")
    serve(httpserver, no, completion("{}"))
    parts = ("Which?", Image(drawn(tmp_path / "a.png"))) if with_image else "Which?"
    for _ in range(2):
        assert chat.ask(Question(parts, schema=SCHEMA)).text == "{}"
    first, second, third = bodies(httpserver)
    assert "response_format" in first
    for body in (second, third):
        assert "response_format" not in body
        content = body["messages"][0]["content"]
        last = content[-1]["text"] if with_image else content
        assert last.endswith(json.dumps(SCHEMA))
    assert chat.ask(Question("hi")).text == "{}"
    assert bodies(httpserver)[-1]["messages"][0]["content"] == "hi"


def test_a_server_without_log_probabilities_is_asked_without(httpserver: HTTPServer, chat):
    serve(httpserver, refusal(400, "top_logprobs is not supported"), completion("A"))
    for _ in range(2):
        assert chat.ask(Question("A or B?", logprobs=2)).logprobs is None
    assert [("logprobs" in body) for body in bodies(httpserver)] == [True, False, False]


# -------------------------------------------------------------------------- what replies tell


def test_a_reply_tells_what_it_took(httpserver: HTTPServer, chat):
    usage = {
        "prompt_tokens": 900,
        "completion_tokens": 30,
        "total_tokens": 930,
        "prompt_tokens_details": {"cached_tokens": 128, "image_tokens": 700},
    }
    serve(httpserver, told(usage=usage))
    reply = chat.ask(Question("hi"))
    assert reply.usage == Usage(prompt=900, cached=128, completion=30, images=700)
    assert reply.seconds > 0
    assert not reply.cut


@pytest.mark.parametrize("missing", ["completion_tokens", "prompt_tokens_details"])
def test_a_server_may_leave_out_parts_of_the_usage(httpserver, chat, missing):
    serve(httpserver, told(usage={"prompt_tokens": 5, missing: None}))
    assert chat.ask(Question("hi")).usage == Usage(prompt=5)


def test_a_reply_that_is_cut_off_says_so(httpserver: HTTPServer, chat):
    serve(httpserver, told(choice={"finish_reason": "length"}))
    assert chat.ask(Question("hi")).cut


# ------------------------------------------------------------------------------- what goes wrong


MMPROJ = (
    "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"
)


@pytest.mark.parametrize(
    "no",
    [
        refusal(500, MMPROJ),
        refusal(400, "tiny is not a multimodal model"),
        refusal(400, "Invalid content type. image_url is only supported by certain models: this "
                "model does not support image inputs"),
    ],
)  # fmt: skip
def test_a_model_that_cannot_see_is_told(httpserver, chat, tmp_path, waits, no: Response):
    serve(httpserver, no)
    with pytest.raises(UserError, match=r"cannot see images.*captions.*gpt-6") as caught:
        chat.ask(Question(("Which?", Image(drawn(tmp_path / "a.png")))))
    assert caught.value.settings == ("track", "llms")


def test_an_image_that_the_server_refuses_is_named(httpserver, chat, tmp_path: Path):
    serve(httpserver, refusal(400, "The image data you provided does not represent a valid image"))
    path = drawn(tmp_path / "a.png")
    with pytest.raises(UserError, match=rf"refused a question with images.*{path}"):
        chat.ask(Question(("Which?", Image(path))))


@pytest.mark.parametrize(
    "words",
    [
        "the request exceeds the available context size (4096 tokens), try increasing it",
        "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens",
    ],
)
def test_a_context_that_is_too_small_says_what_to_do(httpserver, chat, words: str):
    serve(httpserver, refusal(400, words))
    with pytest.raises(UserError, match=r"too long.*more context.*smaller images") as caught:
        chat.ask(Question("hi"))
    assert caught.value.settings == ("image_side", "track")


def test_a_model_in_this_process_sees_nothing(tmp_path: Path):
    llm = open_llm("embedded")
    assert not llm.sees
    with pytest.raises(UserError, match=r"embedded cannot see images.*captions"):
        llm.ask(Question(("Which?", Image(drawn(tmp_path / "a.png")))))


# ------------------------------------------------------------------------------------ the cache


def test_all_that_a_reply_tells_is_kept():
    reply = Reply("A", Usage(9, 1, 2, 3), 1.5, True, ({"A": -0.1}, {"B": -0.2, "A": -3.0}))

    class Full(ScriptedChat):
        def ask(self, question: Question) -> Reply:
            self.questions.append(question)
            return reply

    llm = Full(str)
    first, second = (CachedChat(llm).ask(Question("hi")) for _ in range(2))
    assert first == second == reply
    assert (first.kept, second.kept) == (False, True)
    assert len(llm.questions) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda path: Question(("Which?", Image(path, 64))),
        lambda path: Question((Image(path), "Which?")),
        lambda path: Question("Which?"),
        lambda path: Question(("Which?", Image(path)), temperature=0.7),
        lambda path: Question(("Which?", Image(path)), max_tokens=40),
        lambda path: Question(("Which?", Image(path)), seed=1),
        lambda path: Question(("Which?", Image(path)), schema=SCHEMA),
        lambda path: Question(("Which?", Image(path)), logprobs=3),
        lambda path: Question(("Which?", Image(drawn(path, (10, 10))))),
    ],
)
def test_another_image_or_form_is_another_question(tmp_path: Path, change: Callable):
    llm, path = ScriptedChat(str.upper), drawn(tmp_path / "a.png")
    CachedChat(llm).ask(Question(("Which?", Image(path))))
    CachedChat(llm).ask(change(path))
    assert len(llm.questions) == 2


def test_the_same_image_under_another_name_is_the_same_question(tmp_path: Path):
    llm = ScriptedChat(str.upper)
    for name in ("a.png", "b.png"):
        CachedChat(llm).ask(Question(("Which?", Image(drawn(tmp_path / name)))))
    assert len(llm.questions) == 1
