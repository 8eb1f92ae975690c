"""The chat client and its cache, against a real server on this machine."""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from pytest_httpserver import HTTPServer
from toys import ScriptedChat
from werkzeug import Request, Response

from admire.errors import UserError
from admire.llm import open_llm
from admire.llm.cached import CachedChat
from admire.llm.openai import OFFICIAL, RETRIES, THINKING_TOKENS, OpenAIChat

CHAT = "/v1/chat/completions"

KEY, PASSWORD, TOKEN = "sk-secret-123", "pa55w0rd", "t0k3n"


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """No test sleeps: what the openai package would have slept, in seconds."""
    waits: list[float] = []
    clock = SimpleNamespace(**{**vars(time), "sleep": waits.append})
    monkeypatch.setattr("openai._base_client.time", clock)
    return waits


@pytest.fixture
def chat(httpserver: HTTPServer) -> Callable[..., OpenAIChat]:
    """A client of the test's server, for the model 'tiny'."""

    def make(model: str = "tiny", **settings: object) -> OpenAIChat:
        return OpenAIChat(model, **({"url": httpserver.url_for("/v1")} | settings))

    return make


def completion(text: object) -> Response:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    body = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    return Response(json.dumps(body), content_type="application/json")


def refusal(status: int, message: str = "no", **headers: str) -> Response:
    body = json.dumps({"error": {"message": message, "type": "t", "code": "c"}})
    return Response(body, status, headers, content_type="application/json")


def serve(server: HTTPServer, *responses: Response) -> None:
    """Give the responses one after the other, and the last one from then on."""
    rest = list(responses)

    def handle(request: Request) -> Response:
        return rest.pop(0) if len(rest) > 1 else rest[0]

    server.expect_request(CHAT, method="POST").respond_with_handler(handle)


def echo(server: HTTPServer, path: str = CHAT) -> None:
    """Answer every prompt with itself in capitals."""

    def handle(request: Request) -> Response:
        return completion(prompt_of(request).upper())

    server.expect_request(path, method="POST").respond_with_handler(handle)


def prompt_of(request: Request) -> str:
    return request.get_json()["messages"][0]["content"]


def asked(server: HTTPServer) -> list[str]:
    """The prompts that reached the server."""
    return [prompt_of(request) for request, _ in server.log]


def failure(model: OpenAIChat) -> str:
    with pytest.raises(UserError) as caught:
        model.ask("hi")
    return str(caught.value)


# --------------------------------------------------------------------------- names of models


@pytest.mark.parametrize(
    ("name", "close"),
    [("opnai:gpt-4o", "openai"), ("ggfu:model.gguf", "gguf"), ("embeded", "embedded")],
)
def test_a_misspelt_model_is_told_the_closest_family(name: str, close: str):
    with pytest.raises(UserError, match=rf"'{name}'.*Did you mean '{close}'\?"):
        open_llm(name)


@pytest.mark.parametrize("name", ["", ":", "zzz", "openai", "openai:", "gguf", "gguf:"])
def test_an_incomplete_or_unknown_name_is_told_the_three_forms(name: str):
    with pytest.raises(UserError, match="openai:MODEL, gguf:PATH or embedded") as caught:
        open_llm(name)
    # "Did you mean 'openai'?" would send who wrote 'openai' round in a circle.
    assert f"mean '{name.rstrip(':')}'" not in str(caught.value)


def test_a_model_name_may_hold_colons(httpserver: HTTPServer):
    echo(httpserver)
    llm = open_llm("openai:llama3.2:1b", url=httpserver.url_for("/v1"))
    assert llm.ask("hi") == "HI"
    assert llm.name == "openai:llama3.2:1b"
    assert httpserver.log[0][0].get_json()["model"] == "llama3.2:1b"


def test_open_llm_caches_the_replies(httpserver: HTTPServer):
    echo(httpserver)
    for _ in range(2):
        assert open_llm("openai:tiny", url=httpserver.url_for("/v1")).ask("hi") == "HI"
    assert asked(httpserver) == ["hi"]


def test_opening_the_embedded_model_loads_nothing():
    llm = open_llm("embedded")
    assert (llm.name, llm.parallel) == ("embedded", 1)
    assert not list(Path(os.environ["ADMIRE_CACHE"]).rglob("*.gguf"))


