"""A chat server that checks each request against OpenAI's published schema.

server.answer = lambda body: "Literal"          # or (text, log-probabilities)
server.faults = [(), (429,), (500, 503), (SLOW,)]
… run against server.url …
assert server.problems == []
assert set(server.answers.values()) == {1}
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import jsonschema
from werkzeug import Request, Response
from werkzeug.serving import WSGIRequestHandler, make_server

Body = dict[str, Any]
Answer = str | tuple[str, list[dict[str, float]]]
SLOW = 0
"""Among the faults: an answer that takes 50 ms."""
TRANSIENT = {429: "Rate limit reached", 500: "The server had an error", 503: "Overloaded"}
OPTIONS = {"max_tokens": "unsupported_parameter", "temperature": "unsupported_value"}


class _KeepAlive(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, *_: object) -> None:
        pass


@dataclass
class StrictServer:
    """The server, as a context manager; its attributes may be changed while it runs.

    Attributes:
        answer: the text for the body of a request, or text and log-probabilities: for each token
            the likeliest ones. The latter are sent only where they were asked for.
        faults: the k-th question that is new to the server meets the k-th of these, again and again
            from the start, before it is answered: statuses, or SLOW.
        refuses: options that it answers with 400, as a model does that lacks them.
        usage: whether replies tell what they took.
        requests: the bodies that were asked and found valid.
        headers: of all requests.
        answers: how often each of them was answered.
        problems: what was wrong with requests; each was answered with 400, too.
    """

    answer: Callable[[Body], Answer] = lambda body: "Literal"
    faults: Sequence[Sequence[int]] = ()
    refuses: set[str] = field(default_factory=set)
    usage: bool = True
    requests: list[Body] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def __enter__(self) -> StrictServer:
        self._lock = threading.Lock()
        self._met: dict[str, list[int]] = {}
        self._server = make_server(
            "127.0.0.1", 0, self._app, threaded=True, request_handler=_KeepAlive
        )
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.port}/v1"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _app(self, environ: Any, start: Any) -> Any:
        request = Request(environ)
        with self._lock:
            self.headers.append(dict(request.headers))
        return self._route(request)(environ, start)

    def _route(self, request: Request) -> Response:
        posted = request.method == "POST"
        what, _, rest = request.path.removeprefix("/v1/").partition("/")
        if (what, rest, posted) == ("chat", "completions", True):
            return self._chat(json.loads(request.get_data()))
        return _error(404, f"Unknown request URL: {request.method} {request.path}")

    def _chat(self, body: Body) -> Response:
        name = json.dumps(body, sort_keys=True)
        with self._lock:
            if self.faults and name not in self._met:
                self._met[name] = list(self.faults[len(self._met) % len(self.faults)])
            fault = self._met[name].pop(0) if self._met.get(name) else None
        if fault == SLOW:
            time.sleep(0.05)
        elif fault is not None:
            return _error(fault, TRANSIENT[fault])
        return self._completion(body)

    def _completion(self, body: Body) -> Response:
        wrong = problems(body)
        if wrong:
            self.problems.extend(wrong)
            return _error(400, wrong[0])
        for option in sorted(self.refuses & body.keys()):
            said = f"Unsupported parameter: '{option}' is not supported with this model."
            return _error(400, said, option, OPTIONS.get(option, "unsupported_parameter"))
        with self._lock:
            self.requests.append(body)
        answered = self.answer(body)
        text, likely = answered if isinstance(answered, tuple) else (answered, [])
        with self._lock:
            self.answers[json.dumps(body, sort_keys=True)] += 1
        choice: Body = {
            "index": 0,
            "message": {"role": "assistant", "content": text, "refusal": None},
            "finish_reason": "stop",
            "logprobs": None,
        }
        if body.get("logprobs"):
            choice["logprobs"] = {
                "content": [_place(place, body["top_logprobs"]) for place in likely],
                "refusal": None,
            }
        told = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": body["model"],
            "choices": [choice],
        }
        if self.usage:
            asked_tokens = 8 + len(prompt_of(body).encode()) // 4 + 255 * len(images_of(body))
            told_tokens = max(1, len(text) // 4)
            told["usage"] = {
                "prompt_tokens": asked_tokens,
                "completion_tokens": told_tokens,
                "total_tokens": asked_tokens + told_tokens,
                "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 0},
            }
        return _json(told)


# ------------------------------------------------------------------------------- what is checked


def problems(body: Body) -> list[str]:
    """What is wrong with the body of a request to ``/chat/completions``."""
    found = [error.message for error in _schema().iter_errors(body)]
    if found:
        return found
    if not 0 <= (body.get("temperature") or 0) <= 2:
        found.append("temperature is not from 0 to 2")
    if "top_logprobs" in body and not (body.get("logprobs") and 0 <= body["top_logprobs"] <= 20):
        found.append("top_logprobs is not from 0 to 20, or comes without logprobs")
    if "max_tokens" in body and "max_completion_tokens" in body:
        found.append("max_tokens and max_completion_tokens exclude each other")
    for address in images_of(body):
        if not re.match("data:image/(jpeg|png);base64,", address):
            found.append(f"an image's address is {address[:40]!r}")
    answer = body.get("response_format", {}).get("json_schema")
    if answer:
        if not re.fullmatch(r"[\w-]{1,64}", answer["name"]):
            found.append(f"json_schema: the name {answer['name']!r}")
        if not answer.get("strict"):
            found.append("json_schema: is not strict")
        if answer["schema"].get("type") != "object":
            found.append("json_schema: the root is no object")
        found += _schema_problems(answer["schema"], "schema")
    return found


def prompt_of(body: Body) -> str:
    """The texts of a request's messages."""
    contents = [message["content"] for message in body["messages"]]
    texts = [
        [part["text"] for part in content if part["type"] == "text"]
        if isinstance(content, list)
        else [content]
        for content in contents
    ]
    return "\n\n".join(text for content in texts for text in content)


