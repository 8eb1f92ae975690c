"""How a chat model is opened by its name, and how many questions are put to one."""

from __future__ import annotations

import pytest
from chats import echo
from pytest_httpserver import HTTPServer
from toys import ScriptedChat, said

from admire.base.errors import UserError
from admire.models.llm import ask_each, open_llm


@pytest.mark.parametrize(
    ("name", "close"),
    [("opnai:gpt-4o", "openai"), ("ggfu:model.gguf", "gguf"), ("embeded", "embedded")],
)
def test_a_misspelt_model_is_told_the_closest_family(name: str, close: str):
    with pytest.raises(UserError, match=rf"'{name}'.*Did you mean '{close}'\?"):
        open_llm(name)


@pytest.mark.parametrize("name", ["", ":", "zzz", "openai", "openai:", "gguf", "gguf:"])
def test_an_incomplete_or_unknown_name_is_told_the_three_forms(name: str):
    with pytest.raises(UserError, match="There are: openai:MODEL, gguf:PATH, embedded") as caught:
        open_llm(name)
    # "Did you mean 'openai'?" would send who wrote 'openai' round in a circle.
    assert f"mean '{name.rstrip(':')}'" not in str(caught.value)


def test_a_model_name_may_hold_colons(httpserver: HTTPServer):
    echo(httpserver)
    llm = open_llm("openai:llama3.2:1b", url=httpserver.url_for("/v1"))
    assert said(llm, "hi") == "HI"
    assert llm.name == "openai:llama3.2:1b"
    assert httpserver.log[0][0].get_json()["model"] == "llama3.2:1b"


def test_the_answers_come_in_the_order_of_the_things_and_an_error_names_one():
    def question(thing: str) -> str:
        if thing == "bad":
            raise UserError("No.", "llms")
        return thing.upper()

    model = ScriptedChat(str, parallel=3)
    assert ask_each(question, ["c", "a", "b"], model, "things", name_of=str) == ["C", "A", "B"]
    with pytest.raises(UserError, match=r"'<bad>': No\. The answers so far are kept") as caught:
        ask_each(question, ["a", "bad"], model, "things", name_of=lambda thing: f"<{thing}>")
    assert caught.value.settings == ("llms",)
