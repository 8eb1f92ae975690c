"""The protocols of encoders, and their types."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from admire.core.choices import Device as Device
from admire.core.choices import Precision as Precision
from admire.core.registry import Identified

Vectors = npt.NDArray[np.float32]  #: unit vectors, one per row: shape (rows, width)
Role = Literal["query", "document"]
"""The role of a text for an encoder that treats queries and documents differently."""


class TextEncoder(Identified, Protocol):
    """Turns texts into vectors.

    A class that derives from this one only needs :meth:`encode_texts`.

    Attributes:
        name: what the user calls it; by default that of the class.
        identity: model, revision and settings, all that a vector depends on; by default the name.
        batch: the best number of texts or images per call.

    It may have ``languages``: the base languages that it knows, such as ``("en",)`` (default: any).
    Items in other languages are left out of its mean. ``noise`` is for each track (``caption``,
    ``image``) the mean deviation of a text's cosines with unrelated captions or pictures (default:
    measured on the run's first items). With ``max_tokens`` (how many tokens it reads, with special
    tokens and its own prompt) and the method ``count_tokens`` (how many a text has, counted in the
    same way), longer texts are read in windows.

    Encoders with a small network for pictures may also have ``companion`` (the name of an encoder
    with the same vectors for texts that also encodes pictures; it replaces this one if candidates
    have no captions), ``picture_weight`` (the weight of its pictures if there are captions as
    well), ``in_words`` (a method that describes a picture in a few words, as its caption) and
    ``limits`` (its limits, as half a sentence for the log).
    """

    batch: int = 64

    def encode_texts(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """Encode texts as vectors of unit length, shape (texts, width).

        A text beyond the encoder's limit is cut at its end.
        """
        ...


@runtime_checkable
class ImageEncoder(Protocol):
    """An encoder that also turns images into vectors, in the same space as its texts.

    :class:`admire.encoders.CachedEncoder` makes one of an encoder that has in its place
    ``prepare_image``, which decodes an image in other threads while the model runs, and
    ``encode_prepared``, which encodes a batch of them.
    """

    def encode_images(self, images: Sequence[Path]) -> Vectors:
        """Encode images as vectors of unit length, shape (images, width)."""
        ...


class Query(NamedTuple):
    """A text with a prompt before it, or words in it to be encoded in context.

    Attributes:
        text: the text itself.
        prompt: the text before it; None for the model's own prompt.
        span: where the words begin and end in the text, in characters; None for the whole text.
    """

    text: str
    prompt: str | None = None
    span: tuple[int, int] | None = None


@runtime_checkable
class QueryEncoder(TextEncoder, Protocol):
    """A text encoder that also supports prompts and spans."""

    def encode_queries(self, queries: Sequence[Query]) -> Vectors:
        """Encode queries in the space of the texts: unit length, shape (queries, width).

        The vector of a span is the mean of its tokens' last states in context (late chunking).
        """
        ...


def reads_images(encoder: Any) -> bool:
    """Return whether an encoder, or the class of one, encodes images.

    A family where only some models do has the attribute ``accepts_images``, None in its class.
    """
    has_method = hasattr(encoder, "encode_images") or hasattr(encoder, "prepare_image")
    return bool(getattr(encoder, "accepts_images", has_method))
