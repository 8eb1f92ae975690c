"""Models given by name or as objects, with their checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from admire.core import registry
from admire.core.errors import UserError
from admire.data.frames import describe_type
from admire.encoders import TextEncoder
from admire.llm import BoundModel, ChatModel, Session
from admire.llm.families import open_models
from admire.rankers.settings import RequestOptions, Settings
from admire.senses import Detector

Model = str | ChatModel
"""A chat model, by name or as an object."""


@dataclass(frozen=True)
class ResolvedModels:
    """Settings, request options and models of a run; a model that is None is in the settings."""

    settings: Settings
    asking: RequestOptions
    llms: Sequence[Model]
    encoder: Sequence[str | TextEncoder] | None
    caption_encoder: TextEncoder | None
    detector: Detector | None

    def open_models(self, session: Session) -> list[BoundModel]:
        """Open the chat models, to be asked through a session; none for a baseline's settings."""
        settings = self.settings
        if settings.query != "meaning" and not settings.looks:
            return []
        models: list[BoundModel] = []
        for llm in self.llms:
            if isinstance(llm, str):
                models += open_models(
                    llm,
                    url=settings.llm_url,
                    timeout=self.asking.timeout,
                    parallel=self.asking.parallel,
                    session=session,
                    dictionaries=settings.dictionaries,
                    plugins=settings.plugins,
                )
            else:
                models.append(session.bind(llm))
        if not models:
            raise UserError("No chat model is given to write meanings.", "llms")
        return models


def resolve_models(
    settings: Settings | None = None,
    asking: RequestOptions | None = None,
    llms: Sequence[Model] | None = None,
    encoder: str | TextEncoder | Sequence[str | TextEncoder] | None = None,
    caption_encoder: str | TextEncoder | None = None,
    detector: str | Path | Detector | None = None,
) -> ResolvedModels:
    """Check the arguments of :func:`admire.rank`, and move names of models to the settings."""
    _check_class("settings", settings, Settings)
    _check_class("asking", asking, RequestOptions)
    if isinstance(llms, str) or not isinstance(llms, Sequence | None):
        raise UserError(
            f"llms must be a list of names and models, not {describe_type(llms)}.", "llms"
        )
    names: dict[str, Any] = {}
    if llms and any(isinstance(llm, str) for llm in llms):
        names["llms"] = _names("llms", llms, "chat")
    elif llms:
        _names("llms", llms, "chat")
    encoders: Any = encoder
    if encoder is not None:
        encoders = [*encoder] if isinstance(encoder, list | tuple) else [encoder]
        names["encoder"] = _names("encoder", encoders, "encoder")
    objects: dict[str, Any] = {"caption_encoder": caption_encoder, "detector": detector}
    kinds: dict[str, registry.Kind] = {"caption_encoder": "encoder", "detector": "detector"}
    for name, model in objects.items():
        if isinstance(model, str | Path):
            names[name], objects[name] = model, None
        elif model is not None:
            _check(name, model, kinds[name])
    settings = replace(settings or Settings(), **names)
    asking = asking or RequestOptions()
    return ResolvedModels(settings, asking, llms or settings.llms, encoders, **objects)


def _check_class(name: str, value: object, kind: type) -> None:
    if not isinstance(value, kind | None):
        raise UserError(
            f"{name} must be admire.{kind.__name__}(…), not {describe_type(value)}.", name
        )


def _names(argument: str, models: Sequence[Any], kind: registry.Kind) -> tuple[str, ...]:
    """Return the names of models; refuse an object that lacks attributes of its protocol."""
    for model in models:
        if not isinstance(model, str):
            _check(argument, model, kind)
    return tuple(model if isinstance(model, str) else model.name for model in models)


def _check(argument: str, thing: Any, kind: registry.Kind) -> None:
    """Refuse an object that lacks attributes of its protocol."""
    base, *attributes = registry.PROTOCOLS[kind]
    missing = [name for name in (*attributes, "identity") if not hasattr(thing, name)]
    if missing:
        raise UserError(
            f"{argument} accepts names, or objects with {' and '.join(missing)}; "
            f"{describe_type(thing)} has none. Derive yours from {base}.",
            argument,
        )
