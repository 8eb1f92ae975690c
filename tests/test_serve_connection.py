"""Connections: requests arrive in time, and only so many connections are open."""

from __future__ import annotations

import json
import socket
from contextlib import ExitStack

import pytest
from commands import until
from serving import LONGEST, ROW, Gate, serving, toy_models

from admire.apps.serve import Limits
from admire.apps.serve.server import listen

BODY = json.dumps(ROW).encode()
HEAD = (
    b"POST /v1/rank HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n" % len(BODY)
)


@pytest.mark.parametrize(
    ("start", "answer"),
    [
        (b"", b""),
        (HEAD[:30], b"HTTP/1.1 408 "),
        (HEAD, b"HTTP/1.1 408 "),
        (HEAD + BODY[:9], b"HTTP/1.1 408 "),
        (b"GET /nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n", b""),
    ],
    ids=["nothing", "half a head", "no body", "half a body", "unread body"],
)
def test_a_request_that_does_not_arrive_ends_its_connection(caplog, start, answer):
    with serving(limits=Limits(arrival=0.1)) as served:
        with socket.create_connection(("127.0.0.1", served.port), timeout=LONGEST) as connection:
            connection.sendall(start)
            received = b""
            while part := connection.recv(65536):
                received += part
        assert received.startswith(answer)
        until(lambda: not served.service.bodies.size)
        assert served.rank().status_code == 200
    assert not caplog.records


def test_a_request_that_has_arrived_may_take_its_time():
    gate = Gate()
    with serving(toy_models(gate), limits=Limits(arrival=0.1)) as served:
        waiting = served.wait()
        gate.wait()
        for _ in range(3):  # each takes longer than a request may take to arrive
            assert not gate.asked.acquire(timeout=0.1)
        gate.open()
        assert waiting.until(sense="idiomatic")


def test_only_so_many_connections_are_open():
    with serving(limits=Limits(connections=3)) as served, ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(socket.create_connection(("127.0.0.1", served.port)))
        assert served.client.get("/healthz").status_code == 503
        stack.close()
        while served.client.get("/healthz").status_code == 503:
            pass


def test_packets_are_sent_at_once():
    with listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        accepted.close()
