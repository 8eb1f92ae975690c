"""Reading AdMIRe files and image sets, and what is refused."""

import json
import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from conftest import admire_row, refused, sequence_row

from admire.core.errors import UserError
from admire.data.items import SAMPLES, Candidate, Item
from admire.data.reader import iter_items, read_items
from admire.data.rows import RowReader

NAMES = ("a.png", "b.png", "c.png", "d.png", "e.png")
TARGETS = ("compound", "subset", "sentence_type", "sentence", "expected_order")


def pictures(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(b"picture")


def json_lines(path: Path, *rows: Any) -> Path:
    path.parent.mkdir(exist_ok=True)
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def json_row(**changes: Any) -> dict[str, Any]:
    row = {
        "compound": "night owl",
        "sentence": "She is a night owl.",
        "candidates": [{"caption": "a lamp"}, {"caption": "an owl"}],
    }
    return row | changes


def test_a_row_with_gold_gives_an_item_with_its_candidates(write_table):
    (item,) = read_items(write_table(admire_row()))
    captions = ["a woman at a desk", "a lamp at night", "a bird asleep", "an owl", "a red bicycle"]
    assert item == Item(
        compound="night owl",
        sentence="My sister is a night owl who writes at midnight.",
        language="en",
        candidates=tuple(
            Candidate(name, None, caption) for name, caption in zip(NAMES, captions, strict=True)
        ),
        sentence_type="idiomatic",
        expected_order=NAMES,
    )


def test_texts_are_kept_but_backslash_n_in_a_caption_is_a_line_break(write_table):
    sentence = 'The "night owl",\tsaid: I\'m up – não é?'
    row = admire_row(sentence=sentence, image1_caption=r" **Owl**\n\nat night\n")
    items = read_items(write_table(row, row | {"sentence": "The\nowl"}))
    assert [item.sentence for item in items] == [sentence, "The\nowl"]
    item = items[0]
    assert item.candidates[0].caption == "**Owl**\n\nat night"


@pytest.mark.parametrize(
    ("cell", "meant"),
    [
        ("", ()),
        (" who is up late ", ("who is up late",)),
        ("['who is up late', \"a night's worker\"]", ("who is up late", "a night's worker")),
        ("['a', 'b', 'c']", "definitions: has 3 texts, and two are read"),
        ("[who is up late", "definitions: "),
    ],
)
def test_what_a_person_says_of_a_meaning_is_a_text_or_a_list_of_two(write_table, cell, meant):
    path = write_table(admire_row(definitions=cell))
    if isinstance(meant, str):
        refused(path, "row 1", meant)
    else:
        assert read_items(path)[0].definitions == meant


def test_a_byte_order_mark_and_the_case_of_senses_do_not_matter(write_table):
    path = write_table(admire_row(sentence_type=" LITERAL "))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    (item,) = read_items(str(path))
    assert (item.compound, item.sentence_type) == ("night owl", "literal")


@pytest.mark.parametrize(
    ("compound", "folder"),
    [
        ("night owl", "night owl"),
        ("cat’s eyes", "cat_s eyes"),
        ("cat's eyes", "cat's eyes"),
        ("night owl", ""),
    ],
)
def test_images_are_found_beside_the_file_or_in_the_compounds_folder(
    write_table, tmp_path, compound, folder
):
    pictures(tmp_path / folder, *NAMES)
    path = write_table(admire_row(compound))
    assert [c.image for c in read_items(path)[0].candidates] == [
        tmp_path / folder / name for name in NAMES
    ]


def test_missing_images_with_captions_make_one_warning(write_table, tmp_path, caplog):
    pictures(tmp_path / "night owl", *NAMES[1:])
    pictures(tmp_path / "early bird", *NAMES[2:])
    path = write_table(admire_row("night owl"), admire_row("early bird"))
    first, second = read_items(path)
    assert [c.image is None for c in first.candidates] == [True, False, False, False, False]
    assert [c.image is None for c in second.candidates] == [True, True, False, False, False]
    (warning,) = caplog.messages
    assert warning.startswith(f"{path}, row 1")
    assert "a.png" in warning
    assert "2 more" in warning


@pytest.mark.parametrize("compound", ["..", "../other", "{outside}"])
def test_a_compound_does_not_lead_to_images_outside_the_folder(write_table, tmp_path, compound):
    pictures(tmp_path, *NAMES)
    pictures(tmp_path / "other", *NAMES)
    row = admire_row(compound.format(outside=tmp_path))
    (item,) = read_items(write_table(row, name="data/subtask_a_train.tsv"))
    assert [c.image for c in item.candidates] == [None] * 5


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("items.tsv", None, "No such file"),
        ("items.ods", b"PK", "Save a spreadsheet as .xlsx or CSV"),
        ("items.zip", b"PK\3\4", "items.zip: is a ZIP. Unpack it."),
        ("items.csv", b"PK\3\4", "is a ZIP. Unpack it, or call it .xlsx"),
        ("items.json", b'{"compound": "night owl"}', "is not a JSON list"),
        ("items.json", b"[1]", "row 1: is not a JSON object"),
        ("items.json", b"[{]", "is not JSON"),
        ("items.tsv", b"compound\tsubset\nowl\tTrain\n", "'sentence' is missing"),
        ("items.tsv", b"sentence\nAn owl.\n", "'compound' is missing"),
        ("items.tsv", b"compound\tsentence\n", "no items"),
        *(("items.tsv", content, "empty") for content in (b"", b"\n \n", b"\xef\xbb\xbf")),
        ("items.jsonl", b"compound\tsentence\nma\xe7\xe3\tUma.\n", "row 2: is not UTF-8"),
        ("items.tsv", b"compound\tsen\xe7\nowl\tAn owl.\n", "header: is not UTF-8"),
        # Row 2 is the third line: rows are counted without the header.
        ("items.tsv", b'compound\tsentence\nowl\tAn owl.\nowl\t"An owl.\nowl\tA.\n', "row 2"),
        (
            "items.tsv",
            b"compound\tsentence\nowl\tAn owl.\nowl\tAn owl.\tmore\n",
            "row 2: has 3 cells for 2 columns",
        ),
        ("items.tsv", b"compound\tsentence\nowl\tAn owl.\nowl", "row 2 ('owl'), sentence"),
        ("items.tsv", b"compound\tsentence\nowl\tAn owl.\n\tAn owl.\n", "row 2 (''), compound"),
        ("items.tsv", b"compound\tsentence\nowl\t \n", "row 1 ('owl'), sentence"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_the_place(tmp_path, name, content, words):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    refused(tmp_path / name, words)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"compound": ""}, "row 2 (''), compound"),
        ({"sentence_type": "ironic"}, "row 2 ('night owl'), sentence_type"),
        ({"language": "english"}, "row 2 ('night owl'), language"),
        ({"image3_caption": ""}, "row 2 ('night owl'), candidate 3"),
        *(
            ({"expected_order": cell}, f"row 2 ('night owl'), expected_order: {says}")
            for cell, says in (
                ("a.png, b.png", "is not a list"),
                ("['a.png', 'b.png'", "is not a list"),
                ("[" * 9999, "is not a list"),
                ("[__import__('os').abort()]", "is not a list"),  # code is not run
                (str([*NAMES[:4]]), "has 4 names for 5"),
                (str([*NAMES[:4], "x.png"]), "names 'x.png'"),
                (str([*NAMES[:4], "d.png"]), "names 'd.png' more"),
            )
        ),
    ],
)
def test_a_bad_row_is_named_with_its_column(write_table, changes, words):
    refused(write_table(admire_row(), admire_row() | changes), words)


