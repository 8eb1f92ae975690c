"""The embedded chat model's states at words in a text, from the middle of its layers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from admire.core.cache import Opened
from admire.core.errors import UserError, check_extra
from admire.core.registry import register
from admire.core.storage import cache_dir, only_writer, write_whole
from admire.encoders.protocols import Query, Role, Vectors
from admire.llm.weights import (
    EMBEDDED_FILE,
    EMBEDDED_SHA256,
    PATIENCE,
    embedded_status,
    embedded_weights,
)

if TYPE_CHECKING:
    import onnxruntime

    from admire.embedded.qwen_model import QwenModel

LAYERS = 18
"""Of 28: the meaning of words in context is clearest in the middle, as measured on Task 2A."""
WEIGHTS = f"{EMBEDDED_FILE.removesuffix('.gguf')}-{LAYERS}.weights"
"""The file of converted weights, in the cache directory."""
LIMIT = 4096  #: maximum tokens of a text
_NETWORK: Opened[tuple[QwenModel, onnxruntime.InferenceSession]] = Opened(1)


def open_network(weights: Path) -> tuple[QwenModel, onnxruntime.InferenceSession]:
    """Open the network; its weights are converted once, into a file of bytes."""
    from admire.embedded.onnx_session import open_session
    from admire.embedded.qwen_model import GgufFile, QwenModel

    model = QwenModel(GgufFile(embedded_weights()), LAYERS, LIMIT)
    with only_writer(weights, wait=PATIENCE):
        if not weights.is_file():
            with write_whole(weights, "wb") as file:
                model.write_weights(file)
    return model, open_session(model.graph(weights.name), weights.parent)


def _status() -> str:
    """Return whether the layers of the embedded model are converted, or can be."""
    chat = embedded_status()
    if chat.startswith("no"):
        return chat
    weights = converted_weights()
    return f"yes (file {weights})" if weights.is_file() else "yes (converted at first use)"


def converted_weights() -> Path:
    """Return the path of the converted weights, which may not exist yet."""
    return cache_dir() / "models" / WEIGHTS


@register(
    "encoder",
    "embedded-state",
    about="texts: words in context, for the detector; 18 of embedded's 28 layers",
    needs=("embedded",),
    packages=("onnx", "onnxruntime", "gguf", "tokenizers", "xllamacpp"),
    size="0.8 GB and embedded",
    licence="Apache-2.0",
    citation="Hui et al. 2024, arXiv 2409.12186",
    status=_status,
    pull=converted_weights,
)
class StateEncoder:
    """The mean state after layer 18 of 28 at a text's tokens, or at those of words in it.

    A chat model of this size answers questions about senses badly, but its states at an expression,
    vectors of 1,536 numbers, differ between the senses.
    """

    name = "embedded-state"
    progress: ClassVar = {"queries": ("Detecting senses",) * 2}  # several spans per item
    identity = f"state:{LAYERS}:gguf:{EMBEDDED_SHA256}:onnx"
    batch = 1  # a text takes a large part of a second, so each vector is cached at once

    def __init__(self) -> None:
        packages = "onnx", "onnxruntime", "gguf", "tokenizers"
        check_extra("embedded", "The embedded model's states", *packages)
        self._read: tuple[str, list[tuple[int, int]], Vectors] | None = None

    def encode_texts(self, texts: Sequence[str], *, role: Role) -> Vectors:
        return self.encode_queries([Query(text) for text in texts])

    def encode_queries(self, queries: Sequence[Query]) -> Vectors:
        """See :class:`admire.encoders.QueryEncoder`. A token partly in a span belongs to it.

        Consecutive queries with the same text compute it once. Too long texts are refused.
        """
        means = []
        for query in queries:
            prompt = query.prompt or ""
            read, text = self._read, prompt + query.text
            if not read or read[0] != text:
                file = converted_weights()
                model, session = _NETWORK.get(file, partial(open_network, file))
                tokens, places = model.tokens(text)
                if (count := len(tokens)) > LIMIT:
                    raise UserError(f"'{text[:60]}…': has {count:,} tokens, more than {LIMIT:,}.")
                (states,) = session.run(None, model.inputs(tokens))
                self._read = read = text, places, states[0]
            _, places, states = read
            start, end = (len(prompt) + place for place in query.span or (0, len(query.text)))
            inside = [token for token, (a, b) in enumerate(places) if b > start and a < end]
            means.append(states[inside].mean(axis=0))
        return np.array(means, dtype=np.float32)
