import json
from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
from hypothesis import example, given
from judges import (
    BEST,
    FIRST,
    ITEM,
    NOISE,
    WORTH,
    WORTHS,
    Judge,
    item_of,
    one_shuffle,
    predicted,
    settings,
)
from repeats import quickly, repeating
from toys import OWL, WordEncoder

from admire import Scoring, Settings, UserError, compare_runs, rank, write_run
from admire.llm import Question
from admire.pipeline.tuning import tune
from admire.rankers.listwise import read_order
from admire.rankers.pointwise import read_numbers

NAMES = {"A": "one", "B": "two", "C": "three"}
ORDER = {"order": ["B", "C", "A"]}
TEXT = json.dumps(ORDER)


def test_listwise_decides_the_sense_by_the_majority_of_its_replies():
    def spoil(text: str, question: Question, count: int) -> str:
        literal = len([q for q in judge.questions if q.schema]) <= 2
        return text.replace('"idiomatic"', '"literal"') if literal else text

    judge = Judge(WORTHS, spoil=spoil)
    (ranking,) = rank([ITEM], settings("listwise", abstain_below=0.7), llms=[judge]).rankings
    assert ranking.unsure
    sense = ranking.interpretations[0].sense
    assert (sense.label, sense.idiomatic, sense.literal) == ("idiomatic", 3, 2)
    assert ranking.interpretations[0].meant == "someone awake late"
    assert len(judge.questions) == 5  # and no vote, no gloss


@pytest.mark.parametrize(("method", "votes"), [("vote", 3), ("given", 0)])
def test_a_sense_that_is_decided_otherwise_is_told(method, votes):
    judge = Judge(WORTHS, sense="literal")
    item = replace(ITEM, sentence_type="literal")
    run = rank([item], settings("listwise", sense=method, votes=3, shuffles=1), llms=[judge])
    assert run.rankings[0].predicted_type == "literal"
    *before, asked = judge.questions
    assert len(before) == votes
    assert "a phrase is used literally" in asked.text
    assert "literal_use" not in asked.text
    assert next(iter((asked.schema or {})["properties"])) == "meaning"
    assert run.record["models"]["llms"][0]["sense"] == method


def test_embeddings_beside_listwise_follow_the_sense_that_it_found():
    judge = Judge({c.caption or "": 0.5 for c in OWL.candidates}, sense="literal")
    both = settings("listwise", "embeddings", scoring=Scoring.paper())
    run = rank([OWL], both, llms=[judge], encoder=WordEncoder())
    assert run.rankings[0].predicted_type == "literal"
    assert run.rankings[0].order[0] == "bird.png"  # the judge finds all alike
    assert run.record["models"]["llms"][0]["sense"] == "listwise"
    assert not [q for q in judge.questions if q.purpose == "senses"]


def test_a_reply_that_cannot_be_read_is_asked_for_again_and_then_counted(caplog):
    def spoil(text: str, question: Question, count: int) -> str:
        hopeless = "literal_use" in question.text and question.seed % 5 in (0, 1)
        return "3" if hopeless or count == 1 else text

    judge = Judge(WORTHS, spoil=spoil)
    (ranking,) = rank([ITEM], settings("listwise"), llms=[judge]).rankings
    (judgement,) = ranking.judgements
    assert ranking.order == BEST
    assert [answer.unread for answer in judgement.answers] == ["3", "3", None, None, None]
    assert ranking.interpretations[0].sense.unparsed == 2
    assert len(judge.questions) == 10
    first = judge.questions[0]
    (again,) = (one for one in judge.questions[1:] if one.parts == first.parts)
    assert (first.seed != again.seed, first.temperature < again.temperature) == (True, True)
    assert again.max_tokens == first.max_tokens
    assert not [one for one in caplog.records if one.levelname == "WARNING"]


def test_a_run_of_listwise_is_compared_but_has_nothing_to_tune(tmp_path):
    def spoil(text: str, question: Question, count: int) -> str:
        return "?" if question.seed % 5 == 4 else text

    judge = Judge(WORTHS, noise=0.3, spoil=spoil)
    gold = replace(ITEM, expected_order=BEST)
    run = rank([gold], settings("listwise"), llms=[judge])
    write_run(run, tmp_path / "run")
    (row,) = map(json.loads, (tmp_path / "run" / "items.jsonl").read_text().splitlines())
    (judgement,) = row["judgements"]
    assert (judgement["ranker"], judgement["llm"], judgement["unread"]) == ("listwise", "judge", 1)
    assert 0 < judgement["agreement"] <= 1
    first, *_, last = judgement["answers"]
    assert sorted(first["shown"]) == sorted(first["order"]) == sorted(BEST)
    reason = first["reasons"][first["order"][0]]
    assert reason == {"elements": "lamp", "expresses": "late hours", "role": "meant"}
    assert (last["unread"], last["order"]) == ("?", [])
    with pytest.raises(UserError, match="has no cosines, only scores of listwise"):
        tune(tmp_path / "run")
    found = compare_runs([tmp_path / "run"])
    assert set(found["method"]) == {"listwise"}
    assert set(found["llm"]) == {"embedded"}  # as the settings name it


