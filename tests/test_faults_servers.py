"""Servers that fail in ways that no server should: what the user is told, and what is kept."""

from __future__ import annotations

import gzip
import hashlib
import json
import logging
import math
import re
import shutil
import socket
import sqlite3
import ssl
import subprocess
import threading
import time
import tracemalloc
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from email.utils import formatdate
from itertools import product
from pathlib import Path
from urllib.parse import quote

import pytest
from chats import KEY, PASSWORD, TOKEN, refusal
from commands import run
from conftest import admire_row
from leaks import Watch
from raw_server import Handler, RawServer, asked, completion, head, whole
from served import CALLS, ITEMS, answer
from strict_server import Body, StrictServer
from toys import IDIOMATIC, LITERAL, WordEncoder, said
from werkzeug import Response

from admire import Asking, Run, Settings, UserError, Waiting, rank
from admire.base.storage import cache_dir
from admire.models.llm import Question, open_llm

pytestmark = pytest.mark.usefixtures("waits")

WHOLE = whole(completion())
SENT = completion().encode()


@pytest.fixture(autouse=True)
def raw(monkeypatch: pytest.MonkeyPatch) -> None:
    """For conftest.py: these are tests with servers. The command's handlers are of other tests."""
    monkeypatch.setattr(logging.getLogger("admire"), "handlers", [])


def sends(content: bytes) -> Handler:
    return lambda connection, request: connection.sendall(content)


def told(url: str, timeout: float = 20.0, prompt: str = "hi") -> str:
    """The message that a question ends in; it names model and server, and nothing is kept."""
    with pytest.raises(UserError) as caught:
        said(open_llm("openai:tiny", url=url, timeout=timeout), prompt)
    message = str(caught.value)
    assert message.startswith("openai:tiny: ")
    assert url in message
    assert kept() == []
    return message


def kept() -> list[bytes]:
    """The replies in the cache."""
    path = cache_dir() / "replies.sqlite"
    if not path.exists():
        return []
    with sqlite3.connect(path) as cache:
        return [value for (value,) in cache.execute("SELECT value FROM entries")]


# ------------------------------------------------------------------- answers that are none

