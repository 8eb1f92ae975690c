"""The projection head: its loss against equation 1, what training sees, what is kept on disk."""

from __future__ import annotations

import errno
import json
import math
import shlex
import shutil
import sys
from dataclasses import asdict, replace
from decimal import Decimal, localcontext
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from commands import hide, run
from conftest import admire_row
from hypothesis import given, settings
from hypothesis import strategies as st
from toys import ScriptedChat, WordEncoder

from admire.errors import UserError
from admire.head.triplets import Triplets, soft_negatives, split

torch = pytest.importorskip("torch", reason="needs the extra 'train'")

from admire.head import training as projection  # noqa: E402 - after the skip
from admire.head.projection import Epoch, Head, Projection, load_projection, scores, top1  # noqa: E402
from admire.head.settings import TrainSettings  # noqa: E402
from admire.head.training import info_nce, train, train_head  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


# --------------------------------------------------------------------------------- equation 1


def equation_1(positives, negatives, there, negatives_there, temperature) -> float:
    """The paper's equation, word for word, with as many digits and as large powers as it takes."""
    with localcontext() as context:
        context.prec = 40

        def f(cosine: float) -> Decimal:
            return (Decimal(float(cosine)) / Decimal(temperature)).exp()

        total = Decimal(0)
        for s in range(len(positives)):
            logarithms = []
            for m in range(len(positives[s])):
                if not there[s][m]:
                    continue
                p = f(positives[s][m])
                everything = p
                for n in range(len(negatives[s])):
                    if negatives_there[s][n][m]:
                        everything += f(negatives[s][n][m])
                logarithms.append((p / everything).ln())
            total += -sum(logarithms) / len(logarithms)
        return float(total / len(positives))


@given(
    st.integers(1, 5),
    st.integers(0, 6),
    st.integers(1, 4),
    st.sampled_from([0.001, 0.01, 0.08, 0.1, 1.0, 7.0]),
    st.sampled_from([0.0, 0.4, 1.0]),
    st.integers(0, 2**32 - 1),
)
def test_the_loss_is_equation_1(samples, number, modalities, temperature, share, seed):
    rng = np.random.default_rng(seed)
    positives = rng.uniform(-1, 1, (samples, modalities))
    negatives = rng.uniform(-1, 1, (samples, number, modalities))
    there = rng.random(positives.shape) < share
    there[np.arange(samples), rng.integers(modalities, size=samples)] = True
    negatives_there = rng.random(negatives.shape) < share
    expected = equation_1(positives, negatives, there, negatives_there, temperature)
    # What is not there says nothing.
    positives[~there] = 50.0
    negatives[~negatives_there] = 60.0
    tensors = [torch.from_numpy(a) for a in (positives, negatives, there, negatives_there)]
    assert info_nce(*tensors, temperature).item() == pytest.approx(expected, rel=1e-9, abs=1e-12)


def masked(*shape: int) -> Any:
    return torch.ones(shape, dtype=torch.bool)


def test_the_least_temperature_does_not_overflow():
    positives = torch.tensor([[-1.0], [1.0]])
    negatives = torch.tensor([[[1.0], [1.0]], [[-1.0], [-1.0]]])
    positives.requires_grad_()
    loss = info_nce(positives, negatives, masked(2, 1), masked(2, 2, 1), 1e-4)
    assert loss.item() == pytest.approx((20000 + math.log(2)) / 2)
    loss.backward()
    assert torch.isfinite(positives.grad).all()


@given(st.floats(-1, 1), st.floats(-1, 1), st.floats(0.02, 5))
def test_of_one_negative_it_is_the_logistic_loss(p, n, temperature):
    cosines = torch.tensor([[p]], dtype=torch.float64), torch.tensor([[[n]]], dtype=torch.float64)
    loss = info_nce(*cosines, masked(1, 1), masked(1, 1, 1), temperature).item()
    assert loss == pytest.approx(math.log1p(math.exp((n - p) / temperature)), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("temperature", [0.05, 0.1, 1.0])
@pytest.mark.parametrize("modalities", [1, 3])
def test_it_agrees_with_pytorch_metric_learning(temperature, modalities):
    losses = pytest.importorskip("pytorch_metric_learning.losses")
    rng = torch.Generator().manual_seed(7)
    samples, number, width = 4, 5, 8
    vectors = torch.randn(
        samples, 1 + modalities * (1 + number), width, generator=rng, dtype=torch.float64
    )
    unit = torch.nn.functional.normalize(vectors, dim=2)
    anchors, rest = unit[:, 0], unit[:, 1:].reshape(samples, 1 + number, modalities, width)
    cosines = torch.einsum("sd,snmd->snm", anchors, rest)
    mine = info_nce(
        cosines[:, 0],
        cosines[:, 1:],
        masked(samples, modalities),
        masked(samples, number, modalities),
        temperature,
    )
    theirs = []
    place = torch.arange(vectors.shape[0] * vectors.shape[1]).reshape(vectors.shape[:2])
    for m in range(modalities):
        own = place[:, 1:].reshape(samples, 1 + number, modalities)[:, :, m]
        pairs = place[:, 0], own[:, 0], place[:, 0].repeat_interleave(number), own[:, 1:].flatten()
        loss = losses.NTXentLoss(temperature=temperature)
        theirs.append(loss(vectors.reshape(-1, width), indices_tuple=pairs).item())
    assert mine.item() == pytest.approx(np.mean(theirs), rel=1e-9)


def test_its_gradient_is_its_derivative_also_beside_what_is_missing():
    rng = torch.Generator().manual_seed(1)
    positives = torch.rand(3, 2, generator=rng, dtype=torch.float64).requires_grad_()
    negatives = torch.rand(3, 4, 2, generator=rng, dtype=torch.float64).requires_grad_()
    there = torch.tensor([[True, True], [False, True], [True, False]])
    negatives_there = torch.rand(3, 4, 2, generator=rng) < 0.6
    negatives_there[0, :, 0] = False
    masks = there, negatives_there

    def loss(p, n):
        return info_nce(p, n, *masks, 0.3)

    assert torch.autograd.gradcheck(loss, (positives, negatives))
    loss(positives, negatives).backward()
    assert (positives.grad[~there] == 0).all()
    assert (negatives.grad[~negatives_there] == 0).all()


# ------------------------------------------------------------------------------- made-up data


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)


