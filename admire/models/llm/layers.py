"""The first layers of a model in a GGUF file, as a file of their own.

The package gguf can do that, too, but takes 12 s to read the embedded model's 300,000 words.
"""

from __future__ import annotations

import mmap
import re
from itertools import pairwise
from pathlib import Path
from struct import Struct

import numpy as np

from admire.base.progress import show_progress
from admire.base.storage import write_whole

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of a value by its type, as GGUF numbers them; texts and lists have no fixed size."""
TEXT, LIST = 8, 9
ALIGNMENT = 32
"""Tensors begin at multiples of so many bytes."""

HEAD_WIDTH = 128
"""How many rows of the attention's queries and keys are one head's."""

U32, U64, HEAD = Struct("<I"), Struct("<Q"), Struct("<4sIQQ")


def write_layers(whole: Path, path: Path, layers: int) -> None:
    """Write a GGUF file of the first layers of a Qwen2 model, which gives states and no words.

    llama.cpp would compute the likelihood of every word at each token, a fifth of the work. Of its
    architectures ``llama-embed`` alone does without, reads from left to right, and is otherwise
    Qwen2's, but for the order of the rows that it turns by a token's place.
    """
    with whole.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        magic, version, tensor_count, field_count = HEAD.unpack_from(data)
        at, fields = HEAD.size, b""
        for _ in range(field_count):
            name, begin = _text(data, at)
            at = _after(data, begin + U32.size, U32.unpack_from(data, begin)[0])
            value = data[begin:at]
            if name == "general.architecture":
                value = U32.pack(TEXT) + _as_text("llama-embed")
            elif name.endswith(".block_count"):
                value = value[: U32.size] + U32.pack(layers)
            fields += _as_text(re.sub(r"^qwen2\.", "llama-embed.", name)) + value
        tensors = []  # name, what is said of it, its rows, and where its data begin
        for _ in range(tensor_count):
            begin, (name, at) = at, _text(data, at)
            at += U32.size + U32.unpack_from(data, at)[0] * U64.size
            rows = U64.unpack_from(data, at - U64.size)[0]
            at += U32.size
            tensors.append((name, data[begin:at], rows, U64.unpack_from(data, at)[0]))
            at += U64.size
        start = _aligned(at)
        begins = sorted(begin for *_, begin in tensors)
        end_of = dict(pairwise([*begins, len(data) - start]))
        kept = [tensor for tensor in tensors if _is_kept(tensor[0], layers)]
        with write_whole(path, "wb") as cut:
            cut.write(HEAD.pack(magic, version, len(kept), field_count) + fields)
            offset = 0
            for _, header, _, begin in kept:
                cut.write(header + U64.pack(offset))
                offset += _aligned(end_of[begin] - begin)
            cut.write(bytes(-cut.tell() % ALIGNMENT))
            for name, _, rows, begin in show_progress(kept, "Cutting the detector's layers out"):
                content = data[start + begin : start + end_of[begin]]
                turned = re.search(r"\.attn_[qk]\.", name)
                cut.write(_paired(content, rows) if turned else content)
                cut.write(bytes(-cut.tell() % ALIGNMENT))


def _is_kept(name: str, layers: int) -> bool:
    block = re.match(r"blk\.(\d+)\.", name)
    return int(block[1]) < layers if block else name != "output.weight"


def _paired(content: bytes, rows: int) -> bytes:
    """Return a head's rows with those turned together side by side, not half a head apart."""
    heads = np.frombuffer(content, np.uint8).reshape(rows // HEAD_WIDTH, 2, HEAD_WIDTH // 2, -1)
    return heads.swapaxes(1, 2).tobytes()


def _as_text(text: str) -> bytes:
    return U64.pack(len(text)) + text.encode()


def _text(data: mmap.mmap, at: int) -> tuple[str, int]:
    """Return the text there, and where it ends."""
    end = _after(data, at, TEXT)
    return data[at + U64.size : end].decode(), end


def _after(data: mmap.mmap, at: int, kind: int) -> int:
    """Return where a value of that type ends."""
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
