"""The light detector: what it decides, what it learns, and its file."""

from __future__ import annotations

import hashlib
import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
from toys import WordEncoder

from admire import Item, UserError
from admire.senses import (
    BUILT_IN,
    DetectorTraining,
    LightDetector,
    Use,
    open_detector,
    train_detector,
)
from admire.senses.light import sample_items

learning = pytest.mark.skipif(
    importlib.util.find_spec("sklearn") is None, reason="needs the extra 'train'"
)


class MarkedEncoder:
    """Two noisy numbers a text; the first tells whether the text holds the word 'really'."""

    name = "marked"
    identity = "marked:1"
    batch = 16

    def encode_texts(self, texts, *, role):
        noise = np.random.default_rng(1).normal(size=(len(texts), 2))
        return (noise + [[4.0 * ("really" in text), 0] for text in texts]).astype(np.float32)


def items(compounds: int = 20, each: int = 4) -> list[Item]:
    return [
        Item(
            f"c{k}",
            f"A c{k} {'really' if j % 2 else 'hardly'} {j}.",
            sentence_type="idiomatic" if j % 2 else "literal",
        )
        for k in range(compounds)
        for j in range(each)
    ]


def uses(items: list[Item]) -> list[Use]:
    return [Use(item) for item in items]


def test_five_heads_vote_and_their_probabilities_are_averaged():
    # One number: 0 -> heads at log-odds of their biases; three are above zero, two below.
    detector = LightDetector(
        "words", "words:1", np.zeros((5, 512)), np.log([3, 3, 3, 1 / 3, 1 / 3]), {}
    )
    sense = detector.classify([Use(Item("owl", "An owl."))], WordEncoder())[0]
    assert (sense.label, sense.idiomatic, sense.literal, sense.unparsed) == ("idiomatic", 3, 2, 0)
    assert sense.probability == pytest.approx((3 * 0.75 + 2 * 0.25) / 5)


@learning
def test_a_trained_detector_recovers_the_signal_and_tells_how_well_on_unseen_compounds():
    detector = train_detector(items(), MarkedEncoder())
    assert detector.weights.shape == (5, 2)
    assert detector.card["unseen compounds"]["accuracy"] > 0.9
    assert detector.card["compounds"] == 20
    assert (detector.weights[:, 0] > abs(detector.weights[:, 1])).all()


@learning
def test_what_was_saved_decides_the_same(tmp_path):
    detector = train_detector(items(), MarkedEncoder())
    detector.save(tmp_path / "detector.json")
    loaded = open_detector(tmp_path / "detector.json")
    assert loaded.identity == detector.identity
    before = detector.classify(uses(items()), MarkedEncoder())
    after = loaded.classify(uses(items()), MarkedEncoder())
    assert [s.label for s in before] == [s.label for s in after]
    assert [s.probability for s in before] == pytest.approx(
        [s.probability for s in after], abs=1e-3
    )


@learning
def test_memorised_compounds_do_not_raise_the_figure_on_the_card():
    class CompoundEncoder(MarkedEncoder):
        """Tells every compound apart, and nothing else."""

        def encode_texts(self, texts, *, role):
            seeds = [int(re.search(r"c(\d+)", text)[1]) for text in texts]
            return np.array([np.random.default_rng(s).normal(size=256) for s in seeds])

    one_sense_each = [
        Item(i.compound, i.sentence, sentence_type="literal" if k // 4 % 2 else "idiomatic")
        for k, i in enumerate(items(compounds=60))
    ]
    detector = train_detector(one_sense_each, CompoundEncoder())
    seen = detector.classify(uses(one_sense_each), CompoundEncoder())
    right = [s.label == i.sentence_type for s, i in zip(seen, one_sense_each, strict=True)]
    assert np.mean(right) > 0.8
    assert detector.card["unseen compounds"]["accuracy"] < 0.65


def test_the_sample_is_capped_for_each_compound_and_sense_and_leaves_out_what_it_is_told():
    def chosen(seed: int) -> list[Item]:
        settings = DetectorTraining(per_compound=2, seed=seed)
        return sample_items(items(each=8), settings, leave_out=["C3", "c4"])

    assert len(chosen(0)) == 18 * 2 * 2
    assert not {"c3", "c4"} & {item.compound for item in chosen(0)}
    assert chosen(0) == chosen(0) != chosen(1)


@learning
@pytest.mark.parametrize(
    "few", [items(compounds=4), [i for i in items() if i.sentence_type == "literal"]]
)
def test_fitting_needs_enough_compounds_and_both_senses(few):
    with pytest.raises(UserError, match="both senses and at least 5 compounds"):
        train_detector(few, MarkedEncoder())


def test_a_detector_refuses_vectors_of_another_encoder():
    detector = LightDetector("words", "words:0", np.zeros((5, 512)), np.zeros(5), {})
    with pytest.raises(UserError, match="trained on 'words:0', not on 'words:1'"):
        detector.classify(uses(items()), WordEncoder())


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"weights": [[1]]}', '{"weights": [1], "biases": [1]}']
)
def test_a_damaged_detector_file_is_named(tmp_path: Path, content):
    path = tmp_path / "detector.json"
    path.write_text(content)
    with pytest.raises(UserError, match=r"detector\.json: is not a detector"):
        open_detector(path)


def test_the_built_in_detector_says_how_it_was_made():
    detector = open_detector()
    assert detector.encoder == "embedded-state"
    assert detector.weights.shape == (5, 1536)
    assert {"items", "compounds", "languages", "unseen compounds", "seed"} <= set(detector.card)


def test_the_built_in_detector_was_fitted_with_todays_prompt():
    from admire.prompts import Prompts

    assert open_detector().card["prompt"] == Prompts().fingerprints()["detect_en.j2"]


def test_a_detectors_identity_is_of_the_file_as_it_was_opened(tmp_path: Path):
    file = tmp_path / "detector.json"
    LightDetector("words", "words:1", np.zeros((5, 512)), np.zeros(5), {}).save(file)
    detector = open_detector(file)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()

    file.write_text("edited")

    assert detector.identity == digest
    assert open_detector().identity == hashlib.sha256(BUILT_IN.read_bytes()).hexdigest()


def test_nothing_is_decided_of_no_uses():
    assert open_detector().classify([]) == []


@pytest.mark.parametrize("changes", [{"per_compound": 0}, {"per_compound": 1.5}, {"seed": -1}])
def test_settings_are_checked(changes: dict):
    ((name, value),) = changes.items()
    with pytest.raises(UserError, match=f"{name} cannot be {value}"):
        DetectorTraining(**changes)