def made(
    compounds: int = 12, each: int = 2, candidates: int = 3, modalities: int = 2, seed: int = 0
) -> Triplets:
    """An anchor and its positive share half of their dimensions; the rest is louder noise."""
    rng = np.random.default_rng(seed)
    samples = compounds * each
    meaning = rng.normal(size=(samples, 4))
    noise = 2 * rng.normal(size=(samples, 1 + candidates * modalities, 4))
    documents = rng.normal(size=(samples, candidates, modalities, 8))
    documents[..., 4:] = noise[:, 1:].reshape(samples, candidates, modalities, 4)
    positive = rng.integers(candidates, size=samples)
    documents[np.arange(samples), positive, :, :4] = meaning[:, None]
    present = rng.random((samples, candidates, modalities)) < 0.8
    present[np.arange(samples), positive, rng.integers(modalities, size=samples)] = True
    documents[~present] = 1.0
    return Triplets(
        tuple(f"c{k % compounds}" for k in range(samples)),
        unit(np.concatenate([meaning, noise[:, 0]], axis=1)),
        np.where(present[..., None], unit(documents), np.float32(0)),
        present,
        positive,
        ("image", "caption", "augmented image 1")[:modalities],
        rng.random(samples) < 0.5,
    )


SETTINGS = TrainSettings(
    hidden=16,
    output=6,
    dropout=0.1,
    batch_size=8,
    learning_rate=3e-3,
    soft_negatives=4,
    temperature=0.2,
    epochs=8,
    patience=8,
)
STILL = replace(SETTINGS, learning_rate=1e-30, dropout=0.0)
"""With these the weights stay as they are, so losses differ only by what is drawn."""


def weights(head: Head) -> dict[str, np.ndarray]:
    return {name: tensor.numpy().copy() for name, tensor in head.state_dict().items()}


def same(one: Head, other: Head) -> bool:
    first, second = weights(one), weights(other)
    return all(np.array_equal(first[name], second[name]) for name in first)


def fresh(width: int, wanted: TrainSettings = SETTINGS) -> Head:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(wanted.seed)
        return Head(width, wanted).eval()


def projected(head: Head, vector: np.ndarray) -> np.ndarray:
    """One vector, layer by layer."""
    w1, b1, w2, b2 = weights(head).values()
    result = w2 @ np.maximum(w1 @ vector + b1, 0) + b2
    if head.residual:
        result = result + vector
    return result / np.linalg.norm(result)


def literal_loss(data, head, batch, samples, candidates, temperature) -> float:
    """The loss of a batch with one loop for each index of equation 1."""
    sums = []
    for row, s in enumerate(batch):
        anchor = projected(head, data.anchors[s])
        others = [(s, c) for c in range(data.present.shape[1]) if c != data.positive[s]]
        others += list(zip(samples[row], candidates[row], strict=True))
        losses = []
        for m in range(data.present.shape[2]):
            if not data.present[s, data.positive[s], m]:
                continue
            p = anchor @ projected(head, data.documents[s, data.positive[s], m])
            n = [anchor @ projected(head, data.documents[k][c][m]) for k, c in others
                 if data.present[k, c, m]]  # fmt: skip
            f = np.exp(np.array([p, *n], dtype=np.float64) / temperature)
            losses.append(-math.log(f[0] / f.sum()))
        sums.append(sum(losses) / len(losses))
    return sum(sums) / len(sums)


@settings(max_examples=25)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 9), st.integers(0, 999), st.booleans())
def test_the_loss_of_a_batch_is_equation_1_of_its_documents(c, m, k, seed, residual):
    data = made(candidates=c, modalities=m, seed=seed)
    rng = np.random.default_rng(seed)
    head = fresh(8, replace(SETTINGS, residual=residual, seed=seed))
    batch = rng.permutation(24)[:7]
    # Few to draw from, so that soft negatives are shared, and are positives of others in the batch.
    pool = np.arange(24)[: k + 8]
    drawn = soft_negatives(data, batch, pool, min(k, 5), rng)
    loss = projection._Tensors(data).loss(head, batch, *drawn, 0.2).item()
    assert loss == pytest.approx(literal_loss(data, head, batch, *drawn, 0.2), rel=1e-4, abs=1e-6)


def test_a_positive_without_negatives_costs_nothing():
    """Counted among its own negatives, it would cost log 2."""
    data = made(candidates=1)
    none = np.zeros((5, 0), dtype=np.int64)
    loss = projection._Tensors(data).loss(fresh(8), np.arange(5), none, none, 0.1)
    assert loss.item() == pytest.approx(0, abs=1e-6)


