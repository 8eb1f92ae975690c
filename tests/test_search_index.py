import json
import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from conftest import full_disk
from hypothesis import given
from hypothesis import strategies as st
from toys import Looking, PictureEncoder, WordEncoder

from admire.apps.search import (
    Changes,
    Entry,
    Index,
    add_to_index,
    index_texts,
    lance_table,
    open_index,
    remove_from_index,
    write_index,
)
from admire.apps.search.encoding import Batch, EncoderRecord, encode_batches
from admire.apps.search.index import EntriesInMemory, export_index
from admire.core.errors import UserError
from admire.data.items import Candidate
from admire.encoders import TextEncoder, Vectors
from admire.encoders.cached import CachedEncoder
from admire.encoders.windows import Windows

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
            if self.at and self.at in f"{image}: {image.read_text()}":
                self.does()
            self.encoded.append(image.read_text())
        return super().encode_images(images)


def in_pairs(batches: Iterable[Sequence[Entry]], encoder: TextEncoder) -> Iterator[Batch]:
    """Encode two entries at a time, so that a few have several batches."""
    entries = chain.from_iterable(batches)
    return encode_batches(iter(lambda: [*islice(entries, 2)], []), encoder)


def put(folder: Path, pictures: dict[str, str] = PICTURES) -> Path:
    for name, shows in pictures.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(shows)
        if name in CAPTIONS:
            (folder / name).with_suffix(".txt").write_text(CAPTIONS[name])
    return folder


def write_texts(path: Path, texts: Sequence[Candidate]) -> Path:
    rows = [json.dumps({"id": text.name, "text": text.caption}) for text in texts]
    path.write_text("\n".join(rows))
    return path


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    return write_texts(tmp_path / "texts.jsonl", TEXTS)


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    return put(tmp_path / "pictures")


def search_all(index: Path | Index) -> list[tuple[Candidate, float]]:
    index = open_index(index) if isinstance(index, Path) else index
    texts = ["a person awake late", "night owl"]
    queries = dict(zip(WEIGHTS, WordEncoder().encode_texts(texts, role="query"), strict=True))
    return index.search(queries, WEIGHTS, 99)


def draw_vectors(n: int, width: int = 8, seed: int = 0) -> np.ndarray:
    drawn = np.random.default_rng(seed).normal(size=(n, width)).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


WEIGHTS = {"gloss": 0.8, "compound": -0.6}
TRACKS = {"image": 0.5, "caption": 1.0}


class Short(WordEncoder):
    name = identity = "short"
    max_tokens = 4

    def count_tokens(self, text: str) -> int:
        return len(text.split())


def test_a_long_text_is_found_by_its_best_window_in_an_index_on_disk_as_in_memory(tmp_path: Path):
    rows = {"long": "a red bicycle stands near a person awake late", "short": "a person sleeps"}
    texts = [Candidate(name, caption=text) for name, text in rows.items()]
    write_index(write_texts(tmp_path / "texts.jsonl", texts), Short(), tmp_path / "index")
    disk, memory = search_all(tmp_path / "index"), search_all(index_texts(texts, Short()))
    assert [entry.name for entry, _ in disk] == ["long", "short"]
    assert [score for _, score in disk] == pytest.approx([score for _, score in memory])
    export_index(tmp_path / "index", tmp_path / "index.parquet")
    more = pd.read_parquet(tmp_path / "index.parquet")["caption_more"]
    assert [None if own is None else len(own) for own in more] == [2 * 512, None]


