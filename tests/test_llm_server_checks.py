"""Servers that cut questions off or show no pictures, and those that must not be accused."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from judges import WORTHS, Judge, pictured, settings
from toys import OWL, WordEncoder

from admire import Item, Settings, UserError, plan, rank, write_run
from admire.apps.report import write_report
from admire.llm import ChatModel, Question, Reply, Session
from admire.llm.chat import Usage
from admire.llm.session import DIGITS, NUMBER

LONG = [Question(f"Question {k}: " + "word " * 800) for k in range(3)]


class Server(ChatModel):
    """Counts tokens as it is told to."""

    name, identity = "server", "server 1"

    def __init__(self, count: Callable[[Question, int], Usage | None]):
        self.count, self.asked = count, list[Question]()

    def ask(self, question: Question) -> Reply:
        self.asked.append(question)
        return Reply("Idiomatic", usage=self.count(question, len(self.asked)))


def only_new(question: Question, number: int) -> Usage:
    """Count what differs from earlier questions: all if the beginning does, or nearly nothing."""
    return Usage(prompt=900 if number == 1 or question.text.startswith("(") else 12)


@pytest.mark.parametrize(
    ("count", "asked", "cut_off"),
    [
        (lambda question, number: Usage(prompt=10), 4, 4),
        (lambda question, number: Usage(prompt=650, images=100), 4, 4),
        (lambda question, number: Usage(prompt=900), 3, 0),
        (lambda question, number: Usage(prompt=700), 3, 0),
        (lambda question, number: Usage(prompt=12, cached=790 + 12), 3, 0),
        (lambda question, number: Usage(), 3, 0),
        (lambda question, number: None, 3, 0),
        (only_new, 4, 0),
    ],
)
def test_a_question_with_fewer_tokens_than_words_was_cut_off(caplog, count, asked, cut_off):
    session, server = Session(), Server(count)
    llm = session.bind(server)
    for question in LONG:
        assert llm.ask(question).text == "Idiomatic"
    (entry,) = session.entries()
    assert (len(server.asked), entry.cut_off) == (asked, cut_off)
    assert len(caplog.messages) == bool(cut_off)
    if cut_off:
        assert f"one of {len(LONG[0].text.split())} words" in caplog.messages[0]
        assert "OLLAMA_CONTEXT_LENGTH" in caplog.messages[0]
    kept = [llm.cached(question) is not None for question in LONG]
    assert kept == [not cut_off] * 3  # the same command asks again, with more context


def test_questions_that_were_cut_off_are_in_the_record_and_the_report(tmp_path: Path):
    class ShortSighted(Judge):
        def ask(self, question: Question) -> Reply:
            return replace(super().ask(question), usage=Usage(prompt=20))

    judge = ShortSighted(WORTHS)
    judge.identity = "short-sighted 1"
    item = replace(OWL, sentence="He is a night owl. " * 100)
    run = rank([item], Settings(sense="vote"), llms=[judge], encoder=WordEncoder())
    write_run(run, tmp_path / "run")
    asked = json.loads((tmp_path / "run" / "run.json").read_bytes())["asked"]
    assert [row["cut_off"] for row in asked if row["stage"] == "senses"] == [6]
    page = write_report([tmp_path / "run"], tmp_path / "report.html").read_text(encoding="utf-8")
    assert "The server cut off" in page


@pytest.mark.parametrize("reply", ["It shows 285.", "I see a number.", "", "5 8 2, and 7 dogs"])
def test_a_model_without_eyes_is_told_before_it_is_asked_about_pictures(tmp_path, reply):
    asked: list[Question] = []

    class Blind(Judge):
        def ask(self, question: Question) -> Reply:
            asked.append(question)
            return Reply(reply) if question is DIGITS else super().ask(question)

    item = _meant(pictured(tmp_path, ["dull.png", "best.png"], captions=True), "a")
    with pytest.raises(UserError, match=f"^judge does not see pictures.*{NUMBER}") as caught:
        rank([item], settings("listwise", sense="given"), llms=[Blind({})])
    assert caught.value.settings == ("track", "llms")
    assert asked[-1] is DIGITS
    assert not any(question.images for question in asked[:-1])
    rank([item], settings("listwise", sense="given", track="caption"), llms=[Blind(CAPTIONED)])


CAPTIONED = {"of dull.png": 0.1, "of best.png": 0.9}


def test_eyes_are_proved_once_by_a_question_that_is_forecast_and_cached(tmp_path):
    items = [_meant(pictured(tmp_path, ["dull.png", "best.png"], captions=False), k) for k in "ab"]
    judge = Judge({"dull.png": 0.1, "best.png": 0.9})
    judge.identity = "judge 1"
    own = settings("pointwise", sense="given")
    told = {one.stage: one.questions for one in plan(items, own, llms=[judge])}
    record = rank(items, own, llms=[judge]).record
    (asked,) = [row for row in record["asked"] if row["stage"] == "ranking"]
    assert asked["calls"] == told["ranking"]
    again = rank(items, own, llms=[judge]).record["asked"]
    assert {row["calls"] - row["from_cache"] for row in again} == {0}


def _meant(item: Item, name: str) -> Item:
    return replace(item, sentence=f"{name}: {item.sentence}", sentence_type="idiomatic")
