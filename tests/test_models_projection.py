"""A trained head: what it computes, what it is known by, what is kept on disk."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from importlib import import_module, reload
from pathlib import Path

import numpy as np
import pytest
from commands import hide

torch = pytest.importorskip("torch", reason="needs the extra 'train'")

from heads import SETTINGS, fresh, made, projected, unit, weights  # noqa: E402 - after the skip
from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from admire.base.errors import UserError  # noqa: E402
from admire.models.projection import Epoch, Projection, load_projection  # noqa: E402
from admire.training import (  # noqa: E402
    head_scores,
    top1_share,
)

pytestmark = pytest.mark.usefixtures("one_thread")

VECTORS = unit(np.random.default_rng(0).normal(size=(20, 8)))


# ----------------------------------------------------------------------------------- the head


def test_a_head_is_two_layers_with_relu_and_dropout_between():
    head = fresh(8, dropout=0.25)
    kinds = [type(layer).__name__ for layer in head.layers]
    assert kinds == ["Linear", "ReLU", "Dropout", "Linear"]
    assert head.layers[2].p == 0.25
    shapes = [value.shape for value in weights(head).values()]
    assert shapes == [(16, 8), (16,), (6, 16), (6,)]


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


@pytest.mark.parametrize(
    ("module", "package", "what"),
    [
        ("models.projection", "torch", "A projection head"),
        ("training.sweep", "joblib", "A sweep"),
    ],
)
def test_a_missing_package_is_told_with_its_extra(monkeypatch, module, package, what):
    loaded = import_module(f"admire.{module}")
    hide(monkeypatch, package)
    with pytest.raises(UserError, match=f"^{what} needs {package}, of the extra 'train': pip"):
        reload(loaded)


# ----------------------------------------------------------------------------- card and files


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


def test_vectors_of_another_encoder_are_refused():
    head = projection()
    head.check("renamed", "words:1")
    with pytest.raises(UserError) as raised:
        head.check("words", "words:2")
    assert str(raised.value) == (
        "The head was trained on the encoder 'words' (words:1), not on 'words' (words:2)."
    )


def refusal(folder: Path) -> str:
    with pytest.raises(UserError) as raised:
        load_projection(folder)
    assert str(raised.value).startswith(f"{folder}: ")
    return str(raised.value)


def test_a_folder_without_a_head_is_told_what_it_lacks(tmp_path):
    folder = tmp_path / "head"
    assert refusal(folder) == f"{folder}: holds no head (head.json is missing)."
    projection().save(folder)
    (folder / "head.safetensors").unlink()
    assert refusal(folder) == f"{folder}: holds no head (head.safetensors is missing)."


@pytest.mark.parametrize(
    "change",
    [
        {"encoder": {"name": "words"}},
        {"width": 9},
        {"settings": {"hidden": 17}},
        {"settings": {"dropout": 2.0}},
        {"history": [7]},
    ],
)
def test_a_card_that_does_not_fit_the_weights_or_is_not_whole_is_refused(tmp_path, change):
    projection().save(tmp_path)
    card = json.loads((tmp_path / "head.json").read_text())
    (tmp_path / "head.json").write_text(json.dumps(card | change))
    message = refusal(tmp_path)
    assert message.startswith(f"{tmp_path}: the head cannot be read (")
    assert message.endswith("). Train it again.")


@pytest.mark.parametrize("name", ["head.json", "head.safetensors"])
def test_truncated_files_are_refused(tmp_path, name):
    projection().save(tmp_path)
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    assert "the head cannot be read" in refusal(tmp_path)
