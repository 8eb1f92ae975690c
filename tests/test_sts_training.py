"""Objectives for sentence similarity against their formulas, what is held out, the mean of the last
two layers, training itself, and the command."""

from __future__ import annotations

import json
import logging
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from commands import run
from hypothesis import given
from hypothesis import strategies as st

from admire import SAMPLES
from admire.encoders import open_encoder
from admire.encoders.placement import Placement
from admire.encoders.sentence import SentenceEncoder
from admire.errors import UserError
from admire.sts.evaluation import compare, evaluate
from admire.sts.pairs import Group, Pair, read_groups, read_pairs

torch = pytest.importorskip("torch", reason="needs the extra 'finetune'")
for package in ("sentence_transformers", "datasets", "accelerate", "pytorch_metric_learning"):
    pytest.importorskip(package, reason="needs the extra 'finetune'")

import transformers  # noqa: E402
from datasets import Dataset  # noqa: E402
from sentence_transformers import SentenceTransformer  # noqa: E402
from sentence_transformers.sentence_transformer.modules import Pooling  # noqa: E402
from towers import WORDS, distance, save_sentence_transformer  # noqa: E402

from admire import trainer as finetune  # noqa: E402
from admire.sts import mwes, training  # noqa: E402
from admire.sts.losses import AdaptiveTripletLoss, ConsistencyLoss, WeightedLoss  # noqa: E402
from admire.sts.rows import (  # noqa: E402
    ONE_SHOT,
    as_pairs,
    dealt,
    filled_triples,
    hold_out,
    labelled,
    repeated,
    split_pairs,
    triples,
)
from admire.sts.training import (  # noqa: E402
    FROM_PAIRS,
    OBJECTIVES,
    SentenceTraining,
    average_last_two,
    finetune_sentences,
)
from admire.trainer import FitSettings  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread", "no_card", "tried")

CPU = Placement("cpu")
QUICK = FitSettings(batch_size=8, learning_rate=3e-3, epochs=3, patience=3)


# ------------------------------------------------------------------------------ data and models

SUBJECTS = ("my sister", "the man", "a woman", "my owl")
SENSES = {
    "night owl": ("woman who writes at midnight", "bird in the tree"),
    "red lamp": ("real man", "small circle"),
    "big desk": ("sister of a man", "square triangle"),
    "blue bird": ("midnight", "yellow tree"),
}
GROUPS = [
    Group(f"{who} is a {mwe}", (f"{who} is a {right}",), (f"{who} is a {wrong}",), "en", mwe)
    for who in SUBJECTS
    for mwe, (right, wrong) in SENSES.items()
]
TRAIN, VAL = GROUPS[:12], as_pairs(GROUPS[12:])
PAIRS = [
    Pair(f"{k}{j}", "en", f"{who} {one}", f"{who} {other}", similarity)
    for k, who in enumerate(SUBJECTS)
    for j, (one, other, similarity) in enumerate(
        (
            ("is big", "is a big man", 0.9),
            ("writes at the desk", "writes on the desk", 1.0),
            ("is red", "is in a tree", 0.2),
            ("is a square", "writes at midnight", 0.0),
        )
    )
]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_sentence_transformer(tmp_path_factory.mktemp("models") / "plain")


@pytest.fixture
def model(plain: Path) -> SentenceTransformer:
    return SentenceTransformer(str(plain), device="cpu").eval()


def opened(folder: Path) -> SentenceEncoder:
    return SentenceEncoder(str(folder), None, CPU)


def vectors(model: SentenceTransformer, texts: Sequence[str]) -> torch.Tensor:
    return model(model.preprocess(list(texts)))["sentence_embedding"].double()


def figure(folder: Path, pairs: Sequence[Pair] = VAL) -> float:
    """Spearman's correlation of the model that the folder holds, with the tokens that it has."""
    encoder = open_encoder(f"sbert:{folder}", device="cpu")
    read = mwes.reader(encoder.encoder.model, {pair.mwe for pair in pairs if pair.mwe})
    scored = evaluate(pairs, compare(pairs, encoder, read))
    return float(scored[scored["subset"] == "all"]["spearman"].iloc[-1])


def double(values: object) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def cos(one: torch.Tensor, other: torch.Tensor) -> float:
    return float(one @ other / (one.norm() * other.norm()))