@given(st.integers(0, 999), st.booleans())
def test_top1_sums_the_cosines_that_are_there(seed, trained):
    """Of image and caption alone: variants are for training."""
    data = made(candidates=4, modalities=3, seed=seed)
    # Candidates beyond an item's own are nowhere, and never the best.
    data.present[:, 3] &= (data.positive == 3)[:, None]
    samples = np.random.default_rng(seed).permutation(24)[:9]
    head = fresh(8, replace(SETTINGS, seed=seed)) if trained else None

    def seen(vector):
        return projected(head, vector) if head else vector

    hits = []
    for s in samples:
        sums = [
            sum(seen(data.anchors[s]) @ seen(data.documents[s, c, m]) for m in range(2)
                if data.present[s, c, m]) if data.present[s, c, :2].any() else -math.inf
            for c in range(4)
        ]  # fmt: skip
        hits.append(np.argmax(sums) == data.positive[s])
    assert top1(data, samples, head) == pytest.approx(np.mean(hits))


# ----------------------------------------------------------------------------------- the head


def test_a_head_is_two_layers_with_relu_and_dropout_between():
    head = fresh(8, replace(SETTINGS, dropout=0.25))
    kinds = [type(layer).__name__ for layer in head.layers]
    assert kinds == ["Linear", "ReLU", "Dropout", "Linear"]
    assert head.layers[2].p == 0.25
    shapes = [value.shape for value in weights(head).values()]
    assert shapes == [(16, 8), (16,), (6, 16), (6,)]
    assert TrainSettings().output == 768


def test_a_residual_head_that_adds_nothing_changes_nothing():
    head = fresh(8, replace(SETTINGS, residual=True))
    vectors = unit(np.random.default_rng(0).normal(size=(3, 8)))
    given_back = Projection(head, {}).project(vectors)
    assert given_back.shape == (3, 8)
    assert np.abs(given_back - vectors).max() > 0.01
    with torch.no_grad():
        for parameter in head.layers[3].parameters():
            parameter.zero_()
    assert Projection(head, {}).project(vectors) == pytest.approx(vectors, abs=1e-6)


def test_vectors_are_projected_to_unit_length_and_without_dropout():
    head = fresh(8, replace(SETTINGS, dropout=0.9)).train()
    vectors = unit(np.random.default_rng(0).normal(size=(20, 8)))
    found = Projection(head, {}).project(vectors)
    assert found.shape == (20, 6)
    assert found.dtype == np.float32
    assert np.linalg.norm(found, axis=1) == pytest.approx(np.ones(20), abs=1e-6)
    for vector, row in zip(vectors, found, strict=True):
        assert row == pytest.approx(projected(head, vector), abs=1e-5)
    backwards = Projection(head, {}).project(vectors[::-1])
    assert backwards == pytest.approx(found[::-1], abs=1e-6)
    assert Projection(head, {}).project(vectors[:0]).shape == (0, 6)


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("hidden", 0),
        ("output", 0),
        ("dropout", 1.0),
        ("dropout", -0.1),
        ("batch_size", 0),
        ("learning_rate", 0.0),
        ("weight_decay", -1e-9),
        ("soft_negatives", -1),
        ("temperature", 0.0),
        ("temperature", -0.1),
        ("temperature", math.nan),
        ("learning_rate", math.nan),
        ("epochs", 0),
        ("patience", 0),
    ],
)
def test_a_setting_that_means_nothing_is_refused(capsys, tmp_path, name, bad):
    with pytest.raises(UserError) as raised:
        TrainSettings(**{name: bad})
    assert str(raised.value) == f"{name} cannot be {bad}."
    option = f"--{name.replace('_', '-')}={bad}"
    code, out, err = run(capsys, "train", "head", "no.tsv", "--out", tmp_path / "head", option)
    assert (code, out, err) == (2, "", f"admire: {name} cannot be {bad}.\n")


@pytest.mark.parametrize(
    "least",
    [{"dropout": 0.0}, {"soft_negatives": 0}, {"weight_decay": 0.0}, {"patience": 1, "epochs": 1},
     {"hidden": 1, "output": 1, "batch_size": 1}],
)  # fmt: skip
def test_the_least_that_a_setting_may_be_trains(least):
    data = made(compounds=5)
    _, history = train(
        data,
        *split(data.compounds)[:2],
        replace(SETTINGS, **{"epochs": 2, "soft_negatives": 2, **least}),
    )
    assert all(math.isfinite(epoch.training + epoch.validation) for epoch in history)


# ----------------------------------------------------------------------------------- training


@pytest.fixture(scope="module")
def data() -> Triplets:
    return made(compounds=20)


@pytest.fixture(scope="module")
def parts(data: Triplets) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return split(data.compounds)


def test_the_loss_falls_and_the_head_learns_what_counts(data, parts):
    training, validation, test = parts
    wanted = replace(SETTINGS, learning_rate=1e-2, hidden=64, epochs=60, patience=60)
    head, history = train(data, training, validation, wanted, watched=test)
    assert [epoch.epoch for epoch in history] == list(range(1, 61))
    assert history[-1].training < 0.5 * history[0].training
    assert min(epoch.validation for epoch in history) < history[0].validation
    assert top1(data, training, head) > top1(data, training) + 0.2


