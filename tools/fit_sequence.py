"""Fits the constants of ``admire/senses/evidence.py``, and says how good they are.

With the extras ``embedded`` and ``train``, and the folder that holds ``admire_b``:

    python tools/fit_sequence.py ../shared/data

The name of an encoder may follow; ``e5`` is what the constants were fitted on.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from admire.data.items import Item
from admire.data.reader import read_items
from admire.data.submission import read_submission
from admire.encoders import open_encoder
from admire.metrics.metrics import bootstrap_intervals, calibration_error, mean
from admire.senses.evidence import nearness, read_sequences

Numbers = npt.NDArray[np.float64]


def fit(near: Numbers, literal: npt.NDArray[np.bool_]) -> tuple[float, float]:
    """Offset and slope, with both senses at the same weight."""
    model = LogisticRegression(C=np.inf, class_weight="balanced")
    scale = near.std()  # the solver needs numbers about 1
    model.fit(near[:, None] / scale, literal)
    slope = model.coef_[0, 0] / scale
    return -model.intercept_[0] / slope, slope


def main(data: str, name: str = "e5") -> None:
    folder, encoder, items = Path(data) / "admire_b", open_encoder(name), list[Item]()
    for part in ("train", "dev"):
        gold = read_submission(folder / f"b_en_{part}_targets.tsv")
        senses = {item.compound: item.sentence_type for item in gold}
        items += [
            replace(item, sentence_type=senses[item.compound])
            for item in read_items(folder / f"subtask_b_{part}.tsv")
        ]
    literal = np.array([item.sentence_type == "literal" for item in items])
    near = nearness(items, encoder)
    left = [np.arange(len(items)) != k for k in range(len(items))]
    fits = [fit(near[rest], literal[rest]) for rest in left]  # each item has its own compound
    unseen = np.array([slope * (x - offset) for x, (offset, slope) in zip(near, fits, strict=True)])
    shipped = np.array([sense.label == "literal" for sense in read_sequences(items, encoder)])
    offset, slope = fit(near, literal)
    print(f"offset {offset:.4f}, slope {slope:.2f}")
    print(f"area under the ROC curve {roc_auc_score(literal, near):.3f}")
    decided = {"fitted on the other compounds": unseen > 0, "as shipped": shipped}
    for label, taken_literally in decided.items():
        right = taken_literally == literal
        (interval,) = bootstrap_intervals([mean(right)], len(right))
        print(
            f"{label}: {right.mean():.3f} [{interval[0]:.3f}, {interval[1]:.3f}], "
            f"literal {right[literal].mean():.3f}, idiomatic {right[~literal].mean():.3f}, "
            f"train {right[:20].mean():.3f}, dev {right[20:].mean():.3f}"
        )
    error = calibration_error(1 / (1 + np.exp(-unseen)), literal)
    print(f"calibration error on the other compounds {error:.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
