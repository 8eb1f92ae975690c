from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toys import PictureEncoder, WordEncoder

from admire.base.errors import UserError
from admire.data.items import Candidate
from admire.models.encoders import Vectors
from admire.tasks.collections import (
    Changes,
    Index,
    add_to_index,
    changes,
    index_texts,
    lance_table,
    open_index,
    read_picture,
    remove_from_index,
    write_index,
)
from admire.tasks.collections.encoding import EncoderRecord
from admire.tasks.collections.index import TextsInMemory, export_index

TEXTS = [
    Candidate("a", caption="an owl on the roof at night"),
    Candidate("b", caption="a person awake late at night"),
    Candidate("c", caption="a red bicycle"),
    Candidate("d", caption="Ärzte „wachen“ late"),
]
PICTURES = {
    "owls/barn.png": "an owl on the roof",
    "owls/night.png": "an owl at night",
    "people/late.png": "a person awake late",
    "people/rider.png": "a person on a bicycle",
    "red.png": "a red bicycle",
}
"""What PictureEncoder sees in each."""
CAPTIONS = {"owls/night.png": "an owl, at night", "red.png": "red"}


class Counting(PictureEncoder):
    """Counts what it encodes, and at some picture does something."""

    def __init__(self, at: str = "", does: Any = None):
        self.encoded: list[str] = []
        self.at, self.does = at, does

    def encode_images(self, images: Sequence[Path]) -> Vectors:
        for image in images:
            if self.at and self.at in str(image):
                self.does()
            self.encoded.append(image.read_text())
        return super().encode_images(images)


def put(folder: Path, pictures: dict[str, str] = PICTURES) -> Path:
    for name, shows in pictures.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(shows)
        if name in CAPTIONS:
            (folder / name).with_suffix(".txt").write_text(CAPTIONS[name])
    return folder


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.jsonl"
    rows = [json.dumps({"id": text.name, "text": text.caption}) for text in TEXTS]
    path.write_text("\n".join(rows))
    return path


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    return put(tmp_path / "pictures")


def search_all(index: Path | Index) -> list[tuple[Candidate, float]]:
    """All that an index holds, in the order of a search."""
    index = open_index(index) if isinstance(index, Path) else index
    return index.search(embed("a person awake late", "night owl"), WEIGHTS, 99)


def contents(index: Path) -> list[tuple[Candidate, list[float]]]:
    """All that an index holds, in its order, with vectors."""
    opened = open_index(index)
    rows, vectors = [], []
    for block, encoded in opened.entries.blocks(opened.tracks):
        rows += block.tolist()
        vectors += np.hstack(list(encoded.vectors.values())).tolist()
    return list(zip(opened.entries.candidates(rows), vectors, strict=True))


def draw_vectors(n: int, width: int = 8, seed: int = 0) -> np.ndarray:
    drawn = np.random.default_rng(seed).normal(size=(n, width)).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def embed(*texts: str) -> dict[str, np.ndarray]:
    encoded = WordEncoder().encode_texts(list(texts), role="query")
    return dict(zip(("gloss", "compound"), encoded, strict=True))


WEIGHTS = {"gloss": 0.8, "compound": -0.6}
TRACKS = {"image": 0.5, "caption": 1.0}


@given(st.integers(2, 40), st.integers(1, 12), st.integers(0, 99))
def test_search_sorts_by_the_sum_of_standardised_cosines(size: int, k: int, seed: int):
    rng = np.random.default_rng(seed)
    vectors = {track: rng.integers(-2, 3, (size, 2)).astype("f4") for track in TRACKS}
    present = {track: rng.random(size) < 0.8 for track in TRACKS}
    for mask in present.values():
        mask[:2] = True
    queries = {role: rng.integers(-2, 3, 2).astype("f4") for role in WEIGHTS}
    expected = np.zeros(size)
    for track, share in TRACKS.items():
        for role, query in queries.items():
            cosines = (vectors[track] @ query).astype(float)
            some = cosines[present[track]]
            standardised = (cosines - some.mean()) / (some.std() or 1)
            if WEIGHTS[role] < 0:
                standardised = standardised.clip(0)
            usual = standardised[present[track]].mean()
            expected += share * WEIGHTS[role] * np.where(present[track], standardised, usual)
    texts = [Candidate(str(number)) for number in range(size)]
    encoder = EncoderRecord(name="x", identity="x:1")
    index = Index(encoder, [*TRACKS], TextsInMemory(texts, Encoded(vectors, present)))
    results = index.search(queries, WEIGHTS, k, TRACKS)
    best = [int(text.name) for text, _ in results]
    assert [score for _, score in results] == pytest.approx(expected[best].tolist(), abs=1e-6)
    assert len(results) == min(k, size)
    assert np.sort(expected)[::-1][:k] == pytest.approx(expected[best], abs=1e-6)
    assert best == sorted(best, key=lambda number: (-round(expected[number], 6), number))


