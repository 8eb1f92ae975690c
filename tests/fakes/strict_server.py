"""A chat server that checks each request against OpenAI's published schema."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import jsonschema
from chats import CHAT, completion, refusal
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

Body = dict[str, Any]
Answer = str | None | tuple[str | None, list[dict[str, float]]]
SLOW = 0  #: among the faults: an answer that takes 50 ms


class _Server(HTTPServer):
    """A server that stops at once; the usual one looks every half second whether it shall."""

    def thread_target(self) -> None:
        assert self.server is not None
        self.server.serve_forever(poll_interval=0.01)


@dataclass
class StrictServer:
    """The server, as a context manager; its attributes may be changed while it runs.

    Attributes:
        answer: the text for the body of a request, or text and log-probabilities: for each token
            the likeliest ones. The latter are sent only where they were asked for.
        faults: the k-th question that is new to the server meets the k-th of these, again and again
            from the start, before it is answered: statuses, or SLOW.
        thoughts: how many tokens the model thinks first; a limit that leaves no more cuts it off.
        requests: the bodies that were asked and found valid.
        headers: of all requests.
        answers: how often each of them was answered.
        problems: what was wrong with requests; each was answered with 400, too.
    """

    answer: Callable[[Body], Answer] = lambda body: "Literal"
    faults: Sequence[Sequence[int]] = ()
    thoughts: int = 0
    requests: list[Body] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def __enter__(self) -> StrictServer:
        self._lock = threading.Lock()
        self._met: dict[str, list[int]] = {}
        self._server = _Server(threaded=True)
        self._server.expect_request(CHAT, method="POST").respond_with_handler(self._chat)
        self._server.start()
        self.url = self._server.url_for("/v1")
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()

    def _chat(self, request: Request) -> Response:
        body = json.loads(request.get_data())
        name = json.dumps(body, sort_keys=True)
        with self._lock:
            self.headers.append(dict(request.headers))
            if self.faults and name not in self._met:
                self._met[name] = list(self.faults[len(self._met) % len(self.faults)])
            fault = self._met[name].pop(0) if self._met.get(name) else None
        if fault == SLOW:
            time.sleep(0.05)
        elif fault is not None:
            return refusal(fault)
        wrong = problems(body)
        with self._lock:
            self.problems.extend(wrong)
            self.requests += [] if wrong else [body]
        if wrong:
            return refusal(400, wrong[0])
        answered = self.answer(body)
        with self._lock:
            self.answers[name] += 1
        text, likely = answered if isinstance(answered, tuple) else (answered, [])
        limit = body.get("max_completion_tokens") or body["max_tokens"]
        cut = limit <= self.thoughts
        choice: Body = {"finish_reason": "length"} if cut else {}
        if body.get("logprobs"):
            places = [_place(place, body["top_logprobs"]) for place in likely]
            choice["logprobs"] = {"content": places, "refusal": None}
        usage = {
            "prompt_tokens": 8 + len(prompt_of(body).encode()) // 4 + 255 * len(images_of(body)),
            "completion_tokens": max(1, len(text or "") // 4),
            "prompt_tokens_details": {"cached_tokens": 4},
        }
        return completion(None if cut else text, choice, model=body["model"], usage=usage)


def problems(body: Body) -> list[str]:
    found = [error.message for error in _schema().iter_errors(body)]
    if "top_logprobs" in body and not (body.get("logprobs") and 0 <= body["top_logprobs"] <= 20):
        found.append("top_logprobs is not from 0 to 20, or comes without logprobs")
    for address in images_of(body):
        if not address.startswith(("data:image/jpeg;base64,", "data:image/png;base64,")):
            found.append(f"an image's address is {address[:40]!r}")
    if body.get("response_format"):
        found += _schema_problems(body["response_format"]["json_schema"]["schema"])
    return found


def prompt_of(body: Body) -> str:
    return "\n\n".join(part["text"] for part in _contents(body) if part["type"] == "text")


def images_of(body: Body) -> list[str]:
    parts = _contents(body)
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


def _contents(body: Body) -> Iterator[Body]:
    """The parts of a request's messages; one that is a text alone is such a part."""
    for message in body["messages"]:
        content = message["content"]
        yield from content if isinstance(content, list) else [{"type": "text", "text": content}]


@cache
def _schema() -> jsonschema.Draft202012Validator:
    """The openai package's types, which are made from OpenAI's specification, as a JSON schema that
    allows no other names."""
    from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
    from pydantic import TypeAdapter

    schema = TypeAdapter(CompletionCreateParamsNonStreaming).json_schema()
    for part in _parts(schema):
        if part.get("type") == "object" and "properties" in part:
            part.setdefault("additionalProperties", False)
    return jsonschema.Draft202012Validator(schema)


def _parts(schema: Any) -> list[dict[str, Any]]:
    """A schema's objects, itself and all below it."""
    below = schema.values() if isinstance(schema, dict) else schema
    found = [part for one in below if isinstance(one, dict | list) for part in _parts(one)]
    return [schema, *found] if isinstance(schema, dict) else found


def _schema_problems(schema: dict[str, Any]) -> list[str]:
    """Where a schema leaves the dialect that strict answers need, in all of its parts."""
    jsonschema.Draft202012Validator.check_schema(schema)
    found = []
    for part in _parts(schema):
        found += [f"{word} is not permitted" for word in ("oneOf", "allOf", "not") if word in part]
        if part.get("type") == "object" and "properties" in part:
            if part.get("additionalProperties") is not False:
                found.append("additionalProperties is not false")
            if {*part.get("required", [])} != {*part["properties"]}:
                found.append("not all properties are required")
    return found


def _place(likely: Mapping[str, float], most: int) -> Body:
    """One token among log-probabilities, as the API writes it."""
    listed = [
        {"token": token, "logprob": logprob, "bytes": list(token.encode())}
        for token, logprob in sorted(likely.items(), key=lambda one: -one[1])
    ]
    return listed[0] | {"top_logprobs": listed[:most]}
