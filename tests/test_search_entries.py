from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from toys import PictureEncoder

from admire.apps.search import (
    Entry,
    add_to_index,
    changes,
    open_index,
    read_entries,
    read_picture,
    read_texts,
    write_index,
)
from admire.core.errors import UserError
from admire.data.items import Candidate

LATE = ["Someone who works late at night.", "A bird on a branch.", "A night owl on a branch."]


def write(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    table = pd.DataFrame(rows)
    match path.suffix:
        case ".jsonl":
            path.write_text("\n".join(map(json.dumps, rows)))
        case ".parquet":
            table.to_parquet(path, row_group_size=2)
        case ".txt" | ".lst":
            path.write_text("\n\n".join(next(iter(row.values())) for row in rows))
        case suffix:
            table.to_csv(path, sep="\t" if suffix == ".tsv" else ",", index=False)
    return path


def shard(path: Path, members: dict[str, str]) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content.encode()))
    return path


def read(source: Path, unpacked: Path) -> list[Candidate]:
    unpacked.mkdir(exist_ok=True)
    return [
        Candidate(entry.name, entry.image, entry.caption)
        for entry in read_entries(source, unpacked)
    ]


@pytest.mark.parametrize("suffix", [".txt", ".jsonl", ".csv", ".tsv"])
def test_texts_of_every_kind_are_read_and_numbered_where_they_have_no_ids(tmp_path, suffix):
    path = write(tmp_path / f"texts{suffix}", [{"text": text} for text in LATE])
    numbers = "135" if suffix == ".txt" else "123"  # lines, some of them blank
    assert read_texts(path) == [
        Candidate(name, caption=text) for name, text in zip(numbers, LATE, strict=True)
    ]


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".tsv"])
def test_ids_are_kept(tmp_path, suffix):
    rows = [{"id": "x 1", "text": "An owl.", "more": "y"}, {"id": "", "text": "A bat.", "more": ""}]
    rows.append({"id": 0, "text": "A cat.", "more": "z"})
    entries = read_texts(write(tmp_path / f"texts{suffix}", rows))
    assert [entry.name for entry in entries] == ["x 1", "2", "0"]


def test_lines_are_those_that_python_tells_apart(tmp_path):
    text = "\ufeffa\u2028b\rc\r\n\nd\x0be"
    (tmp_path / "t.txt").write_bytes(text.encode())
    lines = text.removeprefix("\ufeff").splitlines()
    expected = [(str(k), line) for k, line in enumerate(lines, start=1) if line]
    assert [(entry.name, entry.caption) for entry in read_texts(tmp_path / "t.txt")] == expected


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("t.json", "[]", ": is not .txt, .lst, .jsonl, .csv, .tsv, .parquet, .tar or a folder of"),
        ("t.txt", "\n \n", ": "),
        ("t.txt", "abc\n\xff\n", ", row 2: "),
        ("t.jsonl", '{"text": "a"}\n{"text": ""}', ", row 2, text: "),
        ("t.jsonl", '{"text": "a"}\n{', ", row 2: "),
        ("t.jsonl", '{"id": "x", "text": "a"}\n' * 2, ", row 2, id: 'x' "),
        ("t.csv", "id,text\nx,a\ny, \n", ", row 2, text: "),
        ("t.csv", "id,sentence\nx,a\n", ": the column 'text' "),
        ("t.jsonl", '{"image": "", "caption": ""}', ", row 1, image: "),
        ("t.jsonl", '{"image": "a.png", "caption": 3}', ", row 1, caption: "),
        ("t.jsonl", '{"image": "a.png"}', ": contains pictures. Index them first"),
    ],
)
def test_file_row_and_column_of_what_cannot_be_used_are_named(tmp_path, name, content, words):
    path = tmp_path / name
    path.write_text(content, encoding="latin-1")
    with pytest.raises(UserError) as caught:
        read_texts(path)
    assert str(caught.value).startswith(f"{path}{words}")


