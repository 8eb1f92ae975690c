"""Command-line options of settings, and the settings that several classes share."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import MISSING
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_args, get_origin

from pydantic import Field, ValidationError

from admire.core import registry
from admire.core.choices import Device, LongTexts, SenseMethod
from admire.core.errors import UserError
from admire.core.registry import Kind
from admire.core.schema import Seed, complaint

SettingsClass = TypeVar("SettingsClass")

Panel = Literal[
    "Data and output",
    "Models",
    "Senses and meanings",
    "Scoring",
    "Chat models and costs",
    "What is learned",
    "Loss",
    "Optimiser",
    "Plug-ins",
    "All settings at once",
    "Scale",
]
"""Headings of ``--help-all``, in this order."""


class Option(NamedTuple):
    """Marks a field of a settings class as an option of the command line.

    Attributes:
        panel: the heading above it.
        name: the option's name, if it differs from the field's.
        daily: whether ``--help`` shows it, and not only ``--help-all``.
        completes: the kind of plug-ins whose names a shell completes.
        in_file: whether a file for ``--config`` can contain it.
        plugin: the plug-in that it belongs to, and its name there.
    """

    panel: Panel
    name: str | None = None
    daily: bool = False
    completes: Kind | None = None
    in_file: bool = True
    plugin: tuple[str, str] | None = None


class Setting(NamedTuple):
    """A field of a settings class that is also an option."""

    name: str
    hint: Any
    default: Any
    help: str
    option: Option

    @property
    def flag(self) -> str:
        """The option: ``--llm`` for the field ``llms``."""
        return "--" + (self.option.name or self.name).replace("_", "-")

    @property
    def choices(self) -> tuple[str, ...]:
        """The possible values, if it is a choice."""
        hints = [self.hint]
        for hint in hints:
            if get_origin(hint) is Literal:
                return get_args(hint)
            hints += [part for part in get_args(hint) if part not in (None, ...)]
        return ()


def hints(kind: Any) -> dict[str, Any]:
    """Return the types of a settings class's fields, with their constraints."""
    types = {}
    for name, field in kind.__pydantic_fields__.items():
        rules = [rule for rule in field.metadata if not isinstance(rule, Option)]
        types[name] = Annotated[field.annotation, *rules] if rules else field.annotation
    return types


def take_settings(*sources: Any, unset: Container[str] = ()) -> dict[str, Setting]:
    """Return the options of settings classes by field, in the order of their panels.

    Args:
        sources: settings classes or, for other defaults, settings; or tuples of one of these and
            the names of the fields to use. Of several fields with one name the first counts.
        unset: fields whose default depends on other fields.
    """
    by_name: dict[str, Setting] = {}
    for source in sources:
        owner, *names = source if isinstance(source, tuple) else (source,)
        types = hints(owner)
        for name, field in owner.__pydantic_fields__.items():
            for option in field.metadata:
                if isinstance(option, Option) and (not names or name in names):
                    default = MISSING if field.is_required() else getattr(owner, name)
                    default = None if name in unset else default
                    about = " ".join((field.description or "").split())
                    setting = Setting(name, types[name], default, about, option)
                    by_name.setdefault(name, setting)
    panels = get_args(Panel)
    return dict(sorted(by_name.items(), key=lambda pair: panels.index(pair[1].option.panel)))


def plugin_settings(taken: Container[str] = ()) -> dict[str, Setting]:
    """Return the settings of plug-ins of other distributions by name, as ``length_longest``.

    This imports these plug-ins.

    Args:
        taken: names that other settings have; plug-ins cannot use them.
    """
    settings: dict[str, Setting] = {}
    kinds: tuple[Kind, ...] = ("chat", "encoder", "ranker")
    for kind in kinds:
        for plugin_name in registry.names(kind, foreign=True):
            try:
                plugin = registry.find(kind, plugin_name)
            except registry.PluginError:
                continue  # reported when it is used
            own: Any = plugin.settings
            for name, hint in hints(own).items() if own else ():
                field = own.__pydantic_fields__[name]
                default = MISSING if field.is_required() else field.get_default()
                about = " ".join((field.description or "").split())
                full = f"{plugin.name}_{name}".replace("-", "_")
                option = Option("Plug-ins", plugin=(plugin.name, name))
                if full not in taken:
                    about = about or f"Setting of {plugin.title}."
                    settings[full] = Setting(full, hint, default, about, option)
    return settings


def make(kind: type[SettingsClass], values: Mapping[str, Any] | None) -> SettingsClass:
    """Return settings with these values; other fields have their defaults.

    Raises:
        UserError: a value is invalid, or a required one is missing.
    """
    names: Any = kind.__pydantic_fields__  # type: ignore[attr-defined]
    try:
        return kind(**{name: value for name, value in (values or {}).items() if name in names})
    except ValidationError as error:  # from a pydantic model; settings raise their own message
        name = str(error.errors()[0]["loc"][0])
        raise UserError(f"{name} {complaint(error)}", name) from None


CHAT_MODELS: Panel = "Chat models and costs"

LlmUrl = Annotated[
    str | None,
    Field(description="Address of an OpenAI-compatible server, for openai: models."),
    Option(CHAT_MODELS),
]
PromptFolder = Annotated[
    str | Path | None,
    Field(
        description="Folder of prompt templates that replace the built-in ones of the same name."
    ),
    Option("Senses and meanings"),
]
Dictionaries = Annotated[
    tuple[str, ...],
    Field(
        description="Dictionary to use with the chat model: wordnet, kaikki:FILE, "
        "glossary:FILE, or none. Repeat for several."
    ),
    Option("Senses and meanings", "dictionary"),
]
DecidedBy = Annotated[
    SenseMethod,
    Field(
        description="How the sense is decided: by votes of the chat model, by the detector (auto: "
        "for the embedded model; others vote, or state it when they rank), or as given in the "
        "file."
    ),
    Option("Senses and meanings", daily=True),
]
EncoderDevice = Annotated[
    Device,
    Field(description="Device for torch (auto: a GPU if there is one)."),
    Option("Models"),
]
ReadingOfLongTexts = Annotated[
    LongTexts,
    Field(
        description="How texts are read that are longer than the encoder's limit: in parts, of "
        "whose vectors the mean counts, or cut at their end, as in the papers."
    ),
    Option("Models"),
]
RemoteCode = Annotated[
    bool,
    Field(
        description="Run custom code from an sbert: model, with your user's permissions. Some "
        "models need it; read it first."
    ),
    Option("Models"),
]
SampleSeed = Annotated[
    Seed, Field(description="Seed for sampled replies."), Option("All settings at once")
]
