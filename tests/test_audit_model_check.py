"""Trying models: encoders beside their own packages, chat models with a question of each kind."""

from __future__ import annotations

import json
import re

import pytest
from chats import CHAT, completion, refusal
from commands import run
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

pytest.importorskip("open_clip", reason="needs the extra 'clip'")

from admire.audit.model_check import check_chat, check_encoder
from admire.models.encoders import e5, mclip, openclip, sentence  # noqa: F401

pytest_plugins = ("clip_fixtures",)


@pytest.mark.usefixtures("one_thread", "network")
@pytest.mark.parametrize("family", ["mclip", "openclip", "dual", "sbert"])
def test_an_encoder_agrees_with_its_own_package(capsys, folders, family: str):
    code, out, err = run(capsys, "models", "check", f"{family}:{folders[family]}")
    assert code == 0
    assert "night owl" in out  # the samples' orders
    found = {
        what: float(number)
        for what, number in re.findall(r"(\w+): largest difference from .*: (\S+)", err)
    }
    kinds = {"queries", "captions"} | ({"images"} if family != "sbert" else set())
    assert found.keys() == kinds
    assert max(found.values()) < 1e-5


@pytest.mark.usefixtures("one_thread", "network")
def test_a_difference_is_seen(monkeypatch: pytest.MonkeyPatch, openclip_folder):
    plain = openclip.OpenClipEncoder.encode_texts
    monkeypatch.setattr(
        openclip.OpenClipEncoder, "encode_texts", lambda *a, **k: plain(*a, **k)[::-1].copy()
    )
    done = check_encoder(f"openclip:{openclip_folder}")
    assert done.differences["queries"] > 0.01
    assert done.differences["images"] < 1e-5


def judge(body: dict, *, blind: bool = False) -> Response:
    """A server's answers to the questions of the check."""
    content = body["messages"][0]["content"]
    if not isinstance(content, str):
        if blind:
            return refusal(400, "this model does not support images")
        return completion(json.dumps({"animal": "owl", "reason": "wings"}))
    if body.get("response_format"):
        return completion(json.dumps({"animal": "owl", "reason": "wings"}))
    if body.get("logprobs"):
        top = [
            {"token": " B", "logprob": -0.1, "bytes": None},
            {"token": " A", "logprob": -3.0, "bytes": None},
        ]
        told = json.loads(completion("B").get_data())
        told["choices"][0]["logprobs"] = {
            "content": [{"token": " B", "logprob": -0.1, "bytes": None, "top_logprobs": top}]
        }
        return Response(json.dumps(told), content_type="application/json")
    if "idiomatically or literally" in content:
        return completion("Literal")
    return completion('{"definitions": ["a bird of the night"], "scene": "an owl"}')


@pytest.mark.parametrize("blind", [False, True])
def test_a_chat_model_is_asked_one_question_of_each_kind(httpserver: HTTPServer, blind: bool):
    def handle(request: Request) -> Response:
        return judge(request.get_json(), blind=blind)

    httpserver.expect_request(CHAT).respond_with_handler(handle)
    found = check_chat("openai:tiny", url=httpserver.url_for("/v1"))
    assert [(one.kind, one.right) for one in found] == [
        ("sense", True),
        ("meaning", None),
        ("schema", True),
        ("log-probabilities", True),
        ("image", not blind),
    ]
    answers = {one.kind: one.answer for one in found}
    assert answers["meaning"] == "a bird of the night"
    assert answers["log-probabilities"] == "B 0.90, A 0.05"
    assert ("cannot see images" in answers["image"]) == blind


def test_a_model_that_understands_nothing_is_shown_as_such(capsys, httpserver: HTTPServer):
    httpserver.expect_request(CHAT).respond_with_handler(lambda _: completion("3"))
    url = httpserver.url_for("/v1")
    code, out, _ = run(capsys, "models", "check", "openai:tiny", "--llm-url", url)
    assert code == 0
    assert len(re.findall(r"│ no +│", out)) == 4
    assert "no JSON of the schema: '3'" in out
    # It is asked anew each time: what it said before is not what it would say now.
    asked = len(httpserver.log)
    run(capsys, "models", "check", "openai:tiny", "--llm-url", url)
    assert len(httpserver.log) == 2 * asked
