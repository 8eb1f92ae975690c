"""Bodies of requests: their limits, alone and together, and clients that break off."""

import json
import logging
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from commands import until
from serving import (
    LINES,
    LONGEST,
    ROW,
    Gate,
    Served,
    drawn,
    problem,
    serving,
    shared_server,
    toy_models,
    uri,
)
from toys import explains

from admire.apps.serve import Limits, bodies

JSON = {"Content-Type": "application/json"}


def head(
    served: Served, *lines: str, path: str = "/v1/rank", kind: str = JSON["Content-Type"]
) -> bytes:
    """The head of a request."""
    start = f"POST {path} HTTP/1.1", f"Host: 127.0.0.1:{served.port}", f"Content-Type: {kind}"
    return "\r\n".join((*start, *lines, "", "")).encode()


def sent(served: Served, *parts: bytes) -> bytes:
    """What is answered to bytes that are sent as they are."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=LONGEST) as connection:
        for part in parts:
            connection.sendall(part)
        return connection.recv(65536)


served = shared_server(row=0.1, megabytes=0.1, text=0.1)


@pytest.mark.parametrize("path", ["/v1/rank", "/thumbnail", "/language"])
@pytest.mark.parametrize("length", [(), ("Content-Length: 5",)])
def test_what_arrives_is_counted_whatever_its_head_says(served, path, length):
    chunk = b"%x\r\n%b\r\n" % (60_000, b" " * 60_000)
    chunked = head(served, *length, "Transfer-Encoding: chunked", path=path)
    long = head(served, "Content-Length: 100001", path=path)
    for parts in ((chunked, chunk, chunk), (long,)):
        assert sent(served, *parts).startswith(b"HTTP/1.1 413 ")
    body = json.dumps(ROW).encode()
    whole = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    assert b" 200 " in sent(served, head(served, "Transfer-Encoding: chunked"), whole)


def test_a_row_is_counted_without_its_pictures():
    picture = {"image": uri(drawn("BMP", size=(80, 60)))}  # 19 KB
    row = json.dumps(ROW | {"candidates": [picture, {"caption": "x" * 5000}]})
    with serving(limits=Limits(json=0.01)) as served:
        assert served.send(row).status_code == 200
        for long in (json.dumps(ROW | {"candidates": [[]] * 3000}), row.replace("xx", "xxxxx")):
            assert "more than 0.01 MB besides its pictures" in problem(served.send(long), 413)
            lines = served.send(f"{row}\n{long}".replace("\n\n", "\n"), LINES["Accept"]).text
            assert [json.loads(line).get("status") for line in lines.splitlines()] == [None, 413]


def test_pictures_of_several_requests_take_turns_and_a_row_without_them_need_not_wait(monkeypatch):
    looked, goes_on = [], threading.Event()

    def look(path: Path, name: str, megapixels: float) -> None:
        looked.append(name)
        assert goes_on.wait(LONGEST)

    monkeypatch.setattr("admire.apps.serve.rest.check_picture", look)
    picture = {"image": uri(drawn())}
    rows = [picture, picture, picture], [{"caption": "an owl"}, picture]
    with serving() as served, ThreadPoolExecutor(2) as pool:
        answers, decoding = [], served.service.decoding
        for candidates in rows:
            answers.append(pool.submit(served.rank, candidates=candidates))
            until(lambda: looked and len(decoding._waiters or ()) == len(answers) - 1)
        assert served.rank().status_code == 200
        goes_on.set()
        assert [answer.result().status_code for answer in answers] == [200, 200]
    assert looked == [f"candidates[{k}].image" for k in (0, 1, 1, 2)]


def test_bodies_of_several_requests_are_bounded_together():
    gate = Gate()
    row = ROW | {"candidates": [{"image": uri(drawn(size=(400, 300)))}, {"caption": "an owl"}]}
    content = json.dumps(row).encode()
    limits = Limits(bodies=2.5 * len(content) / 1e6)
    with serving(toy_models(gate), limits=limits) as served, ExitStack() as stack:
        begun = head(served, f"Content-Length: {len(content)}") + content[:-1]
        address = ("127.0.0.1", served.port)
        slow = [stack.enter_context(socket.create_connection(address)) for _ in range(2)]
        for connection in slow:
            connection.sendall(begun)
        until(lambda: served.service.bodies.size == 2 * len(content) - 2)
        refused = served.send(content)
        assert "memory" in problem(refused, 503)
        assert refused.headers["retry-after"]
        for connection in slow:
            connection.sendall(content[-1:])
        for _ in slow:
            gate.wait()
        assert not served.service.bodies.size  # they are read, and wait for a chat model
        gate.open()
        assert served.send(content).status_code == 200
        for connection in slow:
            assert b" 200 " in connection.recv(65536)


def test_who_does_not_read_is_cut_and_keeps_out_nobody_who_sends_little(monkeypatch):
    monkeypatch.setattr(bodies, "PATIENCE", 1)
    content = b'{"a":1}\n' * 50_000
    lengthy = f"Content-Length: {len(content)}"
    with serving(limits=Limits(bodies=0.7)) as served, ExitStack() as stack:
        assert served.rank().status_code == 200  # it has started
        (listening,) = served.server.servers[0].sockets
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        for _ in range(2):
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", served.port))
            connection.sendall(head(served, lengthy, kind=LINES["Accept"]) + content)
            until(lambda: served.service.bodies.size > 300_000)
        assert served.rank().status_code == 200
        until(lambda: not served.service.bodies.size)
        assert served.send(content[: len(content) // 8], "application/json").status_code == 422


def test_a_body_that_does_not_arrive_is_given_up(monkeypatch):
    monkeypatch.setattr(bodies, "PATIENCE", 0.2)
    with serving() as served:
        for path in ("/v1/rank", "/thumbnail", "/language"):
            start = head(served, "Content-Length: 90000", path=path) + b"{" * 50_000
            assert b" 408 " in sent(served, start)
        assert not served.service.bodies.size


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({}, "Content-Type: application/json"),
        ({"Content-Type": "text/plain"}, "application/json"),
        (JSON | {"Content-Encoding": "gzip"}, "compressed"),
    ],
)
def test_other_bodies_are_refused_with_the_reason(served, headers, said):
    answer = served.client.post("/v1/rank", content=json.dumps(ROW), headers=headers)
    assert said in problem(answer, 415)


def test_a_client_that_breaks_off_is_no_error_and_leaves_nothing(served, caplog):
    caplog.set_level(logging.DEBUG)
    for path in ("/v1/rank", "/thumbnail", "/language"):
        with socket.create_connection(("127.0.0.1", served.port)) as connection:
            connection.sendall(head(served, "Content-Length: 90000", path=path) + b"{" * 50_000)
    until(lambda: not served.service.bodies.size)
    assert served.rank().status_code == 200
    assert not list(served.service.folder.iterdir())
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_many_lines_that_are_wrong_hold_nobody_up():
    with serving() as served:
        ended = threading.Event()

        def send() -> None:
            assert served.send(b"{}\n" * 600, LINES["Accept"]).text.count("\n") == 600
            ended.set()

        threading.Thread(target=send).start()
        answers = 0
        while not ended.is_set():
            assert served.client.get("/healthz").status_code == 200
            answers += 1
        assert answers > 10  # one, if they had to wait for all lines


def test_who_asks_a_server_that_hangs_holds_nobody_up():
    """The items of the first clients hang; another profile's are ranked meanwhile."""
    gate, here = Gate(), explains("literal")
    here.free = True
    models = toy_models(gate)
    models._openers = (lambda name, *_: [gate if name == "toy" else here]), models._openers[1]
    pictures = [{"image": uri(drawn(colour=colour))} for colour in ("red", "blue")]
    with serving(models) as served:
        hanging = [served.wait() for _ in range(3)]
        for _ in hanging:
            gate.wait()
        answer = served.rank(profile="paper", candidates=pictures)
        assert answer.json()["sense"] == "literal"
        gate.open()
        for client in hanging:
            client.until(sense="idiomatic")


def test_a_client_that_leaves_is_asked_no_further_question_for():
    gate = Gate()
    gate.parallel = 2
    with serving(toy_models(gate)) as served:
        client = served.wait()
        for _ in range(2):
            gate.wait()
        client.leave()
        until(lambda: not served.service.work.jobs)
        gate.open()
        assert served.rank(sentence="A night owl is a bird.").status_code == 200
        assert sum("My sister" in prompt for prompt in gate.prompts) == 2