def test_a_folder_gives_its_pictures_in_order_with_captions(tmp_path, caplog):
    root, out = tmp_path / "pictures", tmp_path / "elsewhere"
    for folder in (root / "b/deep", root / ".hidden", out):
        folder.mkdir(parents=True)
    for file in ("a.PNG", "b/deep/z.jpg", "b/y.webp", "b/note.md", ".hidden/h.png", "._a.png"):
        (root / file).write_text("x")
    (root / "b/y.txt").write_text(" a caption\nin two lines\n")
    (root / "c.txt").write_text("of nothing")
    (root / "👩\u200d💻\n.png").write_text("x")
    (root / os.fsdecode(b"\xff.png")).write_text("x")
    (out / "far.png").write_text("x")
    (root / "near.png").symlink_to(root / "a.PNG")
    (root / "far.png").symlink_to(out / "far.png")
    (root / "out").symlink_to(out)
    (root / "round").symlink_to(root)
    names = ("a.PNG", "b/deep/z.jpg", "b/y.webp", "near.png", "👩\u200d💻\n.png")
    captions = (None, None, "a caption in two lines", None, None)
    assert read(root, tmp_path / "unpacked") == [
        Candidate(name, root / name, caption) for name, caption in zip(names, captions, strict=True)
    ]
    assert sorted(record.args[1:] for record in caplog.records) == [
        ("has a name that is not UTF-8", 1),
        ("is a link that leads out of the folder", 2),
    ]


@pytest.mark.parametrize("suffix", [".lst", ".jsonl", ".csv", ".tsv", ".parquet"])
def test_tables_and_lists_name_pictures_from_their_folder(tmp_path, suffix):
    rows = [{"image": "a.png", "caption": "An owl."}, {"image": "sub/b.png", "caption": ""}]
    rows += [{"image": str(tmp_path / "c.png"), "caption": "A bat."}]
    entries = read(write(tmp_path / f"list{suffix}", rows), tmp_path / "unpacked")
    images = [tmp_path / "a.png", tmp_path / "sub/b.png", tmp_path / "c.png"]
    captions = [None] * 3 if suffix == ".lst" else ["An owl.", None, "A bat."]
    names = [row["image"] for row in rows]
    assert entries == [Candidate(*row) for row in zip(names, images, captions, strict=True)]


CAPTIONS = [None, "caption 1", None, "caption 3", None]
OWLS = [f"owl {k}".encode() for k in range(5)]


def bytes_rows(path: Path, images: Sequence[Any] = OWLS) -> Path:
    rows = [{"image": owl, "caption": text} for owl, text in zip(images, CAPTIONS, strict=True)]
    return write(path / "some.parquet", rows)


def struct_rows(path: Path) -> Path:
    return bytes_rows(path, [{"bytes": owl, "path": None} for owl in OWLS])


def parquet_shards(path: Path) -> Path:
    rows = pd.read_parquet(bytes_rows(path)).to_dict("records")
    (path / "parquet").mkdir()
    for first, part in ((0, rows[:3]), (3, rows[3:])):
        write(path / f"parquet/{first}.parquet", part)
    return path / "parquet"


def tars(path: Path) -> Path:
    (path / "shards").mkdir()
    members = {}
    for k, caption in enumerate(CAPTIONS):
        members |= {f"x/{k}.json": "{}", f"x/{k}.jpg": f"owl {k}"}
        members |= {f"x/{k}.txt": caption} if caption else {}
    for number, part in enumerate((list(members.items())[:8], list(members.items())[8:])):
        shard(path / f"shards/{number}.tar", dict(part))
    return path / "shards"


@pytest.mark.parametrize("make", [struct_rows, bytes_rows, parquet_shards, tars])
@pytest.mark.parametrize("batch", [2, 99])
def test_pictures_inside_files_are_indexed_and_read_again(monkeypatch, tmp_path, make, batch):
    monkeypatch.setattr(changes, "BATCH", batch)
    source = make(tmp_path)
    left: list[int] = []

    class Watching(PictureEncoder):
        def encode_images(self, images):
            left.append(len(list(images[0].parent.iterdir())))
            return super().encode_images(images)

    write_index(source, Watching(), tmp_path / "index")
    assert max(left) <= batch + 1  # copies of one batch, not of all
    entries = found(tmp_path / "index")
    assert [entry.caption for entry in entries] == CAPTIONS
    assert [read_picture(entry) for entry in entries] == OWLS
    expected = {"some.parquet/3", "3.parquet/1", "0.tar/x/2.jpg"}
    assert expected & {entry.name for entry in entries}
    assert not list(tmp_path.rglob("unpacked"))
    assert add_to_index(source, Watching(), tmp_path / "index").new == 0


