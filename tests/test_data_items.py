import re
from pathlib import Path

import pytest

from admire.data.items import SAMPLES, Candidate, Item
from admire.data.reader import read_items


@pytest.mark.parametrize(
    ("cells", "context", "has_sense", "shows_sense", "gold_column"),
    [
        ({"sentence": "A night owl."}, "sentence", True, True, "expected_order"),
        ({"sentence": " "}, "sentence", True, False, "expected_order"),
        ({"expected_item": "a.png"}, "sentence", True, False, "expected_item"),
        ({"sequence": (Candidate("s1", None, "a lamp"),)}, "sequence", True, True, "expected_item"),
        ({"sequence": (Candidate("s1"),)}, "sequence", True, False, "expected_item"),
        ({"word": "owl"}, "word", False, False, "expected_item"),
    ],
)
def test_the_context_of_an_item_says_what_it_has(
    cells, context, has_sense, shows_sense, gold_column
):
    item = Item(**{"compound": "night owl", "sentence": ""} | cells)
    questions = item.context, item.has_sense, item.shows_sense, item.gold_column
    assert questions == (context, has_sense, shows_sense, gold_column)


@pytest.mark.parametrize(
    ("compound", "sentence", "phrase"),
    [
        ("kıl payı 1", "Bir kamyondan kıl payı kurtuldu.", "kıl payı"),
        ("kıl payı 1", "Yün balyalarının içindeki kıl.", "kıl payı"),
        ("Cloud 9", "She is on cloud 9.", "Cloud 9"),  # the number is the compound's own
        ("night owl", "She is a night owl.", "night owl"),
        ("7", "Seven.", "7"),
        ("cloud 9", "", "cloud 9"),
    ],
)
def test_a_number_behind_a_compound_is_no_part_of_the_phrase(compound, sentence, phrase):
    assert Item(compound, sentence).phrase == phrase


@pytest.mark.parametrize(
    ("name", "count", "language"),
    [
        ("admire_en/train", 70, "en"),
        ("admire_en/dev", 15, "en"),
        ("admire_pt/train_targets.tsv", 32, "pt"),
        ("admire_pt/dev_targets.tsv", 10, "pt"),
        ("admire2/submission_Turkish.tsv", 180, "tr"),
        ("admire2/submission_Chinese.tsv", 179, "zh"),
    ],
)
def test_admires_own_files_are_read(shared, name, count, language, caplog):
    caplog.set_level("WARNING", "admire")
    items = read_items(shared / name)
    assert len(items) == count
    assert {item.language for item in items} == {language}
    if name.startswith("admire2"):  # blind, with numbered compounds, and without pictures
        assert all(item.best is None and len(item.candidates) == 5 for item in items)
        assert not any(re.search(r"\d", item.phrase) for item in items)
    else:
        assert {item.sentence_type for item in items} == {"idiomatic", "literal"}
        assert all(len(set(item.expected_order)) == 5 for item in items)
        assert not caplog.messages


def test_the_samples_are_whole_and_of_both_senses_and_languages():
    items = read_items(SAMPLES)
    assert len({item.compound for item in items}) >= 8
    kinds = {(item.language, item.sentence_type) for item in items}
    assert kinds == {(lang, s) for lang in ("en", "pt") for s in ("idiomatic", "literal")}
    for item in items:
        assert item.compound in item.sentence
        assert item.expected_order
        assert all(c.image and Path(c.image).is_file() and c.caption for c in item.candidates)
