"""A trained head: what it computes, what it is known by, what is kept on disk."""

import json
import math
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="needs the extra 'train'")

from heads import SETTINGS, fresh, made, projected, unit

from admire.core.errors import UserError
from admire.encoders.projection import Epoch, Projection, load_projection
from admire.tasks.training import head_scores, top1_share

pytestmark = pytest.mark.usefixtures("one_thread")

VECTORS = unit(np.random.default_rng(0).normal(size=(20, 8)))


def test_vectors_are_projected_to_unit_length_and_without_dropout():
    head = fresh(8, dropout=0.9).train()
    found = Projection(head, {}).project(VECTORS)
    assert found.shape == (20, 6)
    assert found.dtype == np.float32
    assert np.linalg.norm(found, axis=1) == pytest.approx(np.ones(20), abs=1e-6)
    for vector, row in zip(VECTORS, found, strict=True):
        assert row == pytest.approx(projected(head, vector), abs=1e-5)
    backwards = Projection(head, {}).project(VECTORS[::-1])
    assert backwards == pytest.approx(found[::-1], abs=1e-6)
    assert Projection(head, {}).project(VECTORS[:0]).shape == (0, 6)


def test_a_residual_head_adds_to_the_vectors_and_may_be_for_glosses_alone():
    head = fresh(8, residual=True, glosses_only=True, dropout=0.4)
    for vector, row in zip(VECTORS, Projection(head, {}).project(VECTORS), strict=True):
        assert row == pytest.approx(projected(head, vector), abs=1e-5)
    assert head.layers[2].p == 0.4
    assert [Projection(head, {}).projects(role) for role in ("gloss2", "compound")] == [True, False]
    assert Projection(fresh(8), {}).projects("compound")


@given(st.integers(0, 999), st.booleans())
def test_scores_sum_the_cosines_of_image_and_caption(seed, trained):
    """Of these alone: variants are for training."""
    data = made(candidates=4, modalities=3, seed=seed)
    # Candidates beyond an item's own are nowhere, and never the best.
    data.present[:, 3] &= (data.positive == 3)[:, None]
    samples = np.random.default_rng(seed).permutation(24)[:9]
    head = fresh(8, seed=seed) if trained else None

    def seen(vector):
        return projected(head, vector) if head else vector

    found = head_scores(data, samples, head)
    for s, row in zip(samples, found, strict=True):
        sums = [
            sum(seen(data.anchors[s]) @ seen(data.documents[s, c, m]) for m in range(2)
                if data.present[s, c, m]) if data.present[s, c, :2].any() else -math.inf
            for c in range(4)
        ]  # fmt: skip
        assert row == pytest.approx(sums, abs=1e-5)
    hits = found.argmax(axis=1) == data.positive[samples]
    assert top1_share(data, samples, head) == pytest.approx(hits.mean())


def test_a_head_for_glosses_leaves_compounds_in_the_encoders_space():
    data, head = made(), fresh(8, glosses_only=True)
    every = np.arange(len(data.compounds))
    found, plain = head_scores(data, every, head), head_scores(data, every)
    headed = head_scores(data, every, fresh(8))
    assert 0 < data.gloss.sum() < len(every)
    assert np.array_equal(found[data.gloss], headed[data.gloss])
    assert np.array_equal(found[~data.gloss], plain[~data.gloss])
    assert not np.allclose(headed[~data.gloss], plain[~data.gloss])


def projection(**changes: object) -> Projection:
    settings = asdict(replace(SETTINGS, **changes))
    card = {"encoder": {"name": "words", "identity": "words:1"}, "width": 8, "settings": settings}
    return Projection(fresh(8, **changes), card, (Epoch(1, 0.5, 0.25, None), Epoch(2, 1, 2, 0.5)))


@pytest.mark.parametrize("residual", [False, True])
def test_what_is_saved_comes_back(tmp_path, residual):
    folder = tmp_path / "deep" / "head"
    head = projection(residual=residual)
    for _ in range(2):  # the second over the first
        head.save(folder)
        again = load_projection(folder)
        assert np.array_equal(again.project(VECTORS), head.project(VECTORS))
        assert (again.history, again.card) == (head.history, head.card)
        assert again.identity == head.identity


def refusal(folder: Path) -> str:
    with pytest.raises(UserError) as raised:
        load_projection(folder)
    assert str(raised.value).startswith(f"{folder}: ")
    return str(raised.value)


def test_files_that_are_missing_truncated_or_do_not_fit_are_refused(tmp_path):
    folder = tmp_path / "head"
    assert "does not exist. A head is the folder" in refusal(folder)
    projection().save(folder)
    whole = (folder / "head.safetensors").read_bytes()
    (folder / "head.safetensors").write_bytes(whole[: len(whole) // 2])
    assert "the head cannot be read" in refusal(folder)
    for change in ({"encoder": {"name": "words"}}, {"width": 9}, {"settings": {"dropout": 2.0}}):
        projection().save(folder)
        card = json.loads((folder / "head.json").read_text())
        (folder / "head.json").write_text(json.dumps(card | change))
        assert "Train it again" in refusal(folder), change
