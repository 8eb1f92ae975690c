from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from commands import hide
from hypothesis import given
from hypothesis import strategies as st
from toys import WordEncoder

from admire.collections import index as text_index
from admire.collections.index import Exact, index_texts, moments, open_index, write_index
from admire.errors import UserError
from admire.items import Candidate

TEXTS = [
    Candidate("a", caption="an owl on the roof at night"),
    Candidate("b", caption="a person awake late at night"),
    Candidate("c", caption="a red bicycle"),
    Candidate("d", caption="Ärzte „wachen“ late"),
]


def vectors(n: int, width: int = 8, seed: int = 0) -> np.ndarray:
    found = np.random.default_rng(seed).normal(size=(n, width)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 9), st.integers(0, 99))
def test_exact_search_is_a_sort_however_the_vectors_are_cut(n, k, block, seed):
    rng = np.random.default_rng(seed)
    few = rng.integers(-2, 3, size=(n, 3)).astype(np.float32)  # many products are equal
    query = rng.integers(-2, 3, size=3).astype(np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_index, "BLOCK", block)
        places, products = Exact(few).search(query, k)
    order = sorted(range(n), key=lambda place: (-float(few[place] @ query), place))[:k]
    assert places.tolist() == order
    assert products.tolist() == [float(few[place] @ query) for place in order]


@pytest.mark.parametrize("block", [1, 7, 1000])
def test_moments_give_mean_and_deviation_of_any_querys_cosines(monkeypatch, block):
    monkeypatch.setattr(text_index, "BLOCK", block)
    collection = vectors(30)
    found = moments(collection)
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


@pytest.mark.parametrize("block", [1, 3, 1000])
def test_an_index_on_disk_answers_as_one_in_memory(monkeypatch, tmp_path: Path, block: int):
    monkeypatch.setattr(text_index, "BLOCK", block)
    write_index(TEXTS, WordEncoder(), tmp_path / "index")
    found = open_index(tmp_path / "index")
    queries = asked("a person awake late", "night owl")
    answer = found.search(queries, WEIGHTS, 4)
    assert [(t.name, t.caption) for t, _ in answer] == [
        (t.name, t.caption)
        for t, _ in index_texts(TEXTS, WordEncoder()).search(queries, WEIGHTS, 4)
    ]
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


def test_an_index_that_is_made_again_replaces_the_old_one_only_when_it_is_whole(tmp_path: Path):
    class Stops(WordEncoder):
        def encode_texts(self, texts, *, role):
            raise KeyboardInterrupt

    write_index(TEXTS, WordEncoder(), tmp_path / "index")
    with pytest.raises(KeyboardInterrupt):
        write_index(TEXTS[:2], Stops(), tmp_path / "index")
    assert open_index(tmp_path / "index").size == 4
    write_index(TEXTS[:2], WordEncoder(), tmp_path / "index")
    assert open_index(tmp_path / "index").size == 2
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def test_nothing_foreign_is_lost_to_an_index(tmp_path: Path):
    """Once, a folder with thesis.txt in it came back without it."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work")
    with pytest.raises(UserError, match=r"thesis\.txt"):
        write_index(TEXTS, WordEncoder(), folder)
    assert [path.name for path in folder.iterdir()] == ["thesis.txt"]


def test_what_cannot_be_indexed_is_named(tmp_path: Path):
    with pytest.raises(UserError, match=r"engine cannot be 'lanse'\. Did you mean 'lance'"):
        write_index(TEXTS, WordEncoder(), tmp_path / "index", engine="lanse")  # type: ignore
    with pytest.raises(UserError, match="There are no texts to index"):
        write_index([], WordEncoder(), tmp_path / "index")


def test_without_its_package_the_engine_lance_says_what_to_install(tmp_path: Path, monkeypatch):
    monkeypatch.delitem(sys.modules, "admire.collections.lance", raising=False)
    hide(monkeypatch, "lancedb")
    with pytest.raises(UserError, match="engine 'lance' needs lancedb, of the extra 'lance'"):
        write_index(TEXTS, WordEncoder(), tmp_path / "index", engine="lance")
    assert not list(tmp_path.iterdir())


def test_an_index_of_lance_is_searched_like_the_exact_one(tmp_path: Path):
    pytest.importorskip("lancedb")
    for engine in ("exact", "lance"):
        write_index(TEXTS, WordEncoder(), tmp_path / engine, engine=engine)
    queries = asked("a person awake late", "night owl")
    exact, lance = (open_index(tmp_path / name) for name in ("exact", "lance"))
    assert type(lance.engine).__name__ == "Lance"
    assert [text for text, _ in lance.search(queries, WEIGHTS, 2)] == [
        text for text, _ in exact.search(queries, WEIGHTS, 2)
    ]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize("harm", [cut, Path.unlink], ids=["cut", "missing"])
@pytest.mark.parametrize("name", ["index.json", "vectors.npy", "moments.npz", "texts.jsonl"])
def test_a_damaged_index_is_refused(tmp_path: Path, name: str, harm):
    write_index(TEXTS, WordEncoder(), tmp_path / "index")
    if name == "texts.jsonl" and harm is cut:
        return
    harm(tmp_path / "index" / name)
    with pytest.raises(UserError, match=r"index: is no index, or damaged"):
        open_index(tmp_path / "index")


def test_vectors_of_another_collection_are_refused(tmp_path: Path):
    for name, texts in (("one", TEXTS), ("two", TEXTS[:2])):
        write_index(texts, WordEncoder(), tmp_path / name)
    (tmp_path / "two" / "vectors.npy").replace(tmp_path / "one" / "vectors.npy")
    with pytest.raises(UserError, match="its files do not belong together"):
        open_index(tmp_path / "one")


def test_lance_finds_nearly_what_exact_search_finds(tmp_path: Path):
    pytest.importorskip("lancedb")
    from admire.collections.lance import build_lance, open_lance

    rng = np.random.default_rng(0)
    centres = rng.normal(size=(40, 32))
    collection = (centres[rng.integers(0, 40, 3000)] + rng.normal(size=(3000, 32))).astype("f4")
    collection /= np.linalg.norm(collection, axis=1, keepdims=True)
    build_lance(tmp_path, [collection[:2000], collection[2000:]], 32)
    near, exact = open_lance(tmp_path, collection), Exact(collection)
    found = 0
    for query in collection[rng.integers(0, 3000, 20)] + 0.1 * vectors(20, 32):
        places, products = near.search(query, 10)
        assert products == pytest.approx((collection[places] @ query).tolist(), abs=1e-6)
        assert products.tolist() == sorted(products.tolist(), reverse=True)
        found += len(set(places.tolist()) & set(exact.search(query, 10)[0].tolist()))
    assert found / 200 > 0.9
