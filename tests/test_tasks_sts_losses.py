import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="needs the extra 'finetune'")
for package in ("sentence_transformers", "pytorch_metric_learning"):
    pytest.importorskip(package, reason="needs the extra 'finetune'")

from formulas import by_loops, consistency  # noqa: E402

from admire.tasks.sts.training import AdaptiveTripletLoss, ConsistencyLoss  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


def double(values: object) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def drawn(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


TABLE_1 = torch.tensor([1, 1, 2, 3, 3, 4, 5])
IDENTITY = torch.nn.Identity()


def adaptive(**options: Any) -> AdaptiveTripletLoss:
    return AdaptiveTripletLoss(IDENTITY, **options)  # type: ignore[arg-type]


def far_groups() -> torch.Tensor:
    """Vectors of table 1, of any length: those of a group are near, the groups are not."""
    found = 0.03 * drawn(0, 7, 4)
    found[:3, 0] += 1
    found[3:, 1] += 1
    return found * double([1, 2, 3, 0.5, 1, 4, 1])[:, None]


def test_the_miner_finds_the_triplets_that_the_paper_counts_in_table_1():
    first = {(0, 1, 2), (1, 0, 2)}
    second = {(3, 4, 5), (3, 4, 6), (4, 3, 5), (4, 3, 6)}
    mined = adaptive().miner(far_groups(), TABLE_1)
    assert set(zip(*(part.tolist() for part in mined), strict=True)) == first | second


def at(*degrees: float) -> torch.Tensor:
    return double([[math.cos(math.radians(d)), math.sin(math.radians(d))] for d in degrees])


@given(
    st.integers(0, 10**6),
    st.lists(st.integers(0, 3), min_size=2, max_size=8),
    st.sampled_from((0.0, 0.4, 3.0)),
    st.sampled_from((0.0, 0.3, 1.0)),
)
def test_both_triplet_losses_are_their_equations_by_literal_loops(seed, labels, near, margin):
    found = drawn(seed, len(labels), 3)
    losses = by_loops(found, labels, near, margin)
    options = {"miner_margin": near, "margin": margin}
    above = [hinge for each in losses.values() for hinge in each if hinge > 0]
    one = adaptive(**options).of_vectors(found, torch.tensor(labels))
    assert float(one) == pytest.approx(sum(above) / max(len(above), 1), abs=1e-6)
    sums = [sum(each) for each in losses.values()]
    several = adaptive(**options, multi_negative=True).of_vectors(found, torch.tensor(labels))
    assert float(several) == pytest.approx(sum(sums) / max(len(sums), 1), abs=1e-6)


@pytest.mark.parametrize("multi_negative", [False, True])
@pytest.mark.parametrize(
    ("found", "labels"),
    [(at(0, 1, 180), [1, 1, 2]), (at(0, 1, 2), [1, 2, 3]), (at(0, 9, 2), [1, 1, 1])],
    ids=["far", "no positive", "no negative"],
)
def test_without_mined_triplets_the_loss_is_0_and_has_a_gradient(found, labels, multi_negative):
    found = found.clone().requires_grad_()
    loss = adaptive(multi_negative=multi_negative).of_vectors(found, torch.tensor(labels))
    assert loss.item() == 0
    loss.backward()
    assert found.grad is not None
    assert not found.grad.any()


@given(
    st.integers(0, 10**6),
    st.integers(1, 5),
    st.sampled_from((1.0, 5.0, 20.0)),
    st.sampled_from((0.0, 0.2)),
)
def test_the_consistency_loss_is_what_its_words_say(seed, count, scale, margin):
    parts = [drawn(seed + k, count, 3) for k in range(3)]
    found = ConsistencyLoss(IDENTITY, scale, margin).of_vectors(*parts)  # type: ignore[arg-type]
    assert float(found) == pytest.approx(consistency(*parts, scale, margin), rel=1e-6)