def test_open_llm_passes_the_timeout_on(httpserver: HTTPServer, waits: list[float]):
    answered = threading.Event()
    httpserver.expect_request(CHAT).respond_with_handler(lambda _: held_back(answered))
    llm = open_llm("openai:slow", url=httpserver.url_for("/v1"), timeout=0.05)
    try:
        with pytest.raises(UserError, match=r"0\.05 s"):
            llm.ask("hi")
    finally:
        answered.set()
    assert len(waits) == RETRIES


# ----------------------------------------------------------------------- keys and addresses


@pytest.mark.parametrize("key", [None, ""])
@pytest.mark.parametrize("url", [None, OFFICIAL, OFFICIAL + "/"])
def test_the_official_api_without_a_key_says_how_to_give_one(
    monkeypatch: pytest.MonkeyPatch, key: str | None, url: str | None
):
    if key is not None:
        monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(UserError) as caught:
        open_llm("openai:gpt-4o", url=url)
    for words in ("openai:gpt-4o", "OPENAI_API_KEY", "--llm-url", "embedded"):
        assert words in str(caught.value)


def test_the_official_api_is_the_default_where_a_key_is_set(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    llm = open_llm("openai:gpt-4o")
    assert llm.identity == "openai:gpt-4o@https://api.openai.com/v1"


def test_a_server_of_ones_own_needs_no_key(httpserver: HTTPServer, chat):
    echo(httpserver)
    assert chat().ask("hi") == "HI"


def test_the_key_of_the_environment_is_sent(
    httpserver: HTTPServer, chat, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    echo(httpserver)
    chat().ask("hi")
    chat(key="of-the-call").ask("hi")
    sent = [request.headers["Authorization"] for request, _ in httpserver.log]
    assert sent == [f"Bearer {KEY}", "Bearer of-the-call"]


def test_the_address_is_the_argument_or_else_of_the_environment(
    httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch
):
    echo(httpserver)
    echo(httpserver, "/given/v1/chat/completions")
    monkeypatch.setenv("OPENAI_BASE_URL", httpserver.url_for("/v1"))
    OpenAIChat("tiny").ask("hi")
    OpenAIChat("tiny", url=httpserver.url_for("/given/v1")).ask("hi")
    assert [request.path for request, _ in httpserver.log] == [
        CHAT,
        "/given/v1/chat/completions",
    ]


def test_the_server_is_part_of_the_identity_but_a_slash_at_its_end_is_not(chat):
    ours = chat(url="http://127.0.0.1:8000/v1").identity
    assert ours == chat(url="http://127.0.0.1:8000/v1/").identity
    assert ours != chat(url="http://127.0.0.1:8001/v1").identity
    assert ours != chat("other", url="http://127.0.0.1:8000/v1").identity


@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        "localhost:11434/v1",
        "127.0.0.1:11434/v1",
        "ftp://host/v1",
        "http://",
        "http:///v1",
        "http://[::1/v1",
        "http://host:port/v1",
    ],
)
def test_an_address_that_is_none_is_shown_as_it_was_given(url: str):
    with pytest.raises(UserError) as caught:
        open_llm("openai:tiny", url=url).ask("hi")
    assert f"'{url}'" in str(caught.value)
    assert "address" in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        f"ftp://user:{PASSWORD}@host/v1?token={TOKEN}",
        f"user:{PASSWORD}@host/v1?token={TOKEN}",
        f"http://user:{PASSWORD}@[::1/v1?token={TOKEN}",
    ],
)
def test_an_address_that_is_none_is_shown_without_its_secrets(url: str):
    with pytest.raises(UserError) as caught:
        open_llm("openai:tiny", url=url)
    assert PASSWORD not in str(caught.value)
    assert TOKEN not in str(caught.value)


# --------------------------------------------------------------------- requests and replies


def test_a_request_holds_the_prompt_and_the_settings(httpserver: HTTPServer, chat):
    echo(httpserver)
    chat().ask("Idiomático?", temperature=0.7, max_tokens=40, seed=3)
    assert httpserver.log[0][0].get_json() == {
        "model": "tiny",
        "messages": [{"role": "user", "content": "Idiomático?"}],
        "temperature": 0.7,
        "max_tokens": 40,
        "seed": 3,
    }


