"""How a chat model is opened by its name, and how many questions are put to one."""

from __future__ import annotations

from datetime import date

import pytest
from chats import KEY, echo
from pytest_httpserver import HTTPServer
from toys import said

from admire.core.errors import UserError
from admire.llm import open_llm, retired
from admire.rankers.settings import PROFILES


@pytest.mark.parametrize(
    ("name", "close"),
    [("opnai:gpt-4o", "openai"), ("ggfu:model.gguf", "gguf"), ("embeded", "embedded")],
)
def test_a_misspelt_model_is_told_the_closest_family(name: str, close: str):
    with pytest.raises(UserError, match=rf"'{name}'.*Did you mean '{close}'\?"):
        open_llm(name)


@pytest.mark.parametrize("name", ["", ":", "zzz", "openai", "openai:", "gguf", "gguf:"])
def test_an_incomplete_or_unknown_name_is_told_the_three_forms(name: str):
    with pytest.raises(UserError, match=r"Available: .*gguf:PATH, openai:MODEL") as caught:
        open_llm(name)
    # "Did you mean 'openai'?" would send who wrote 'openai' round in a circle.
    assert f"mean '{name.rstrip(':')}'" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "today", "expected"),
    [
        ("openai:gpt-4", "2026-11-25", "retired on 2026-10-23"),
        ("openai:gpt-4", "2026-10-22", "will be retired on 2026-10-23"),
        ("openai:gpt-4o", "2026-11-25", "will be retired on 2027-01-14"),
        ("openai:gpt-4o-2024-11-20", "2027-01-14", "retired on 2027-01-14"),
        ("openai:gpt-4o-2024-05-13", "2026-11-25", "retired on 2026-10-23"),  # before the others
        ("openai:gpt-6.1-sol", "2026-11-25", ""),
        ("openai:gpt-4-of-ours", "2026-11-25", ""),
        ("gguf:gpt-4", "2026-11-25", ""),
        ("embedded", "2026-11-25", ""),
    ],
)
def test_what_openai_retires_is_told_with_the_day(name: str, today: str, expected: str):
    assert retired(name, date.fromisoformat(today)) == expected


def test_a_retired_model_is_named_when_it_is_opened_at_the_official_api(monkeypatch, caplog):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    gpts = PROFILES["paper"].llms
    for name in (*gpts, "openai:gpt-6.1-sol"):
        open_llm(name)
    assert [record.args[0] for record in caplog.records] == list(gpts)
    caplog.clear()
    open_llm("openai:gpt-4", url="http://127.0.0.1:8000/v1")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1")
    open_llm("openai:gpt-4")
    assert not caplog.records


def test_a_model_name_may_hold_colons(httpserver: HTTPServer):
    echo(httpserver)
    llm = open_llm("openai:llama3.2:1b", url=httpserver.url_for("/v1"))
    assert said(llm, "hi") == "HI"
    assert llm.name == "openai:llama3.2:1b"
    assert httpserver.log[0][0].get_json()["model"] == "llama3.2:1b"
