"""The sources of the detector that comes with admire: their odd files, read as items."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

pytest.importorskip("wordninja")

from make_detector import read_bicontext, read_magpie, read_sources

from admire import Item
from admire.data.overlap import digests, parts_of
from admire.senses import open_detector, read_compounds
from admire.tasks.training import DetectorTraining, sample_items


def test_a_compound_has_a_literal_use_and_then_an_idiomatic_one(tmp_path: Path):
    path = tmp_path / "bicontext.txt"
    path.write_text(
        "night owl\tan owl that hunts at night is a night owl\n"
        "night owl\tmy sister is a night owl\n"
        "night owl\t\n"
        "damaged line\n"
        "night owl\ta third one does not count\n"
    )
    assert list(read_bicontext(path)) == [
        Item("night owl", "an owl that hunts at night is a night owl", sentence_type="literal"),
        Item("night owl", "my sister is a night owl", sentence_type="idiomatic"),
    ]


def test_a_long_text_is_cut_around_the_compound_between_words(tmp_path: Path):
    path = tmp_path / "bicontext.txt"
    path.write_text(f"night owl\t{'before ' * 50}night owl{' after' * 50}\n")
    (item,) = read_bicontext(path)
    assert item.sentence.startswith("before before")
    assert item.sentence.endswith("after after")
    assert 150 < len(item.sentence) < 220
    assert "night owl" in item.sentence


def test_idioms_that_occur_in_both_senses_get_their_words_back(tmp_path: Path):
    rows = [
        ("They are IDontheropesID , it seems .", 0),
        ("The monkeys hang IDontheropesID .", 1),
        ("He was IDbytheskinofhisteethID .", 0),
        ("Nothing is marked here .", 0),
    ]
    path = tmp_path / "magpie.csv"
    pd.DataFrame(rows, columns=["sentence_0", "label"]).to_csv(path, index=False)
    assert read_magpie(path) == [
        Item("on the ropes", "They are on the ropes , it seems .", sentence_type="idiomatic"),
        Item("on the ropes", "The monkeys hang on the ropes .", sentence_type="literal"),
    ]


def test_the_built_in_detector_lists_what_the_real_sources_give_today(shared: Path):
    left_out = read_compounds(shared / "leave_out_compounds.txt")
    items = sample_items(read_sources(shared), DetectorTraining(), leave_out=left_out)
    card = open_detector().card
    assert len(items) == card["items"]
    assert digests(parts_of(items)) == card["saw"]