def test_settings_that_are_not_given_are_sent_all_the_same(httpserver: HTTPServer, chat):
    # A server's own default temperature would make replies random.
    echo(httpserver)
    chat().ask("hi")
    body = httpserver.log[0][0].get_json()
    assert (body["temperature"], body["max_tokens"], body["seed"]) == (0.0, 64, 0)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("Idiomatic", "Idiomatic"),
        ("", ""),
        (None, ""),
        ("Sure!\n\nThe answer is:\n **Literal** 🙂 ", "Sure!\n\nThe answer is:\n **Literal** 🙂 "),
    ],
)
def test_a_reply_is_the_message_as_it_is(httpserver: HTTPServer, chat, content, text):
    serve(httpserver, completion(content))
    assert chat().ask("hi") == text


def test_a_query_in_the_address_reaches_the_server(httpserver: HTTPServer, chat):
    echo(httpserver)
    assert chat(url=httpserver.url_for("/v1") + f"?token={TOKEN}", retries=0).ask("hi") == "HI"
    assert httpserver.log[0][0].args["token"] == TOKEN


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("<html><body>Welcome</body></html>", "text/html"),
        ("{oops", "application/json"),
        (b"\xff\xfe{", "application/json"),
        ("{}", "application/json"),
        ("[]", "application/json"),
        ("null", "application/json"),
        ('"text"', "application/json"),
        ('{"choices": null}', "application/json"),
        ('{"choices": []}', "application/json"),
        ('{"choices": [{}]}', "application/json"),
        ('{"choices": [{"message": null}]}', "application/json"),
    ],
)
def test_an_answer_without_a_message_asks_whether_the_address_is_right(
    httpserver: HTTPServer, chat, body, kind: str
):
    serve(httpserver, Response(body, content_type=kind))
    message = failure(chat(retries=0))
    for words in ("openai:tiny", httpserver.url_for("/v1"), "address", "/v1"):
        assert words in message


# --------------------------------------------------------- models that do not take all options


def particular(server: HTTPServer, *refused: str) -> None:
    """Refuse the options one at a time as OpenAI's models that reason do, or answer."""

    def handle(request: Request) -> Response:
        body = request.get_json()
        if len(server.log) > 20:  # an endless loop
            return refusal(404)
        for name in refused:
            if name in body:
                return not_taken(name)
        return completion(prompt_of(request).upper())

    server.expect_request(CHAT, method="POST").respond_with_handler(handle)


def not_taken(name: str | None, **more: object) -> Response:
    error = {
        "message": f"Unsupported value: '{name}' does not support 0.7 with this model.",
        "type": "invalid_request_error",
        "param": name,
        "code": "unsupported_parameter" if name == "max_tokens" else "unsupported_value",
    }
    return Response(json.dumps({"error": error | more}), 400, content_type="application/json")


def options_of(server: HTTPServer) -> list[dict[str, object]]:
    """What each request asked for besides model and prompt."""
    bodies = [request.get_json() for request, _ in server.log]
    return [{k: v for k, v in b.items() if k not in ("model", "messages")} for b in bodies]


def test_options_that_a_model_does_not_take_are_left_out(httpserver: HTTPServer, chat):
    particular(httpserver, "max_tokens", "temperature")
    assert chat().ask("hi", temperature=0.7, max_tokens=40, seed=3) == "HI"
    room = 40 + THINKING_TOKENS
    assert options_of(httpserver) == [
        {"temperature": 0.7, "max_tokens": 40, "seed": 3},
        {"temperature": 0.7, "max_completion_tokens": room, "seed": 3},
        {"max_completion_tokens": room, "seed": 3},
    ]
    assert THINKING_TOKENS >= 1000  # a thought is long


