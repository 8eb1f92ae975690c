import os
import queue
import re
import signal
import socket
import subprocess
import sys
import webbrowser
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import httpx2 as httpx
import pytest
from commands import HEAVY, hide, loaded, run, until
from serving import LONGEST, ROW, problem, serving

from admire.apps.serve import Limits, Models, run_server
from admire.apps.serve.server import Server, listen


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_another_address_needs_a_token(capsys, host):
    code, out, err = run(capsys, "serve", "--host", host)
    assert (code, out, "--token" in err) == (2, "", True), err


def test_an_address_where_it_cannot_listen_is_one_message(capsys):
    with listen("127.0.0.1", 0) as taken:
        for arguments, said in (
            (("--port", taken.getsockname()[1]), "or 0"),
            (("--port", 70_000), "--port"),
            (("--host", "192.0.2.1", "--token", "t"), "cannot listen there"),
        ):
            code, _, err = run(capsys, "serve", *arguments)
            assert (code, said in err) == (2, True), err


def test_a_missing_extra_is_named(capsys, monkeypatch):
    hide(monkeypatch, "uvicorn")
    code, _, err = run(capsys, "serve")
    assert (code, ".[serve]" in err) == (2, True), err


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


@pytest.mark.ci
def test_the_command_starts_without_models_and_ends_at_once_with_nothing_left(tmp_path):
    command = [sys.executable, "-m", "admire.apps.cli", "serve", "--port", "0", "--token", "s3cret"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    started = subprocess.Popen(
        [*command, "--llm", "openai:x"], stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        first = started.stderr.readline()
        address = re.search(r"http://127\.0\.0\.1:\d+/", first)[0]
        answer = httpx.get(f"{address}?token=s3cret", timeout=LONGEST)
        assert answer.status_code == 200
        bearer = {"Authorization": "Bearer s3cret"}
        row = ROW | {"compound": "zebra", "sentence": "No such animal."}
        refused = httpx.post(f"{address}v1/rank", json=row, headers=bearer, timeout=LONGEST)
        assert "OPENAI_API_KEY" in problem(refused, 503)
        assert list(tmp_path.iterdir())
        until(lambda: "failed" in httpx.get(f"{address}models", headers=bearer).text)
        started.send_signal(signal.SIGINT)
        assert started.wait(LONGEST) == 0
    finally:
        started.kill()
    assert not list(tmp_path.iterdir())
    said = started.stderr.read()
    assert "OPENAI_API_KEY" in said
    assert not any(word in first + said for word in ("s3cret", "zebra"))


def test_the_page_is_opened_with_its_token_which_is_on_no_command_line(monkeypatch):
    opened, files = queue.Queue[str](), []

    def read(server: Server, sockets: object) -> None:
        files.append(Path(url2pathname(urlsplit(opened.get(timeout=LONGEST)).path)))
        files.append((files[0].read_text(), files[0].parent.stat().st_mode & 0o077))

    monkeypatch.setattr(Server, "run", read)
    monkeypatch.setattr(webbrowser, "open", opened.put)
    run_server(Models(), port=0, token="a b&c", opens=True)
    file, (content, others_rights) = files
    assert re.search(r'url=http://127.0.0.1:\d+/\?token=a\+b%26c"', content)
    assert others_rights == 0
    assert not file.parent.exists()


def test_the_page_needs_nothing_heavy():
    found = loaded("import admire.apps.serve; admire.apps.serve.make_server")
    assert "admire.apps.serve.app" in found
    assert not HEAVY & found
