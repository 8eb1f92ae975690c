"""Training a head: its loss against equation 1, what it learns from, and when it stops."""

import copy
import json
from dataclasses import asdict, replace
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="needs the extra 'train'")

from heads import SETTINGS, fresh, made, projected, same, unit  # noqa: E402 - after the skip
from toys import WordEncoder  # noqa: E402

from admire.encoders.projection import Head  # noqa: E402
from admire.tasks.training.heads import fit_head, top1_share, train_head, triplet_loss  # noqa: E402
from admire.tasks.training.triplets import Triplets, draw_soft_negatives, split_compounds  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


def equation_1(data, head, batch, samples, candidates, temperature) -> float:
    """The paper's equation for a batch, word for word, with as many digits as it takes."""

    def f(one: np.ndarray, other: np.ndarray) -> Decimal:
        return (Decimal(float(one @ other)) / Decimal(temperature)).exp()

    losses = []
    for row, s in enumerate(batch):
        anchor = projected(head, data.anchors[s])
        best = s, data.positive[s]
        others = [(s, c) for c in range(data.present.shape[1]) if c != data.positive[s]]
        others += zip(samples[row], candidates[row], strict=True)
        logarithms = []
        for m in np.flatnonzero(data.present[best]):
            p = f(anchor, projected(head, data.documents[best][m]))
            there = [place for place in others if data.present[place][m]]
            negatives = [f(anchor, projected(head, data.documents[n][m])) for n in there]
            logarithms.append((p / (p + sum(negatives))).ln())
        losses.append(-sum(logarithms) / len(logarithms))
    return float(sum(losses) / len(losses))


@settings(max_examples=60)
@given(
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(0, 9),
    st.sampled_from([0.001, 0.01, 0.08, 0.2, 1.0, 7.0]),
    st.integers(0, 999),
    st.booleans(),
)
def test_the_loss_of_a_batch_is_equation_1(c, m, k, temperature, seed, residual):
    data = made(candidates=c, modalities=m, seed=seed)
    data.documents[~data.present] = 50.0  # what is not there says nothing
    rng = np.random.default_rng(seed)
    head = fresh(8, replace(SETTINGS, residual=residual, seed=seed))
    batch = rng.permutation(24)[:7]
    # Few to draw from, so that soft negatives are shared, and are positives of others in the batch.
    drawn = draw_soft_negatives(data, batch, np.arange(24)[: k + 8], min(k, 5), rng)
    loss = triplet_loss(data, head, batch, *drawn, temperature).item()
    with localcontext() as context:
        context.prec = 40
        expected = equation_1(data, head, batch, *drawn, temperature)
    assert loss == pytest.approx(expected, rel=1e-4, abs=1e-6 / temperature)


@pytest.fixture(scope="module")
def data() -> Triplets:
    return made(compounds=20)


@pytest.fixture(scope="module")
def parts(data: Triplets) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return split_compounds(data.compounds)


def test_the_loss_falls_and_the_head_learns_what_counts(data, parts):
    wanted = replace(SETTINGS, learning_rate=1e-2, hidden=64, epochs=30, patience=30)
    head, history = fit_head(data, *parts[:2], wanted, watched=parts[2])
    assert [epoch.epoch for epoch in history] == list(range(1, 31))
    assert history[-1].training < 0.7 * history[0].training
    assert min(epoch.validation for epoch in history) < history[0].validation
    assert top1_share(data, parts[0], head) > top1_share(data, parts[0]) + 0.2


@pytest.mark.parametrize("patience", [1, 2, 3])
def test_patience_counts_epochs_without_a_lower_loss_and_the_best_comes_back(data, parts, patience):
    wanted = replace(SETTINGS, learning_rate=0.1, epochs=12, patience=12)
    _, whole = fit_head(data, *parts[:2], wanted)
    losses = [epoch.validation for epoch in whole]
    seen = next(k for k in range(1, 12) if k - 1 - np.argmin(losses[:k]) == patience)
    head, history = fit_head(data, *parts[:2], replace(wanted, patience=patience))
    assert list(history) == list(whole[:seen])
    best = int(np.argmin(losses[:seen])) + 1
    assert same(head, fit_head(data, *parts[:2], replace(wanted, epochs=best))[0])


def test_a_seed_fixes_the_weights_and_others_give_others(data, parts):
    state = np.random.get_state()[1].copy()
    found = []
    quick = replace(SETTINGS, epochs=2)
    for outside in (1, 2):  # whatever the surroundings have drawn
        torch.manual_seed(outside)
        before = torch.get_rng_state()
        found.append(fit_head(data, *parts[:2], quick))
        assert torch.equal(torch.get_rng_state(), before)
    assert (np.random.get_state()[1] == state).all()
    assert same(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]
    other = fit_head(data, *parts[:2], replace(quick, seed=1))
    assert not same(found[0][0], other[0])


def disturbed(data: Triplets, samples: np.ndarray) -> Triplets:
    """Other vectors and another positive for these samples."""
    rng, changed = np.random.default_rng(9), copy.deepcopy(data)
    for vectors in (changed.anchors, changed.documents):
        vectors[samples] = unit(rng.normal(size=vectors[samples].shape))
    changed.positive[samples] = (data.positive[samples] + 1) % data.documents.shape[1]
    changed.present[samples] = True
    return changed


def test_the_test_samples_have_no_influence(data, parts):
    training, validation, test = parts
    alone, unwatched = fit_head(data, training, validation, SETTINGS)
    for watched in (data, disturbed(data, test)):
        head, history = fit_head(watched, training, validation, SETTINGS, watched=test)
        assert same(head, alone)
        assert [replace(epoch, top1=None) for epoch in history] == list(unwatched)
    changed = disturbed(data, training[:1])  # whereas each training sample has some
    assert not same(alone, fit_head(changed, training, validation, SETTINGS)[0])


def test_a_head_for_glosses_does_not_learn_from_compounds(data, parts):
    """What is the best of a literal item does not matter; that of an idiomatic one does."""
    training, validation, _ = parts
    quick = replace(SETTINGS, glosses_only=True, epochs=3)

    def after(of: np.ndarray) -> Head:
        changed = replace(data, positive=data.positive.copy(), present=data.present | True)
        changed.positive[of] = (changed.positive[of] + 1) % data.documents.shape[1]
        return fit_head(changed, training, validation, quick)[0]

    both = np.concatenate([training, validation])
    untouched = after(both[:0])
    assert same(after(both[~data.gloss[both]]), untouched)
    assert not same(after(training[data.gloss[training]]), untouched)


def test_the_card_tells_how_the_head_was_made(data):
    wanted = replace(SETTINGS, seed=3, epochs=3)
    trained = train_head(data, wanted, WordEncoder())
    card = json.loads(json.dumps(trained.card))
    assert card["encoder"] == {"name": "words", "identity": "words:1"}
    assert (card["width"], card["modalities"]) == (8, ["image", "caption"])
    assert card["settings"] == asdict(wanted)
    parts = split_compounds(data.compounds, 3)
    for part, names in zip(parts, card["compounds"].values(), strict=True):
        assert names == sorted({data.compounds[k] for k in part})
    head, history = fit_head(data, *parts[:2], wanted, watched=parts[2])
    assert same(trained.head, head)
    assert trained.history == history
    best = min(history, key=lambda epoch: epoch.validation)
    assert (card["epoch"], card["validation_loss"]) == (best.epoch, best.validation)
    assert card["test_top1"] == {"head": best.top1, "none": top1_share(data, parts[2])}
