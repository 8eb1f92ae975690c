"""The cache of replies: nothing is asked twice."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from chats import (
    asked,
    completion,
    echo,
    serve,
)
from pytest_httpserver import HTTPServer
from toys import ScriptedChat, said

from admire.models.llm import CachedChat
from admire.models.llm.openai import OpenAIChat


def test_half_of_a_two_part_character_does_not_stop_the_cache(httpserver: HTTPServer):
    # What max_tokens leaves of an emoji's JSON escapes, "\ud83d" without "\ude42".
    serve(httpserver, completion("Literal \ud83d"))
    chat = OpenAIChat("tiny", url=httpserver.url_for("/v1"))
    first, second = (said(CachedChat(chat), "hi") for _ in range(2))
    assert first == second
    assert first.startswith("Literal")


def test_another_key_or_timeout_is_not_another_question(httpserver: HTTPServer):
    echo(httpserver)
    for settings in ({}, {"key": "another"}, {"timeout": 5.0}):
        chat = OpenAIChat("tiny", url=httpserver.url_for("/v1"), **settings)
        said(CachedChat(chat), "hi")
    assert asked(httpserver) == ["hi"]


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