@pytest.mark.parametrize(
    ("name", "accepted"),
    [
        (
            "max_tokens",
            {"temperature": 0.7, "max_completion_tokens": 40 + THINKING_TOKENS, "seed": 3},
        ),
        ("temperature", {"max_tokens": 40, "seed": 3}),
        ("seed", {"temperature": 0.7, "max_tokens": 40}),
    ],
)
def test_only_what_is_refused_is_left_out(httpserver: HTTPServer, chat, name: str, accepted):
    particular(httpserver, name)
    assert chat().ask("hi", temperature=0.7, max_tokens=40, seed=3) == "HI"
    assert options_of(httpserver)[1:] == [accepted]


def test_what_was_refused_is_not_tried_again(httpserver: HTTPServer, chat):
    particular(httpserver, "max_tokens", "temperature", "seed")
    model = chat()
    assert [model.ask(prompt) for prompt in ("a", "b", "c")] == ["A", "B", "C"]
    assert asked(httpserver) == ["a"] * 4 + ["b", "c"]
    model.ask("d", max_tokens=500)  # the room is each question's own
    assert options_of(httpserver)[-1] == {"max_completion_tokens": 500 + THINKING_TOKENS}


def test_what_one_model_refuses_is_asked_of_another(httpserver: HTTPServer, chat):
    particular(httpserver, "max_tokens", "temperature")
    chat().ask("hi")
    chat("other").ask("hi")
    assert options_of(httpserver)[3] == {"temperature": 0.0, "max_tokens": 64, "seed": 0}


def test_threads_that_are_refused_at_once_all_get_their_replies():
    # No request is refused before all eight threads have sent it, so each hears what seven others
    # hear at the same time.
    waiting = {"max_tokens": threading.Barrier(8), "temperature": threading.Barrier(8)}

    def handle(request: Request) -> Response:
        for name, together in waiting.items():
            if name in request.get_json():
                together.wait(10)
                return not_taken(name)
        return completion(prompt_of(request).upper())

    prompts = [f"prompt {k}" for k in range(8)]
    with HTTPServer(threaded=True) as server, ThreadPoolExecutor(8) as threads:
        server.expect_request(CHAT).respond_with_handler(handle)
        llm = CachedChat(OpenAIChat("tiny", url=server.url_for("/v1"), timeout=20))
        assert list(threads.map(llm.ask, prompts)) == [prompt.upper() for prompt in prompts]
        assert len(server.log) == 3 * 8
        assert llm.ask("later") == "LATER"
        assert len(server.log) == 3 * 8 + 1


@pytest.mark.parametrize(
    ("name", "requests"),
    [
        ("max_tokens", 2),  # once with it and once without
        ("temperature", 2),
        ("seed", 2),
        ("messages", 1),
        ("max_completion_tokens", 1),
        ("model", 1),
        ("", 1),
        (None, 1),
    ],
)
def test_a_refusal_that_leaving_out_does_not_mend_is_told(
    httpserver: HTTPServer, chat, waits: list[float], name: str | None, requests: int
):
    serve(httpserver, *[not_taken(name)] * 9, refusal(404))  # the end of an endless loop
    message = failure(chat())
    assert len(httpserver.log) == requests
    assert waits == []
    for words in ("openai:tiny", httpserver.url_for("/v1"), "refused the request", "not support"):
        assert words in message


def test_a_model_that_takes_neither_limit_is_told(httpserver: HTTPServer, chat):
    particular(httpserver, "max_tokens", "max_completion_tokens")
    assert "refused the request" in failure(chat())
    assert len(httpserver.log) == 2


def test_one_refusal_after_the_other_comes_to_an_end(httpserver: HTTPServer, chat):
    names = ("max_tokens", "temperature", "seed", "max_tokens")
    serve(httpserver, *map(not_taken, names), refusal(404))
    assert "refused the request" in failure(chat())
    assert len(httpserver.log) == 4


def test_a_refusal_in_another_form_is_told(httpserver: HTTPServer, chat):
    # as vLLM, FastAPI and a proxy say it
    for body in (
        {"error": {"message": "not support", "param": ["max_tokens"]}},
        {"object": "error", "message": "not support", "param": None, "code": 400},
        {"detail": "not support"},
        "not support",
        ["not support"],
    ):
        httpserver.clear()
        serve(httpserver, Response(json.dumps(body), 400, content_type="application/json"))
        assert "refused the request" in failure(chat())
        assert len(httpserver.log) == 1


