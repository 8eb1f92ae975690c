"""A server of the page with toy models, and visitors who load it and listen."""

from __future__ import annotations

import io
import json
import queue
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

for package in ("PIL", "fastapi", "py3langid", "uvicorn"):
    pytest.importorskip(package, reason="needs the extra 'serve'")

from PIL import Image  # noqa: E402 - after the skips
from toys import ScriptedChat, WordEncoder, explains  # noqa: E402

from admire.models.encoders import Vectors  # noqa: E402
from admire.models.llm import ChatModel  # noqa: E402
from admire.pages.serve import Limits, Models, Service, make_server  # noqa: E402
from admire.pages.serve.server import Server, listen  # noqa: E402

LONGEST = 20
"""Seconds after which a test fails that waits for something."""

TOYS = {"llms": ("toy",), "encoder": "colours"}


class ColourEncoder(WordEncoder):
    """As WordEncoder, and a picture is the name of its colour."""

    name = "colours"
    identity = "colours:1"

    def encode_images(self, images: Sequence[Path]) -> Vectors:
        names = []
        for path in images:
            with Image.open(path) as picture:
                red, _, blue = picture.convert("RGB").getpixel((0, 0))
            names.append("red bicycle" if red > blue else "bird wings")
        return self.encode_texts(names, role="document")


def toy_models(
    llm: ChatModel | None = None, changes: Mapping[str, Any] | None = None, **others: Any
) -> Models:
    """Models of which only the first profile can be opened. ``opened`` counts by name."""
    opened: Counter[str] = Counter()
    llm = llm or explains("idiomatic")

    def open_llms(name: str, *, url: str | None) -> list[ChatModel]:
        opened[name] += 1
        return [llm]

    def open_encoder(name: str, **place: str) -> ColourEncoder:
        opened[name] += 1
        return ColourEncoder()

    found = Models(
        changes=changes or TOYS, open_llms=open_llms, open_encoder=open_encoder, **others
    )
    found.opened = opened  # type: ignore[attr-defined]
    return found


class Gate(ScriptedChat):
    """A chat model that waits before each answer until it is let through."""

    def __init__(self) -> None:
        super().__init__(explains("idiomatic").answer)
        self.asked = threading.Semaphore(0)
        self.opened = threading.Semaphore(0)

    def ask(self, question):
        self.asked.release()
        assert self.opened.acquire(timeout=LONGEST)
        return super().ask(question)

    def wait(self) -> None:
        """Wait until it is asked."""
        assert self.asked.acquire(timeout=LONGEST)

    def open(self) -> None:
        """Let all through from now on."""
        self.opened.release(10_000)


class Page:
    """A visitor who has loaded the page, and may listen to its events."""

    def __init__(self, client: httpx.Client):
        self.client = client
        loaded = client.get("/")
        assert loaded.status_code == 200, loaded.text
        self.visitor = loaded.text.split('name="visitor" content="')[1].split('"')[0]
        self.headers = {"Admire-Visitor": self.visitor}
        self.heard: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue()
        self.close: Callable[[], None] = lambda: None

    def listen(self) -> Page:
        """Open a stream of events, whose events are those that are heard from now on."""
        heard = self.heard = queue.Queue()
        self.stream = self.client.stream("GET", f"/events?visitor={self.visitor}", timeout=None)
        answer = self.stream.__enter__()
        assert answer.headers["content-type"].startswith("text/event-stream")

        def read() -> None:
            event = ""
            try:
                for line in answer.iter_lines():
                    if line.startswith("event: "):
                        event = line.removeprefix("event: ")
                    elif line.startswith("data: "):
                        heard.put((event, json.loads(line.removeprefix("data: "))))
            except httpx.HTTPError:
                pass
            heard.put(("end", {}))

        threading.Thread(target=read, daemon=True).start()

        def close() -> None:
            network = answer.extensions["network_stream"].get_extra_info("socket")
            network.shutdown(socket.SHUT_RDWR)

        self.close = close
        return self

    def until(self, event: str, **told: Any) -> dict[str, Any]:
        """The data of the next event of that name which says that."""
        while True:
            name, data = self.heard.get(timeout=LONGEST)
            if name == event and told.items() <= data.items():
                return data
            assert name not in ("end", "problem"), data

    def problem(self) -> dict[str, Any]:
        """The data of the next problem."""
        name, data = self.heard.get(timeout=LONGEST)
        return data if name == "problem" else self.problem()

    def post(self, path: str, **sent: Any) -> httpx.Response:
        return self.client.post(path, headers=self.headers, **sent)

    def get(self, path: str, **sent: Any) -> httpx.Response:
        return self.client.get(path, headers=self.headers, **sent)

    def delete(self, path: str) -> httpx.Response:
        return self.client.delete(path, headers=self.headers)

    def add(self, content: bytes, name: str = "a.png") -> httpx.Response:
        return self.post("/pictures", params={"name": name}, content=content)

    def start(self, **changes: Any) -> str:
        """Start a job, which is the ranking of two captions unless something else is said."""
        answer = self.post("/jobs", json=ASKED | changes)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["job"])

    def ranked(self, **changes: Any) -> tuple[str, dict[str, Any]]:
        """A job and the item that it ranked."""
        job = self.start(**changes)
        return job, self.until("result", job=job)["item"]


ASKED = {
    "kind": "rank",
    "compound": "night owl",
    "sentence": "My sister is a night owl.",
    "language": "en",
    "profile": "embedded",
    "candidates": [
        {"picture": None, "caption": "a bird with wings"},
        {"picture": None, "caption": "a person awake late"},
    ],
    "by_hand": None,
}


@contextmanager
def serving(
    models: Models | None = None, *, token: str | None = None, limits: Limits | None = None
) -> Iterator[Served]:
    """A server on a free port, for as long as the block lasts."""
    with listen("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        service = Service(models or toy_models(), limits)
        server = make_server(service, "127.0.0.1", token)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=LONGEST) as client:
                yield Served(server, client, port)
        finally:
            server.should_exit = True
            thread.join(LONGEST)
            assert not thread.is_alive()
    assert not service.folder.exists()


class Served:
    """A running server, and a client of it."""

    def __init__(self, server: Server, client: httpx.Client, port: int):
        self.server, self.client, self.port = server, client, port
        self.service = server.service

    def visit(self) -> Page:
        return Page(self.client)


def drawn(kind: str = "PNG", colour: str = "red", size: tuple[int, int] = (40, 30)) -> bytes:
    """A picture's file."""
    written = io.BytesIO()
    Image.new("RGB", size, colour).save(written, kind)
    return written.getvalue()


def problem(answer: httpx.Response, status: int) -> str:
    """The detail of an answer that is a problem of that status."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert told.keys() == {"type", "title", "status", "detail"}
    assert told["status"] == status
    return str(told["detail"])
