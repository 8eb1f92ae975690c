"""``admire batch``: what is submitted, what comes back, and that the run asks nothing then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import openai
import pytest
from batch_server import BatchServer, Body
from commands import run
from conftest import admire_row
from pytest_httpserver import HTTPServer
from toys import IDIOMATIC, LITERAL, OWL, WordEncoder, explains, open_words

from admire import Item, Scoring, Settings, UserError, rank
from admire.core.storage import cache_dir
from admire.llm import batches
from admire.llm.openai import OpenAIChat
from admire.pipeline.batch import batch

ITEMS = [
    Item(compound, f"A {compound} again.", candidates=OWL.candidates, sentence_type="idiomatic")
    for compound in ("night owl", "cold feet", "pipe dream")
]
CALLS = 7 * len(ITEMS)
"""Five votes, and what each sense means."""
ONE = Settings(llms=("openai:gpt-4o",))
GLOSSES = Settings(llms=("openai:gpt-4o",), meanings="gloss", scoring=Scoring())


def prompt_of(body: Body) -> str:
    return str(body["messages"][0]["content"])


def answer(body: Body) -> str:
    prompt = prompt_of(body)
    if '"order"' in json.dumps(body):
        letters = [letter for letter in "ABC" if f"Candidate {letter}" in prompt]
        said = {"sense": "idiomatic", "meaning": "z", "candidates": {}, "order": letters}
        return json.dumps(said)
    if '"better"' in json.dumps(body):
        return '{"reason": "a lamp", "better": "A"}'
    if "or literally" in prompt:
        return "Literal" if "cold feet" in prompt else "Idiomatic"
    return IDIOMATIC if "idiom of the sentence" in prompt else LITERAL


@pytest.fixture
def server(httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> BatchServer:
    """In place of OpenAI's, whose prices are known."""
    server = BatchServer(httpserver, answer)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-123")
    client = openai.OpenAI(base_url=server.url, max_retries=0)
    monkeypatch.setattr(OpenAIChat, "client", client)
    return server


def ranked(settings: Settings = ONE) -> list[dict[str, Any]]:
    """What a run asked."""
    asked: list[dict[str, Any]] = rank(ITEMS, settings, encoder=WordEncoder()).record["asked"]
    return asked


def rounds(server: BatchServer, settings: Settings) -> list[int]:
    """How many questions go out in each round, until nothing is missing."""
    found = []
    while batch(ITEMS, settings):
        found.append(server.sizes()[-1])
        server.finish()
    return found


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (ONE, [CALLS]),
        (GLOSSES, [15, 2]),  # no gloss of what is literal
        (Settings(llms=ONE.llms, scoring=Scoring(gate="soft"), meanings="gloss"), [18]),
        (Settings(llms=ONE.llms, rankers=("pairwise", "listwise"), shuffles=2), [12, 18]),
        (Settings(llms=ONE.llms, rankers=("listwise",), sense="vote", shuffles=2), [15, 6]),
    ],
)
def test_after_the_last_round_a_run_asks_nothing(
    server: BatchServer, settings: Settings, expected: list[int]
):
    assert rounds(server, settings) == expected
    answered = len(server.asked)
    assert answered == sum(expected)
    for one in ranked(settings):
        assert one["calls"] == one["from_cache"] > 0
        assert 0 < one["price_usd"] < 1e-6 * one["calls"] * (2.5 * 40 + 10 * 4)  # as batches cost
        assert one["price_usd_now"] == 0
    assert len(server.asked) == answered


def test_nothing_is_submitted_twice_and_each_model_has_its_own_batch(server: BatchServer):
    both = Settings(llms=("openai:gpt-4o", "openai:gpt-4.1"))
    (line,) = batch(ITEMS, ONE)
    assert line == f"openai:gpt-4o: batch batch_1 with {CALLS} questions is in progress"
    assert batch(ITEMS, ONE) == [line]
    more = [*ITEMS, Item("black sheep", "A black sheep again.", candidates=OWL.candidates)]
    lines = batch(more, both)
    assert [line.split(" is ")[0][-12:] for line in lines] == [
        "21 questions",
        " 7 questions",
        "28 questions",
    ]
    assert server.sizes() == [CALLS, 7, 28]
    server.finish()
    assert batch(more, both) == []


def test_what_was_left_or_failed_for_now_is_submitted_again_and_only_that(server, caplog):
    caplog.set_level("INFO", "admire")
    batch(ITEMS, ONE)
    server.finish("expired", only=lambda body: "night owl" in prompt_of(body))
    assert "batch_2" in batch(ITEMS, ONE)[0]
    assert f"(expired) answered 7 of {CALLS}" in caplog.text
    server.answer = lambda body: (500, {"message": "oops"})
    server.finish()
    batch(ITEMS, ONE)
    assert "status 500: oops" in caplog.text
    assert server.sizes() == [CALLS, CALLS - 7, CALLS - 7]


def test_an_option_that_is_refused_is_left_out_of_the_next_batch(server, caplog):
    def refuses(body: Body):
        if "max_tokens" not in body:
            return answer(body)
        return 400, {"message": "'max_tokens' is not supported.", "param": "max_tokens"}

    server.answer = refuses
    assert rounds(server, ONE) == [CALLS, CALLS]
    assert caplog.text.count("'max_tokens' is not supported") == 1
    ranked()


