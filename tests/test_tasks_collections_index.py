from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import hide
from hypothesis import given
from hypothesis import strategies as st
from toys import PictureEncoder, WordEncoder

from admire.base.errors import UserError
from admire.data.items import Candidate
from admire.models.encoders import Vectors
from admire.tasks.collections import (
    add_to_index,
    index_texts,
    open_index,
    remove_from_index,
    write_index,
)
from admire.tasks.collections import shards as sharding
from admire.tasks.collections.index import Asked, Exact
from admire.tasks.collections.shards import Held, moments

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


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def vectors(n: int, width: int = 8, seed: int = 0) -> np.ndarray:
    found = np.random.default_rng(seed).normal(size=(n, width)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def held(known: np.ndarray) -> Held:
    mask = np.ones(len(known), dtype=bool)
    return Held([Candidate(str(k)) for k in range(len(known))], {"image": known}, {"image": mask})


# ------------------------------------------------------------------------------------- searching


@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 9), st.integers(0, 99))
def test_exact_search_is_a_sort_however_the_vectors_are_cut(n, k, size, seed):
    rng = np.random.default_rng(seed)
    few = rng.integers(-2, 3, size=(n, 3)).astype(np.float32)  # many products are equal
    query = rng.integers(-2, 3, size=3).astype(np.float32)
    shards = [held(few[start : start + size]) for start in range(0, n, size)]
    places, scores = Exact(shards).search({"image": Asked(query, 0.5)}, k)
    order = sorted(range(n), key=lambda place: (-float(few[place] @ query), place))[:k]
    assert places.tolist() == order
    assert scores.tolist() == [float(few[place] @ query) - 0.5 for place in order]


@pytest.mark.parametrize("block", [1, 7, 1000])
def test_moments_give_mean_and_deviation_of_any_querys_cosines(monkeypatch, block):
    monkeypatch.setattr(sharding, "BLOCK", block)
    collection = vectors(30)
    found = moments(collection[:11]) + moments(collection[11:])
    for query in vectors(5, seed=1):
        cosines = collection.astype(float) @ query.astype(float)
        assert found.of(query) == pytest.approx((cosines.mean(), cosines.std()))


def test_where_all_cosines_are_the_same_nothing_is_divided_by_zero():
    same = np.repeat(vectors(1), 5, axis=0)
    assert moments(same).of(same[0]) == pytest.approx((1.0, 1.0))


def asked(*texts: str) -> dict[str, np.ndarray]:
    encoded = WordEncoder().encode_texts(list(texts), role="query")
    return dict(zip(("gloss", "compound"), encoded, strict=True))


WEIGHTS = {"gloss": 0.8, "compound": -0.6}


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_an_index_on_disk_answers_as_one_in_memory(monkeypatch, tmp_path: Path, texts, size: int):
    monkeypatch.setattr(sharding, "SHARD", size)
    write_index(texts, WordEncoder(), tmp_path / "index")
    found = open_index(tmp_path / "index")
    queries = asked("a person awake late", "night owl")
    answer = found.search(queries, WEIGHTS, 4)
    held = index_texts(TEXTS, WordEncoder()).search(queries, WEIGHTS, 4)
    assert [thing for thing, _ in answer] == [thing for thing, _ in held]
    assert [score for _, score in answer] == pytest.approx([score for _, score in held])
    assert answer[0][0].name == "b"
    assert found.search(queries, WEIGHTS, 2) == answer[:2]
    assert found.size == 4


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


def test_pictures_are_kept_with_paths_and_captions(tmp_path: Path, pictures):
    changes = write_index(pictures, PictureEncoder(), tmp_path / "index")
    assert (changes.things, changes.new, changes.gone, changes.left_out) == (5, 5, 0, 0)
    assert {one for one, _ in everything(tmp_path / "index")} == {
        Candidate(name, pictures / name, CAPTIONS.get(name)) for name in PICTURES
    }


def stop() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("at", ["owls/night", "people/rider", "red"])
def test_a_call_that_was_stopped_goes_on_with_the_shards_that_are_missing(
    monkeypatch, tmp_path: Path, pictures, at
):
    monkeypatch.setattr(sharding, "SHARD", 2)
    write_index(pictures, PictureEncoder(), tmp_path / "peer")
    with pytest.raises(KeyboardInterrupt):
        write_index(pictures, Counting(at, stop), tmp_path / "index")
    assert not (tmp_path / "index").exists()
    done = len(list((tmp_path / "index.unfinished/shards").glob("0*/things.jsonl")))
    goes_on = Counting()
    write_index(pictures, goes_on, tmp_path / "index")
    assert goes_on.seen == list(PICTURES.values())[2 * done :]
    assert files(tmp_path / "index") == files(tmp_path / "peer")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index", "peer", "pictures"]


