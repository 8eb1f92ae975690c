"""The embedded chat model's hidden state at the end of a text, as a vector."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from admire.encoders.protocols import Role, Vectors
from admire.llm.local import EMBEDDED_SHA256, LlamaServer, embedded_weights


class LastStateEncoder:
    """The final layer's state at the text's last token, 1,536 numbers.

    A chat model of this size answers questions about senses badly. But its state after reading a
    sentence differs between the senses, and :mod:`admire.senses.light` can tell them apart by it.
    Roles make no difference.
    """

    name = "embedded-state"
    identity = f"last-state:gguf:{EMBEDDED_SHA256}"
    batch = 1  # a text takes most of a second, so each vector is cached at once

    @cached_property
    def _server(self) -> LlamaServer:
        return LlamaServer(embedded_weights(), states=True)

    def encode_texts(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """See :class:`admire.encoders.TextEncoder`."""
        return np.array([self._server.state(text) for text in texts], dtype=np.float32)
