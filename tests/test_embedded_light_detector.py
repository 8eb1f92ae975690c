"""The light detector: its decisions and its file."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import refused
from toys import MarkedEncoder

from admire import Candidate, Item, UserError
from admire.embedded.light_detector import BUILT_IN, LightDetector, Reader
from admire.prompts import Prompts
from admire.senses import Use, open_detector

NEUTRAL = "It was about night owl."
MARKED = Reader(name="marked", identity="marked:1")


def light(heads: int = 1, card: dict | None = None, **options) -> LightDetector:
    """A detector whose heads weigh nothing."""
    zeros = np.zeros((heads, 8)), np.zeros(heads)
    return LightDetector((MARKED,), *zeros, neutral=True, card=card or {}, **options)


def test_the_mean_probability_decides_and_no_votes_are_cast():
    # Two heads are nearly certain, three hardly lean to the other side.
    detector = light(5)._replace(biases=np.log([99, 99, 0.9, 0.9, 0.9]))
    sense = detector.classify([Use(Item("owl", "An owl."))], MarkedEncoder())[0]
    assert (sense.label, sense.idiomatic, sense.literal) == ("idiomatic", 0, 0)
    assert str(sense) == "idiomatic, confidence 0.68 (detector)"
    assert sense.probability_idiomatic == pytest.approx((2 * 0.99 + 3 * 0.9 / 1.9) / 5)


def test_a_score_is_what_the_context_adds_to_neutral_sentences():
    class Lengths(MarkedEncoder):
        """One number a place: the length of the text before it."""

        def encode_queries(self, queries):
            return np.array([[query.span[0]] for query in queries], dtype=float)

    # Before the compound stand 'A grumpy ' and 'It was about ', after the same beginning; the
    # other places have a weight of 0.
    detector = light()._replace(weights=np.array([[1.0, 0.0, 0.0, 0.0]]))
    (sense,) = detector.classify([Use(Item("owl", "A grumpy owl."))], Lengths())
    assert sense.probability_idiomatic == pytest.approx(1 / (1 + np.exp(-(9 - 13))))


def test_a_compound_is_read_in_its_sentence_where_it_is_repeated_and_once_in_neutral_ones():
    encoder = MarkedEncoder()
    sentences = ["Night owls sleep late.", "No night owl is here."]
    light().classify([Use(Item("night owl", text)) for text in sentences], encoder)
    words = [word for word, _ in encoder.asked]
    read = [("Night owls", sentences[0]), *(("night owl", s) for s in (sentences[1], NEUTRAL))]
    assert words == [word for first, text in read for word in (first, text, "night owl", '"')]
    assert all(f'Sentence: "{NEUTRAL}"' in text for _, text in encoder.asked[8:])


def test_a_further_encoder_reads_the_compound_in_the_sentence_alone():
    class Second(MarkedEncoder):
        """One number: the length of the sentence."""

        identity = "second:1"

        def encode_queries(self, queries):
            super().encode_queries(queries)
            return np.array([[len(query.text)] for query in queries], dtype=float)

    readers = MARKED, Reader(name="second", identity="second:1")
    detector = light()._replace(encoders=readers, weights=np.array([[0.0] * 8 + [1.0]]))
    second = Second()
    uses = [Use(Item("night owl", "Night owls sleep."))]
    (sense,) = detector.classify(uses, MarkedEncoder(), second)
    assert second.asked == [("Night owls", "Night owls sleep."), ("night owl", NEUTRAL)]
    assert sense.probability_idiomatic == pytest.approx(1 / (1 + np.exp(len(NEUTRAL) - 17)))
    with pytest.raises(UserError, match=r"'marked:1 \+ second:1', not on 'marked:1'"):
        detector.classify(uses, MarkedEncoder())


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        (
            {"ca": {"accuracy": 0.83}, "tr": {"accuracy": 0.612}},
            "expect 0.61 to 0.83 of its senses",
        ),
        ({}, "less reliable"),
    ],
)
def test_languages_without_training_are_decided_alike_and_named_once(caplog, measured, expected):
    card = {"languages": ["en", "pt-br", str(len(measured))], "other languages": measured}
    detector = light(card=card)
    uses = [Use(Item("owl", "An owl.", language=tag)) for tag in ("en", "pt-br", "xp", "tr", "uk")]
    for _ in range(2):
        senses = detector.classify(uses, MarkedEncoder())
    assert [s.probability_idiomatic for s in senses] == [0.5] * 5
    (line,) = caplog.messages
    assert "not trained on Turkish and Ukrainian, only on" in line
    assert expected in line


@pytest.mark.parametrize(
    ("language", "compound", "neutral"),
    [
        ("ru", "закручивать гайки", "Речь зашла про закручивать гайки."),
        ("sr-latn", "crna ovca", "Tema je bila crna ovca."),
        ("sr", "црна овца", "Тема је била црна овца."),
        ("zh", "黑箱", "谈的是黑箱。"),
        ("de", "schwarzes Schaf", "It was about schwarzes Schaf."),
    ],
)
def test_the_neutral_sentence_is_in_the_items_language(language, compound, neutral):
    encoder = MarkedEncoder()
    light().classify([Use(Item(compound, f"{compound}!", language=language))], encoder)
    assert f'"{neutral}"' in encoder.asked[-1][1]


def test_what_a_sequence_shows_is_compared_with_captions_that_say_nothing():
    encoder = MarkedEncoder()
    sequence = (Candidate("sequence1", caption="A lamp."),)
    item = Item("night owl", "A lamp. It was about night owl.", sequence=sequence)
    light().classify([Use(item), Use(replace(item, sequence=()))], encoder)
    contexts = [text for _, text in encoder.asked[::4]]
    assert contexts[0] == contexts[1]
    assert "The image shows" in contexts[2]
    assert all("It was about night owl." in text for text in contexts[2:])
    assert "The image shows" not in contexts[3]


RIGHT = {"encoders": [{"name": "e", "identity": "e"}], "weights": [[1.0]], "biases": [0.0]}
RIGHT |= {"neutral": True}


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '{"weights": [[1]]}',
        '{"weights": [1], "biases": [1]}',
        json.dumps(RIGHT | {"card": {}, "shift": 0.7}),
        json.dumps(RIGHT | {"card": {"other languages": {"tr": 1}}}),
        json.dumps(RIGHT | {"card": {}, "encoders": [["marked", "marked:1"]]}),
    ],
)
def test_a_damaged_or_older_detector_file_is_named(tmp_path: Path, content):
    path = tmp_path / "detector.json"
    path.write_text(content)
    refused(path, "is not a detector of this version", "Train it again", read=open_detector)


def test_the_built_in_detector_was_fitted_with_todays_prompts():
    assert open_detector().card["prompts"].items() <= Prompts().fingerprints.items()


def test_a_detectors_identity_is_of_the_file_as_it_was_opened(tmp_path: Path):
    file = tmp_path / "detector.json"
    light(5).save(file)
    detector = open_detector(file)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()

    file.write_text("edited")

    assert detector.identity == digest
    assert open_detector().identity == hashlib.sha256(BUILT_IN.read_bytes()).hexdigest()