@pytest.mark.parametrize("make", [bytes_rows, lambda path: tars(path) / "0.tar"])
def test_a_file_of_pictures_leaves_nothing_where_texts_are_searched(monkeypatch, tmp_path, make):
    source, place = make(tmp_path), tmp_path / "here"
    place.mkdir()
    monkeypatch.chdir(place)
    with pytest.raises(UserError, match=r"contains pictures. Index them first"):
        read_texts(source)
    assert not list(place.iterdir())


@pytest.mark.parametrize("size", [0, 512, 700, 1024])
def test_a_tar_that_was_cut_off_is_named(tmp_path, size):
    last = tars(tmp_path) / "1.tar"
    os.truncate(last, size)
    with pytest.raises(UserError, match=r"1\.tar: "):
        write_index(last.parent, PictureEncoder(), tmp_path / "index")
    assert [path.name for path in tmp_path.iterdir()] == ["shards"]


@pytest.mark.parametrize(
    ("rows", "damage", "words"),
    [
        ([{"id": "a", "sentence": "b"}], bytes, ": the column 'text' "),
        ([{"id": "a", "text": "An owl."}, {"id": "b", "text": ""}], bytes, ", row 2, text: "),
        ([{"text": "b"}], lambda content: content[:-9], ": is not a Parquet file, or damaged ("),
        ([{"text": "b"}], lambda content: content.replace(b"text", b"te\xc2t"), ": "),
    ],
)
def test_what_is_wrong_with_a_parquet_file_is_named(tmp_path, rows, damage, words):
    path = write(tmp_path / "t.parquet", rows)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(UserError) as caught:
        read_texts(path)
    assert str(caught.value).startswith(f"{path}{words}")


# ------------------------------------------------------------- what a stranger's collection names

LISTS = (".lst", ".jsonl", ".csv", ".tsv", ".parquet", "{path}.parquet")
OUTSIDE = (
    *("../secret.png", "{outside}/secret.png", "..\\secret.png", "link.png", "links/secret.png"),
    *("x.tar/../../secret.png", "x" * 5000, ".."),
)


def list_of(place: Path, suffix: str, names: Sequence[str]) -> Path:
    """A list of pictures, in a folder with links that lead out of it."""
    folder = place / "set"
    folder.mkdir()
    (place / "secret.png").write_text("a secret owl")
    (folder / "link.png").symlink_to(place / "secret.png")
    (folder / "links").symlink_to(place)
    for name in ("a.png", "b.png"):
        (folder / name).write_text("an owl")
    names = [name.format(outside=place) for name in names]
    if suffix == "{path}.parquet":
        return write(folder / "list.parquet", [{"image": {"path": name}} for name in names])
    return write(folder / f"list{suffix}", [{"image": name} for name in names])


@pytest.mark.parametrize("suffix", LISTS)
@pytest.mark.parametrize("name", [*OUTSIDE, "a\0.png"])
def test_no_list_leads_out_of_its_folder(tmp_path: Path, suffix: str, name: str):
    source = list_of(tmp_path, suffix, ["a.png", name, "{outside}/set/b.png"])
    row = "row 3" if suffix == ".lst" else "row 2"  # a line between them is blank
    with pytest.raises(UserError) as caught:
        read(source, tmp_path / "unpacked")
    assert f"{source}, {row}, image: " in str(caught.value)
    faults: list[UserError] = []
    entries = list(read_entries(source, tmp_path / "unpacked", faults.append))
    assert [entry.image for entry in entries] == [source.parent / "a.png", source.parent / "b.png"]
    assert list(map(str, faults)) == [str(caught.value)]


@pytest.mark.parametrize(
    "name", ["../secret.png", "/etc/secret.png", "a/../../b.png", "a\\..\\..\\b.png"]
)
def test_no_member_of_a_tar_file_leads_out_of_it(tmp_path: Path, name: str):
    source = shard(tmp_path / "x.tar", {"a.png": "an owl", name: "a bat", "./b/c.png": "an elk"})
    with pytest.raises(UserError, match=r"x\.tar, member at byte 1024: .* is outside"):
        read(source, tmp_path / "unpacked")
    write_index(source, PictureEncoder(), tmp_path / "index", skip_bad=True)
    entries = found(tmp_path / "index")
    assert [read_picture(entry) for entry in entries] == [b"an elk", b"an owl"]
    assert [entry.image for entry in entries] == [source / "b" / "c.png", source / "a.png"]


