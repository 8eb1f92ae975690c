"""Vectors on disk: what was encoded once, by any run, is never encoded again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from admire.encoders import Role, TextEncoder, Vectors
from admire.errors import UserError
from admire.progress import track
from admire.storage import Cache, cache_dir

Thing = TypeVar("Thing")


class CachedEncoder:
    """A text encoder in front of which every vector is kept, by content and not by file name."""

    def __init__(self, encoder: TextEncoder, cache: Cache | None = None):
        self.encoder = encoder
        self.name = encoder.name
        self.identity = encoder.identity
        self.batch = encoder.batch
        self.encoded = 0
        """How many texts and images went to the encoder itself, not to the cache."""
        self._cache = cache or Cache(cache_dir() / "embeddings.sqlite")

    def encode_texts(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """See :class:`admire.encoders.TextEncoder`."""
        keys = [self._key(role, text.encode()) for text in texts]
        return self._through_cache(
            texts, keys, lambda part: self.encoder.encode_texts(part, role=role), "texts"
        )

    def _key(self, kind: str, content: bytes) -> str:
        return hashlib.sha256(f"{self.identity}\0{kind}\0".encode() + content).hexdigest()

    def _through_cache(
        self,
        things: Sequence[Thing],
        keys: Sequence[str],
        encode: Callable[[Sequence[Thing]], Vectors],
        what: str,
    ) -> Vectors:
        vectors = {key: self._cache.get(key) for key in keys}
        missing = {
            key: thing for key, thing in zip(keys, things, strict=True) if vectors[key] is None
        }
        pending = list(missing)
        starts = range(0, len(pending), self.batch)
        for start in track(starts, f"Encoding {len(pending)} {what} with {self.name}"):
            part = pending[start : start + self.batch]
            encoded = _unit(encode([missing[key] for key in part]), self.name)
            for key, vector in zip(part, encoded, strict=True):
                vectors[key] = vector.tobytes()
                self._cache.put(key, vector.tobytes())
            self.encoded += len(part)
        if not things:
            return np.zeros((0, 0), dtype="<f4")
        return np.stack([np.frombuffer(vectors[key] or b"", dtype="<f4") for key in keys])


def _unit(vectors: Vectors, name: str) -> Vectors:
    """The vectors at unit length; one that has none would make every similarity meaningless."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not (np.isfinite(lengths).all() and (lengths > 0).all()):
        raise UserError(f"{name}: an encoded vector is zero or not finite; the model is damaged.")
    return np.ascontiguousarray(vectors / lengths, dtype="<f4")
