from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from toys import WordEncoder

from admire import Item, UserError
from admire.senses import Detector, load_detector
from admire.senses.light import fit, sample
from admire.senses.sense import Sense
from admire.senses.task2a import (
    Use,
    macro_f1,
    read_idiomaticity,
    read_uses,
    score_senses,
    write_predictions,
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


# ---------------------------------------------------------------------------- Task 2A's other files


def dev(tmp_path: Path, labels: list[tuple[str, str]]) -> tuple[Path, Path]:
    """A file of two rows without labels, and a gold file."""
    data, gold = tmp_path / "dev.csv", tmp_path / "gold.csv"
    data.write_text(
        "ID,Language,MWE,Previous,Target,Next\n"
        '5,EN,big fish,"One, two.",A big fish.,Three.\n'
        "8,pt_BR,pé frio,,Um pé frio.,\n"
    )
    gold.write_text("ID,Label\n" + "".join(f"{name},{label}\n" for name, label in labels))
    return data, gold


def test_labels_are_joined_on_id_and_the_context_is_read(tmp_path):
    data, gold = dev(tmp_path, [("9", "?"), ("8", "1"), ("5", "0")])
    assert read_uses(data, gold) == [
        Use(
            Item("big fish", "A big fish.", "en", sentence_type="idiomatic"),
            "One, two.",
            "Three.",
            "5",
        ),
        Use(Item("pé frio", "Um pé frio.", "pt-br", sentence_type="literal"), id="8"),
    ]
    assert read_idiomaticity(data, gold) == [use.item for use in read_uses(data, gold)]


def test_without_a_gold_file_senses_are_unknown_unless_they_are_required(tmp_path):
    data, _ = dev(tmp_path, [])
    assert [use.item.sentence_type for use in read_uses(data)] == [None, None]
    for read in (read_idiomaticity, lambda path: read_uses(path, required=("Label",))):
        with pytest.raises(UserError, match=r"dev\.csv: the column 'Label' is missing"):
            read(data)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([("5", "0")], r"dev\.csv, row 2, ID: '8' has no label in .*gold\.csv\."),
        (
            [("8", "1"), ("5", "2")],
            r"dev\.csv, row 1, ID: '5' has no label in .*gold\.csv: its row 2, Label, is '2', not",
        ),
        ([("5", "0"), ("8", "1"), ("5", "1")], r"gold\.csv, row 3, ID: '5' is there twice"),
    ],
)
def test_what_a_gold_file_lacks_is_named(tmp_path, labels, message):
    with pytest.raises(UserError, match=message):
        read_uses(*dev(tmp_path, labels))


def test_columns_that_are_needed_and_rows_are_asked_for(tmp_path):
    data, gold = dev(tmp_path, [])
    table = pd.read_csv(data, dtype=str, keep_default_na=False)
    table.drop(columns="Next").to_csv(data, index=False)
    assert read_uses(data)[0].following == ""
    with pytest.raises(UserError, match=r"dev\.csv: the column 'Next' is missing"):
        read_uses(data, required=("Previous", "Next"))
    table.drop(columns="ID").to_csv(data, index=False)
    with pytest.raises(UserError, match=r"dev\.csv: the column 'ID' is missing"):
        read_uses(data, gold)
    table[:0].to_csv(data, index=False)
    with pytest.raises(UserError, match=r"dev\.csv: holds no rows"):
        read_uses(data)


def test_a_submission_has_the_organisers_columns(tmp_path):
    uses = [Use(Item("a", "a", "en"), id="4"), Use(Item("b", "b", "pt"), id="2")]
    senses = [Sense("idiomatic", 0.9, 1), Sense("literal", 0.1, 0, 1)]
    write_predictions(tmp_path / "mine.csv", uses, senses, "one_shot")
    assert (tmp_path / "mine.csv").read_text() == (
        "ID,Language,Setting,Label\n4,EN,one_shot,0\n2,PT,one_shot,1\n"
    )


def test_macro_f1_is_the_mean_of_both_f1s():
    gold = ["idiomatic"] * 4 + ["literal"] * 2
    told = ["idiomatic"] * 3 + ["literal"] * 2 + ["idiomatic"]
    # idiomatic: precision 3/4, recall 3/4; literal: precision 1/2, recall 1/2.
    assert macro_f1(gold, told) == pytest.approx((3 / 4 + 1 / 2) / 2)
    metrics = pytest.importorskip("sklearn.metrics")
    assert macro_f1(gold, told) == metrics.f1_score(gold, told, average="macro")
    assert macro_f1(gold, gold) == 1
    assert macro_f1(["literal"], ["idiomatic"]) == 0


def test_scores_are_of_each_language_and_of_all():
    items = [
        Item("a", "a", language, sentence_type=sense)
        for language, sense in (("pt", "literal"), ("en", "idiomatic"), ("pt", "idiomatic"))
    ]
    senses = [Sense("literal", 0.1), Sense("idiomatic", 0.9), Sense("literal", 0.2)]
    found = {score.language: score for score in score_senses(items, senses)}
    assert list(found) == ["en", "pt", "all"]
    assert (found["en"].n, found["en"].macro_f1, found["en"].accuracy) == (1, 1, 1)
    # pt: literal has precision 1/2 and recall 1, idiomatic nothing.
    assert found["pt"].macro_f1 == pytest.approx((2 / 3 + 0) / 2)
    assert (found["pt"].n, found["pt"].accuracy) == (2, 0.5)
    # all: literal as before, idiomatic has precision 1 and recall 1/2.
    assert found["all"].macro_f1 == pytest.approx(2 / 3)
    assert (found["all"].n, found["all"].accuracy) == (3, pytest.approx(2 / 3))


def test_a_missing_scikit_learn_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.metrics", None)
    with pytest.raises(UserError, match="scikit-learn: the extra 'train'"):
        macro_f1(["literal"], ["literal"])


def test_the_real_dev_file_is_read_with_its_gold_file(shared: Path):
    folder = shared / "semeval2022_task2/subtask_a"
    required = ("ID", "Previous", "Next")
    found = read_uses(folder / "dev.csv", folder / "dev_gold.csv", required=required)
    assert len(found) == 739
    assert all(use.previous and use.following and use.item.sentence_type for use in found)
