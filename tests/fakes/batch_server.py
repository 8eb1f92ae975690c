"""A small server with OpenAI's files and batches, which answers questions at once, too."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from chats import json_response
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

Body = dict[str, Any]


class BatchServer:
    """Keeps what it was asked.

    Attributes:
        answer: what a question is answered with: a text, or a status and an error.
        asked: bodies of the questions that it answered, in batches or at once.
        files, batches: by their names.
    """

    def __init__(self, server: HTTPServer, answer: Callable[[Body], str | tuple[int, Body]]):
        self.url = server.url_for("/v1")
        self.answer = answer
        self.asked: list[Body] = []
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, Body] = {}
        self.takes_files = True
        server.expect_request("/v1/chat/completions").respond_with_handler(self._chat)
        server.expect_request("/v1/files", method="POST").respond_with_handler(self._upload)
        server.expect_request("/v1/batches", method="POST").respond_with_handler(self._submit)
        server.expect_request("/v1/batches", method="GET").respond_with_handler(self._list)
        for get, handler in (("batches", self._batch), ("files", self._content)):
            path = re.compile(f"/v1/{get}/.+")
            server.expect_request(path, method="GET").respond_with_handler(handler)

    def sizes(self) -> list[int]:
        """How many questions each batch has."""
        return [len(self.lines(batch)) for batch in self.batches.values()]

    def lines(self, batch: Body) -> list[Body]:
        return [json.loads(line) for line in self.files[batch["input_file_id"]].splitlines()]

    def finish(
        self, status: str = "completed", only: Callable[[Body], bool] = lambda body: True
    ) -> None:
        """End all open batches; questions for which ``only`` is false are left unanswered."""
        for batch in self.batches.values():
            if batch["status"] != "in_progress":
                continue
            good, bad = [], []
            for line in self.lines(batch):
                told: Body = {"id": "r", "custom_id": line["custom_id"], "response": None}
                if not only(line["body"]):
                    bad.append(told | {"error": {"code": "batch", "message": "not done"}})
                    continue
                code, body = self._answered(line["body"])
                told["response"] = {"status_code": code, "request_id": "x", "body": body}
                (good if code == 200 else bad).append(told | {"error": None})
            for name, lines in (("output_file_id", good), ("error_file_id", bad)):
                content = "".join(json.dumps(line) + "\n" for line in lines).encode()
                batch[name] = self._store(content) if lines else None
            batch["status"] = status

    def _answered(self, body: Body) -> tuple[int, Body]:
        answer = self.answer(body)
        if isinstance(answer, tuple):
            return answer[0], {"error": answer[1]}
        self.asked.append(body)
        choice = {"index": 0, "message": {"role": "assistant", "content": answer}}
        usage = {"prompt_tokens": 40, "completion_tokens": 4, "total_tokens": 44}
        told = {"id": "c", "object": "chat.completion", "created": 1, "model": body["model"]}
        return 200, told | {"choices": [choice | {"finish_reason": "stop"}], "usage": usage}

    def _chat(self, request: Request) -> Response:
        status, body = self._answered(request.get_json())
        return json_response(body, status)

    def _upload(self, request: Request) -> Response:
        if not self.takes_files:
            return json_response({"error": {"message": "Unknown request URL"}}, 404)
        return json_response({"id": self._store(request.files["file"].read()), "object": "file"})

    def _submit(self, request: Request) -> Response:
        name = f"batch_{len(self.batches) + 1}"
        more = {"id": name, "object": "batch", "status": "in_progress", "created_at": 1}
        self.batches[name] = request.get_json() | more
        keys = [line["custom_id"] for line in self.lines(self.batches[name])]
        assert len(keys) == len(set(keys))
        return json_response(self.batches[name])

    def _list(self, request: Request) -> Response:
        return json_response(
            {"object": "list", "data": [*self.batches.values()], "has_more": False}
        )

    def _batch(self, request: Request) -> Response:
        batch = self.batches.get(request.path.rpartition("/")[2])
        return (
            json_response(batch)
            if batch
            else json_response({"error": {"message": "No such batch"}}, 404)
        )

    def _content(self, request: Request) -> Response:
        return Response(self.files[request.path.split("/")[-2]])

    def _store(self, content: bytes) -> str:
        name = f"file-{len(self.files) + 1}"
        self.files[name] = content
        return name
