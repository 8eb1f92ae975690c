"""A server of the page with toy models, and clients who ask it and listen."""

from __future__ import annotations

import base64
import io
import json
import queue
import socket
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

for package in ("PIL", "fastapi", "py3langid", "uvicorn"):
    pytest.importorskip(package, reason="needs the extra 'serve'")

from PIL import Image  # noqa: E402 - after the skips
from toys import ScriptedChat, WordEncoder, explains, opener  # noqa: E402

from admire.apps.serve import Limits, Models, Service, make_server  # noqa: E402
from admire.apps.serve.server import Server, listen  # noqa: E402
from admire.encoders import Vectors  # noqa: E402
from admire.llm import ChatModel  # noqa: E402

LONGEST = 20  #: seconds after which a test fails that waits for something

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


def toy_models(llm: ChatModel | None = None, changes: Mapping[str, Any] | None = None) -> Models:
    """Models of which only the first profile can be opened. ``opened`` counts by name."""
    opened: Counter[str] = Counter()
    llm = llm or explains("idiomatic")

    def open_llms(name: str, *_: Any) -> list[ChatModel]:
        opened[name] += 1
        return [llm]

    def open_encoder(name: str, **place: str) -> ColourEncoder:
        opened[name] += 1
        encoder = opener(ColourEncoder())(name)
        encoder.name = name
        return encoder

    models = Models(changes=changes or TOYS, open_llms=open_llms, open_encoder=open_encoder)
    models.opened = opened  # type: ignore[attr-defined]
    return models


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


ROW = {
    "compound": "night owl",
    "sentence": "My sister is a night owl.",
    "language": "en",
    "candidates": [{"caption": "a bird with wings"}, {"caption": "a person awake late"}],
}
LINES = {"Accept": "application/x-ndjson"}


class Waiting:
    """A client who waits for a ranking and is told of its progress."""

    def __init__(self, client: httpx.Client, row: Mapping[str, Any]):
        self.told: queue.Queue[dict[str, Any]] = queue.Queue()
        self._stream = client.stream("POST", "/v1/rank", json=row, headers=LINES, timeout=None)
        self._answer = self._stream.__enter__()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            for line in self._answer.iter_lines():
                self.told.put(json.loads(line))
        except httpx.HTTPError:
            pass

    def until(self, **facts: Any) -> dict[str, Any]:
        """Return the next line that tells these facts."""
        while True:
            line = self.told.get(timeout=LONGEST)
            if facts.items() <= line.items():
                return line

    def leave(self) -> None:
        """Close the connection."""
        network = self._answer.extensions["network_stream"].get_extra_info("socket")
        network.shutdown(socket.SHUT_RDWR)


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


def shared_server(**limits: float) -> Any:
    """A fixture: one server for all tests of a file."""

    @pytest.fixture(scope="module")
    def served() -> Iterator[Served]:
        with serving(limits=Limits(**limits)) as served:
            yield served

    return served


class Served:
    """A running server, and a client of it."""

    def __init__(self, server: Server, client: httpx.Client, port: int):
        self.server, self.client, self.port = server, client, port
        self.address = f"http://127.0.0.1:{port}/"
        self.service = server.service

    def rank(self, **changes: Any) -> httpx.Response:
        """Rank two captions, unless something else is said."""
        return self.client.post("/v1/rank", json=ROW | changes)

    def send(self, content: Any, kind: str = "application/json") -> httpx.Response:
        """Send a body to be ranked."""
        return self.client.post("/v1/rank", content=content, headers={"Content-Type": kind})

    def refusals(self, row: Mapping[str, Any]) -> tuple[str, str]:
        """What is wrong with a row that is sent alone, and as a line."""
        body = json.dumps(row)
        line = self.send(body, LINES["Accept"]).json()
        return problem(self.send(body), 422), line["detail"]

    def wait(self, **changes: Any) -> Waiting:
        """Ask for a ranking without waiting for it."""
        return Waiting(self.client, ROW | changes)


def uri(content: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


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