def drawn(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# ------------------------------------------------------------------------- He et al.: triplets

TABLE_1 = torch.tensor([1, 1, 2, 3, 3, 4, 5])
IDENTITY = torch.nn.Identity()


def adaptive(**options: Any) -> AdaptiveTripletLoss:
    return AdaptiveTripletLoss(IDENTITY, **options)  # type: ignore[arg-type]


def mined(loss: AdaptiveTripletLoss, found: torch.Tensor, labels: torch.Tensor) -> set[tuple]:
    return set(zip(*(part.tolist() for part in loss.miner(found, labels)), strict=True))


def far_groups() -> torch.Tensor:
    """Vectors of table 1, of any length: those of a group are near, the groups are not."""
    found = 0.03 * drawn(0, 7, 4)
    found[:3, 0] += 1
    found[3:, 1] += 1
    return found * double([1, 2, 3, 0.5, 1, 4, 1])[:, None]


def test_the_miner_finds_the_triplets_that_the_paper_counts_in_table_1():
    first = {(0, 1, 2), (1, 0, 2)}
    second = {(3, 4, 5), (3, 4, 6), (4, 3, 5), (4, 3, 6)}
    assert mined(adaptive(), far_groups(), TABLE_1) == first | second


def test_sentences_of_other_groups_are_negatives_where_they_are_near():
    near = double([[1.0, 0.05 * k] for k in range(7)])
    found = mined(adaptive(), near, TABLE_1)
    assert len(found) == 2 * 5 + 2 * 5
    assert {(0, 1, 3), (4, 3, 2)} <= found


def at(*degrees: float) -> torch.Tensor:
    return double([[math.cos(math.radians(d)), math.sin(math.radians(d))] for d in degrees])


@pytest.mark.parametrize(("beyond", "count"), [(-1e-4, 1), (1e-4, 0)])
@pytest.mark.parametrize("margin", [0.4, 0.1])
def test_the_miner_keeps_negatives_that_are_not_farther_by_its_margin(margin, beyond, count):
    apart = 2 * math.sin(math.radians(20)) + margin + beyond
    angle = math.degrees(2 * math.asin(apart / 2))
    found = mined(adaptive(miner_margin=margin), at(0, -40, angle), torch.tensor([1, 1, 2]))
    assert len(found & {(0, 1, 2)}) == count
    assert (1, 0, 2) not in found


def test_the_loss_of_one_triplet_is_that_worked_out_by_hand():
    labels = torch.tensor([7, 7, 3])
    # d(p, n) = 2 sin 15° < d(p, a) = 1, so (p, a, n) is mined; d(a, n) − d(a, p) = 0.414 is not.
    wanted = math.cos(math.radians(30)) - 0.5 + 0.3
    for found in (at(0, 60, 90), at(0, 60, 90) * double([[2], [5], [0.1]])):
        assert float(adaptive().of(found, labels)) == pytest.approx(wanted, abs=1e-9)
        assert float(adaptive(multi_negative=True).of(found, labels)) == pytest.approx(wanted)
    assert float(adaptive(margin=0.1).of(at(0, 60, 90), labels)) == pytest.approx(wanted - 0.2)
    # With a wider margin both are mined, and the loss of the other one is 0.
    wide = adaptive(miner_margin=0.5).of(at(0, 60, 90), labels)
    assert float(wide) == pytest.approx(wanted, abs=1e-9), "a mean of those above 0"
    both = adaptive(miner_margin=0.5, multi_negative=True).of(at(0, 60, 90), labels)
    assert float(both) == pytest.approx(wanted / 2, abs=1e-9), "a mean of (a, p)"


def by_loops(
    found: torch.Tensor, labels: Sequence[int], miner_margin: float, margin: float
) -> dict[tuple[int, int], list[float]]:
    """max(d(a, p) − d(a, n) + m, 0) of each mined negative, by anchor and positive."""
    unit = found / found.norm(dim=1, keepdim=True)
    losses: dict[tuple[int, int], list[float]] = {}
    for a in range(len(labels)):
        for p in range(len(labels)):
            if p == a or labels[a] != labels[p]:
                continue
            for n in range(len(labels)):
                gap = float((unit[a] - unit[n]).norm() - (unit[a] - unit[p]).norm())
                if labels[n] == labels[a] or gap > miner_margin:
                    continue
                hinge = max(cos(found[a], found[n]) - cos(found[a], found[p]) + margin, 0)
                losses.setdefault((a, p), []).append(hinge)
    return losses


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
    one = adaptive(**options).of(found, torch.tensor(labels))
    assert float(one) == pytest.approx(sum(above) / max(len(above), 1), abs=1e-6)
    sums = [sum(each) for each in losses.values()]
    several = adaptive(**options, multi_negative=True).of(found, torch.tensor(labels))
    assert float(several) == pytest.approx(sum(sums) / max(len(sums), 1), abs=1e-6)


@pytest.mark.parametrize("multi_negative", [False, True])
@pytest.mark.parametrize(
    ("found", "labels"),
    [(at(0, 1, 180), [1, 1, 2]), (at(0, 1, 2), [1, 2, 3]), (at(0, 9, 2), [1, 1, 1])],
    ids=["far", "no positive", "no negative"],
)
def test_without_mined_triplets_the_loss_is_0_and_has_a_gradient(found, labels, multi_negative):
    found = found.clone().requires_grad_()
    loss = adaptive(multi_negative=multi_negative).of(found, torch.tensor(labels))
    assert loss.item() == 0
    loss.backward()
    assert found.grad is not None
    assert not found.grad.any()


@pytest.mark.parametrize("multi_negative", [False, True])
def test_gradients_of_the_triplet_losses_are_right(multi_negative):
    loss = adaptive(multi_negative=multi_negative)
    found = drawn(3, 7, 4).requires_grad_()
    assert loss.of(found, TABLE_1).item() > 0
    assert torch.autograd.gradcheck(lambda v: loss.of(v, TABLE_1), found)


@pytest.mark.parametrize("multi_negative", [False, True])
def test_a_batch_has_the_loss_of_its_sentences_vectors(model, multi_negative):
    loss = AdaptiveTripletLoss(model, multi_negative=multi_negative)
    rows = labelled(GROUPS[:3])
    texts, labels = ([row[name] for row in rows] for name in ("sentence", "label"))
    with torch.no_grad():
        found = loss([model.preprocess(texts)], torch.tensor(labels))
        wanted = loss.of(vectors(model, texts), torch.tensor(labels))
    assert 0 < float(found) == pytest.approx(float(wanted), abs=1e-5)


# ------------------------------------------------------------------------------- consistency


def consistency(s: torch.Tensor, c: torch.Tensor, i: torch.Tensor, scale: float, margin: float):
    total = 1.0
    for n in range(len(s)):
        for m in range(len(s)):
            for below in (cos(s[n], i[n]), cos(c[n], i[n])):
                total += math.exp(scale * (below - cos(s[m], c[m]) + margin))
    gaps = [(cos(s[n], i[n]) - cos(c[n], i[n])) ** 2 for n in range(len(s))]
    return math.log(total) + scale * sum(gaps) / len(gaps)


@given(
    st.integers(0, 10**6),
    st.integers(1, 5),
    st.sampled_from((1.0, 5.0, 20.0)),
    st.sampled_from((0.0, 0.2)),
)
def test_the_consistency_loss_is_what_its_words_say(seed, count, scale, margin):
    parts = [drawn(seed + k, count, 3) for k in range(3)]
    found = ConsistencyLoss(IDENTITY, scale, margin).of(*parts)  # type: ignore[arg-type]
    assert float(found) == pytest.approx(consistency(*parts, scale, margin), rel=1e-6)


def test_gradients_of_the_consistency_loss_are_right():
    loss = ConsistencyLoss(IDENTITY, 5.0, 0.1)  # type: ignore[arg-type]
    parts = tuple(drawn(k, 4, 3).requires_grad_() for k in range(3))
    assert torch.autograd.gradcheck(loss.of, parts)


# -------------------------------------------------------- the losses that the objectives build


def built(
    model: SentenceTransformer, objective: Any, *, mixed: bool = False, **changes: Any
) -> dict[str, tuple[list[dict[str, Any]], torch.nn.Module]]:
    settings = SentenceTraining(objective=objective, fit=QUICK, **changes)
    from_pairs = objective in FROM_PAIRS
    return training._tasks(  # type: ignore[return-value]
        model,
        [] if from_pairs else TRAIN,
        PAIRS if from_pairs or mixed else [],
        settings,
    )


def computed(
    model: SentenceTransformer, rows: Sequence[dict[str, Any]], loss: torch.nn.Module
) -> tuple[float, list[torch.Tensor], list[float]]:
    """The loss of rows, and what it is a function of: vectors of each column, and labels."""
    names = [name for name in rows[0] if name != "label"]
    texts = [[row[name] for row in rows] for name in names]
    labels = [row["label"] for row in rows] if "label" in rows[0] else []
    with torch.no_grad():
        found = loss(
            [model.preprocess(column) for column in texts], torch.tensor(labels) if labels else None
        )
        return float(found), [vectors(model, column) for column in texts], labels


def cosent(first: torch.Tensor, second: torch.Tensor, labels: Sequence[float], scale: float):
    total = 1.0
    for k, label in enumerate(labels):
        for j, other in enumerate(labels):
            if label > other:
                gap = cos(first[j], second[j]) - cos(first[k], second[k])
                total += math.exp(scale * gap)
    return math.log(total)


def contrasted(
    anchors: torch.Tensor, positives: torch.Tensor, *negatives: torch.Tensor, tau: float
):
    """SimCSE's equation 2; without negatives multiple negatives ranking."""
    losses = []
    for k, anchor in enumerate(anchors):
        below = sum(
            math.exp(cos(anchor, other) / tau) for part in (positives, *negatives) for other in part
        )
        losses.append(-math.log(math.exp(cos(anchor, positives[k]) / tau) / below))
    return sum(losses) / len(losses)


@pytest.mark.parametrize("temperature", [0.05, 0.2])
def test_cosent_is_ynu_hpccs_equation_1_with_lambda_20(model, temperature):
    ((name, (rows, loss)),) = built(model, "cosent", temperature=temperature).items()
    assert name == "pairs"
    found, parts, labels = computed(model, rows, loss)
    assert found == pytest.approx(cosent(*parts, labels, 1 / temperature), abs=1e-5)
    assert {(r["first"], r["second"], r["label"]) for r in rows} == {
        (p.first, p.second, p.similarity) for p in PAIRS
    }


@pytest.mark.parametrize("objective", sorted(set(OBJECTIVES) - set(FROM_PAIRS)))
def test_correct_paraphrases_join_the_pairs_that_are_mixed_in(model, objective):
    rows, loss = built(model, objective, mixed=True, sts_weight=3.0)["pairs"]
    told = Counter((row["first"], row["second"], row["label"]) for row in rows)
    correct = [(group.sentence, one, 1.0) for group in TRAIN for one in group.correct]
    assert told == Counter([(p.first, p.second, p.similarity) for p in PAIRS] + correct)
    # Where batches are of neighbours, one of correct paraphrases alone would say nothing.
    ours = [(row["first"], row["second"], row["label"]) in correct for row in rows]
    assert ours not in (sorted(ours), sorted(ours, reverse=True))
    found, parts, labels = computed(model, rows, loss)
    assert found == pytest.approx(3 * cosent(*parts, labels, 20), abs=1e-4)
    assert "pairs" not in built(model, objective)


def test_each_batch_of_mixed_pairs_has_short_and_long_ones(model):
    long = [Group(f"{number} " * 40, ("b " * 40,), (), "en", None) for number in range(900)]
    short = [Pair(f"{number}", "en", f"{number}", "b", 0.5, None, None) for number in range(900)]
    settings = SentenceTraining(objective="adaptive", fit=QUICK)
    rows, _ = training._tasks(model, long, short, settings)["pairs"]
    shares = [sum(row["label"] == 1 for row in rows[k : k + 60]) / 60 for k in range(0, 1800, 60)]
    assert min(shares) > 0.2
    assert max(shares) < 0.8
    # In each thousand, neighbours are of like length within their kind.
    texts = [len(row["first"]) for row in rows[:900] if row["label"] == 1]
    assert texts == sorted(texts)


@pytest.mark.parametrize(("margin", "wanted"), [(None, 0.1), (0.7, 0.7)])
def test_the_triplet_loss_is_ynu_hpccs_equation_2_with_euclidean_distance(model, margin, wanted):
    rows, loss = built(model, "triplet+ranking", margin=margin)["triples"]
    found, (anchors, positives, negatives), _ = computed(model, rows, loss)
    hinges = [
        max(float((a - p).norm() - (a - n).norm()) + wanted, 0)
        for a, p, n in zip(anchors, positives, negatives, strict=True)
    ]
    assert 0 < found == pytest.approx(sum(hinges) / len(hinges), abs=1e-5)


def test_ranking_takes_positives_of_other_rows_for_negatives(model):
    tasks = built(model, "triplet+ranking")
    assert list(tasks) == ["triples", "positives"]
    rows, loss = tasks["positives"]
    assert {(r["anchor"], r["positive"]) for r in rows} == {
        (g.sentence, c) for g in TRAIN for c in g.correct
    }
    found, parts, _ = computed(model, rows[:5], loss)
    assert found == pytest.approx(contrasted(*parts, tau=0.05), abs=1e-5)


@pytest.mark.parametrize("temperature", [0.05, 0.5])
def test_simcse_is_equation_2_of_chengyusts(model, temperature):
    ((_, (rows, loss)),) = built(model, "simcse", temperature=temperature).items()
    found, parts, _ = computed(model, rows[:5], loss)
    assert len(parts) == 3
    assert found == pytest.approx(contrasted(*parts, tau=temperature), abs=1e-5)


def test_regression_is_the_squared_error_of_the_cosine(model):
    ((_, (rows, loss)),) = built(model, "regression").items()
    found, (first, second), labels = computed(model, rows, loss)
    errors = [(cos(a, b) - y) ** 2 for a, b, y in zip(first, second, labels, strict=True)]
    assert found == pytest.approx(sum(errors) / len(errors), abs=1e-5)


def test_classification_is_of_u_v_and_their_difference_into_six_classes(model):
    ((_, (rows, loss)),) = built(model, "classification").items()
    found, (u, v), labels = computed(model, rows, loss)
    layer = loss.classifier
    assert tuple(layer.weight.shape) == (6, 3 * 32)
    features = torch.cat([u, v, (u - v).abs()], dim=1)
    with torch.no_grad():
        logits = features @ layer.weight.double().T + layer.bias.double()
    picked = logits.log_softmax(dim=1)[range(len(labels)), labels]
    assert found == pytest.approx(-float(picked.mean()), abs=1e-5)
    assert all(isinstance(label, int) for label in labels)


def test_the_class_of_a_similarity_is_its_nearest_of_0_to_5(model):
    similarities = (0, 0.09, 0.2, 0.29, 0.31, 0.6, 0.89, 0.91, 1)
    pairs = [Pair(f"{k}", "en", f"{k}", "b", float(s)) for k, s in enumerate(similarities)]
    settings = SentenceTraining(objective="classification", fit=QUICK)
    rows, _ = training._tasks(model, [], pairs, settings)["pairs"]
    of = {row["first"]: row["label"] for row in rows}
    assert [of[f"{k}"] for k in range(len(pairs))] == [0, 0, 1, 1, 2, 3, 4, 5, 5]


@pytest.mark.parametrize(
    ("margin", "temperature", "wanted"), [(None, 0.05, (20, 0)), (0.2, 0.1, (10, 0.2))]
)
def test_the_consistency_loss_is_built_with_the_settings(model, margin, temperature, wanted):
    settings = {"margin": margin, "temperature": temperature}
    ((_, (rows, loss)),) = built(model, "consistent", **settings).items()
    found, parts, _ = computed(model, rows[:6], loss)
    assert found == pytest.approx(consistency(*parts, *wanted), rel=1e-5)


@pytest.mark.parametrize("objective", ["adaptive", "multi-negative"])
@pytest.mark.parametrize(("changes", "margins"), [
    ({}, (0.4, 0.3)), ({"miner_margin": 0.9, "margin": 0.05}, (0.9, 0.05)),
    ({"margin": 0.0}, (0.4, 0.0)),
])  # fmt: skip
def test_the_triplet_losses_are_built_with_the_papers_margins_or_given_ones(
    model, objective, changes, margins
):
    ((_, (rows, loss)),) = built(model, objective, **changes).items()
    found, (texts,), labels = computed(model, rows, loss)
    losses = by_loops(texts, labels, *margins)
    sums = [sum(each) for each in losses.values()]
    above = [hinge for each in losses.values() for hinge in each if hinge > 0]
    wanted = sums if objective == "multi-negative" else above
    assert found == pytest.approx(sum(wanted) / len(wanted), abs=1e-4)


# ------------------------------------------------------------------------------------------ rows


def test_labels_are_those_of_table_1():
    groups = [
        Group("s1", ("c1",), ("i1",), "en", "home run"),
        Group("s2", ("c2",), ("i2", "i3"), "en", "small fry"),
        Group("s3", ("c3", "c4"), (), "en", "small fry"),
        Group("s4", ("c5",), ("i4",), "en"),
    ]
    rows = labelled(groups)
    assert [row["sentence"] for row in rows] == [
        "s1", "c1", "i1", "s2", "c2", "i2", "i3", "s3", "c3", "c4", "s4", "c5", "i4",
    ]  # fmt: skip
    assert [row["label"] for row in rows] == [0, 0, 1, 2, 2, 3, 4, 5, 5, 5, 6, 6, 7]


def test_a_group_that_is_there_again_has_the_labels_that_it_had():
    one = Group("s1", ("c1",), ("i1", "i2"), "en", "home run")
    other = Group("s2", ("c2",), ("i3",), "en", "small fry")
    assert [row["label"] for row in labelled([one, other, one, other])] == [
        0, 0, 1, 2, 3, 3, 4, 0, 0, 1, 2, 3, 3, 4,
    ]  # fmt: skip


def test_groups_of_rare_expressions_are_repeated_and_no_other():
    rare = Group("s1", ("c1",), (), "en", "home run")
    same = replace(rare, sentence="s2", mwe="Home Run")
    portuguese = replace(rare, language="pt")
    plain = Group("s3", ("c3",), (), "en")
    many = [Group(f"m{k}", ("c",), (), "en", "small fry") for k in range(5)]
    found = Counter(repeated([rare, plain, *many, same, portuguese], 4))
    assert found == {rare: 2, same: 2, portuguese: 4, plain: 1, **dict.fromkeys(many, 1)}
    assert Counter(repeated([rare, plain, *many], 1)) == Counter([rare, plain, *many])


def test_triples_are_each_correct_with_each_incorrect_paraphrase():
    groups = [Group("s", ("a", "b"), ("x", "y"), "en"), Group("t", ("c",), (), "en")]
    assert [tuple(row.values()) for row in triples(groups)] == [
        ("s", "a", "x"), ("s", "a", "y"), ("s", "b", "x"), ("s", "b", "y"),
    ]  # fmt: skip
    assert list(triples(groups)[0]) == ["anchor", "positive", "negative"]
    with pytest.raises(UserError, match="No group has both"):
        triples(groups[1:])


@pytest.mark.parametrize("seed", range(8))
def test_what_a_triple_lacks_is_the_sentence_itself_or_one_of_another_group(seed):
    groups = [
        Group("s", (), ("x",), "zh"),
        Group("t", ("c", "d"), (), "zh"),
        Group("u", (), (), "zh"),
        Group("v", ("e",), ("y", "z"), "zh"),
    ]
    rows = [tuple(row.values()) for row in filled_triples(groups, np.random.default_rng(seed))]
    assert rows[0] == ("s", "s", "x")
    assert [row[:2] for row in rows] == [
        ("s", "s"), ("t", "c"), ("t", "d"), ("u", "u"), ("v", "e"), ("v", "e"),
    ]  # fmt: skip
    assert [row[2] for row in rows[4:]] == ["y", "z"]
    assert rows[1][2] in ("s", "u", "v")
    assert rows[2][2] in ("s", "u", "v")
    assert rows[3][2] in ("s", "t", "v")


def test_every_sentence_of_another_group_is_drawn_at_times():
    groups = [Group(name, ("c",), (), "zh") for name in "stuv"]
    found = {
        (row["anchor"], row["negative"])
        for seed in range(40)
        for row in filled_triples(groups, np.random.default_rng(seed))
    }
    assert found == {(a, b) for a in "stuv" for b in "stuv" if a != b}


def test_a_group_alone_has_no_sentence_of_another():
    with pytest.raises(UserError, match="One group alone"):
        filled_triples([Group("s", ("c",), (), "zh")], np.random.default_rng(0))
    assert filled_triples([Group("s", ("c",), ("x",), "zh")], np.random.default_rng(0))


# -------------------------------------------------------------------------------------- held out

MANY = [
    Group(f"{m} {k}", (f"{m} {k} right",), (f"{m} {k} wrong",), "en", m if k % 2 else m.upper())
    for k in range(5)
    for m in (f"mwe {name}" for name in "abcdefghij")
] + [Group(f"plain {k}", (f"plain {k} right",), (), "en") for k in range(10)]


def sentences(groups: Sequence[Group]) -> set[str]:
    return {text for g in groups for text in (g.sentence, *g.correct, *g.incorrect)}


def asked(pairs: Sequence[Pair]) -> set[str]:
    return {text for pair in pairs for text in (pair.first, pair.second)}


@pytest.mark.parametrize("seed", range(5))
def test_of_each_expression_that_is_held_out_one_group_stays(seed):
    kept, held = hold_out(MANY, 0.3, seed)
    assert not sentences(kept) & asked(held)
    assert sentences(kept) | asked(held) == sentences(MANY)
    names = {pair.mwe.casefold() for pair in held if pair.mwe}
    for name in {g.mwe.casefold() for g in MANY if g.mwe}:
        count = sum(bool(g.mwe) and g.mwe.casefold() == name for g in kept)
        assert count == (ONE_SHOT if name in names else 5)
    single = {pair.first for pair in held if not pair.mwe}
    assert len(names) + len(single) == 6, "3 of 10 of either, together"
    assert ONE_SHOT == 1


def test_groups_without_an_expression_are_dealt_singly():
    kept, held = hold_out(MANY[-10:], 0.3)
    assert (len(kept), len(held)) == (7, 3)


def test_the_same_seed_holds_out_the_same_and_another_seed_others():
    assert hold_out(MANY, 0.3, 1) == hold_out(MANY, 0.3, 1)
    assert hold_out(MANY, 0.3, 1) != hold_out(MANY, 0.3, 2)
    assert hold_out(MANY, 0.0) == (hold_out(MANY, 0.0)[0], [])


def test_a_paraphrase_of_two_groups_is_not_on_both_sides():
    groups = [
        Group(f"{name} {k}", ("The same.",), (f"{name} {k} wrong",), "en", name)
        for name in ("a b", "c d", "e f")
        for k in range(4)
    ]
    kept, held = hold_out(groups, 0.4)
    assert held
    assert not sentences(kept) & asked(held)


def test_held_out_groups_become_the_pairs_of_the_task():
    groups = [
        Group("s", ("c", "d"), ("x",), "pt", "pão duro"),
        Group("t", (), ("y",), "zh", None),
    ]
    assert [replace(pair, name="") for pair in as_pairs(groups)] == [
        Pair("", "pt", "s", "c", 1.0, None, "pão duro"),
        Pair("", "pt", "s", "d", 1.0, None, "pão duro"),
        Pair("", "pt", "s", "x", None, ("c", "x"), "pão duro"),
        Pair("", "zh", "t", "y", 0.0, None, None),
    ]


def test_held_out_pairs_share_no_sentence_with_those_to_train_on():
    pairs = [Pair(f"{k}", "en", f"a{k}", f"b{k // 2}", 0.5) for k in range(40)]
    for seed in range(5):
        kept, held = split_pairs(pairs, 0.2, seed)
        assert len(held) == 8
        assert not asked(kept) & asked(held)
        alone = [pair for pair in pairs if pair not in held and not asked([pair]) & asked(held)]
        assert kept == alone
    assert split_pairs(pairs, 0.2, 1) == split_pairs(pairs, 0.2, 1)
    assert split_pairs(pairs, 0.2, 1) != split_pairs(pairs, 0.2, 2)


def test_the_real_training_file_is_held_out_without_overlap(shared):
    path = shared / "semeval2022_task2" / "subtask_b" / "train_data.csv"
    if not path.is_file():
        pytest.skip(f"needs {path}")
    groups = read_groups(path)
    kept, held = hold_out(groups)
    assert not sentences(kept) & asked(held)
    assert len(held) > 300
    assert len(kept) > 0.8 * len(groups)


# -------------------------------------------------------------------------- the last two layers

TEXTS = ["a night owl", "my sister is the real bird in the tree", "owl"]


def pooled(plain: Path) -> np.ndarray:
    """The mean over tokens of the mean of the last two hidden states, by transformers alone."""
    folder = f"{plain}-parts"
    inner = transformers.AutoModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    rows = []
    for text in TEXTS:
        with torch.no_grad():
            states = inner(
                **tokenizer(text, return_tensors="pt"), output_hidden_states=True
            ).hidden_states
        rows.append(((states[-1] + states[-2]) / 2)[0].mean(dim=0).numpy())
    return np.array(rows)


def test_sentences_are_the_mean_of_the_last_two_layers(plain, model):
    last = model.encode(TEXTS)
    average_last_two(model)
    assert np.allclose(model.encode(TEXTS), pooled(plain), atol=1e-6)
    assert not np.allclose(model.encode(TEXTS), last, atol=1e-3)


def test_a_saved_model_still_averages_its_last_two_layers(plain, model, tmp_path):
    average_last_two(model)
    model.save(str(tmp_path / "out"), create_model_card=False)
    found = open_encoder(f"sbert:{tmp_path / 'out'}", device="cpu").encode_texts(
        TEXTS, role="query"
    )
    wanted = pooled(plain)
    assert np.allclose(found, wanted / np.linalg.norm(wanted, axis=1, keepdims=True), atol=1e-6)
    again = SentenceTransformer(str(tmp_path / "out"), device="cpu")
    assert np.allclose(again.encode(TEXTS), wanted, atol=1e-6)
    with pytest.raises(UserError, match="can only be averaged in a plain transformer"):
        average_last_two(again)


def test_layers_are_not_averaged_twice_nor_where_there_is_no_transformer(model):
    average_last_two(model)
    with pytest.raises(UserError, match="can only be averaged"):
        average_last_two(model)
    with pytest.raises(UserError, match="can only be averaged"):
        average_last_two(SentenceTransformer(modules=[Pooling(32)], device="cpu"))


def test_the_weights_of_the_two_layers_are_not_learned(plain, tmp_path):
    settings = SentenceTraining(last_layers=2, fit=replace(QUICK, epochs=1))
    encoder = opened(plain)
    finetune_sentences(encoder, TRAIN, [], VAL, settings, tmp_path / "out")
    assert encoder.model[1].layer_weights.tolist() == [1, 1]


@pytest.mark.parametrize(("length", "read"), [(None, None), (8, 8), (10**6, None)])
def test_no_more_of_a_sentence_is_read_than_max_length(plain, tmp_path, length, read):
    encoder = opened(plain)
    own = encoder.model.max_seq_length
    settings = SentenceTraining(max_length=length, fit=replace(QUICK, epochs=1))
    finetune_sentences(encoder, TRAIN, [], VAL, settings, tmp_path / "out")
    after = SentenceTransformer(str(tmp_path / "out"), device="cpu")
    assert after.max_seq_length == (read or own)
    short = "my owl is in the tree a man"
    vectors_of = after.encode([short, short + " is a circle"])
    assert np.allclose(*vectors_of) == (read == 8)


# -------------------------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"objective": "adaptiv"}, "'adaptiv' is no objective"),
        ({"temperature": 0.0}, "must be above 0"),
        ({"temperature": -1.0}, "must be above 0"),
        ({"sts_weight": 0.0}, "must be above 0"),
        ({"miner_margin": -0.1}, "cannot be below 0"),
        ({"margin": -0.1}, "cannot be below 0"),
        ({"max_length": 7}, "max_length cannot be 7"),
        ({"last_layers": 0}, "last_layers cannot be 0"),
        ({"last_layers": 3}, "last_layers cannot be 3"),
    ],
)
def test_settings_that_mean_nothing_are_refused(changes, message):
    with pytest.raises(UserError, match=message):
        SentenceTraining(**changes)


