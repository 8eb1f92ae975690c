import json
import logging
import re
import ssl
import threading
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from chats import (
    CHAT,
    KEY,
    PASSWORD,
    TOKEN,
    answered,
    bodies,
    completion,
    failure,
    not_taken,
    refusal,
    serve,
)
from commands import chat_server, until
from pytest_httpserver import HTTPServer
from test_llm_pictures import drawn
from toys import said
from werkzeug import Request, Response

from admire.core.errors import UserError
from admire.llm import Image, Question, open_llm
from admire.llm.address import OFFICIAL
from admire.llm.openai import RETRIES, THINKING_TOKENS, OpenAIChat

pytestmark = pytest.mark.usefixtures("waits")

SCHEMA = {"type": "object", "properties": {"sense": {"enum": ["idiomatic", "literal"]}}}


@pytest.fixture
def chat(httpserver: HTTPServer) -> Callable[..., OpenAIChat]:
    return partial(OpenAIChat, "tiny", url=httpserver.url_for("/v1"))


@pytest.fixture
def tiny(chat: Callable[..., OpenAIChat]) -> OpenAIChat:
    return chat()


def test_a_server_that_continues_a_reply_is_given_its_beginning(tiny):
    def messages(text: str) -> list[tuple[str, str]]:
        sent = tiny.request(Question(text))["messages"]
        return [(message["role"], message["content"]) for message in sent]

    question = 'Go on.\n{"a": 1,'
    assert messages(question) == [("user", question)]
    tiny.prefills_reply = True
    assert messages(question) == [("user", "Go on."), ("assistant", '{"a": 1,')]
    for text in ('{"a": 1,', "One.\nTwo."):
        assert messages(text) == [("user", text)]


def test_the_official_api_without_a_key_says_how_to_give_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "")
    with pytest.raises(UserError) as caught:
        open_llm("openai:gpt-4o", url=OFFICIAL + "/")
    assert "OPENAI_API_KEY" in str(caught.value)
    assert caught.value.settings == ("llm_url", "llms")


