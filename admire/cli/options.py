"""Options that several commands have."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args

import typer

from admire.base.choices import BoardTrack, Device, PublishedSet, SenseMethod, not_among
from admire.base.errors import UserError, check_extra

if TYPE_CHECKING:
    from admire.base.workers import Workers


T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., None])


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


def known(*, chats: bool) -> Callable[[], list[str]]:
    """What a shell completes: chat models or encoders, a family without its placeholder."""

    def names() -> list[str]:
        from admire.models.catalogue import MODELS

        of_kind = (one.name for one in MODELS if one.what.startswith("chat model") is chats)
        return [re.sub(r":[A-Z/]+$", ":", name) for name in of_kind]

    return names


CHATS, ENCODERS = known(chats=True), known(chats=False)

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
        autocompletion=CHATS,
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
EncoderDevice = Annotated[Device, choice("device", Device, "Where the encoder runs.")]
ChatLlm = Annotated[
    str, option("Chat model for senses and glosses, as for rank.", autocompletion=CHATS)
]
QueryLanguage = Annotated[str, option("Language of queries, for the prompts.")]
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


def with_options(of: Callable[..., None]) -> Callable[[Command], Command]:
    """Give a command the options of another function, too; its ``**`` parameter takes them."""

    def extended(command: Command) -> Command:
        own, more = (inspect.signature(one, eval_str=True) for one in (command, of))
        *named, _ = own.parameters.values()
        both = own.replace(parameters=[*named, *more.parameters.values()])
        setattr(command, "__signature__", both)  # noqa: B010 (mypy knows no such attribute)
        return command

    return extended


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
