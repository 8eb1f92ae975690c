"""Settings in TOML files: what a run is made with, and the options of trainings."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from dataclasses import MISSING, fields, replace
from pathlib import Path
from types import GenericAlias
from typing import Any

from admire.base.choices import ProfileName, nearest, not_among
from admire.base.errors import UserError
from admire.base.schema import read_as
from admire.cli import options as opt
from admire.rankers.settings import PROFILES, Scoring, Settings


def run_settings(options: opt.Options = None) -> Settings:
    """Return the settings of a profile or a run, changed by a file, changed by options.

    Raises:
        UserError: a setting cannot have its value, the file or the run cannot be read, a profile
            and a run are both named, or the file or the run names a server that is not trusted.
    """
    from admire.models.llm.address import check_named_in_file
    from admire.runs.past_runs import read_settings

    options = options or {}
    config, like = options.get("config"), options.get("like")
    from_file = read_options(config, "rank", options)
    profile = options.get("profile") or from_file.pop("profile", None)
    if like and profile:
        raise UserError("Begin with a profile or with a run, not with both.", "profile", "like")
    settings = read_settings(like) if like else PROFILES[profile or "embedded"]
    if like and "llm_url" not in {**from_file, **options}:
        check_named_in_file(settings.llm_url, like)
    try:
        settings = _changed(settings, from_file)
    except UserError as error:
        raise UserError(f"{config}: {error}") from None
    return _changed(settings, options)


def _changed(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    """Return settings with other values of some fields of Settings and Scoring."""
    if "encoder" in changes:  # else a profile's would go on reading the captions
        changes = {"caption_encoder": None, **changes}
    scoring, own = (
        {field.name: changes[field.name] for field in fields(kind) if field.name in changes}
        for kind in (Scoring, Settings)
    )
    plugins = {name: dict(values) for name, values in settings.plugins.items()}
    for name, setting in opt.SETTINGS["rank"].items():
        if setting.option.plugin and name in changes:
            plugin, field = setting.option.plugin
            plugins.setdefault(plugin, {})[field] = changes[name]
    scored = replace(settings.scoring, **scoring)
    return replace(settings, scoring=scored, **{"plugins": plugins} | own)


def read_options(
    file: Path | None, command: str, options: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the settings of a command in a TOML file, by field; none if there is no file.

    The file may come from a stranger. It cannot choose who gets the key or whose code runs, unless
    the options of the command line say the same.

    Raises:
        UserError: the file cannot be read or is not TOML, a setting or its value is wrong, or
            only an option can set it.
    """
    from admire.base.files import read_toml
    from admire.models.llm.address import check_named_in_file

    if not file:
        return {}
    options, values = options or {}, check_entries(read_toml(file), command, file)
    if "llm_url" not in options:
        check_named_in_file(values.get("llm_url"), file)
    if values.get("trust_remote_code") and not options.get("trust_remote_code"):
        raise UserError(
            f"{file}: trust_remote_code lets a model's code run. Read the code; then allow it on "
            "the command line.",
            "trust_remote_code",
        )
    return values


def check_entries(entries: Mapping[str, Any], command: str, where: object) -> dict[str, Any]:
    """Return settings of a command, by name, with the types that they have.

    Args:
        entries: as in TOML.
        where: the file, and what in it, for messages.

    Raises:
        UserError: a setting or its value is wrong.
    """
    opt.add_plugin_settings()
    hints = {setting.name: setting.hint for setting in _file_settings(command)}
    if command == "rank":
        hints |= {"profile": ProfileName, "lang": str | None}
    values: dict[str, Any] = {}
    for name, value in entries.items():
        if name not in hints:
            lists = f" admire config {command} lists all." if command in WITH_FILE else ""
            raise UserError(f"{where}: '{name}' is no setting.{nearest(name, [*hints])}{lists}")
        entry = json.dumps({name: value}, default=str)  # JSON, for paths and tuples
        kind: Any = GenericAlias(dict, (str, hints[name]))
        values |= read_as(kind, entry, where)
    return values


def with_file(command: str, options: opt.Options) -> dict[str, Any]:
    """Return the settings in a file and the options, which count more."""
    options = options or {}
    return read_options(options.get("config"), command, options) | dict(options)


def _file_settings(command: str) -> list[opt.Setting]:
    """Return the settings of a command that can stand in a file."""
    return [setting for setting in opt.SETTINGS[command].values() if setting.option.in_file]


WITH_FILE = (
    *("rank", "sweep", "train head", "train detector", "train classifier", "train sentences"),
    "train retriever",
)


@opt.with_settings("config", opt.SettingsSource)
def config(*command: str, options: opt.Options = None) -> None:
    """Print the settings of a command, rank's if none is named, as the TOML that --config takes.

    For rank: those of a profile, a run or a file. For a training: its defaults, or a file's.

    Args:
        command: The command: rank, sweep, train head, …

    Examples:
        admire config --profile best > run.toml
        admire config train head > head.toml
    """
    name = " ".join(command or ["rank"])
    if name not in WITH_FILE:
        raise UserError(f"The command {not_among(name, WITH_FILE)}")
    if name == "rank":
        opt.add_plugin_settings()
        settings = run_settings(options)
        values = vars(settings) | vars(settings.scoring)
        for setting in opt.SETTINGS["rank"].values():
            if setting.option.plugin:
                plugin, field = setting.option.plugin
                values[setting.name] = settings.plugins.get(plugin, {}).get(field, setting.default)
    elif options and options.keys() & {"profile", "like"}:
        raise UserError("Only rank begins with a profile or a run.", "profile", "like")
    else:
        values = with_file(name, options)
    entries = (_entry(s, values.get(s.name, s.default)) for s in _file_settings(name))
    print(*entries, sep="\n\n")


def _entry(setting: opt.Setting, value: Any) -> str:
    """Return a setting's lines; a setting without a value stands there as a comment."""
    description = setting.help
    if setting.choices:
        description += f" One of: {', '.join(setting.choices)}."
    if value != setting.default:
        description += f" Default: {_toml(setting.default)}."
    comment = textwrap.fill(description, 88, initial_indent="# ", subsequent_indent="# ")
    unset = value is None or value is MISSING
    return f"{comment}\n" + (f"# {setting.name} =" if unset else f"{setting.name} = {_toml(value)}")


def _toml(value: Any) -> str:
    """Return a flat value as TOML, which writes texts, numbers and lists of them as JSON does."""
    if value is None or value is MISSING:
        return "not set"
    return json.dumps(value, ensure_ascii=False, default=str).replace("\x7f", "\\u007f")
