"""Encoding a collection: vectors, digests of contents, and what has to be left out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from admire.base.choices import TRACKS, Device
from admire.base.errors import UserError
from admire.base.machine import cores
from admire.base.workers import Workers, check_same, over_workers
from admire.data.items import Candidate
from admire.models.encoders import ImageEncoder, TextEncoder, Vectors, open_encoder
from admire.tasks.collections.sources import Thing

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Encoded:
    """The vectors of some things.

    Attributes:
        vectors: by track, shape (things, width); zeros for what a thing lacks.
        there: which things have a vector, by track.
    """

    vectors: Mapping[str, Vectors]
    there: Mapping[str, Mask]


@dataclass(frozen=True)
class Batch:
    """Things of a collection that were encoded together.

    Attributes:
        things: those that have vectors.
        digests: of their contents.
        encoded: their vectors.
        left_out: the others, each with its digest, empty if its picture cannot be read, and with
            the reason.
    """

    things: Sequence[Thing]
    digests: Sequence[str]
    encoded: Encoded
    left_out: Sequence[tuple[Thing, str, str]]


EncodeBatches = Callable[[Iterable[Sequence[Thing]], TextEncoder], Iterator[Batch]]
"""Encodes batches of things as :func:`encode_here` does."""


def encode_here(batches: Iterable[Sequence[Thing]], encoder: TextEncoder) -> Iterator[Batch]:
    """Encode batches in this process, one after the other."""
    return (encode_batch(things, encoder) for things in batches)


def encode_over(workers: Workers, device: Device = "auto") -> EncodeBatches:
    """Encodes batches in several processes, each of which opens the encoder by its name.

    Pictures are in folders that all of their machines share.
    """

    def encode_shared(batches: Iterable[Sequence[Thing]], encoder: TextEncoder) -> Iterator[Batch]:
        return over_workers(batches, partial(open_worker, named(encoder), device), workers)

    return encode_shared


def open_worker(made: Mapping[str, str], device: Device) -> Callable[[Sequence[Thing]], Batch]:
    """The function that encodes batches in one of several processes.

    Args:
        made: name and identity of the encoder.

    Raises:
        UserError: the encoder cannot be opened, or is another one on this machine.
    """
    encoder = open_encoder(made["name"], device=device)
    check_same("encoder", made["identity"], encoder.identity)
    return partial(encode_batch, encoder=encoder)


def named(encoder: TextEncoder) -> dict[str, str]:
    """Name and identity of an encoder."""
    return {"name": encoder.name, "identity": encoder.identity}


def encode_batch(things: Sequence[Thing], encoder: TextEncoder) -> Batch:
    """Encode things. Those whose picture is damaged, and those that have nothing that the encoder
    reads, are left out.

    Raises:
        UserError: the encoder fails otherwise.
    """
    digests = _each(digest, things)
    left_out = {k: str(found) for k, found in enumerate(digests) if isinstance(found, UserError)}
    left_out |= _unfit(things, encoder)
    encoded = None
    while encoded is None:
        kept = [k for k in range(len(things)) if k not in left_out]
        try:
            encoded = encode([things[k] for k in kept], encoder)
        except UserError:
            damaged = _damaged(things, kept)
            if not damaged:
                raise
            left_out |= damaged
    return Batch(
        [things[k] for k in kept],
        [digests[k] for k in kept],
        encoded,
        [
            (
                things[k],
                "" if isinstance(digests[k], UserError) else digests[k],
                why.replace(str(things[k].file), str(things[k].image)),
            )
            for k, why in sorted(left_out.items())
        ],
    )


def encode(things: Sequence[Thing] | Sequence[Candidate], encoder: TextEncoder) -> Encoded:
    """The vectors of things, in the tracks that they have and the encoder reads.

    Raises:
        UserError: a picture cannot be read, or the encoder fails.
    """
    vectors: dict[str, Vectors] = {}
    there: dict[str, Mask] = {}
    for track in tracks_of(encoder):
        mask = np.array([bool(getattr(thing, track)) for thing in things], dtype=bool)
        if not mask.any():
            continue
        if track == "image":
            files = [one.file if isinstance(one, Thing) else one.image for one in things]
            found = cast(ImageEncoder, encoder).encode_images([file for file in files if file])
        else:
            captions = [thing.caption for thing in things if thing.caption]
            found = encoder.encode_texts(captions, role="document")
        vectors[track] = np.zeros((len(things), found.shape[1]), dtype=np.float32)
        vectors[track][mask] = found
        there[track] = mask
    return Encoded(vectors, there)


def digest(thing: Thing) -> str:
    """Tells a thing's content from others: 128 bits of its picture and caption.

    Raises:
        UserError: the picture cannot be read.
    """
    from admire.data.image_files import read_bytes

    content = hashlib.sha256()
    if thing.file:
        content.update(hashlib.sha256(read_bytes(thing.file)).digest())
    content.update((thing.caption or "").encode())
    return content.hexdigest()[:32]


def tracks_of(encoder: TextEncoder) -> tuple[str, ...]:
    """The tracks that an encoder reads."""
    return TRACKS if isinstance(encoder, ImageEncoder) else ("caption",)


def _unfit(things: Sequence[Thing], encoder: TextEncoder) -> dict[int, str]:
    """Why the encoder cannot read some things, by their places."""
    why = f"has no caption, and the encoder '{encoder.name}' reads no pictures"
    tracks = tracks_of(encoder)
    return {
        k: f"{thing.image}: {why}."
        for k, thing in enumerate(things)
        if not any(getattr(thing, track) for track in tracks)
    }


def _damaged(things: Sequence[Thing], places: Sequence[int]) -> dict[int, str]:
    """What is wrong with the pictures of some things, by their places."""
    from admire.data.image_files import read_image

    def look(thing: Thing) -> None:
        if thing.file:
            read_image(thing.file)

    looked = zip(places, _each(look, [things[k] for k in places]), strict=True)
    return {k: str(error) for k, error in looked if isinstance(error, UserError)}


def _each(function: Any, things: Sequence[Thing]) -> list[Any]:
    """What the function returns for each thing, or the user's error that it raises; files are read
    by threads."""

    def tried(thing: Thing) -> Any:
        try:
            return function(thing)
        except UserError as error:
            return error

    if not any(thing.file for thing in things):
        return [tried(thing) for thing in things]
    with ThreadPoolExecutor(cores()) as pool:
        return list(pool.map(tried, things))
