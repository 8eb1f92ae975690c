from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Sequence
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
    add_to_index,
    building,
    exact,
    index_texts,
    open_index,
    remove_from_index,
    write_index,
)
from admire.tasks.collections.encoding import Encoded
from admire.tasks.collections.exact import Query, moments, search_all, tracks_in_memory

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
        self.seen: list[str] = []
        self.at, self.does = at, does

    def encode_images(self, images: Sequence[Path]) -> Vectors:
        for image in images:
            if self.at and self.at in str(image):
                self.does()
            self.seen.append(image.read_text())
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
    rows = [json.dumps({"id": one.name, "text": one.caption}) for one in TEXTS]
    path.write_text("\n".join(rows))
    return path


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    return put(tmp_path / "pictures")


def everything(index: Path) -> list[tuple[Candidate, float]]:
    """All that an index holds, in the order of a search."""
    opened = open_index(index)
    return opened.search(asked("a person awake late", "night owl"), WEIGHTS, opened.size)


def contents(index: Path) -> list[tuple[Candidate, list[float]]]:
    """All that an index holds, in its order, with vectors."""
    opened = open_index(index)
    vectors = np.hstack([track.vectors() for track in opened.tracks.values()])
    things = opened.things(list(range(opened.size)))
    return list(zip(things, vectors.tolist(), strict=True))


def vectors(n: int, width: int = 8, seed: int = 0) -> np.ndarray:
    drawn = np.random.default_rng(seed).normal(size=(n, width)).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def all_there(known: np.ndarray) -> np.ndarray:
    return np.ones(len(known), dtype=bool)


# ------------------------------------------------------------------------------------- searching


