from pathlib import Path

import pandas as pd
import pytest
from conftest import admire_row

from admire.core.errors import UserError
from admire.data.languages import LANGUAGES, base_language, check_language, named_language
from admire.data.reader import items_from_frame, read_items


@pytest.mark.parametrize(
    ("path", "tag"),
    [
        ("subtask_a_xp.tsv", "xp"),
        ("subtask_a_train.tsv", "en"),
        ("submission_pt-br.tsv", "pt-br"),
        ("admire_pt/train_targets.tsv", "pt"),
        ("pt/data/train.tsv", "pt"),
        ("submission_zz.tsv", "en"),  # not a language that we know
        ("script.tsv", "en"),  # ends in pt, but as part of a word
        ("submission_Spanish-Ecuador.tsv", "es-ec"),
        ("submission_Portuguese-Portugal.tsv", "pt-pt"),
        ("submission_Serbian-Cyrillic.tsv", "sr-cyrl"),
        ("submission_sr-latn.tsv", "sr-latn"),
        ("submission_Igbo-Test.tsv", "ig"),
        ("PT_subtask_a.tsv", "pt"),  # AdMIRe 2's folders
        ("pt-BR_subtask_b_test.tsv", "pt-br"),
        ("sr_latn_train.tsv", "sr-latn"),
        ("Portuguese-Brazil_subtask_a.tsv", "pt-br"),
        ("no_captions.tsv", "en"),  # no word of a set follows
        ("german/data/train.tsv", "en"),  # a name counts in the file's own name alone
    ],
)
def test_the_language_is_what_the_name_ends_in(path, tag):
    assert (named_language(Path("/somewhere") / path) or "en") == tag


def test_every_language_is_known_by_its_name():
    for name in LANGUAGES.values():
        tag = named_language(Path(f"/somewhere/submission_{name}.tsv"))
        assert LANGUAGES[tag] == name


def test_the_rows_own_language_goes_before_the_callers_and_that_before_the_names(write_table):
    path = write_table(
        admire_row(), admire_row(language="KA"), admire_row(language=" "), name="subtask_a_xp.tsv"
    )
    assert [item.language for item in read_items(path)] == ["xp", "ka", "xp"]
    assert [item.language for item in read_items(path, "ES_ec")] == ["es-ec", "ka", "es-ec"]


def test_a_language_that_a_name_tells_is_logged_once(write_table, caplog):
    caplog.set_level("INFO", "admire")
    path = write_table(admire_row(), name="PT_subtask_a.tsv")
    assert [item.language for item in read_items(path) + read_items(path)] == ["pt", "pt"]
    read_items(path, "gl")
    assert [text for text in caplog.messages if "read as" in text] == [
        f"{path}: read as Portuguese (pt) by the name."
    ]


def test_a_language_that_nobody_names_is_detected_in_all_sentences_together(write_table, caplog):
    caplog.set_level("INFO", "admire")
    german = "Er bekam vor der Hochzeit kalte Füße.", "Kalte Füße.", "Hm."
    rows = [admire_row(compound="kalte Füße", sentence=sentence) for sentence in german]
    path = write_table(*rows, admire_row(language="pt"), name="mine.csv")
    assert [item.language for item in read_items(path)] == ["de", "de", "de", "pt"]
    assert f"{path}: read as German (de) by the sentences." in caplog.messages
    frame = pd.DataFrame(rows).drop(columns="language", errors="ignore")
    assert {item.language for item in items_from_frame(frame)} == {"de"}
    assert {item.language for item in items_from_frame(frame, language="nl")} == {"nl"}
    assert {item.language for item in read_items(path, "nl")} == {"nl", "pt"}
    unclear = write_table(admire_row(sentence="Hm.", image1_caption="x"), name="other.csv")
    assert read_items(unclear)[0].language == "en"


def test_base_language_drops_regions_and_admires_own_tags():
    tags = ["en", "xe", "xp", "pt-br", "ES_ec", "sr-cyrl"]
    assert list(map(base_language, tags)) == ["en", "en", "pt", "pt", "es", "sr"]


@pytest.mark.parametrize("tag", ["", "english", "en--us", "../en", "zz", "zz-br"])
def test_what_is_no_language_tag_is_refused(tag):
    with pytest.raises(UserError, match=f"'{tag}'"):
        check_language(tag)
