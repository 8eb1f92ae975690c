"""Models that a function of Python is given: by name, as in the settings, or as objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from admire.base.errors import UserError
from admire.data.frames import describe_type
from admire.models.encoders import TextEncoder
from admire.models.llm import ChatModel
from admire.rankers.settings import Asking, Settings
from admire.senses import Detector
from admire.senses.source import Source

Model = str | ChatModel | Source
"""A chat model, or another source of senses and meanings."""

Made = TypeVar("Made")


def take_settings(
    settings: Settings | None,
    *,
    asking: Asking | None = None,
    llms: Sequence[Model] | None = None,
    encoder: str | TextEncoder | None = None,
    caption_encoder: str | TextEncoder | None = None,
    detector: str | Path | Detector | None = None,
) -> Settings:
    """Return the settings with the models that are given by name; check those given as objects.

    Raises:
        UserError: an argument is not taken; the message names it.
    """
    for name, value, kind in (("settings", settings, Settings), ("asking", asking, Asking)):
        if not isinstance(value, kind | None):
            raise UserError(
                f"{name} is admire.{kind.__name__}(…), not {describe_type(value)}.", name
            )
    settings = settings or Settings()
    if isinstance(llms, str) or not isinstance(llms, Sequence | None):
        raise UserError(
            f"llms is a list of names and chat models, not {describe_type(llms)}.", "llms"
        )
    for llm in llms or ():
        if not isinstance(llm, str | Source):
            _check("llms", llm, "ask", "admire.models.llm.ChatModel", "name", "parallel", "sees")
    if llms and any(isinstance(llm, str) for llm in llms):
        names = tuple(llm if isinstance(llm, str) else llm.name for llm in llms)
        settings = replace(settings, llms=names)
    for name, model in (("encoder", encoder), ("caption_encoder", caption_encoder)):
        if isinstance(model, str):
            changes: dict[str, Any] = {name: model}
            settings = replace(settings, **changes)
        elif model is not None:
            _check(
                name, model, "encode_texts", "admire.models.encoders.TextEncoder", "name", "batch"
            )
    if isinstance(detector, str | Path):
        settings = replace(settings, detector=detector)
    elif detector is not None:
        _check("detector", detector, "classify", "admire.senses.Detector")
    return settings


def _check(argument: str, thing: Any, method: str, base: str, *attributes: str) -> None:
    """Refuse an object that lacks what its protocol has.

    Raises:
        UserError: it does.
    """
    missing = [name for name in (method, *attributes, "identity") if not hasattr(thing, name)]
    if missing:
        raise UserError(
            f"{argument} takes names, or objects with {' and '.join(missing)}; "
            f"{describe_type(thing)} has none. Derive yours from {base}.",
            argument,
        )


def as_object(model: str | Path | Made | None) -> Made | None:
    """Return the model, if it is given as an object."""
    return None if isinstance(model, str | Path) else model