def test_a_question_that_is_refused_is_left_to_rank(server: BatchServer, caplog):
    server.answer = lambda body: (
        (400, {"message": f"Against our policy, {'y' * 400} sk-secret-123"})
        if "cold feet" in prompt_of(body)
        else answer(body)
    )
    assert rounds(server, ONE) == [CALLS]
    assert "no batch can answer 7 questions (status 400: Against our policy" in caplog.text
    server.answer = answer
    assert [one["calls"] - one["from_cache"] for one in ranked()] == [5, 2]


def test_a_batch_that_the_server_refuses_is_told_with_its_reason(server: BatchServer):
    batch(ITEMS, ONE)
    reason = {"code": "token_limit", "message": "Enqueued token limit reached.", "line": None}
    server.batches["batch_1"] |= {"status": "failed", "errors": {"data": [reason]}}
    with pytest.raises(UserError, match=r"batch batch_1 \(Enqueued token limit reached\.\)"):
        batch(ITEMS, ONE)
    batch(ITEMS, ONE)
    assert server.sizes() == [CALLS, CALLS]


@pytest.mark.parametrize("submitted", [True, False])
def test_a_kill_around_the_submission_loses_nothing_and_asks_nothing_twice(
    server: BatchServer, monkeypatch: pytest.MonkeyPatch, submitted: bool
):
    create = openai.resources.Batches.create

    def create_and_die(self: Any, **body: Any) -> None:
        if submitted:
            create(self, **body)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(openai.resources.Batches, "create", create_and_die)
        with pytest.raises(KeyboardInterrupt):
            batch(ITEMS, ONE)
    batch(ITEMS, ONE)
    assert server.sizes() == [CALLS]


@pytest.mark.parametrize(("limit", "value"), [("REQUESTS", 8), ("BYTES", 5000)])
def test_what_is_too_much_for_one_file_goes_into_several(server, monkeypatch, limit, value):
    monkeypatch.setattr(batches, limit, value)
    lines = batch(ITEMS, ONE)
    assert sum(server.sizes()) == CALLS
    assert len(lines) == len(server.sizes()) > 2
    sizes = server.sizes() if limit == "REQUESTS" else map(len, server.files.values())
    assert max(sizes) <= value
    server.finish()
    assert batch(ITEMS, ONE) == []


def test_a_budget_that_is_too_small_submits_nothing(server: BatchServer):
    with pytest.raises(UserError, match=r"may cost \$0\.\d+, more than \$0\.001") as caught:
        batch(ITEMS, ONE, budget=0.001)
    assert caught.value.settings == ("budget",)
    assert server.files == {}
    assert batch(ITEMS, ONE, budget=5.0)


def test_servers_and_models_without_batches(server: BatchServer, caplog):
    caplog.set_level("INFO", "admire")
    assert batch([OWL], llms=[explains("Idiomatic")]) == []
    assert "explains Idiomatic has no Batch API" in caplog.text
    batch(ITEMS, ONE)
    server.batches.clear()
    with pytest.raises(UserError, match=r"does not know batch batch_1.* another account"):
        batch(ITEMS, ONE)
    (state,) = (cache_dir() / "batches").glob("*.json")
    state.unlink()
    server.takes_files = False
    with pytest.raises(UserError, match=r"has no Batch API\. Use admire rank"):
        batch(ITEMS, ONE)
    assert json.loads(state.read_text())["open"] == []


NULL = {"choices": [{"message": {"content": None}}]}


@pytest.mark.parametrize(("body", "lacks"), [({}, "has no message"), (NULL, "contains no text")])
def test_lines_that_make_no_sense_do_no_harm(server: BatchServer, caplog, body: Body, lacks: str):
    batch(ITEMS, ONE)
    server.finish()
    name = server.batches["batch_1"]["output_file_id"]
    first, second, *others = server.files[name].splitlines(keepends=True)
    empty = json.dumps(json.loads(second) | {"response": {"status_code": 200, "body": body}})
    strange = [b"<html>\n", b"[]\n", b'{"custom_id": "of another"}\n', empty.encode() + b"\n"]
    server.files[name] = b"".join([*reversed(others), *strange, others[0]])
    batch(ITEMS, ONE)
    assert "unexpected line '<html>'" in caplog.text
    assert f"an answer {lacks}" in caplog.text
    assert server.sizes() == [CALLS, 1]  # the first; the second is left to rank
    assert json.loads(first)["custom_id"] == server.lines(server.batches["batch_2"])[0]["custom_id"]


def test_the_command_says_what_it_waits_for_and_what_comes_next(
    capsys, tmp_path: Path, server: BatchServer, write_table, monkeypatch
):
    monkeypatch.setattr("admire.rankers.embeddings.open_encoder", open_words)
    options = [write_table(admire_row()), "--llm", "openai:gpt-4o"]
    code, out, err = run(capsys, "batch", *options, "--dry-run")
    assert (code, server.files) == (0, {})
    assert "$0.00" in out
    code, out, err = run(capsys, "batch", *options)
    assert (code, out) == (3, "")
    assert "openai:gpt-4o: batch batch_1 with 7 questions is in progress." in err
    assert "same command again" in err
    server.finish()
    code, out, err = run(capsys, "batch", *options)
    assert (code, out) == (0, "")
    assert "Now run admire rank" in err
    assert run(capsys, "rank", *options, "--out", tmp_path / "run")[0] == 0
    assert len(server.asked) == 7