@pytest.mark.parametrize("patience", [1, 4])
def test_the_weights_with_the_lowest_validation_loss_come_back(data, parts, patience):
    training, validation, _ = parts
    wanted = replace(
        SETTINGS, learning_rate=5e-2, hidden=64, dropout=0.0, epochs=80, patience=patience
    )
    head, history = train(data, training, validation, wanted)
    losses = [epoch.validation for epoch in history]
    best = int(np.argmin(losses))
    assert len(losses) == best + 1 + patience < 80  # it stopped by itself, and not at its best
    # Whatever K and temperature it was trained with: losses have to be comparable.
    every = np.random.default_rng(wanted.seed)
    drawn = soft_negatives(data, validation, training, len(training), every)
    with torch.no_grad():
        loss = projection._Tensors(data).loss(head, validation, *drawn, 0.1)
    assert loss.item() == pytest.approx(losses[best], rel=1e-6)
    assert not head.training


def test_patience_counts_epochs_without_a_lower_loss(monkeypatch, data, parts):
    script = [3.0, 2.0, 2.0, 1.5, 4.0, 1.5, 0.0]
    states = []
    original = projection._Tensors.loss

    def scripted(self, head, *arguments):
        loss = original(self, head, *arguments)
        if head.training:
            return loss
        states.append(weights(head))
        return loss * 0 + script[len(states) - 1]

    monkeypatch.setattr(projection._Tensors, "loss", scripted)
    head, history = train(data, *parts[:2], replace(SETTINGS, patience=2, epochs=7))
    assert [epoch.validation for epoch in history] == script[:6]
    found = weights(head)
    for k, state in enumerate(states):
        equal = all(np.array_equal(state[name], found[name]) for name in found)
        assert equal == (k == 3)

    states.clear()
    _, history = train(data, *parts[:2], replace(SETTINGS, patience=3, epochs=7))
    assert len(history) == 7
    states.clear()
    _, history = train(data, *parts[:2], replace(SETTINGS, patience=3, epochs=5))
    assert len(history) == 5


def test_a_seed_fixes_the_weights_and_others_give_others(data, parts):
    state = np.random.get_state()[1].copy()
    found = []
    for outside in (1, 2):  # whatever the surroundings have drawn
        torch.manual_seed(outside)
        before = torch.get_rng_state()
        found.append(train(data, *parts[:2], SETTINGS))
        assert torch.equal(torch.get_rng_state(), before)
    assert (np.random.get_state()[1] == state).all()
    assert same(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]
    other = train(data, *parts[:2], replace(SETTINGS, seed=1))
    assert not same(found[0][0], other[0])


@pytest.mark.parametrize(
    "change",
    [{"dropout": 0.5}, {"weight_decay": 0.3}, {"temperature": 0.3}, {"soft_negatives": 9},
     {"batch_size": 5}, {"learning_rate": 2e-3}, {"residual": True}],
)  # fmt: skip
def test_each_setting_makes_a_difference(data, parts, change):
    one, other = (
        train(data, *parts[:2], replace(SETTINGS, epochs=2, **extra))[0] for extra in ({}, change)
    )
    assert not all(
        np.array_equal(a, b)
        for a, b in zip(weights(one).values(), weights(other).values(), strict=True)
    )


def disturbed(data: Triplets, samples: np.ndarray) -> Triplets:
    """Other vectors and another positive for these samples."""
    rng = np.random.default_rng(9)
    anchors, documents, positive = data.anchors.copy(), data.documents.copy(), data.positive.copy()
    anchors[samples] = unit(rng.normal(size=anchors[samples].shape))
    documents[samples] = unit(rng.normal(size=documents[samples].shape))
    positive[samples] = (positive[samples] + 1) % documents.shape[1]
    present = data.present.copy()
    present[samples] = True
    return replace(data, anchors=anchors, documents=documents, positive=positive, present=present)


def test_the_test_samples_have_no_influence(data, parts):
    training, validation, test = parts
    head, history = train(data, training, validation, SETTINGS, watched=test)
    alone, unwatched = train(data, training, validation, SETTINGS)
    assert same(head, alone)
    assert [replace(epoch, top1=None) for epoch in history] == list(unwatched)
    assert all(epoch.top1 is not None for epoch in history)

    other, others = train(disturbed(data, test), training, validation, SETTINGS, watched=test)
    assert same(head, other)
    assert [(e.training, e.validation) for e in others] == [
        (e.training, e.validation) for e in history
    ]
    for sample in training[:3]:  # whereas each training sample has some
        changed = disturbed(data, np.array([sample]))
        assert not same(head, train(changed, training, validation, SETTINGS)[0])


def test_the_validation_samples_choose_but_do_not_teach(data, parts):
    training, validation, _ = parts
    wanted = replace(SETTINGS, epochs=1)  # nothing to choose from
    head, history = train(data, training, validation, wanted)
    other, others = train(disturbed(data, validation), training, validation, wanted)
    assert same(head, other)
    assert history[0].training == others[0].training
    assert history[0].validation != others[0].validation


def test_what_is_watched_is_the_accuracy_of_each_epochs_head(data, parts):
    training, validation, test = parts
    _, history = train(data, training, validation, SETTINGS, watched=test)
    for epochs in (1, 3):
        wanted = replace(SETTINGS, epochs=epochs)
        _, shorter = train(data, training, validation, wanted, watched=test)
        assert shorter == history[:epochs]
    head, _ = train(data, training, validation, replace(SETTINGS, epochs=1))
    assert history[0].top1 == top1(data, test, head)


def test_draws_are_new_for_training_and_the_same_for_validation(data, parts):
    _, history = train(data, *parts[:2], replace(STILL, epochs=4))
    assert len({epoch.validation for epoch in history}) == 1
    assert len({round(epoch.training, 5) for epoch in history}) == 4


