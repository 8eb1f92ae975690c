"""Settings in TOML files: what a run is made with, and the options of trainings."""

from __future__ import annotations

import inspect
import json
import re
import textwrap
import tomllib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from typer.core import TyperOption

from admire.base.choices import (
    Device,
    Gate,
    Meanings,
    Precision,
    ProfileName,
    Ranker,
    RankQuery,
    SenseMethod,
    Track,
    nearest,
    not_among,
)
from admire.base.errors import UserError
from admire.cli import options as opt

if TYPE_CHECKING:
    from admire.rankers.settings import Settings

NO_SETTINGS = ("out", "json", "config", "help_all")
"""Options of trainings that stand in no file."""

FILE_HELP = "TOML file of settings, as admire config prints them; other options win over it."

Profile = Annotated[
    ProfileName | None,
    opt.choice(
        "profile", ProfileName, "The stack that the other options change.", show_default="embedded"
    ),
]
LikeRun = Annotated[
    Path | None,
    opt.option(
        "Run folder whose settings count in place of a profile's; other options win over them."
    ),
]
RunFile = Annotated[Path | None, opt.option(FILE_HELP, "--config")]


def _take_file(context: typer.Context, file: Path | None) -> Path | None:
    """Let the settings in a file stand in place of a command's defaults."""
    if file:
        called = context.command_path.removeprefix(context.find_root().command_path)
        context.default_map = _read_options(file, context.command, called)
    return file


TrainingFile = Annotated[
    Path | None, opt.option(FILE_HELP, "--config", callback=_take_file, is_eager=True)
]


def run_options(
    profile: Profile = None,
    config: RunFile = None,
    like: LikeRun = None,
    ranker: Annotated[
        list[str] | None,
        opt.choice(
            "rankers",
            Ranker,
            "What orders the candidates: vectors, or the chat models by looking at all of them, "
            "at one, or at two. Repeat to fuse several.",
        ),
    ] = None,
    shuffles: Annotated[
        int | None, opt.option("In how many orders listwise shows the candidates.")
    ] = None,
    image_side: Annotated[
        int | None, opt.option("Longest side of an image that a chat model is shown, in pixels.")
    ] = None,
    llm: opt.Llm = None,
    llm_url: opt.LlmUrl = None,
    encoder: Annotated[
        str | None,
        opt.option(
            "Encoder of queries and candidates: e5, sight, mclip:NAME, openclip:MODEL/TAG, "
            "dual:REPOSITORY, sbert:REPOSITORY, or a family and a folder.",
            autocompletion=opt.ENCODERS,
        ),
    ] = None,
    caption_encoder: Annotated[
        str | None,
        opt.option(
            "Encoder for captions, where it is not to be the same.", autocompletion=opt.ENCODERS
        ),
    ] = None,
    device: Annotated[
        Device | None,
        opt.choice("device", Device, "Where torch runs (auto: a GPU where there is one)."),
    ] = None,
    precision: Annotated[
        Precision | None,
        opt.choice("precision", Precision, "How finely torch computes; float16 needs a GPU."),
    ] = None,
    query: Annotated[
        RankQuery | None,
        opt.choice(
            "query",
            RankQuery,
            "What candidates are compared with; all but the meaning are baselines.",
        ),
    ] = None,
    sense: Annotated[SenseMethod | None, opt.SENSE_OPTION] = None,
    votes: Annotated[int | None, opt.VOTES_OPTION] = None,
    abstain_below: Annotated[
        float | None,
        opt.option(
            "Mark items as unsure of which the sense is less sure than this, from 0.5 to 1; "
            "they are ranked all the same."
        ),
    ] = None,
    meanings: Annotated[
        Meanings | None,
        opt.choice(
            "meanings",
            Meanings,
            "What each chat model says: definitions and a scene of the sense that is meant, or of "
            "both (else: the embedded model of what is meant, others of both), or one gloss of "
            "the idiom (the paper's).",
        ),
    ] = None,
    dictionary: opt.Dictionaries = None,
    track: Annotated[
        Track | None,
        opt.choice(
            "track", Track, "What of the candidates counts; else all that is there and can be read."
        ),
    ] = None,
    gate: Annotated[
        Gate | None,
        opt.choice(
            "gate",
            Gate,
            "Weigh the senses by their probability (soft), or follow the likelier one.",
        ),
    ] = None,
    contrast: Annotated[
        float | None,
        opt.option("Weight of the literal sense against literal pictures (0: the paper's)."),
    ] = None,
    standardise: Annotated[
        bool | None, opt.option("Bring each query's cosines to one scale before they are added.")
    ] = None,
    texts: Annotated[
        Any,
        opt.commas(
            "Which texts count, with commas: gloss, gloss2, scene, literal, literal2, "
            "literal_scene, compound (the paper's: gloss,compound)."
        ),
    ] = None,
    image_weight: Annotated[float | None, opt.option("Weight of the image term.")] = None,
    caption_weight: Annotated[float | None, opt.option("Weight of the caption term.")] = None,
    head: Annotated[
        Path | None, opt.option("Head written by admire train head, to compare in its space.")
    ] = None,
    prompts: opt.PromptFolder = None,
    detector: opt.DetectorFile = None,
    seed: Annotated[int | None, opt.option("Seed of sampled replies.", show_default="0")] = None,
) -> None:
    """The options that :func:`run_settings` takes, for :func:`admire.cli.options.with_options`."""


