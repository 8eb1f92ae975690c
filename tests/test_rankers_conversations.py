"""Rankers as conversations in whole runs, and what a dry run says of them."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from toys import OWL, WordEncoder

from admire import Item, Scoring, Settings, plan, rank
from admire.core.errors import UserError
from admire.core.registry import register
from admire.llm import ChatModel, Question, Reply
from admire.pipeline.forecast import imagine
from admire.rankers import Judgement, Ranker
from admire.senses import Known, Recording
from admire.senses.sense import Sense, likelier

ITEMS = [
    Item(compound, f"A {compound} again.", sentence_type="idiomatic", candidates=OWL.candidates)
    for compound in ("night owl", "cold feet", "pipe dream")
]
RANKERS = ("listwise", "pairwise", "pointwise", "likelihood")
Answers = Mapping[str, Callable[[Question], str]]


class Model(ChatModel):
    """Reply as a dry run imagines, or otherwise to the questions of a purpose."""

    name = identity = "model"
    scores_text = True

    def __init__(self, **answers: Callable[[Question], str]):
        self.answers, self.asked = answers, Counter[str]()

    def ask(self, question: Question) -> Reply:
        self.asked[question.purpose] += 1
        answer = self.answers.get(question.purpose)
        if answer is None or question.logprobs or question.target:
            return imagine(question)
        return Reply(answer(question))


pytestmark = pytest.mark.usefixtures("forgotten")


def test_a_ranker_that_yields_twice_gets_the_replies_of_each_round():
    @register("ranker", "own")
    def ranker(item, reading):
        (topic,) = yield [Question(f"What is {item.compound} about?", purpose="ranking")]
        replies = yield [Question(f"{topic.text}: {c.caption}") for c in item.candidates]
        return [
            reply.text.index(c.caption) for reply, c in zip(replies, item.candidates, strict=True)
        ]

    model = Model(ranking=lambda question: question.text)
    expected = [
        (float(len(f"What is {item.compound} about?: ")),) * len(item.candidates) for item in ITEMS
    ]
    run = rank(ITEMS, Settings(rankers=("own",), sense="given", meanings="gloss"), llms=[model])
    assert [ranking.judgements[0].scores for ranking in run.rankings] == expected
    assert model.asked["ranking"] == sum(1 + len(item.candidates) for item in ITEMS)


SETTINGS = {
    "votes": Settings(sense="vote"),
    "meant": Settings(sense="vote", meanings="meant"),
    "gloss": Settings(sense="vote", meanings="gloss", scoring=Scoring.paper()),
    **{name: Settings(sense="vote", rankers=(name,)) for name in RANKERS},
    "listwise with senses": Settings(rankers=("listwise", "embeddings")),
}
OTHERWISE: list[Answers] = [
    {"senses": lambda question: "Literal"},
    {"ranking": lambda question: json.dumps(last(question.schema or {"type": "string"}))},
]


def last(schema: Mapping[str, Any]) -> Any:
    """Return a value that fits a schema, unlike the imagined one: the last choices, backwards."""
    if "enum" in schema:
        return schema["enum"][-1]
    if schema["type"] == "object":
        return {name: last(value) for name, value in schema["properties"].items()}
    if schema["type"] == "array":
        return schema["items"].get("enum", [last(schema["items"])])[::-1]
    return schema.get("maximum", 2) if schema["type"] in ("integer", "number") else "?"


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("answers", [{}, *OTHERWISE], ids=lambda answers: "-".join(answers))
def test_a_dry_run_counts_what_is_asked_if_replies_are_as_imagined_and_never_less(name, answers):
    told = Counter(
        {row.stage: row.questions for row in plan(ITEMS, SETTINGS[name], llms=[Model()])}
    )
    model = Model(**answers)
    rank(ITEMS, SETTINGS[name], llms=[model], encoder=WordEncoder())
    assert model.asked <= told
    assert answers or model.asked == told


@pytest.mark.parametrize(
    ("known", "order", "message"),
    [
        (Known("idiomatic"), ("bird.png",), "Own, 'night owl', order: has 1 names for 3 cand"),
        (Known("idiomatic"), 7, "Own, 'night owl', order: is not a list of image names"),
        (Known(Sense("idiomatic", 2.0)), (), "Own returned an invalid Known: sense"),
        (Known("IDIOM"), (), "Own returned an invalid Known: sense"),
        (Known("idiomatic", {"idiomatic": 5}), (), "Own returned an invalid Known: meanings"),
        (("idiomatic", {}), (), "Own returned tuple instead of Known"),
    ],
)
def test_what_a_recording_knows_is_checked(known, order, message):
    class Own(Recording):
        def known(self, item: Item) -> Known:
            return known

        def order(self, item: Item) -> Any:
            return order

        def check(self, items, purposes):
            pass

    with pytest.raises(UserError, match=message):
        rank(ITEMS, Settings(rankers=("listwise",)), llms=[Own()])


def test_a_ranker_that_is_called_as_a_method_of_senses_decides_them_or_not():
    """Its name says nothing: here the votes do not decide, although it is called "vote"."""

    @register("ranker", "vote")
    class Own(Ranker):
        decides_senses = True

        def scores(self, item, reading):
            yield [Question("Which sense?", purpose="ranking")]
            scores = tuple(range(len(item.candidates)))
            return Judgement("", "", scores, (), sense=likelier(0.1, "given"))

    for sense, decided, votes in (("auto", "literal", 0), ("vote", "idiomatic", 15)):
        model = Model()
        run = rank(ITEMS, Settings(rankers=("vote",), sense=sense), llms=[model])
        assert {ranking.predicted_type for ranking in run.rankings} == {decided}
        assert model.asked["senses"] == votes
        assert model.asked["ranking"] == 1
