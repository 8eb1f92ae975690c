"""The families of encoders, and how one is opened by its name."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from admire.base.choices import nearest
from admire.base.errors import UserError, check_extra
from admire.models.encoders.torch_models import LazyModel, Placement

if TYPE_CHECKING:
    from admire.base.choices import Device, Precision
    from admire.models.encoders.cached import CachedEncoder
    from admire.models.encoders.sentence import SentenceEncoder

log = logging.getLogger("admire")


@dataclass(frozen=True)
class Family:
    """A family of encoders.

    Attributes:
        written: how one of them is named, with a placeholder after the colon.
        encoder: its module in this package, and its class there.
    """

    written: str
    encoder: str


FAMILIES = {
    "dual": Family("dual:REPOSITORY", "dual.DualEncoder"),
    "e5": Family("e5", "e5.E5Encoder"),
    "embedded-state": Family("embedded-state", "hidden_states.StateEncoder"),
    "mclip": Family("mclip:NAME", "mclip.MClipEncoder"),
    "openclip": Family("openclip:MODEL/TAG", "openclip.OpenClipEncoder"),
    "sbert": Family("sbert:REPOSITORY", "sentence.SentenceEncoder"),
    "sight": Family("sight", "sight.SightEncoder"),
}
"""The families of encoders by the names before the colon."""


def open_encoder(
    name: str,
    *,
    device: Device = "auto",
    precision: Precision = "float32",
    own_prompts: bool = True,
    trust_remote_code: bool = False,
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
            one. The others run on the CPU, and warn where another device is named.
        own_prompts, trust_remote_code: for sbert, see
            :class:`admire.models.encoders.sentence.SentenceEncoder`.

    Raises:
        UserError: no encoder has that name, or a package, a file or the device is missing.
    """
    from admire.models.encoders.cached import with_cache

    prefix, colon, source = name.partition(":")
    family = FAMILIES.get(prefix)
    if not family or not (source if ":" in family.written else not colon):
        forms = ", ".join(family.written for family in FAMILIES.values())
        raise UserError(
            f"'{name}' names no encoder.{nearest(prefix, list(FAMILIES))} There are: {forms}; "
            "those with a colon also as FAMILY:FOLDER.",
            "encoder",
        )
    placement, arguments = Placement(device, precision), tuple[Any, ...]()
    if colon:
        _check_clip(name)
        if device not in ("auto", "cpu"):
            placement.resolve()
        arguments = (*_at_revision(source), placement)
    elif device not in ("auto", "cpu"):
        log.warning("The encoder '%s' runs on the CPU, not on '%s'.", name, device)
    options = {"own_prompts": own_prompts, "trust_remote_code": trust_remote_code}
    module, _, kind = family.encoder.partition(".")
    opener = getattr(import_module(f"admire.models.encoders.{module}"), kind)
    encoder = opener(*arguments, **(options if prefix == "sbert" else {}))
    if isinstance(encoder, LazyModel):
        encoder.share()
    if limits := getattr(encoder, "limits", None):
        _log_once(f"The encoder {name} {limits}.")
    return with_cache(encoder)


@cache
def _log_once(message: str) -> None:
    log.info("%s", message)


def open_trainable(name: str, **options: Any) -> SentenceEncoder:
    """Open an encoder to fine-tune, without a cache: its vectors change.

    Args:
        options: those of :func:`open_encoder`.

    Raises:
        UserError: no encoder has that name, or it is not a sentence-transformers model.
    """
    _check_clip(name)
    from admire.models.encoders.sentence import SentenceEncoder

    opened = open_encoder(name, **options).encoder
    if not isinstance(opened, SentenceEncoder):
        raise UserError(f"'{name}' cannot be fine-tuned. Name one of sbert:….", "encoder")
    opened.claim()
    return opened


def _check_clip(name: str) -> None:
    packages = ("torch", "open_clip", "multilingual_clip", "sentence_transformers", "transformers")
    check_extra("clip", f"The encoder '{name}'", *packages)


def _at_revision(source: str) -> tuple[str, str | None]:
    """Split a folder or repository from the revision after an @."""
    if Path(source).expanduser().exists():  # a folder's name may hold an @
        return source, None
    source, _, revision = source.partition("@")
    if revision and Path(source).expanduser().is_dir():
        raise UserError(f"{source}: a folder has no revisions. Leave out '@{revision}'.", "encoder")
    return source, revision or None