def test_the_identity_has_the_address_which_is_the_argument_or_else_of_the_environment(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1/")
    ours, other = OpenAIChat("tiny"), OpenAIChat("tiny", url="http://127.0.0.1:9000/v1")
    assert str(ours.client.base_url) == "http://127.0.0.1:8000/v1/"
    assert str(other.client.base_url) == "http://127.0.0.1:9000/v1/"
    assert ours.identity == OpenAIChat("tiny", url="http://127.0.0.1:8000/v1").identity
    assert ours.identity not in (other.identity, OpenAIChat("other").identity)


def limits(requests: list[dict]) -> list[dict[str, int]]:
    """The most tokens that each request allowed, by the option's name."""
    return [{name: body[name] for name in body if "tokens" in name} for body in requests]


def test_a_model_that_thinks_its_tokens_away_is_given_room_and_asked_again_once(strict):
    strict.thoughts = 300
    llm = open_llm("openai:tiny", url=strict.url)
    assert said(llm, "hi", max_tokens=20) == "Literal"
    assert said(llm, "again", max_tokens=40) == "Literal"  # with room at once
    tokens = [20, 20 + THINKING_TOKENS, 40 + THINKING_TOKENS]
    assert limits(strict.requests) == [{"max_tokens": most} for most in tokens]
    strict.thoughts = 2 * THINKING_TOKENS
    assert said(llm, "and now?") == ""  # not asked for ever
    assert len(strict.requests) == 4
    assert strict.problems == []


@pytest.mark.parametrize(
    ("models", "limit"),
    [
        ("o3 x/gpt-5.1", {"max_completion_tokens": 20 + THINKING_TOKENS}),
        ("x/DeepSeek-R1-Distill-Qwen-7B deepseek-reasoner", {"max_tokens": 20 + THINKING_TOKENS}),
        ("qwen3:8b gpt-oss:20b", {"max_tokens": 20 + THINKING_TOKENS}),
        ("gpt-4o deepseek-chat x/Qwen3-Instruct", {"max_tokens": 20}),
    ],
)
def test_a_model_that_is_known_to_think_is_given_room_at_once_and_no_other(strict, models, limit):
    for model in models.split():
        said(OpenAIChat(model, url=strict.url), "hi", max_tokens=20)
    assert limits(strict.requests) == [limit] * len(models.split())


CUT = {"finish_reason": "length"}


@pytest.mark.parametrize(
    "first",
    [
        {"choice": CUT | {"message": {"content": "<think>Is it a bird"}}},
        {"choice": CUT, "usage": {"completion_tokens_details": {"reasoning_tokens": 30}}},
    ],
)
def test_thoughts_in_a_reply_or_counted_by_the_server_show_that_a_model_thinks(
    httpserver: HTTPServer, tiny, first: dict
):
    second = completion("<think>A bird?\nNo.</think>\n\nIdiomatic")
    serve(httpserver, completion("Idiomatic", **first), second)
    assert said(tiny, "hi", max_tokens=40) == "Idiomatic"
    assert [body["max_tokens"] for body in bodies(httpserver)] == [40, 40 + THINKING_TOKENS]


def test_options_that_a_model_does_not_take_are_left_out_ever_after(httpserver: HTTPServer, tiny):
    serve(httpserver, *map(not_taken, ("max_tokens", "temperature")), completion("HI"))
    assert said(tiny, "hi", temperature=0.7, max_tokens=40, seed=3) == "HI"
    for most in (500, 4):
        said(tiny, "again", max_tokens=most, seed=3)
    with_room = [{"max_completion_tokens": n + THINKING_TOKENS} for n in (40, 40, 500, 16)]
    assert limits(bodies(httpserver)) == [{"max_tokens": 40}, *with_room]  # 16 is the least
    sent = [(body.get("temperature"), body["seed"]) for body in bodies(httpserver)]
    assert sent == [(0.7, 3)] * 2 + [(None, 3)] * 3


@pytest.mark.parametrize(
    ("name", "requests"),
    [("seed", 2), ("max_completion_tokens", 1), (None, 1)],  # once with it and once without
)
def test_a_refusal_that_leaving_out_does_not_mend_is_told(httpserver, chat, waits, name, requests):
    serve(httpserver, *[not_taken(name)] * 9, refusal(404))  # the end of an endless loop
    message = failure(chat())
    assert len(httpserver.log) == requests
    assert waits == []
    assert "not support" in message


NO_MESSAGE = ("has no message, but", "OpenAI-compatible", "/v1")
LASTS = RETRIES + 1
QUOTA = '{"error": {"message": "No quota", "code": "insufficient_quota"}}'
MOVED = answered("", 308, Location="http://127.0.0.1:1/v1")
STREAM = "text/event-stream"
LONG = " " * 17_000_000
PACKED = zlib.compress(LONG.encode())


def encoded(content: str | bytes, encoding: str) -> Response:
    return answered(content, **{"Content-Encoding": encoding})


FAULTS: dict[str, tuple[Response, int, *tuple[str, ...]]] = {
    "a wrong key": (refusal(401), 1, "refused the key", "OPENAI_API_KEY"),
    "a forbidden country": (refusal(403, "Country not supported"), 1, "Country not supp", "KEY"),
    "an unknown model": (refusal(404), 1, "does not know the model 'tiny'", "address"),
    "an error that is a text": (answered('{"error": "No max_new_tokens"}', 400), 1, "No max_new"),
    "a bad request": (refusal(422, "too large"), 1, "refused the request", "too large"),
    "a rate limit": (refusal(429), LASTS, f"too many requests' after {RETRIES} retries", "quota"),
    "waits that do not help": (
        refusal(503, **{"Retry-After": "120"}),
        LASTS,
        f"status 503 after {RETRIES} retries and asks to wait (Retry-After: 120)",
    ),
    "another address": (MOVED, 1, "redirects to another address"),
    "a web page": (Response("<p>Welcome</p>"), 1, *NO_MESSAGE),
    "half the JSON": (answered('{"choices": [{"mess'), 1, "truncated JSON", "Try again"),
    "deep JSON": (answered("[" * 200_000), 1, "malformed or truncated JSON"),
    "a long answer": (answered(LONG), 1, "more than 16 million bytes"),
    "a long answer in few bytes": (encoded(PACKED, "deflate"), 1, "more than 16 million bytes"),
    "a compression that nobody asked for": (encoded("{}", "br"), LASTS, "unknown encoding 'br'"),
    "no choices": (answered('{"choices": []}'), 1, *NO_MESSAGE),
    "a list": (answered("[1]"), 1, *NO_MESSAGE, "[1] in place of an object"),
    "no credit": (refusal(402, "Insufficient credits"), 1, "no credit left", "Insufficient"),
    "broken compression": (encoded("[1]", "gzip"), LASTS, "cannot be decompressed"),
    "a stream": (Response(b"data: {}", content_type=STREAM), 1, *NO_MESSAGE, STREAM),
    "another API's complaint": (answered('{"detail": "Log in."}'), 1, "an error: Log in."),
    "a large question": (Response("<html>", 413), 1, "too large", "413", "smaller images"),
    "a quota": (answered(QUOTA, 429), 1, "no credit left", "No quota"),
    "an error in spite of its status": (
        refusal(200, f"No quota for {KEY}"),
        1,
        "returned an error: No quota for *** (c). Try again later",
    ),
    "half a reply": (
        completion("Lit", {"finish_reason": "network_error"}),
        LASTS,
        f"breaks its replies off after {RETRIES} retries (finish_reason: network_error)",
    ),
    "a gateway's page": (
        Response("<!DOCTYPE html><title>Just a moment...</title>", 403),
        1,
        *("a web page 'Just a moment...' (status 403)", "gateway"),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_server_is_told_in_one_message_and_not_kept(httpserver, monkeypatch, fault):
    answer, requests, *words = FAULTS[fault]
    serve(httpserver, answer)
    llm = open_llm("openai:tiny", url=httpserver.url_for("/v1"))
    message = failure(llm)
    assert message.startswith("openai:tiny: ")
    for word in (httpserver.url_for("/v1"), *words):
        assert word in message
    assert len(httpserver.log) == requests
    httpserver.clear()
    chat_server(httpserver, str.upper)
    assert said(llm, "hi") == "HI"


def test_an_address_without_v1_is_told(httpserver: HTTPServer, chat):
    url = httpserver.url_for("/").rstrip("/")
    httpserver.expect_request("/chat/completions").respond_with_response(refusal(404))
    message = failure(chat(url=url))
    assert f"is not the address of an API (that may be {url}/v1)." in message


CERTIFICATE = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgaXKCNyFaSxUsKsaN
2+kZnM45srm+D/pSlpuEG0b1ZJ2hRANCAARFbijcystzlCiRWyYfwt+/k+3jvtwX
yAspKr/1hGRmj4Ejy0WPLHTHgUHCRv800U/kEoUb4abntdgOEE721B1z
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBmzCCAUGgAwIBAgIUOlYcgxLpf0fVyCxTDyLexoHyghswCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyNjE2MDg1OVoYDzIxMjYxMTAy
MTYwODU5WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAARFbijcystzlCiRWyYfwt+/k+3jvtwXyAspKr/1hGRmj4Ejy0WPLHTH
gUHCRv800U/kEoUb4abntdgOEE721B1zo28wbTAdBgNVHQ4EFgQUhWTQJ4FauvOZ
6Z6R0kq+L0Zxh6wwHwYDVR0jBBgwFoAUhWTQJ4FauvOZ6Z6R0kq+L0Zxh6wwDwYD
VR0TAQH/BAUwAwEB/zAaBgNVHREEEzARgglsb2NhbGhvc3SHBH8AAAEwCgYIKoZI
zj0EAwIDSAAwRQIhAKfOjr5rhQ7rJOOb/T2xASKs3rzOmf7lAr4EUK/f3X/UAiA1
lCnvw3+IjGeHq3EAG8A4+S9zWYNwAHvm5HfF3uwW3Q==
-----END CERTIFICATE-----
"""
"""Of localhost, signed by itself; nothing else uses its key."""


def test_a_certificate_is_trusted_if_the_environment_names_it(tmp_path, waits, monkeypatch):
    file = tmp_path / "localhost.pem"
    file.write_text(CERTIFICATE)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    with HTTPServer("localhost", ssl_context=context) as server:
        chat_server(server, str.upper)
        message = failure(OpenAIChat("tiny", url=server.url_for("/v1"), retries=0))
        assert f"{server.url_for('/v1')} cannot be reached (" in message
        assert "CERTIFICATE_VERIFY_FAILED" in message
        assert not server.log
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
        assert said(OpenAIChat("tiny", url=server.url_for("/v1")), "hi") == "HI"


LITELLM = "litellm.UnsupportedParamsError: gpt-5 models don't support temperature=0.0."
LOC = {"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}
USE_OTHER = "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."


@pytest.mark.parametrize(
    ("status", "error", "left_out"),
    [
        (400, {"error": {"message": LITELLM}}, "temperature"),
        (400, {"error": {"message": f"Unsupported parameter: {USE_OTHER}"}}, "max_tokens"),
        (422, {"detail": [LOC]}, "seed"),
        (422, {"object": "error", "message": {"detail": [LOC]}, "param": None}, "seed"),
        (400, {"error": "'seed' is unknown"}, "seed"),
    ],
)
def test_an_option_that_a_message_or_its_place_names_is_left_out(
    httpserver: HTTPServer, tiny, status: int, error: dict[str, object], left_out: str
):
    serve(httpserver, answered(json.dumps(error), status), completion("Literal"))
    assert said(tiny, "hi", temperature=0.7, seed=3) == "Literal"
    assert [left_out in body for body in bodies(httpserver)] == [True, False]


def test_a_complaint_of_too_much_context_is_about_no_option(httpserver: HTTPServer, tiny):
    message = "maximum context length is 8 tokens; you asked for 9: reduce max_tokens"
    serve(httpserver, refusal(400, message))
    assert "too long" in failure(tiny)
    assert len(httpserver.log) == 1


@pytest.mark.parametrize("drips", [True, False])
def test_an_answer_that_comes_late_or_byte_by_byte_is_given_up(httpserver, chat, waits, drips):
    ended = threading.Event()

    def late(request: Request) -> Response:
        if drips:
            blanks = (b" " for _ in iter(lambda: ended.wait(0.01), True))
            return Response(blanks, direct_passthrough=True)
        ended.wait(10)
        return completion("late")

    httpserver.expect_request(CHAT).respond_with_handler(late)
    try:
        message = failure(chat(timeout=0.1, retries=1))
    finally:
        ended.set()
    until(lambda: len(httpserver.log) == 2)  # the next test's requests come after these
    assert len(waits) == 1
    assert "within 0.1 s after 1 retries" in message


def test_a_retry_is_logged_with_its_reason_and_wait(httpserver: HTTPServer, caplog, chat):
    caplog.set_level(logging.INFO, "admire")
    for fault in (refusal(429, **{"Retry-After": "7"}), refusal(503, **{"Retry-After": "0.5"})):
        httpserver.clear()
        serve(httpserver, fault, completion("Literal"))
        assert said(chat(), "hi") == "Literal"
    retries = [line for line in caplog.messages if line.startswith("openai:tiny")]
    told = ("status 429; retrying in 7.0 s", "status 503; retrying in 0.5 s")
    assert retries == [f"openai:tiny: {one}." for one in told]


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("HTTP_PROXY", "socks5://user:{}@127.0.0.1:1", "socksio"),
        ("https_proxy", "ftp://{}@host", "Unknown scheme"),
        ("ALL_PROXY", "http://user:{}@host:port", "Invalid port"),
        ("SSL_CERT_FILE", "/none/{}", "No such file"),
    ],
)
def test_surroundings_that_cannot_be_used_are_told_and_do_not_matter_to_this_machine(
    httpserver: HTTPServer, chat, monkeypatch, variable: str, value: str, words: str
):
    monkeypatch.setenv(variable, value.format(PASSWORD))
    chat_server(httpserver, str.upper)
    assert said(chat(), "hi") == "HI"
    message = failure(OpenAIChat("tiny", url="http://gateway.example/v1"))
    assert "the proxies or certificates that the environment names cannot be used (" in message
    assert words in message
    assert PASSWORD not in message


def test_a_server_that_does_not_run_is_asked_about(waits: list[float], caplog):
    caplog.set_level(logging.INFO, "admire")
    where = "http://127.0.0.1:1/v1"
    message = failure(OpenAIChat("tiny", url=where))
    assert f"{where} cannot be reached after 2 retries (" in message
    assert len(waits) == 2
    assert caplog.text.count("no answer; retrying") == 1  # the second follows within a second


def test_a_line_break_after_the_key_is_no_part_of_it_and_in_it_is_told(
    httpserver, chat, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\n")
    chat_server(httpserver, str.upper)
    assert said(chat(), "hi") == "HI"
    assert httpserver.log[0][0].headers["Authorization"] == f"Bearer {KEY}"
    for key in ("sk-sécret-123", "sk-secret\n123"):
        with pytest.raises(UserError, match="OPENAI_API_KEY") as caught:
            chat(key=key)
        assert key not in str(caught.value)


@pytest.mark.parametrize(
    "answer",
    [
        completion("Literal"),
        *(refusal(status, f"{KEY} {PASSWORD} {TOKEN}") for status in (400, 401, 404, 429, 500)),
        refusal(400, "y" * 280 + KEY),  # where a long error is cut
    ],
    ids=lambda answer: f"{answer.status_code}-{len(answer.data)}",
)
def test_no_secret_is_told_logged_or_kept(httpserver, caplog, answer):
    """The fixture no_leaks of conftest.py looks at messages, the log and the cache."""
    caplog.set_level(logging.DEBUG, "admire")
    caplog.set_level(logging.INFO, "httpx2")
    httpserver.expect_request(re.compile(".*")).respond_with_response(answer)
    url = f"http://user:{PASSWORD}@127.0.0.1:{httpserver.port}/v1?token={TOKEN}"
    llm = open_llm("openai:tiny", url=url)
    with suppress(UserError):
        said(llm, "hi")
    assert TOKEN in httpserver.log[0][0].url
    assert "HTTP Request: POST" in caplog.text
    for secret in (KEY, PASSWORD, TOKEN):
        assert secret not in f"{llm.identity} {llm.name}"


def test_texts_and_images_are_sent_in_their_order(tiny, tmp_path: Path):
    paths = [drawn(tmp_path / name) for name in ("a.png", "b.png")]
    parts = ("Which?", "A:", Image(paths[0], 100), "B:", Image(paths[1], 100))
    content = tiny.request(Question(parts))["messages"][0]["content"]
    assert [part["type"] for part in content] == ["text", "text", "image_url", "text", "image_url"]
    assert [part["text"] for part in content if "text" in part] == ["Which?", "A:", "B:"]
    assert content[2]["image_url"]["url"].startswith("data:image/png;base64,")


XGRAMMAR = "The provided JSON schema contains features not supported by xgrammar."


@pytest.mark.parametrize("with_image", [False, True])
def test_a_server_that_refuses_schemas_gets_it_in_the_question_ever_after(
    httpserver: HTTPServer, tiny, tmp_path: Path, with_image: bool
):
    no = refusal(422, "Extra inputs are not permitted: response_format")
    serve(httpserver, refusal(400, XGRAMMAR) if with_image else no, completion("{}"))
    parts = ("Which?", Image(drawn(tmp_path / "a.png"))) if with_image else "Which?"
    for _ in range(2):
        assert tiny.ask(Question(parts, schema=SCHEMA)).text == "{}"
    first, second, third = bodies(httpserver)
    schema = {"name": "answer", "strict": True, "schema": SCHEMA}
    assert first["response_format"] == {"type": "json_schema", "json_schema": schema}
    assert (first["messages"][0]["content"] == "Which?") == (not with_image)
    for body in (second, third):
        assert "response_format" not in body
        content = body["messages"][0]["content"]
        last = content[-1]["text"] if with_image else content
        assert last.endswith(json.dumps(SCHEMA))
    assert tiny.ask(Question("hi")).text == "{}"
    assert bodies(httpserver)[-1]["messages"][0]["content"] == "hi"


def test_a_server_without_log_probabilities_is_asked_without(httpserver: HTTPServer, tiny):
    serve(httpserver, refusal(400, "top_logprobs is not supported"), completion("A"))
    for _ in range(2):
        assert tiny.ask(Question("A or B?", logprobs=2)).logprobs is None
    assert [("logprobs" in body) for body in bodies(httpserver)] == [True, False, False]


MMPROJ = "image input is not supported - hint: you may need to provide the mmproj"
NO_IMAGES = "Invalid content type. [...] this model does not support image inputs"
LLAMA_LONG = "the request exceeds the available context size (4096 tokens), try increasing it"
OPENAI_LONG = "This model's maximum context length is 8192 tokens. However, you requested 9000"
INVALID = "The image data you provided does not represent a valid image"


@pytest.mark.parametrize(
    ("no", "words", "settings"),
    [
        (refusal(500, MMPROJ), "cannot see images", ("track", "llms")),
        (refusal(400, "tiny is not a multimodal model"), "gpt-6", ("track", "llms")),
        (refusal(400, NO_IMAGES), "captions", ("track", "llms")),
        (refusal(400, LLAMA_LONG), "too long", ("image_side", "track")),
        (refusal(400, OPENAI_LONG), "smaller images", ("image_side", "track")),
        (refusal(400, INVALID), "a.png", ()),
    ],
)
def test_why_a_question_with_an_image_is_refused_is_told(
    httpserver, tiny, tmp_path: Path, no: Response, words: str, settings: tuple[str, ...]
):
    serve(httpserver, no)
    with pytest.raises(UserError, match=words) as caught:
        tiny.ask(Question(("Which?", Image(drawn(tmp_path / "a.png")))))
    assert caught.value.settings == settings
