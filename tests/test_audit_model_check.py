"""Trying models: encoders on the samples, chat models with a question of each kind."""

from __future__ import annotations

import json
import re

import pytest
from chats import CHAT, completion, refusal
from commands import run
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

pytest.importorskip("open_clip", reason="needs the extra 'clip'")

from admire.apps.audit.model_check import check_chat

pytest_plugins = ("clip_fixtures",)


@pytest.mark.usefixtures("one_thread", "network")
def test_an_encoder_ranks_the_samples_and_is_timed_without_the_cache(capsys, openclip_folder):
    for _ in range(2):
        code, out, _ = run(capsys, "models", "check", f"openclip:{openclip_folder}")
        assert code == 0
        assert "night owl" in out  # the samples' orders
        rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines()]
        speeds = {row[0]: row[1:] for row in rows if len(row) == 4}
        assert speeds.keys() >= {"first text", "texts", "images"}
        assert float(speeds["images"][-1]) > 0


def judge(body: dict, *, blind: bool = False) -> Response:
    """A server's answers to the questions of the check."""
    content = body["messages"][0]["content"]
    if blind and not isinstance(content, str):
        return refusal(400, "this model does not support images")
    if body.get("response_format"):
        return completion(json.dumps({"animal": "owl", "reason": "wings"}))
    if body.get("logprobs"):
        top = [
            {"token": " B", "logprob": -0.1, "bytes": None},
            {"token": " A", "logprob": -3.0, "bytes": None},
        ]
        return completion("B", {"logprobs": {"content": [top[0] | {"top_logprobs": top}]}})
    if body.get("continue_final_message"):
        tokens = {"user": -9.0, "An": -1.5, " owl.": -0.25}
        places = [{"1": {"logprob": p, "decoded_token": token}} for token, p in tokens.items()]
        return completion("", prompt_logprobs=[None, *places])
    if "idiomatically or literally" in content:
        return completion("Literal")
    return completion('{"definitions": ["a bird of the night"], "scene": "an owl"}')


@pytest.mark.parametrize("blind", [False, True])
def test_a_chat_model_is_asked_one_question_of_each_kind(httpserver: HTTPServer, blind: bool):
    def handle(request: Request) -> Response:
        return judge(request.get_json(), blind=blind)

    httpserver.expect_request(CHAT).respond_with_handler(handle)
    replies = check_chat("openai:tiny", url=httpserver.url_for("/v1"))
    assert [(reply.kind, reply.right) for reply in replies] == [
        ("sense", True),
        ("meaning", None),
        ("schema", True),
        ("log-probabilities", True),
        ("likelihood", True),
        ("image", not blind),
    ]
    texts = {reply.kind: reply.text for reply in replies}
    assert texts["meaning"] == "a bird of the night"
    assert texts["log-probabilities"] == "B 0.90, A 0.05"
    assert texts["likelihood"] == "-1.75 for 'An owl.'"
    assert ("cannot see images" in texts["image"]) == blind


def test_a_model_that_understands_nothing_is_shown_as_such(capsys, httpserver: HTTPServer):
    httpserver.expect_request(CHAT).respond_with_handler(lambda _: completion("3"))
    command = ("models", "check", "openai:tiny", "--llm-url", httpserver.url_for("/v1"))
    code, out, err = run(capsys, *command)
    message = "admire: openai:tiny: failed all 6 checks. See the column Understood.\n"
    assert (code, err) == (2, message)
    assert len(re.findall(r"│ no +│", out)) == 6
    assert "no JSON of the schema: '3'" in out
    # It is asked anew each time: what it said before is not what it would say now.
    asked = len(httpserver.log)
    run(capsys, *command)
    assert len(httpserver.log) == 2 * asked


def test_a_model_that_passes_some_checks_ends_with_0(capsys, httpserver: HTTPServer):
    def handle(request: Request) -> Response:
        body = request.get_json()
        return judge(body) if body.get("response_format") else refusal(400, "no such model")

    httpserver.expect_request(CHAT).respond_with_handler(handle)
    url = httpserver.url_for("/v1")
    code, out, err = run(capsys, "models", "check", "openai:tiny", "--llm-url", url)
    assert (code, err, len(re.findall(r"│ no +│", out))) == (0, "", 4)
