"""The embedded chat model's states at words in a text, from the middle of its layers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from admire.base.errors import UserError
from admire.models.encoders.protocols import Query, Role, Vectors
from admire.models.llm.local import EMBEDDED_SHA256, LlamaServer, lower_layers

LAYERS = 18
"""Of 28: what words mean in their context is plainest in the middle, as we found on Task 2A."""


class StateEncoder:
    """The mean state after layer 18 of 28 at a text's tokens, or at those of words in it.

    A chat model of this size answers questions about senses badly. But its states at an expression
    differ between the senses, by which :mod:`admire.senses.light_detector` tells them apart. A
    vector has 1,536 numbers. Roles make no difference.
    """

    name = "embedded-state"
    identity = f"state:{LAYERS}:gguf:{EMBEDDED_SHA256}"
    batch = 1  # a text takes a good part of a second, so each vector is cached at once

    def __init__(self) -> None:
        self._read: tuple[str, list[int], npt.NDArray[np.float32]] | None = None

    @cached_property
    def _server(self) -> LlamaServer:
        return LlamaServer(lower_layers(LAYERS), states=True)

    def encode_texts(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """See :class:`admire.models.encoders.TextEncoder`."""
        return self.encode_queries([Query(text) for text in texts])

    def encode_queries(self, queries: Sequence[Query]) -> Vectors:
        """See :class:`admire.models.encoders.QueryEncoder`. A token partly in a span belongs to it.

        Queries that follow each other with the same text have it read once.

        Raises:
            UserError: a span holds no token, or the text is too long for the model.
        """
        return np.array([self._encode(query) for query in queries], dtype=np.float32)

    def _encode(self, query: Query) -> npt.NDArray[np.float32]:
        prompt = query.prompt or ""
        text = prompt + query.text
        if self._read is None or self._read[0] != text:
            pieces, states = self._server.states(text)
            self._read = text, list(accumulate(map(len, pieces))), states
        _, ends, states = self._read
        span = query.span or (0, len(query.text))
        start, end = (len((prompt + query.text[:place]).encode()) for place in span)
        inside = [
            token
            for token, (a, b) in enumerate(zip([0, *ends], ends, strict=False))
            if b > start and a < end
        ]
        if not inside:
            raise UserError(f"'{query.text[:60]}': holds no word at {query.span}.")
        mean: npt.NDArray[np.float32] = states[inside].mean(axis=0)
        return mean
