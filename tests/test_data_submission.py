"""Reading AdMIRe files and image sets, what is refused and how, and submissions."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from conftest import admire_row, refused
from hypothesis import given, settings
from hypothesis import strategies as st

from admire.data.submission import Prediction, read_submission, write_submission

NAMES = ("a.png", "b.png", "c.png", "d.png", "e.png")


# Every character that UTF-8 can hold; the ones that tables are made of come often.
TEXTS = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from("\t\n\r\"',;\\[] \u2028\ufeff")
)
PREDICTIONS = st.builds(
    Prediction,
    compound=TEXTS,
    sentence=TEXTS,
    order=st.lists(TEXTS, min_size=2, max_size=6, unique=True).map(tuple),
    sentence_type=st.sampled_from(["idiomatic", "literal", None]),
)


@settings(max_examples=75)  # each one makes a file
@given(st.lists(PREDICTIONS, max_size=4))
def test_a_submission_comes_back_as_it_was_written(predictions):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "submission_en.tsv"
        write_submission(path, predictions)
        assert read_submission(path) == predictions


def test_a_submission_is_the_tsv_that_admires_scorer_reads(tmp_path):
    path = tmp_path / "submission_en.tsv"
    write_submission(path, [Prediction("cat's eyes", "Cat's eyes, twice.", NAMES, "literal")])
    assert path.read_bytes().replace(b"\r\n", b"\n").decode() == (
        "compound\texpected_order\tsentence\tsentence_type\n"
        "cat's eyes\t['a.png', 'b.png', 'c.png', 'd.png', 'e.png']\tCat's eyes, twice.\tliteral\n"
    )


def test_a_submission_of_two_columns_has_no_sentences(write_table):
    row = {"compound": "night owl", "expected_order": str(list(NAMES))}
    assert read_submission(write_table(row)) == [Prediction("night owl", None, NAMES, None)]


def test_a_submission_without_sentences_comes_back_without_them(tmp_path):
    predictions = [Prediction("night owl", None, NAMES), Prediction("early bird", None, NAMES)]
    write_submission(tmp_path / "submission_en.tsv", predictions)
    assert read_submission(tmp_path / "submission_en.tsv") == predictions


def test_a_submission_to_subtask_b_is_its_three_columns_and_comes_back(tmp_path):
    path = tmp_path / "submission_en.tsv"
    written = [
        Prediction("night owl", "", ("a.png", "b.png"), "literal", "a.png"),
        Prediction("early bird", "", ("d.png", "c.png"), None, "d.png"),
    ]
    write_submission(path, written)
    assert path.read_bytes().replace(b"\r\n", b"\n").decode() == (
        "compound\tsentence_type\texpected_item\nnight owl\tliteral\ta.png\nearly bird\t\td.png\n"
    )
    assert read_submission(path) == [
        Prediction("night owl", None, (), "literal", "a.png"),
        Prediction("early bird", None, (), None, "d.png"),
    ]


def test_a_submission_to_subtask_b_without_an_item_is_refused_with_its_row(write_table):
    rows = [{"compound": "night owl", "expected_item": name} for name in ("a.png", " ")]
    refused(write_table(*rows), "row 2", "expected_item: is empty", read=read_submission)


@pytest.mark.parametrize("column", ["compound", "expected_order"])
def test_a_submission_without_a_needed_column_is_refused(write_table, column):
    row = {"compound": "night owl", "expected_order": str(list(NAMES)), "sentence": "A night owl."}
    del row[column]
    refused(write_table(row), f"'{column}'", "sentence", read=read_submission)


@pytest.mark.parametrize("cell", ["", "a.png", "['a.png', 'b.png', 'a.png']", "[1, 2]"])
def test_a_bad_order_in_a_submission_is_refused_with_its_row(write_table, cell):
    rows = [
        {"compound": "night owl", "expected_order": str(list(NAMES))},
        {"compound": "early bird", "expected_order": cell},
    ]
    refused(write_table(*rows), "row 2", "early bird", "expected_order", read=read_submission)


def test_an_unknown_sentence_type_in_a_submission_is_refused(write_table):
    path = write_table(admire_row(), admire_row(sentence_type="ironic"))
    refused(path, "row 2", "sentence_type", "ironic", read=read_submission)


def test_a_missing_submission_is_refused(tmp_path):
    refused(tmp_path / "submission_en.tsv", "No such file", read=read_submission)
