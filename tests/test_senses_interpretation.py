import re
from dataclasses import replace

import numpy as np
import pytest
from toys import OWL, Detector, ScriptedChat, WordEncoder, explains, says

from admire import Candidate, Item, Settings, UserError, rank
from admire.pipeline.chat_stage import interpret_items
from admire.prompts import Prompts
from admire.senses.dictionaries import Entry
from admire.senses.dictionaries.entries import Entries
from admire.senses.interpretation import Approach, Glosses, Interpretation
from admire.senses.meaning import NO_MEANING, Meaning
from admire.senses.sense import Sense
from admire.senses.settings import SenseSettings


def test_a_sense_that_no_chat_model_decides_is_decided_once(monkeypatch):
    detector, opened = Detector(), []
    monkeypatch.setattr(
        "admire.pipeline.chat_stage.open_detector", lambda path: opened.append(path) or detector
    )
    settings = Settings(sense="detector", detector="mine.json", meanings="gloss")
    run = rank([OWL, OWL], settings, llms=[says("Idiomatic")] * 3, encoder=WordEncoder())
    assert detector.asked == [[OWL.sentence] * 2]
    assert opened == ["mine.json"]
    assert [r.predicted_type for r in run.rankings] == ["literal", "literal"]
    assert len(run.rankings[0].interpretations) == 3
    assert run.record["models"]["detector"] == "toy detector"


def test_what_tells_the_sense_of_subtask_b_are_the_captions_of_the_sequence():
    detector = Detector()
    sequence = (Candidate("s1.png", caption="A lamp.\nIt is lit."), Candidate("s2.png"))
    item = Item("night owl", "", sequence=sequence)
    how = Approach(Prompts(), SenseSettings("detector"), glosses="none")
    interpret_items([item], [says("")], how, detector=detector)
    assert detector.asked == [["A lamp. It is lit. It was about night owl."]]
    target = Item("night owl", "", expected_item="a.png")
    for blind in (target, replace(item, sequence=sequence[1:])):
        with pytest.raises(UserError, match="to decide its sense"):
            interpret_items([blind], [says("Literal")], Approach(Prompts(), SenseSettings("vote")))


class Angles:
    """A text is the direction of the degrees that it names; as a query, twice as many."""

    name = "angles"
    identity = "angles:1"
    batch = 2

    def encode_texts(self, texts, *, role):
        degrees = np.radians([int(re.sub(r"\D", "", text)) for text in texts])
        degrees *= 2 if role == "query" else 1
        return np.stack([np.cos(degrees), np.sin(degrees)], axis=1)


def shown(compound: str, *angles: list[int]) -> Item:
    sequence, candidates = (
        tuple(Candidate(f"{k}.png", caption=f"{angle} degrees") for k, angle in enumerate(group))
        for group in angles
    )
    return Item(compound, "", sequence=sequence, candidates=candidates)


def decided(*items: Item, detector: Detector | None = None) -> list[Sense]:
    how = Approach(Prompts(), SenseSettings("detector"), glosses="none")
    (readings,) = interpret_items(items, [says("")], how, encoder=Angles(), detector=detector)
    return [reading.sense for reading in readings]


def test_a_sequence_is_literal_if_the_compound_is_nearer_to_it_than_to_the_candidates():
    # The compound lies at 90.
    items = [shown("owl 45", *angles) for angles in ([[90], [90, 0, 0]], [[0, 0], [90, 90]])]
    senses = decided(*items)
    assert [sense.label for sense in senses] == ["literal", "idiomatic"]
    assert {sense.by for sense in senses} == {"captions"}


def test_what_has_no_captions_to_compare_is_left_to_the_detector():
    sequence = shown("owl 45", [90], [0, 90])
    pictures = replace(sequence, candidates=(Candidate("a.png"), Candidate("b.png")))
    detector = Detector()
    found = decided(OWL, sequence, pictures, sequence, OWL, detector=detector)
    by_captions = [sense.probability_idiomatic == 0.2 for sense in found]
    assert by_captions == [True, False, True, False, True]
    assert list(map(len, detector.asked)) == [3]


def test_a_run_compares_a_sequence_with_its_own_encoder_of_captions():
    item = shown("owl 45", [90], [0, 90])
    settings = Settings(sense="detector", meanings="gloss")
    run = rank([item], settings, llms=[says("")], caption_encoder=Angles(), detector=Detector())
    assert [one.sense for one in run.rankings[0].interpretations] == decided(item)
    assert run.rankings[0].predicted_type == "literal"


LATE = Meaning(("person awake late", "late worker"), "a lamp at night")
BIRD = Meaning(("bird with wings",), "an owl in a tree")


def asked(chat: ScriptedChat) -> list[str]:
    """What was asked, in short, in order."""
    signs = {Prompts().about(OWL, "literal"): "literal", "or literally": "sense"}
    signs |= {"idiom of the sentence": "idiomatic", "": "gloss"}
    return [next(signs[sign] for sign in signs if sign in prompt) for prompt in chat.prompts]


def read(
    chat: ScriptedChat, glosses: Glosses = "idiomatic", meanings: str = "gloss"
) -> Interpretation:
    how = Approach(Prompts(), SenseSettings("vote", votes=1, meanings=meanings), glosses=glosses)
    ((reading,),) = interpret_items([OWL], [chat], how)
    return reading