def test_a_shard_that_lacks_in_the_middle_or_is_damaged_is_made_again(
    monkeypatch, tmp_path: Path, pictures
):
    """So a worker of several that dies costs its shard alone."""
    monkeypatch.setattr(sharding, "SHARD", 2)
    write_index(pictures, PictureEncoder(), tmp_path / "peer")
    with pytest.raises(KeyboardInterrupt):
        write_index(pictures, Counting("red", stop), tmp_path / "index")
    cut(tmp_path / "index.unfinished/shards/00000/image.npy")
    goes_on = Counting()
    write_index(pictures, goes_on, tmp_path / "index")
    assert len(goes_on.seen) == 3
    assert files(tmp_path / "index") == files(tmp_path / "peer")


def test_what_was_begun_with_another_encoder_begins_anew(monkeypatch, tmp_path, pictures, caplog):
    monkeypatch.setattr(sharding, "SHARD", 2)
    with pytest.raises(KeyboardInterrupt):
        write_index(pictures, Counting("red", stop), tmp_path / "index")
    other = Counting()
    other.identity = "pictures:2"
    write_index(pictures, other, tmp_path / "index")
    assert other.seen == list(PICTURES.values())
    assert "begins anew" in caplog.text


def test_an_index_that_is_made_again_replaces_the_old_one_only_when_it_is_whole(
    tmp_path: Path, pictures
):
    write_index(pictures, PictureEncoder(), tmp_path / "index")
    before = files(tmp_path / "index")
    (pictures / "red.png").unlink()
    with pytest.raises(KeyboardInterrupt):
        write_index(pictures, Counting("rider", stop), tmp_path / "index")
    assert files(tmp_path / "index") == before
    write_index(pictures, PictureEncoder(), tmp_path / "index")
    assert open_index(tmp_path / "index").size == 4


def test_damaged_pictures_are_left_out_with_one_warning(monkeypatch, tmp_path: Path, caplog):
    from PIL import Image

    class Looks(PictureEncoder):
        def encode_images(self, images):
            from admire.data.pictures import read_image

            colours = [str(read_image(image).getpixel((0, 0))) for image in images]
            return self.encode_texts(colours, role="document")

    monkeypatch.setattr(sharding, "SHARD", 2)
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
    assert add_to_index(folder, Counting("png", stop), tmp_path / "index").left_out == 0
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
    monkeypatch.setattr(sharding, "SHARD", 2)
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
    monkeypatch.setattr(sharding, "SHARD", 1)
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
    monkeypatch.setattr(sharding, "SHARD", 3)
    write_index(pictures, PictureEncoder(), tmp_path / "index")
    before = files(tmp_path / "index")
    for names, message in ((["owls/*", "cats"], "holds nothing called 'cats'"), (["*"], "left")):
        with pytest.raises(UserError, match=message):
            remove_from_index(names, tmp_path / "index")
    assert files(tmp_path / "index") == before
    changes = remove_from_index(["owls/*", "red.png"], tmp_path / "index")
    assert (changes.things, changes.gone) == (2, 3)
    put(pictures)
    for name in (*(n for n in PICTURES if "owl" in n), "red.png"):
        (pictures / name).unlink()
    write_index(pictures, PictureEncoder(), tmp_path / "peer")
    found, peer = (dict(everything(tmp_path / name)) for name in ("index", "peer"))
    assert found == pytest.approx(peer)
    assert {path.name for path in (tmp_path / "index/shards").iterdir()} == {"00002", "00003"}


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


def test_another_encoder_may_not_add(tmp_path: Path, texts):
    write_index(texts, WordEncoder(), tmp_path / "index")
    with pytest.raises(UserError, match=r"was made with the encoder 'words' \(words:1\), not with"):
        add_to_index(texts, PictureEncoder(), tmp_path / "index")


def test_a_full_disk_ends_with_one_message_and_loses_nothing(monkeypatch, tmp_path, pictures):
    monkeypatch.setattr(sharding, "SHARD", 2)
    write_index(pictures, PictureEncoder(), tmp_path / "peer")
    save, saved = np.save, []

    def full(file: Any, array: Any) -> None:
        saved.append(file)
        if len(saved) == 3:
            raise OSError(28, "No space left on device")
        save(file, array)

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(UserError, match=r"cannot be written \(No space left on device"):
        write_index(pictures, PictureEncoder(), tmp_path / "index")
    goes_on = Counting()
    write_index(pictures, goes_on, tmp_path / "index")
    assert len(goes_on.seen) == 3
    assert files(tmp_path / "index") == files(tmp_path / "peer")


