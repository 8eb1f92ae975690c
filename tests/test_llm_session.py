import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from chats import completion, serve
from commands import chat_server
from judges import Judge, pictured, settings
from pytest_httpserver import HTTPServer
from test_llm_pictures import drawn
from toys import OWL, WordEncoder, said
from toys import ScriptedChat as Scripted

from admire import Item, Settings, UserError, plan, rank, write_run
from admire.apps.report import write_report
from admire.core.cache import open_cache
from admire.llm import Image, Question, Reply, Session, Usage, ask, open_llm
from admire.llm.bound_model import RECORD, REPLIES, account_row
from admire.llm.chat import Price
from admire.llm.openai import OpenAIChat
from admire.llm.probes import DIGITS, NUMBER


class ScriptedChat(Scripted):
    """One whose identity says when its replies change, so that they are cached."""

    def __init__(self, *values, **how):
        super().__init__(*values, **how)
        self.identity = "scripted, version 1"


class Told(Scripted):
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
    prompts = chat_server(httpserver, str.upper)
    for changed in ({}, {"key": "another"}, {"timeout": 5.0}):
        chat = OpenAIChat("tiny", url=httpserver.url_for("/v1"), **changed)
        said(Session().bind(chat), "hi")
    assert prompts == ["hi"]


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


def test_all_that_a_reply_tells_is_kept():
    reply = Reply("A", Usage(9, 1, 2, 3), 1.5, True, ({"A": -0.1}, {"B": -0.2, "A": -3.0}))
    llm = Told(reply)
    llm.identity = "told, version 1"
    (first,), (second,) = (ask(Session().bind(llm), Question("hi")) for _ in range(2))
    assert first == second == reply
    assert (first.cached, second.cached) == (False, True)
    assert len(llm.questions) == 1


def test_another_image_or_form_is_another_question_but_another_name_is_not(tmp_path: Path):
    path = drawn(tmp_path / "a.png")
    question = Question(("Which?", Image(path)))
    parts = (("Which?", Image(path, 64)), (Image(path), "Which?"), "Which?")
    values = {"temperature": 0.7, "max_tokens": 40, "seed": 1, "schema": {"a": 1}, "logprobs": 3}
    changes = [{}, *({"parts": one} for one in parts), *({k: v} for k, v in values.items())]
    key = Session().bind(ScriptedChat(str)).key
    keys = {key(replace(question, **change)) for change in changes}
    assert len(keys) == len(changes)
    renamed = replace(question, parts=("Which?", Image(drawn(tmp_path / "b.png"))))
    assert key(renamed) in keys
    drawn(path, (10, 10))
    assert key(question) not in keys


@pytest.mark.parametrize(("told", "images"), [(0, None), (255, 510)])
def test_tokens_of_images_are_unknown_where_nobody_tells_them(tmp_path, told, images):
    session = Session()
    llm = session.bind(Told(Reply(NUMBER, Usage(300, 0, 1, told))))
    ask(llm, Question(("Which?", Image(drawn(tmp_path / "a.png"))), purpose="ranking"))
    (entry,) = session.entries()
    record = account_row(entry)
    assert (record["stage"], record["image_tokens"]) == ("ranking", images)
    assert record["seconds"] is None
    assert record["prompt_tokens"] == 600  # with those of the picture of a number


@pytest.mark.parametrize(
    ("free", "price", "why"),
    [
        (True, 0, None),  # in this process, so the tokens do not matter
        (False, "unknown", "not all replies came with the number of their tokens"),
    ],
)
def test_sums_are_unknown_from_the_first_reply_without_tokens_on(free, price, why):
    session = Session()
    for reply in (Reply("A", Usage(300, 0, 1)), Reply("A"), Reply("A", Usage(300, 0, 1))):
        model = Told(reply)
        model.free, model.price = free, lambda usage: Price(usage.prompt / 100)
        ask(session.bind(model), Question("Which?"))
    (entry,) = session.entries()
    row = account_row(entry)
    assert (row["calls"], row["prompt_tokens"], row["price_unknown_because"]) == (3, None, why)
    assert row["price_usd"] == row["price_usd_now"] == price


