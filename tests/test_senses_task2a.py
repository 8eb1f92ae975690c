from pathlib import Path

import numpy as np
import pytest
from conftest import admire_row, refused
from hypothesis import given
from hypothesis import strategies as st
from toys import Detector

from admire import Item, UserError
from admire.senses import Use, detect_uses, read_compounds, read_idiomaticity, read_uses
from admire.senses.task2a import LABELS, macro_f1, sampled_macro_f1


def dev(tmp_path: Path, labels: list[tuple[str, str]]) -> tuple[Path, Path]:
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
    fish = Item("big fish", "A big fish.", "en", sentence_type="idiomatic")
    assert read_uses(data, gold) == [
        Use(fish, "One, two.", "Three.", "5"),
        Use(Item("pé frio", "Um pé frio.", "pt-br", sentence_type="literal"), id="8"),
    ]


def test_without_a_gold_file_senses_are_unknown_unless_they_are_required(tmp_path):
    data, _ = dev(tmp_path, [])
    assert [use.item.sentence_type for use in read_uses(data)] == [None, None]
    for read in (read_idiomaticity, lambda path: read_uses(path, required=("Label",))):
        refused(data, "'Label'", read=read)


def test_what_a_gold_file_lacks_is_named(tmp_path):
    for labels, message in (
        ([("5", "0")], r"dev\.csv, row 2, ID: '8' .*gold\.csv\."),
        ([("8", "1"), ("5", "2")], r"dev\.csv, row 1, .*gold\.csv, Label"),
        ([("5", "0"), ("8", "1"), ("5", "1")], r"gold\.csv, row 3, ID: '5'"),
    ):
        with pytest.raises(UserError, match=message):
            read_uses(*dev(tmp_path, labels))


def test_a_submission_has_the_setting_that_is_given_or_else_the_detectors(tmp_path):
    data, _ = dev(tmp_path, [])
    out, detector = tmp_path / "mine.csv", Detector(1.0)
    for own, setting, written in (
        (None, None, "zero_shot"),
        ("one_shot", None, "one_shot"),
        ("one_shot", "zero_shot", "zero_shot"),
    ):
        detector.setting = own
        assert detect_uses(data, detector, out=out, setting=setting) is None
        assert out.read_text().splitlines()[1:] == [f"5,EN,{written},0", f"8,PT-BR,{written},0"]


def test_compounds_are_read_from_every_kind_of_file(tmp_path, write_table):
    data, _ = dev(tmp_path, [])
    assert read_compounds(data) == ["big fish", "pé frio"]
    assert read_compounds(write_table(admire_row("pipe dream"))) == ["pipe dream"]
    (tmp_path / "list.txt").write_text("night owl\n\n pé-frio \n", encoding="utf-8")
    assert read_compounds(tmp_path / "list.txt") == ["night owl", "pé-frio"]


LABEL = st.sampled_from(LABELS)


@given(st.lists(st.tuples(LABEL, LABEL), min_size=1, max_size=8), st.integers(0, 99))
def test_macro_f1_is_scikit_learns_of_all_rows_and_of_samples(rows, seed):
    metrics = pytest.importorskip("sklearn.metrics", reason="needs the extra 'train'")
    gold, predicted = (np.array(side) for side in zip(*rows, strict=True))
    drawn = np.random.default_rng(seed).integers(0, len(rows), size=(3, len(rows)))
    samples = np.concatenate([np.arange(len(rows))[None], drawn])
    how = {"average": "macro", "zero_division": 0}
    averages = [
        metrics.precision_recall_fscore_support(gold[sample], predicted[sample], **how)[:3]
        for sample in samples
    ]
    expected = [f1 for *_, f1 in averages]
    assert sampled_macro_f1(gold, predicted)(samples) == pytest.approx(expected)
    assert macro_f1(gold, predicted) == pytest.approx(expected[0])
    expected = [2 * p * r / (p + r) if p + r else 0.0 for p, r, _ in averages]
    found = sampled_macro_f1(gold, predicted, of_averages=True)(samples)
    assert found == pytest.approx(expected)
