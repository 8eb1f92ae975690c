import gzip

import pytest
from chats import answered, bodies, completion, json_response, refusal, serve
from pytest_httpserver import HTTPServer
from toys import said
from werkzeug import Response

from admire.llm import Question, Usage, open_llm
from admire.llm.openai import OpenAIChat

pytestmark = pytest.mark.usefixtures("waits")

CUT = {"finish_reason": "length"}


@pytest.fixture
def tiny(httpserver: HTTPServer) -> OpenAIChat:
    return OpenAIChat("tiny", url=httpserver.url_for("/v1"))


@pytest.mark.parametrize(
    ("text", "reasons"),
    [
        ("Lit", (None, "stop", "STOP", "eos", "eos_token", "end_turn", "COMPLETE")),
        ("Literal", ("error", "insufficient_system_resource", "abort", "other")),
    ],
)
def test_only_a_reply_that_ended_is_one(httpserver: HTTPServer, tiny, text: str, reasons):
    for reason in reasons:
        httpserver.clear()
        serve(httpserver, completion("Lit", {"finish_reason": reason}), completion("Literal"))
        assert said(tiny, "hi") == text


@pytest.mark.parametrize(
    "error",
    [
        {"error": {"message": "Provider returned error", "code": 429}},
        {"error": {"message": "Overloaded", "type": "overloaded_error"}},
        {"choices": [{"message": {"content": ""}, "error": {"code": "502"}}]},
    ],
)
def test_an_error_in_an_answer_of_success_is_tried_again_as_its_code_says(httpserver, tiny, error):
    serve(httpserver, json_response(error), completion("Literal"))
    assert said(tiny, "hi") == "Literal"


AZURE = "The response was filtered due to the prompt triggering Azure OpenAI's content management"
FAILED = {"message": "Failed to generate JSON.", "failed_generation": '{"order": ["A", '}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (refusal(400, AZURE), "by a filter"),
        (json_response({"detail": "Content Exists Risk"}, 400), "by a filter"),
        (refusal(403, "Your input was flagged"), "by a filter"),
        (json_response({"code": "x", "error": "SAFETY_CHECK_TYPE_X"}, 403), "by a filter"),
        (json_response({"error": {"code": "content_filter", "message": "No"}}), "by a filter"),
        (completion("Lit", {"finish_reason": "content_filter"}), "by a filter (content_filter)"),
        (json_response({"error": FAILED}, 400), "not written in the form"),
        (completion(None, {"message": {"refusal": "I can't help."}}), "refusal (“I can't help.”)"),
        (completion("", {"message": {"reasoning_content": "{}"}}), "is in reasoning_content"),
        (completion("<think>Is it literal"), "thoughts that do not end"),
    ],
)
def test_why_one_question_has_no_reply_is_said_once_and_nothing_is_cached(
    httpserver, caplog, answer: Response, words: str
):
    serve(httpserver, answer, answer, completion("Idiomatic"))
    llm = open_llm("openai:tiny", url=httpserver.url_for("/v1"))
    replies = [said(llm, "hi", schema={"type": "object"}) for _ in range(3)]
    assert replies == ["", "", "Idiomatic"]
    assert caplog.text.count(words) == 1


PARTS = [
    {"type": "thinking", "thinking": [{"type": "text", "text": "It could be idiomatic."}]},
    {"type": "text", "text": "Lit"},
    "er",
    {"type": "output_text", "text": "al"},
    {"type": "image_url", "text": "x"},
    {"type": "text", "text": None},
    None,
]
MESSAGE = completion("Literal").get_data(as_text=True)


@pytest.mark.parametrize(
    "answer",
    [
        completion(PARTS),
        completion("<think>Idiomatic?</think>Literal"),
        Response(MESSAGE, content_type="text/plain"),
        Response(MESSAGE),
        Response(f"\ufeff{MESSAGE}", content_type="application/json"),
        Response(MESSAGE.encode("utf-16"), content_type="application/json; charset=utf-16"),
        answered('{"choices": [{"text": "Literal"}]}'),
        answered('{"message": {"role": "assistant", "content": "Literal"}, "done": true}'),
        answered(MESSAGE.replace('"created": 1', '"created": NaN')),
        Response(gzip.compress(MESSAGE.encode()), headers={"Content-Encoding": "gzip"}),
    ],
)
def test_a_reply_is_read_wherever_a_server_puts_it(httpserver: HTTPServer, tiny, answer: Response):
    serve(httpserver, answer)
    assert said(tiny, "hi") == "Literal"


