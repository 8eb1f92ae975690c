"""Command-line options of settings, and the settings that several classes share."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import MISSING
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_args

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from admire.core import registry
from admire.core.choices import Device, LongTexts, SenseMethod
from admire.core.registry import Kind
from admire.core.schema import Seed, invalid_setting

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

    Its name, hint and default are the field's (:meth:`of`), MISSING if it is required.
    """

    panel: Panel  #: the heading above it
    flag: str | None = None  #: without dashes in a mark, if it is not the field's name
    daily: bool = False  #: whether ``--help`` shows it, and not only ``--help-all``
    completes: Kind | None = None  #: the kind of plug-ins whose names a shell completes
    in_file: bool = True  #: whether a file for ``--config`` can contain it
    plugin: tuple[str, str] | None = None  #: the plug-in that it belongs to, and its name there
    name: str = ""
    hint: Any = None
    default: Any = MISSING
    help: str = ""  #: the text below the field, unless the mark says it

    def of(self, name: str, field: FieldInfo) -> Option:
        """Return the option of a field."""
        return self._replace(
            flag="--" + (self.flag or name).replace("_", "-"),
            name=name,
            hint=Annotated[(field.annotation, self, *field.metadata)],
            default=MISSING if field.is_required() else field.get_default(),
            help=self.help or " ".join((field.description or "").split()),
        )


def take_settings(*sources: Any, unset: Container[str] = ()) -> dict[str, Option]:
    """Return the options of settings classes by field, in the order of their panels.

    Args:
        sources: settings classes or, for other defaults, settings; or tuples of one of these and
            the names of the fields to use. Of several fields with one name the first counts.
        unset: fields whose default depends on other fields.
    """
    by_name: dict[str, Option] = {}
    for source in sources:
        owner, *names = source if isinstance(source, tuple) else (source,)
        for name, field in owner.__pydantic_fields__.items():
            for mark in field.metadata:
                if isinstance(mark, Option) and (not names or name in names):
                    option = mark.of(name, field)
                    default = None if name in unset else getattr(owner, name, option.default)
                    by_name.setdefault(name, option._replace(default=default))
    panels = get_args(Panel)
    return dict(sorted(by_name.items(), key=lambda pair: panels.index(pair[1].panel)))


def plugin_settings(reserved: Container[str] = ()) -> dict[str, Option]:
    """Return the settings of plug-ins of other distributions by name, as ``length_longest``.

    This imports these plug-ins. They cannot use the reserved names, which other settings have.
    """
    options: dict[str, Option] = {}
    kinds: tuple[Kind, ...] = ("chat", "encoder", "ranker")
    for kind in kinds:
        for plugin_name in registry.names(kind, foreign=True):
            try:
                plugin = registry.find(kind, plugin_name)
            except registry.PluginError:
                continue  # reported when it is used
            fields = getattr(plugin.settings, "__pydantic_fields__", {})
            for name, field in fields.items():
                full = f"{plugin.name}_{name}".replace("-", "_")
                if full not in reserved:
                    option = Option("Plug-ins", plugin=(plugin.name, name)).of(full, field)
                    about = option.help or f"Setting of {plugin.title}."
                    options[full] = option._replace(help=about)
    return options


def make(kind: type[SettingsClass], values: Mapping[str, Any] | None) -> SettingsClass:
    """Return settings with these values; other fields have their defaults.

    Raises:
        UserError: a value is invalid, or a required one is missing.
    """
    names: Any = kind.__pydantic_fields__  # type: ignore[attr-defined]
    try:
        return kind(**{name: value for name, value in (values or {}).items() if name in names})
    except ValidationError as error:  # from a pydantic model; settings raise their own message
        raise invalid_setting(error) from None


CHAT_MODELS: Panel = "Chat models and costs"

LlmUrl = Annotated[
    str | None,
    Option(CHAT_MODELS, help="Address of an OpenAI-compatible server, for openai: models."),
]
PromptFolder = Annotated[
    str | Path | None,
    Option(
        "Senses and meanings",
        help="Folder of prompt templates that replace the built-in ones of the same name.",
    ),
]
Dictionaries = Annotated[
    tuple[str, ...],
    Option(
        "Senses and meanings",
        "dictionary",
        help="Dictionary to use with the chat model: wordnet, kaikki:FILE, "
        "glossary:FILE, or none. Repeat for several.",
    ),
]
DecidedBy = Annotated[
    SenseMethod,
    Option(
        "Senses and meanings",
        daily=True,
        help="How the sense is decided: by votes of the chat model, by the detector (auto: "
        "for the embedded model; others vote, or state it when they rank), or as given in the "
        "file.",
    ),
]
EncoderDevice = Annotated[
    Device,
    Option("Models", help="Device for torch (auto: a GPU if there is one)."),
]
ReadingOfLongTexts = Annotated[
    LongTexts,
    Option(
        "Models",
        help="How texts are read that are longer than the encoder's limit: in parts, of "
        "whose vectors the mean counts, or cut at their end, as in the papers.",
    ),
]
RemoteCode = Annotated[
    bool,
    Option(
        "Models",
        help="Run custom code from an sbert: model, with your user's permissions. Some "
        "models need it; read it first.",
    ),
]
SampleSeed = Annotated[Seed, Option("All settings at once", help="Seed for sampled replies.")]