UNTOLD = r"is no JSON, or half of it.*OpenAI-compatible"
NONE = "holds no message.*OpenAI-compatible"
BROKEN = {
    "closed before a word": (b"", "breaks off before its answer is whole after 6 retries"),
    "less than Content-Length": (WHOLE[:-9], "breaks off before its answer is whole"),
    "chunks without an end": (
        head("Transfer-Encoding: chunked") + b"%x\r\n" % len(SENT) + SENT + b"\r\n",
        "breaks off before its answer is whole",
    ),
    "half the JSON": (whole(SENT[:-9]), UNTOLD),
    "half the JSON, no length": (head() + SENT[:-9], UNTOLD),
    "a page": (whole("<p>Welcome</p>", "Content-Type: text/html"), NONE),
    "another protocol": (b"SSH-2.0-OpenSSH_9\r\n\r\n", "breaks off"),
    "an error": (
        whole(json.dumps({"error": {"message": f"No quota for {KEY}", "code": 429}})),
        r"answers with an error: No quota for \*\*\*\. Try again later, or name another",
    ),
    "an error in words": (whole('{"error": "not loaded"}'), "an error: not loaded"),
    "an error of the choice": (
        whole(completion("Lit", error={"message": "the GPU is gone"})),
        "an error: the GPU is gone",
    ),
    "no choices": (whole('{"choices": []}'), NONE),
    "choices of text": (whole('{"choices": "text"}'), NONE),
    "a list": (whole(completion(["Literal"])), NONE),
    "an object": (whole(completion({"sense": "Literal"})), NONE),
    "a number": (whole(completion(7)), NONE),
    "held back": (
        whole(completion("Lit", finish_reason="content_filter")),
        r"holds the answer back \(content_filter\)\. Try again later, or name another model",
    ),
    "ten million characters": (
        whole(completion("Sure! {[(" * 1_100_000)),
        "answers with 9900000 characters, far more than was asked for",
    ),
    "nested": (whole("[" * 100_000), NONE),
    "nested, as an error": (whole("[" * 100_000, status="400 Bad"), "refused the request"),
    "wrong log-probabilities": (
        whole(
            completion(
                logprobs={"content": [{"top_logprobs": [{"token": "A", "logprob": "often"}]}]}
            )
        ),
        NONE,
    ),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_an_answer_that_is_none_is_told_in_one_message_and_not_kept(fault: str):
    content, words = BROKEN[fault]
    with RawServer(sends(content)) as server:
        assert re.search(words, told(server.url))


def answers(connection: socket.socket, request: bytes) -> None:
    prompt = asked(request)
    reply = IDIOMATIC if "idiom of the sentence" in prompt else LITERAL
    reply = "Idiomatic" if "or literally" in prompt else reply
    connection.sendall(whole(completion(reply, model="tiny-1")))


def ranked(url: str, parallel: int = 1) -> Run:
    settings = Settings(llms=("openai:tiny",), llm_url=url)
    return rank(ITEMS, settings, asking=Asking(parallel=parallel), encoder=WordEncoder())


@pytest.mark.parametrize("fault", ["less than Content-Length", "half the JSON", "an error"])
def test_replies_that_came_before_a_fault_are_kept_and_not_asked_again(fault: str):
    well = Counter[bytes]()

    def failing(connection: socket.socket, request: bytes) -> None:
        if len(well) == 9 and not mended.is_set():
            connection.sendall(BROKEN[fault][0])
            return
        well[request.partition(b"\r\n\r\n")[2]] += 1
        answers(connection, request)

    mended = threading.Event()
    with RawServer(failing) as server:
        with pytest.raises(UserError, match=r"openai:tiny: .*The answers so far are kept: run"):
            ranked(server.url)
        assert len(kept()) == 9
        mended.set()
        record = ranked(server.url).record
    assert set(well.values()) == {1}
    assert len(well) == len(kept()) == CALLS
    assert sum(one["from_cache"] for one in record["asked"]) == 9


def test_the_command_says_it_in_one_line_and_ends_with_2(capsys, tmp_path: Path, write_table):
    with RawServer(sends(BROKEN["an error"][0])) as server:
        command = ["rank", write_table(admire_row()), "--out", tmp_path / "run"]
        code, out, err = run(capsys, *command, "--llm", "openai:tiny", "--llm-url", server.url)
    assert (code, out) == (2, "")
    assert [line.startswith("admire: ") for line in err.splitlines()].count(True) == 1
    assert f"openai:tiny: {server.url} answers with an error: No quota for ***." in err
    assert "Traceback" not in err
    assert not (tmp_path / "run").exists()


# ------------------------------------------------------------------------ endless answers


def endless(connection: socket.socket, request: bytes) -> None:
    connection.sendall(head())
    while True:
        connection.sendall(b" " * 65536)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (endless, "an answer without end: it was given up after 16 MB"),
        # 200 MB of spaces in 200 kB
        (sends(whole(gzip.compress(b" " * 200_000_000, 1), "Content-Encoding: gzip")), "packs"),
    ],
    ids=["endless", "packed"],
)
def test_an_answer_that_would_fill_the_memory_is_given_up_at_once(answer: Handler, words: str):
    with RawServer(answer) as server:
        tracemalloc.start()
        message = told(server.url)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert words in message
        assert len(server.requests) == 1
        assert most < 64 * 2**20
    assert b"accept-encoding: identity" in server.requests[0].lower()


def test_a_byte_at_a_time_is_no_way_around_the_time_limit():
    def drip(connection: socket.socket, request: bytes) -> None:
        connection.sendall(head())
        while not server.over.wait(0.02):
            connection.sendall(b" ")

    with RawServer(drip) as server:
        started = time.monotonic()
        assert "did not answer within 0.1 s after 6 retries" in told(server.url, timeout=0.1)
        assert time.monotonic() - started < 5


# ------------------------------------------------------------------------ other addresses


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_neither_question_nor_key_follows_a_redirect(status: int):
    with RawServer(sends(WHOLE)) as other:
        location = f"Location: http://user:{PASSWORD}@127.0.0.1:{other.port}/v1?token={TOKEN}"
        moved = whole("", location, status=f"{status} Moved")
        with RawServer(sends(moved)) as server:
            message = told(server.url)
        assert (len(server.requests), other.requests) == (1, [])
    assert f"another address (http://127.0.0.1:{other.port}/v1)" in message
    assert "give it in place of this one" in message


@pytest.mark.parametrize("location", ["/v1/chat/completions", "", "http://[", "\u202e//x\t"])
def test_a_redirect_in_a_circle_or_to_nowhere_ends_at_once(location: str):
    moved = whole("", f"Location: {location}", status="308 Permanent Redirect")
    with RawServer(sends(moved)) as server:
        message = told(server.url)
        assert len(server.requests) == 1
    assert "another address" in message
    assert message.isprintable()


def test_a_certificate_that_does_not_fit_is_told(tmp_path: Path):
    if not shutil.which("openssl"):
        pytest.skip("needs openssl to make a certificate")
    made = [tmp_path / "key.pem", tmp_path / "certificate.pem"]
    kind = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=other"
    command = ["openssl", *kind.split(), "-keyout", made[0], "-out", made[1]]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made[1], made[0])
    with RawServer(sends(WHOLE), context) as server:
        message = told(server.url)
        assert server.requests == []
    assert "the certificate of https://127.0.0.1" in message
    assert "does not fit (self-signed certificate). Check the address" in message


