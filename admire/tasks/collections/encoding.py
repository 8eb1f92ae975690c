"""Encoding a collection: vectors, digests of contents, and what has to be left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

from admire.base.choices import TRACKS, Device
from admire.base.errors import UserError
from admire.base.machine import cores
from admire.base.workers import Workers, check_same, map_processes
from admire.data.image_files import read_image
from admire.data.items import Candidate
from admire.models.encoders import ImageEncoder, TextEncoder, Vectors, open_encoder
from admire.tasks.collections.entries import Entry, digest

Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]
"""Numbers of entries: places in memory, or LanceDB's numbers of rows."""


class EncoderRecord(BaseModel):
    """The encoder that made an index's vectors."""

    name: str
    identity: str

    @classmethod
    def of(cls, encoder: TextEncoder) -> EncoderRecord:
        """Return the record of an open encoder."""
        return cls(name=encoder.name, identity=encoder.identity)


@dataclass(frozen=True)
class Encoded:
    """The vectors of some entries.

    Attributes:
        vectors: unit vectors by track, shape (entries, width); zeros for what an entry lacks.
        present: which entries have a vector, by track.
    """

    vectors: Mapping[str, Vectors]
    present: Mapping[str, Mask]


@dataclass(frozen=True)
class Batch:
    """Entries of a collection that were encoded together.

    Attributes:
        entries: those that have vectors.
        digests: of their contents.
        encoded: their vectors.
        left_out: the others, each with its digest, empty if its picture cannot be read, and with
            the reason.
    """

    entries: Sequence[Entry]
    digests: Sequence[str]
    encoded: Encoded
    left_out: Sequence[tuple[Entry, str, str]]


EncodeBatches = Callable[[Iterable[Sequence[Entry]], TextEncoder], Iterator[Batch]]
"""Encodes batches of entries as :func:`encode_here` does."""


def encode_here(batches: Iterable[Sequence[Entry]], encoder: TextEncoder) -> Iterator[Batch]:
    """Encode batches in this process, one after the other."""
    return (encode_batch(entries, encoder) for entries in batches)


def encode_over(workers: Workers, device: Device = "auto") -> EncodeBatches:
    """Return a function that encodes batches in several processes.

    Each process opens the encoder by its name. Pictures are in folders that all of their machines
    share.
    """

    def encode_shared(batches: Iterable[Sequence[Entry]], encoder: TextEncoder) -> Iterator[Batch]:
        open_worker = partial(_open_worker, EncoderRecord.of(encoder), device)
        return map_processes(batches, open_worker, workers)

    return encode_shared


def _open_worker(record: EncoderRecord, device: Device) -> Callable[[Sequence[Entry]], Batch]:
    """Open the encoder in one of several processes; return the function that encodes batches."""
    encoder = open_encoder(record.name, device=device)
    check_same("encoder", record.identity, encoder.identity)
    return partial(encode_batch, encoder=encoder)


def encode_batch(entries: Sequence[Entry], encoder: TextEncoder) -> Batch:
    """Encode entries, and leave out those whose picture is damaged or that lack what is encoded."""
    digests = _try_each(digest, entries)
    problems = {k: str(value) for k, value in enumerate(digests) if isinstance(value, UserError)}
    for k, entry in enumerate(entries):
        if not any(getattr(entry, track) for track in tracks_of(encoder)):
            problems[k] = f"{entry.image}: has no caption, and '{encoder.name}' reads no pictures."
    encoded = None
    while encoded is None:
        kept = [k for k in range(len(entries)) if k not in problems]
        try:
            encoded = encode([entries[k] for k in kept], encoder)
        except UserError:
            errors = zip(kept, _try_each(_decode, [entries[k] for k in kept]), strict=True)
            damaged = {k: str(error) for k, error in errors if isinstance(error, UserError)}
            if not damaged:
                raise
            problems |= damaged
    left_out = []
    for k, problem in sorted(problems.items()):
        entry, content = entries[k], "" if isinstance(digests[k], UserError) else digests[k]
        left_out.append((entry, content, problem.replace(str(entry.file), str(entry.image))))
    return Batch([entries[k] for k in kept], [digests[k] for k in kept], encoded, left_out)


def encode(entries: Sequence[Entry] | Sequence[Candidate], encoder: TextEncoder) -> Encoded:
    """Return the vectors of entries, in the tracks that they have and the encoder reads."""
    vectors: dict[str, Vectors] = {}
    present: dict[str, Mask] = {}
    for track in tracks_of(encoder):
        mask = np.array([bool(getattr(entry, track)) for entry in entries], dtype=bool)
        if not mask.any():
            continue
        if track == "image":
            files = [entry.file if isinstance(entry, Entry) else entry.image for entry in entries]
            encoded = cast(ImageEncoder, encoder).encode_images([file for file in files if file])
        else:
            captions = [entry.caption for entry in entries if entry.caption]
            encoded = encoder.encode_texts(captions, role="document")
        vectors[track] = np.zeros((len(entries), encoded.shape[1]), dtype=np.float32)
        vectors[track][mask] = encoded
        present[track] = mask
    return Encoded(vectors, present)


def tracks_of(encoder: TextEncoder) -> tuple[str, ...]:
    """Return the tracks that an encoder reads."""
    return TRACKS if isinstance(encoder, ImageEncoder) else ("caption",)


def _decode(entry: Entry) -> None:
    """Decode an entry's picture, to see whether it is damaged."""
    if entry.file:
        read_image(entry.file)


def _try_each(function: Callable[[Entry], Any], entries: Sequence[Entry]) -> list[Any]:
    """Call a function with each entry, by threads; return the results, or the errors raised."""

    def attempt(entry: Entry) -> Any:
        try:
            return function(entry)
        except UserError as error:
            return error

    with ThreadPoolExecutor(cores()) as pool:
        return list(pool.map(attempt, entries))
