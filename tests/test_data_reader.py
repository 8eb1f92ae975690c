import json

import pytest
from conftest import admire_row, refused, sequence_row

from admire.core.errors import UserError
from admire.data.items import Candidate, Item
from admire.data.reader import iter_items, read_items

NAMES = ("a.png", "b.png", "c.png", "d.png", "e.png")
TARGETS = ("compound", "subset", "sentence_type", "sentence", "expected_order")


ROW = {
    "compound": "night owl",
    "sentence": "She is a night owl.",
    "candidates": [{"caption": "a lamp"}, {"caption": "an owl"}],
}


def test_a_row_with_gold_gives_an_item_with_its_candidates(write_table):
    (item,) = read_items(write_table(admire_row(sentence_type=" Idiomatic ")))
    captions = ["a woman at a desk", "a lamp at night", "a bird asleep", "an owl", "a red bicycle"]
    shown = tuple(Candidate(name, None, text) for name, text in zip(NAMES, captions, strict=True))
    sentence = "My sister is a night owl who writes at midnight."
    assert item == Item("night owl", sentence, "en", shown, "idiomatic", NAMES)


def test_texts_are_kept_but_backslash_n_in_a_caption_is_a_line_break(write_table):
    sentence = 'The "night owl", said: I\'m up – não é?'
    row = admire_row(sentence=sentence, image1_caption=r" **Owl**\n\nat night\n")
    (item,) = read_items(write_table(row))
    assert item.sentence == sentence
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
        ("items.csv", b"compound,sentance\na,A.\n", "'sentence' is missing. Rename 'sentance'"),
        ("items.tsv", b"compound\tsentence\n", "no items"),
        *(("items.tsv", content, "empty") for content in (b"", b"\n \n", b"\xef\xbb\xbf")),
        ("items.jsonl", b"compound\tsentence\nma\xe7\xe3\tUma.\n", "row 2: is not UTF-8"),
        ("items.tsv", b"compound\tsen\xe7\nowl\tAn owl.\n", "header: is not UTF-8"),
        (
            "items.tsv",
            b"compound\tsentence\nowl\tAn owl.\nowl\tAn owl.\tmore\n",
            "row 2: has 3 cells for 2 columns",
        ),
        ("items.tsv", b"compound\tsentence\nowl\tAn owl.\nowl", "row 2 ('owl'), sentence"),
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
    write_table(ROW if name.endswith("jsonl") else admire_row(), name=name)
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
    first = [(item.language, item.compound) for item in iter_items(tmp_path, limit=1)]
    assert first == [("sr-latn", "night owl"), ("tr", "night owl")]
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
    for k in numbers:
        (tmp_path / f"{k}.png").touch()
    row = {"compound": "night owl", "sentence": "A night owl."}
    row |= {f"image{k}_name": f"{k}.png" for k in numbers}
    (item,) = read_items(write_table(row, name="manifest.csv"))
    assert [c.name for c in item.candidates] == [f"{k}.png" for k in numbers]


def test_a_jsonl_row_has_the_same_keys_and_a_list_of_candidates(write_table, tmp_path):
    (tmp_path / "night owl").mkdir()
    for name in ("owl.png", "lamp.png"):
        (tmp_path / "night owl" / name).touch()
    row = ROW | {
        "language": "pt_BR",
        "sentence_type": "literal",
        "candidates": [
            {"image": "owl.png", "caption": "an owl"},
            {"image": "lamp.png"},
            {"caption": "x"},
        ],
        "expected_order": ["candidate3", "owl.png", "lamp.png"],
    }
    (item,) = read_items(write_table(row, name="items.jsonl"))
    shown = (
        Candidate("owl.png", tmp_path / "night owl" / "owl.png", "an owl"),
        Candidate("lamp.png", tmp_path / "night owl" / "lamp.png", None),
        Candidate("candidate3", None, "x"),
    )
    order = ("candidate3", "owl.png", "lamp.png")
    assert item == Item("night owl", "She is a night owl.", "pt-br", shown, "literal", order)


def test_null_and_missing_keys_are_empty_in_json_lines_and_in_a_json_list(write_table, tmp_path):
    nulls = ROW | dict.fromkeys(("sentence_type", "expected_order", "language"))
    bare = {"compound": "night owl", "sentence": "A night owl."}
    first, second = items = read_items(write_table(nulls, bare, name="items.jsonl"))
    assert (first.sentence_type, first.expected_order, first.language) == (None, None, "en")
    assert second == Item("night owl", "A night owl.")
    (tmp_path / "items.json").write_text(json.dumps([nulls, bare], indent=1))
    assert read_items(tmp_path / "items.json") == items