def test_dropout_is_for_training_alone(data, parts):
    still = train(data, *parts[:2], STILL)[1][0]
    dropped = train(data, *parts[:2], replace(STILL, dropout=0.5))[1][0]
    assert dropped.validation == pytest.approx(still.validation, rel=1e-6)
    assert dropped.training != pytest.approx(still.training, rel=1e-3)


def test_every_training_sample_is_seen_once_an_epoch_in_a_new_order(monkeypatch, data, parts):
    training, validation, _ = parts
    seen: list[list[int]] = []
    original = projection._Tensors.loss

    def noted(self, head, batch, samples, candidates, temperature):
        if head.training:
            seen.append(batch.tolist())
            for sample, row in zip(batch, samples, strict=True):
                # Each anchor's soft negatives have moved with it, and are of the training set.
                assert data.compounds[sample] not in {data.compounds[k] for k in row}
                assert set(row.tolist()) <= set(training.tolist())
        return original(self, head, batch, samples, candidates, temperature)

    monkeypatch.setattr(projection._Tensors, "loss", noted)
    train(data, training, validation, replace(SETTINGS, epochs=2, batch_size=9))
    sizes = [len(batch) for batch in seen]
    assert sizes == [9, 9, 9, 1] * 2
    first, second = (list(chain(*batches)) for batches in (seen[:4], seen[4:]))
    assert sorted(first) == sorted(second) == training.tolist()
    assert first != second


def test_the_training_loss_is_of_samples_however_they_are_batched(data, parts):
    still = replace(STILL, soft_negatives=0, epochs=1)
    losses = {
        size: train(data, *parts[:2], replace(still, batch_size=size))[1][0].training
        for size in (1, 9, 28, 1000)
    }
    assert list(losses.values()) == pytest.approx([losses[1000]] * 4, rel=1e-5)
    none = np.zeros((len(parts[0]), 0), dtype=np.int64)
    with torch.no_grad():
        whole = projection._Tensors(data).loss(fresh(8, still), parts[0], none, none, 0.2)
    assert losses[9] == pytest.approx(whole.item(), rel=1e-5)


GLOSSES = replace(SETTINGS, glosses_only=True)


def test_a_head_for_glosses_does_not_learn_from_compounds(data, parts):
    """What is the best of a literal item does not matter; that of an idiomatic one does."""
    training, validation, _ = parts

    def after(of: np.ndarray) -> Head:
        changed = replace(data, positive=data.positive.copy())
        changed.positive[of] = (changed.positive[of] + 1) % data.documents.shape[1]
        changed = replace(changed, present=np.ones_like(data.present))
        return train(changed, training, validation, GLOSSES)[0]

    both = np.concatenate([training, validation])
    untouched = after(both[:0])
    assert same(after(both[~data.gloss[both]]), untouched)
    assert not same(after(training[data.gloss[training]]), untouched)
    assert not same(untouched, train(data, training, validation, SETTINGS)[0])


def test_soft_negatives_of_glosses_are_also_drawn_from_literal_items(data, parts):
    training, validation, _ = parts
    changed = replace(data, documents=data.documents.copy())
    literal = training[~data.gloss[training]]
    changed.documents[literal] = -changed.documents[literal]
    one, other = (train(d, training, validation, GLOSSES)[0] for d in (data, changed))
    assert not same(one, other)


def test_a_head_for_glosses_leaves_compounds_in_the_encoders_space(data, parts):
    head, _ = train(data, parts[0], parts[1], GLOSSES)
    every = np.arange(len(data.compounds))
    found, plain = scores(data, every, head), scores(data, every)
    head.glosses_only = False
    headed = scores(data, every, head)
    assert 0 < data.gloss.sum() < len(every)
    assert np.array_equal(found[data.gloss], headed[data.gloss])
    assert np.array_equal(found[~data.gloss], plain[~data.gloss])
    assert not np.allclose(headed[~data.gloss], plain[~data.gloss])


def test_without_glosses_there_is_nothing_to_learn_for_them(data, parts):
    training, validation, _ = parts
    for part in (training, validation):
        none = replace(data, gloss=data.gloss.copy())
        none.gloss[part] = False
        with pytest.raises(UserError, match="no glosses to train and to validate on"):
            train(none, training, validation, GLOSSES)


def test_too_many_soft_negatives_are_refused(data, parts):
    with pytest.raises(UserError, match="31 soft negatives are asked for"):
        train(data, *parts[:2], replace(SETTINGS, soft_negatives=31))


def test_a_loss_beyond_all_bounds_is_not_taken_for_a_head(data, parts):
    with pytest.raises(UserError, match="lower learning rate"):
        train(data, *parts[:2], replace(SETTINGS, learning_rate=1e30))


# ----------------------------------------------------------------------------- card and files


@pytest.fixture(scope="module")
def trained(data: Triplets) -> Projection:
    return train_head(data, replace(SETTINGS, seed=3), WordEncoder())


def test_the_card_tells_how_the_head_was_made(data, trained):
    card = trained.card
    assert card["encoder"] == {"name": "words", "identity": "words:1"}
    assert card["width"] == 8
    assert list(card["modalities"]) == ["image", "caption"]
    assert card["settings"] == asdict(replace(SETTINGS, seed=3))
    training, validation, test = split(data.compounds, 3)
    for name, part in (("training", training), ("validation", validation), ("test", test)):
        assert card["compounds"][name] == sorted({data.compounds[k] for k in part})
    head, history = train(data, training, validation, replace(SETTINGS, seed=3), watched=test)
    assert same(trained.head, head)
    assert trained.history == history
    best = min(history, key=lambda epoch: epoch.validation)
    assert (card["epoch"], card["validation_loss"]) == (best.epoch, best.validation)
    assert card["test_top1"] == {"head": top1(data, test, head), "none": top1(data, test)}
    assert card["test_top1"]["head"] == best.top1
    assert json.loads(json.dumps(card)) == card | {"modalities": list(card["modalities"])}


