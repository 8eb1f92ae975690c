"""What a user may name or give as a model: chat models, recordings and runs; and their checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from admire.base import registry
from admire.base.errors import UserError
from admire.base.registry import register
from admire.data.frames import describe_type
from admire.models.encoders import TextEncoder
from admire.models.llm import ChatModel, Session
from admire.models.llm.families import open_source as open_named
from admire.rankers.settings import Asking, Settings
from admire.runs.past_runs import open_run_replies
from admire.senses import Detector
from admire.senses.recorded import Recorded
from admire.senses.source import Source, as_source


def open_source(
    name: str, *, url: str | None = None, dictionaries: Sequence[str] = ("wordnet",)
) -> Source:
    """Open the one source that a name stands for; see :func:`open_sources`.

    Raises:
        UserError: it is a run of several chat models; and as for :func:`open_sources`.
    """
    first, *others = open_sources(name, url=url, dictionaries=tuple(dictionaries))
    if others:
        raise UserError(f"'{name}' holds the replies of {1 + len(others)} chat models.", "llms")
    return first


def open_sources(name: str, **options: Any) -> list[Source]:
    """Open what the user names: one source, or one for each chat model of an earlier run.

    - a chat model, see :func:`admire.models.llm.open_llm`;
    - ``recorded:FILE``: replies in a file, see :func:`admire.senses.recorded.open_replies`;
    - ``run:FOLDER``: what the chat models of a run said;
    - ``dictionary``: the dictionaries alone.

    Args:
        options: see :func:`admire.models.llm.families.open_source`.
    """
    opened = open_named(name, **options)
    return [as_source(one) for one in (opened if isinstance(opened, list) else [opened])]


@register("chat", "run", takes="FOLDER")
def open_run(folder: str) -> list[Recorded]:
    """What the chat models of an earlier run said."""
    return open_run_replies(Path(folder).expanduser())


Model = str | ChatModel | Source
"""A chat model, or another source of senses and meanings."""


@dataclass(frozen=True)
class Arguments:
    """What a run is to be made with; the settings name the models that are not given as objects."""

    settings: Settings
    asking: Asking
    llms: Sequence[Model]
    encoder: TextEncoder | None
    caption_encoder: TextEncoder | None
    detector: Detector | None

    def open_sources(self, session: Session | None = None, *, asked: bool = True) -> list[Source]:
        """Open the chat models and other sources; none where the settings are a baseline's.

        Args:
            session: what asks chat models; None is one of its own for each.
            asked: see :func:`admire.models.llm.families.open_source`.
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
                    session=session,
                    asked=asked,
                    dictionaries=settings.dictionaries,
                    plugins=settings.plugins,
                )
            else:
                sources.append(as_source(llm))
        if not sources:
            raise UserError("There is no chat model to ask for meanings.", "llms")
        return sources


def take_arguments(
    settings: Settings | None = None,
    asking: Asking | None = None,
    llms: Sequence[Model] | None = None,
    encoder: str | TextEncoder | None = None,
    caption_encoder: str | TextEncoder | None = None,
    detector: str | Path | Detector | None = None,
) -> Arguments:
    """Check the arguments of :func:`admire.rank`, and move models given by name to the settings."""
    for name, value, settings_class in (
        ("settings", settings, Settings),
        ("asking", asking, Asking),
    ):
        if not isinstance(value, settings_class | None):
            raise UserError(
                f"{name} is admire.{settings_class.__name__}(…), not {describe_type(value)}.", name
            )
    if isinstance(llms, str) or not isinstance(llms, Sequence | None):
        raise UserError(f"llms is a list of names and models, not {describe_type(llms)}.", "llms")
    for llm in llms or ():
        if not isinstance(llm, str | Source):
            _check("llms", llm, "chat")
    names: dict[str, Any] = {}
    if llms and any(isinstance(llm, str) for llm in llms):
        names["llms"] = tuple(llm if isinstance(llm, str) else llm.name for llm in llms)
    objects: dict[str, Any] = {}
    kinds: tuple[tuple[str, Any, registry.Kind], ...] = (
        ("encoder", encoder, "encoder"),
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
    return Arguments(settings, asking or Asking(), llms or settings.llms, **objects)


def _check(argument: str, thing: Any, kind: registry.Kind) -> None:
    """Refuse an object that lacks what its protocol has."""
    base, *attributes = registry.PROTOCOLS[kind]
    missing = [name for name in (*attributes, "identity") if not hasattr(thing, name)]
    if missing:
        raise UserError(
            f"{argument} takes names, or objects with {' and '.join(missing)}; "
            f"{describe_type(thing)} has none. Derive yours from {base}.",
            argument,
        )
