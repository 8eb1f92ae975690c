import hashlib
import json
from dataclasses import replace

import pandas as pd
import pytest
from conftest import refused
from toys import OWL, PAPER, WordEncoder, explains, says

from admire import Candidate, Scoring, Settings, UserError, rank, write_run
from admire.llm import Session, open_llm
from admire.pipeline.chat_stage import interpret_items
from admire.prompts import Prompts
from admire.senses.interpretation import Approach
from admire.senses.meaning import Meaning
from admire.senses.recorded_replies import open_replies
from admire.senses.sense import Sense
from admire.senses.settings import SenseSettings

HOOTED = replace(OWL, sentence="A night owl hooted.", sentence_type="literal")
LATE = Meaning(("person awake late", "late worker"), "a lamp at night")
BIRD = Meaning(("bird with wings",), "an owl in a tree")
IDIOM = {"compound": "night owl", "sense": "idiomatic"}
MEANINGS = (
    IDIOM | {"compound": "Night Owl", "meaning": "Night owl: person awake late"},
    IDIOM | {"meaning": "late worker", "scene": LATE.scene},
    IDIOM | {"meaning": "a third one", "scene": "another"},
    IDIOM | {"sense": "literal", "meaning": "bird with wings", "scene": BIRD.scene},
    {"compound": "cold feet", "sense": "Literal", "meaning": "feet that are cold"},
)
"""As the toys' chat model says them."""
TIE = {"votes_idiomatic": 2, "votes_literal": 2}
SENSE = IDIOM | {"sentence": OWL.sentence}


@pytest.mark.parametrize("name", ["replies.csv", "replies.tsv", "replies.jsonl"])
def test_a_file_stands_for_the_chat_model_that_would_say_the_same(write_table, name: str):
    path = write_table(*MEANINGS, SENSE, name=name)
    recorded = rank([OWL], Settings(llms=(f"recorded:{path}",)), encoder=WordEncoder())
    asked = rank(
        [OWL], Settings(votes=1, sense="vote"), llms=[explains("Idiomatic")], encoder=WordEncoder()
    )
    (one,), (other,) = recorded.rankings, asked.rankings
    assert (one.order, list(one.scores)) == (other.order, list(other.scores))
    (reading,) = one.interpretations
    assert (reading.idiomatic, reading.literal) == (LATE, BIRD)
    (model,) = recorded.record["models"]["llms"]
    identity = f"recorded:{hashlib.sha256(path.read_bytes()).hexdigest()}"
    how = {"sense": "vote", "meanings": "both"}
    assert model == {"name": f"recorded:{path}", "identity": identity} | how


def test_votes_are_the_probability_and_the_majority_is_the_sense(write_table):
    row = {"compound": "night owl", "sentence": OWL.sentence}
    for cells, expected in (
        ({"votes_idiomatic": 4, "votes_literal": 1}, Sense("idiomatic", 0.8, 4, 1)),
        ({"votes_literal": "3.0"}, Sense("literal", 0.0, 0, 3)),
        (TIE, Sense("literal", 0.5, 2, 2)),
        (TIE | {"sense": "idiomatic"}, Sense("idiomatic", 0.5, 2, 2)),
        ({"sense": "idiomatic"}, Sense("idiomatic", 1.0, by="recorded")),
        ({"sense": "LITERAL"}, Sense("literal", 0.0, by="recorded")),
    ):
        model = open_replies(write_table(row | cells, name="replies.jsonl"))
        assert model.known(OWL).decided == expected


def test_what_is_said_of_a_sentence_goes_before_what_is_said_of_the_compound(write_table):
    row = SENSE | {"meaning": "someone who works late", "scene": "a lamp"}
    model = open_replies(write_table(*MEANINGS, row, row, name="replies.csv"))
    other = replace(OWL, sentence="Night owls sleep late.")
    late = Meaning(("someone who works late",), "a lamp")
    assert [model.known(item).meaning("idiomatic") for item in (OWL, other)] == [late, LATE]
    assert model.known(OWL).meaning("literal") == BIRD


def test_an_order_is_that_of_the_items_candidates(write_table):
    """Items that differ in their candidates alone each have their own."""
    pair = (Candidate("a", caption="a"), Candidate("b", caption="b"))
    other = replace(OWL, candidates=pair)
    row = {"compound": "night owl", "sentence": OWL.sentence}
    orders = [["b", "a"], ["person.png", "bike.png", "bird.png"]]
    path = write_table(*(row | {"order": order} for order in orders), name="replies.jsonl")
    model = open_replies(path)
    found = [[*model.order(item)] for item in (OWL, other, HOOTED)]
    assert found == [orders[1], orders[0], []]
    triple = replace(OWL, candidates=(*pair, Candidate("c", caption="c")))
    with pytest.raises(UserError, match=r"replies\.jsonl, row 1, order"):
        model.order(triple)


def test_items_without_a_sense_are_named_and_the_data_or_a_detector_can_give_it(write_table):
    path = write_table(*MEANINGS, SENSE, name="replies.csv")
    items = [OWL, HOOTED, *(replace(OWL, sentence=f"A night owl {k}.") for k in range(6))]
    settings = Settings(llms=(f"recorded:{path}",))
    with pytest.raises(UserError) as caught:
        rank(items, settings, encoder=WordEncoder())
    message = str(caught.value)
    assert f"recorded:{path} has no sense for 'night owl' in “A night owl hooted.”, " in message
    assert "“A night owl 1.” and 4 more." in message
    assert caught.value.settings == ("llms", "sense")
    (ranking,) = rank([HOOTED], replace(settings, sense="given"), encoder=WordEncoder()).rankings
    assert ranking.predicted_type == "literal"
    assert ranking.interpretations[0].idiomatic == LATE


