"""OpenAI's Batch API: what is submitted, what comes back, and what a kill leaves behind."""

from __future__ import annotations

import json
from pathlib import Path

import openai
import pytest
from chats import refusal
from commands import run
from conftest import admire_row
from strict_server import Body, StrictServer, prompt_of
from toys import IDIOMATIC, LITERAL, OWL, WordEncoder, explains

from admire import Item, Run, Scoring, Settings, UserError, rank
from admire.base.errors import Waiting
from admire.base.storage import cache_dir
from admire.models.llm import batches
from admire.rankers.settings import Asking

ITEMS = [
    Item(compound, f"A {compound} again.", candidates=OWL.candidates)
    for compound in ("night owl", "cold feet", "pipe dream")
]
CALLS = 7 * len(ITEMS)
GLOSSES = Settings(llms=("openai:gpt-4o",), meanings="gloss", scoring=Scoring())


def answer(body: Body) -> str:
    prompt = prompt_of(body)
    if "or literally" in prompt:
        return "Literal" if "cold feet" in prompt else "Idiomatic"
    return IDIOMATIC if "idiom of the sentence" in prompt else LITERAL


@pytest.fixture(autouse=True)
def served(official: StrictServer) -> StrictServer:
    official.answer = answer
    return official


def ranked(*llms: str, settings: Settings | None = None, **asking: object) -> Run:
    settings = settings or Settings(llms=llms or ("openai:gpt-4o",))
    return rank(ITEMS, settings, asking=Asking(batch=True, **asking), encoder=WordEncoder())


def waits(*llms: str, **more: object) -> str:
    with pytest.raises(Waiting) as caught:
        ranked(*llms, **more)
    return str(caught.value)


def sizes(server: StrictServer) -> list[int]:
    """How many requests each batch has."""
    return [batch["request_counts"]["total"] for batch in server.batches.values()]


def finish_and_rank(server: StrictServer, *llms: str, **more: object) -> Run:
    server.finish()
    return ranked(*llms, **more)


def once(server: StrictServer) -> bool:
    """Whether all requests were valid, and none answered twice."""
    return server.problems == [] and set(server.answers.values()) == {1}


def test_a_run_submits_stops_and_goes_on_when_it_is_answered(served: StrictServer):
    said = waits()
    assert f"openai:gpt-4o: batch batch_1 with {CALLS} questions is under way" in said
    assert "Run the same command again later" in said
    assert waits() == said  # still under way: nothing is submitted again
    record = finish_and_rank(served).record
    assert sizes(served) == [CALLS]
    assert once(served)
    assert [(one["calls"], one["from_cache"]) for one in record["asked"]] == [(15, 0), (6, 0)]
    direct = rank(ITEMS, Settings(llms=("openai:gpt-4o",)), encoder=WordEncoder())
    assert len(served.requests) == CALLS
    assert [r["from_cache"] for r in direct.record["asked"]] == [15, 6]


def test_a_reply_of_a_batch_costs_what_batches_cost(served: StrictServer):
    waits()
    for one in finish_and_rank(served).record["asked"]:
        fresh = one["prompt_tokens"] - one["cached_tokens"]
        full = 2.5 * fresh + 1.25 * one["cached_tokens"] + 10 * one["completion_tokens"]
        assert one["price_usd"] == one["price_usd_now"]
        assert full / 4 < 1e6 * one["price_usd"] < full
        assert one["price_is_at_most"] is False
        assert one["seconds"] is None  # nobody told


def test_all_models_are_asked_at_once_each_in_a_batch_of_its_own(served: StrictServer):
    waits("openai:gpt-4o", "openai:gpt-4.1")
    assert sizes(served) == [CALLS, CALLS]
    finish_and_rank(served, "openai:gpt-4o", "openai:gpt-4.1")
    assert once(served)


def test_what_depends_on_answers_goes_into_a_later_batch(served: StrictServer, caplog):
    waits(settings=GLOSSES)
    served.finish()
    waits(settings=GLOSSES)
    finish_and_rank(served, settings=GLOSSES)
    assert sizes(served) == [15, 2]  # no gloss of what is literal
    assert once(served)
    assert "could be read" not in caplog.text


@pytest.mark.parametrize("status", ["expired", "cancelled"])
def test_what_a_batch_left_is_asked_again_and_only_that(served: StrictServer, status: str, caplog):
    caplog.set_level("INFO", "admire")
    waits()
    served.finish(status, only=lambda body: "night owl" in prompt_of(body))
    assert "batch batch_2" in waits()
    assert sizes(served) == [CALLS, CALLS - 7]
    assert f"({status}) answered 7 of {CALLS}" in caplog.text
    finish_and_rank(served)
    assert once(served)