def found(index: Path) -> list[Entry]:
    query = PictureEncoder().encode_texts(["owl"], role="query")[0]
    results = open_index(index).search({"x": query}, {"x": 1.0}, 9)
    return sorted((entry for entry, _ in results), key=lambda entry: entry.name)


def test_a_folder_leaves_out_captions_and_shards_that_are_links_out_of_it(tmp_path, caplog):
    (tmp_path / "secret.txt").write_text("a secret")
    folder = tmp_path / "set"
    folder.mkdir()
    for name in ("a.png", "b.png"):
        (folder / name).write_text("an owl")
    (folder / "a.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "b.txt").symlink_to("c.txt")
    (folder / "c.txt").write_text("a caption")
    captions = [entry.caption for entry in read(folder, tmp_path / "unpacked")]
    assert captions == [None, "a caption"]
    shard(tmp_path / "secret.tar", {"s.png": "a secret"})
    (folder / "s.tar").symlink_to(tmp_path / "secret.tar")
    assert len(read(folder, tmp_path / "unpacked")) == 2
    shard(folder / "t.tar", {"t.png": "an owl"})
    assert [entry.name for entry in read(folder, tmp_path / "unpacked")] == ["t.tar/t.png"]
    assert "'s.tar': is a link that leads out of the folder; 1 left out." in caplog.messages


def test_large_texts_and_pictures_are_refused_before_they_are_read(tmp_path: Path):
    long = "x" * 50_000
    (tmp_path / "set").mkdir()
    for name in ("a.png", "b.png"):
        (tmp_path / "set" / name).write_text("an owl")
    (tmp_path / "set" / "a.txt").write_text(long)
    os.truncate(tmp_path / "set" / "b.png", 1 << 40)  # without blocks on disk
    tar = shard(tmp_path / "x.tar", {"a.png": "an owl", "a.txt": long, "b.png": "", "c.png": "elk"})
    huge = tarfile.TarInfo("b.png")
    huge.size = 10 << 30
    content = tar.read_bytes()
    at = content.index(b"b.png")
    with tar.open("r+b") as file:
        file.seek(at)
        file.write(huge.tobuf(tarfile.GNU_FORMAT))
        file.seek(huge.size, os.SEEK_CUR)
        file.write(content[at + 512 :])
    table = write(tmp_path / "t.jsonl", [{"image": "a.png", "caption": long}, {"text": long}])
    (tmp_path / "unpacked").mkdir()
    for source, *words in (
        (tmp_path / "set", "a.txt: has more than 10,000 characters"),
        (table, "row 1, caption: has 50,000", "row 2, text: has 50,000"),
        (tar, "x.tar, a.txt: has more than 10,000", "b.png: the image file has more than 256 MB"),
    ):
        faults: list[UserError] = []
        entries = list(read_entries(source, tmp_path / "unpacked", faults.append))
        for word, fault in zip(words, faults, strict=True):
            assert word in str(fault)
    assert [entry.name for entry in entries] == ["x.tar/c.png"]
    assert len(list((tmp_path / "unpacked").iterdir())) == 1
    (tmp_path / "set" / "c.png").write_text("an elk")
    write_index(tmp_path / "set", PictureEncoder(), tmp_path / "index", skip_bad=True)
    assert [entry.name for entry in found(tmp_path / "index")] == ["c.png"]


def test_a_tar_header_of_gigabytes_is_not_read(tmp_path: Path):
    path = tmp_path / "x.tar"
    header = tarfile.TarInfo("././@PaxHeader")
    header.type, header.size = tarfile.XHDTYPE, 1 << 36
    path.write_bytes(header.tobuf(tarfile.GNU_FORMAT))
    os.truncate(path, 1 << 37)
    with pytest.raises(UserError, match=r"x\.tar: is not a tar file, or damaged \(a header has"):
        read(path, tmp_path / "unpacked")