def test_a_compound_that_is_not_in_its_sentence_makes_one_warning(write_table, caplog):
    rows = [
        admire_row(sentence="NIGHT OWLS hoot."),  # case and endings do not hide it
        *[admire_row(sentence="He flies by day.") for _ in range(3)],
    ]
    path = write_table(*({c: row[c] for c in TARGETS} for row in rows))
    assert len(read_items(path)) == 4
    (warning,) = caplog.messages
    assert warning.startswith(f"{path}, row 2")
    assert "2 more" in warning


@pytest.mark.parametrize("name", ["manifest.csv", "manifest.jsonl", "subtask_a_dev.tsv"])
def test_a_folder_is_read_by_its_manifest(tmp_path, write_table, name):
    if name.endswith("jsonl"):
        json_lines(tmp_path / name, json_row())
    else:
        write_table(admire_row(), name=name)
    (tmp_path / "notes.csv").write_text("something else")
    assert [item.compound for item in read_items(tmp_path)] == ["night owl"]


def test_a_folder_without_exactly_one_manifest_is_refused(tmp_path):
    refused(tmp_path, "manifest.csv", "found 0")
    for name in ("manifest.csv", "manifest.jsonl"):
        (tmp_path / name).write_text("compound\tsentence\n")
    refused(tmp_path, "manifest.csv", "found 2")


