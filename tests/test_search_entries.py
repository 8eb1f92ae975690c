import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import refused
from PIL import Image
from toys import Looking, PictureEncoder

from admire.apps.search import (
    Changes,
    Entry,
    add_to_index,
    changes,
    open_index,
    read_entries,
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
        case ".txt":
            path.write_text("\n\n".join(next(iter(row.values())) for row in rows))
        case suffix:
            table.to_csv(path, sep="\t" if suffix == ".tsv" else ",", index=False)
    return path


def read(source: Path) -> list[Candidate]:
    return [Candidate(entry.name, entry.image, entry.caption) for entry in read_entries(source)]


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


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("t.tar", "x", ": is not .txt, .jsonl, .csv, .tsv, .parquet, .xlsx or a folder of p"),
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
    assert refused(path, read=read_texts).startswith(f"{path}{words}")


def test_a_folder_gives_its_pictures_in_order_with_captions(tmp_path, caplog):
    root, out = tmp_path / "pictures", tmp_path / "elsewhere"
    for folder in (root / "b/deep", root / ".hidden", out):
        folder.mkdir(parents=True)
    for file in ("a.PNG", "b/deep/z.jpg", "b/y.webp", "b/note.md", ".hidden/h.png", "._a.png"):
        (root / file).write_text("x")
    (root / "b/y.txt").write_text(" a caption\nin two lines\n")
    (root / "c.txt").write_text("of nothing")
    (root / "👩\u200d💻\n.png").write_text("x")
    (out / "far.png").write_text("x")
    (root / "near.png").symlink_to(root / "a.PNG")
    (root / "far.png").symlink_to(out / "far.png")
    (root / "out").symlink_to(out)
    (root / "round").symlink_to(root)
    names = ("a.PNG", "b/deep/z.jpg", "b/y.webp", "near.png", "👩\u200d💻\n.png")
    captions = (None, None, "a caption in two lines", None, None)
    assert read(root) == [
        Candidate(name, root / name, caption) for name, caption in zip(names, captions, strict=True)
    ]
    (warning,) = caplog.messages
    assert warning.endswith("is a link that leads out of the folder; 2 left out.")


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".tsv", ".parquet"])
def test_tables_name_pictures_from_their_folder(tmp_path, suffix):
    rows = [{"image": "a.png", "caption": "An owl."}, {"image": "sub/b.png", "caption": ""}]
    rows += [{"image": str(tmp_path / "c.png"), "caption": "A bat."}]
    entries = read(write(tmp_path / f"list{suffix}", rows))
    images = [tmp_path / "a.png", tmp_path / "sub/b.png", tmp_path / "c.png"]
    captions = ["An owl.", None, "A bat."]
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


@pytest.mark.parametrize("make", [struct_rows, bytes_rows, parquet_shards])
@pytest.mark.parametrize("limit", ["BATCH", "MEMORY"])
def test_pictures_inside_parquet_files_are_indexed(monkeypatch, tmp_path, make, limit):
    monkeypatch.setattr(changes, limit, 2)
    source = make(tmp_path)
    seen: list[list[str]] = []

    class Watching(PictureEncoder):
        def encode_images(self, images):
            seen.append([image.read_text() for image in images])
            return super().encode_images(images)

    assert write_index(source, Watching(), tmp_path / "index") == Changes(5, 5, 0, 0)
    assert [owl for batch in seen for owl in batch] == [owl.decode() for owl in OWLS]
    assert max(map(len, seen)) == {"BATCH": 2, "MEMORY": 1}[limit]
    entries = found(tmp_path / "index")
    assert [entry.caption for entry in entries] == CAPTIONS
    assert {"some.parquet/3", "3.parquet/1"} & {entry.name for entry in entries}
    assert entries[0].image in (source / "1", source / "0.parquet/1")
    assert add_to_index(source, Watching(), tmp_path / "index").new == 0


def test_a_damaged_picture_in_a_parquet_file_is_named(tmp_path, caplog):
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    source = bytes_rows(tmp_path, [(tmp_path / "a.png").read_bytes()] * 2 + [b"x", b"", b"y"])
    assert write_index(source, Looking(), tmp_path / "index") == Changes(2, 2, 0, 3)
    assert f"3 left out, such as {source}/3: is not a picture in" in caplog.text


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
    assert refused(path, read=read_texts).startswith(f"{path}{words}")


LISTS = (".jsonl", ".csv", "{path}.parquet")
OUTSIDE = (
    *("../secret.png", "{outside}/secret.png", "..\\secret.png", "link.png", "links/secret.png"),
    *("x/../../secret.png", "x" * 5000, ".."),
)


def list_of(place: Path, suffix: str, names: Sequence[str]) -> Path:
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
    message = refused(source, f"{source}, row 2, image: ", read=read)
    faults: list[UserError] = []
    entries = list(read_entries(source, faults.append))
    assert [entry.image for entry in entries] == [source.parent / "a.png", source.parent / "b.png"]
    assert list(map(str, faults)) == [message]


def found(index: Path) -> list[Entry]:
    query = PictureEncoder().encode_texts(["owl"], role="query")[0]
    results = open_index(index).search({"x": query}, {"x": 1.0}, 9)
    return sorted((entry for entry, _ in results), key=lambda entry: entry.name)


def test_a_folder_leaves_out_captions_and_parquet_files_that_are_links_out_of_it(tmp_path, caplog):
    (tmp_path / "secret.txt").write_text("a secret")
    folder = tmp_path / "set"
    folder.mkdir()
    for name in ("a.png", "b.png"):
        (folder / name).write_text("an owl")
    (folder / "a.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "b.txt").symlink_to("c.txt")
    (folder / "c.txt").write_text("a caption")
    assert [entry.caption for entry in read(folder)] == [None, "a caption"]
    write(tmp_path / "secret.parquet", [{"text": "a secret"}])
    (folder / "s.parquet").symlink_to(tmp_path / "secret.parquet")
    assert len(read(folder)) == 2
    write(folder / "t.parquet", [{"text": "an owl"}])
    assert [entry.name for entry in read(folder)] == ["t.parquet/1"]
    assert "'s.parquet': is a link that leads out of the folder; 2 left out." in caplog.messages


def test_large_texts_are_refused(tmp_path: Path):
    long = "x" * 50_000
    (tmp_path / "set").mkdir()
    for name in ("a.png", "c.png"):
        (tmp_path / "set" / name).write_text("an owl")
    (tmp_path / "set" / "a.txt").write_text(long)
    table = write(tmp_path / "t.jsonl", [{"image": "a.png", "caption": long}, {"text": long}])
    for source, *words in (
        (tmp_path / "set", "a.txt: has 50,000 characters"),
        (table, "row 1, caption: has 50,000", "row 2, text: has 50,000"),
    ):
        faults: list[UserError] = []
        list(read_entries(source, faults.append))
        for word, fault in zip(words, faults, strict=True):
            assert word in str(fault)
    write_index(tmp_path / "set", PictureEncoder(), tmp_path / "index", skip_bad=True)
    assert [entry.name for entry in found(tmp_path / "index")] == ["c.png"]