def test_an_option_that_is_refused_is_left_out_of_the_next_batches(served: StrictServer, caplog):
    served.refuses = {"max_tokens", "temperature"}
    for _ in range(3):  # one option is found out at a time
        waits(settings=GLOSSES)
        served.finish()
    waits(settings=GLOSSES)  # the glosses
    finish_and_rank(served, settings=GLOSSES)
    assert sizes(served) == [15, 15, 15, 2]
    assert once(served)
    assert caplog.text.count("'max_tokens' is not supported") == 1
    assert all("max_completion_tokens" in body for body in served.requests)


def test_what_cannot_be_answered_is_told_and_not_submitted_for_ever(
    served: StrictServer, monkeypatch: pytest.MonkeyPatch, caplog
):
    def failing(body: Body):
        if "cold feet" in prompt_of(body):
            return refusal(400, "This is against our policy.")
        return StrictServer._completion(served, body)

    monkeypatch.setattr(served, "_completion", failing)
    waits()
    served.finish()
    for _ in range(2):
        with pytest.raises(UserError, match=r"'cold feet'.*no batch .*against our policy") as said:
            ranked()
        assert said.value.settings == ("batch",)
    assert caplog.text.count("against our policy") == 1
    assert sizes(served) == [CALLS]
    monkeypatch.undo()