@pytest.mark.parametrize("name", ["temperature", "sts_weight", "miner_margin", "margin"])
def test_a_setting_that_is_no_number_is_refused(name):
    with pytest.raises(UserError):
        SentenceTraining(**{name: math.nan})


# -------------------------------------------------------------------------------------- training


def tuned(
    folder: Path, out: Path, objective: Any = "adaptive", *, mixed: bool = False, **changes: Any
) -> list[float]:
    """A fresh model, as another process has it, fine-tuned on the toy data."""
    from_pairs = objective in FROM_PAIRS
    settings = SentenceTraining(objective=objective, **{"fit": QUICK, **changes})
    return finetune_sentences(
        opened(folder),
        [] if from_pairs else TRAIN,
        PAIRS[:12] if from_pairs or mixed else [],
        PAIRS[12:] if from_pairs else VAL,
        settings,
        out,
    )


def losses(caplog: pytest.LogCaptureFixture) -> list[float]:
    return [float(x) for x in re.findall(r"Epoch \d+: loss (\S+), validation", caplog.text)]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_each_objective_lowers_its_loss_and_keeps_the_best_epoch(
    plain, tmp_path, caplog, objective
):
    out, pairs = tmp_path / "out", PAIRS[12:] if objective in FROM_PAIRS else VAL
    torch.manual_seed(0)  # of which the classifier is drawn
    with caplog.at_level(logging.INFO, "admire"):
        history = tuned(plain, out, objective)
    first, *_, last = losses(caplog)
    assert last < first
    assert len(history) == 4
    assert history[0] == pytest.approx(figure(plain, pairs), abs=1e-6)
    assert max(history[1:]) == pytest.approx(figure(out, pairs), abs=1e-6)
    assert distance(out, plain) > 1e-3
    assert SentenceTransformer(str(out), device="cpu").encode(["a night owl"]).shape == (1, 32)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("objective", ["adaptive", "multi-negative", "consistent", "simcse"])
