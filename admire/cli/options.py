"""Options that several commands have."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args

import typer

from admire.base.choices import (
    BoardTrack,
    Device,
    Gate,
    Meanings,
    ProfileName,
    PublishedSet,
    Ranker,
    SenseMethod,
    Track,
    not_among,
)
from admire.base.errors import UserError, check_extra

if TYPE_CHECKING:
    from admire.base.workers import Workers


T = TypeVar("T")


def argument(help: str) -> Any:
    """An argument, with its help."""
    return typer.Argument(help=help)


def option(help: str, *names: str, **more: Any) -> Any:
    """An option, with its help; without names it is called as its parameter."""
    return typer.Option(*names, help=help, **more)


def choice(setting: str, words: Any, help: str, **more: Any) -> Any:
    """An option that takes one word of a Literal, and refuses others as the library does."""
    allowed = get_args(words)

    def parse(word: str) -> str:
        if word not in allowed:
            raise UserError(f"{setting} {not_among(word, allowed)}", setting)
        return word

    return option(
        help, metavar="|".join(allowed), parser=parse, autocompletion=lambda: list(allowed), **more
    )


def commas(help: str) -> Any:
    """An option that takes several words with commas."""
    return option(help, metavar="<str>", parser=lambda words: tuple(words.split(",")))


def known_chats() -> list[str]:
    """Chat models that a shell completes."""
    return [name for name, chat in _known() if chat]


def known_encoders() -> list[str]:
    """Encoders that a shell completes."""
    return [name for name, chat in _known() if not chat]


def _known() -> list[tuple[str, bool]]:
    """The names of ``admire models``, a family's without its placeholder, and what are chats."""
    from admire.models.catalogue import MODELS

    return [
        (re.sub(r":[A-Z/]+$", ":", one.name), one.what.startswith("chat model")) for one in MODELS
    ]


Data = Annotated[
    Path, argument("AdMIRe TSV, manifest (.csv, .json, .jsonl), a folder, or a .txt of V-WSD.")
]
ImageFolder = Annotated[
    Path | None, option("Folder of V-WSD's images, if it is not the data file's.", "--images")
]
GoldFile = Annotated[
    Path | None,
    option("Gold of V-WSD, if it is not called x.gold.txt beside x.data.txt.", "--gold"),
]
Profile = Annotated[
    ProfileName | None,
    choice(
        "profile", ProfileName, "The stack that the other options change.", show_default="embedded"
    ),
]
ConfigFile = Annotated[
    Path | None,
    option(
        "TOML file of settings, as admire config prints them; other options win over it.",
        "--config",
    ),
]
LikeRun = Annotated[
    Path | None,
    option("Run folder whose settings count in place of a profile's; other options win over them."),
]
Rankers = Annotated[
    list[str] | None,
    choice(
        "rankers",
        Ranker,
        "What orders the candidates: vectors, or the chat models by looking at all of them, at "
        "one, or at two. Repeat to fuse several.",
    ),
]
Shuffles = Annotated[int | None, option("In how many orders listwise shows the candidates.")]
ImageSide = Annotated[
    int | None, option("Longest side of an image that a chat model is shown, in pixels.")
]
MeaningsWanted = Annotated[
    Meanings | None,
    choice(
        "meanings",
        Meanings,
        "What each chat model says: one gloss of the idiom (the paper's), or definitions and a "
        "scene of both senses.",
    ),
]
TrackWanted = Annotated[
    Track | None,
    choice(
        "track", Track, "What of the candidates counts; else all that is there and can be read."
    ),
]
GateWanted = Annotated[
    Gate | None,
    choice(
        "gate", Gate, "Weigh the senses by their probability (soft), or follow the likelier one."
    ),
]
Published = Annotated[
    PublishedSet | None,
    choice(
        "published",
        PublishedSet,
        "The set that the gold is of: also compare with the figures published on it.",
    ),
]
PublishedTrack = Annotated[
    BoardTrack | None,
    choice("track", BoardTrack, "The board's track, if it is not to be taken from the run."),
]
DryRun = Annotated[
    bool, option("Only count what chat models would be asked, and estimate the price.", "--dry-run")
]
Budget = Annotated[float | None, option("US dollars that this command may spend on chat models.")]
Llm = Annotated[
    list[str] | None,
    option(
        "Chat model: embedded, gguf:PATH or openai:MODEL; or what was said before, "
        "recorded:FILE or run:FOLDER. Repeat for an ensemble.",
        autocompletion=known_chats,
    ),
]
LlmUrl = Annotated[
    str | None, option("Address of an OpenAI-compatible server, for openai: models.")
]
Lang = Annotated[
    str | None, option("Language tag (en, pt, xe, pt-br); else the file's name tells.")
]
SENSE_OPTION = choice(
    "sense",
    SenseMethod,
    "How the sense is decided: by the chat model's votes, by the detector (auto: for the "
    "embedded model; others vote, or say it with their orders), or as given in the file.",
)
RunFolder = Annotated[Path, option("Run folder to write.")]
ModelFolder = Annotated[Path, option("Folder of the model to write, for sbert:FOLDER.")]
StartEncoder = Annotated[str, option("The model to begin with: sbert:…")]
AdamRate = Annotated[float, option("Of AdamW, at its highest.")]
VOTES_OPTION = option("Votes asked of each chat model (the paper's T, 5).")
Seed = Annotated[int, option("Seed of sampled replies and of resampling.")]
RunSeed = Annotated[int | None, option("Seed of sampled replies.", show_default="0")]
Dictionaries = Annotated[
    list[str] | None,
    option(
        "Dictionary beside the chat model: wordnet, wn:LEXICON, kaikki:FILE, glossary:FILE, or "
        "none. Repeat for several."
    ),
]
PromptFolder = Annotated[Path | None, option("Folder of templates that replace the built-in ones.")]
DetectorFile = Annotated[
    Path | None,
    option(
        "Detector: a file of admire train detector or a folder of admire train classifier; "
        "else the built-in one."
    ),
]
TrainingData = Annotated[Path, argument("As for rank, with types and gold orders.")]
EncoderOption = Annotated[str, option("Encoder, as for rank.", autocompletion=known_encoders)]
EncoderDevice = Annotated[Device, choice("device", Device, "Where the encoder runs.")]
ChatLlm = Annotated[
    str, option("Chat model for senses and glosses, as for rank.", autocompletion=known_chats)
]
QueryLanguage = Annotated[str, option("Language of queries, for the prompts.")]
GlossLlm = Annotated[str, option("Chat model that writes the glosses.", autocompletion=known_chats)]
TrainingTrack = Annotated[Track, choice("track", Track, "What of the candidates to learn from.")]
AugmentedImages = Annotated[Path | None, option("Folder that admire augment images wrote.")]
RewrittenCaptions = Annotated[Path | None, option("File that admire augment captions wrote.")]
Residual = Annotated[
    bool, option("Add the head's output to its input (not the paper's).", "--residual")
]
GlossesOnly = Annotated[
    bool,
    option(
        "Learn from glosses and compare only them in the head's space (not the paper's).",
        "--glosses-only",
    ),
]
Epochs = Annotated[int, option("Epochs at most.")]
TrainingFormat = Literal["float32", "bfloat16"]
TrainingPrecision = Annotated[
    TrainingFormat,
    choice(
        "precision",
        TrainingFormat,
        "Of training; bfloat16 is faster where the processor or GPU has it.",
    ),
]
WorkerCount = Annotated[
    int | None, option("Processes that share the work, by Ray; else this one alone.", "--workers")
]
RayAddress = Annotated[
    str | None, option("Ray cluster where they are, HOST:PORT or auto; else on this machine.")
]
Json = Annotated[bool, option("Print JSON for programs.", "--json")]