ITEM = {"compound": "night owl", "sentence": "A night owl."}


@pytest.mark.parametrize(
    ("rows", "place", "words"),
    [
        ([{"sense": "figurative"}], "1, sense", "figurative"),
        ([{"votes_literal": "many"}], "1, votes_literal", ""),
        ([{"meaning": "a bird"}], "1 ('night owl'), sense", ""),
        ([{"sentence": "", "order": ["a", "b"]}], "1 ('night owl'), order", ""),
        (
            [{"sense": "literal"}, {"compound": "cold feet"}, {"sense": "idiomatic"}],
            *("3 ('night owl'), sense", "row 1 has literal"),
        ),
        (
            [{"order": ["a", "b"]}, {"order": "['b', 'a']"}],
            *("2 ('night owl'), order", "row 1 has a, b"),
        ),
        ([TIE | {"votes_literal": 1, "sense": "literal"}], "1 ('night owl'), sense", "2:1"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(write_table, rows, place, words):
    path = write_table(*(ITEM | row for row in rows), name="replies.jsonl")
    refused(path, f"row {place}", words, read=open_replies)


def test_a_run_ranked_again_from_its_own_replies_is_the_same(tmp_path):
    """Two models, of which one says nothing of one sense and is not sure of another."""
    first, second = explains("Idiomatic", literal="I'm sorry."), explains("Literal", "late worker")
    votes = iter(["Literal", "Idiomatic", "Idiomatic"] * 2)
    answer = first.answer
    first.answer = lambda prompt: next(votes) if "or literally" in prompt else answer(prompt)
    items = [replace(OWL, sentence_type="idiomatic"), HOOTED]
    one, again, soft = (tmp_path / name for name in ("one", "again", "soft"))
    settings = Settings(sense="vote", votes=3)
    write_run(rank(items, settings, llms=[first, second], encoder=WordEncoder()), one)
    for folder, scoring in ((again, settings.scoring), (soft, Scoring.paper(gate="soft"))):
        settings = Settings(llms=(f"run:{one}",), votes=3, scoring=scoring)
        write_run(rank(items, settings, encoder=WordEncoder()), folder)
    name = "submission_en.tsv"
    assert (one / name).read_bytes() == (again / name).read_bytes()
    scores = [pd.read_csv(run / "scores.csv") for run in (one, again, soft)]
    named = scores[1].pop("llm").unique().tolist()
    assert named == [f"run:{one}#1", f"run:{one}#2"]
    assert scores[0].pop("llm").unique().tolist() == [first.name, second.name]
    pd.testing.assert_frame_equal(scores[0], scores[1], check_exact=True)
    assert scores[2]["score"].tolist() != scores[1]["score"].tolist()

    (model, _), (kept, _) = (Session().open(f"run:{run}") for run in (one, again))
    digest = hashlib.sha256((one / "items.jsonl").read_bytes()).hexdigest()
    assert model.identity == f"run:{digest}:1:explains Idiomatic"
    for recording in (model, kept):
        senses = [recording.known(item).sense for item in items]
        assert senses == [Sense("idiomatic", 2 / 3, 2, 1)] * 2
    orders = [row["order"] for row in map(json.loads, (one / "items.jsonl").open())]
    assert [[*model.order(item)] for item in items] == orders
    with pytest.raises(UserError, match="2 chat models"):
        open_llm(f"run:{one}")


def test_a_run_of_glosses_gives_glosses_and_says_what_it_lacks(tmp_path, caplog):
    chat = says("Idiomatic", "A person awake late.")
    answer, items = chat.answer, [OWL, HOOTED]
    chat.answer = lambda prompt: "Literal" if "hooted" in prompt else answer(prompt)
    settings = replace(PAPER, votes=1)
    write_run(rank(items, settings, llms=[chat], encoder=WordEncoder()), tmp_path / "run")
    llm = open_llm(f"run:{tmp_path / 'run'}")
    caplog.set_level("WARNING")
    caplog.clear()
    (same,) = interpret_items(items, [llm], Approach(Prompts(), SenseSettings(meanings="gloss")))
    assert not caplog.messages
    assert [reading.gloss for reading in same] == ["A person awake late.", None]
    interpret_items(items, [llm], Approach(Prompts(), SenseSettings(meanings="both")))
    (warning,) = caplog.messages  # of the sense that is meant there
    assert "no literal meaning for 'night owl' in “A night owl hooted.”" in warning


def test_a_run_without_a_chat_model_or_a_damaged_one_has_no_replies(tmp_path):
    folder = tmp_path / "run"
    write_run(rank([OWL], Settings(query="compound"), encoder=WordEncoder()), folder)
    with pytest.raises(UserError, match="run: no chat model") as caught:
        open_llm(f"run:{folder}")
    assert caught.value.settings == ("llms",)
    rows = (folder / "items.jsonl").read_text()
    (folder / "items.jsonl").write_text(rows.replace("interpretations", "readings"))
    with pytest.raises(UserError, match=r"items\.jsonl, row 1, interpretations"):
        open_llm(f"run:{folder}")
    with pytest.raises(UserError, match=r"none/run\.json"):
        open_llm(f"run:{tmp_path / 'none'}")