def test_a_separable_task_is_learned(plain, tmp_path, objective):
    history = tuned(plain, tmp_path / "out", objective, fit=replace(QUICK, epochs=6, patience=6))
    assert max(history[1:]) > history[0] + 0.1


def test_the_epoch_that_is_kept_is_the_best_not_the_last(plain, tmp_path, monkeypatch):
    figures = iter([0.1, 0.2, 0.9, 0.3])
    states = []
    encoder = opened(plain)

    def told(*_: object) -> pd.DataFrame:
        states.append(encoder.model.encode(TEXTS))
        return pd.DataFrame([("en", "all", 3, next(figures))], columns=COLUMNS)

    monkeypatch.setattr(training, "evaluate", told)
    settings = SentenceTraining(fit=QUICK)
    history = finetune_sentences(encoder, TRAIN, [], VAL, settings, tmp_path / "out")
    assert history == [0.1, 0.2, 0.9, 0.3]
    kept = SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(TEXTS)
    assert [bool(np.allclose(kept, state, atol=1e-6)) for state in states] == [
        False, False, True, False,
    ]  # fmt: skip


COLUMNS = ["language", "subset", "n", "spearman"]


def test_the_figure_is_that_of_all_pairs_of_all_languages(plain, tmp_path):
    mixed = [replace(pair, language="pt") if k % 3 else pair for k, pair in enumerate(VAL)]
    plain_pairs = [replace(pair, mwe=None) for pair in PAIRS[:4]]
    settings = SentenceTraining(fit=replace(QUICK, epochs=1))
    both = [*mixed, *plain_pairs]
    history = finetune_sentences(opened(plain), TRAIN, [], both, settings, tmp_path / "out")
    scored = evaluate(both, compare(both, open_encoder(f"sbert:{plain}", device="cpu")))
    every = scored[(scored["language"] == "all") & (scored["subset"] == "all")]
    assert history[0] == pytest.approx(every["spearman"].item(), abs=1e-6)


