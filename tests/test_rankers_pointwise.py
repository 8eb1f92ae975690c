import json
import math

import pytest
from judges import Judge, item_of, settings
from toys import OWL, explains

from admire import Scoring, rank
from admire.llm import Question, Reply
from admire.rankers import Answer
from admire.rankers.pointwise import read_letters, read_numbers


@pytest.mark.parametrize(("gate", "first"), [("hard", "a.png"), ("soft", "b.png")])
def test_pointwise_weighs_the_grades_by_the_sense(gate, first):
    grades = {"a": (60, 0), "b": (50, 50), "c": (0, 100)}

    def answer(text: str, question: Question, count: int) -> str:
        if question.purpose == "senses":  # three of five are idiomatic
            return "Literal" if question.seed > 2 else "Idiomatic"
        if not question.schema:
            return "a meaning"
        (name,) = [name for name in grades if f'"{name}"' in question.text]
        idiomatic, literal = grades[name]
        said = {"idiomatic": idiomatic, "literal": literal, "neither": 100 - idiomatic - literal}
        return json.dumps(said)

    judge = Judge(dict.fromkeys(grades, 0.5), logprobs=False, spoil=answer)
    scoring = Scoring.paper(gate=gate)
    weighed = settings("pointwise", votes=5, scoring=scoring)
    run = rank([item_of(list(grades))], weighed, llms=[judge])
    assert run.rankings[0].order[0] == first
    scores = {"hard": [0.6, 0.5, 0.0], "soft": [0.36, 0.5, 0.4]}[gate]
    assert run.rankings[0].judgements[0].scores == pytest.approx(scores)
    assert not any(q.logprobs for q in judge.questions[-3:])  # one tells that there are none


def test_pointwise_tells_what_both_senses_mean_where_that_is_known():
    chat = explains("Idiomatic")
    asked: list[Question] = []
    judge = Judge({c.caption or "": 0.5 for c in OWL.candidates})

    class Both(Judge):
        def ask(self, question: Question) -> Reply:
            if question.purpose != "ranking":
                return chat.ask(question)
            asked.append(question)
            return judge.ask(question)

    rank([OWL], settings("pointwise", meanings="both"), llms=[Both({})])
    assert 'as an idiom: "person awake late"\n' in asked[0].text
    assert 'as they are: "bird with wings"\n' in asked[0].text


def test_the_letter_that_counts_is_the_texts():
    likely = {"A": math.log(0.6), "B": math.log(0.4)}
    graded = [read_letters(Reply(text, logprobs=(likely,))) for text in ("A", "It is B.", "")]
    assert graded[0] == pytest.approx({"idiomatic": 0.6, "literal": 0.4, "neither": 0.0})
    assert graded[1:] == [literal := {"idiomatic": 0.0, "literal": 1.0, "neither": 0.0}, None]
    for text in ("A woman smiles. Answer: B", "A\tbird? B", "A person is shown, so B is right."):
        assert read_letters(Reply(text, logprobs=({"A": -0.05},))) == literal
    assert read_letters(Reply("A woman by a lamp", logprobs=({"A": -0.05},))) is None
    assert read_letters(Reply("A is right.", logprobs=(likely,))) == graded[0]
    assert read_letters(Reply("B", logprobs=(dict.fromkeys("ABC", 0.0),))) == literal


def test_numbers_are_shares():
    said = {"idiomatic": 60, "literal": 20, "neither": 0}
    grades = {"idiomatic": 0.75, "literal": 0.25, "neither": 0}
    question = Question("", shown=("one",))
    answer = read_numbers(question, json.dumps(said))
    assert answer == Answer(("one",), ("one",), grades=grades)
    for wrong in ({"idiomatic": 0, "literal": 0}, {"idiomatic": 101}, {"neither": "no"}):
        assert read_numbers(question, json.dumps({**said, "neither": 0, **wrong})) is None
