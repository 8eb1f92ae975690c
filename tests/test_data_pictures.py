import unicodedata
from pathlib import Path

import pytest
from conftest import admire_row, refused, sequence_row

from admire.core.errors import UserError
from admire.data.items import Candidate
from admire.data.reader import iter_items, read_items
from admire.data.rows import RowReader

NAMES = ("a.png", "b.png", "c.png", "d.png", "e.png")
NFD = unicodedata.normalize("NFD", "pé frio")
ROW = {"compound": "night owl", "sentence": "She is a night owl."}


def pictures(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(b"picture")


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
    (item,) = read_items(write_table(admire_row(compound)))
    assert [c.image for c in item.candidates] == [tmp_path / folder / name for name in NAMES]


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
    ("name", "file"),
    [
        ("1.png", "1.PNG"),
        ("É.png", unicodedata.normalize("NFD", "é.png")),
        ("1.png", "PÉ FRIO/1.png"),  # the compound's folder
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


def test_names_are_compared_in_nfc(write_table, tmp_path, caplog):
    name = "maçã.png"
    pictures(tmp_path, unicodedata.normalize("NFD", name), "b.png")
    images = [unicodedata.normalize("NFD", name), "b.png"]
    row = ROW | {"images": images, "expected_order": [name, "b.png"]}
    (item,) = read_items(write_table(row, name="x.jsonl"))
    assert (item.best, item.candidates[0].image) == (name, tmp_path / images[0])
    assert caplog.messages == []


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
        ("/data/upload/3/0a1b2c3d-owl.png", "a/owl.png"),
        ("/data/upload/3/0a1b2c3d-my_owl_1.png", "a/my owl (1).png"),
        ("s3://bucket/set/my owl (1).png", "a/my owl (1).png"),
    ],
)
@pytest.mark.parametrize("from_file", [True, False])
def test_with_a_folder_of_images_a_file_name_is_enough(
    write_table, tmp_path, caplog, name, file, from_file
):
    folder = tmp_path / "pictures"
    pictures((folder / file).parent, (folder / file).name, "woman.png")
    name = name.format(folder=folder.as_uri())
    candidates = [{"image": name}, {"image": "woman.png"}]
    row = ROW | {"candidates": candidates, "expected_order": [name, "woman.png"]}
    data = write_table(row, name="set/items.jsonl")
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
def test_what_no_one_file_below_the_folder_is_called_is_refused(
    write_table, tmp_path, names, words
):
    folder = tmp_path / "pictures"
    pictures(folder / "a", "owl.png", "lamp.png")
    pictures(folder / "b", "owl.png")
    pictures(tmp_path, "outside.png")
    pictures(tmp_path / "elsewhere", "secret.png")
    (folder / "c").symlink_to(tmp_path / "elsewhere")
    row = ROW | {"candidates": [{"image": name} for name in names]}
    data = write_table(row, name="items.jsonl")
    refused(data, *words, read=lambda path: read_items(path, images=folder))
    with pytest.raises(UserError, match="nowhere: is not a folder"):
        read_items(data, images=tmp_path / "nowhere")
    (item,) = iter_items(data, rows=RowReader(whole=False))  # to score, which needs no images
    assert item.names == tuple(names)


def test_one_picture_by_the_names_of_two_items_is_counted(write_table, tmp_path, caplog):
    pictures(tmp_path / "night owl", "1.png", "2.png")
    rows = [
        ROW | {"compound": name, "candidates": [{"image": f"{name}/{k}.png"} for k in (1, 2)]}
        for name in ("night owl", "cold feet")
    ]
    read_items(write_table(*rows, name="items.jsonl"), images=tmp_path)
    assert any("names the same picture otherwise. (and 1 more)" in text for text in caplog.messages)


def test_a_sequences_pictures_may_be_spelt_otherwise(write_table, tmp_path):
    names = "S1.PNG", "s2.png"
    pictures(tmp_path / NFD, *names)
    (item,) = read_items(write_table(sequence_row("pé frio")))
    assert [one.image for one in item.sequence] == [tmp_path / NFD / name for name in names]


def test_a_sequences_pictures_are_s1_and_s2_of_the_compound_or_what_the_file_names(
    write_table, tmp_path
):
    folder = tmp_path / "cat_s eyes"
    pictures(folder, "s1.png", "s2.png", "other.png", *NAMES[:4])
    row = sequence_row("cat's eyes", sequence_caption2="")
    (item,) = read_items(write_table(row))
    assert item.sequence == (
        Candidate("s1.png", folder / "s1.png", "a woman writes by a lamp"),
        Candidate("s2.png", folder / "s2.png", None),
    )
    (item,) = read_items(write_table(row | {"sequence_image2": "other.png"}))
    assert [one.name for one in item.sequence] == ["s1.png", "other.png"]