def test_a_figure_that_is_not_defined_is_the_worst(plain, tmp_path):
    same = [Pair(f"{k}", "en", "a bird", "a bird", s) for k, s in enumerate((0.1, 0.9))]
    settings = SentenceTraining(fit=replace(QUICK, epochs=1))
    history = finetune_sentences(opened(plain), TRAIN, [], same, settings, tmp_path / "out")
    assert history == [-1.0, -1.0]


def fitted_with(
    monkeypatch: pytest.MonkeyPatch, encoder: SentenceEncoder, pairs: Sequence[Pair], **changes: Any
) -> tuple[dict[str, list[dict[str, Any]]], dict[str, Any]]:
    """The rows that training would be of, and its options."""
    caught: list[Any] = []

    def catch(model: object, loss: object, rows: Any, *_: object, **options: Any) -> list[float]:
        caught.extend([rows, options])
        return [0.0, 0.0]

    monkeypatch.setattr(training, "fit", catch)
    settings = SentenceTraining(fit=QUICK, **changes)
    groups = [] if changes.get("objective") in FROM_PAIRS else TRAIN
    finetune_sentences(encoder, groups, pairs, VAL, settings, Path("nowhere"))
    return caught[0], caught[1]


def test_sentences_are_learned_with_the_models_prompt_and_their_tokens(plain, monkeypatch):
    encoder = opened(plain)
    encoder.model.prompts = {"query": "query ", "document": "passage "}
    pair = Pair("1", "en", "the red lamp", "my lamp", 0.5)
    rows, _ = fitted_with(monkeypatch, encoder, [pair], mwe_tokens=True)
    assert {row["sentence"] for row in rows["sentences"]} == {
        "query " + text.replace(f"is a {mwe}", f"is a {mwes.token(mwe)}")
        for g in TRAIN
        for text in (g.sentence, *g.correct, *g.incorrect)
        for mwe in [g.mwe]
    }
    mixed = [row for row in rows["pairs"] if row["label"] != 1]
    assert mixed == [{"first": "query the IDredlampID", "second": "query my lamp", "label": 0.5}]
    assert all(
        row[side].startswith("query ") for row in rows["pairs"] for side in row if side != "label"
    )


