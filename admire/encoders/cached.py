"""The cache of vectors: no text or image is encoded twice, in this run or a later one."""

from __future__ import annotations

import hashlib
import logging
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from admire.core import registry
from admire.core.cache import Cache, open_cache
from admire.core.errors import UserError
from admire.core.machine import cores
from admire.core.progress import show_progress
from admire.core.threads import prefetch
from admire.data.image_files import read_bytes
from admire.encoders.protocols import Query, Role, Vectors, reads_images

log = logging.getLogger("admire")

VECTORS = "embeddings.sqlite"
"""File name in the cache directory."""
PROGRESS = {
    "texts": ("Reading {} text", "Reading {} texts"),
    "queries": ("Reading {} query", "Reading {} queries"),
    "images": ("Looking at {} picture", "Looking at {} pictures"),
}
"""Texts of the progress bar, for one and for several, by the kind of input; an encoder may have
its own, in ``progress``."""

Input = TypeVar("Input")


class CachedEncoder:
    """An encoder whose vectors are cached on disk, with all methods that it has.

    Args:
        encoder: a :class:`admire.encoders.TextEncoder`, which may also encode images and
            queries; of images, in one step or in two.
    """

    def __init__(self, encoder: Any, cache: Cache | None = None):
        self.encoder = encoder
        if hasattr(encoder, "encode_queries"):
            self.encode_queries = self._encode_queries
        if reads_images(encoder):
            self.encode_images = self._encode_images
        self.name = encoder.name
        self.identity = encoder.identity
        self.batch = encoder.batch
        self.encoded = 0
        """How many texts and images the encoder has encoded, without those from the cache."""
        self._cache = open_cache(VECTORS) if cache is None else cache

    def encode_texts(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """See :class:`admire.encoders.TextEncoder`."""
        return self._through_cache(
            texts,
            [self._key(role, text.encode()) for text in texts],
            encode=lambda part: self.encoder.encode_texts(part, role=role),
            kind="texts",
            length=len,
        )

    def _encode_queries(self, queries: Sequence[Query]) -> Vectors:
        return self._through_cache(
            queries,
            [self._key("asked", repr(astuple(query)).encode()) for query in queries],
            encode=self.encoder.encode_queries,
            kind="queries",
            length=lambda query: len(query.text),
        )

    def _encode_images(self, images: Sequence[Path]) -> Vectors:
        """See :class:`admire.encoders.ImageEncoder`; images are identified by content.

        Raises:
            UserError: a file is missing, empty, damaged or not an image. The vectors of the images
                before it stay cached.
        """
        keys = prefetch(lambda path: self._key("image", read_bytes(path)), images, 2 * cores())
        encode: Any = getattr(self.encoder, "encode_prepared", None)
        return self._through_cache(
            images,
            list(keys),
            encode=encode or self.encoder.encode_images,
            kind="images",
            prepare=self._prepare if encode else iter,
        )

    def _prepare(self, paths: Iterable[Path]) -> Iterator[Any]:
        """Prepare the next images in other threads, while the model runs."""
        with registry.blamed(self.encoder):
            yield from prefetch(self.encoder.prepare_image, paths, 2 * self.batch)

    def _key(self, kind: str, content: bytes) -> str:
        return hashlib.sha256(f"{self.identity}\0{kind}\0".encode() + content).hexdigest()

    def _through_cache(
        self,
        inputs: Sequence[Input],
        keys: Sequence[str],
        encode: Callable[[Sequence[Any]], Vectors],
        kind: str,
        prepare: Callable[[Iterable[Input]], Iterator[Any]] = iter,
        length: Callable[[Input], int] = lambda _: 0,
    ) -> Vectors:
        """Return the inputs' vectors; prepare, encode and cache those that are not cached.

        The longest go first: inputs of a batch are padded to the longest of them.
        """
        vectors: dict[str, Any] = {key: self._cache.get(key) for key in keys}
        uncached = [pair for pair in zip(keys, inputs, strict=True) if vectors[pair[0]] is None]
        missing = dict(sorted(uncached, key=lambda pair: -length(pair[1])))
        names = getattr(self.encoder, "progress", PROGRESS)[kind]
        message = f"{names[len(missing) != 1].format(len(missing))} (model {self.name})"
        waiting: list[tuple[str, Any]] = []
        # Without a name for the zip, its threads end with an error, not only with the traceback.
        for done, pair in enumerate(
            show_progress(
                zip(missing, prepare(missing.values()), strict=True), message, len(missing)
            ),
            start=1,
        ):
            waiting.append(pair)
            while len(waiting) >= self.batch or (waiting and done == len(missing)):
                part, waiting = waiting[: self.batch], waiting[self.batch :]
                encoded = self._encode_or_halve(encode, [prepared for _, prepared in part], kind)
                if encoded is None:
                    waiting = part + waiting
                    continue
                unit = self._unit(encoded, [missing[key] for key, _ in part])
                new = {key: vector.tobytes() for (key, _), vector in zip(part, unit, strict=True)}
                self._cache.put_all(new, self.name)
                vectors |= new
                self.encoded += len(part)
        if not inputs:
            return np.zeros((0, 0), dtype="<f4")
        return np.stack([np.frombuffer(vectors[key], dtype="<f4") for key in keys])

    def _encode_or_halve(
        self, encode: Callable[[Sequence[Any]], Vectors], part: Sequence[Any], kind: str
    ) -> Vectors | None:
        """Encode a batch; if it does not fit into memory, return None and halve the batches."""
        try:
            with registry.blamed(self.encoder):
                return encode(part)
        except Exception as error:
            if not _is_out_of_memory(error):
                raise
        if len(part) == 1:
            raise UserError(
                f"{self.name}: not even one of the {kind} fits into memory. Use the device "
                "cpu, the precision bfloat16 or a smaller encoder.",
                "device",
                "precision",
                "encoder",
            )
        self.batch = len(part) // 2
        log.warning("%s: out of memory; continuing with batches of %d.", self.name, self.batch)
        return None

    def _unit(self, vectors: Vectors, inputs: Sequence[Input]) -> Vectors:
        """Scale vectors to unit length; refuse a wrong number, and vectors that are zero or not
        finite."""
        if np.ndim(vectors) != 2 or len(vectors) != len(inputs):
            shape = np.shape(vectors)
            raise self._error(f"returned vectors of shape {shape} for {len(inputs)} inputs")
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        good = (np.isfinite(lengths) & (lengths > 0))[:, 0]
        if not good.all():
            place = inputs[int(good.argmin())]
            text = getattr(place, "text", str(place))
            start = textwrap.shorten(text, 80, placeholder="…")
            raise self._error(f"returned a vector that is zero or not finite, of “{start}”")
        return np.ascontiguousarray(vectors / lengths, dtype="<f4")

    def _error(self, fault: str) -> UserError:
        if plugin := registry.plugin_of(self.encoder):
            return plugin.error(f"{fault}.")
        return UserError(f"{self.name}: {fault}. The model is damaged.", "encoder")


def _is_out_of_memory(error: Exception) -> bool:
    """Return whether torch, on any device, or NumPy ran out of memory."""
    phrases = ("out of memory", "can't allocate memory", "not enough memory")
    return isinstance(error, MemoryError) or any(phrase in str(error).lower() for phrase in phrases)
