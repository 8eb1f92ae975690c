"""Made-up triplets to train projection heads on, and ways to look into heads."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch

from admire.encoders.projection import Head
from admire.encoders.training_settings import HeadTraining
from admire.tasks.training.triplets import Triplets

SETTINGS = HeadTraining(
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


def weights(head: Head) -> Mapping[str, np.ndarray]:
    return {name: tensor.numpy().copy() for name, tensor in head.state_dict().items()}


def same(one: Head, other: Head) -> bool:
    """Whether the two heads have equal weights."""
    first, second = weights(one), weights(other)
    return all(np.array_equal(first[name], second[name]) for name in first)


def fresh(width: int, wanted: HeadTraining = SETTINGS, **changes: object) -> Head:
    """An untrained head."""
    wanted = replace(wanted, **changes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(wanted.seed)
        return Head(width, wanted).eval()


def projected(head: Head, vector: np.ndarray) -> np.ndarray:
    """One vector, computed layer by layer."""
    w1, b1, w2, b2 = weights(head).values()
    result = w2 @ np.maximum(w1 @ vector + b1, 0) + b2
    if head.residual:
        result = result + vector
    return result / np.linalg.norm(result)
