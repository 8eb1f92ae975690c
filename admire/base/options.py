"""Command-line options of settings, and the settings that several classes share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from admire.base.choices import Device, SenseMethod
from admire.base.registry import Kind
from admire.base.schema import Seed

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
"""Headings of ``--help-all``, in their order."""


@dataclass(frozen=True)
class Option:
    """Marks a field of a settings class as an option of the command line.

    Attributes:
        panel: the heading that it stands below.
        name: the option's name, if it is not the field's.
        daily: whether ``--help`` shows it as well as ``--help-all``.
        completes: what a shell completes.
        in_file: whether a file for ``--config`` can set it.
        plugin: the plug-in that it belongs to, and its name there.
    """

    panel: Panel
    name: str | None = None
    daily: bool = False
    completes: Kind | None = None
    in_file: bool = True
    plugin: tuple[str, str] | None = None


CHAT_MODELS: Panel = "Chat models and costs"

LlmUrl = Annotated[
    str | None,
    Field(description="Address of an OpenAI-compatible server, for openai: models."),
    Option(CHAT_MODELS),
]
PromptFolder = Annotated[
    str | Path | None,
    Field(description="Folder of templates that replace the built-in ones of the same name."),
    Option("Senses and meanings"),
]
Dictionaries = Annotated[
    tuple[str, ...],
    Field(
        description="Dictionary beside the chat model: wordnet, kaikki:FILE, "
        "glossary:FILE, or none. Repeat for several."
    ),
    Option("Senses and meanings", "dictionary"),
]
DecidedBy = Annotated[
    SenseMethod,
    Field(
        description="How the sense is decided: by the chat model's votes, by the detector (auto: "
        "for the embedded model; others vote, or say it with their orders), or as given in the "
        "file."
    ),
    Option("Senses and meanings", daily=True),
]
EncoderDevice = Annotated[
    Device,
    Field(description="Where torch runs (auto: a GPU where there is one)."),
    Option("Models"),
]
RemoteCode = Annotated[
    bool,
    Field(
        description="Run the code that an sbert: model brings, with all your rights. Some models "
        "need it; read it first."
    ),
    Option("Models"),
]
SampleSeed = Annotated[
    Seed, Field(description="Seed of sampled replies."), Option("All settings at once")
]