def test_a_server_that_changes_the_model_is_named_once_where_accounts_come_together(caplog):
    account, worker = Session(), Session()
    for number, model in enumerate(("a-1", "a-1", "", "a-2", "a-3")):
        llm = worker.bind(Told(Reply("A", model=model)))
        ask(llm, Question("Which?", purpose="senses" if number % 2 else "meanings"))
        account.add_entries(worker.pop_entries())
        assert len(caplog.messages) == (number > 2)
    assert "'a-1' answered first, and now also 'a-2'" in caplog.messages[0]
    assert [entry.answered_by for entry in account.entries()] == [["a-1", "a-3"], ["a-1", "a-2"]]


@pytest.mark.parametrize(
    ("limits", "price", "setting", "words"),
    [
        ({"budget": 1.0}, 0.01, "budget", r"budget of \$1 exhausted \(\$1\.0000 spent\)"),
        ({"budget": 2.0, "price": (0.0, 20_000.0)}, None, "budget", "exhausted"),
        ({"most_requests": 2}, None, "most_requests", "requests reached"),
    ],
)
def test_a_limit_ends_the_questions_and_cached_replies_are_free(limits, price, setting, words):
    model = ScriptedChat(str.upper)
    model.price = lambda usage: Price(price * usage.completion) if price else None
    llm = Session(**limits).bind(model)
    for text in ("first", "second", "first"):
        assert said(llm, text, max_tokens=50) == text.upper()
    with pytest.raises(UserError, match=words) as caught:
        said(llm, "third", max_tokens=50)
    assert caught.value.settings == (setting,)
    assert model.prompts == ["first", "second"]


def test_no_more_requests_are_sent_than_are_allowed_however_many_at_once():
    model = ScriptedChat(str.upper, parallel=8)
    llm = Session(most_requests=3).bind(model)
    with pytest.raises(UserError, match="limit of 3 requests reached"):
        ask(llm, *(Question(f"Question {k}") for k in range(9)))
    assert len(model.prompts) <= 3  # those that had not begun are not asked


LONG = [Question(f"Question {k}: " + "word " * 800) for k in range(3)]


class Counting(ScriptedChat):
    """Counts tokens as it is told to."""

    def __init__(self, count: Callable[[Question, int], Usage | None]):
        super().__init__(lambda _: "Idiomatic")
        self.count = count

    def ask(self, question: Question) -> Reply:
        reply = super().ask(question)
        return replace(reply, usage=self.count(question, len(self.questions)))


def only_new(question: Question, number: int) -> Usage:
    """Count what differs from earlier questions: all if the beginning does, or nearly nothing."""
    return Usage(prompt=900 if number == 1 or question.text.startswith("(") else 12)


@pytest.mark.parametrize(
    ("count", "asked", "cut_off"),
    [
        (lambda question, number: Usage(prompt=min(10, len(question.text))), 5, 4),
        (lambda question, number: Usage(100 + min(550, len(question.text)), images=100), 5, 4),
        (lambda question, number: Usage(prompt=2), 4, 0),  # whatever it is asked
        (lambda question, number: Usage(prompt=900), 3, 0),
        (lambda question, number: Usage(prompt=700), 3, 0),
        (lambda question, number: Usage(prompt=12, cached=790 + 12), 3, 0),
        (lambda question, number: Usage(), 3, 0),
        (lambda question, number: None, 3, 0),
        (only_new, 4, 0),
    ],
)
def test_a_question_with_fewer_tokens_than_words_was_cut_off(caplog, count, asked, cut_off):
    session, server = Session(), Counting(count)
    llm = session.bind(server)
    for question in LONG:
        assert ask(llm, question)[0].text == "Idiomatic"
    (entry,) = session.entries()
    assert (len(server.questions), entry.cut_off) == (asked, cut_off)
    assert len(caplog.messages) == bool(cut_off)
    if cut_off:
        assert f"one of {len(LONG[0].text.split())} words" in caplog.messages[0]
        assert "OLLAMA_CONTEXT_LENGTH" in caplog.messages[0]
    kept = [llm.cached(llm.key(question)) is not None for question in LONG]
    assert kept == [not cut_off] * 3  # the same command asks again, with more context