def test_an_index_of_the_former_format_has_to_be_made_again(tmp_path: Path):
    (tmp_path / "index.json").write_text('{"encoder": {"name": "e5"}, "texts": 3}')
    with pytest.raises(UserError, match=r"of an earlier version of admire.*Index again: admire in"):
        open_index(tmp_path)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize("harm", [cut, Path.unlink], ids=["cut", "missing"])
@pytest.mark.parametrize(
    "name",
    ["index.json", "whole/1/moments.npz"]
    + [f"shards/00000/{name}" for name in ("caption.npy", "moments.npz", "things.jsonl")],
)
def test_a_damaged_index_is_refused(tmp_path: Path, texts, name: str, harm):
    write_index(texts, WordEncoder(), tmp_path / "index")
    if name.startswith("shards") and "npy" not in name and harm is cut:
        return  # it is read only where it is needed
    harm(tmp_path / "index" / name)
    with pytest.raises(UserError, match=r"index: is no index, or damaged"):
        open_index(tmp_path / "index")


def test_vectors_of_another_collection_are_refused(tmp_path: Path, texts):
    write_index(texts, WordEncoder(), tmp_path / "one")
    write_index(texts, WordEncoder(), tmp_path / "two")
    remove_from_index(["a"], tmp_path / "two")
    vectors = "shards/0000{}/caption.npy"
    (tmp_path / "two" / vectors.format(1)).replace(tmp_path / "one" / vectors.format(0))
    with pytest.raises(UserError, match="its files do not belong together"):
        open_index(tmp_path / "one")


def test_what_cannot_be_indexed_is_named(tmp_path: Path, texts):
    with pytest.raises(UserError, match=r"engine cannot be 'lanse'\. Did you mean 'lance'"):
        write_index(texts, WordEncoder(), tmp_path / "index", engine="lanse")  # type: ignore
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="empty: holds no pictures"):
        write_index(tmp_path / "empty", PictureEncoder(), tmp_path / "index")


# ---------------------------------------------------------------------------------------- lance


def test_without_its_package_the_engine_lance_says_what_to_install(tmp_path, texts, monkeypatch):
    monkeypatch.delitem(sys.modules, "admire.tasks.collections.lance", raising=False)
    hide(monkeypatch, "lancedb")
    with pytest.raises(UserError, match="engine 'lance' needs lancedb, of the extra 'lance'"):
        write_index(texts, WordEncoder(), tmp_path / "index", engine="lance")
    assert [path.name for path in tmp_path.iterdir()] == ["texts.jsonl"]


def test_an_index_of_lance_is_searched_like_the_exact_one(monkeypatch, tmp_path: Path, pictures):
    pytest.importorskip("lancedb")
    monkeypatch.setattr(sharding, "SHARD", 2)
    for engine in ("exact", "lance"):
        write_index(pictures, PictureEncoder(), tmp_path / engine, engine=engine)
    put(pictures, {"new.png": "a person at night"})
    for engine in ("exact", "lance"):
        add_to_index(pictures, PictureEncoder(), tmp_path / engine)
        remove_from_index(["people/rider.png"], tmp_path / engine)
    assert type(open_index(tmp_path / "lance").engine).__name__ == "Lance"
    lance, exact = (everything(tmp_path / name) for name in ("lance", "exact"))
    assert [thing for thing, _ in lance] == [thing for thing, _ in exact]
    assert [score for _, score in lance] == pytest.approx([score for _, score in exact])


def test_lance_finds_nearly_what_exact_search_finds(tmp_path: Path):
    pytest.importorskip("lancedb")
    from admire.tasks.collections.lance import build_lance, open_lance

    rng = np.random.default_rng(0)
    centres = rng.normal(size=(40, 32))
    collection = (centres[rng.integers(0, 40, 3000)] + rng.normal(size=(3000, 32))).astype("f4")
    collection /= np.linalg.norm(collection, axis=1, keepdims=True)
    shards = [held(collection[:2000]), held(collection[2000:])]
    known = {"image": moments(collection)}
    build_lance(tmp_path, known, shards)
    near, exact = open_lance(tmp_path, known, shards), Exact(shards)
    found = 0
    for query in collection[rng.integers(0, 3000, 20)] + 0.1 * vectors(20, 32):
        asked = {"image": Asked(query, 0.0)}
        places, scores = near.search(asked, 10)
        assert scores == pytest.approx((collection[places] @ query).tolist(), abs=1e-6)
        assert scores.tolist() == sorted(scores.tolist(), reverse=True)
        found += len(set(places.tolist()) & set(exact.search(asked, 10)[0].tolist()))
    assert found / 200 > 0.9
