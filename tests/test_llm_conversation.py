import logging
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
from toys import ScriptedChat

from admire import Item, UserError
from admire.core.progress import progress_told_to
from admire.llm import Conversation, Question, Reply, Session, Unusable, Usage, converse
from admire.llm.chat import Price

OWL, CAT = Item("night owl", "A night owl."), Item("fat cat", "A fat cat.")


class Paid(ScriptedChat):
    """A cached model whose every reply costs a dollar."""

    def __init__(self, answer: Callable[[str], str] = str.upper, parallel: int = 1):
        super().__init__(answer, parallel=parallel)
        self.identity = "paid, version 1"

    def ask(self, question: Question) -> Reply:
        text = super().ask(question).text
        return Reply(text, usage=Usage(prompt=1))

    def price(self, usage: Usage) -> Price:
        return Price(1.0)


def asking(*texts: str, **fields: Any) -> Conversation[list[str]]:
    said = []
    for text in texts:
        (reply,) = yield [Question(text, task="Asking", **fields)]
        said.append(reply.text)
    return said


def test_conversations_of_any_length_get_their_own_replies_in_their_order():
    def nothing() -> Conversation[str]:
        assert not (yield [])
        return "done"

    def pair() -> Conversation[list[str]]:
        replies = yield [Question("y"), Question("x")]
        return [reply.text for reply in replies]

    talks: list[Conversation[Any]] = [asking("a", "b"), nothing(), pair(), asking("c")]
    assert converse(talks, ScriptedChat(str.upper)) == [["A", "B"], "done", ["Y", "X"], ["C"]]
    assert converse([], ScriptedChat(str.upper)) == []


def test_what_several_conversations_ask_is_asked_counted_and_paid_once():
    model, session = Paid(), Session(budget=5)
    talks = [asking("a", "b"), asking("a"), asking("c", "a")]
    assert converse(talks, session.bind(model)) == [["A", "B"], ["A"], ["C", "A"]]
    assert sorted(model.prompts) == ["a", "b", "c"]
    (entry,) = session.entries()
    assert (entry.calls, entry.from_cache, entry.price_now) == (3, 0, Price(3.0))
    assert converse([asking("c", "b")], Session().bind(model)) == [["C", "B"]]
    assert len(model.prompts) == 3  # cached


def test_questions_of_a_kind_are_asked_together_by_their_texts():
    """So that a server can reuse a prefix; what is asked again comes before the others."""
    model = ScriptedChat(str.upper)

    def talk(*questions: Question) -> Conversation[None]:
        for question in questions:
            yield [question]

    s1, s2, s3 = (Question(text, purpose="senses") for text in ("s1", "s2", "s3"))
    m1, m2 = (Question(text, purpose="meanings") for text in ("m1", "m2"))
    converse([talk(s3, m1), talk(s1, m2), talk(s2, replace(s2, seed=1))], model)
    assert model.prompts == ["s1", "s2", "s2", "s3", "m1", "m2"]


def test_a_model_that_answers_together_gets_as_many_as_it_takes():
    units: list[list[str]] = []

    class Together(ScriptedChat):
        batch = 2

        def ask_together(self, questions):
            units.append([question.text for question in questions])
            if "bad" in units[-1]:
                raise UserError("too long")
            yield from map(self.ask, questions)

    model = Together(str.upper)
    talks = [asking(text) for text in "edcba"]
    assert converse(talks, model) == [[text.upper()] for text in "edcba"]
    assert units == [["a", "b"], ["c", "d"]]  # one that is left is asked alone
    talks = [asking("a", about="first"), asking("bad", about="second")]
    assert converse(talks, model) == [["A"], ["BAD"]]  # if it fails, they are asked one by one


def test_several_are_asked_at_a_time_and_the_cache_does_not_let_them_queue():
    here = threading.Barrier(3, timeout=30)

    def meet(text: str) -> str:
        here.wait()
        return text

    model = Paid(meet, parallel=3)
    for _ in range(2):
        talks = [asking(text) for text in "abcdef"]
        assert converse(talks, Session().bind(model)) == [[text] for text in "abcdef"]
    assert sorted(model.prompts) == [*"abcdef"]


