"""The families of encoders, and how one is opened by its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from admire.base.choices import nearest
from admire.base.errors import UserError, check_extra
from admire.models.encoders.placement import Placement

if TYPE_CHECKING:
    from admire.base.choices import Device, Precision
    from admire.models.encoders.cached import CachedEncoder, CachedSentences, CachedTowers
    from admire.models.encoders.sentence import SentenceEncoder


def _e5(source: str, placement: Placement) -> CachedEncoder:
    from admire.models.encoders.cached import CachedEncoder
    from admire.models.encoders.e5 import E5Encoder

    return CachedEncoder(E5Encoder())


def _sight(source: str, placement: Placement) -> CachedTowers:
    from admire.models.encoders.cached import CachedTowers
    from admire.models.encoders.sight import SightEncoder

    return CachedTowers(SightEncoder())


def _embedded_state(source: str, placement: Placement) -> CachedSentences:
    from admire.models.encoders.cached import CachedSentences
    from admire.models.encoders.state import StateEncoder

    return CachedSentences(StateEncoder())


def _mclip(source: str, placement: Placement) -> CachedTowers:
    _check_clip(f"mclip:{source}")
    from admire.models.encoders.cached import CachedTowers
    from admire.models.encoders.mclip import MClipEncoder

    return CachedTowers(MClipEncoder(*_at_revision(source), placement))


def _openclip(source: str, placement: Placement) -> CachedTowers:
    _check_clip(f"openclip:{source}")
    from admire.models.encoders.cached import CachedTowers
    from admire.models.encoders.openclip import OpenClipEncoder

    return CachedTowers(OpenClipEncoder(*_at_revision(source), placement))


def _sbert(source: str, placement: Placement) -> CachedSentences:
    _check_clip(f"sbert:{source}")
    from admire.models.encoders.cached import CachedSeers, CachedSentences
    from admire.models.encoders.sentence import SentenceEncoder

    encoder = SentenceEncoder(*_at_revision(source), placement)
    return (CachedSeers if encoder.sees else CachedSentences)(encoder)


def _dual(source: str, placement: Placement) -> CachedTowers:
    _check_clip(f"dual:{source}")
    from admire.models.encoders.cached import CachedTowers
    from admire.models.encoders.dual import DualEncoder

    return CachedTowers(DualEncoder(*_at_revision(source), placement))


@dataclass(frozen=True)
class Family:
    """A family of encoders.

    Attributes:
        written: how one of them is named, with a placeholder after the colon.
        open: opens it by what stands after the colon.
    """

    written: str
    open: Callable[[str, Placement], CachedEncoder]


FAMILIES = {
    "dual": Family("dual:REPOSITORY", _dual),
    "e5": Family("e5", _e5),
    "embedded-state": Family("embedded-state", _embedded_state),
    "mclip": Family("mclip:NAME", _mclip),
    "openclip": Family("openclip:MODEL/TAG", _openclip),
    "sbert": Family("sbert:REPOSITORY", _sbert),
    "sight": Family("sight", _sight),
}


def open_encoder(
    name: str, *, device: Device = "auto", precision: Precision = "float32"
) -> CachedEncoder:
    """Open the encoder of that name. Every vector that it computes is cached on disk.

    With the extra ``embedded`` there are:

    - ``e5``: multilingual-e5-small at 4 bits, for texts only;
    - ``embedded-state``: the embedded chat model's states at words in a text, which the light
      detector reads;
    - ``sight``: ``e5`` for texts, and for images the labels of a small network in e5's space.

    With the extra ``clip`` there are, each from a folder, the hub's cache or the hub:

    - ``mclip:NAME``: M-CLIP's text tower with OpenAI's image tower, as in the UoR-NCL paper;
    - ``openclip:MODEL/TAG``: any model and weights that open_clip knows;
    - ``dual:REPOSITORY``: any dual encoder of transformers (SigLIP 2, MetaCLIP 2, CLIP);
    - ``sbert:REPOSITORY``: any sentence-transformers model; for images too if it reads them.

    ``@REVISION`` after the name takes that revision from the hub. No weights are loaded before the
    first text or image that is not cached.

    Args:
        device, precision: for the encoders of the extra ``clip``; ``auto`` takes a GPU if there is
            one.

    Raises:
        UserError: no encoder has that name, or a package, a file or the device is missing.
    """
    placement = Placement(device, precision)
    family, colon, source = name.partition(":")
    known = FAMILIES.get(family)
    if known and (source if ":" in known.written else not colon):
        return known.open(source, placement)
    raise UserError(
        f"'{name}' names no encoder.{nearest(family, list(FAMILIES))} There are: "
        f"{', '.join(one.written for one in FAMILIES.values())}; those with a colon also as "
        "FAMILY:FOLDER.",
        "encoder",
    )


def open_trainable(name: str, *, device: Device) -> SentenceEncoder:
    """Open an encoder to be fine-tuned, without a cache, whose vectors would be out of date.

    Raises:
        UserError: no encoder has that name, or it is not a sentence-transformers model.
    """
    _check_clip(name)
    from admire.models.encoders.sentence import SentenceEncoder

    opened = open_encoder(name, device=device).encoder
    if not isinstance(opened, SentenceEncoder):
        raise UserError(
            f"The encoder '{name}' cannot be fine-tuned. Name one of sbert:….", "encoder"
        )
    return opened


def _check_clip(name: str) -> None:
    packages = ("torch", "open_clip", "multilingual_clip", "sentence_transformers", "transformers")
    check_extra("clip", f"The encoder '{name}'", *packages)


def _at_revision(source: str) -> tuple[str, str | None]:
    """Folder or repository, and the revision that is named after an @."""
    if Path(source).expanduser().exists():  # a folder's name may hold an @
        return source, None
    source, _, revision = source.partition("@")
    if revision and Path(source).expanduser().is_dir():
        raise UserError(f"{source}: a folder has no revisions. Leave out '@{revision}'.", "encoder")
    return source, revision or None
