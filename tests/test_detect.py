from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from toys import WordEncoder

from admire import Item, UserError
from admire.detect import Detector, fit, load_detector, read_idiomaticity, sample


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


def test_five_heads_vote_and_their_probabilities_are_averaged():
    # One number: 0 -> heads at log-odds of their biases; three are above zero, two below.
    detector = Detector("words", "words:1", np.zeros((5, 512)), np.log([3, 3, 3, 1 / 3, 1 / 3]), {})
    sense = detector.senses([Item("owl", "An owl.")], WordEncoder())[0]
    assert (sense.label, sense.idiomatic, sense.literal, sense.unparsed) == ("idiomatic", 3, 2, 0)
    assert sense.probability == pytest.approx((3 * 0.75 + 2 * 0.25) / 5)


def test_a_fitted_detector_recovers_the_signal_and_tells_how_well_on_unseen_compounds():
    detector = fit(items(), MarkedEncoder())
    assert detector.weights.shape == (5, 2)
    assert detector.card["unseen compounds"]["accuracy"] > 0.9
    assert detector.card["compounds"] == 20
    assert (detector.weights[:, 0] > abs(detector.weights[:, 1])).all()


def test_what_was_saved_decides_the_same(tmp_path):
    detector = fit(items(), MarkedEncoder())
    detector.save(tmp_path / "detector.json")
    loaded = load_detector(tmp_path / "detector.json")
    before = detector.senses(items(), MarkedEncoder())
    after = loaded.senses(items(), MarkedEncoder())
    assert [s.label for s in before] == [s.label for s in after]
    assert [s.probability for s in before] == pytest.approx(
        [s.probability for s in after], abs=1e-3
    )


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
    detector = fit(one_sense_each, CompoundEncoder())
    seen = detector.senses(one_sense_each, CompoundEncoder())
    right = [s.label == i.sentence_type for s, i in zip(seen, one_sense_each, strict=True)]
    assert np.mean(right) > 0.8
    assert detector.card["unseen compounds"]["accuracy"] < 0.65


def test_the_sample_is_capped_for_each_compound_and_sense_and_leaves_out_what_it_is_told():
    chosen = sample(items(each=8), per_compound=2, leave_out=["C3", "c4"], seed=0)
    assert len(chosen) == 18 * 2 * 2
    assert not {"c3", "c4"} & {item.compound for item in chosen}
    assert chosen == sample(items(each=8), 2, ["C3", "c4"], seed=0)
    assert chosen != sample(items(each=8), 2, ["C3", "c4"], seed=1)


@pytest.mark.parametrize(
    "few", [items(compounds=4), [i for i in items() if i.sentence_type == "literal"]]
)
def test_fitting_needs_enough_compounds_and_both_senses(few):
    with pytest.raises(UserError, match="both senses and at least 5 compounds"):
        fit(few, MarkedEncoder())


def test_a_detector_refuses_vectors_of_another_encoder():
    detector = Detector("words", "words:0", np.zeros((5, 512)), np.zeros(5), {})
    with pytest.raises(UserError, match="fitted to 'words:0', not to 'words:1'"):
        detector.senses(items(), WordEncoder())


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"weights": [[1]]}', '{"weights": [1], "biases": [1]}']
)
def test_a_damaged_detector_file_is_named(tmp_path, content):
    path = tmp_path / "detector.json"
    path.write_text(content)
    with pytest.raises(UserError, match=r"detector\.json: is not a detector"):
        load_detector(path)


def test_the_built_in_detector_says_how_it_was_made():
    detector = load_detector()
    assert detector.encoder == "embedded-state"
    assert detector.weights.shape == (5, 1536)
    assert {"items", "compounds", "languages", "unseen compounds", "seed"} <= set(detector.card)


def test_the_built_in_detector_was_fitted_with_todays_prompt():
    from admire.prompts import Prompts

    assert load_detector().card["prompt"] == Prompts().fingerprints()["detect_en.j2"]


def test_semeval_labels_zero_is_idiomatic(tmp_path):
    path = tmp_path / "train.csv"
    rows = [("EN", "big fish", "A big fish.", "0"), ("PT", "pé frio", "Um pé frio.", "1")]
    pd.DataFrame(rows, columns=["Language", "MWE", "Target", "Label"]).to_csv(path, index=False)
    english, portuguese = read_idiomaticity(path)
    assert (english.compound, english.sentence_type) == ("big fish", "idiomatic")
    assert (portuguese.language, portuguese.sentence_type) == ("pt", "literal")


def test_an_unknown_label_names_its_row(tmp_path):
    path = tmp_path / "train.csv"
    path.write_text("Language,MWE,Target,Label\nEN,a b,a b,0\nEN,a b,a b,\n")
    with pytest.raises(UserError, match=r"train\.csv, row 2, Label: is '', not 0 or 1"):
        read_idiomaticity(path)


def test_the_real_training_file_is_read(shared: Path):
    found = read_idiomaticity(shared / "semeval2022_task2/subtask_a/train_zero_shot.csv")
    assert len(found) == 4491
    assert json.dumps(sorted({item.language for item in found})) == '["en", "pt"]'