@pytest.mark.parametrize("engine", ["exact", "lance"])
def test_an_index_answers_as_its_texts_in_memory_do(monkeypatch, tmp_path, texts, engine):
    monkeypatch.setattr(lance_table, "BLOCK", 3)
    expected = search_all(index_texts(TEXTS, WordEncoder()))
    changed = write_index(texts, WordEncoder(), tmp_path / "index", engine=engine)
    assert changed == Changes(4, 4, 0, 0)
    results = search_all(tmp_path / "index")
    assert [text for text, _ in results] == [text for text, _ in expected]
    assert dict(results) == pytest.approx(dict(expected))


def stop() -> None:
    raise KeyboardInterrupt


INDEXING = """
import sys, time
from pathlib import Path
from test_tasks_collections_index import Counting
from admire.tasks.collections import changes, write_index

changes.BATCH = 2
source, out, wait = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
encoder = Counting(wait, lambda: time.sleep(600)) if wait else Counting()
write_index(source, encoder, out)
print(len(encoder.encoded))
"""


@pytest.mark.parametrize("at", ["people/late", "red"])
def test_an_index_survives_a_kill(monkeypatch, tmp_path: Path, pictures, at: str):
    monkeypatch.setattr(changes, "BATCH", 2)
    write_index(pictures, PictureEncoder(), tmp_path / "peer")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    command = [sys.executable, "-c", INDEXING, str(pictures), str(tmp_path / "index")]
    done = {"people/late": 2, "red": 4}[at]
    versions = tmp_path / "index.unfinished/table/entries.lance/_versions"
    with subprocess.Popen([*command, at]) as process:
        while len(list(versions.glob("*.manifest"))) <= done // 2:  # the first has no rows
            assert process.poll() is None
            time.sleep(0.05)
        process.kill()
    assert not (tmp_path / "index").exists()
    again = subprocess.run([*command, ""], check=True, capture_output=True, text=True)
    assert int(again.stdout) == len(PICTURES) - done
    assert contents(tmp_path / "index") == contents(tmp_path / "peer")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index", "peer", "pictures"]


def test_what_was_begun_with_another_encoder_begins_anew(monkeypatch, tmp_path, pictures, caplog):
    monkeypatch.setattr(changes, "BATCH", 2)
    with pytest.raises(KeyboardInterrupt):
        write_index(pictures, Counting("red", stop), tmp_path / "index")
    other = Counting()
    other.identity = "pictures:2"
    write_index(pictures, other, tmp_path / "index")
    assert other.encoded == list(PICTURES.values())
    assert "begins anew" in caplog.text


