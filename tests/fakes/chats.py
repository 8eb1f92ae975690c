"""A chat server that answers as a test wants."""

import json
from collections.abc import Mapping

import pytest
from pytest_httpserver import HTTPServer
from toys import said
from werkzeug import Request, Response

from admire.core.errors import UserError
from admire.llm.openai import OpenAIChat

CHAT = "/v1/chat/completions"
KEY, PASSWORD, TOKEN = "sk-secret-123", "pa55w0rd", "t0k3n-of-a-test"


def json_response(body: object, status: int = 200, **headers: str) -> Response:
    return answered(json.dumps(body), status, **headers)


def answered(body: str | bytes, status: int = 200, **headers: str) -> Response:
    return Response(body, status, headers, content_type="application/json")


def completion(
    text: object, choice: Mapping[str, object] | None = None, **more: object
) -> Response:
    """A chat completion, and what its server tells of the choice, or more, besides the text."""
    message = {"role": "assistant", "content": text}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"} | dict(choice or {})]
    body = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": choices}
    return json_response(body | more)


def refusal(status: int, message: str = "no", **headers: str) -> Response:
    error = {"message": message, "type": "t", "code": "c"}
    return json_response({"error": error}, status, **headers)


def not_taken(name: str | None) -> Response:
    message = f"Unsupported value: '{name}' does not support 0.7 with this model."
    return json_response({"error": {"message": message, "param": name}}, 400)


def serve(server: HTTPServer, *responses: Response) -> None:
    """Give the responses one after the other, and the last one from then on."""
    rest = list(responses)

    def handle(request: Request) -> Response:
        return rest.pop(0) if len(rest) > 1 else rest[0]

    server.expect_request(CHAT, method="POST").respond_with_handler(handle)


def bodies(server: HTTPServer) -> list[dict]:
    return [request.get_json() for request, _ in server.log]


def prompt_of(request: Request) -> str:
    return request.get_json()["messages"][0]["content"]


def failure(model: OpenAIChat) -> str:
    with pytest.raises(UserError) as caught:
        said(model, "hi")
    return str(caught.value)