def test_a_folder_of_files_has_one_for_each_language(write_table, tmp_path):
    for name in ("submission_Turkish.tsv", "submission_Serbian-Latin.tsv", "._set_uz.tsv"):
        write_table(admire_row(), admire_row("owl"), name=name)
    assert [item.language for item in read_items(tmp_path)] == ["sr-latn"] * 2 + ["tr"] * 2
    first = iter_items(tmp_path, limit=1)
    assert [(item.language, item.compound) for item in first] == [
        ("sr-latn", "night owl"),
        ("tr", "night owl"),
    ]
    write_table(admire_row(), name="set_sr.tsv")
    names = ("submission_Serbian-Latin.tsv", "set_sr.tsv")
    refused(tmp_path, "two files of one language (SR)", *names)


def test_only_the_last_candidates_of_a_csv_may_be_left_out(write_table):
    def without(*places: int) -> dict[str, str]:
        empty = {f"image{k}_{cell}": "" for k in places for cell in ("name", "caption")}
        return admire_row(expected_order="", **empty)

    path = write_table(admire_row(), without(4, 5), name="manifest.csv")
    assert [len(item.candidates) for item in read_items(path)] == [5, 3]
    refused(write_table(without(2), name="manifest.csv"), "row 1", "candidate 2")
    refused(write_table(without(5), name="subtask_a_dev.tsv"), "row 1", "candidate 5")


@pytest.mark.parametrize("numbers", [(1, 2, 4), (0, 1, 2), (2, 3, 10)])
def test_no_image_column_is_passed_over_however_it_is_numbered(write_table, tmp_path, numbers):
    pictures(tmp_path, *(f"{k}.png" for k in numbers))
    row = {"compound": "night owl", "sentence": "A night owl."}
    row |= {f"image{k}_name": f"{k}.png" for k in numbers}
    (item,) = read_items(write_table(row, name="manifest.csv"))
    assert [c.name for c in item.candidates] == [f"{k}.png" for k in numbers]


def test_a_jsonl_row_has_the_same_keys_and_a_list_of_candidates(tmp_path):
    pictures(tmp_path / "night owl", "owl.png", "lamp.png")
    row = json_row(
        language="pt_BR",
        sentence_type="literal",
        candidates=[
            {"image": "owl.png", "caption": "an owl"},
            {"image": "lamp.png"},
            {"caption": "x"},
        ],
        expected_order=["candidate3", "owl.png", "lamp.png"],
    )
    (item,) = read_items(json_lines(tmp_path / "items.jsonl", row))
    assert item == Item(
        compound="night owl",
        sentence="She is a night owl.",
        language="pt-br",
        candidates=(
            Candidate("owl.png", tmp_path / "night owl" / "owl.png", "an owl"),
            Candidate("lamp.png", tmp_path / "night owl" / "lamp.png", None),
            Candidate("candidate3", None, "x"),
        ),
        sentence_type="literal",
        expected_order=("candidate3", "owl.png", "lamp.png"),
    )


