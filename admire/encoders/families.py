"""Opens encoders by name."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from admire.core import registry
from admire.core.errors import UserError, check_extra
from admire.core.progress import log_once
from admire.encoders.protocols import QueryEncoder
from admire.encoders.torch_models import LazyModel, Placement

if TYPE_CHECKING:
    from admire.core.choices import Device, Precision
    from admire.encoders.cached import CachedEncoder
    from admire.encoders.sentence import SentenceEncoder

log = logging.getLogger("admire")


def open_encoder(
    name: str,
    *,
    device: Device = "auto",
    precision: Precision = "float32",
    own_prompts: bool = True,
    trust_remote_code: bool = False,
    plugins: Mapping[str, Mapping[str, Any]] | None = None,
) -> CachedEncoder:
    """Open the encoder of that name, a plug-in. Every vector that it computes is cached on disk.

    With the extra ``embedded`` there are:

    - ``e5``: multilingual-e5-small at 4 bits, for texts only;
    - ``embedded-state``, ``e5-state``: states at words in a text, of the embedded chat model and of
      e5, which the light detector reads;
    - ``minilm``: all-MiniLM-L6-v2 at 8 bits, for English texts only;
    - ``sight``: ``e5`` for texts, and for images the labels of a small network in e5's space.

    With the extra ``clip`` there are, each from a folder, the hub's cache or the hub:

    - ``mclip:NAME``: M-CLIP's text tower with OpenAI's image tower, as in the UoR-NCL paper;
    - ``openclip:MODEL/TAG``: any model and weights that open_clip knows (SigLIP 2, MetaCLIP 2);
    - ``sbert:REPOSITORY``: any sentence-transformers model; for images too if it reads them.

    ``@REVISION`` after the name selects that revision on the hub. No weights are loaded before the
    first text or image that is not cached.

    Args:
        device, precision: for the encoders of the extra ``clip``; ``auto`` uses a GPU if there is
            one. The others run on the CPU, and warn about other devices.
        own_prompts, trust_remote_code: for sbert, see
            :class:`admire.encoders.sentence.SentenceEncoder`.
        plugins: see :attr:`admire.Settings.plugins`.

    Raises:
        UserError: the encoder is unknown, or a package, a file or the device is missing.
    """
    from admire.encoders.cached import CachedEncoder

    plugin, source = registry.resolve("encoder", name)
    if "clip" in plugin.needs:
        models = ("multilingual_clip", "sentence_transformers", "transformers")
        check_extra("clip", f"The encoder '{name}'", "torch", "open_clip", *models)
    placement = Placement(device, precision)
    options: dict[str, Any] = {"placement": placement, "own_prompts": own_prompts}
    options |= {"trust_remote_code": trust_remote_code, "plugins": plugins or {}}
    if device not in ("auto", "cpu"):
        if "placement" in plugin.arguments:
            placement.resolve()
        else:
            log.warning("The encoder '%s' runs on the CPU, not on '%s'.", name, device)
    if "revision" in plugin.arguments:
        options["revision"] = None
        if not Path(source).expanduser().exists():  # a folder's name may contain an @
            source, _, revision = source.partition("@")
            if revision and Path(source).expanduser().is_dir():
                cure = f"Omit '@{revision}'"
                raise UserError(f"{source}: a folder has no revisions. {cure}.", "encoder")
            options["revision"] = revision or None
    encoder = plugin.open(source, **options)
    if isinstance(encoder, LazyModel):
        encoder.share()
    if limits := getattr(encoder, "limits", None):
        log_once(logging.INFO, f"The encoder {name} {limits}.")
    return CachedEncoder(encoder)


def open_trainable(name: str, **options: Any) -> SentenceEncoder:
    """Open an encoder to fine-tune, without a cache: its vectors change.

    Args:
        options: those of :func:`open_encoder`.

    Raises:
        UserError: the encoder is unknown, or it is not a sentence-transformers model.
    """
    from admire.encoders.sentence import SentenceEncoder

    opened = open_encoder(name, **options).encoder
    if not isinstance(opened, SentenceEncoder):
        raise UserError(f"'{name}' cannot be fine-tuned. Use a model of sbert:….", "encoder")
    opened.claim()
    return opened


def open_context_encoder(name: str) -> QueryEncoder:
    """Open an encoder that computes vectors of words in their context.

    Raises:
        UserError: the encoder is unknown, or it does not compute such vectors.
    """
    encoder = open_encoder(name)
    if not isinstance(encoder, QueryEncoder):
        raise UserError(
            f"The encoder '{name}' cannot encode words in context. Use embedded-state, e5-state or "
            "sbert:….",
            "encoder",
        )
    return encoder
