"""The options that commands share, and those made from the fields of settings classes."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Container, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypedDict, TypeVar, get_args

from cyclopts import Group, Parameter

from admire.apps.cli.parameters import OWN, show_default
from admire.core import registry, schema
from admire.core.choices import Fusion
from admire.core.errors import UserError
from admire.core.options import Option, Panel, plugin_settings, take_settings
from admire.core.options import make as make
from admire.rankers.settings import Settings
from admire.tasks.task import CONFIG_FILE as CONFIG_FILE
from admire.tasks.task import SettingsSource as SettingsSource

Command = TypeVar("Command", bound=Callable[..., None])
Options = Mapping[str, Any] | None  #: the values that a user gave for fields of settings classes

PANELS = get_args(Panel)
DAILY = Group("Common options (--help-all for the rest)", sort_key=1)
SETTINGS: dict[str, dict[str, Option]] = {}
"""The settings of each command by field, in the order of their panels."""
UNDER_HEADINGS = set[str]()
"""The commands whose ``--help`` shows only the common options, and ``--help-all`` all."""


def with_settings(
    command_name: str, *sources: Any, unset: Container[str] = (), headings: bool = False
) -> Callable[[Command], Command]:
    """Give a command the options of settings classes; its ``options`` gets their values by field.

    Args:
        sources, unset: see :func:`admire.core.options.take_settings`.
        headings: whether the command is one of :data:`UNDER_HEADINGS`.
    """
    SETTINGS[command_name] = take_settings(*sources, unset=unset)
    if headings:
        UNDER_HEADINGS.add(command_name)
    return lambda command: command


def add_options(command: Callable[..., None], command_name: str, *, everything: bool) -> None:
    """Make the settings of a command its options; one that asks chat models has those of plug-ins.

    This imports the plug-ins of other distributions. With ``everything``, help shows all options.
    """
    if command_name not in SETTINGS:
        return
    options = {name: option for name, option in SETTINGS[command_name].items() if not option.plugin}
    if "parallel" in options:  # it asks chat models
        options |= plugin_settings(options)
    SETTINGS[command_name] = options
    hints: dict[str, Any] = {}
    for name, option in options.items():
        groups = [Group(option.panel, sort_key=PANELS.index(option.panel) + 1, show=everything)]
        if option.daily and not everything:
            groups.insert(0, DAILY)
        kind = option.completes
        parameter = Parameter(
            option.flag,
            help=option.help + (f" Installed: {', '.join(registry.names(kind))}." if kind else ""),
            group=groups if command_name in UNDER_HEADINGS else OWN,
            negative_bool="no-" if option.in_file else (),
            show_default=show_default(option.default) or False,
            completer=partial(complete_name, kind) if kind else None,
            metavar="PATH" if Path in get_args(get_args(option.hint)[0]) else None,
        )
        hints[name] = Annotated[option.hint, parameter]
    values = TypedDict("values", hints, total=False)  # type: ignore[misc]
    command.__annotations__["options"] = Annotated[values | None, Parameter("*")]


def flags(error: UserError) -> str:
    """Return the options that an error is about, in brackets."""
    options = ChainMap(*SETTINGS.values(), take_settings(Settings))
    flags = [
        str(options[name].flag) if name in options else "--" + name.replace("_", "-")
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
