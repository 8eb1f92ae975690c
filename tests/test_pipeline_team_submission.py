import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from conftest import admire_row, sequence_row
from toys import WordEncoder, says

from admire import Settings, UserError, rank, read_items, write_run
from admire.pipeline.team_submission import write_submission_zip

Row = dict[str, str]
NAMES = "['a.png', 'b.png', 'c.png', 'd.png', 'e.png']"


def blind(compound: str = "night owl", **changes: str) -> Row:
    return admire_row(compound, sentence_type="", expected_order="") | changes


@pytest.fixture
def ranked(tmp_path: Path, write_table) -> Callable[..., Path]:
    """Write blind files to a folder and rank them: the run, by the compound alone or a toy chat."""

    def make(files: dict[str, list[Row]], *, sense: bool = True) -> Path:
        for name, rows in files.items():
            write_table(*rows, name=f"blind/{name}")
        data, folder = tmp_path / "blind", tmp_path / "run"
        settings = Settings(sense="vote", meanings="gloss", track="caption")
        if not sense:
            settings = Settings(query="compound", track="caption")
        models: dict[str, Any] = {"llms": [says("Literal")], "encoder": WordEncoder()}
        write_run(rank(read_items(data), settings, source=data, **models), folder)
        return folder

    return make


@pytest.mark.parametrize(
    ("files", "options", "first", "columns", "missing"),
    [
        (
            {"submission_Turkish.tsv": [blind(), blind()], "submission_Serbian.tsv": [blind()]},
            {},
            "submission_SR.tsv",
            "compound\tsentence\texpected_order\tsentence_type",
            "ZH, KA, EL, IG, KK, NO, PT-BR, PT-PT, RU, SK, SL, ES-EC, UZ",
        ),
        (
            {"subtask_a_en.tsv": [blind()], "subtask_a_xp.tsv": [blind()]},
            {"sense": False},
            "submission_EN.tsv",
            "compound\tsentence\texpected_order",
            None,
        ),
        (
            {"subtask_b_xe.tsv": [sequence_row(expected_item="", sentence_type="")]},
            {},
            "submission_XE.tsv",
            "compound\tsentence_type\texpected_item",
            None,
        ),
    ],
)
def test_the_files_have_the_tasks_names_and_columns(
    tmp_path, caplog, ranked, files, options, first, columns, missing
):
    run, out = ranked(files), tmp_path / "mine.zip"
    assert write_submission_zip(run, out, **options)[0] == first
    with ZipFile(out) as archive:
        found = {name: archive.read(name).decode().split("\n") for name in archive.namelist()}
    assert len(found) == len(files)
    assert [lines[0] for lines in found.values()] == [columns] * len(files)
    row = found[first][1].split("\t")
    order = json.loads((run / "items.jsonl").read_text().split("\n")[0])["order"]
    sentence = admire_row()["sentence"]
    shown = {"compound": "night owl", "sentence": sentence, "expected_order": str(order)}
    shown |= {"sentence_type": "literal", "expected_item": order[0]}
    assert row == [shown[column] for column in columns.split("\t")]
    told = [message for message in caplog.messages if "has no file for" in message]
    assert told == ([f"{out}: has no file for {missing}."] if missing else [])


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"set_German.tsv": [blind()]}, "its languages (de) are not all of AdMIRe 1"),
        ({"a_en.tsv": [blind()], "b_tr.tsv": [blind()]}, "its languages (en, tr) are not all"),
        (
            {"a_tr.tsv": [blind(language="sr-cyrl"), blind(language="sr-latn")]},
            "two files of one language, sr-cyrl and sr-latn",
        ),
        (
            {"a_tr.tsv": [{k: v for k, v in blind().items() if not k.startswith("image5")}]},
            "item 1 ('night owl') has 4 candidates",
        ),
    ],
)
def test_what_is_no_submission_is_refused_and_nothing_is_written(tmp_path, ranked, files, words):
    refused(ranked(files, sense=False), words, tmp_path / "mine.zip")


def refused(run: Path, words: str, out: Path, **options: Any) -> None:
    with pytest.raises(UserError) as caught:
        write_submission_zip(run, out, **options)
    assert words in str(caught.value)
    assert not out.exists()


@pytest.mark.parametrize(
    "rows",
    [
        [blind("early bird"), blind()],
        [blind(), blind("early bird"), blind()],
        [blind()],
        [blind(), blind("early bird", image5_name="f.png")],
        [blind(), blind("early bird", sentence="An early bird.")],
    ],
)
def test_a_run_of_other_rows_than_the_blind_files_is_refused(tmp_path, write_table, ranked, rows):
    run, out = ranked({"a_tr.tsv": [blind(), blind("early bird")]}, sense=False), tmp_path / "m.zip"
    write_table(*rows, name="blind/a_tr.tsv")
    number = 1 if rows[0]["compound"] != "night owl" else 3 if len(rows) == 3 else 2
    refused(run, "blind) have moved or changed", out)
    refused(run, f"item {number} (", out, data=tmp_path / "blind")
    good = write_table(blind(), blind("early bird"), name="elsewhere/a.tsv")
    assert write_submission_zip(run, out, data=good) == ["submission_TR.tsv"]


def test_a_place_that_is_no_zip_lost_data_and_a_missing_sense_are_told(tmp_path, caplog, ranked):
    run, out = ranked({"a_tr.tsv": [blind()]}, sense=False), tmp_path / "mine.zip"
    refused(run, "ends in .zip", tmp_path / "mine.tsv")
    write_submission_zip(run, out)
    assert "1 of 1 rows have no sense" in caplog.text
    out.unlink()
    (tmp_path / "blind" / "a_tr.tsv").unlink()
    refused(run, "Give the path of the blind files", out)
    run = ranked({"subtask_b_en.tsv": [sequence_row()]})
    refused(run, "Subtask B also scores the sense.", out, sense=False)