def test_a_passing_failure_between_refusals_is_tried_again(
    httpserver: HTTPServer, chat, waits: list[float]
):
    answers = (not_taken("max_tokens"), refusal(503), not_taken("temperature"), refusal(429))
    serve(httpserver, *answers, completion("Literal"))
    assert chat().ask("hi") == "Literal"
    assert len(waits) == 2
    assert options_of(httpserver)[-1] == {"max_completion_tokens": 64 + THINKING_TOKENS, "seed": 0}


def test_replies_of_a_model_that_reasons_are_kept_by_what_was_asked_for(
    httpserver: HTTPServer, chat
):
    particular(httpserver, "max_tokens", "temperature")
    llm = CachedChat(chat())
    for seed in (0, 1, 0, 1):  # votes: the same question with another seed
        llm.ask("hi", temperature=0.7, seed=seed)
    assert [options.get("seed") for options in options_of(httpserver)] == [0, 0, 0, 1]


# ----------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, ["refused the key", "OPENAI_API_KEY"]),
        (403, ["refused the key", "OPENAI_API_KEY"]),
        (404, ["does not know the model 'tiny'", "address"]),
        (400, ["refused the request", "max_tokens is too large"]),
        (422, ["refused the request", "max_tokens is too large"]),
    ],
)
def test_a_refusal_is_explained_and_not_tried_again(
    httpserver: HTTPServer, chat, waits: list[float], status: int, words: list[str]
):
    serve(httpserver, refusal(status, "max_tokens is too large"))
    message = failure(chat())
    for word in ("openai:tiny", httpserver.url_for("/v1"), *words):
        assert word in message
    assert len(httpserver.log) == 1
    assert waits == []


def test_a_long_refusal_is_cut(httpserver: HTTPServer, chat):
    serve(httpserver, refusal(400, "blah " * 1000))
    assert len(failure(chat())) < 500


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
def test_a_passing_failure_is_tried_again(
    httpserver: HTTPServer, chat, waits: list[float], status: int
):
    serve(httpserver, refusal(status), refusal(status), completion("Literal"))
    assert chat().ask("hi") == "Literal"
    assert asked(httpserver) == ["hi"] * 3
    assert len(waits) == 2


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_honoured(httpserver: HTTPServer, chat, waits: list[float], status: int):
    busy = {"Retry-After": "7"}
    serve(httpserver, refusal(status, **busy), refusal(status, **busy), completion("Literal"))
    assert chat().ask("hi") == "Literal"
    assert waits == [7, 7]


def test_without_retry_after_the_waits_grow(httpserver: HTTPServer, chat, waits: list[float]):
    serve(httpserver, refusal(429))
    failure(chat(retries=4))
    assert len(waits) == 4
    assert all(later > sooner for sooner, later in pairwise(waits))


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (429, "too many requests.*[Ww]ait.*quota"),
        # Whose server it is cannot be known: what is left to say is to wait or to look at its log.
        (503, "status 503.*([Aa]gain|[Ll]ater|[Ll]og)"),
    ],
)
def test_a_failure_that_lasts_is_told_after_the_retries(
    httpserver: HTTPServer, chat, status: int, words: str
):
    serve(httpserver, refusal(status))
    message = failure(chat())
    assert len(httpserver.log) == RETRIES + 1
    assert re.search(f"openai:tiny.*{words}", message)
    assert f"after {RETRIES} retries" in message


def test_a_wait_too_long_to_be_honoured_is_not_called_retries(
    httpserver: HTTPServer, chat, waits: list[float]
):
    serve(httpserver, refusal(429, **{"Retry-After": "86400"}))
    message = failure(chat())
    assert (len(httpserver.log), waits) == (1, [])
    assert "retries" not in message


def held_back(until: threading.Event) -> Response:
    until.wait(10)
    return completion("late")


@pytest.mark.parametrize("retries", [0, 1])
def test_a_timeout_says_how_long_was_waited(
    httpserver: HTTPServer, chat, waits: list[float], retries: int
):
    answered = threading.Event()
    httpserver.expect_request(CHAT).respond_with_handler(lambda _: held_back(answered))
    try:
        message = failure(chat(timeout=0.05, retries=retries))
    finally:
        answered.set()
    assert len(waits) == retries
    for words in ("openai:tiny", httpserver.url_for("/v1"), "0.05 s"):
        assert words in message
    assert "0 times" not in message  # it was asked once at least
    assert re.search(r"(?i)again|busy|longer|--|is the server", message)