@pytest.mark.parametrize(
    ("sense", "meant"), [("Idiomatic", "person awake late"), ("Literal", "bird with wings")]
)
def test_each_sense_is_described_and_the_meant_one_is_shown(sense, meant):
    chat = explains(sense)
    found = read(chat, meanings="both")
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


@pytest.mark.parametrize(("sense", "described"), [("Idiomatic", LATE), ("Literal", BIRD)])
@pytest.mark.parametrize(
    ("both", "meanings", "glosses", "alone"),
    [
        (False, "auto", "idiomatic", True),
        (True, "auto", "idiomatic", False),
        (True, "meant", "idiomatic", True),
        (True, "meant", "all", False),  # the gate is soft
    ],
)
def test_what_is_meant_may_be_described_alone(sense, described, both, meanings, glosses, alone):
    chat = explains(sense)
    chat.describes_both_senses = both
    reading = read(chat, glosses, meanings)
    unused = not both and sense == "Literal"
    kinds = [sense.lower()] * (not unused) if alone else ["idiomatic", "literal"]
    assert asked(chat) == ["sense", *kinds]
    assert (described in (reading.idiomatic, reading.literal)) is not unused
    assert reading.meant == (None if unused else described.definitions[0])


@pytest.mark.parametrize(
    ("sense", "literal", "dictionary", "wording"),
    [
        ("literal", BIRD, True, "bird with wings"),
        ("literal", NO_MEANING, True, "a bird"),
        ("literal", NO_MEANING, False, "night owl"),
        ("idiomatic", NO_MEANING, True, "person awake late"),
    ],
)
def test_a_literal_use_that_no_model_describes_is_worded_by_a_dictionary(
    sense, literal, dictionary, wording
):
    bird = Entry("night owl", "a bird", "wordnet")
    decided = Sense(sense, float(sense == "idiomatic"))
    reading = Interpretation("toy", decided, LATE, literal, Entries(literal=(bird,) * dictionary))
    assert reading.wording("night owl") == wording


@pytest.mark.parametrize("sense", ["Idiomatic", "Literal"])
@pytest.mark.parametrize("meanings", ["gloss", "both"])
def test_a_meaning_by_hand_is_that_of_the_sense_and_no_model_is_asked_for_it(sense, meanings):
    mine = ("someone up late", "no early bird")
    llm = explains(sense)
    settings = SenseSettings("vote", meanings=meanings)
    item = replace(OWL, definitions=mine)
    ((reading,),) = interpret_items([item], [llm], Approach(Prompts(), settings))
    told = getattr(reading, sense.lower())
    assert (told, reading.wording("night owl", mine)) == (Meaning(mine), mine[0])
    other = {"Idiomatic": "literal", "Literal": "idiomatic"}[sense]
    assert asked(llm)[5:] == [other] * (meanings == "both")


def test_a_sense_that_is_known_without_asking_has_only_the_meanings_that_count_asked():
    hooted = replace(OWL, sentence="A night owl hooted.", sentence_type="literal")
    items = [replace(OWL, sentence_type="idiomatic"), hooted]
    settings = SenseSettings("given", meanings="both")
    for glosses, idiomatic in ("idiomatic", 1), ("all", 2):
        chat = explains("")
        (found,) = interpret_items(items, [chat], Approach(Prompts(), settings, glosses=glosses))
        assert asked(chat) == ["idiomatic"] * idiomatic + ["literal"]
        assert [one.meant for one in found] == ["person awake late", "bird with wings"]


@pytest.mark.parametrize(
    ("sense", "options", "question"),
    [
        ("Idiomatic", {}, ["gloss"]),  # the paper's way
        ("Literal", {}, []),
        ("Literal", {"glosses": "all"}, ["gloss"]),
        ("Idiomatic", {"glosses": "none"}, []),
        ("Idiomatic", {"glosses": "none", "meanings": "both"}, []),
    ],
)
def test_one_gloss_is_asked_for_or_none(sense, options, question):
    chat = says(sense)
    reading = read(chat, **options)
    assert asked(chat) == ["sense", *question]
    assert reading.literal == Meaning()
    assert bool(reading.gloss) == bool(reading.texts()) == bool(question)
    assert reading.meant == (reading.gloss if sense == "Idiomatic" else None)


def prompts_of(item: Item, **settings) -> list[str]:
    chat = explains("Idiomatic")
    rank([item], Settings(sense="vote", votes=1, **settings), llms=[chat], encoder=WordEncoder())
    return chat.prompts[1:]


def test_a_prompt_shows_what_a_dictionary_says_of_its_sense_and_none_is_as_before(owls):
    person, bird = "who stays up late", "an owl of the night"
    idiomatic, literal = prompts_of(OWL)
    assert f'// dictionary: "{person}"\n{{"idiom": "night owl",' in idiomatic
    assert bird not in idiomatic
    assert f'// dictionary: "{bird}"\n{{"phrase": "night owl",' in literal
    assert person not in literal
    unknown = replace(OWL, compound="cold feet")
    for item, settings in ((OWL, {"dictionaries": ("none",)}), (unknown, {})):
        plain = [Prompts().about(item, sense) for sense in ("idiomatic", "literal")]
        assert prompts_of(item, **settings) == plain
    assert "dictionary" not in "".join(plain)
