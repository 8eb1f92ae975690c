from pathlib import Path

import pytest
from commands import ended, run
from toys import draw, open_pictures

from admire import read_items

Image = pytest.importorskip("PIL.Image", reason="needs the extra 'embedded'")


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    for name in ("night_owl/1.png", "night_owl/2.JPG", "Gruß/b.png", "Gruß/a.png", ".x/1.png"):
        path = tmp_path / "pictures" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        draw(path, name)
    (path.parents[1] / "night_owl" / "2.txt").write_text("A lamp,\nan “owl”.\n")
    (path.parents[1] / "night_owl" / "notes.md").write_text("none")
    return tmp_path / "pictures"


MANIFEST = """compound,sentence,image1_name,image1_caption,image2_name,image2_caption
Gruß,,Gruß/a.png,,Gruß/b.png,
night owl,,night_owl/1.png,,night_owl/2.JPG,"A lamp, an “owl”."
"""


def test_a_set_is_begun_filled_in_checked_and_ranked(capsys, monkeypatch, tmp_path, pictures):
    folder = tmp_path / "my_set"
    code, out, err = run(capsys, "init", folder, pictures)
    assert (code, out) == (0, "")
    assert f"manifest.csv: 2. Each needs a sentence.\nNext: admire check {folder}" in err
    manifest = folder / "manifest.csv"
    assert manifest.read_text() == MANIFEST
    copied, owl = (place / "night_owl" / "1.png" for place in (folder, pictures))
    assert copied.read_bytes() == owl.read_bytes()
    code, out, _ = run(capsys, "check", folder)
    assert code == 2
    assert out.splitlines()[:2] == [
        f"{manifest}, row {k} ('{compound}'), sentence: is empty. Write one that uses the compound."
        for k, compound in ((1, "Gruß"), (2, "night owl"))
    ]
    manifest.write_text(MANIFEST.replace("ß,,", "ß,Ein Gruß.,").replace("l,,", "l,A night owl.,"))
    assert run(capsys, "check", folder)[0] == 0
    assert [len(item.candidates) for item in read_items(folder)] == [2, 2]
    monkeypatch.setattr("admire.rankers.run_encoders.open_encoder", open_pictures)
    out_folder = ("--out", tmp_path / "run")
    assert run(capsys, "rank", folder, "--query", "compound", *out_folder)[0] == 0


@pytest.mark.parametrize(
    "named", [["night_owl/1.png", "night_owl/2.JPG", "Gruß/a.png", "Gruß/b.png"], ["."], []]
)
def test_pictures_are_named_or_those_of_the_set_where_they_are(capsys, pictures, named):
    names = {path for path in pictures.rglob("*") if path.is_file()}
    assert run(capsys, "init", pictures, *(pictures / name for name in named))[0] == 0
    assert (pictures / "manifest.csv").read_text() == MANIFEST
    now = {path for path in pictures.rglob("*") if path.is_file()}
    assert now == names | {pictures / "manifest.csv"}


def test_what_is_a_picture_is_taken_or_named(capsys, tmp_path):
    folder = tmp_path / "night_owl"
    folder.mkdir()
    draw(folder / "a.png", "an owl")
    with Image.open(folder / "a.png") as picture:
        picture.convert("RGB").save(folder / "b.JFIF", "JPEG")
        picture.convert("RGB").save(folder / "c.MPO", "MPO", save_all=True)
    for name in ("d.HEIC", "e.svg", "notes.md", "@eaDir/a.png", "#recycle/b.png"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    code, _, err = run(capsys, "init", tmp_path)
    assert code == 0
    for name in ("d.HEIC", "e.svg"):
        assert f"Left out: {folder / name} is not a picture in PNG" in err
    row = (tmp_path / "manifest.csv").read_text().splitlines()[1]
    assert row == "night owl,,night_owl/a.png,,night_owl/b.JFIF,,night_owl/c.MPO,"


def test_nothing_of_theirs_is_lost_by_init(capsys, tmp_path, pictures):
    folder = tmp_path / "set"
    (folder / "night_owl").mkdir(parents=True)
    assert "set: contains no pictures. Put" in ended(capsys, "init", folder)
    assert "none: cannot be read" in ended(capsys, "init", folder, tmp_path / "none")
    other = folder / "night_owl" / "1.png"
    draw(other, "another")
    content = other.read_bytes()
    assert f"{other}: already exists, and differs" in ended(capsys, "init", folder, pictures)
    assert other.read_bytes() == content
    for name in ("manifest.jsonl", "manifest.csv"):
        (folder / name).write_text("mine")
        assert f"{name}: already exists." in ended(capsys, "init", folder, pictures / "Gruß")
        assert (folder / name).read_text() == "mine"
        (folder / name).unlink()