@given(st.integers(2, 40), st.integers(1, 12), st.integers(0, 99))
def test_search_sorts_by_the_sum_of_standardised_cosines(size: int, k: int, seed: int):
    rng = np.random.default_rng(seed)
    vectors = {track: rng.integers(-2, 3, (size, 2)).astype("f4") for track in TRACKS}
    present = {track: (rng.random(size) < 0.8) | (np.arange(size) < 2) for track in TRACKS}
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
    for track, mask in present.items():
        vectors[track][~mask] = np.nan
    encoded = {track: Windows.of(own) for track, own in vectors.items()}
    entries = EntriesInMemory([Entry(str(number)) for number in range(size)], encoded)
    index = Index(EncoderRecord(name="x", identity="x:1"), [*TRACKS], entries)
    results = index.search(queries, WEIGHTS, k, TRACKS)
    best = [int(text.name) for text, _ in results]
    assert [score for _, score in results] == pytest.approx(expected[best].tolist(), abs=1e-6)
    assert len(results) == min(k, size)
    assert np.sort(expected)[::-1][:k] == pytest.approx(expected[best], abs=1e-6)
    assert best == sorted(best, key=lambda number: (-round(expected[number], 6), number))


def test_an_index_answers_as_its_texts_in_memory_do(tmp_path):
    """Of so many that they are read in more than one block."""
    many = [Candidate(f"{k}", caption=f"{TEXTS[k % 4].caption}, no. {k}") for k in range(4200)]
    texts = write_texts(tmp_path / "many.jsonl", many)
    expected = search_all(index_texts(many, WordEncoder()))
    assert write_index(texts, WordEncoder(), tmp_path / "index") == Changes(4200, 4200, 0, 0)
    results = search_all(tmp_path / "index")
    assert [text for text, _ in results] == [text for text, _ in expected]
    assert dict(results) == pytest.approx(dict(expected))


ADDING = """
import sys, time
from pathlib import Path
from test_search_index import CachedEncoder, Counting, in_pairs
from admire.apps.search import add_to_index

encoder = CachedEncoder(Counting("a bat", lambda: time.sleep(600)))
add_to_index(Path(sys.argv[1]), encoder, Path(sys.argv[2]), encode=in_pairs)
"""


@pytest.mark.ci
def test_an_addition_that_is_killed_shows_nothing_and_is_undone_by_the_next_change(
    monkeypatch, tmp_path: Path, pictures: Path
):
    index, copy = tmp_path / "index", tmp_path / "copy"
    write_index(pictures, PictureEncoder(), index, encode=in_pairs)
    animals = ("a cat", "a dog", "a bat", "an elk")
    before, source = search_all(index), tmp_path / "more"
    put(source, {f"{number}.png": animal for number, animal in enumerate(animals)})
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    versions = index / "table/entries.lance/_versions"
    complete = len([*versions.iterdir()])
    with subprocess.Popen([sys.executable, "-c", ADDING, str(source), str(index)]) as process:
        while len([*versions.iterdir()]) == complete:
            assert process.poll() is None
            time.sleep(0.05)
        process.kill()
    assert search_all(index) == before
    shutil.copytree(index, copy)
    assert remove_from_index(["red.png"], copy) == Changes(4, 0, 1, 0)
    assert {entry.name for entry, _ in search_all(copy)} == PICTURES.keys() - {"red.png"}
    encoder = Counting()
    assert add_to_index(source, CachedEncoder(encoder), index) == Changes(9, 4, 0, 0)
    assert encoder.encoded == ["a bat", "an elk"], "the others are in the cache of vectors"


