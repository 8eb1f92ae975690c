"""The lower layers of a Qwen2 model for onnxruntime: the tokenizer, the weights, and a graph.

llama.cpp computes the same states, but its wheel uses no instructions newer than AVX2. onnxruntime
uses all of the processor's and multiplies bytes, in a third of the time.
"""

from __future__ import annotations

from functools import cached_property, reduce
from struct import Struct
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from gguf import GGML_QUANT_SIZES, GGUFReader, GGUFValueType, ReaderTensor, quants
from onnx import TensorProto

from admire.core.machine import cores, prefetch
from admire.core.progress import show_progress
from admire.embedded.onnx_session import MICROSOFT, OnnxGraph
from admire.encoders.protocols import Vectors

if TYPE_CHECKING:
    from tokenizers import Tokenizer


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


MATRICES = [f"attn_{part}" for part in ("q", "k", "v", "output")]
MATRICES += [f"ffn_{part}" for part in ("gate", "up", "down")]
"""A layer's matrices of weights."""
ROWS = 256
"""Rows of a matrix that are converted at a time, so that they stay in the processor's cache."""
PAGE = 4096  #: alignment of matrices in the file of weights, in bytes, so that they can be mapped
WEIGHT, ACTIVATION, ZERO = 63, 127, 128
"""The largest weight and activation, and the byte of a zero activation. With weights of 7 bits the
sum of two products fits into 16 bits, which processors without VNNI use to add them up."""
ROTATION: Vectors = reduce(np.kron, [np.array([[1, 1], [1, -1]], np.float32) / 2**0.5] * 7)
"""Rotation of each 128 inputs of ``ffn_down`` and their weights (QuaRot, Ashkboos et al., 2024). A
few of these inputs are far larger than all others, and would use up the bytes' range."""
WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""How Qwen2 splits a text before it looks for tokens."""

Bytes = npt.NDArray[np.int8]


class QwenModel:
    """The first layers of a Qwen2 model, which read texts of up to ``limit`` tokens.

    Only the word vectors that a text needs are read from the file.
    """

    def __init__(self, file: GgufFile, layers: int, limit: int):
        self._tensors = {tensor.name: tensor for tensor in file.tensors}
        self._fields = file.fields
        self._layers, self._limit = layers, limit
        self._width = self._setting("embedding_length")
        self._heads = self._setting("attention.head_count")
        self._groups = self._setting("attention.head_count_kv")
        self._head = self._width // self._heads

    def _setting(self, name: str) -> Any:
        return self._fields[f"qwen2.{name}"].contents()

    # ------------------------------------------------------------------------------------ texts

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        from tokenizers import Regex, Tokenizer, models, pre_tokenizers

        words = self._fields["tokenizer.ggml.tokens"].contents()
        merges = self._fields["tokenizer.ggml.merges"].contents()
        vocabulary = {word: token for token, word in enumerate(words)}
        tokenizer = Tokenizer(models.BPE(vocabulary, [tuple(pair.split(" ")) for pair in merges]))
        split = pre_tokenizers.Split(Regex(WORDS), "isolated")
        as_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, as_bytes])
        return tokenizer

    def tokens(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Return a text's tokens, and the characters that each has a part of, start and end.

        Special tokens in the text, such as ``<|im_end|>``, are read as plain text.
        """
        encoding = self._tokenizer.encode(text)
        return encoding.ids, encoding.offsets

    def inputs(self, tokens: list[int]) -> dict[str, npt.NDArray[Any]]:
        """Return the network's input for a text: its words, and an empty state."""
        return {
            "words": to_numbers(self._tensors["token_embd.weight"], tokens)[None],
            "past": np.zeros((1, self._groups, 0, self._head), np.float32),
            "end": np.array([len(tokens) - 1], np.int32),
            "length": np.array([len(tokens)], np.int32),
        }

    # ---------------------------------------------------------------------------------- weights

    def write_weights(self, file: IO[bytes]) -> None:
        """Write the matrices of weights as bytes, each followed by a scale for each output."""
        places = self._places()
        matrices = prefetch(self._as_bytes, places, 2 * cores())
        converted = show_progress(matrices, "Converting the detector's layers", len(places))
        for begins, (matrix, scales) in zip(places.values(), converted, strict=True):
            for begin, values in zip(begins, (matrix.data, scales.data), strict=True):
                file.write(bytes(begin - file.tell()))
                file.write(values)

    def _places(self) -> dict[str, tuple[int, int]]:
        """Return where each matrix and its scales begin in the file of weights."""
        places, at = {}, 0
        for name in (f"blk.{layer}.{part}" for layer in range(self._layers) for part in MATRICES):
            inputs, outputs = self._shape(name)
            scales = _aligned(at + inputs * outputs)
            places[name] = at, scales
            at = _aligned(scales + 4 * outputs)
        return places

    def _shape(self, name: str) -> tuple[int, int]:
        """Return how many inputs and outputs a matrix has."""
        inputs, outputs = self._tensors[f"{name}.weight"].shape.tolist()
        return inputs, outputs

    def _as_bytes(self, name: str) -> tuple[Bytes, Vectors]:
        tensor = self._tensors[f"{name}.weight"]
        matrix = np.empty(self._shape(name), np.int8)
        scales = np.empty(len(tensor.data), np.float32)
        for rows in (slice(at, at + ROWS) for at in range(0, len(scales), ROWS)):
            weights = to_numbers(tensor, rows)
            if name.endswith("ffn_down"):
                weights = (weights.reshape(-1, len(ROTATION)) @ ROTATION).reshape(weights.shape)
            scales[rows] = np.abs(weights).max(axis=1) / WEIGHT
            weights /= scales[rows, None]
            matrix[:, rows] = np.rint(weights, out=weights).astype(np.int8).T
        return matrix, scales

    # ---------------------------------------------------------------------------------- network

    def graph(self, weights: str) -> bytes:
        """Return the network as an ONNX model, with its ``weights`` in the file of that name.

        Its input is that of :meth:`inputs`. Its output has the states after the last layer, with
        the norm that the whole model has after its own last layer, (1, tokens, width). Weights and
        activations are bytes, with a scale for each output and each token.
        """
        graph = OnnxGraph()
        constant, add = graph.constant, graph.add
        epsilon = self._setting("attention.layer_norm_rms_epsilon")

        def vector(name: str) -> str:
            tensor = self._tensors[name]
            return constant(name, tensor.data)

        def norm(states: str, name: str) -> str:
            weight = vector(f"{name}.weight")
            return add("SimplifiedLayerNormalization", states, weight, epsilon=epsilon)

        def as_bytes(states: str) -> tuple[str, str]:
            """Return each token's numbers as bytes, and its scale."""
            largest = add("ReduceMax", add("Abs", states), "last", keepdims=1)
            scale = add("Div", largest, "largest")
            steps = add("Add", add("Round", add("Div", states, scale)), "offset")
            return add("Cast", steps, to=TensorProto.UINT8), scale

        def product(states: tuple[str, str], name: str) -> str:
            shape, scales = self._shape(name), f"{name}.scales"
            at, scales_at = places[name]
            graph.constant_in_file(name, TensorProto.INT8, shape, weights, at)
            graph.constant_in_file(scales, TensorProto.FLOAT, shape[1:], weights, scales_at)
            sums = add("MatMulInteger", states[0], name, "zero")
            numbers = add("Cast", sums, to=TensorProto.FLOAT)
            return add("Mul", add("Mul", numbers, states[1]), scales)

        places = self._places()
        constant("rotation", ROTATION)
        width = self._setting("feed_forward_length")
        constant("pieces", [1, -1, width // len(ROTATION), len(ROTATION)])
        constant("piece", [1, -1, width])
        constant("last", [-1])
        constant("largest", np.float32(ACTIVATION))
        constant("offset", np.float32(ZERO))
        constant("zero", np.uint8(ZERO))
        turns = self._setting("rope.freq_base") ** (-np.arange(0, self._head, 2) / self._head)
        angles = np.outer(np.arange(self._limit), turns).astype(np.float32)
        angle = constant("cos", np.cos(angles)), constant("sin", np.sin(angles))
        states = "words"
        for layer in (f"blk.{number}." for number in range(self._layers)):
            read = as_bytes(norm(states, f"{layer}attn_norm"))
            qkv = [
                add("Add", product(read, f"{layer}attn_{part}"), vector(f"{layer}attn_{part}.bias"))
                for part in "qkv"
            ]
            attended = add(
                "GroupQueryAttention",
                *(*qkv, "past", "past", "end", "length", *angle),
                outputs=3,
                domain=MICROSOFT,
                num_heads=self._heads,
                kv_num_heads=self._groups,
                do_rotary=1,
            )
            attended = product(as_bytes(attended), f"{layer}attn_output")
            states = add("Add", states, attended)
            read = as_bytes(norm(states, f"{layer}ffn_norm"))
            gate = product(read, f"{layer}ffn_gate")
            gate = add("QuickGelu", gate, domain=MICROSOFT, alpha=1.0)  # so it is SiLU
            inner = add("Mul", gate, product(read, f"{layer}ffn_up"))
            turned = add("MatMul", add("Reshape", inner, "pieces"), "rotation")
            read = as_bytes(add("Reshape", turned, "piece"))
            states = add("Add", states, product(read, f"{layer}ffn_down"))
        norm(states, "output_norm")
        inputs: Any = {
            "words": (TensorProto.FLOAT, [1, "tokens", self._width]),
            "past": (TensorProto.FLOAT, [1, self._groups, 0, self._head]),
            "end": (TensorProto.INT32, [1]),
            "length": (TensorProto.INT32, [1]),
        }
        return graph.model(inputs, ("states", [1, "tokens", self._width]))


def _aligned(size: int) -> int:
    return -(-size // PAGE) * PAGE
