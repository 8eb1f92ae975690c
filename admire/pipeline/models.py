"""Models given by name or as objects, with their checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from admire.core.errors import UserError
from admire.core.schema import as_tuple
from admire.encoders import TextEncoder
from admire.llm import BoundModel, ChatModel, Session
from admire.llm.session import open_models
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
    """Move the names of models among the arguments of :func:`admire.rank` to the settings."""
    names: dict[str, Any] = {}
    given = as_tuple(llms)
    if any(isinstance(llm, str) for llm in given):
        names["llms"] = _names(given)
    encoders: Any = encoder
    if encoder is not None:
        encoders = [*encoder] if isinstance(encoder, list | tuple) else [encoder]
        names["encoder"] = _names(encoders)
    objects: dict[str, Any] = {"caption_encoder": caption_encoder, "detector": detector}
    for name, model in objects.items():
        if isinstance(model, str | Path):
            names[name], objects[name] = model, None
    settings = replace(settings or Settings(), **names)
    return ResolvedModels(
        settings, asking or RequestOptions(), given or settings.llms, encoders, **objects
    )


def _names(models: Sequence[Any]) -> tuple[str, ...]:
    return tuple(model if isinstance(model, str) else model.name for model in models)
