"""Encoders: texts and images as unit vectors, one small class a family."""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from admire.errors import UserError

if TYPE_CHECKING:
    from admire.encoders.cached import CachedEncoder

Vectors = npt.NDArray[np.float32]
Role = Literal["query", "document"]
Device = Literal["auto", "cpu", "cuda", "mps"]
Precision = Literal["float32", "bfloat16", "float16"]


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


@dataclass(frozen=True)
class Query:
    """A query that is more than its text.

    Attributes:
        text: the text itself.
        prompt: what goes before it, in place of the model's own prompt; None leaves that.
        span: where the words begin and end in the text, in characters, whose meaning in context is
            wanted; None wants that of the text.
    """

    text: str
    prompt: str | None = None
    span: tuple[int, int] | None = None


@runtime_checkable
class QueryEncoder(Protocol):
    """A text encoder that also takes prompts and spans."""

    def encode_queries(self, queries: Sequence[Query]) -> Vectors:
        """Vectors of unit length, shape (queries, width), in the space of the texts.

        That of a span is the mean of its tokens' last states in context (late chunking).
        """
        ...


class Towers(TextEncoder, Protocol):
    """A text and an image tower of one space, as the families of this package implement them.

    An image goes through two steps, so that the next pictures can be prepared in other threads
    while the model runs; :class:`admire.encoders.cached.CachedTowers` makes an
    :class:`ImageEncoder` of it.
    """

    def prepare_image(self, path: Path) -> Any:
        """The decoded and preprocessed picture; safe to call from several threads."""
        ...

    def encode_prepared(self, images: Sequence[Any]) -> Vectors:
        """Vectors of prepared images, shape (images, width)."""
        ...


TORCH_FAMILIES = ("mclip", "openclip", "sbert")


def open_encoder(
    name: str, *, device: Device = "auto", precision: Precision = "float32"
) -> CachedEncoder:
    """The encoder of that name, with every vector cached on disk.

    ``e5`` is multilingual-e5-small at 4 bits and ``embedded-state`` the embedded chat model's
    hidden state, which the detector reads; both come with the extra ``embedded`` and read texts
    only. With the extra ``clip`` there are, each from the hub, its cache or a folder:

    - ``mclip:NAME``: M-CLIP's text tower with OpenAI's image tower, as in the UoR-NCL paper;
    - ``openclip:MODEL/TAG``: any model and weights that open_clip knows;
    - ``sbert:REPOSITORY``: any sentence-transformers model, for texts.

    ``@REVISION`` behind the name pins a hub revision. ``device`` and ``precision`` are for these;
    ``auto`` takes a GPU where there is one. No weights are loaded before the first text or image
    that is not cached.

    Raises:
        UserError: the name is of no known encoder, or a package, a file or the device is missing.
    """
    from admire.encoders.cached import CachedEncoder, CachedSentences, CachedTowers

    family, _, source = name.partition(":")
    if name == "e5":
        from admire.encoders.e5 import E5Encoder

        return CachedEncoder(E5Encoder())
    if name == "embedded-state":
        from admire.encoders.last_state import LastStateEncoder

        return CachedEncoder(LastStateEncoder())
    if family in TORCH_FAMILIES and source:
        _check_extra(name)
        from admire.encoders.mclip import MClipEncoder
        from admire.encoders.openclip import OpenClipEncoder
        from admire.encoders.placement import Placement
        from admire.encoders.sentence import SentenceEncoder

        revision = None
        if not Path(source).expanduser().exists():  # a folder's name may hold an @
            source, _, revision = source.partition("@")
            if revision and Path(source).expanduser().is_dir():
                raise UserError(f"{source}: a folder has no revisions. Leave out '@{revision}'.")
        asked = source, revision or None, Placement(device, precision)
        if family == "sbert":
            return CachedSentences(SentenceEncoder(*asked))
        return CachedTowers((MClipEncoder if family == "mclip" else OpenClipEncoder)(*asked))
    close = difflib.get_close_matches(family, ["e5", "embedded-state", *TORCH_FAMILIES], n=1)
    hint = f" Did you mean '{close[0]}'?" if close and close[0] != family else ""
    raise UserError(
        f"'{name}' names no encoder.{hint} There are: e5, mclip:NAME, openclip:MODEL/TAG, "
        "sbert:REPOSITORY, each of the last three also as FAMILY:FOLDER, and embedded-state."
    )


def _check_extra(name: str) -> None:
    for package in ("torch", "open_clip", "multilingual_clip", "sentence_transformers"):
        if importlib.util.find_spec(package) is None:
            raise UserError(
                f"The encoder '{name}' needs {package}, of the extra 'clip' "
                "(pip install '.[clip]' in the clone)."
            )
