from __future__ import annotations

from dataclasses import replace

import pytest
from toys import OWL, ScriptedChat, WordEncoder, explains, says

from admire import Candidate, Item, Scoring, Settings, UserError, rank
from admire.prompts import Prompts
from admire.senses.interpretation import Interpretation, interpret
from admire.senses.meaning import Meaning
from admire.senses.sense import Sense


class Counted:
    """A detector that counts how often it is asked."""

    identity = "counted:1"
    columns = ()
    setting = None

    def __init__(self) -> None:
        self.asked: list[int] = []

    def classify(self, uses):
        self.asked.append(len(uses))
        return [Sense("literal", 0.2, 0, 1) for _ in uses]


def test_a_sense_that_no_chat_model_decides_is_decided_once(monkeypatch):
    detector, opened = Counted(), []
    monkeypatch.setattr(
        "admire.runs.run.open_detector", lambda path: opened.append(path) or detector
    )
    settings = Settings(
        sense="detector", detector="mine.json", meanings="gloss", scoring=Scoring.paper()
    )
    run = rank([OWL, OWL], settings, llms=[says("Idiomatic")] * 3, encoder=WordEncoder())
    assert detector.asked == [2]
    assert opened == ["mine.json"]
    assert [r.predicted_type for r in run.rankings] == ["literal", "literal"]
    assert len(run.rankings[0].interpretations) == 3
    assert run.record["models"]["detector"] == "counted:1"


def test_what_tells_the_sense_of_subtask_b_are_the_captions_of_the_sequence():
    seen = []

    class Reader(Counted):
        def classify(self, uses):
            seen.extend(use.item.sentence for use in uses)
            return super().classify(uses)

    sequence = (Candidate("s1.png", caption="A lamp.\nIt is lit."), Candidate("s2.png"))
    item = Item("night owl", "", sequence=sequence)
    interpret([item], [says("")], Prompts(), sense="detector", detector=Reader(), glosses="none")
    assert seen == ["A lamp. It is lit. It was about night owl."]
    target = Item("night owl", "", expected_item="a.png")
    for blind in (target, replace(item, sequence=sequence[1:])):
        with pytest.raises(UserError, match="nothing tells its sense"):
            interpret([blind], [says("Literal")], Prompts(), sense="vote")


# ------------------------------------------------------------------------------ what is asked

LATE = Meaning(("person awake late", "late worker"), "a lamp at night")
BIRD = Meaning(("bird with wings",), "an owl in a tree")
LITERAL_USE = replace(OWL, sentence="A night owl hooted.")


def asked(chat: ScriptedChat) -> list[str]:
    """What was asked, in short, in order."""

    def what(prompt: str) -> str:
        if "or literally" in prompt:
            return "sense"
        if prompt == Prompts().about(OWL, "literal"):
            return "literal"
        return "idiomatic" if "idiom of the sentence" in prompt else "gloss"

    return [what(prompt) for prompt in chat.prompts]


def read(*items: Item, chat: ScriptedChat, **options) -> list[Interpretation]:
    options = {"meanings": "gloss"} | options
    (found,) = interpret(items, [chat], Prompts(), sense="vote", votes=1, **options)
    return found


@pytest.mark.parametrize(
    ("sense", "meant"), [("Idiomatic", "person awake late"), ("Literal", "bird with wings")]
)
def test_each_sense_is_described_and_the_meant_one_is_shown(sense, meant):
    chat = explains(sense)
    (found,) = read(OWL, chat=chat, meanings="both")
    assert (found.idiomatic, found.literal) == (LATE, BIRD)
    assert (found.gloss, found.meant) == ("person awake late", meant)
    assert asked(chat) == ["sense", "idiomatic", "literal"]
    assert found.texts() == {
        "gloss": "person awake late",
        "gloss2": "late worker",
        "scene": "a lamp at night",
        "literal": "bird with wings",
        "literal_scene": "an owl in a tree",
    }


def test_the_paper_asks_for_one_gloss_of_idiomatic_uses_and_no_more():
    for sense, questions in [("Idiomatic", ["sense", "gloss"]), ("Literal", ["sense"])]:
        chat = says(sense)
        (found,) = read(OWL, chat=chat)
        assert asked(chat) == questions
        assert found.literal == Meaning()
        assert found.meant == (found.gloss if sense == "Idiomatic" else None)
    assert found.texts() == {}


def test_a_gloss_of_every_use_and_none_at_all():
    chat = says("Literal")
    assert read(OWL, chat=chat, glosses="all")[0].gloss
    assert asked(chat) == ["sense", "gloss"]
    for meanings in ("gloss", "both"):
        chat = explains("Idiomatic")
        assert read(OWL, chat=chat, glosses="none", meanings=meanings)[0].texts() == {}
        assert asked(chat) == ["sense"]


def test_what_the_words_of_a_compound_say_is_asked_once_for_all_its_sentences():
    chat = explains("Idiomatic")
    found = read(OWL, LITERAL_USE, OWL, chat=chat, meanings="both")
    assert asked(chat) == ["sense"] * 3 + ["idiomatic"] * 2 + ["literal"]
    assert [one.literal for one in found] == [BIRD] * 3
