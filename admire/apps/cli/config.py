"""Settings in TOML files: those of runs and of trainings."""

from __future__ import annotations

import json
import textwrap
from dataclasses import MISSING
from typing import Any, get_args

from cyclopts.annotations import get_choices_from_hint

from admire.apps.cli import options as opt
from admire.core.choices import not_among
from admire.core.errors import UserError
from admire.tasks.rank import run_settings
from admire.tasks.task import read_options


def with_file(command: str, options: opt.Options) -> dict[str, Any]:
    """Return the settings in a file, overridden by the options."""
    options = dict(options or {})
    if file := options.get("config"):
        return read_options(file, command, opt.SETTINGS[command], options) | options
    return options


WITH_FILE = (
    *("rank", "sweep", "train head", "train detector", "train classifier", "train sentences"),
    "train retriever",
)


@opt.with_settings("config", opt.SettingsSource)
def config(*command: str, options: opt.Options = None) -> None:
    """Print the settings of a command as TOML for --config.

    For rank: those of a profile, a run or a file. For a training: its defaults, or a file's.

    Args:
        command: The command: rank, sweep, train head, … (default: rank).

    Examples:
        admire config --profile best > run.toml
        admire config train head > head.toml
    """
    from admire.apps.cli.app import load

    name = " ".join(command or ["rank"])
    if name not in WITH_FILE:
        raise UserError(f"The command {not_among(name, WITH_FILE)}")
    load(name.split())
    if name == "rank":
        settings = run_settings(options)
        values = vars(settings) | vars(settings.scoring)
        for option in opt.SETTINGS["rank"].values():
            if option.plugin:
                plugin, field = option.plugin
                values[option.name] = settings.plugins.get(plugin, {}).get(field, option.default)
    elif options and options.keys() & {"profile", "like"}:
        raise UserError("Only rank accepts a profile or a run.", "profile", "like")
    else:
        values = with_file(name, options)
    entries = []
    for option in opt.SETTINGS[name].values():
        if option.in_file:
            value, comment = values.get(option.name, option.default), option.help
            if choices := get_choices_from_hint(get_args(option.hint)[0], str):
                comment += f" One of: {', '.join(choices)}."
            if value != option.default:
                comment += f" Default: {_toml(option.default)}."
            comment = textwrap.fill(comment, 88, initial_indent="# ", subsequent_indent="# ")
            entry = f"{option.name} = {_toml(value)}"
            if value is None or value is MISSING:
                entry = f"# {option.name} ="
            entries.append(f"{comment}\n{entry}")
    print(*entries, sep="\n\n")


def _toml(value: Any) -> str:
    """Return a flat value as TOML, which writes strings, numbers and lists of them like JSON."""
    if value is None or value is MISSING:
        return "not set"
    return json.dumps(value, ensure_ascii=False, default=str).replace("\x7f", "\\u007f")
