"""The losses of sentence similarity by literal loops, as their papers write them."""

import math
from collections.abc import Sequence

import torch


def cos(one: torch.Tensor, other: torch.Tensor) -> float:
    return float(one @ other / (one.norm() * other.norm()))


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


def consistency(s: torch.Tensor, c: torch.Tensor, i: torch.Tensor, scale: float, margin: float):
    total = 1.0
    for n in range(len(s)):
        for m in range(len(s)):
            for below in (cos(s[n], i[n]), cos(c[n], i[n])):
                total += math.exp(scale * (below - cos(s[m], c[m]) + margin))
    gaps = [(cos(s[n], i[n]) - cos(c[n], i[n])) ** 2 for n in range(len(s))]
    return math.log(total) + scale * sum(gaps) / len(gaps)


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