FIELDS = {"llm": "llms", "ranker": "rankers", "dictionary": "dictionaries"}
"""Settings that are not called as the options that set them."""

FLAGS = {field: f"--{option}" for option, field in FIELDS.items()}


def flags(error: UserError) -> str:
    """The options that set what an error speaks of, in brackets."""
    named = [FLAGS.get(name, "--" + name.replace("_", "-")) for name in error.settings]
    return f" ({', '.join(named)})" if named else ""


def looked_up(names: Sequence[str] | None) -> tuple[str, ...]:
    """The dictionaries that were asked for, or the one that is looked into otherwise."""
    return tuple(names or ("wordnet",))


def crew(count: int | None, address: str | None, device: str | None) -> Workers | None:
    """The workers that were asked for; None where there are none.

    Raises:
        UserError: there is an address without a number of workers, Ray is not installed, or no
            cluster answers at the address.
    """
    if count is None:
        if address:
            raise UserError("Say how many workers the cluster gets.", "workers")
        return None
    check_extra("ray", "Work by several workers", "ray")
    from admire.base.workers import Workers, check_address

    if address:
        check_address(address)
    return Workers(count, address, gpus=device != "cpu")


def call_with(function: Callable[..., T], options: Mapping[str, Any], **others: Any) -> T:
    """Call a function, or make settings, with the options that are called like its parameters.

    Args:
        options: ``locals()`` of a command: all of its options.
        others: further arguments, or what counts instead of an option.
    """
    names = inspect.signature(function).parameters
    return function(**({n: value for n, value in options.items() if n in names} | others))


def given(options: Mapping[str, Any], kind: type) -> dict[str, Any]:
    """The options that were given and set fields of a settings class, as its fields."""
    names = {field.name for field in fields(kind)}
    named = {FIELDS.get(name, name): value for name, value in options.items()}
    return {n: _frozen(v) for n, v in named.items() if n in names and v is not None and v != []}


def _frozen(value: Any) -> Any:
    """An option as settings and run.json have it."""
    if isinstance(value, list):
        return tuple(value)
    return str(value) if isinstance(value, Path) else value
