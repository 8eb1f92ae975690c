"""GGUF files: a model's metadata and its tensors.

The package gguf can also read them, but takes 12 s for the embedded model's 300,000 words.
"""

from __future__ import annotations

import mmap
from math import prod
from pathlib import Path
from struct import Struct
from typing import Any

import numpy as np
import numpy.typing as npt

from admire.encoders.protocols import Vectors

FORMATS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?"}
FORMATS |= {10: "<Q", 11: "<q", 12: "<d"}
"""GGUF's numbers of types of single values; texts and lists have no fixed size."""
SINGLE = {kind: Struct(form) for kind, form in FORMATS.items()}
TEXT, LIST = 8, 9
U32, U64, HEAD = Struct("<I"), Struct("<Q"), Struct("<4sIQQ")
ALIGNMENT = 32
"""Alignment of tensors, in bytes."""

BLOCK = 256
"""Number of weights in a block, which have a common scale."""
FOUR_BITS = np.dtype([("d", "<f2"), ("m", "<f2"), ("scales", "u1", 12), ("low", "u1", (4, 1, 32))])
SIX_BITS = np.dtype(
    [("low", "u1", (2, 1, 64)), ("high", "u1", (2, 1, 32)), ("scales", "i1", 16), ("d", "<f2")]
)
KINDS = {0: np.dtype("<f4"), 12: FOUR_BITS, 14: SIX_BITS}
"""The types of tensors in the embedded model: numbers of 32 bits, Q4_K and Q6_K."""


class GgufFile:
    """A model's file, mapped into memory.

    Attributes:
        fields: the metadata of the model, by name.
        tensors: by name, with a vector's numbers, or the blocks of each row of a matrix.
    """

    def __init__(self, path: Path):
        with path.open("rb") as file:
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._at = HEAD.size
        _, _, tensors, fields = HEAD.unpack_from(self._data)
        self.fields = {self._text(): self._value(self._next(U32)) for _ in range(fields)}
        table = [self._tensor() for _ in range(tensors)]
        start = -(-self._at // ALIGNMENT) * ALIGNMENT
        self.tensors: dict[str, npt.NDArray[Any]] = {}
        for name, shape, kind, begin in table:
            count = prod(shape) // (1 if kind == 0 else BLOCK)
            values = np.frombuffer(self._data, KINDS[kind], count, start + begin)
            self.tensors[name] = values.reshape(*shape[:0:-1], -1)

    def _next(self, form: Struct) -> Any:
        (value,) = form.unpack_from(self._data, self._at)
        self._at += form.size
        return value

    def _text(self) -> str:
        length = self._next(U64)
        self._at += length
        return self._data[self._at - length : self._at].decode()

    def _value(self, kind: int) -> Any:
        if kind == TEXT:
            return self._text()
        if kind != LIST:
            return self._next(SINGLE[kind])
        kind, count = self._next(U32), self._next(U64)
        return [self._value(kind) for _ in range(count)]

    def _tensor(self) -> tuple[str, list[int], int, int]:
        """Return a tensor's name, its shape, the type of its values and where they begin."""
        name = self._text()
        shape = [self._next(U64) for _ in range(self._next(U32))]
        return name, shape, self._next(U32), self._next(U64)


def to_numbers(blocks: npt.NDArray[Any]) -> Vectors:
    """Return rows of a matrix as numbers, shape (rows, weights)."""
    rows = len(blocks)
    if blocks.dtype == FOUR_BITS:
        packed = blocks["scales"].reshape(rows, -1, 3, 4)
        first, second, rest = (packed[:, :, k] for k in range(3))
        scales = np.concatenate([first & 63, rest & 15 | first >> 6 << 4], axis=-1)
        least = np.concatenate([second & 63, rest >> 4 | second >> 6 << 4], axis=-1)
        steps = blocks["low"] >> np.array([[0], [4]], np.uint8) & 15
        scale = blocks["d"].astype(np.float32)[..., None] * scales
        numbers = steps.reshape(*scale.shape, -1) * scale[..., None]
        numbers -= (blocks["m"].astype(np.float32)[..., None] * least)[..., None]
    elif blocks.dtype == SIX_BITS:
        low = blocks["low"] >> np.array([[0], [4]], np.uint8) & 15
        high = blocks["high"] >> np.array([[0], [2], [4], [6]], np.uint8) & 3
        scale = blocks["d"].astype(np.float32)[..., None] * blocks["scales"]
        shape = *scale.shape, -1
        steps = (low.reshape(shape) | high.reshape(shape) << 4).view(np.int8) - np.int8(32)
        numbers = steps * scale[..., None]
    else:
        numbers = blocks.astype(np.float32)
    weights: Vectors = numbers.reshape(rows, -1)
    return weights