def test_a_server_that_does_not_run_is_asked_about(waits: list[float]):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    message = failure(OpenAIChat("tiny", url=f"http://127.0.0.1:{port}/v1", retries=2))
    for words in ("openai:tiny", f"http://127.0.0.1:{port}/v1", "Is the server running?"):
        assert words in message
    assert len(waits) == 2


@pytest.fixture
def hanging_up() -> Iterator[SimpleNamespace]:
    """A server that hangs up in the middle of its first ``broken`` replies."""
    server = SimpleNamespace(broken=0, calls=0)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            server.calls += 1
            body = completion("Literal").data
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[:20] if server.calls <= server.broken else body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        server.url = f"http://127.0.0.1:{http.server_port}/v1"
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        yield server
        http.shutdown()
        thread.join()


def test_half_a_reply_is_asked_for_again(hanging_up: SimpleNamespace):
    hanging_up.broken = 1
    assert OpenAIChat("tiny", url=hanging_up.url).ask("hi") == "Literal"
    assert hanging_up.calls == 2


def test_a_server_that_always_hangs_up_is_given_up_after_the_retries(hanging_up: SimpleNamespace):
    hanging_up.broken = 99
    message = failure(OpenAIChat("tiny", url=hanging_up.url, retries=2))
    assert hanging_up.calls == 3
    assert "openai:tiny" in message
    assert hanging_up.url in message


