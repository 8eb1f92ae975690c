"""The first layers of a model in a GGUF file, as a file of their own.

The package gguf can do that, too, but takes 12 s to read the embedded model's 300,000 words.
"""

from __future__ import annotations

import mmap
import re
from dataclasses import dataclass
from pathlib import Path
from struct import Struct

from admire.base.progress import show_progress
from admire.base.storage import write_whole

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of a value by its type, as GGUF numbers them; texts and lists have no fixed size."""
TEXT, LIST = 8, 9
ALIGNMENT = 32
"""Tensors begin at multiples of so many bytes."""

U32, U64, HEAD = Struct("<I"), Struct("<Q"), Struct("<4sIQQ")


@dataclass(frozen=True)
class _Tensor:
    """Where a tensor stands in the file: what is said of it, and its data."""

    name: str
    begin: int
    end: int
    data: int


def write_layers(whole: Path, path: Path, layers: int) -> None:
    """Write a GGUF file of the first layers, without the rest and the output's head.

    llama.cpp then takes the smaller embeddings in the head's place.

    Raises:
        UserError: the file cannot be written.
    """
    with whole.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        magic, version, tensor_count, field_count = HEAD.unpack_from(data)
        at = begin = HEAD.size
        for _ in range(field_count):
            name, at = _text(data, at)
            if name.endswith(".block_count"):
                count = at + U32.size
            at = _after(data, at + U32.size, U32.unpack_from(data, at)[0])
        fields = bytearray(data[begin:at])
        U32.pack_into(fields, count - begin, layers)
        tensors = []
        for _ in range(tensor_count):
            begin, (name, at) = at, _text(data, at)
            at += U32.size + U32.unpack_from(data, at)[0] * U64.size + U32.size
            tensors.append(_Tensor(name, begin, at, U64.unpack_from(data, at)[0]))
            at += U64.size
        start = _aligned(at)
        ends = sorted({one.data for one in tensors} | {len(data) - start})
        kept = [one for one in tensors if _is_kept(one.name, layers)]
        with write_whole(path, "wb") as cut:
            cut.write(HEAD.pack(magic, version, len(kept), field_count) + fields)
            offset = 0
            sizes = [ends[ends.index(one.data) + 1] - one.data for one in kept]
            for one, size in zip(kept, sizes, strict=True):
                cut.write(data[one.begin : one.end] + U64.pack(offset))
                offset += _aligned(size)
            cut.write(bytes(_aligned(cut.tell()) - cut.tell()))
            pairs = list(zip(kept, sizes, strict=True))
            for one, size in show_progress(pairs, "Cutting the detector's layers out of it"):
                cut.write(data[start + one.data : start + one.data + size])
                cut.write(bytes(_aligned(size) - size))


def _is_kept(name: str, layers: int) -> bool:
    block = re.match(r"blk\.(\d+)\.", name)
    return int(block[1]) < layers if block else name != "output.weight"


def _text(data: mmap.mmap, at: int) -> tuple[str, int]:
    """The text there, and where it ends."""
    end = _after(data, at, TEXT)
    return data[at + U64.size : end].decode(), end


def _after(data: mmap.mmap, at: int, kind: int) -> int:
    """Where a value of that type ends."""
    if kind == TEXT:
        return at + U64.size + int(U64.unpack_from(data, at)[0])
    if kind != LIST:
        return at + SIZES[kind]
    (kind,), (count,) = U32.unpack_from(data, at), U64.unpack_from(data, at + U32.size)
    at += U32.size + U64.size
    for _ in range(count):
        at = _after(data, at, kind)
    return at


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
