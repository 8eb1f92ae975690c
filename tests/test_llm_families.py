"""How a chat model is opened by its name, and how many questions are put to one."""

import pytest
from chats import echo
from pytest_httpserver import HTTPServer
from toys import said

from admire.core.errors import UserError
from admire.llm import open_llm


@pytest.mark.parametrize("name", ["", ":", "zzz", "openai", "openai:", "gguf", "gguf:"])
def test_an_incomplete_or_unknown_name_is_told_the_three_forms(name: str):
    with pytest.raises(UserError, match=r"Available: .*gguf:PATH, openai:MODEL") as caught:
        open_llm(name)
    # "Did you mean 'openai'?" would send who wrote 'openai' round in a circle.
    assert f"mean '{name.rstrip(':')}'" not in str(caught.value)


def test_a_model_name_may_hold_colons(httpserver: HTTPServer):
    echo(httpserver)
    llm = open_llm("openai:llama3.2:1b", url=httpserver.url_for("/v1"))
    assert said(llm, "hi") == "HI"
    assert llm.name == "openai:llama3.2:1b"
    assert httpserver.log[0][0].get_json()["model"] == "llama3.2:1b"