def test_a_name_that_nobody_knows_is_told(monkeypatch: pytest.MonkeyPatch):
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    message = told("http://chat.invalid/v1")
    assert "nothing is known under the name 'chat.invalid'. Check the address" in message


# ---------------------------------------------------------------- order, names, clocks


def test_answers_that_come_in_another_order_belong_to_their_questions():
    many = 8
    turns = [threading.Event() for _ in range(many)]
    turns[-1].set()

    def backwards(connection: socket.socket, request: bytes) -> None:
        number = int(asked(request))
        turns[number].wait(20)
        connection.sendall(whole(completion(f"of {number}")))
        if number:
            turns[number - 1].set()

    with RawServer(backwards) as server, ThreadPoolExecutor(many) as threads:
        llm = open_llm("openai:tiny", url=server.url)
        replies = list(threads.map(lambda number: said(llm, str(number)), range(many)))
        assert replies == [f"of {number}" for number in range(many)]
        again = [llm.ask(Question(str(number))) for number in range(many)]
        assert [reply.text for reply in again] == replies
        assert all(reply.kept for reply in again)
        assert len(server.requests) == many


@pytest.mark.parametrize("parallel", [1, 4])
def test_a_model_that_changes_its_name_is_told_once_and_recorded(caplog, parallel: int):
    number = iter(range(1000))

    def renamed(connection: socket.socket, request: bytes) -> None:
        model = "tiny-1" if next(number) < 9 else "tiny-2\x1b[31m"
        answer = sends if "or literally" in asked(request) else None
        text = "Idiomatic" if answer else IDIOMATIC
        connection.sendall(whole(completion(text, model=model)))

    with RawServer(renamed) as server:
        first = ranked(server.url, parallel).record
        again = ranked(server.url, parallel).record
    for record in (first, again):
        senses, meanings = record["asked"]
        assert sorted(senses["answered_by"]) == ["tiny-1", "tiny-2[31m"]
        assert meanings["answered_by"] == ["tiny-2[31m"]
    said = [one.getMessage() for one in caplog.records if "changed the model" in one.getMessage()]
    assert len(said) == 2  # once in each run
    assert "openai:tiny: the answers are of 'tiny-" in said[0]


def test_a_run_goes_on_with_the_names_of_before(caplog):
    """As where a server got a new model between two commands."""
    with RawServer(answers) as server:
        ranked(server.url)
        server.answer = lambda connection, request: connection.sendall(
            whole(completion("Idiomatic", model="tiny-2"))
        )
        more = replace(ITEMS[0], sentence="And a night owl it was.")
        settings = Settings(llms=("openai:tiny",), llm_url=server.url)
        record = rank([*ITEMS, more], settings, encoder=WordEncoder()).record
    assert record["asked"][0]["answered_by"] == ["tiny-1", "tiny-2"]
    assert caplog.text.count("changed the model") == 1


@pytest.mark.parametrize(
    ("after", "jump"),
    [
        *zip(("-5", "nan", "inf", "1e999", "tomorrow", "99999999999"), [3600.0] * 6, strict=True),
        *product(("past", "far"), (-3600.0, 3600.0, 1e9)),
    ],
)
def test_whatever_a_server_or_the_clock_says_no_wait_is_long(
    monkeypatch: pytest.MonkeyPatch, waits: list[float], jump: float, after: str
):
    now = time.time()
    after = {"past": formatdate(now - 86400), "far": formatdate(now + 1e8)}.get(after, after)
    times = iter([now + jump * k for k in range(1000)])
    monkeypatch.setattr("time.time", lambda: next(times))
    busy = whole("{}", f"Retry-After: {after}", status="429 Too Many Requests")
    with RawServer(sends(busy)) as server:
        assert "answers 'too many requests'" in told(server.url)
        assert len(server.requests) <= 7
    assert all(0 <= wait <= 120 for wait in waits)


def test_a_clock_that_is_put_back_makes_no_time_negative(monkeypatch: pytest.MonkeyPatch):
    now = time.time()
    times = iter([now - 3600 * k for k in range(100_000)])
    monkeypatch.setattr("time.time", lambda: next(times))
    with RawServer(answers) as server:
        record = ranked(server.url).record
    assert all(0 < one["seconds"] < 60 for one in record["asked"])
    assert all(0 <= seconds < 60 for seconds in record["seconds"].values())


