"""Encoding a collection: vectors, digests of contents, and what has to be left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

from admire.apps.search.entries import Entry, digest
from admire.core.choices import TRACKS, Device
from admire.core.errors import UserError
from admire.core.machine import cores
from admire.core.workers import Workers, check_same, map_processes
from admire.data.image_files import read_image
from admire.encoders import ImageEncoder, TextEncoder, open_encoder
from admire.encoders.cached import checked
from admire.encoders.windows import Windows

Rows = npt.NDArray[np.int64]  #: numbers of entries: places in memory, or LanceDB's numbers of rows

Encoded = Mapping[str, Windows]
"""Unit vectors of some entries by track; one of NaN for what an entry lacks."""


class EncoderRecord(BaseModel):
    """The encoder that made an index's vectors."""

    name: str
    identity: str

    @classmethod
    def of(cls, encoder: TextEncoder) -> EncoderRecord:
        """Return the record of an open encoder."""
        return cls(name=encoder.name, identity=encoder.identity)


class Batch(NamedTuple):
    """Entries that were encoded together, with digests, and why others were left out."""

    entries: Sequence[Entry]
    encoded: Encoded
    left_out: Sequence[str]


EncodeBatches = Callable[[Iterable[Sequence[Entry]], TextEncoder], Iterator[Batch]]
"""Encodes batches of entries as :func:`encode_batches` does."""


def encode_batches(
    batches: Iterable[Sequence[Entry]],
    encoder: TextEncoder,
    *,
    workers: Workers | None = None,
    device: Device = "auto",
) -> Iterator[Batch]:
    """Encode batches in this process, one after the other, or in several.

    Each of several opens the encoder by its name, and reads pictures from shared folders.
    """
    if workers is None:
        return (encode_batch(entries, encoder) for entries in batches)
    return map_processes(
        batches, partial(_open_worker, encoder.name, encoder.identity, device), workers
    )


def _open_worker(name: str, identity: str, device: Device) -> Callable[[Sequence[Entry]], Batch]:
    """Open the encoder in one of several processes; return the function that encodes batches."""
    encoder = open_encoder(name, device=device)
    check_same("encoder", identity, encoder.identity)
    return partial(encode_batch, encoder=encoder)


def encode_batch(entries: Sequence[Entry], encoder: TextEncoder) -> Batch:
    """Encode entries, and leave out those whose picture is damaged or that lack what is encoded."""

    def check(entry: Entry) -> Entry:
        if not any(getattr(entry, track) for track in tracks_of(encoder)):
            reason = f"has no caption, and '{encoder.name}' reads no pictures."
            raise UserError(f"{entry.image}: {reason}")
        return replace(entry, digest=digest(entry))

    def check_picture(entry: Entry) -> Entry:
        if entry.image:
            read_image(entry.image)
        return entry

    with TemporaryDirectory(prefix="admire-", ignore_cleanup_errors=True) as folder:
        places: dict[Path | None, Path | None] = {}  # of Parquet's pictures; encoders read files
        entries = [*entries]
        for number, entry in enumerate(entries):
            if entry.content is not None:
                places[file := Path(folder, str(number))] = entry.image
                file.write_bytes(entry.content)
                entries[number] = replace(entry, image=file, content=None)
        entries, left_out = _usable(entries, check)
        try:
            encoded = encode(entries, encoder)
        except UserError:
            entries, damaged = _usable(entries, check_picture)
            if not damaged:
                raise
            left_out += damaged
            encoded = encode(entries, encoder)
    for path, place in places.items():
        left_out = [reason.replace(f"{path}:", f"{place}:") for reason in left_out]
    entries = [replace(entry, image=places.get(entry.image, entry.image)) for entry in entries]
    return Batch(entries, encoded, left_out)


def encode(entries: Sequence[Entry], encoder: TextEncoder) -> Encoded:
    """Return the vectors of entries, in the tracks that they have and the encoder reads."""
    encoder = checked(encoder)
    encoded: dict[str, Windows] = {}
    for track in tracks_of(encoder):
        rows = [row for row, entry in enumerate(entries) if getattr(entry, track)]
        if not rows:
            continue
        things: list[Any] = [getattr(entries[row], track) for row in rows]
        if track == "image":
            windows = Windows.of(cast("ImageEncoder", encoder).encode_images(things))
        else:
            windows = encoder.text_windows(things, role="document")
        missing = np.full((1, windows.vectors.shape[1]), np.nan, dtype=np.float32)
        by_row = dict(zip(rows, windows.each, strict=True))
        encoded[track] = Windows.joined([by_row.get(row, missing) for row in range(len(entries))])
    return encoded


def tracks_of(encoder: TextEncoder) -> tuple[str, ...]:
    """Return the tracks that an encoder reads."""
    return TRACKS if isinstance(encoder, ImageEncoder) else ("caption",)


def _usable(
    entries: Sequence[Entry], check: Callable[[Entry], Entry]
) -> tuple[list[Entry], list[str]]:
    """Return the checked entries, and why others are refused; by threads if there are pictures."""

    def attempt(entry: Entry) -> Entry | str:
        try:
            return check(entry)
        except UserError as error:
            return str(error)

    with ThreadPoolExecutor(cores()) as pool:
        call: Any = pool.map if any(entry.image for entry in entries) else map
        checked: list[Entry | str] = list(call(attempt, entries))
    refused = [reason for reason in checked if isinstance(reason, str)]
    return [entry for entry in checked if isinstance(entry, Entry)], refused
