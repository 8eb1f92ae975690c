"""Settings in TOML files: those of runs and of trainings."""

from __future__ import annotations

import json
import textwrap
from dataclasses import MISSING
from typing import Any

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
        for setting in opt.SETTINGS["rank"].values():
            if setting.option.plugin:
                plugin, field = setting.option.plugin
                values[setting.name] = settings.plugins.get(plugin, {}).get(field, setting.default)
    elif options and options.keys() & {"profile", "like"}:
        raise UserError("Only rank accepts a profile or a run.", "profile", "like")
    else:
        values = with_file(name, options)
    entries = []
    for setting in opt.SETTINGS[name].values():
        value, description = values.get(setting.name, setting.default), setting.help
        if setting.choices:
            description += f" One of: {', '.join(setting.choices)}."
        if value != setting.default:
            description += f" Default: {_toml(setting.default)}."
        comment = textwrap.fill(description, 88, initial_indent="# ", subsequent_indent="# ")
        entry = f"{setting.name} = {_toml(value)}"
        if value is None or value is MISSING:
            entry = f"# {setting.name} ="
        entries += [f"{comment}\n{entry}"] if setting.option.in_file else []
    print(*entries, sep="\n\n")


def _toml(value: Any) -> str:
    """Return a flat value as TOML, which writes strings, numbers and lists of them like JSON."""
    if value is None or value is MISSING:
        return "not set"
    return json.dumps(value, ensure_ascii=False, default=str).replace("\x7f", "\\u007f")
