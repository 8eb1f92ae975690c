"""Models given by name or as objects: chat models, recordings and runs, with their checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from admire.core import registry
from admire.core.errors import UserError
from admire.core.registry import register
from admire.data.frames import describe_type
from admire.encoders import TextEncoder
from admire.llm import ChatModel
from admire.llm.families import open_source as open_named
from admire.pipeline.past_runs import open_run_replies
from admire.rankers.settings import RequestOptions, Settings
from admire.senses import Detector
from admire.senses.recorded import Recorded
from admire.senses.source import Source, as_source


def open_source(name: str, **options: Any) -> Source:
    """Open the source with a name; see :func:`open_sources`.

    Raises:
        UserError: it is a run of several chat models; and as for :func:`open_sources`.
    """
    first, *others = open_sources(name, **options)
    if others:
        raise UserError(f"'{name}' contains the replies of {1 + len(others)} chat models.", "llms")
    return first


def open_sources(name: str, **options: Any) -> list[Source]:
    """Open the sources with a name: one, or one for each chat model of an earlier run.

    - a chat model, see :func:`admire.llm.open_llm`;
    - ``recorded:FILE``: replies in a file, see :func:`admire.senses.recorded.open_replies`;
    - ``run:FOLDER``: the replies of a run's chat models;
    - ``dictionary``: the dictionaries only.

    Args:
        options: see :func:`admire.llm.families.open_source`.
    """
    opened = open_named(name, **options)
    return [as_source(model) for model in (opened if isinstance(opened, list) else [opened])]


@register("chat", "run", takes="FOLDER")
def open_run(folder: str) -> list[Recorded]:
    """Replies of the chat models of an earlier run."""
    return open_run_replies(Path(folder).expanduser())


Model = str | ChatModel | Source
"""A chat model, or another source of senses and meanings."""


@dataclass(frozen=True)
class ResolvedModels:
    """Settings, request options and models of a run; a model that is None is in the settings."""

    settings: Settings
    asking: RequestOptions
    llms: Sequence[Model]
    encoder: Sequence[str | TextEncoder] | None
    caption_encoder: TextEncoder | None
    detector: Detector | None

    def open_sources(self, *, asked: bool = True) -> list[Source]:
        """Open the chat models and other sources; an empty list for the settings of a baseline.

        Args:
            asked: see :func:`admire.llm.families.open_source`.
        """
        settings = self.settings
        if settings.query != "meaning" and not settings.looks:
            return []
        sources: list[Source] = []
        for llm in self.llms:
            if isinstance(llm, str):
                sources += open_sources(
                    llm,
                    url=settings.llm_url,
                    timeout=self.asking.timeout,
                    parallel=self.asking.parallel,
                    asked=asked,
                    dictionaries=settings.dictionaries,
                    plugins=settings.plugins,
                )
            else:
                sources.append(as_source(llm))
        if not sources:
            raise UserError("No chat model is given to write meanings.", "llms")
        return sources


def resolve_models(
    settings: Settings | None = None,
    asking: RequestOptions | None = None,
    llms: Sequence[Model] | None = None,
    encoder: str | TextEncoder | Sequence[str | TextEncoder] | None = None,
    caption_encoder: str | TextEncoder | None = None,
    detector: str | Path | Detector | None = None,
) -> ResolvedModels:
    """Check the arguments of :func:`admire.rank`, and move names of models to the settings."""
    for name, value, settings_class in (
        ("settings", settings, Settings),
        ("asking", asking, RequestOptions),
    ):
        if not isinstance(value, settings_class | None):
            raise UserError(
                f"{name} must be admire.{settings_class.__name__}(…), not {describe_type(value)}.",
                name,
            )
    if isinstance(llms, str) or not isinstance(llms, Sequence | None):
        raise UserError(
            f"llms must be a list of names and models, not {describe_type(llms)}.", "llms"
        )
    for llm in llms or ():
        if not isinstance(llm, str | Source):
            _check("llms", llm, "chat")
    names: dict[str, Any] = {}
    if llms and any(isinstance(llm, str) for llm in llms):
        names["llms"] = tuple(llm if isinstance(llm, str) else llm.name for llm in llms)
    objects: dict[str, Any] = {"encoder": None}
    if encoder is not None:
        encoders: list[Any] = [*encoder] if isinstance(encoder, list | tuple) else [encoder]
        for model in encoders:
            if not isinstance(model, str):
                _check("encoder", model, "encoder")
        names["encoder"] = tuple(m if isinstance(m, str) else m.name for m in encoders)
        objects["encoder"] = encoders
    kinds: tuple[tuple[str, Any, registry.Kind], ...] = (
        ("caption_encoder", caption_encoder, "encoder"),
        ("detector", detector, "detector"),
    )
    for name, model, kind in kinds:
        objects[name] = None
        if isinstance(model, str | Path):
            names[name] = model
        elif model is not None:
            _check(name, model, kind)
            objects[name] = model
    settings = replace(settings or Settings(), **names)
    return ResolvedModels(settings, asking or RequestOptions(), llms or settings.llms, **objects)


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