SURE = "Sure!\n\nThe answer is:\n **Literal** 🙂 "


@pytest.mark.parametrize(("content", "text"), [(None, ""), ([], ""), (PARTS[:1], ""), (SURE, SURE)])
def test_a_reply_is_the_message_as_it_is(httpserver: HTTPServer, tiny, content, text: str):
    serve(httpserver, completion(content))
    assert said(tiny, "hi") == text


def token(text: str) -> dict[str, object]:
    return {"token": text, "logprob": -0.1}


TOKEN_A, TOKENS = token("A"), {"A": -0.1, "B": -2.5}
THOUGHTS = [token(text) for text in ("A", " picture", "</think>", "\n")]
LIKELIEST = [{"token": letter, "logprob": value} for letter, value in TOKENS.items()]


@pytest.mark.parametrize(
    ("logprobs", "read"),
    [
        ({"content": [TOKEN_A | {"top_logprobs": LIKELIEST}]}, (TOKENS,)),
        *(({"content": [TOKEN_A | {"top_logprobs": none}]}, ({"A": -0.1},)) for none in (None, [])),
        ({"content": [TOKEN_A]}, ({"A": -0.1},)),
        ({"content": [*THOUGHTS, token(" A"), token("<|im_end|>")]}, ({" A": -0.1},)),
        ({"content": THOUGHTS[1:]}, None),
        *((odd, None) for odd in (None, True, [TOKEN_A], {"content": None}, {"tokens": ["A"]})),
    ],
)
def test_log_probabilities_that_can_be_read_are_read(httpserver, tiny, logprobs, read):
    serve(httpserver, completion("A", {"logprobs": logprobs}))
    assert tiny.ask(Question("A or B?", logprobs=2)).logprobs == read


def test_a_target_is_rated_by_the_log_probabilities_that_vllm_tells_of_a_prompt(httpserver, tiny):
    def place(token: str, logprob: float) -> dict[str, object]:
        return {"7": {"logprob": logprob, "rank": 1, "decoded_token": token}}

    prompt = [None, place("user", -9.0), place("Which?", -9.0), place("<end>", -9.0)]
    rated = [place("a", -1.5), place(" night", -2.5), place(" owl", -0.5)]
    serve(httpserver, completion("Idiomatic", prompt_logprobs=prompt + rated), completion("x"))
    reply = tiny.ask(Question("Which?", target="a night owl"))
    assert reply.text == "a night owl"
    assert reply.logprobs == ({"a": -1.5}, {" night": -2.5}, {" owl": -0.5})
    (body,) = bodies(httpserver)
    assert body["messages"][1] == {"role": "assistant", "content": "a night owl"}
    assert body["continue_final_message"] is True
    assert (body["add_generation_prompt"], body["max_tokens"]) == (False, 1)
    assert tiny.ask(Question("Which?", target="an owl")).logprobs is None  # no vLLM


DETAILS = {"cached_tokens": 128, "image_tokens": 700}


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        (
            {"prompt_tokens": 900, "completion_tokens": 30, "prompt_tokens_details": DETAILS},
            Usage(prompt=900, cached=128, completion=30, images=700),
        ),
        (None, None),
        ({"prompt_tokens": 5, "completion_tokens": None}, Usage(5)),
        ({"prompt_tokens": "5", "completion_tokens": "many"}, Usage(5)),
    ],
)
def test_a_reply_tells_what_it_took(httpserver: HTTPServer, tiny, usage, counted):
    serve(httpserver, completion("A", usage=usage), completion("A", CUT, usage=usage))
    replies = [tiny.ask(Question("hi")) for _ in range(2)]
    assert replies[0].seconds > 0
    assert [(r.usage, r.cut) for r in replies] == [(counted, False), (counted, True)]