def test_questions_that_were_cut_off_are_in_the_record_and_the_report(tmp_path: Path):
    llm = Counting(lambda question, number: Usage(prompt=min(20, len(question.text))))
    item = replace(OWL, sentence="He is a night owl. " * 100)
    own = Settings(sense="vote", meanings="gloss")
    run = rank([item], own, llms=[llm], encoder=WordEncoder())
    write_run(run, tmp_path / "run")
    asked = json.loads((tmp_path / "run" / "run.json").read_bytes())["asked"]
    assert [row["cut_off"] for row in asked if row["stage"] == "senses"] == [6]
    page = write_report([tmp_path / "run"], tmp_path / "report.html").read_text(encoding="utf-8")
    assert "The server cut off" in page


class Reads(Judge):
    """One who reads a picture of a number so."""

    def __init__(self, worth: dict[str, float], number: str):
        super().__init__(worth)
        self.number, self.asked, self.identity = number, list[Question](), "judge 1"

    def ask(self, question: Question) -> Reply:
        self.asked.append(question)
        return Reply(self.number) if question is DIGITS else super().ask(question)


@pytest.mark.parametrize("reply", ["It shows 285.", "I see a number.", "", "5 8 2, and 7 dogs"])
def test_a_model_without_eyes_is_told_before_it_is_asked_about_pictures(tmp_path, reply):
    judge = Reads({"of dull.png": 0.1, "of best.png": 0.9}, reply)
    item = _meant(pictured(tmp_path, ["dull.png", "best.png"], captions=True), "a")
    with pytest.raises(UserError, match=f"^judge does not see pictures.*{NUMBER}") as caught:
        rank([item], settings("listwise", sense="given"), llms=[judge])
    assert caught.value.settings == ("track", "llms")
    assert judge.asked[-1] is DIGITS
    assert not any(question.images for question in judge.asked[:-1])
    rank([item], settings("listwise", sense="given", track="caption"), llms=[judge])


@pytest.mark.parametrize(
    "reply",
    [
        *(NUMBER, f"It is {NUMBER}, a number with 3 digits.", "5 8 2", "３ digits: ５８２"),
        *("There are 3 digits: 5, 8 and 2.", "A 3-digit number: **5** **8** **2**"),
    ],
)
def test_eyes_are_proved_once_by_a_question_that_is_forecast_and_cached(tmp_path, reply):
    items = [_meant(pictured(tmp_path, ["dull.png", "best.png"], captions=False), k) for k in "ab"]

    judge = Reads({"dull.png": 0.1, "best.png": 0.9}, reply)
    own = settings("pointwise", sense="given")
    told = {one.stage: one.questions for one in plan(items, own, llms=[judge])}
    record = rank(items, own, llms=[judge]).record
    (asked,) = [row for row in record["asked"] if row["stage"] == "ranking"]
    assert asked["calls"] == told["ranking"]
    again = rank(items, own, llms=[judge]).record["asked"]
    assert {row["calls"] - row["from_cache"] for row in again} == {0}


def _meant(item: Item, name: str) -> Item:
    return replace(item, sentence=f"{name}: {item.sentence}", sentence_type="idiomatic")


@pytest.mark.parametrize("name", ["", ":", "zzz", "openai", "openai:", "gguf", "gguf:"])
def test_an_incomplete_or_unknown_name_is_told_the_three_forms(name: str):
    with pytest.raises(UserError, match=r"Available: .*gguf:PATH, openai:MODEL") as caught:
        open_llm(name)
    # "Did you mean 'openai'?" would send who wrote 'openai' round in a circle.
    assert f"mean '{name.rstrip(':')}'" not in str(caught.value)


def test_a_model_name_may_hold_colons(httpserver: HTTPServer):
    chat_server(httpserver, str.upper)
    llm = open_llm("openai:llama3.2:1b", url=httpserver.url_for("/v1"))
    assert said(llm, "hi") == "HI"
    assert llm.name == "openai:llama3.2:1b"
    assert httpserver.log[0][0].get_json()["model"] == "llama3.2:1b"