@pytest.mark.parametrize(
    "reply",
    [
        TEXT,
        f"Here is the order:\n{TEXT}\nI hope that it helps {{:-)}}.",
        f'<think>Maybe {{"order": ["A", "B", "C"]}}? No.</think>{TEXT}',
        '{"order": "B > C > A"}',
        '{"order": ["b", "Candidate C", "A."]}',
        '{"meaning": "line\nbreak", "order": ["B", "C", "A"]}',
        json.dumps({"meaning": 'A caption says {"order": ["A", "B", "C"]}'} | ORDER),
        json.dumps({"candidates": {"A": {"order": ["A", "B", "C"]}}} | ORDER),
    ],
)
def test_an_order_is_read_from_replies_in_every_dress(reply):
    found = read_order(reply, NAMES)
    assert found
    assert (found.shown, found.order) == (("one", "two", "three"), ("two", "three", "one"))


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "B, C, A",
        '{"order": ["A", "B", "B"]}',
        '{"order": ["A", "B", "C", "D"]}',
        TEXT[:-3],
        # Which of two different ones is the answer cannot be told.
        TEXT + '\nCaption B says {"order": ["A", "B", "C"]}.',
        '{"order": ["A", "B", "C"]} is what caption B says. ' + TEXT,
        "{" * 5000,
    ],
)
def test_what_is_no_full_order_is_not_read(reply):
    assert read_order(reply, NAMES) is None


PIECES = (TEXT, "{", "}", '{"order":', '["A", ', "]", '"', "\\", "<think>", "</think>", " ")


@given(repeating(*PIECES, times=2_000))
@example(f"</think>{TEXT}" * 5_000)
@example('{"order": ' * 50_000)
def test_a_reply_that_repeats_itself_is_read_at_once(reply: str):
    with quickly(2):
        read_order(reply, NAMES)
        read_numbers(Question(""), reply)


def test_reasons_and_the_sense_are_kept_and_damaged_ones_left_out():
    said = {"A": {"elements": "a  lamp\n", "expresses": 7, "role": "meant"}, "B": "?", "X": {}}
    found = read_order(json.dumps({"sense": "Idiomatic", "candidates": said} | ORDER), NAMES)
    assert found
    assert found.reasons == {"one": {"elements": "a lamp", "role": "meant"}}
    assert found.sense == "idiomatic"
    found = read_order(json.dumps({"meaning": "a \ud800lamp\0"} | ORDER), NAMES)
    assert found
    assert found.meaning == "a lamp"
    found = read_order(json.dumps({"sense": "idiomatic"} | ORDER), NAMES, states_sense=False)
    assert found
    assert found.sense is None  # the question says it


@pytest.mark.ci
def test_the_ranker_gains_by_shuffles_as_much_as_its_aggregation():
    # Names are drawn by lot, because equal scores go by name.
    count = 300
    rng = np.random.default_rng(2)
    worth: dict[str, float] = {}
    items, best = [], []
    for k in range(count):
        captions = [f"caption {number}" for number in rng.integers(0, 10**9, len(WORTH))]
        worth |= dict(zip(captions, WORTH, strict=True))
        items.append(item_of(captions, f"compound {k}"))
        best.append(f"{captions[0]}.png")
    found = {}
    for shuffles in (1, 5):
        judge = Judge(worth, noise=NOISE, first=FIRST)
        run = rank(items, Settings(rankers=("listwise",), shuffles=shuffles), llms=[judge])
        found[shuffles] = np.mean(
            [r.order[0] == b for r, b in zip(run.rankings, best, strict=True)]
        )
    for shuffles, expected in ((1, one_shuffle()), (5, predicted(5, "kemeny"))):
        error = sqrt(expected * (1 - expected) / count)
        assert found[shuffles] == pytest.approx(expected, abs=4 * error)
