"""The cache of replies, where nothing is asked twice, and the account of what was asked."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from chats import asked, completion, echo, serve
from pytest_httpserver import HTTPServer
from test_llm_pictures import drawn
from toys import ScriptedChat as Scripted
from toys import said

from admire.core.cache import open_cache
from admire.core.errors import UserError
from admire.llm import Image, Question, Reply, Session, Usage
from admire.llm.chat import Price
from admire.llm.openai import OpenAIChat
from admire.llm.session import RECORD, REPLIES, account_row


class ScriptedChat(Scripted):
    """One whose identity says when its replies change, so that they are cached."""

    def __init__(self, *values, **how):
        super().__init__(*values, **how)
        self.identity = "scripted, version 1"


class Told(Scripted):
    """Answers every question with the same reply."""

    free = True

    def __init__(self, reply: Reply):
        super().__init__(str)
        self.reply = reply

    def ask(self, question: Question) -> Reply:
        super().ask(question)
        return self.reply


def test_half_of_a_two_part_character_does_not_stop_the_cache(httpserver: HTTPServer):
    # What max_tokens leaves of an emoji's JSON escapes, "\ud83d" without "\ude42".
    serve(httpserver, completion("Literal \ud83d"))
    chat = OpenAIChat("tiny", url=httpserver.url_for("/v1"))
    first, second = (said(Session().bind(chat), "hi") for _ in range(2))
    assert first == second
    assert first.startswith("Literal")


def test_another_key_or_timeout_is_not_another_question(httpserver: HTTPServer):
    echo(httpserver)
    for settings in ({}, {"key": "another"}, {"timeout": 5.0}):
        chat = OpenAIChat("tiny", url=httpserver.url_for("/v1"), **settings)
        said(Session().bind(chat), "hi")
    assert asked(httpserver) == ["hi"]


def test_fresh_asks_anew_once_even_if_the_clock_was_set_back(monkeypatch):
    model = ScriptedChat(str.upper)
    with monkeypatch.context() as patch:
        patch.setattr("admire.core.cache.time", SimpleNamespace(time=lambda: 1e11))
        said(Session().bind(model), "hi")
    fresh = Session(fresh=True).bind(model)
    assert [said(llm, "hi") for llm in (fresh, fresh, Session().bind(model))] == ["HI"] * 3
    assert model.prompts == ["hi"] * 2


@pytest.mark.parametrize(
    "value", [b"", b"\x1e", b"\x1e[]", b"\x1e{}", b"\x1e" + b"[" * 100_000, b"\xff"]
)
def test_a_damaged_reply_is_asked_for_again(value):
    model = ScriptedChat(str.upper)
    llm = Session().bind(model)
    said(llm, "hi")
    open_cache(REPLIES).put(llm.key(model.questions[0]), RECORD + value, "m")
    assert [said(Session().bind(model), "hi") for _ in range(2)] == ["HI"] * 2
    assert model.prompts == ["hi"] * 2


def test_threads_that_ask_the_same_question_ask_once():
    begun = threading.Event()

    def answer(prompt: str) -> str:
        begun.wait(10)
        return prompt.upper()

    model = ScriptedChat(answer, parallel=4)
    llm = Session().bind(model)
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
    llm = Session().bind(model)
    prompts = [f"prompt {k}" for k in range(8)]
    with ThreadPoolExecutor(8) as threads:
        for _ in range(2):
            replies = threads.map(lambda prompt: said(llm, prompt), prompts)
            assert list(replies) == [prompt.upper() for prompt in prompts]
    assert sorted(model.prompts) == prompts


def test_all_that_a_reply_tells_is_kept():
    reply = Reply("A", Usage(9, 1, 2, 3), 1.5, True, ({"A": -0.1}, {"B": -0.2, "A": -3.0}))
    llm = Told(reply)
    llm.identity = "told, version 1"
    first, second = (Session().bind(llm).ask(Question("hi")) for _ in range(2))
    assert first == second == reply
    assert (first.cached, second.cached) == (False, True)
    assert len(llm.questions) == 1


def test_another_image_or_form_is_another_question_but_another_name_is_not(tmp_path: Path):
    path = drawn(tmp_path / "a.png")
    question = Question(("Which?", Image(path)))
    changes: list[dict[str, Any]] = [
        {"parts": ("Which?", Image(path, 64))},
        {"parts": (Image(path), "Which?")},
        {"parts": "Which?"},
        {"temperature": 0.7},
        {"max_tokens": 40},
        {"seed": 1},
        {"schema": {"type": "object"}},
        {"logprobs": 3},
    ]
    llm = ScriptedChat(str.upper)
    for asked_before, change in enumerate([{}, *changes]):
        assert len(llm.questions) == asked_before
        Session().bind(llm).ask(replace(question, **change))
    Session().bind(llm).ask(replace(question, parts=("Which?", Image(drawn(tmp_path / "b.png")))))
    assert len(llm.questions) == 1 + len(changes)
    drawn(path, (10, 10))
    Session().bind(llm).ask(question)
    assert len(llm.questions) == 2 + len(changes)


@pytest.mark.parametrize(("told", "images"), [(0, None), (255, 255)])
def test_tokens_of_images_are_unknown_where_nobody_tells_them(told: int, images: int | None):
    session = Session()
    llm = session.bind(Told(Reply("A", Usage(300, 0, 1, told))))
    llm.ask(Question(("Which?", Image(Path("a.png"))), purpose="ranking"))
    (entry,) = session.entries()
    record = account_row(entry)
    assert (record["stage"], record["image_tokens"]) == ("ranking", images)
    assert record["seconds"] is None
    assert record["prompt_tokens"] == 300


def test_one_reply_that_tells_nothing_makes_the_sum_unknown():
    session = Session()
    for reply in (Reply("A", Usage(300, 0, 1)), Reply("A")):
        session.bind(Told(reply)).ask(Question("Which?"))
    (entry,) = session.entries()
    assert account_row(entry)["prompt_tokens"] is None
    assert account_row(entry)["price_usd"] == 0  # in this process, so the tokens do not matter


def test_a_budget_ends_the_questions_once_it_is_spent_but_cached_replies_are_free():
    model = ScriptedChat(str.upper)
    model.price = lambda usage: Price(usage.completion / 100)
    llm = Session(1.0).bind(model)
    for text in ("first", "second", "first"):
        assert said(llm, text, max_tokens=50) == text.upper()
    with pytest.raises(UserError, match=r"budget of \$1 exhausted \(\$1\.0000 spent\)") as caught:
        said(llm, "third", max_tokens=50)
    assert caught.value.settings == ("budget",)
    assert model.prompts == ["first", "second"]
