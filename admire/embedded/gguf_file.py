"""GGUF files: a model's metadata and its tensors, by the package gguf."""

from __future__ import annotations

from struct import Struct
from typing import Any

import numpy as np
from gguf import GGML_QUANT_SIZES, GGUFReader, GGUFValueType, ReaderTensor, quants

from admire.encoders.protocols import Vectors

LIST, LENGTH = Struct("<IQ"), Struct("<Q")


class GgufFile(GGUFReader):
    """A model's file, mapped into memory.

    The package makes two arrays of each text of a list, and takes 12 s and 0.5 GB for the 300,000
    of the embedded model. Here a list is one array.
    """

    def _get_field_parts(self, orig_offs: int, raw_type: int) -> tuple[int, Any, Any, Any]:
        if raw_type != GGUFValueType.ARRAY:
            return super()._get_field_parts(orig_offs, raw_type)
        data, at = self.data.data, orig_offs + LIST.size
        kind, count = LIST.unpack_from(data, orig_offs)
        if kind != GGUFValueType.STRING:
            numbers = self._get(at, self.gguf_scalar_to_np[kind], count)
            return LIST.size + numbers.nbytes, [numbers], [0], [GGUFValueType.ARRAY]
        texts = []
        for _ in range(count):
            start = at + LENGTH.size
            at = start + LENGTH.unpack_from(data, at)[0]
            texts.append(str(data[start:at], "utf-8"))
        return at - orig_offs, [np.array(texts, object)], [0], [GGUFValueType.ARRAY]


def to_numbers(tensor: ReaderTensor, rows: slice | list[int]) -> Vectors:
    """Return rows of a quantized matrix as numbers, shape (rows, weights)."""
    packed = np.asarray(tensor.data[rows])
    blocks = packed.reshape(-1, GGML_QUANT_SIZES[tensor.tensor_type][1])
    # Not by gguf.dequantize, which takes 16 rows at a time and copies the result.
    numbers: Vectors = getattr(quants, tensor.tensor_type.name).dequantize_blocks(blocks)
    return numbers.reshape(len(packed), -1)