def test_what_is_saved_comes_back(tmp_path, trained):
    trained.save(tmp_path / "deep" / "head")
    folder = tmp_path / "deep" / "head"
    assert {path.name for path in folder.iterdir()} == {"head.json", "head.safetensors"}
    again = load_projection(folder)
    vectors = unit(np.random.default_rng(0).normal(size=(5, 8)))
    assert np.array_equal(again.project(vectors), trained.project(vectors))
    assert again.history == trained.history
    assert json.dumps(again.card, sort_keys=True) == json.dumps(trained.card, sort_keys=True)
    trained.save(folder)  # over itself
    assert np.array_equal(load_projection(folder).project(vectors), trained.project(vectors))


def test_a_residual_head_comes_back_as_one(tmp_path, data):
    head = train_head(data, replace(SETTINGS, residual=True, epochs=1), WordEncoder())
    head.save(tmp_path)
    vectors = unit(np.random.default_rng(0).normal(size=(5, 8)))
    assert np.array_equal(load_projection(tmp_path).project(vectors), head.project(vectors))


def test_vectors_of_another_encoder_are_refused(trained):
    trained.check("renamed", "words:1")
    with pytest.raises(UserError) as raised:
        trained.check("words", "words:2")
    assert str(raised.value) == (
        "The head was trained on the encoder 'words' (words:1), not on 'words' (words:2)."
    )


def refusal(folder: Path) -> str:
    with pytest.raises(UserError) as raised:
        load_projection(folder)
    assert str(raised.value).startswith(f"{folder}: ")
    return str(raised.value)


def test_a_folder_without_a_head_is_told_what_it_lacks(tmp_path, trained):
    folder = tmp_path / "head"
    assert refusal(folder) == f"{folder}: holds no head (head.json is missing)."
    for name in ("head.json", "head.safetensors"):
        trained.save(folder)
        (folder / name).unlink()
        assert refusal(folder) == f"{folder}: holds no head ({name} is missing)."
    (folder / "head.json").unlink()
    (folder / "head.json").mkdir()
    assert "cannot be read" in refusal(folder)


def without(*path: str):
    def edit(card: dict[str, Any]) -> None:
        for name in path[:-1]:
            card = card[name]
        del card[path[-1]]

    return edit


@pytest.mark.parametrize(
    "edit",
    [
        without("encoder"),
        without("encoder", "identity"),
        without("encoder", "name"),
        without("width"),
        without("settings"),
        without("history"),
        lambda card: card.update(width=9),
        lambda card: card.update(width="wide"),
        lambda card: card.update(encoder="words"),
        lambda card: card["encoder"].update(identity=3),
        lambda card: card["settings"].update(hidden=17),
        lambda card: card["settings"].update(hidden="16"),
        lambda card: card["settings"].update(dropout=2.0),
        lambda card: card["settings"].update(unheard_of=1),
        lambda card: card["history"].append({"epoch": 1}),
        lambda card: card["history"].append(7),
    ],
)
def test_a_card_that_is_not_of_the_weights_or_not_whole_is_refused(tmp_path, trained, edit):
    trained.save(tmp_path)
    card = json.loads((tmp_path / "head.json").read_text())
    edit(card)
    (tmp_path / "head.json").write_text(json.dumps(card))
    message = refusal(tmp_path)
    assert message.startswith(f"{tmp_path}: the head cannot be read (")
    assert message.endswith("). Train it again.")