def test_blank_lines_and_line_separators_of_unicode_do_not_matter_in_jsonl(tmp_path):
    caption = "A night owl.\u2028Another\u2029and\u0085another."
    changed = ROW | {"captions": [caption, "x"], "candidates": []}
    path = tmp_path / "items.jsonl"
    rows = (json.dumps(row, ensure_ascii=False) for row in (changed, ROW))
    path.write_text("\r\n\r\n".join(rows) + "\r\n", encoding="utf-8", newline="")
    captions = [item.candidates[0].caption for item in read_items(path)]
    assert captions == ["A night owl.\nAnother\nand\nanother.", "a lamp"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"compound": "night owl"', "row 3: is not JSON"),
        ({"candidates": ["x", "NaN"]}, "row 3 ('night owl'), candidate 2, caption: is 'NaN'"),
        ({"candidates": ["null", "x"]}, "row 3 ('night owl'), candidate 1, caption: is 'null'"),
        ({"definitions": ["None"]}, "row 3 ('night owl'), definition 1: is 'None'"),
        (
            {"candidates": [{"image": name, "caption": "x"} for name in ("a.png", "./a.png")]},
            "row 3 ('night owl'), candidates: 'a.png' and './a.png' are one picture",
        ),
        ('{"compound": ' + "1" * 5000 + "}", "row 3: is not JSON"),
        ('["night owl"]', "row 3: is not a JSON object"),
        ({"candidates": [3, "y"]}, "row 3 ('night owl'), candidate 1, image: is a int"),
        ({"candidates": [{"caption": "an owl"}]}, "row 3 ('night owl'), candidates"),
        ({"expected_item": "candidate1"}, "row 3 ('night owl'), expected_item"),
    ],
)
def test_a_bad_jsonl_line_is_refused_with_its_number(tmp_path, line, words):
    # The blank line counts: the number is the one that an editor shows.
    line = line if isinstance(line, str) else json.dumps(ROW | line)
    (tmp_path / "items.jsonl").write_text("\n".join([json.dumps(ROW), "", line]))
    refused(tmp_path / "items.jsonl", words)


def test_a_header_or_an_item_that_comes_again_with_other_gold_is_refused(write_table, tmp_path):
    path = write_table(admire_row(), admire_row(), admire_row(sentence_type="literal"))
    refused(path, "row 3 ('night owl'): is the item of ", "row 1 ('night owl') again, with other")
    assert len(read_items(write_table(admire_row(), admire_row()))) == 2
    gold = [f"candidate{k}" for k in (1, 2)]
    half, whole, other = ROW, ROW | {"expected_order": gold}, ROW | {"expected_order": gold[::-1]}
    again = tmp_path / "again.jsonl"
    again.write_text("\n".join(map(json.dumps, (half, whole, other))))
    refused(again, "row 3 ('night owl'): is the item of ", "row 2 ('night owl') again, with other")
    other["candidates"] = ["Another text.", "A third."]  # candidate1 and candidate2, too
    again.write_text("\n".join(map(json.dumps, (half, whole, other))))
    assert len(read_items(again)) == 3
    text = path.read_text()
    path.write_text(text + "\ufeff" + text)
    refused(path, "row 3: repeats the header, as in joined files")


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


def test_a_row_of_subtask_b_may_lack_candidates_but_has_to_fit(write_table):
    columns = ("compound", "subset", "sentence_type", "expected_item")
    row = {column: sequence_row()[column] for column in columns}
    (item,) = read_items(write_table(row))
    assert item == Item("night owl", "", sentence_type="idiomatic", expected_item="b.png")
    refused(write_table(sequence_row(expected_item="e.png")), "row 1", "expected_item: is 'e.png'")
    refused(write_table(sequence_row(sequence_caption2="")), "row 1", "sequence 2")


def test_items_come_before_the_file_is_read_to_its_end(write_table, monkeypatch):
    monkeypatch.setattr("admire.core.files.ROWS", 2)
    items = iter_items(write_table(admire_row(), admire_row("NA"), admire_row(sentence="")))
    assert [next(items).compound, next(items).compound] == ["night owl", "NA"]
    with pytest.raises(UserError, match="row 3"):
        next(items)