NFD = unicodedata.normalize("NFD", "pé frio")


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("1.png", "1.PNG"),
        ("É.png", unicodedata.normalize("NFD", "é.png")),
        ("1.png", f"{NFD}/1.png"),  # the compound's folder
        ("sub\\1.png", "Sub/1.png"),
    ],
)
def test_a_picture_whose_name_is_spelt_otherwise_is_found_with_a_warning(
    write_table, tmp_path, caplog, name, file
):
    pictures((tmp_path / file).parent, (tmp_path / file).name)
    row = admire_row("pé frio", image1_name=name, expected_order="")
    rows = [row, row | {"sentence": "Um pé frio."}]
    items = read_items(write_table(*rows, name="manifest.csv"))
    assert [item.candidates[0].image for item in items] == [tmp_path / file] * 2
    assert items[0].candidates[0].name == name
    (warning,) = [text for text in caplog.messages if "differs in capitals" in text]
    assert warning.endswith("(and 1 more)")
    pictures(tmp_path / "SUB", "1.png")
    pictures(tmp_path, "1.Png", "é.Png")  # now there are two
    with pytest.raises(UserError, match=r"row 1 .*candidate 1: .* have similar names"):
        read_items(tmp_path / "manifest.csv")


def test_no_other_spelling_leads_out_of_the_folder(write_table, tmp_path):
    pictures(tmp_path, "X.png")
    (tmp_path / "set").mkdir()
    for name in ("..\\x.png", "../x.png", "a\\..\\..\\x.png"):
        row = admire_row(image1_name=name, expected_order="")
        refused(write_table(row, name="set/manifest.csv"), "is outside the folder")


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("owl.png", "owl.png"),
        ("deep/owl.png", "deep/owl.png"),
        ("/data/upload/1/ab12-owl.png", "1/ab12-owl.png"),
        ("/data/local-files/?d=set/owl.png", "a/owl.png"),
        ("/data/local-files/?d=a%20set%2Fan%20owl.png", "a set/an owl.png"),
        (r"C:\Users\me\set\owl.png", "a/b/owl.png"),
        ("file:///home/me/%C3%A9%231.png", "é#1.png"),
        ("{folder}/a/owl.png", "a/owl.png"),
        ("https://example.org/set/owl.png?token=a/b#top", "owl.png"),
        ("../set/Owl.PNG", "a/owl.png"),
        ("a%20b?.png", "x/a%20b?.png"),
    ],
)
@pytest.mark.parametrize("from_file", [True, False])
def test_with_a_folder_of_images_a_file_name_is_enough(tmp_path, caplog, name, file, from_file):
    folder = tmp_path / "pictures"
    pictures((folder / file).parent, (folder / file).name, "woman.png")
    name = name.format(folder=folder.as_uri())
    row = json_row(
        candidates=[{"image": name}, {"image": "woman.png"}], expected_order=[name, "woman.png"]
    )
    data = json_lines(tmp_path / "set" / "items.jsonl", row)
    (item,) = iter_items(data if from_file else [row], images=folder)
    assert (item.candidates[0].name, item.candidates[0].image) == (name, folder / file)
    assert item.best == name
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["/x/owl.png", "lamp.png"], ("but a/owl.png, b/owl.png have similar names",)),
        (["/x/lamp.png", "/y/lamp.png"], ("candidate 2", "another candidate are both")),
        (["/x/none.png", "lamp.png"], ("'/x/none.png' is not in", "or below it")),
        (["../outside.png", "lamp.png"], ("'../outside.png' is not in",)),
        (["%2e%2e/outside.png", "lamp.png"], ("is not in",)),
        (["linked/secret.png", "lamp.png"], ("is not in",)),
    ],
)
def test_what_no_one_file_below_the_folder_is_called_is_refused(tmp_path, names, words):
    folder = tmp_path / "pictures"
    pictures(folder / "a", "owl.png", "lamp.png")
    pictures(folder / "b", "owl.png")
    pictures(tmp_path, "outside.png")
    pictures(tmp_path / "elsewhere", "secret.png")
    (folder / "c").symlink_to(tmp_path / "elsewhere")
    row = json_row(candidates=[{"image": name} for name in names])
    data = json_lines(tmp_path / "items.jsonl", row)
    refused(data, *words, read=lambda path: read_items(path, images=folder))
    with pytest.raises(UserError, match="nowhere: is not a folder"):
        read_items(data, images=tmp_path / "nowhere")
    (item,) = iter_items(data, rows=RowReader(whole=False))  # to score, which needs no images
    assert item.names == tuple(names)


