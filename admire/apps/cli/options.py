"""The options that commands share, and those made from the fields of settings classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, TypedDict, TypeVar, get_args, get_origin

from cyclopts import Parameter, Token
from pydantic import ValidationError

from admire.apps.cli.app import DAILY, OWN, Heading, show_default
from admire.core import registry, schema
from admire.core.choices import Fusion
from admire.core.errors import UserError
from admire.core.options import Panel, Setting, plugin_settings, take_settings
from admire.core.options import make as make
from admire.core.schema import adapter, complaint
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
    command_name: str, *sources: Any, unset: Sequence[str] = (), headings: bool = False
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
        def update() -> None:
            hints = {
                s.name: Annotated[s.hint, _parameter(s, headings=headings)]
                for s in by_field.values()
            }
            values = TypedDict("values", hints, total=False)  # type: ignore[misc]
            command.__annotations__["options"] = Annotated[values | None, Parameter("*")]

        update()
        if "rankers" in by_field:
            PLUGGED[command_name] = update
        return command

    return extend


PLUGGED: dict[str, Callable[[], None]] = {}
"""The commands that take the settings of plug-ins, with what updates their options."""


@cache
def add_plugin_settings(command_name: str) -> None:
    """Give a command that makes runs the options of the installed plug-ins.

    This imports the plug-ins of other distributions, so it is called for such a command only.
    """
    if command_name in PLUGGED and (settings := plugin_settings(SETTINGS[command_name])):
        SETTINGS[command_name].update(settings)
        PLUGGED[command_name]()


def _parameter(setting: Setting, *, headings: bool) -> Parameter:
    """Return the parameter of a setting, below the heading of its panel or not."""
    panel, completes = HEADINGS[setting.option.panel], setting.option.completes
    daily = (DAILY, panel) if setting.option.daily else panel
    negative = setting.flag.replace("--", "--no-")
    installed = f" Installed: {', '.join(registry.names(completes))}." if completes else ""
    return Parameter(
        setting.flag,
        help=setting.help + installed,
        group=daily if headings else OWN,
        negative=negative if setting.hint is bool and setting.option.in_file else (),
        show_default=show_default(setting.default) or False,
        completer=model_names(completes) if completes else None,
        metavar="PATH" if Path in get_args(setting.hint) else None,
    )


def flags(error: UserError) -> str:
    """Return the options that an error is about, in brackets."""
    known = chain(*(row.values() for row in (take_settings(Settings), *SETTINGS.values())))
    flags = {setting.name: setting.flag for setting in known}
    wrong = [flags.get(name, "--" + name.replace("_", "-")) for name in error.settings]
    return f" ({', '.join(wrong)})"


# ------------------------------------------------------------------------------------------ values


def convert(hint: Any, tokens: Sequence[Token]) -> Any:
    """Convert the words of an option to its type; lists of choices and numbers accept commas."""
    words = [token.value for token in tokens]
    lists = [part for part in (hint, *get_args(hint)) if get_origin(part) in (list, tuple)]
    if lists and get_args(lists[0])[0] not in (str, Path):
        words = ",".join(words).split(",")
    try:
        return adapter(hint).validate_python(words if lists else words[0], strict=False)
    except ValidationError as error:
        name = (tokens[0].keyword or "").removeprefix("--").replace("-", "_")
        raise UserError(f"{name} {complaint(error)}", name) from None


def model_names(*kinds: registry.Kind) -> Callable[[object], list[str]]:
    """Return the shell completer for names of models of these kinds (default: all)."""

    def names(_: object) -> list[str]:
        if kinds and kinds[0] in ("ranker", "metric"):
            return registry.names(kinds[0])
        from admire.apps.catalogue import models

        return [
            model.name.removesuffix(model.placeholder)
            for model in models()
            if not kinds or model.plugin.kind in kinds
        ]

    return names


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