def run_settings(options: Mapping[str, Any]) -> Settings:
    """The settings of a profile or a run, changed by a file, changed by the options given.

    Args:
        options: those of :func:`run_options`, as far as a command has them.

    Raises:
        UserError: a setting cannot have its value, the file or the run cannot be read, or a
            profile and a run are both named.
    """
    from admire.base.schema import check_setting
    from admire.rankers.settings import PROFILES, Scoring, Settings
    from admire.runs.past_runs import read_settings

    file, like = options.get("config"), options.get("like")
    told = _read(file, ["profile", *_values(Settings())]) if file else {}
    told = {n: tuple(value) if isinstance(value, list) else value for n, value in told.items()}
    with _errors_of(file):
        in_file = told.pop("profile", None)
        check_setting("profile", in_file, ProfileName | None)
    profile = options.get("profile") or in_file
    if like and profile:
        raise UserError("Begin with a profile or with a run, not with both.", "profile", "like")
    settings = read_settings(like) if like else PROFILES[profile or "embedded"]
    with _errors_of(file):
        settings = _changed(settings, told)
    return _changed(settings, opt.given(options, Settings) | opt.given(options, Scoring))


def _changed(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    """Settings with other values of some, by the names of fields of Settings and Scoring."""
    own = {field.name for field in fields(settings)}
    changes = dict(changes)
    if "encoder" in changes:  # else a profile's would go on reading the captions
        changes.setdefault("caption_encoder", None)
    scoring = replace(settings.scoring, **{n: v for n, v in changes.items() if n not in own})
    return replace(settings, scoring=scoring, **{n: v for n, v in changes.items() if n in own})


def _values(settings: Settings) -> dict[str, Any]:
    """The settings by the keys that they have in a file."""
    values = vars(settings) | vars(settings.scoring)
    return {name: value for name, value in values.items() if name != "scoring"}


def _read(file: Path, names: Collection[str], called: str = "") -> dict[str, Any]:
    """The settings in a TOML file.

    Args:
        called: the command that lists the names, after ``admire config``.

    Raises:
        UserError: the file cannot be read, is not TOML, or has a key that is no setting.
    """
    from admire.base.files import read_text

    try:
        found = tomllib.loads(read_text(file).replace("\r\n", "\n"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{file}: is not TOML ({error}).") from None
    for name in found:
        if name not in names:
            raise UserError(
                f"{file}: '{name}' is no setting.{nearest(name, [*names])} "
                f"admire config{called} lists all."
            )
    return found


def _read_options(file: Path, command: Any, called: str) -> dict[str, Any]:
    """As :func:`_read`, of a training: the values are checked by the types of its options."""
    from admire.base.schema import read_as

    found = _read(file, _options(command), called)
    kinds = inspect.signature(command.callback, eval_str=True).parameters
    for name, value in found.items():
        (kind, *_) = get_args(kinds[name].annotation)
        read_as(kind, json.dumps(value, default=str), f"{file}, {name}")
    return found


@contextmanager
def _errors_of(file: Path | None) -> Iterator[None]:
    try:
        yield
    except UserError as error:
        raise UserError(f"{file}: {error}") from None


def config(
    context: typer.Context,
    command: Annotated[
        list[str] | None, opt.argument("Of which command: rank, sweep, train head, …")
    ] = None,
    profile: Profile = None,
    config: RunFile = None,
    like: LikeRun = None,
) -> None:
    """Print the settings of a command, rank's if none is named, as the TOML that --config takes.

    They are those of a profile, a run or a file; of a training its defaults, or a file's.
    """
    commands = dict(_with_file(context.find_root().command))
    called = " ".join(command or ["rank"])
    if called not in commands:
        raise UserError(f"The command {not_among(called, [*commands])}")
    options = _options(commands[called])
    if called == "rank":
        from admire.rankers.settings import Settings

        values, defaults = _values(run_settings(locals())), _values(Settings())
        options = {opt.FIELDS.get(name, name): one for name, one in options.items()}
    elif profile or like:
        raise UserError("Only of rank there are profiles and runs.", "profile", "like")
    else:
        defaults = {name: one.default for name, one in options.items()}
        values = defaults | (
            _read_options(config, commands[called], f" {called}") if config else {}
        )
    entries = [
        _entry(name, one, values[name], defaults[name])
        for name, one in options.items()
        if name in values
    ]
    print("\n".join(entries), end="")


def _with_file(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """The commands that take a file of their own options, by what they are called."""
    for name, one in group.commands.items():
        if hasattr(one, "commands"):
            yield from _with_file(one, f"{before}{name} ")
        elif name not in ("config", "batch") and any(p.name == "config" for p in one.params):
            yield before + name, one


def _options(command: Any) -> dict[str, TyperOption]:
    """The options of a command that can stand in a file."""
    found = (one for one in command.params if isinstance(one, TyperOption))
    return {one.name: one for one in found if one.name and one.name not in NO_SETTINGS}


def _entry(name: str, option: TyperOption, value: Any, default: Any) -> str:
    """A setting's lines; what is not set stands there as a comment."""
    # A file has lists where options are repeated.
    doc = re.sub(r"; repeat| Repeat[^.]*\.|, with commas", "", option.help or "")
    if "|" in (words := option.metavar or ""):
        doc += f" {'Any' if option.multiple else 'One'} of: {words.replace('|', ', ')}."
    if value != default:
        doc += f" Default: {'not set' if default is None else _toml(default)}."
    comment = textwrap.fill(doc, 88, initial_indent="# ", subsequent_indent="# ")
    line = f"# {name} =" if value is None else f"{name} = {_toml(value)}"
    return f"{comment}\n{line}\n"


def _toml(value: Any) -> str:
    """A flat value as TOML, which writes texts, numbers and lists of them as JSON does."""
    text = json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)
    return text.replace("\x7f", "\\u007f")