def test_an_index_that_is_interrupted_leaves_nothing_but_the_cache(tmp_path, pictures):
    index, encoder = tmp_path / "index", Counting()
    stopped = Counting("red", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        write_index(pictures, CachedEncoder(stopped), index, encode=in_pairs)
    assert [path.name for path in tmp_path.iterdir()] == ["pictures"]
    write_index(pictures, CachedEncoder(encoder), index)
    assert encoder.encoded == ["a red bicycle"]
    assert len(search_all(index)) == len(PICTURES)


def test_damaged_pictures_are_left_out_with_one_warning(tmp_path: Path, caplog):
    from PIL import Image

    folder = tmp_path / "pictures"
    folder.mkdir()
    for k in range(4):
        Image.new("RGB", (8, 8), (k, 0, 0)).save(folder / f"{k}.png")
    cut(folder / "1.png")
    (folder / "2.png").write_bytes(b"")
    changes = write_index(folder, Looking(), tmp_path / "index", encode=in_pairs)
    assert changes == Changes(2, 2, 0, 2)
    assert [entry.name for entry, _ in search_all(tmp_path / "index")] == ["0.png", "3.png"]
    (warning,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert f"{folder}: 2 left out, such as {folder / '1.png'}: " in warning.getMessage()
    assert add_to_index(folder, Looking(), tmp_path / "index") == Changes(2, 0, 0, 2)
    for k in range(4):
        (folder / f"{k}.png").write_bytes(b"")
    with pytest.raises(UserError, match=r"0\.png: "):
        write_index(folder, Looking(), tmp_path / "index")


def test_pictures_without_captions_need_an_encoder_that_sees(tmp_path: Path, pictures):
    assert write_index(pictures, WordEncoder(), tmp_path / "index").left_out == 3
    (pictures / "red.txt").unlink()
    (pictures / "owls/night.txt").unlink()
    with pytest.raises(UserError, match="has no caption"):
        write_index(pictures, WordEncoder(), tmp_path / "index")
    assert search_all(tmp_path / "index"), "the index before it is still there"


def test_adding_encodes_only_what_is_new_by_content(tmp_path: Path, pictures):
    write_index(pictures, PictureEncoder(), tmp_path / "index")
    put(pictures, PICTURES | {"red.png": "a blue bicycle", "new.png": "an owl"})
    encoder = Counting()
    changes = add_to_index(pictures, encoder, tmp_path / "index", encode=in_pairs)
    assert changes == Changes(6, 2, 1, 0)
    assert encoder.encoded == ["an owl", "a blue bicycle"]
    write_index(pictures, PictureEncoder(), tmp_path / "peer")
    entries, peer = (dict(search_all(tmp_path / name)) for name in ("index", "peer"))
    assert entries == pytest.approx(peer)


def test_a_second_source_is_added_but_not_under_names_that_are_taken(tmp_path: Path, pictures):
    write_index(pictures, PictureEncoder(), tmp_path / "index")
    other = put(tmp_path / "other", {"cat.png": "a cat", "red.png": "a red bicycle"})
    assert add_to_index(other, PictureEncoder(), tmp_path / "index").new == 1  # the cat
    (other / "red.png").write_text("a red car")
    with pytest.raises(UserError, match=rf"'red\.png'.*{pictures}"):
        add_to_index(other, PictureEncoder(), tmp_path / "index")
    assert len(search_all(tmp_path / "index")) == 6


def test_entries_are_removed_by_name_or_pattern_but_not_from_an_open_index(
    tmp_path: Path, pictures: Path
):
    index = tmp_path / "index"
    write_index(pictures, PictureEncoder(), index, encode=in_pairs)
    opened, before = open_index(index), search_all(index)
    for names, message in ((["owls/*", "cats"], "'cats'"), (["*"], "left")):
        with pytest.raises(UserError, match=message):
            remove_from_index(names, index)
    assert search_all(index) == before
    assert remove_from_index(["owls/*", "red.png"], index) == Changes(2, 0, 3, 0)
    left = {entry.name for entry, _ in search_all(index)}
    assert left == {"people/late.png", "people/rider.png"}
    assert search_all(opened) == before


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


def test_a_full_disk_ends_with_one_message_and_loses_nothing(tmp_path, pictures):
    write_index(pictures, PictureEncoder(), tmp_path / "index")
    before = search_all(tmp_path / "index")
    put(pictures, {"s.png": "an owl", "t.png": "a cat"})

    for change in (write_index, add_to_index):
        with ExitStack() as disk:
            encoder = Counting("t.png", lambda: disk.enter_context(full_disk(500)))
            with pytest.raises(UserError, match=r"/index: cannot be written \("):
                change(pictures, encoder, tmp_path / "index", encode=in_pairs)
        assert search_all(tmp_path / "index") == before
    assert add_to_index(pictures, PictureEncoder(), tmp_path / "index").entries == 7


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def text(content: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(content)


@pytest.mark.parametrize(
    ("name", "harm", "words"),
    [
        ("index.json", cut, "index: is not an index, or damaged"),
        ("index.json", Path.unlink, "index: .*No such file"),
        ("index.json", text('{"format": 3}'), "index: .*format 3"),
        ("index.json", text('{"format": 5}'), r"index\.json, encoder: "),
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


class Numbered(PictureEncoder):
    """Vectors by the number in a picture or a caption, about 40 topics."""

    def encode_texts(self, texts: Sequence[str], *, role: Any) -> Vectors:
        numbers = [int(text) for text in texts]
        topics = draw_vectors(40, 32)[np.array(numbers) % 40]
        drawn = topics + 0.5 * draw_vectors(6000, 32, seed=2)[numbers]
        return (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype("f4")


@pytest.fixture
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lance_table, "INDEXED", 300)


@pytest.mark.ci
@pytest.mark.usefixtures("few_are_many")
def test_a_large_collection_has_an_index_that_finds_nearly_what_comparing_all_finds(tmp_path: Path):
    folder = put(tmp_path / "pictures", {f"{k}.png": str(k) for k in range(299)})
    for k in range(0, 299, 3):
        (folder / f"{k}.txt").write_text(str((7 * k) % 6000))
    write_index(folder, Numbered(), tmp_path / "index")
    opened = open_index(tmp_path / "index")
    assert not opened.table
    put(folder, {f"{k}.png": str(k) for k in range(299, 2600)})
    add_to_index(folder, Numbered(), tmp_path / "index")
    near = open_index(tmp_path / "index")
    assert near.table
    exact, hits = replace(near, table=None), 0
    for query in draw_vectors(20, 32, seed=5):
        matches, best = (index.search({"x": query}, {"x": 1.0}, 10) for index in (near, exact))
        scores = dict(exact.search({"x": query}, {"x": 1.0}, 2600))
        assert all(score == pytest.approx(scores[entry], abs=1e-6) for entry, score in matches)
        hits += len({entry for entry, _ in matches} & {entry for entry, _ in best})
    assert hits > 190
    remove_from_index(["*1.png"], tmp_path / "index")
    left = open_index(tmp_path / "index").search({"x": draw_vectors(1, 32)[0]}, {"x": 1.0}, 2600)
    assert {entry.name[-5] for entry, _ in left} == set("023456789")
    assert len(opened.search({"x": draw_vectors(1, 32)[0]}, {"x": 1.0}, 2600)) == 299


@pytest.mark.usefixtures("few_are_many")
def test_a_few_captions_in_a_large_collection_count(monkeypatch, tmp_path: Path):
    """Once, all scores were NaN where a sample of the entries had no caption."""
    monkeypatch.setattr(lance_table, "SAMPLE", 20)
    folder = put(tmp_path / "pictures", {f"{k}.png": str(k) for k in range(300)})
    for k in (7, 8):
        (folder / f"{k}.txt").write_text(str(k))
    write_index(folder, Numbered(), tmp_path / "index")
    near = open_index(tmp_path / "index")
    assert near.table
    query = {"x": draw_vectors(1, 32)[0]}
    for sign in (1, -1):
        asked = query, {"x": sign}, 9, {"image": 0, "caption": 1}
        both = (index.search(*asked) for index in (near, replace(near, table=None)))
        found, best = ([entry.name for entry, _ in matches] for matches in both)
        assert found[0] == best[0]
        assert set(found) & {"7.png", "8.png"} == set(best) & {"7.png", "8.png"}