def test_one_picture_by_the_names_of_two_items_is_counted(tmp_path, caplog):
    pictures(tmp_path / "night owl", "1.png", "2.png")
    rows = [
        json_row(compound=name, candidates=[{"image": f"{name}/{k}.png"} for k in (1, 2)])
        for name in ("night owl", "cold feet")
    ]
    read_items(json_lines(tmp_path / "items.jsonl", *rows), images=tmp_path)
    assert any("names the same picture otherwise. (and 1 more)" in text for text in caplog.messages)


def test_a_sequences_pictures_may_be_spelt_otherwise(write_table, tmp_path):
    pictures(tmp_path / NFD, "S1.PNG", "s2.png")
    (item,) = read_items(write_table(sequence_row("pé frio")))
    assert [one.image for one in item.sequence] == [
        tmp_path / NFD / "S1.PNG",
        tmp_path / NFD / "s2.png",
    ]


def test_rows_of_empty_cells_are_skipped_but_count(tmp_path):
    (tmp_path / "x.csv").write_text("compound,sentence\na,a b\n,\n , \nc,\n,\n")
    refused(tmp_path / "x.csv", "row 4 ('c'), sentence: is empty")


def test_null_and_missing_keys_are_empty_in_json_lines_and_in_a_json_list(tmp_path):
    nulls = json_row(sentence_type=None, expected_order=None, language=None)
    bare = {"compound": "night owl", "sentence": "A night owl."}
    first, second = items = read_items(json_lines(tmp_path / "items.jsonl", nulls, bare))
    assert (first.sentence_type, first.expected_order, first.language) == (None, None, "en")
    assert second == Item("night owl", "A night owl.")
    (tmp_path / "items.json").write_text(json.dumps([nulls, bare], indent=1))
    assert read_items(tmp_path / "items.json") == items


def test_blank_lines_and_line_separators_of_unicode_do_not_matter_in_jsonl(tmp_path):
    sentence = "A night owl.\u2028Another\u2029and\u0085another."
    path = json_lines(tmp_path / "items.jsonl", json_row(sentence=sentence), "", json_row(), "")
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert [item.sentence for item in read_items(path)] == [sentence, "She is a night owl."]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"compound": "night owl"', "row 3: is not JSON"),
        ('{"compound": ' + "1" * 5000 + "}", "row 3: is not JSON"),
        (["night owl"], "row 3: is not a JSON object"),
        (
            '{"compound": "\\ud800", "sentence": "\\ud800"}',
            "row 3, compound: contains half a surrogate",
        ),
        (json_row(candidates=[3, "y"]), "row 3 ('night owl'), candidate 1, image: is a int"),
        (json_row(candidates=[{"caption": "an owl"}]), "row 3 ('night owl'), candidates"),
        (json_row(expected_item="candidate1"), "row 3 ('night owl'), expected_item"),
    ],
)
def test_a_bad_jsonl_line_is_refused_with_its_number(tmp_path, line, words):
    # The blank line counts: the number is the one that an editor shows.
    refused(json_lines(tmp_path / "items.jsonl", json_row(), "", line, json_row()), words)