def test_a_line_break_after_the_key_is_no_part_of_it(
    httpserver: HTTPServer, chat, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\n")
    echo(httpserver)
    assert chat(retries=0).ask("hi") == "HI"
    assert httpserver.log[0][0].headers["Authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("key", ["sk-sécret-123", "sk-secret\n123", "sk-secret-123…"])
def test_a_key_that_no_request_can_carry_is_no_fault_of_the_server(
    httpserver: HTTPServer, chat, monkeypatch: pytest.MonkeyPatch, key: str
):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    echo(httpserver)
    with pytest.raises(UserError, match="OPENAI_API_KEY") as caught:
        chat(retries=0).ask("hi")
    assert key not in str(caught.value)


# ---------------------------------------------------------------------------------- secrets


def everything_kept() -> bytes:
    files = [file for file in Path(os.environ["ADMIRE_CACHE"]).rglob("*") if file.is_file()]
    assert files
    return b"".join(file.read_bytes() for file in files)


@pytest.mark.parametrize(
    "answer",
    [
        completion("Literal"),
        *(refusal(status, f"{KEY} {PASSWORD} {TOKEN}") for status in (400, 401, 404, 429, 500)),
        # The key lies across the place where a long error is cut.
        *(refusal(400, "y" * length + KEY) for length in range(270, 290, 4)),
        Response(f"<p>{KEY} {PASSWORD} {TOKEN}</p>"),
    ],
    ids=lambda answer: f"{answer.status_code}-{len(answer.data)}",
)
def test_no_secret_is_told_or_kept(
    httpserver: HTTPServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    answer: Response,
):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    caplog.set_level(logging.DEBUG, "admire")
    httpserver.expect_request(re.compile(".*")).respond_with_response(answer)
    url = f"http://user:{PASSWORD}@127.0.0.1:{httpserver.port}/v1?token={TOKEN}"
    llm = open_llm("openai:tiny", url=url)
    said = [llm.identity, llm.name]
    try:
        said.append(llm.ask("hi"))
    except UserError as error:
        said.append(str(error))
    assert httpserver.log
    said += [record.getMessage() for record in caplog.records if record.name.startswith("admire")]
    for place in (*said, everything_kept().decode(errors="replace")):
        for secret in (KEY, KEY[:8], PASSWORD, TOKEN):
            assert secret not in place


# ------------------------------------------------------------------------------------ cache


def test_the_second_ask_is_answered_by_the_cache(httpserver: HTTPServer, chat):
    echo(httpserver)
    llm = CachedChat(chat())
    assert [llm.ask("hi"), llm.ask("hi")] == ["HI", "HI"]
    assert asked(httpserver) == ["hi"]
    assert llm.asked == 1


def test_replies_outlive_the_object(httpserver: HTTPServer, chat):
    echo(httpserver)
    CachedChat(chat()).ask("Pé-frio?")
    later = CachedChat(chat())
    assert later.ask("Pé-frio?") == "PÉ-FRIO?"
    assert asked(httpserver) == ["Pé-frio?"]
    assert later.asked == 0


def test_an_empty_reply_is_kept_too(httpserver: HTTPServer, chat):
    serve(httpserver, completion(None))
    assert [CachedChat(chat()).ask("hi") for _ in range(2)] == ["", ""]
    assert asked(httpserver) == ["hi"]


def test_half_of_a_two_part_character_does_not_stop_the_cache(httpserver: HTTPServer, chat):
    # What max_tokens leaves of an emoji's JSON escapes, "\ud83d" without "\ude42".
    serve(httpserver, completion("Literal \ud83d"))
    first, second = (CachedChat(chat()).ask("hi") for _ in range(2))
    assert first == second
    assert first.startswith("Literal")


@pytest.mark.parametrize(
    "change", [{"prompt": "ho"}, {"temperature": 0.7}, {"max_tokens": 40}, {"seed": 1}]
)
def test_another_question_is_asked(httpserver: HTTPServer, chat, change: dict[str, object]):
    echo(httpserver)
    llm = CachedChat(chat())
    llm.ask("hi")
    llm.ask(**({"prompt": "hi"} | change))
    assert len(httpserver.log) == 2


def test_another_model_or_server_is_asked(httpserver: HTTPServer, chat):
    echo(httpserver)
    echo(httpserver, "/other/v1/chat/completions")
    for model in (chat(), chat("other"), chat(url=httpserver.url_for("/other/v1"))):
        CachedChat(model).ask("hi")
    assert len(httpserver.log) == 3


def test_another_key_or_timeout_is_not_another_question(httpserver: HTTPServer, chat):
    echo(httpserver)
    for settings in ({}, {"key": "another"}, {"timeout": 5.0}):
        CachedChat(chat(**settings)).ask("hi")
    assert asked(httpserver) == ["hi"]


def test_after_an_error_a_rerun_asks_only_what_is_missing(httpserver: HTTPServer, chat):
    down = {"b"}

    def handle(request: Request) -> Response:
        prompt = prompt_of(request)
        return refusal(400) if prompt in down else completion(prompt.upper())

    httpserver.expect_request(CHAT).respond_with_handler(handle)

    def work() -> list[str]:
        llm = CachedChat(chat())
        return [llm.ask(prompt) for prompt in "abc"]

    with pytest.raises(UserError):
        work()
    down.clear()
    assert work() == ["A", "B", "C"]
    assert asked(httpserver) == ["a", "b", "b", "c"]


def test_threads_ask_at_once_and_each_gets_its_own_reply():
    # Nobody passes the barrier unless all eight are asking: the cache must not let them queue.
    together = threading.Barrier(8)

    def answer(prompt: str) -> str:
        together.wait(10)
        return prompt.upper()

    llm = CachedChat(ScriptedChat(answer, parallel=8))
    prompts = [f"prompt {k}" for k in range(8)]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(llm.ask, prompts)) == [prompt.upper() for prompt in prompts]
        assert list(threads.map(llm.ask, prompts)) == [prompt.upper() for prompt in prompts]
    assert llm.asked == 8


def test_threads_share_one_client_of_a_real_server(httpserver: HTTPServer, chat):
    echo(httpserver)
    llm = CachedChat(chat())
    prompts = [f"prompt {k}" for k in range(16)]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(llm.ask, prompts)) == [prompt.upper() for prompt in prompts]
    assert sorted(asked(httpserver)) == sorted(prompts)


def test_the_cache_shows_the_model_that_it_stands_before(chat):
    model = chat(parallel=3)
    llm = CachedChat(model)
    assert (llm.name, llm.identity, llm.parallel) == (model.name, model.identity, 3)
