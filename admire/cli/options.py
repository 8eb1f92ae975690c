"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from admire.base.choices import (
    Device,
    Gate,
    Meanings,
    ProfileName,
    Ranker,
    SenseMethod,
    Track,
    not_among,
)
from admire.base.errors import UserError, check_extra

if TYPE_CHECKING:
    from admire.base.workers import Workers


def choice(setting: str, choices: Iterable[str], help: str) -> Any:
    """An option that takes one of several words, and refuses others as the library does."""
    words = tuple(choices)

    def parse(word: str) -> str:
        if word not in words:
            raise UserError(f"{setting} {not_among(word, words)}", setting)
        return word

    return typer.Option(
        help=help, metavar="|".join(words), parser=parse, autocompletion=lambda: list(words)
    )


Data = Annotated[Path, typer.Argument(help="AdMIRe TSV, manifest (.csv, .jsonl), or its folder.")]
Profile = Annotated[
    ProfileName,
    choice("profile", get_args(ProfileName), "The stack that the other options change."),
]
Rankers = Annotated[
    list[str] | None,
    choice(
        "rankers",
        get_args(Ranker),
        "What orders the candidates: vectors, or the chat models by looking at all of them, at "
        "one, or at two. Repeat to fuse several.",
    ),
]
Shuffles = Annotated[
    int | None, typer.Option(help="In how many orders listwise shows the candidates.")
]
ImageSide = Annotated[
    int | None,
    typer.Option(help="Longest side of an image that a chat model is shown, in pixels."),
]
MeaningsWanted = Annotated[
    Meanings | None,
    choice(
        "meanings",
        get_args(Meanings),
        "What each chat model says: one gloss of the idiom (the paper's), or definitions and a "
        "scene of both senses.",
    ),
]
TrackWanted = Annotated[
    Track | None,
    choice(
        "track",
        get_args(Track),
        "What of the candidates counts; else all that is there and can be read.",
    ),
]
GateWanted = Annotated[
    Gate | None,
    choice(
        "gate",
        get_args(Gate),
        "Weigh the senses by their probability (soft), or follow the likelier one.",
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Only count what chat models would be asked, and estimate the price."
    ),
]
Budget = Annotated[
    float | None, typer.Option(help="US dollars that this command may spend on chat models.")
]
Llm = Annotated[
    list[str] | None,
    typer.Option(
        help="Chat model: embedded, gguf:PATH or openai:MODEL; or what was said before, "
        "recorded:FILE or run:FOLDER. Repeat for an ensemble."
    ),
]
LlmUrl = Annotated[
    str | None, typer.Option(help="Address of an OpenAI-compatible server, for openai: models.")
]
Lang = Annotated[
    str | None, typer.Option(help="Language tag (en, pt, xe, pt-br); else the file's name tells.")
]
SENSE_OPTION = choice(
    "sense",
    get_args(SenseMethod),
    "How the sense is decided: by the chat model's votes, by the detector (auto: for the "
    "embedded model; others vote, or say it with their orders), or as given in the file.",
)
VOTES_OPTION = typer.Option(help="Votes asked of each chat model (the paper's T, 5).")
Seed = Annotated[int, typer.Option(help="Seed of sampled replies and of resampling.")]
PromptFolder = Annotated[
    Path | None, typer.Option(help="Folder of templates that replace the built-in ones.")
]
DetectorFile = Annotated[
    Path | None,
    typer.Option(
        help="Detector: a file of admire train detector or a folder of admire train classifier; "
        "else the built-in one."
    ),
]
TrainingData = Annotated[Path, typer.Argument(help="As for rank, with types and gold orders.")]
EncoderOption = Annotated[str, typer.Option(help="Encoder, as for rank.")]
EncoderDevice = Annotated[Device, choice("device", get_args(Device), "Where the encoder runs.")]
ChatLlm = Annotated[str, typer.Option(help="Chat model for senses and glosses, as for rank.")]
QueryLanguage = Annotated[str, typer.Option(help="Language of queries, for the prompts.")]
GlossLlm = Annotated[str, typer.Option(help="Chat model that writes the glosses.")]
TrainingTrack = Annotated[
    Track, choice("track", get_args(Track), "What of the candidates to learn from.")
]
AugmentedImages = Annotated[
    Path | None, typer.Option(help="Folder that admire augment images wrote.")
]
RewrittenCaptions = Annotated[
    Path | None, typer.Option(help="File that admire augment captions wrote.")
]
Residual = Annotated[
    bool, typer.Option("--residual", help="Add the head's output to its input (not the paper's).")
]
GlossesOnly = Annotated[
    bool,
    typer.Option(
        "--glosses-only",
        help="Learn from glosses and compare only them in the head's space (not the paper's).",
    ),
]
Epochs = Annotated[int, typer.Option(help="Epochs at most.")]
TrainingPrecision = Annotated[
    Literal["float32", "bfloat16"],
    choice(
        "precision",
        ("float32", "bfloat16"),
        "Of training; bfloat16 is faster where the processor or GPU has it.",
    ),
]
WorkerCount = Annotated[
    int | None,
    typer.Option("--workers", help="Processes that share the work, by Ray; else this one alone."),
]
RayAddress = Annotated[
    str | None,
    typer.Option(help="Ray cluster where they are, HOST:PORT or auto; else on this machine."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


FLAGS = {"llms": "--llm", "rankers": "--ranker"}
"""Options that are not called as the settings that they set."""


def flags(error: UserError) -> str:
    """The options that set what an error speaks of, in brackets."""
    named = [FLAGS.get(name, "--" + name.replace("_", "-")) for name in error.settings]
    return f" ({', '.join(named)})" if named else ""


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


def given(options: dict[str, Any]) -> dict[str, Any]:
    """The options that were given, so that the others stay as the profile has them."""
    return {name: value for name, value in options.items() if value is not None}