def test_a_row_of_subtask_b_has_a_sequence_and_no_sentence(write_table, tmp_path, caplog):
    write_table(sequence_row(), name="b/subtask_b_train.tsv")
    (item,) = read_items(tmp_path / "b")
    assert (item.compound, item.sentence, item.sentence_type) == ("night owl", "", "idiomatic")
    assert item.sequence == (
        Candidate("sequence1", None, "a woman writes by a lamp"),
        Candidate("sequence2", None, "the clock says three, she still writes"),
    )
    assert [one.name for one in item.candidates] == ["a.png", "b.png", "c.png", "d.png"]
    assert (item.expected_item, item.best, item.expected_order) == ("b.png", "b.png", None)
    assert [message.count("the image is missing") for message in caplog.messages] == [1]


def test_a_sequences_pictures_are_s1_and_s2_of_the_compound_or_what_the_file_names(
    write_table, tmp_path
):
    pictures(
        tmp_path / "cat_s eyes", "s1.png", "s2.png", "other.png", *(f"{k}.png" for k in "abcd")
    )
    row = sequence_row("cat's eyes", sequence_caption2="")
    (item,) = read_items(write_table(row))
    folder = tmp_path / "cat_s eyes"
    assert item.sequence == (
        Candidate("s1.png", folder / "s1.png", "a woman writes by a lamp"),
        Candidate("s2.png", folder / "s2.png", None),
    )
    (item,) = read_items(write_table(row | {"sequence_image2": "other.png"}))
    assert [one.name for one in item.sequence] == ["s1.png", "other.png"]


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


def test_targets_of_subtask_b_can_be_read_without_candidates(write_table):
    columns = ("compound", "subset", "sentence_type", "expected_item")
    row = {column: sequence_row()[column] for column in columns}
    (item,) = read_items(write_table(row))
    assert item == Item("night owl", "", sentence_type="idiomatic", expected_item="b.png")


def test_a_row_of_subtask_b_that_does_not_fit_is_refused(write_table):
    refused(write_table(sequence_row(expected_item="e.png")), "row 1", "expected_item: is 'e.png'")
    refused(write_table(sequence_row(sequence_caption2="")), "row 1", "sequence 2")


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


def test_blind_files_of_admire_2_are_read(shared, caplog):
    for language, tag, count in (("Turkish", "tr", 180), ("Chinese", "zh", 179)):
        items = read_items(shared / "admire2" / f"submission_{language}.tsv")
        assert len(items) == count
        assert {item.language for item in items} == {tag}
        assert all(item.best is None and len(item.candidates) == 5 for item in items)
        assert not any(re.search(r"\d", item.phrase) for item in items)
        captions = [one.caption or "" for item in items for one in item.candidates]
        assert any(caption.startswith("<<SYS>>") for caption in captions)


@pytest.mark.parametrize(
    ("name", "count", "language"),
    [
        ("admire_en/train", 70, "en"),
        ("admire_en/dev", 15, "en"),
        ("admire_pt/train_targets.tsv", 32, "pt"),
        ("admire_pt/dev_targets.tsv", 10, "pt"),
    ],
)
def test_admires_own_files_are_read_without_a_warning(shared, name, count, language, caplog):
    caplog.set_level("WARNING", "admire")
    items = read_items(shared / name)
    assert len(items) == count
    assert {item.language for item in items} == {language}
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


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admire.core.files.ROWS", 2)


@pytest.mark.parametrize("name", ["subtask_a_train.tsv", "manifest.csv"])
def test_a_table_read_in_parts_is_the_whole_table(write_table, small_parts, name):
    compounds = ["café au lait", "null", "NA", "cold\nfeet", "night owl"]
    items = read_items(write_table(*(admire_row(one) for one in compounds), name=name))
    assert [item.compound for item in items] == compounds
    path = write_table(*(admire_row(one) for one in [*compounds, ""]), name=name)
    refused(path, "row 6 ('')", "compound: is empty")
    path.write_text(path.read_text() + '"' if name.endswith("csv") else path.read_text() + '"x')
    refused(path)


def test_items_come_before_the_file_is_read_to_its_end(write_table, small_parts):
    path = write_table(admire_row(), admire_row(), admire_row(sentence=""))
    items = iter_items(path)
    assert [next(items).compound, next(items).compound] == ["night owl"] * 2
    with pytest.raises(UserError, match="row 3"):
        next(items)