def images_of(body: Body) -> list[str]:
    """The addresses of a request's images."""
    contents = [message["content"] for message in body["messages"]]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


@cache
def _schema() -> jsonschema.Draft202012Validator:
    """The openai package's types, which are made from OpenAI's specification, as a JSON schema that
    allows no other names."""
    from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
    from pydantic import TypeAdapter

    schema = TypeAdapter(CompletionCreateParamsNonStreaming).json_schema()
    _forbid_others(schema)
    return jsonschema.Draft202012Validator(schema)


def _forbid_others(schema: Any) -> None:
    if isinstance(schema, dict):
        if schema.get("type") == "object" and "properties" in schema:
            schema.setdefault("additionalProperties", False)
        schema = schema.values()
    elif not isinstance(schema, list):
        return
    for part in schema:
        _forbid_others(part)


def _schema_problems(schema: Any, where: str) -> list[str]:
    """Where a schema leaves the dialect that strict answers need, in all of its parts."""
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        return [f"{where}: {error.message}"]
    found = []
    for word in ("oneOf", "allOf", "not", "if", "uniqueItems", "patternProperties", "contains"):
        if word in schema:
            found.append(f"{where}: {word} is not permitted")
    kinds = schema.get("type", [])
    if "object" in ([kinds] if isinstance(kinds, str) else kinds):
        if schema.get("additionalProperties") is not False:
            found.append(f"{where}: additionalProperties is not false")
        if set(schema.get("required", [])) != set(schema.get("properties", {})):
            found.append(f"{where}: not all properties are required")
    parts = schema.get("properties", {}) | schema.get("$defs", {})
    parts |= {f"anyOf {k}": one for k, one in enumerate(schema.get("anyOf", []))}
    parts |= {"items": schema["items"]} if "items" in schema else {}
    for name, part in parts.items():
        found += _schema_problems(part, f"{where}.{name}")
    return found


def _place(likely: Mapping[str, float], most: int) -> Body:
    """One token among log-probabilities, as the API writes it."""
    listed = [
        {"token": token, "logprob": logprob, "bytes": list(token.encode())}
        for token, logprob in sorted(likely.items(), key=lambda one: -one[1])
    ]
    return listed[0] | {"top_logprobs": listed[:most]}


def _json(told: Body, status: int = 200) -> Response:
    return Response(json.dumps(told), status, content_type="application/json")


def _error(
    status: int, message: str, param: str | None = None, code: str | None = None
) -> Response:
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return _json({"error": error}, status)
