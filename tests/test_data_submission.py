import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from conftest import admire_row, refused
from hypothesis import given, settings
from hypothesis import strategies as st

from admire import score
from admire.core.storage import write_whole
from admire.data.limits import check_text, fold
from admire.data.reader import read_items
from admire.data.submission import Prediction, add_predictions, read_submission

NAMES = ("a.png", "b.png", "c.png", "d.png", "e.png")


# Every character of UTF-8 but NUL, which is refused; the ones that tables are made of come often.
TEXTS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0")
    | st.sampled_from("\t\n\r\"',;\\[] \u2028\ufeff")
)
NAMED = TEXTS.map(partial(check_text, "image"))
PREDICTIONS = st.builds(
    lambda **cells: Prediction(**cells),
    compound=TEXTS.map(fold),
    sentence=TEXTS.map(fold),
    order=st.lists(NAMED, min_size=2, max_size=6, unique=True).map(tuple),
    sentence_type=st.sampled_from(["idiomatic", "literal", None]),
)
WITHOUT_SENTENCES = PREDICTIONS.map(lambda prediction: replace(prediction, sentence=None))


def write(path: Path, predictions: list[Prediction]) -> None:
    with write_whole(path) as file:
        add_predictions(file, predictions)


@settings(max_examples=75)  # each one makes a file
@given(st.lists(PREDICTIONS, max_size=4) | st.lists(WITHOUT_SENTENCES, max_size=4))
def test_a_submission_comes_back_as_it_was_written(predictions):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "submission_en.tsv"
        write(path, predictions)
        numbered = [replace(p, row=row) for row, p in enumerate(predictions, start=1)]
        assert read_submission(path) == numbered


@pytest.mark.parametrize("expected_item", [None, ""])
def test_a_submission_is_the_tsv_that_admires_scorer_reads(tmp_path, expected_item):
    path = tmp_path / "submission_en.tsv"
    write(path, [Prediction("cat's eyes", "Cat's eyes, twice.", NAMES, "literal", expected_item)])
    assert path.read_text() == (
        "compound\texpected_order\tsentence\tsentence_type\n"
        "cat's eyes\t['a.png', 'b.png', 'c.png', 'd.png', 'e.png']\tCat's eyes, twice.\tliteral\n"
    )


def test_a_submission_to_subtask_b_is_its_three_columns_and_comes_back(tmp_path):
    path = tmp_path / "submission_en.tsv"
    written = [
        Prediction("night owl", "", ("a.png", "b.png"), "literal", "a.png"),
        Prediction("early bird", "", ("d.png", "c.png"), None, "d.png"),
    ]
    write(path, written)
    assert path.read_text() == (
        "compound\tsentence_type\texpected_item\nnight owl\tliteral\ta.png\nearly bird\t\td.png\n"
    )
    assert read_submission(path) == [
        Prediction("night owl", None, (), "literal", "a.png", row=1),
        Prediction("early bird", None, (), None, "d.png", row=2),
    ]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"expected_order": str(list(NAMES)), "sentence": "A."}], "'compound' is missing"),
        ([{"compound": "night owl", "sentence": "A."}], "'expected_order' is missing"),
        *(
            ([admire_row(), admire_row(expected_order=cell)], "row 2 ('night owl'), expected_order")
            for cell in ("", "a.png", "['a.png', 'b.png', 'a.png']", "[1, 2]", "[open('x', 'w')]")
        ),
        ([admire_row(), admire_row(sentence_type="ironic")], "row 2 ('night owl'), sentence_type"),
        ([{"compound": "owl", "expected_item": " "}], "row 1 ('owl'), expected_item"),
    ],
)
def test_a_bad_submission_is_named_with_row_and_column(write_table, rows, words):
    refused(write_table(*rows), words, read=read_submission)


def test_a_row_that_is_there_twice_is_named_with_both_numbers(write_table, caplog):
    gold = write_table(admire_row(), admire_row("cold feet"))
    columns = "compound", "sentence", "expected_order"
    rows = [
        {name: admire_row(compound)[name] for name in columns}
        for compound in ("cold feet", "night owl", "fat cat", "cold feet")
    ]
    submission = write_table(rows[0], dict.fromkeys(columns, ""), *rows[1:], name="mine.tsv")
    score(submission, read_items(gold))
    doubled, others = (text for text in caplog.messages if "of one item" in text or "gold" in text)
    assert "row 1 and row 5 are of one item, 'cold feet'. The first is used" in doubled
    assert others.endswith("rows skipped because they are not in the gold file: 1.")
