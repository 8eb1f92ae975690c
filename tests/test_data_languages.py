"""Language tags: read, guessed from paths, and refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import admire_row, refused

from admire.base.errors import UserError
from admire.data.items import read_items
from admire.data.languages import LANGUAGES, base_language, check_language, guess_language


@pytest.mark.parametrize(
    ("path", "tag"),
    [
        ("subtask_a_xp.tsv", "xp"),
        ("subtask_a_train.tsv", "en"),
        ("submission_pt-br.tsv", "pt-br"),
        ("submission_pt_br.tsv", "pt-br"),
        ("PT.tsv", "pt"),
        ("admire_pt/train_targets.tsv", "pt"),
        ("pt/data/train.tsv", "pt"),
        ("admire_pt/subtask_a_xe.tsv", "xe"),
        ("submission_zz.tsv", "en"),  # not a language that we know
        ("script.tsv", "en"),  # ends in pt, but as part of a word
        ("items_of_pt.tsv", "pt"),  # of-pt is no language, pt is
        ("submission_Turkish.tsv", "tr"),
        ("submission_Spanish-Ecuador.tsv", "es"),
        ("german/data/train.tsv", "en"),  # a name counts in the file's own name alone
        ("unpolish.tsv", "en"),  # ends in a name, but as part of a word
    ],
)
def test_the_language_is_what_the_name_ends_in(path, tag):
    assert guess_language(Path("/somewhere") / path) == tag


def test_every_language_is_known_by_its_name():
    for name in LANGUAGES.values():
        tag = guess_language(Path(f"/somewhere/submission_{name}.tsv"))
        assert LANGUAGES[tag] == name


def test_the_rows_own_language_goes_before_the_callers_and_that_before_the_names(write_table):
    path = write_table(
        admire_row(), admire_row(language="KA"), admire_row(language=" "), name="subtask_a_xp.tsv"
    )
    assert [item.language for item in read_items(path)] == ["xp", "ka", "xp"]
    assert [item.language for item in read_items(path, "ES_ec")] == ["es-ec", "ka", "es-ec"]


def test_the_folders_name_tells_the_language_of_its_manifest(write_table, tmp_path):
    write_table(admire_row(), name="set_pt/manifest.csv")
    assert read_items(tmp_path / "set_pt")[0].language == "pt"


def test_a_bad_language_in_a_row_is_refused_with_the_place(write_table):
    path = write_table(admire_row(language="en"), admire_row(language="English!"))
    refused(path, "row 2", "language", "English!")


@pytest.mark.parametrize(
    ("tag", "base"), [("en", "en"), ("xe", "en"), ("xp", "pt"), ("pt-br", "pt"), ("ES_ec", "es")]
)
def test_base_language_drops_regions_and_admires_own_tags(tag, base):
    assert base_language(tag) == base


@pytest.mark.parametrize(
    ("tag", "checked"),
    [("en", "en"), ("XE", "xe"), ("pt_BR", "pt-br"), ("pt-br", "pt-br"), ("gsw", "gsw")],
)
def test_check_language_gives_the_tag_in_one_spelling(tag, checked):
    assert check_language(tag) == checked


@pytest.mark.parametrize("tag", ["", "e", "english", "en ", "p-br", "en--us", "en-", "../en", "é"])
def test_what_is_no_language_tag_is_refused(tag):
    with pytest.raises(UserError) as caught:
        check_language(tag)
    assert f"'{tag}'" in str(caught.value)
