"""The cache of replies: nothing is asked twice."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from chats import (
    CHAT,
    asked,
    completion,
    echo,
    prompt_of,
    refusal,
    serve,
)
from pytest_httpserver import HTTPServer
from toys import ScriptedChat, said
from werkzeug import Request, Response

from admire.base.errors import UserError
from admire.models.llm import CachedChat
from admire.models.llm.openai import OpenAIChat


@pytest.fixture
def chat(httpserver: HTTPServer) -> Callable[..., OpenAIChat]:
    """A client of the test's server, for the model 'tiny'."""

    def make(model: str = "tiny", **settings: object) -> OpenAIChat:
        return OpenAIChat(model, **({"url": httpserver.url_for("/v1")} | settings))

    return make


def test_half_of_a_two_part_character_does_not_stop_the_cache(httpserver: HTTPServer, chat):
    # What max_tokens leaves of an emoji's JSON escapes, "\ud83d" without "\ude42".
    serve(httpserver, completion("Literal \ud83d"))
    first, second = (said(CachedChat(chat()), "hi") for _ in range(2))
    assert first == second
    assert first.startswith("Literal")


@pytest.mark.parametrize(
    "change", [{"text": "ho"}, {"temperature": 0.7}, {"max_tokens": 40}, {"seed": 1}]
)
def test_another_question_is_asked(httpserver: HTTPServer, chat, change: dict[str, object]):
    echo(httpserver)
    llm = CachedChat(chat())
    said(llm, "hi")
    said(llm, **({"text": "hi"} | change))
    assert len(httpserver.log) == 2


def test_another_key_or_timeout_is_not_another_question(httpserver: HTTPServer, chat):
    echo(httpserver)
    for settings in ({}, {"key": "another"}, {"timeout": 5.0}):
        said(CachedChat(chat(**settings)), "hi")
    assert asked(httpserver) == ["hi"]


def test_after_an_error_a_rerun_asks_only_what_is_missing(httpserver: HTTPServer, chat):
    down = {"b"}

    def handle(request: Request) -> Response:
        prompt = prompt_of(request)
        return refusal(400) if prompt in down else completion(prompt.upper())

    httpserver.expect_request(CHAT).respond_with_handler(handle)

    def work() -> list[str]:
        llm = CachedChat(chat())
        return [said(llm, prompt) for prompt in "abc"]

    with pytest.raises(UserError):
        work()
    down.clear()
    assert work() == ["A", "B", "C"]
    assert asked(httpserver) == ["a", "b", "b", "c"]


def test_threads_that_ask_the_same_question_ask_once():
    begun = threading.Event()

    def answer(prompt: str) -> str:
        begun.wait(10)
        return prompt.upper()

    model = ScriptedChat(answer, parallel=4)
    llm = CachedChat(model)
    with ThreadPoolExecutor(4) as threads:
        replies = [threads.submit(said, llm, "hi") for _ in range(4)]
        begun.set()
        assert [reply.result() for reply in replies] == ["HI"] * 4
    assert model.prompts == ["hi"]


def test_threads_ask_at_once_and_each_gets_its_own_reply():
    # Nobody passes the barrier unless all eight are asking: the cache must not let them queue.
    together = threading.Barrier(8)

    def answer(prompt: str) -> str:
        together.wait(10)
        return prompt.upper()

    model = ScriptedChat(answer, parallel=8)
    llm = CachedChat(model)
    prompts = [f"prompt {k}" for k in range(8)]
    with ThreadPoolExecutor(8) as threads:
        for _ in range(2):
            replies = threads.map(lambda prompt: said(llm, prompt), prompts)
            assert list(replies) == [prompt.upper() for prompt in prompts]
    assert sorted(model.prompts) == prompts