def test_without_tokens_sentences_stay_as_they_are(plain, monkeypatch):
    encoder = opened(plain)
    size = len(encoder.model.tokenizer)
    rows, _ = fitted_with(monkeypatch, encoder, [])
    assert {row["sentence"] for row in rows["sentences"]} == sentences(TRAIN)
    assert len(encoder.model.tokenizer) == size


def test_batches_of_labelled_sentences_are_neighbours_in_every_epoch(plain, tmp_path, monkeypatch):
    seen: list[list[int]] = []
    of = AdaptiveTripletLoss.of

    def listen(self: Any, found: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        seen.append(labels.tolist())
        return of(self, found, labels)

    monkeypatch.setattr(AdaptiveTripletLoss, "of", listen)
    tuned(plain, tmp_path / "out", fit=replace(QUICK, batch_size=9, epochs=2))
    wanted = [label for k in range(len(TRAIN)) for label in (2 * k, 2 * k, 2 * k + 1)]
    assert seen == [wanted[k : k + 9] for k in range(0, len(wanted), 9)] * 2


@pytest.mark.parametrize("objective", ["simcse", "triplet+ranking"])
def test_no_paraphrase_of_a_sentence_is_its_negative_within_a_batch(
    plain, tmp_path, monkeypatch, objective
):
    batches: list[list[list[float]]] = []
    forward = training.MultipleNegativesRankingLoss.compute_loss_from_embeddings

    def listen(self: Any, parts: list[torch.Tensor], labels: object) -> torch.Tensor:
        batches.append(parts[0].detach().tolist())
        return forward(self, parts, labels)

    monkeypatch.setattr(
        training.MultipleNegativesRankingLoss, "compute_loss_from_embeddings", listen
    )
    two = [replace(g, correct=(*g.correct, f"{g.sentence} too")) for g in TRAIN]
    encoder = opened(plain)
    for module in encoder.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    settings = SentenceTraining(objective=objective, fit=replace(QUICK, batch_size=4, epochs=1))
    finetune_sentences(encoder, two, [], VAL, settings, tmp_path / "out")
    assert batches
    for anchors in batches:
        assert len({tuple(np.round(row, 5)) for row in anchors}) == len(anchors)


def test_groups_of_like_length_stand_together_and_none_is_lost():
    count = 2500
    groups = [Group(f"{k} " + "a " * (k * 7919 % 101), (f"c{k}",), (), "en") for k in range(count)]
    found = dealt(groups, np.random.default_rng(0))
    assert sorted(found, key=groups.index) == groups
    lengths = [len(group.sentence) for group in found]
    assert sum(b < a for a, b in pairwise(lengths)) == 2
    assert dealt(groups, np.random.default_rng(0)) == found
    assert dealt(groups, np.random.default_rng(1)) != found


@pytest.mark.parametrize("count", [1, 7, 400, 1203])
def test_batches_of_like_lengths_hold_each_row_once_and_are_drawn_anew_each_epoch(count):
    rows = [{"text": "a" * (k * 7919 % 101), "label": k} for k in range(count)]
    sampler = finetune.SAMPLERS["like lengths"](Dataset.from_list(rows), 4, False, seed=3)
    first, again = list(sampler), list(sampler)
    assert first == again
    assert len(first) == len(sampler) == math.ceil(count / 4)
    assert sorted(place for batch in first for place in batch) == list(range(count))
    assert all(len(batch) <= 4 for batch in first)
    spreads = [np.ptp([len(rows[place]["text"]) for place in batch]) for batch in first]
    if count >= 400:
        assert np.mean(spreads) < 3, "of 50 batches' rows the longest differ by 100"
        sampler.set_epoch(1)
        assert list(sampler) != first


def test_everything_is_learned_once_in_every_epoch_each_batch_of_one_thing(
    plain, tmp_path, monkeypatch
):
    seen: dict[str, list[int]] = {"triples": [], "pairs": []}
    of, forward = ConsistencyLoss.of, WeightedLoss.forward

    def listen(self: Any, s: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        seen["triples"].append(len(s))
        return of(self, s, *others)

    def listen_too(self: Any, features: Any, labels: torch.Tensor) -> torch.Tensor:
        seen["pairs"].append(len(labels))
        return forward(self, features, labels)

    monkeypatch.setattr(ConsistencyLoss, "of", listen)
    monkeypatch.setattr(WeightedLoss, "forward", listen_too)
    settings = replace(QUICK, batch_size=5, epochs=2)
    tuned(plain, tmp_path / "out", "consistent", mixed=True, fit=settings)
    assert {name: sorted(sizes) for name, sizes in seen.items()} == {
        "triples": [2, 2, 5, 5, 5, 5],
        "pairs": [4, 4, *[5] * 8],
    }


def test_the_same_seed_trains_the_same_model_and_another_seed_another(plain, tmp_path):
    for name, seed in (("one", 0), ("same", 0), ("other", 1)):
        torch.rand(7)
        np.random.rand(3)
        tuned(plain, tmp_path / name, "simcse", fit=replace(QUICK, epochs=1, seed=seed))
    assert distance(tmp_path / "one", tmp_path / "same") == 0
    assert distance(tmp_path / "one", tmp_path / "other") > 1e-4


def test_the_same_seed_draws_the_same_classifier(plain, tmp_path):
    for name in ("one", "same"):
        torch.rand(7)
        tuned(plain, tmp_path / name, "classification", fit=replace(QUICK, epochs=1))
    assert distance(tmp_path / "one", tmp_path / "same") == 0


def say(monkeypatch: pytest.MonkeyPatch, *figures: float | None) -> None:
    """Let validation give these figures; at None training is killed."""
    left = iter(figures)

    def told(*_: object) -> pd.DataFrame:
        value = next(left)
        if value is None:
            raise KeyboardInterrupt
        return pd.DataFrame([("en", "all", 3, value)], columns=COLUMNS)

    monkeypatch.setattr(training, "evaluate", told)


def resumed(plain: Path, tmp_path: Path, patch: pytest.MonkeyPatch, **options: Any) -> None:
    """Train as a whole, and killed after an epoch and taken up again. The last epoch is best."""
    torch.manual_seed(11)
    say(patch, 0.1, 0.2, 0.3, 0.4)
    whole = tuned(plain, tmp_path / "whole", **options)
    torch.manual_seed(11)
    say(patch, 0.1, 0.2, None)
    with pytest.raises(KeyboardInterrupt):
        tuned(plain, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()
    torch.manual_seed(12)
    say(patch, 0.3, 0.4)
    again = tuned(plain, tmp_path / "out", **options)
    assert again == whole == [0.1, 0.2, 0.3, 0.4]
    assert distance(tmp_path / "out", tmp_path / "whole") <= 1e-5
    assert {path.name for path in tmp_path.iterdir()} == {"whole", "out"}


@pytest.mark.parametrize(
    "options",
    [
        {"objective": "adaptive", "mwe_tokens": True, "last_layers": 2},
        {"objective": "triplet+ranking", "mixed": True},
        {"objective": "cosent"},
    ],
    ids=["adaptive", "triplet+ranking", "cosent"],
)
def test_a_run_that_was_killed_goes_on_and_ends_as_if_it_had_not_been(
    plain, tmp_path, monkeypatch, caplog, options
):
    with caplog.at_level(logging.INFO, "admire"):
        resumed(plain, tmp_path, monkeypatch, **options)
    assert caplog.text.count("Going on from") == 1


def test_a_training_with_a_classifier_which_no_checkpoint_holds_begins_again(
    plain, tmp_path, monkeypatch, caplog
):
    say(monkeypatch, 0.1, 0.2, None)
    with pytest.raises(KeyboardInterrupt):
        tuned(plain, tmp_path / "out", "classification")
    say(monkeypatch, 0.1, 0.2, 0.3, 0.4)
    with caplog.at_level(logging.INFO, "admire"):
        assert tuned(plain, tmp_path / "out", "classification") == [0.1, 0.2, 0.3, 0.4]
    assert "Going on" not in caplog.text


def test_a_run_with_another_objective_does_not_go_on(plain, tmp_path, monkeypatch, caplog):
    say(monkeypatch, 0.1, 0.2, None)
    with pytest.raises(KeyboardInterrupt):
        tuned(plain, tmp_path / "out", "adaptive")
    say(monkeypatch, 0.1, 0.2, 0.3, 0.4)
    with caplog.at_level(logging.INFO, "admire"):
        tuned(plain, tmp_path / "out", "multi-negative")
    assert "Going on" not in caplog.text


def test_tokens_and_layers_are_in_the_folder_that_is_written(plain, tmp_path):
    out = tmp_path / "out"
    options = {"mwe_tokens": True, "last_layers": 2, "fit": replace(QUICK, epochs=2)}
    history = tuned(plain, out, **options)
    again = SentenceTransformer(str(out), device="cpu")
    assert [type(one).__name__ for one in again] == [
        "Transformer",
        "WeightedLayerPooling",
        "Pooling",
    ]
    assert {mwes.token(mwe) for mwe in SENSES} <= set(again.tokenizer.get_added_vocab())
    assert figure(out) == pytest.approx(max(history[1:]), abs=1e-6)
    before = opened(plain).model
    mwes.extend(before, SENSES)
    (one,) = again.tokenizer("IDnightowlID", add_special_tokens=False)["input_ids"]
    vectors = (m[0].model.get_input_embeddings().weight.detach() for m in (again, before))
    moved = torch.sub(*vectors).abs().max(dim=1).values
    known = opened(plain).model.tokenizer
    assert moved[one] > 1e-3, "tokens are learned"
    assert (moved[: len(known)] <= 1e-4).all(), "others only decay"


def test_tokens_have_a_learning_rate_of_their_own(plain, tmp_path):
    moved = []
    for rate in (1e-6, 1e-2):
        out = tmp_path / str(rate)
        tuned(plain, out, mwe_tokens=True, token_rate=rate, fit=replace(QUICK, epochs=1))
        before, after = opened(plain).model, SentenceTransformer(str(out), device="cpu")
        mwes.extend(before, SENSES)
        vectors = (m[0].model.get_input_embeddings().weight.detach() for m in (after, before))
        moved.append(torch.sub(*vectors)[-len(SENSES) :].abs().max().item())
    assert moved[0] < 1e-4
    assert moved[1] > 1e-3


@pytest.mark.parametrize(
    ("groups", "pairs", "objective", "message"),
    [
        (TRAIN, PAIRS, "cosent", "'cosent' learns from pairs with similarities alone"),
        ([], [], "cosent", "'cosent' needs pairs with similarities"),
        ([], PAIRS, "adaptive", "'adaptive' needs groups with paraphrases"),
        (TRAIN, VAL, "adaptive", "need similarities of their own"),
        ([], VAL, "regression", "need similarities of their own"),
        ([Group("s", ("c",), (), "en")], [], "consistent", "No group has both"),
        ([Group("s", ("c",), (), "en")], [], "triplet+ranking", "No group has both"),
        ([Group("s", ("c",), (), "en")], [], "simcse", "One group alone"),
    ],
)
def test_there_must_be_something_to_learn_from(plain, tmp_path, groups, pairs, objective, message):
    settings = SentenceTraining(objective=objective, fit=QUICK)
    with pytest.raises(UserError, match=message):
        finetune_sentences(opened(plain), groups, pairs, VAL, settings, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_there_must_be_something_to_validate_on(plain, tmp_path):
    for validation in ([], [Pair("1", "en", "a bird", "an owl")]):
        with pytest.raises(UserError):
            finetune_sentences(
                opened(plain), TRAIN, [], validation, SentenceTraining(fit=QUICK), tmp_path / "out"
            )


# ----------------------------------------------------------------------------------- the command

FLAGS = ["--device", "cpu", "--epochs", 2, "--batch-size", 8, "--learning-rate", 3e-3]


def training_rows(groups: Sequence[Group]) -> list[dict[str, str]]:
    shared = {"MWE2": "None", "Language": "EN"}
    return [
        {
            "ID": f"t.{k}",
            "MWE1": g.mwe or "None",
            **shared,
            "sentence_1": g.sentence,
            "sentence_2": second,
            "sim": sim,
            "alternative_1": g.correct[0] if sim == "None" else "",
            "alternative_2": second if sim == "None" else "",
        }
        for k, g in enumerate(groups)
        for second, sim in ((g.correct[0], "1"), (g.incorrect[0], "None"))
    ]


@pytest.fixture
def data(write_table: Callable[..., Path]) -> Path:
    return write_table(*training_rows(TRAIN), name="train.csv")


@pytest.fixture
def validation(write_table: Callable[..., Path]) -> list[object]:
    asked, told = [], []
    for k, group in enumerate(GROUPS[12:]):
        (right,), (wrong,) = group.correct, group.incorrect
        shared = {"Language": "EN", "MWE1": group.mwe or "", "MWE2": "None"}
        for name, one, other in (
            ("r", group.sentence, right), ("w", group.sentence, wrong), ("x", right, wrong),
        ):  # fmt: skip
            asked.append({"ID": f"{k}{name}", **shared, "sentence1": one, "sentence2": other})
        told.append({"ID": f"{k}r", "sim": "1", "otherID": ""})
        told.append({"ID": f"{k}w", "sim": "", "otherID": f"{k}x"})
    files = write_table(*asked, name="dev.csv"), write_table(*told, name="gold.csv")
    return ["--validation", files[0], "--validation-gold", files[1]]


@pytest.fixture
def stsb(tmp_path: Path) -> Path:
    path = tmp_path / "sts.tsv"
    rows = [("train", p) for p in PAIRS[:12]] + [("dev", p) for p in PAIRS[12:]]
    lines = [f"{split}\t{5 * p.similarity}\t{p.first}\t{p.second}\n" for split, p in rows]
    path.write_text("split\tscore\tsentence1\tsentence2\n" + "".join(lines))
    return path


def command(capsys: Any, data: Path, out: Path, plain: Path, *options: object) -> tuple:
    arguments = [data, "--out", out, "--encoder", f"sbert:{plain}", *FLAGS, *options]
    return run(capsys, "train", "sentences", *arguments)


def test_the_command_with_everything_gives_what_sts_then_gives(
    capsys, tmp_path, plain, data, validation, stsb, write_table
):
    left = {"ID": "1", "Language": "EN", "MWE1": "", "sentence1": PAIRS[0].first, "sentence2": "x"}
    out = tmp_path / "out"
    code, printed, err = command(
        capsys, data, out, plain, *validation, "--sts", stsb, "--mwe-tokens", "--last-layers", 2,
        "--leave-out", write_table(left, name="left.csv"), "--json",
    )  # fmt: skip
    assert code == 0, err
    assert "12 groups and 11 pairs to learn from, 12 to validate" in err
    assert f"Wrote {out}" in err
    history = json.loads(printed)["validation"]
    assert len(history) == 3
    again = SentenceTransformer(str(out), device="cpu")
    assert [type(one).__name__ for one in again][1] == "WeightedLayerPooling"
    assert "IDnightowlID" in again.tokenizer.get_added_vocab()
    _, dev, _, gold = validation
    shared = ["sts", dev, "--gold", gold, "--device", "cpu", "--json"]
    code, printed, err = run(capsys, *shared, "--encoder", f"sbert:{out}")
    assert code == 0, err
    assert json.loads(printed)[0]["spearman"] == pytest.approx(max(history[1:]), abs=1e-6)


def test_the_command_begins_with_the_figure_that_sts_gives(
    capsys, tmp_path, plain, data, validation
):
    _, dev, _, gold = validation
    shared = ["sts", dev, "--gold", gold, "--device", "cpu", "--json"]
    code, printed, err = run(capsys, *shared, "--encoder", f"sbert:{plain}")
    assert code == 0, err
    wanted = json.loads(printed)[0]["spearman"]
    code, printed, err = command(capsys, data, tmp_path / "out", plain, *validation)
    assert code == 0, err
    assert re.search(r"Epoch 2: loss \d", err)
    lines = re.findall(r"\b(before|1|2)\b[^-\w]+(-?\d\.\d{3})", printed)
    assert [name for name, _ in lines] == ["before", "1", "2"]
    assert lines[0][1] == f"{wanted:.3f}"


def test_the_command_learns_from_pairs_of_several_files_and_holds_some_out(
    capsys, tmp_path, plain, stsb, write_table
):
    scored = [
        {"ID": "1", "Language": "EN", "MWE1": "", "sentence_1": f"the {a}", "sentence_2": f"my {b}",
         "sim": "0.5", "alternative_1": "", "alternative_2": ""}
        for a in ("owl", "lamp") for b in ("bird", "tree", "desk", "man")
    ]  # fmt: skip
    more = write_table(*scored[:4], name="more.csv")
    code, printed, err = command(
        capsys, stsb, tmp_path / "out", plain, more, "--objective", "cosent", "--json"
    )
    assert code == 0, err
    learned, held = map(
        int, re.search(r"0 groups and (\d+) pairs to learn from, (\d+) to", err).groups()
    )
    assert held == 2  # a tenth of 12 of the split train and 4
    assert 10 <= learned <= 14
    assert len(json.loads(printed)["validation"]) == 3


def test_the_command_holds_expressions_out_where_no_validation_is_given(
    capsys, tmp_path, plain, write_table
):
    groups = [
        replace(g, mwe=f"{g.mwe} {name}", sentence=f"{g.sentence} {name}")
        for name in ("owl", "bird", "tree")
        for g in GROUPS
    ]
    data = write_table(*training_rows(groups), name="train.csv")
    kept, held = hold_out(read_groups(data), seed=3)
    code, _, err = command(capsys, data, tmp_path / "out", plain, "--seed", 3, "--epochs", 1)
    assert held
    assert code == 0, err
    assert f"{len(kept)} groups and 0 pairs to learn from, {len(held)} to validate" in err


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one message of a command that ends with exit code 2."""
    code, printed, err = command(capsys, *arguments)  # type: ignore[arg-type]
    assert (code, printed) == (2, "")
    last = err.splitlines()[-1]
    assert last.startswith("admire: ")
    assert "Traceback" not in err
    return last


def test_the_command_refuses_what_cannot_be_done(
    capsys, tmp_path, plain, data, validation, stsb, write_table
):
    out = tmp_path / "out"
    message = refused(capsys, stsb, out, plain, "--objective", "cosent", "--sts", stsb)
    assert "'cosent' learns from pairs: name the files as DATA, without --sts" in message
    few = write_table(*training_rows(TRAIN[:4]), name="few.csv")
    message = refused(capsys, few, out, plain)
    assert "nothing to validate on. Give --validation" in message
    message = refused(capsys, data, out, plain, *validation[:2])
    assert "nothing to validate on" in message
    message = refused(capsys, data, out, plain, *validation, "--temperature", 0)
    assert "must be above 0" in message
    message = refused(capsys, data, out, plain, *validation, "--objective", "regression")
    assert "need similarities of their own" in message
    assert not out.exists()


def test_the_command_refuses_an_encoder_that_cannot_be_fine_tuned(
    capsys, tmp_path, data, validation
):
    out = tmp_path / "out"
    code, printed, err = run(
        capsys, "train", "sentences", data, "--out", out, "--encoder", "e5", *FLAGS, *validation
    )
    assert (code, printed) == (2, "")
    assert "--encoder: 'e5' cannot be fine-tuned. Name one of sbert:" in err.splitlines()[-1]
    assert not out.exists()


def test_the_command_names_what_of_its_data_cannot_be_used(capsys, tmp_path, plain, write_table):
    rows = training_rows(TRAIN)
    path = write_table(rows[0], rows[1], rows[3], name="train.csv")
    message = refused(capsys, path, tmp_path / "out", plain)
    assert "train.csv, row 3: the sentence has no correct paraphrase" in message


def test_what_the_command_left_out_shares_no_sentence(capsys, tmp_path, plain, stsb, monkeypatch):
    taken: list[Sequence[Pair]] = []

    def take(encoder: Any, groups: Any, pairs: Any, held: Any, *_: object) -> list[float]:
        taken.extend([pairs, held])
        return [0.0, 0.0]

    monkeypatch.setattr(training, "finetune_sentences", take)
    code, _, err = command(
        capsys, stsb, tmp_path / "out", plain, "--objective", "cosent", "--seed", 1
    )
    assert code == 0, err
    pairs, held = taken
    assert held
    assert not asked(pairs) & asked(held)
    train = read_pairs(stsb, split="train")
    assert asked([*pairs, *held]) <= asked(train), "only the split train is learned from"


# --------------------------------------------------------------------------------------- Chinese


def test_simcse_learns_the_chinese_samples_from_end_to_end(capsys, tmp_path):
    sample = SAMPLES / "chengyu.csv"
    letters = sorted(set(sample.read_text(encoding="utf-8")))
    base = save_sentence_transformer(tmp_path / "base", [*WORDS[:4], *letters], by_character=True)
    out = tmp_path / "out"
    code, printed, _ = run(
        capsys, "train", "sentences", sample, "--objective", "simcse", "--encoder",
        f"sbert:{base}", "--out", out, "--validation", sample, "--epochs", "6", "--patience", "6",
        "--batch-size", "8", "--learning-rate", "3e-3", "--device", "cpu", "--json",
    )  # fmt: skip
    assert code == 0
    before, *after = json.loads(printed)["validation"]
    assert max(after) > before + 0.1
    code, printed, _ = run(capsys, "sts", sample, "--encoder", f"sbert:{out}", "--json")
    assert code == 0
    rows = {(row["language"], row["subset"]): row for row in json.loads(printed)}
    assert {key: row["n"] for key, row in rows.items()} == {
        ("zh", "all"): 20, ("zh", "idiom"): 16, ("zh", "sts"): 4
    }  # fmt: skip
    assert rows["zh", "all"]["spearman"] == pytest.approx(max(after), abs=1e-6)
