"""Encoders: texts and images as unit vectors, one small class a family."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from admire.errors import UserError

Vectors = npt.NDArray[np.float32]
Role = Literal["query", "document"]


class TextEncoder(Protocol):
    """Turns texts into vectors.

    ``identity`` names everything that a vector depends on: model, revision and settings. ``batch``
    is how many texts it likes to be given at once.
    """

    name: str
    identity: str
    batch: int

    def encode_texts(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """Vectors of unit length, shape (texts, width).

        ``role`` matters to encoders that treat queries and documents differently. Texts beyond the
        encoder's limit are cut, the first part is kept.
        """
        ...


@runtime_checkable
class ImageEncoder(Protocol):
    """An encoder that also turns images into vectors, in the same space as its texts."""

    def encode_images(self, images: Sequence[Path]) -> Vectors:
        """Vectors of unit length, shape (images, width)."""
        ...


def open_encoder(name: str) -> TextEncoder:
    """The encoder of that name, with every vector cached on disk.

    ``e5`` is multilingual-e5-small at 4 bits; it reads texts only. ``embedded-state`` is the
    embedded chat model's hidden state, which the detector reads. Both come with the ``embedded``
    extra, and neither is loaded before the first text that is not cached.

    Raises:
        UserError: the name is of no known encoder, or a package is missing.
    """
    from admire.encoders.cached import CachedEncoder
    from admire.encoders.e5 import E5Encoder
    from admire.encoders.last_state import LastStateEncoder

    families: dict[str, Callable[[], TextEncoder]] = {
        "e5": E5Encoder,
        "embedded-state": LastStateEncoder,
    }
    if name not in families:
        close = difflib.get_close_matches(name, families, n=1)
        hint = f" Did you mean '{close[0]}'?" if close else ""
        raise UserError(f"'{name}' names no encoder.{hint} There are: {', '.join(families)}.")
    return CachedEncoder(families[name]())