@pytest.mark.parametrize("name", ["head.json", "head.safetensors"])
@pytest.mark.parametrize("damage", ["half", "empty", "noise", "list"])
def test_damaged_files_are_refused(tmp_path, trained, name, damage):
    trained.save(tmp_path)
    whole = (tmp_path / name).read_bytes()
    damaged = {"half": whole[: len(whole) // 2], "empty": b"", "noise": b"\xff" * 50, "list": b"[]"}
    (tmp_path / name).write_bytes(damaged[damage])
    assert "the head cannot be read" in refusal(tmp_path)


def test_weights_of_another_width_are_refused(tmp_path, data, trained):
    trained.save(tmp_path / "one")
    other = train_head(data, replace(SETTINGS, epochs=1, hidden=7), WordEncoder())
    other.save(tmp_path / "other")
    (tmp_path / "other" / "head.safetensors").replace(tmp_path / "one" / "head.safetensors")
    assert "the head cannot be read" in refusal(tmp_path / "one")


@pytest.mark.parametrize(
    ("where", "error", "raised"),
    [
        ("json.dump", KeyboardInterrupt(), KeyboardInterrupt),
        ("json.dump", OSError(errno.ENOSPC, "No space left on device"), UserError),
        ("save", KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_an_interrupted_save_leaves_no_half_file(
    monkeypatch, tmp_path, data, trained, where, error, raised
):
    def stop(*arguments: Any, **options: Any) -> None:
        if where == "json.dump":
            arguments[1].write('{"encoder": {"na')
        raise error

    fresh_folder, used = tmp_path / "fresh", tmp_path / "used"
    trained.save(used)
    card = (used / "head.json").read_bytes()
    other = train_head(data, replace(SETTINGS, epochs=1, seed=4), WordEncoder())
    with monkeypatch.context() as patched:
        patched.setattr(f"admire.head.projection.{where}", stop)
        for folder in (fresh_folder, used):
            with pytest.raises(raised):
                other.save(folder)
    left = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert left <= {"head.json", "head.safetensors"}  # nothing of another name
    assert not (fresh_folder / "head.json").exists()
    refusal(fresh_folder)
    assert (used / "head.json").read_bytes() == card
    # The old card must not pass for that of new weights.
    try:
        found = load_projection(used)
    except UserError:
        return
    assert same(found.head, trained.head)


# --------------------------------------------------------------------------- the command line


class Others(WordEncoder):
    name = "others"
    identity = "others:1"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Toys in place of the models of train and rank; what was asked for."""
    opened: list[Any] = []

    def open_encoder(name: str, **options: Any) -> WordEncoder:
        opened.append((name, options))
        return Others() if name == "others" else WordEncoder()

    def open_llm(name: str, *, url: str | None = None) -> ScriptedChat:
        opened.append((name, url))
        return ScriptedChat(
            lambda prompt: "Idiomatic" if "literally" in prompt else "a woman awake late"
        )

    for module in ("encoders", "run"):
        monkeypatch.setattr(f"admire.{module}.open_encoder", open_encoder)
    for module in ("llm", "run"):
        monkeypatch.setattr(f"admire.{module}.open_llm", open_llm)
    return opened


COMPOUNDS = ("night owl", "bad apple", "red tape", "couch potato", "cold feet")


@pytest.fixture
def table(write_table) -> Path:
    said = "a {} at a desk"
    return write_table(*(admire_row(c, image1_caption=said.format(c)) for c in COMPOUNDS))


SMALL = ("--soft-negatives", "2", "--hidden", "8", "--output", "5", "--epochs", "3")


def test_train_writes_a_head_and_prints_its_card(capsys, tmp_path, opened, table):
    folder = tmp_path / "head"
    options = shlex.split(
        "--llm openai:x --llm-url http://y --encoder words --device cpu --seed 2 --batch-size 3 "
        "--learning-rate 0.01 --weight-decay 0.1 --temperature 0.5 --dropout 0.2 --patience 4 "
        "--residual --glosses-only"
    )
    code, out, err = run(capsys, "train", "head", table, "--out", folder, *SMALL, *options)
    assert code == 0, err
    assert f"Wrote {folder}" in err
    assert opened == [("words", {"device": "cpu"}), ("openai:x", "http://y")]
    card = json.loads(out)
    assert card["settings"] == asdict(
        TrainSettings(
            hidden=8,
            output=5,
            dropout=0.2,
            residual=True,
            glosses_only=True,
            batch_size=3,
            learning_rate=0.01,
            weight_decay=0.1,
            soft_negatives=2,
            temperature=0.5,
            epochs=3,
            patience=4,
            seed=2,
        )
    )
    assert card["modalities"] == ["caption"]
    assert card["encoder"]["identity"] == "words:1"
    assert sorted(chain(*card["compounds"].values())) == sorted(COMPOUNDS)
    found = load_projection(folder)
    assert len(found.history) == 3
    assert json.loads(json.dumps(found.card)) == card


def test_trains_defaults_are_the_librarys(capsys, monkeypatch, opened, table):
    def stop(triplets: Triplets, wanted: TrainSettings, encoder: Any) -> None:
        assert wanted == TrainSettings()
        raise UserError("That is enough.")

    monkeypatch.setattr("admire.head.training.train_head", stop)
    assert run(capsys, "train", "head", table)[2].endswith("admire: That is enough.\n")
    assert opened == [("e5", {"device": "auto"}), ("embedded", None)]


def test_rank_compares_in_the_heads_space_and_records_the_head(capsys, tmp_path, opened, table):
    folder, out = tmp_path / "head", tmp_path / "run"
    assert run(capsys, "train", "head", table, "--out", folder, *SMALL)[0] == 0
    plain = ("rank", table, "--llm", "openai:x", "--no-standardise")
    code, _, err = run(capsys, *plain, "--out", out, "--head", folder)
    assert code == 0, err
    assert json.loads((out / "run.json").read_text())["settings"]["head"] == str(folder)

    head = load_projection(folder)

    def seen(text: str, role: str) -> np.ndarray:
        return head.project(WordEncoder().encode_texts([text], role=role))[0]

    scores = pd.read_csv(out / "scores.csv")
    assert len(scores) == 25
    rows = admire_row()
    for row in scores.itertuples():
        k = "abcde".index(row.candidate[0]) + 1
        caption = f"a {row.compound} at a desk" if k == 1 else rows[f"image{k}_caption"]
        document = seen(caption, "document")
        assert row.caption_gloss == pytest.approx(
            float(seen("a woman awake late", "query") @ document), abs=1e-5
        )
        assert row.caption_compound == pytest.approx(
            float(seen(row.compound, "query") @ document), abs=1e-5
        )

    without_head = tmp_path / "without"
    assert run(capsys, *plain, "--out", without_head)[0] == 0
    assert json.loads((without_head / "run.json").read_text())["settings"]["head"] is None
    cosines = pd.read_csv(without_head / "scores.csv")["caption_gloss"]
    assert not np.allclose(cosines, scores["caption_gloss"], atol=0.01)


def test_with_a_head_for_glosses_compounds_are_compared_as_without(capsys, tmp_path, opened, table):
    folder = tmp_path / "head"
    assert run(capsys, "train", "head", table, "--out", folder, *SMALL)[0] == 0
    shutil.copytree(folder, tmp_path / "glosses")
    card = json.loads((folder / "head.json").read_text())
    card["settings"]["glosses_only"] = True
    (tmp_path / "glosses" / "head.json").write_text(json.dumps(card))
    found = {}
    for name in ("without", "head", "glosses"):
        options = () if name == "without" else ("--head", tmp_path / name)
        out = tmp_path / "runs" / name
        assert run(capsys, "rank", table, "--llm", "openai:x", "--out", out, *options)[0] == 0
        found[name] = pd.read_csv(out / "scores.csv")
    glosses = found["glosses"]
    assert np.allclose(glosses["caption_gloss"], found["head"]["caption_gloss"])
    assert np.allclose(glosses["caption_compound"], found["without"]["caption_compound"])
    assert not np.allclose(glosses["caption_compound"], found["head"]["caption_compound"])

    baseline = ("rank", table, "--query", "sentence", "--head", tmp_path / "glosses")
    code, _, err = run(capsys, *baseline, "--out", tmp_path / "none")
    assert code == 2
    assert "admire: The head compares glosses only: --query sentence would not use it." in err


def test_a_head_of_another_encoder_or_of_none_is_refused(capsys, tmp_path, opened, table):
    folder, out = tmp_path / "head", tmp_path / "run"
    assert run(capsys, "train", "head", table, "--out", folder, *SMALL)[0] == 0
    plain = ("rank", table, "--llm", "openai:x", "--out", out, "--head")
    for options in (("--encoder", "others"), ("--caption-encoder", "others")):
        code, stdout, err = run(capsys, *plain, folder, *options)
        assert (code, stdout) == (2, "")
        assert err.splitlines()[-1] == (
            "admire: The head was trained on the encoder 'words' (words:1), not on 'others' "
            "(others:1)."
        )
    code, _, err = run(capsys, *plain, tmp_path / "nowhere")
    assert code == 2
    assert err.splitlines()[-1] == (
        f"admire: {tmp_path / 'nowhere'}: holds no head (head.json is missing)."
    )
    assert not out.exists()


@pytest.mark.parametrize(
    ("rows", "options", "says"),
    [
        ([admire_row(c, expected_order="") for c in COMPOUNDS], SMALL, "no expected_order"),
        ([admire_row(c, sentence_type="") for c in COMPOUNDS], SMALL, "no sentence_type"),
        ([admire_row(c) for c in COMPOUNDS[:2]], SMALL, "three compounds at least"),
        ([admire_row(c) for c in COMPOUNDS], (), "30 soft negatives are asked for"),
        ([admire_row(c) for c in COMPOUNDS], ("--track", "image"), "No candidate has an image"),
    ],
)
def test_what_cannot_be_trained_on_ends_with_one_message(
    capsys, tmp_path, opened, write_table, rows, options, says
):
    folder = tmp_path / "head"
    code, out, err = run(capsys, "train", "head", write_table(*rows), "--out", folder, *options)
    assert (code, out) == (2, "")
    assert says in err.splitlines()[-1]
    assert not folder.exists()


@pytest.mark.parametrize("command", ["train head", "rank"])
def test_without_torch_it_says_which_extra_is_needed(
    capsys, monkeypatch, tmp_path, opened, table, command
):
    for module in ("projection", "training"):
        monkeypatch.delitem(sys.modules, f"admire.head.{module}")
    hide(monkeypatch, "torch")
    options = ("--head", tmp_path) if command == "rank" else ()
    words = command.split()
    code, out, err = run(capsys, *words, table, "--out", tmp_path / "out", *options)
    assert (code, out) == (2, "")
    assert "torch" in err
    assert "pip install '.[train]'" in err


def test_a_sweep_tries_what_is_asked_for_and_its_folds_go_on(capsys, tmp_path, opened, table):
    out = tmp_path / "sweep.jsonl"
    options = shlex.split(
        "--soft-negatives 1 --soft-negatives 2 --dropout 0.2 --learning-rate 0.01 "
        "--temperature 0.5 --batch-size 2 --epochs 2 --residual --glosses-only --json"
    )
    code, stdout, err = run(capsys, "sweep", table, "--out", out, *options)
    assert code == 0, err
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    settings = [json.loads(row["job"])[0] for row in rows]
    assert sorted(one["soft_negatives"] for one in settings) == [1, 2]
    expected = TrainSettings(
        dropout=0.2,
        residual=True,
        glosses_only=True,
        batch_size=2,
        learning_rate=0.01,
        temperature=0.5,
        epochs=2,
    )
    assert all(TrainSettings(**one | {"soft_negatives": 30}) == expected for one in settings)
    shown = json.loads(stdout)
    losses = sorted(row["outcome"]["validation_loss"] for row in rows)
    assert [row["validation_loss"] for row in shown] == pytest.approx(losses)

    code, stdout, err = run(capsys, "sweep", table, "--out", out, *options, "--folds", "5")
    assert code == 0, err
    tables = json.loads(stdout)
    assert list(tables) == ["without a head", "in the head's space", "second minus first"]
    assert len(out.read_text().splitlines()) == 2 + 2 * 5
    _, again, err = run(capsys, "sweep", table, "--out", out, *options, "--folds", "5")
    assert again == stdout
    assert "Training" not in err


def test_an_epoch_is_what_figures_need():
    assert asdict(Epoch(1, 0.5, 0.25, None)) == {
        "epoch": 1,
        "training": 0.5,
        "validation": 0.25,
        "top1": None,
    }