def test_a_budget_ends_in_the_middle_of_a_conversation_and_the_next_goes_on():
    model = Paid()
    with pytest.raises(UserError, match=r"'night owl': budget of \$2 exhausted .*run the same"):
        converse([asking("a", "b", "c", about=OWL)], Session(budget=2).bind(model))
    assert model.prompts == ["a", "b"]
    assert converse([asking("a", "b", "c")], Session(budget=2).bind(model)) == [["A", "B", "C"]]
    assert model.prompts == ["a", "b", "c"]


def test_an_error_names_what_the_question_is_about():
    def fail(text: str) -> str:
        raise UserError("no.", "llms")

    with pytest.raises(UserError, match=r"^'fat cat': no\. The answers so far are cached") as error:
        converse([asking("a", about=CAT)], ScriptedChat(fail))
    assert error.value.settings == ("llms",)
    with pytest.raises(UserError, match=r"^no\.$"):
        converse([asking("a")], ScriptedChat(fail))


def test_unusable_replies_leave_the_cache_and_are_asked_again_next_time():
    model = Paid(lambda text: "?" if len(model.prompts) <= 3 else text)

    def stubborn() -> Conversation[str | None]:
        questions = [Question("a", seed=k) for k in range(3)]
        for question in questions:
            (reply,) = yield [question]
            if reply.text != "?":
                return reply.text
        yield Unusable(questions)
        return None

    bound = Session().bind(model)
    assert converse([stubborn(), asking("b")], bound)[0] is None
    assert converse([stubborn()], Session().bind(model)) == ["a"]
    assert [question.seed for question in model.questions if question.text == "a"] == [0, 1, 2, 0]


@pytest.mark.parametrize(
    ("unread", "purposes"),
    [
        ("x", ["senses"]),
        ("y", ["senses", "meanings"]),  # the senses are readable
        ("xy1", ["senses", "meanings", "ranking"]),  # those of one item are not
    ],
)
def test_a_model_is_refused_before_the_next_purpose_if_all_of_one_is_unusable(unread, purposes):
    model = ScriptedChat(str)

    def refuse(name: str, readings: Sequence[str]) -> UserError:
        return UserError(f"{name}: {' '.join(readings)} of no use")

    def talk(number: int) -> Conversation[None]:
        for sign, purpose in zip("xyz", ("senses", "meanings", "ranking"), strict=True):
            text = f"{sign}{number}"
            yield [Question(f"{purpose} {text}", purpose=purpose)]
            if sign in unread and unread[2:] in ("", str(number)):
                yield Unusable([Question(f"{purpose} {text}")], text, refuse)

    refusing = pytest.raises(UserError, match=f"scripted: {unread}0 {unread}1 of no use")
    with nullcontext() if len(purposes) > 2 else refusing:
        converse([talk(number) for number in range(2)], model, strict=True)
    assert list(dict.fromkeys(prompt.split()[0] for prompt in model.prompts)) == purposes


def test_progress_tells_the_questions_of_a_kind_and_not_what_is_asked_again():
    heard: list[tuple[str, int, int]] = []
    with progress_told_to(lambda *told: heard.append(told)):
        converse([asking("a", "b"), asking("c")], ScriptedChat(str.upper))
    assert heard == [("Asking (model scripted)", done, 2) for done in range(3)]


def test_progress_ends_before_an_error_of_a_conversation_is_told(monkeypatch, caplog, capsys):
    def fails() -> Conversation[None]:
        yield [Question("a", task="Asking")]
        raise UserError("none can be read")

    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    caplog.set_level(logging.INFO, logger="admire")
    try:
        converse([fails()], ScriptedChat(str.upper))
    except UserError:  # which keeps alive what it went through, such as a bar
        shown = capsys.readouterr().err
    assert shown.rindex("\x1b[?25h") > shown.rindex("Asking"), "the cursor is not shown again"