@pytest.mark.parametrize("wrong", [-5, 10**30, "many", None, 1.5])
def test_counts_and_likelihoods_that_cannot_be_are_left_out(wrong: object):
    usage = {"prompt_tokens": 7, "completion_tokens": wrong}
    likely = [("A", -0.5), ("B", math.nan), ("C", math.inf), ("D", -math.inf), ("E", 5), (6, -1)]
    places = [{"token": token, "logprob": logprob, "bytes": None} for token, logprob in likely]
    content = [places[0] | {"top_logprobs": places}]
    body = completion("A", usage=usage, logprobs={"content": content, "refusal": None})
    with RawServer(sends(whole(body))) as server:
        llm = open_llm("openai:tiny", url=server.url)
        reply = llm.ask(Question("hi", logprobs=5))
    assert reply.logprobs == ({"A": -0.5},)
    assert (reply.usage.prompt, reply.usage.completion) == (7, 0)
    assert llm.ask(Question("hi", logprobs=5)) == reply
    assert not re.search(b"NaN|Infinity", kept()[0])


def test_lines_of_a_batch_in_any_order_twice_or_missing_are_put_where_they_belong(
    served: StrictServer, caplog
):
    def batched() -> Run:
        settings = Settings(llms=("openai:gpt-4o",))
        return rank(ITEMS, settings, asking=Asking(batch=True), encoder=WordEncoder())

    def different(body: Body) -> str:
        found = answer(body)
        which = hashlib.sha256(json.dumps(body).encode()).hexdigest()
        return found if found == "Idiomatic" else found.replace("a", which, 1)

    served.answer = different
    caplog.set_level("INFO", "admire")
    with pytest.raises(Waiting):
        batched()
    served.finish()
    (name,) = [batch["output_file_id"] for batch in served.batches.values()]
    nested, *lines = [b"[" * 100_000 + b"\n", *served.files[name].splitlines(keepends=True)]
    changed = json.loads(lines[-1])
    changed["response"]["body"]["choices"][0]["message"]["content"] = "said later"
    again = json.dumps(changed).encode() + b"\n"
    served.files[name] = b"".join([nested, *reversed(lines[2:]), again])
    with pytest.raises(Waiting, match="batch_2 with 2 questions"):
        batched()
    assert f"answered {CALLS - 2} of {CALLS} questions" in caplog.text
    served.finish()
    batched()
    requests = served.files[served.batches["batch_1"]["input_file_id"]].splitlines()
    expected = {one["custom_id"]: different(one["body"]) for one in map(json.loads, requests)}
    assert len(set(expected.values())) > 8
    with sqlite3.connect(cache_dir() / "replies.sqlite") as cache:
        found = dict(cache.execute("SELECT key, value FROM entries"))
    assert {key: json.loads(value[1:])["text"] for key, value in found.items()} == expected


# -------------------------------------------------------------------------------- secrets


def test_a_batch_that_repeats_the_key_has_it_repeated_nowhere(served: StrictServer, caplog):
    """The scan of conftest.py looks: at the log, at the messages, at what is kept."""

    def refuse(body: Body) -> Response:
        return refusal(400, f"{'y' * 275} {KEY}")

    settings = Settings(llms=("openai:gpt-4o",))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(served, "_completion", refuse)
        for error in (Waiting, UserError):
            with pytest.raises(error):
                rank(ITEMS, settings, asking=Asking(batch=True), encoder=WordEncoder())
            served.finish()
    assert "status 400" in caplog.text


ODD = "p/a+s=s&w0rd"
"""A password that addresses write in another way."""


def test_no_secret_of_an_address_is_in_a_run_its_report_or_the_log(
    capsys, caplog, tmp_path: Path, write_table, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("admire.rankers.embeddings.open_encoder", lambda *a, **k: WordEncoder())
    for name in ("openai", "httpx2", "httpcore2", "admire"):
        caplog.set_level(logging.DEBUG, name)
    hidden = quote(ODD, safe="")
    with RawServer(answers) as server, Watch() as watch:
        address = f"http://user:{hidden}@127.0.0.1:{server.port}/v1?api_key={hidden}&t={TOKEN}"
        asks = ["rank", write_table(admire_row()), "--out", tmp_path / "run"]
        code, _, err = run(capsys, *asks, "--llm", "openai:tiny", "--llm-url", address)
        assert code == 0, err
        assert run(capsys, "report", tmp_path / "run", "--out", tmp_path / "r.html")[0] == 0
        assert hidden.encode() in server.requests[0]  # it was sent
        server.answer = sends(whole("{}", status="401 Unauthorized"))
        code, _, err = run(capsys, *asks, "--llm", "openai:other", "--llm-url", address)
        assert code == 2
    assert (tmp_path / "r.html").exists()
    assert "httpx2" in caplog.text
    assert watch.leaks([tmp_path, cache_dir()], [KEY, ODD, TOKEN]) == []
