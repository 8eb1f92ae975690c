"""The options that commands share, and those made from the fields of settings classes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, TypedDict, TypeVar, get_args

from cyclopts import Parameter

from admire.apps.cli.app import DAILY, OWN, Heading, show_default
from admire.core import registry, schema
from admire.core.choices import Fusion
from admire.core.errors import UserError
from admire.core.options import Panel, Setting, plugin_settings, take_settings
from admire.core.options import make as make
from admire.rankers.settings import Settings
from admire.tasks.task import CONFIG_FILE as CONFIG_FILE
from admire.tasks.task import SettingsSource as SettingsSource

Command = TypeVar("Command", bound=Callable[..., None])
Options = Mapping[str, Any] | None
"""The values that a user gave for fields of settings classes."""

HEADINGS = {panel: Heading(panel, sort_key=k) for k, panel in enumerate(get_args(Panel), start=1)}
DATA: Panel = "Data and output"
RARE = Parameter(group=HEADINGS[DATA])

# ----------------------------------------------------------------------------- settings as options


SETTINGS: dict[str, dict[str, Setting]] = {}
"""The settings of each command by field, in the order of their panels."""


def with_settings(
    command_name: str, *sources: Any, unset: Container[str] = (), headings: bool = False
) -> Callable[[Command], Command]:
    """Give a command the options of settings classes; its ``options`` gets their values by field.

    Args:
        sources: settings classes or, for other defaults, settings; or tuples of one and the names
            of the fields to take. Of several fields with one name the first counts.
        unset: fields whose default depends on other fields.
        headings: whether ``--help`` shows only the common options, and ``--help-all`` all options
            below headings.
    """
    by_field = SETTINGS[command_name] = take_settings(*sources, unset=unset)

    def extend(command: Command) -> Command:
        update = partial(_set_options, command, by_field.values(), headings=headings)
        update()
        if "parallel" in by_field:  # it asks chat models
            PLUGGED[command_name] = update
        return command

    return extend


def _set_options(
    command: Callable[..., None], settings: Collection[Setting], *, headings: bool
) -> None:
    """Make settings the options of a command, below the headings of their panels or not."""
    hints: dict[str, Any] = {}
    for setting in settings:
        option, flag = setting.option, setting.flag
        panel, kind = HEADINGS[option.panel], option.completes
        daily = (DAILY, panel) if option.daily else panel
        negative = setting.hint is bool and option.in_file
        parameter = Parameter(
            flag,
            help=setting.help + (f" Installed: {', '.join(registry.names(kind))}." if kind else ""),
            group=daily if headings else OWN,
            negative=flag.replace("--", "--no-") if negative else (),
            show_default=show_default(setting.default) or False,
            completer=partial(complete_name, kind) if kind else None,
            metavar="PATH" if Path in get_args(setting.hint) else None,
        )
        hints[setting.name] = Annotated[setting.hint, parameter]
    values = TypedDict("values", hints, total=False)  # type: ignore[misc]
    command.__annotations__["options"] = Annotated[values | None, Parameter("*")]


PLUGGED: dict[str, Callable[[], None]] = {}
"""The commands that take the settings of plug-ins, with what updates their options."""


@cache
def add_plugin_settings(command_name: str) -> None:
    """Give a command that asks chat models the options of the installed plug-ins.

    This imports the plug-ins of other distributions, so it is called for such a command only.
    """
    if command_name in PLUGGED and (settings := plugin_settings(SETTINGS[command_name])):
        SETTINGS[command_name].update(settings)
        PLUGGED[command_name]()


def flags(error: UserError) -> str:
    """Return the options that an error is about, in brackets."""
    known = take_settings(Settings)
    for of_command in SETTINGS.values():
        known |= of_command
    flags = [
        known[name].flag if name in known else "--" + name.replace("_", "-")
        for name in error.settings
    ]
    return f" ({', '.join(flags)})"


# ------------------------------------------------------------------------------------------ values


def complete_name(kind: registry.Kind | None, _: object) -> list[str]:
    """Return the names that a shell completes: those of plug-ins of a kind, or of all models."""
    if kind in ("ranker", "metric", "task"):
        return registry.names(kind)
    from admire.apps.catalogue import models

    return [
        model.name.removesuffix(model.placeholder)
        for model in models()
        if kind in (None, model.plugin.kind)
    ]


# --------------------------------------------------------------------------- shared by commands


Data = Annotated[
    Path,
    Parameter(
        help="AdMIRe TSV, manifest (.csv, .xlsx, .parquet, .jsonl), a folder, or a .txt of V-WSD."
    ),
]
Json = Annotated[bool, Parameter(help="Print JSON.")]
DryRun = Annotated[
    bool, Parameter(help="Only count the requests to chat models, and estimate the price.")
]
Force = Annotated[bool, Parameter(help="Overwrite the output even if admire did not create it.")]
FusionMethod = Annotated[
    Fusion,
    Parameter(help="Fusion method: standardised scores, Borda points, or reciprocal ranks."),
]
Seed = Annotated[schema.Seed, Parameter(help="Seed for resampling.")]