def test_damaged_pictures_are_left_out_with_one_warning(monkeypatch, tmp_path: Path, caplog):
    from PIL import Image

    class Looks(PictureEncoder):
        def encode_images(self, images):
            from admire.data.image_files import read_image

            colours = [str(read_image(image).getpixel((0, 0))) for image in images]
            return self.encode_texts(colours, role="document")

    monkeypatch.setattr(changes, "BATCH", 2)
    folder = tmp_path / "pictures"
    folder.mkdir()
    for k in range(4):
        Image.new("RGB", (8, 8), (k, 0, 0)).save(folder / f"{k}.png")
    cut(folder / "1.png")
    (folder / "2.png").write_bytes(b"")
    assert write_index(folder, Looks(), tmp_path / "index") == Changes(2, 2, 0, 2)
    assert [entry.name for entry, _ in search_all(tmp_path / "index")] == ["0.png", "3.png"]
    (warning,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert f"2 left out. The first is '1.png'. {folder / '1.png'}: " in warning.getMessage()
    assert add_to_index(folder, Counting("png", stop), tmp_path / "index").left_out == 2
    for k in range(4):
        (folder / f"{k}.png").write_bytes(b"")
    with pytest.raises(UserError, match=r"0\.png: "):
        write_index(folder, Looks(), tmp_path / "index")


def test_pictures_without_captions_need_an_encoder_that_sees(tmp_path: Path, pictures):
    assert write_index(pictures, WordEncoder(), tmp_path / "index").left_out == 3
    (pictures / "red.txt").unlink()
    (pictures / "owls/night.txt").unlink()
    with pytest.raises(UserError, match="has no caption"):
        write_index(pictures, WordEncoder(), tmp_path / "index")
    assert not (tmp_path / "index.unfinished").exists()


def test_adding_encodes_only_what_is_new_by_content(monkeypatch, tmp_path: Path, pictures):
    monkeypatch.setattr(changes, "BATCH", 2)
    write_index(pictures, PictureEncoder(), tmp_path / "index")
    put(pictures, PICTURES | {"red.png": "a blue bicycle", "new.png": "an owl"})
    encoder = Counting()
    assert add_to_index(pictures, encoder, tmp_path / "index") == Changes(6, 2, 1, 0)
    assert encoder.encoded == ["an owl", "a blue bicycle"]
    write_index(pictures, PictureEncoder(), tmp_path / "peer")
    entries, peer = (dict(search_all(tmp_path / name)) for name in ("index", "peer"))
    assert entries == pytest.approx(peer)


def test_adding_that_was_stopped_goes_on_and_shows_nothing_before(
    monkeypatch, tmp_path: Path, pictures
):
    monkeypatch.setattr(changes, "BATCH", 1)
    write_index(pictures, PictureEncoder(), tmp_path / "index")
    before = search_all(tmp_path / "index")
    put(pictures, {"red.png": "changed", "s.png": "an owl", "t.png": "a cat"})
    with pytest.raises(KeyboardInterrupt):
        add_to_index(pictures, Counting("t.png", stop), tmp_path / "index")
    assert search_all(tmp_path / "index") == before
    shutil.copytree(tmp_path / "index", tmp_path / "removed")
    assert remove_from_index(["red.png"], tmp_path / "removed") == Changes(4, 0, 1, 0)
    left = {entry.name for entry, _ in search_all(tmp_path / "removed")}
    assert left == PICTURES.keys() - {"red.png"}
    encoder = Counting()
    assert add_to_index(pictures, encoder, tmp_path / "index") == Changes(7, 3, 1, 0)
    assert encoder.encoded == ["a cat"]


def test_a_second_source_is_added_but_not_under_names_that_are_taken(tmp_path: Path, pictures):
    write_index(pictures, PictureEncoder(), tmp_path / "index")
    other = put(tmp_path / "other", {"cat.png": "a cat", "red.png": "a red bicycle"})
    assert add_to_index(other, PictureEncoder(), tmp_path / "index").new == 1  # the cat
    (other / "red.png").write_text("a red car")
    with pytest.raises(UserError, match=rf"'red\.png'.*{pictures}"):
        add_to_index(other, PictureEncoder(), tmp_path / "index")
    assert len(search_all(tmp_path / "index")) == 6


def test_things_are_removed_by_name_and_pattern(monkeypatch, tmp_path: Path, pictures):
    monkeypatch.setattr(changes, "BATCH", 3)
    write_index(pictures, PictureEncoder(), tmp_path / "index")
    before = contents(tmp_path / "index")
    for names, message in ((["owls/*", "cats"], "'cats'"), (["*"], "left")):
        with pytest.raises(UserError, match=message):
            remove_from_index(names, tmp_path / "index")
    assert contents(tmp_path / "index") == before
    assert remove_from_index(["owls/*", "red.png"], tmp_path / "index") == Changes(2, 0, 3, 0)
    for name in ("owls/barn.png", "owls/night.png", "red.png"):
        (pictures / name).unlink()
    write_index(pictures, PictureEncoder(), tmp_path / "peer")
    entries, peer = (dict(search_all(tmp_path / name)) for name in ("index", "peer"))
    assert entries == pytest.approx(peer)


def test_an_open_index_is_searched_as_it_was_whatever_becomes_of_the_folder(tmp_path, pictures):
    write_index(pictures, PictureEncoder(), tmp_path / "index")
    opened = open_index(tmp_path / "index")
    before = search_all(opened)
    remove_from_index(["owls/*"], tmp_path / "index")
    assert search_all(opened) == before
    assert len(search_all(tmp_path / "index")) == 3


def test_nothing_foreign_is_lost_to_an_index(tmp_path: Path, texts):
    """Once, a folder with thesis.txt in it came back without it."""
    folder, index = tmp_path / "work", tmp_path / "index"
    folder.mkdir()
    write_index(texts, WordEncoder(), index)
    for place in (folder, index):
        (place / "thesis.txt").write_text("years of work")
        with pytest.raises(UserError, match=r"thesis\.txt"):
            write_index(texts, WordEncoder(), place)
    with pytest.raises(UserError, match=r"thesis\.txt"):
        remove_from_index(["a"], index)
    assert (folder / "thesis.txt").exists()
    assert (index / "thesis.txt").exists()


def test_a_full_disk_ends_with_one_message_and_loses_nothing(monkeypatch, tmp_path, pictures):
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    monkeypatch.setattr(changes, "BATCH", 2)
    write_index(pictures, PictureEncoder(), tmp_path / "peer")

    def fill_disk() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (500, limits[1]))

    try:
        with pytest.raises(UserError, match=r"index\.unfinished: cannot be written \("):
            write_index(pictures, Counting("people", fill_disk), tmp_path / "index")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    encoder = Counting()
    write_index(pictures, encoder, tmp_path / "index")
    assert encoder.encoded == list(PICTURES.values())[2:]
    assert contents(tmp_path / "index") == contents(tmp_path / "peer")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def put_text(text: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(text)


@pytest.mark.parametrize(
    ("name", "harm", "words"),
    [
        ("index.json", cut, "index: is no index, or damaged"),
        ("index.json", Path.unlink, "index: .*No such file"),
        ("index.json", put_text('{"format": 3}'), "index: .*format 3"),
        ("index.json", put_text('{"format": 4}'), r"index\.json, encoder: "),
        ("index.json", put_text("[" * 100_000), "index: is no index, or damaged"),
        ("index.json", put_text("9" * 10_000), "index: is no index, or damaged"),
        ("table/*/_versions/*", cut, "index: "),
        ("table/*/data/*", cut, "index: "),
    ],
)
def test_a_damaged_index_is_refused(tmp_path: Path, texts, name: str, harm: Any, words: str):
    write_index(texts, WordEncoder(), tmp_path / "index")
    for path in (tmp_path / "index").glob(name):
        harm(path)
    with pytest.raises(UserError, match=words):
        search_all(tmp_path / "index")
    with pytest.raises(UserError, match="/index") as caught:
        export_index(tmp_path / "index", tmp_path / "x.parquet")
    assert "x.parquet" not in str(caught.value)


def test_an_index_of_lance_is_searched_like_the_exact_one(monkeypatch, tmp_path: Path, pictures):
    monkeypatch.setattr(changes, "BATCH", 2)
    for engine in ("exact", "lance"):
        write_index(pictures, PictureEncoder(), tmp_path / engine, engine=engine)
    opened = open_index(tmp_path / "lance")
    put(pictures, {"new.png": "a person at night"})
    for engine in ("exact", "lance"):
        add_to_index(pictures, PictureEncoder(), tmp_path / engine)
        remove_from_index(["people/rider.png"], tmp_path / engine)
    assert open_index(tmp_path / "lance").table
    lance, exact = (search_all(tmp_path / name) for name in ("lance", "exact"))
    assert [entry for entry, _ in lance] == [entry for entry, _ in exact]
    assert dict(lance) == pytest.approx(dict(exact))
    assert {entry.name for entry, _ in search_all(opened)} == PICTURES.keys()


class Pairs(PictureEncoder):
    """Vectors by the number in a picture or a caption; those of pictures are about topics."""

    def encode_texts(self, texts: Sequence[str], *, role: Any) -> Vectors:
        numbers = [int(text.split()[-1]) for text in texts]
        topics = draw_vectors(40, 32)[np.array(numbers) % 40]
        drawn = topics + 0.5 * draw_vectors(6000, 32, seed=2)[numbers]
        return (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype("f4")


def test_lance_finds_nearly_what_exact_search_finds(tmp_path: Path):
    (tmp_path / "pictures").mkdir()
    for k in range(2600):
        (tmp_path / f"pictures/{k}.png").write_text(str(k))
        if k % 3:
            (tmp_path / f"pictures/{k}.txt").write_text(f"caption {(7 * k) % 6000}")
    write_index(tmp_path / "pictures", Pairs(), tmp_path / "index", engine="lance")
    near = open_index(tmp_path / "index")
    exact, hits = replace(near, table=None), 0
    for query in draw_vectors(20, 32, seed=5):
        matches, best = (index.search({"x": query}, {"x": 1.0}, 10) for index in (near, exact))
        scores = dict(exact.search({"x": query}, {"x": 1.0}, 2600))
        assert all(score == pytest.approx(scores[entry], abs=1e-6) for entry, score in matches)
        hits += len({entry for entry, _ in matches} & {entry for entry, _ in best})
    assert hits > 190


# ----------------------------------------------------------------- an index that is a stranger's


def changed_table(index: Path, change: Callable[[Any], Any]) -> None:
    """Put another table into an index, as whoever made the index can."""
    import lancedb

    table = lancedb.connect(index / "table").open_table("entries").to_arrow()
    shutil.rmtree(index / "table")
    made = lancedb.connect(index / "table").create_table("entries", change(table))
    record = json.loads((index / "index.json").read_text()) | {"version": made.version}
    (index / "index.json").write_text(json.dumps(record))


def with_column(name: str, values: Any) -> Callable[[Any], Any]:
    import pyarrow

    def change(table: Any) -> Any:
        column = values(table[name])
        if isinstance(column, list):
            column = pyarrow.array(column, "string")
        return table.set_column(table.column_names.index(name), name, column)

    return change


@pytest.mark.parametrize(
    "name",
    [
        *("{secret}.png", "{secret}.tar/s.png", "{secret}.parquet/1", "{secret}.parquet/0"),
        *("/dev/zero", "/proc/self/pagemap", "{secret}", "{secret}\0.png", "x.tar/" + "a/" * 9000),
    ],
)
def test_only_a_picture_that_was_indexed_is_handed_out(tmp_path: Path, name: str):
    import pyarrow.parquet

    source = put(tmp_path / "pictures", {"owls/night.png": "an owl", "red.png": "an elk"})
    write_index(source, PictureEncoder(), tmp_path / "index")
    secret = tmp_path / "private" / "secret"
    put(secret.parent, {"secret.png": "a secret"})
    with tarfile.open(f"{secret}.tar", "w") as tar:
        tar.add(f"{secret}.png", "s.png")
    table = pyarrow.table({"image": [b"a secret"]})
    pyarrow.parquet.write_table(table, f"{secret}.parquet")
    names = [name.format(secret=secret), str(source / "red.png")]
    changed_table(tmp_path / "index", with_column("image", lambda _: names))
    entries = {entry.name: entry for entry, _ in search_all(tmp_path / "index")}
    lost, found = entries["owls/night.png"], entries["red.png"]
    assert read_picture(found) == b"an elk"
    with pytest.raises(UserError):
        read_picture(lost)
    (source / "red.png").write_text("changed since")
    with pytest.raises(UserError, match="is not the picture that was indexed"):
        read_picture(found)


def vectors_of(width: int, kind: Any) -> Callable[[Any], Any]:
    import pyarrow

    def values(column: Any) -> Any:
        flat = pyarrow.array(np.ones(len(column) * width).astype(kind))
        return pyarrow.FixedSizeListArray.from_arrays(flat, width)

    return with_column("caption_vector", values)


COLUMNS = ("id", "image", "caption", "source", "digest", "problem", "base", "caption_vector")

TABLES: dict[str, Callable[[Any], Any]] = {
    **{f"no {name}": lambda table, name=name: table.drop_columns([name]) for name in COLUMNS},
    "bytes for names": with_column("id", lambda column: column.cast("binary")),
    "no names": with_column("id", lambda column: [None] * len(column)),
    "other numbers": vectors_of(512, "f8"),
    "other widths": vectors_of(8, "f4"),
    "nothing": lambda table: table.slice(0, 0),
    "all left out": with_column("problem", lambda column: column.fill_null("x")),
}


@pytest.mark.parametrize("engine", ["exact", "lance"])
@pytest.mark.parametrize("change", TABLES.values(), ids=TABLES)
def test_a_table_with_other_columns_is_refused(tmp_path: Path, texts, engine, change: Any):
    write_index(texts, WordEncoder(), tmp_path / "index", engine=engine)
    changed_table(tmp_path / "index", change)
    with pytest.raises(UserError, match="index"):
        search_all(tmp_path / "index")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_vectors_that_are_no_numbers_count_as_missing(value: float):
    whole = index_texts(TEXTS, WordEncoder())
    vectors = whole.entries.encoded.vectors["caption"].copy()
    present = np.array([False, *[True] * (len(TEXTS) - 1)])

    def scores(present: np.ndarray) -> dict[str, float]:
        encoded = Encoded({"caption": vectors}, {"caption": present})
        index = replace(whole, entries=TextsInMemory(TEXTS, encoded))
        query = np.linspace(0.1, 1, vectors.shape[1], dtype="f4")
        results = index.search({"compound": query}, {"compound": 1.0}, 99)
        return {text.name: score for text, score in results}

    expected = scores(present)
    vectors[0] = value
    assert scores(~present | present) == expected