def test_a_server_that_fails_is_asked_three_times(
    served: StrictServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(served, "_completion", lambda body: refusal(500, "oops"))
    for _ in range(batches.TRIES):
        waits()
        served.finish()
    with pytest.raises(UserError, match=r"no batch could answer \(status 500: oops\)"):
        ranked()
    assert sizes(served) == [CALLS] * batches.TRIES


def test_a_batch_that_the_server_refuses_is_told_with_its_reason(served: StrictServer):
    waits()
    reason = {"code": "token_limit", "message": "Enqueued token limit reached.", "line": None}
    served.batches["batch_1"] |= {"status": "failed", "errors": {"data": [reason]}}
    with pytest.raises(UserError, match=r"batch batch_1 \(Enqueued token limit reached\.\)"):
        ranked()
    waits()
    assert sizes(served) == [CALLS, CALLS]


def killed(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("submitted", [True, False])
def test_a_kill_around_the_submission_loses_nothing_and_asks_nothing_twice(
    served: StrictServer, monkeypatch: pytest.MonkeyPatch, submitted: bool
):
    with monkeypatch.context() as patch:
        create = openai.resources.Batches.create

        def create_and_die(self, **body: object) -> None:
            if submitted:
                create(self, **body)
            killed()

        patch.setattr(openai.resources.Batches, "create", create_and_die)
        with pytest.raises(KeyboardInterrupt):
            ranked()
    waits()
    finish_and_rank(served)
    assert sizes(served) == [CALLS]
    assert once(served)


def test_a_submission_whose_answer_is_lost_is_found_among_the_servers_batches(
    served: StrictServer, monkeypatch: pytest.MonkeyPatch
):
    submit, lost = StrictServer._submit, []

    def losing(server: StrictServer, body: Body):
        answered = submit(server, body)
        return answered if lost else lost.append(1) or refusal(502)

    monkeypatch.setattr(StrictServer, "_submit", losing)
    with pytest.raises(UserError, match="fails with status 502"):
        ranked()
    served.batches = {f"other_{k}": {"id": f"other_{k}"} for k in range(150)} | served.batches
    served.batches |= {f"more_{k}": {"id": f"more_{k}"} for k in range(150)}
    assert "batch_1 " in waits()


def test_a_kill_while_answers_are_taken_loses_nothing(
    served: StrictServer, monkeypatch: pytest.MonkeyPatch
):
    waits()
    served.finish()
    with monkeypatch.context() as patch:
        kept = []
        keep = batches.BatchedChat.keep

        def keep_some(self, key, reply):
            return killed() if len(kept) == 5 else kept.append(key) or keep(self, key, reply)

        patch.setattr(batches.BatchedChat, "keep", keep_some)
        with pytest.raises(KeyboardInterrupt):
            ranked()
    ranked()
    assert sizes(served) == [CALLS]
    assert once(served)


@pytest.mark.parametrize(("limit", "value"), [("REQUESTS", 8), ("BYTES", 5000)])
def test_what_is_too_much_for_one_file_goes_into_several(
    served: StrictServer, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
):
    monkeypatch.setattr(batches, limit, value)
    waits()
    assert sum(sizes(served)) == CALLS
    assert len(sizes(served)) > 2
    if limit == "REQUESTS":
        assert sizes(served) == [8, 8, 5]
    else:
        assert all(len(content) <= value for content in served.files.values())
    finish_and_rank(served)
    assert once(served)


def test_a_budget_that_is_too_small_submits_nothing(served: StrictServer):
    with pytest.raises(UserError, match=r"may cost \$0\.\d+, and the budget is \$0\.001") as said:
        ranked(budget=0.001)
    assert said.value.settings == ("budget",)
    assert served.files == {}
    waits(budget=5.0)


def test_a_server_without_batches_is_told(served: StrictServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(served, "_upload", lambda request: refusal(404))
    with pytest.raises(UserError, match=r"has no Batch API\. Run without the batch") as said:
        ranked()
    assert said.value.settings == ("batch",)
    assert list((cache_dir() / "batches").glob("open/*")) == []


def test_the_command_says_what_it_waits_for_and_ends_with_3(
    capsys, tmp_path: Path, served: StrictServer, write_table, monkeypatch
):
    monkeypatch.setenv("ADMIRE_CACHE", str(tmp_path / "cache"))
    data = write_table(admire_row())
    command = ["rank", data, "--out", tmp_path / "run", "--llm", "openai:gpt-4o", "--batch"]
    code, out, err = run(capsys, *command)
    assert (code, out) == (3, "")
    assert "admire: openai:gpt-4o: batch batch_1 with 7 questions is under way." in err
    assert "Traceback" not in err
    assert not (tmp_path / "run").exists()
    served.finish()
    code, out, err = run(capsys, *command)
    assert code == 0, err
    assert json.loads((tmp_path / "run" / "run.json").read_text())["asked"][0]["calls"] == 5
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or b"sk-secret-123" not in path.read_bytes()


def test_another_run_submits_only_what_is_not_under_way(served: StrictServer):
    waits()
    more = [*ITEMS, Item("black sheep", "A black sheep again.", candidates=OWL.candidates)]
    settings = Settings(llms=("openai:gpt-4o",))
    for _ in range(2):
        with pytest.raises(Waiting) as caught:
            rank(more, settings, asking=Asking(batch=True), encoder=WordEncoder())
        assert f"batch_1 with {CALLS} questions" in str(caught.value)
        assert "batch_2 with 7 questions" in str(caught.value)
    served.finish()
    rank(more, settings, asking=Asking(batch=True), encoder=WordEncoder())
    assert sizes(served) == [CALLS, 7]
    assert once(served)


def test_a_model_without_a_server_is_asked_at_once(served: StrictServer):
    chat = explains("Idiomatic")
    run = rank([OWL], asking=Asking(batch=True), llms=[chat], encoder=WordEncoder())
    assert run.rankings[0].predicted_type == "idiomatic"
    assert served.headers == []


def test_a_batch_that_the_server_does_not_know_is_named_and_nothing_asked_again(
    served: StrictServer,
):
    waits()
    served.batches.clear()
    with pytest.raises(UserError, match=r"does not know batch batch_1.* another account") as said:
        ranked()
    (record,) = (cache_dir() / "batches" / "open").iterdir()
    assert f"without {record}" in str(said.value)
    record.unlink()
    waits()


def test_lines_that_make_no_sense_are_told_and_do_no_harm(served: StrictServer, caplog):
    waits()
    served.finish()
    (name,) = [batch["output_file_id"] for batch in served.batches.values()]
    first, second, *others = served.files[name].splitlines(keepends=True)
    empty = json.dumps(json.loads(second) | {"response": {"status_code": 200, "body": {}}})
    strange = [b"<html>\n", b"[]\n", b'{"custom_id": "of another"}\n', empty.encode() + b"\n"]
    served.files[name] = b"".join([*strange, *others])
    with pytest.raises(UserError, match=r"no batch could answer \(an answer holds no message\)"):
        ranked()
    assert "says '<html>'" in caplog.text
    assert json.loads(first)["custom_id"] not in caplog.text
    direct = rank(ITEMS, Settings(llms=("openai:gpt-4o",)), encoder=WordEncoder())
    assert sum(one["from_cache"] for one in direct.record["asked"]) == CALLS - 2