@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 9), st.integers(0, 99))
def test_exact_search_is_a_sort_however_the_vectors_are_cut(n, k, size, seed):
    rng = np.random.default_rng(seed)
    few = rng.integers(-2, 3, size=(n, 3)).astype(np.float32)  # many products are equal
    query = rng.integers(-2, 3, size=3).astype(np.float32)
    tracks = tracks_in_memory(Encoded({"image": few}, {"image": all_there(few)}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "BLOCK", size)
        places, scores = search_all(tracks, n, {"image": Query(query, 0.5)}, k)
    order = sorted(range(n), key=lambda place: (-float(few[place] @ query), place))[:k]
    assert places.tolist() == order
    assert scores.tolist() == [float(few[place] @ query) - 0.5 for place in order]


def test_moments_give_mean_and_deviation_of_any_querys_cosines():
    collection = vectors(30)
    first, second, third = (moments(part, all_there(part)) for part in np.split(collection, 3))
    for query in vectors(5, seed=1):
        cosines = collection[:20].astype(float) @ query.astype(float)
        total = first.plus(second).plus(third).plus(third, -1)
        assert total.of(query) == pytest.approx((cosines.mean(), cosines.std()))
    same = np.repeat(vectors(1), 5, axis=0)  # nothing is divided by zero
    assert moments(same, all_there(same)).of(same[0]) == pytest.approx((1.0, 1.0))


def asked(*texts: str) -> dict[str, np.ndarray]:
    encoded = WordEncoder().encode_texts(list(texts), role="query")
    return dict(zip(("gloss", "compound"), encoded, strict=True))


WEIGHTS = {"gloss": 0.8, "compound": -0.6}


def test_scores_are_the_weighted_sum_of_standardised_cosines():
    queries = asked("a person awake late", "night owl")
    documents = WordEncoder().encode_texts([str(t.caption) for t in TEXTS], role="document")
    expected = np.zeros(len(TEXTS))
    for role, query in queries.items():
        cosines = documents.astype(float) @ query.astype(float)
        expected += WEIGHTS[role] * (cosines - cosines.mean()) / cosines.std()
    answer = index_texts(TEXTS, WordEncoder()).search(queries, WEIGHTS, 4)
    found = {text.name: score for text, score in answer}
    assert [found[text.name] for text in TEXTS] == pytest.approx(expected.tolist(), abs=1e-5)


# ---------------------------------------------------------------------------- making, going on


def test_an_index_answers_as_its_things_in_memory_do(tmp_path: Path, pictures, texts):
    changes = write_index(pictures, PictureEncoder(), tmp_path / "index")
    assert (changes.things, changes.new, changes.gone, changes.left_out) == (5, 5, 0, 0)
    assert {one for one, _ in everything(tmp_path / "index")} == {
        Candidate(name, pictures / name, CAPTIONS.get(name)) for name in PICTURES
    }
    unindexed = index_texts(TEXTS, WordEncoder())
    queries = asked("a person awake late", "night owl")
    write_index(texts, WordEncoder(), tmp_path / "texts")
    found = open_index(tmp_path / "texts").search(queries, WEIGHTS, 3)
    assert found == [
        (thing, pytest.approx(score)) for thing, score in unindexed.search(queries, WEIGHTS, 3)
    ]


def stop() -> None:
    raise KeyboardInterrupt


INDEXING = """
import sys, time
from pathlib import Path
from test_tasks_collections_index import Counting
from admire.tasks.collections import building, write_index

building.BATCH = 2
source, out, wait = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
encoder = Counting(wait, lambda: time.sleep(600)) if wait else Counting()
write_index(source, encoder, out)
print(len(encoder.seen))
"""


@pytest.mark.parametrize("at", ["people/late", "red"])
def test_an_index_survives_a_kill(monkeypatch, tmp_path: Path, pictures, at: str):
    monkeypatch.setattr(building, "BATCH", 2)
    write_index(pictures, PictureEncoder(), tmp_path / "peer")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    command = [sys.executable, "-c", INDEXING, str(pictures), str(tmp_path / "index")]
    done = {"people/late": 2, "red": 4}[at]
    versions = tmp_path / "index.unfinished/table/things.lance/_versions"
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
    monkeypatch.setattr(building, "BATCH", 2)
    with pytest.raises(KeyboardInterrupt):
        write_index(pictures, Counting("red", stop), tmp_path / "index")
    other = Counting()
    other.identity = "pictures:2"
    write_index(pictures, other, tmp_path / "index")
    assert other.seen == list(PICTURES.values())
    assert "begins anew" in caplog.text


def test_damaged_pictures_are_left_out_with_one_warning(monkeypatch, tmp_path: Path, caplog):
    from PIL import Image

    class Looks(PictureEncoder):
        def encode_images(self, images):
            from admire.data.image_files import read_image

            colours = [str(read_image(image).getpixel((0, 0))) for image in images]
            return self.encode_texts(colours, role="document")

    monkeypatch.setattr(building, "BATCH", 2)
    folder = tmp_path / "pictures"
    folder.mkdir()
    for k in range(4):
        Image.new("RGB", (8, 8), (k, 0, 0)).save(folder / f"{k}.png")
    cut(folder / "1.png")
    (folder / "2.png").write_bytes(b"")
    changes = write_index(folder, Looks(), tmp_path / "index")
    assert (changes.things, changes.left_out) == (2, 2)
    assert [one.name for one, _ in everything(tmp_path / "index")] == ["0.png", "3.png"]
    (warning,) = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert f"2 left out. The first is '1.png'. {folder / '1.png'}: " in warning.getMessage()
    assert add_to_index(folder, Counting("png", stop), tmp_path / "index").left_out == 2
    for k in range(4):
        (folder / f"{k}.png").write_bytes(b"")
    with pytest.raises(UserError, match=r"nothing of it can be indexed.*is empty"):
        write_index(folder, Looks(), tmp_path / "index")


def test_pictures_without_captions_need_an_encoder_that_sees(tmp_path: Path, pictures):
    assert write_index(pictures, WordEncoder(), tmp_path / "index").left_out == 3
    (pictures / "red.txt").unlink()
    (pictures / "owls/night.txt").unlink()
    with pytest.raises(UserError, match=r"the encoder 'words' reads no pictures"):
        write_index(pictures, WordEncoder(), tmp_path / "index")
    assert not (tmp_path / "index.unfinished").exists()


# ----------------------------------------------------------------------------- adding, removing


def test_adding_encodes_only_what_is_new_by_content(monkeypatch, tmp_path: Path, pictures):
    monkeypatch.setattr(building, "BATCH", 2)
    write_index(pictures, PictureEncoder(), tmp_path / "index")
    put(
        pictures,
        {"red.png": "a blue bicycle", "new.png": "an owl", "owls/night.png": "an owl at night"},
    )
    os.utime(pictures / "owls/barn.png")
    encoder = Counting()
    changes = add_to_index(pictures, encoder, tmp_path / "index")
    assert encoder.seen == ["an owl", "a blue bicycle"]
    assert (changes.things, changes.new, changes.gone) == (6, 2, 1)
    write_index(pictures, PictureEncoder(), tmp_path / "peer")
    found, peer = (dict(everything(tmp_path / name)) for name in ("index", "peer"))
    assert found == pytest.approx(peer)


def test_adding_that_was_stopped_goes_on_and_shows_nothing_before(
    monkeypatch, tmp_path: Path, pictures
):
    monkeypatch.setattr(building, "BATCH", 1)
    write_index(pictures, PictureEncoder(), tmp_path / "index")
    before = everything(tmp_path / "index")
    put(pictures, {"red.png": "changed", "s.png": "an owl", "t.png": "a cat"})
    with pytest.raises(KeyboardInterrupt):
        add_to_index(pictures, Counting("t.png", stop), tmp_path / "index")
    assert everything(tmp_path / "index") == before
    encoder = Counting()
    changes = add_to_index(pictures, encoder, tmp_path / "index")
    assert encoder.seen == ["a cat"]
    assert (changes.things, changes.new, changes.gone) == (7, 3, 1)


def test_a_second_source_is_added_but_not_under_names_that_are_taken(tmp_path: Path, pictures):
    write_index(pictures, PictureEncoder(), tmp_path / "index")
    other = put(tmp_path / "other", {"cat.png": "a cat", "red.png": "a red bicycle"})
    assert add_to_index(other, PictureEncoder(), tmp_path / "index").new == 1  # one is the same
    (other / "red.png").write_text("a red car")
    with pytest.raises(UserError, match=rf"'red\.png' is in the index already, from {pictures}"):
        add_to_index(other, PictureEncoder(), tmp_path / "index")
    assert open_index(tmp_path / "index").size == 6


def test_things_are_removed_by_name_and_pattern(monkeypatch, tmp_path: Path, pictures):
    monkeypatch.setattr(building, "BATCH", 3)
    write_index(pictures, PictureEncoder(), tmp_path / "index")
    before = contents(tmp_path / "index")
    for names, message in ((["owls/*", "cats"], "holds nothing called 'cats'"), (["*"], "left")):
        with pytest.raises(UserError, match=message):
            remove_from_index(names, tmp_path / "index")
    assert contents(tmp_path / "index") == before
    changes = remove_from_index(["owls/*", "red.png"], tmp_path / "index")
    assert (changes.things, changes.gone) == (2, 3)
    put(pictures)
    for name in (*(n for n in PICTURES if "owl" in n), "red.png"):
        (pictures / name).unlink()
    write_index(pictures, PictureEncoder(), tmp_path / "peer")
    found, peer = (dict(everything(tmp_path / name)) for name in ("index", "peer"))
    assert found == pytest.approx(peer)


def test_an_open_index_is_searched_as_it_was_whatever_becomes_of_the_folder(tmp_path, pictures):
    write_index(pictures, PictureEncoder(), tmp_path / "index")
    opened = open_index(tmp_path / "index")
    queries = asked("a person awake late", "night owl")
    before = opened.search(queries, WEIGHTS, 5)
    remove_from_index(["owls/*"], tmp_path / "index")
    assert opened.search(queries, WEIGHTS, 5) == before
    assert open_index(tmp_path / "index").size == 3


# ------------------------------------------------------------------------- what cannot be done


def test_nothing_foreign_is_lost_to_an_index(tmp_path: Path, texts):
    """Once, a folder with thesis.txt in it came back without it."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work")
    with pytest.raises(UserError, match=r"thesis\.txt"):
        write_index(texts, WordEncoder(), folder)
    write_index(texts, WordEncoder(), tmp_path / "index")
    (tmp_path / "index/thesis.txt").write_text("years of work")
    for change in (
        lambda: write_index(texts, WordEncoder(), tmp_path / "index"),
        lambda: remove_from_index(["a"], tmp_path / "index"),
    ):
        with pytest.raises(UserError, match=r"thesis\.txt"):
            change()
    assert (folder / "thesis.txt").exists()
    assert (tmp_path / "index/thesis.txt").exists()


def test_a_full_disk_ends_with_one_message_and_loses_nothing(monkeypatch, tmp_path, pictures):
    write_index(pictures, PictureEncoder(), tmp_path / "peer")

    def full(*arguments: Any, **named: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", full)
        with pytest.raises(UserError, match=r"cannot be written \(No space left on device"):
            write_index(pictures, PictureEncoder(), tmp_path / "index")
    goes_on = Counting()
    write_index(pictures, goes_on, tmp_path / "index")
    assert goes_on.seen == []
    assert contents(tmp_path / "index") == contents(tmp_path / "peer")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize(
    ("name", "harm", "words"),
    [
        ("index.json", cut, r"index: is no index, or damaged"),
        ("index.json", Path.unlink, r"index: is no index, or damaged \(No such file"),
        ("index.json", lambda path: path.write_text('{"format": 2}'), r"another version.*format 2"),
        (
            "index.json",
            lambda path: path.write_text('{"format": 3}'),
            r"index.json, encoder: is mi",
        ),
        ("search/*/moments.npz", cut, r"index: is no index, or damaged"),
        ("search/*/things.jsonl", cut, r"index cannot be read any more"),
    ],
)
def test_a_damaged_index_is_refused(tmp_path: Path, texts, name: str, harm: Any, words: str):
    write_index(texts, WordEncoder(), tmp_path / "index")
    (path,) = (tmp_path / "index").glob(name)
    harm(path)
    with pytest.raises(UserError, match=words):
        everything(tmp_path / "index")


def test_files_of_exact_search_that_are_gone_are_made_again_from_the_table(tmp_path, texts):
    write_index(texts, WordEncoder(), tmp_path / "index")
    before = contents(tmp_path / "index")
    (path,) = (tmp_path / "index").glob("search/*/moments.npz")
    cut(path)
    add_to_index(texts, WordEncoder(), tmp_path / "index")
    assert contents(tmp_path / "index") == before


# ---------------------------------------------------------------------------------------- lance


def test_an_index_of_lance_is_searched_like_the_exact_one(monkeypatch, tmp_path: Path, pictures):
    monkeypatch.setattr(building, "BATCH", 2)
    for engine in ("exact", "lance"):
        write_index(pictures, PictureEncoder(), tmp_path / engine, engine=engine)
    opened = open_index(tmp_path / "lance")
    put(pictures, {"new.png": "a person at night"})
    for engine in ("exact", "lance"):
        add_to_index(pictures, PictureEncoder(), tmp_path / engine)
        remove_from_index(["people/rider.png"], tmp_path / engine)
    assert open_index(tmp_path / "lance").table
    lance, exact = (everything(tmp_path / name) for name in ("lance", "exact"))
    assert [thing for thing, _ in lance] == [thing for thing, _ in exact]
    assert [score for _, score in lance] == pytest.approx([score for _, score in exact])
    found = opened.search(asked("a person awake late", "night owl"), WEIGHTS, 5)
    assert {one.name for one, _ in found} == PICTURES.keys() - {"people/rider.png"}


class Pairs(PictureEncoder):
    """Vectors by the number in a picture or a caption; those of pictures are about topics."""

    def encode_texts(self, texts: Sequence[str], *, role: Any) -> Vectors:
        numbers = [int(text.split()[-1]) for text in texts]
        topics = vectors(40, 32)[np.array(numbers) % 40]
        drawn = topics + 0.5 * vectors(6000, 32, seed=2)[numbers]
        return (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype("f4")


def test_lance_finds_nearly_what_exact_search_finds(tmp_path: Path):
    for k in range(2600):
        (tmp_path / "pictures").mkdir(exist_ok=True)
        (tmp_path / f"pictures/{k}.png").write_text(str(k))
        if k % 3:
            (tmp_path / f"pictures/{k}.txt").write_text(f"caption {(7 * k) % 6000}")
    write_index(tmp_path / "pictures", Pairs(), tmp_path / "index", engine="lance")
    near = open_index(tmp_path / "index")
    every, hits = replace(near, table=None), 0
    for query in vectors(20, 32, seed=5):
        found, wanted = (one.search({"x": query}, {"x": 1.0}, 10) for one in (near, every))
        scores = dict(every.search({"x": query}, {"x": 1.0}, 2600))
        assert all(score == pytest.approx(scores[thing], abs=1e-6) for thing, score in found)
        hits += len({one for one, _ in found} & {one for one, _ in wanted})
    assert hits > 190
