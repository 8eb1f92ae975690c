"""The options that commands share, and those that come from the fields of settings classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import MISSING, dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, TypeVar, get_args, get_origin

from cyclopts import Group, Parameter, Token
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from admire.base import registry
from admire.base.choices import BoardTrack, Fusion, ProfileName, PublishedSet
from admire.base.errors import UserError, check_extra
from admire.base.options import Option, Panel
from admire.base.schema import adapter, complaint, descriptions, settings
from admire.rankers.settings import Settings

if TYPE_CHECKING:
    from admire.base import workers

SettingsClass = TypeVar("SettingsClass")
Command = TypeVar("Command", bound=Callable[..., None])
Options = Mapping[str, Any] | None
"""The values that a user gave for fields of settings classes."""

# ------------------------------------------------------------------------------------------- help

EVERYTHING: ContextVar[bool] = ContextVar("EVERYTHING", default=False)
"""True for ``--help-all``."""


class Heading(Group):
    """A heading that ``--help-all`` alone shows, or for the daily options ``--help`` alone."""

    @property
    def show(self) -> bool:
        """Whether it is shown now."""
        return EVERYTHING.get() != (self == DAILY)


HEADINGS = {panel: Heading(panel, sort_key=k) for k, panel in enumerate(get_args(Panel), start=1)}
OWN = Group("Options", sort_key=0)
DAILY = Heading("Settings of every day; --help-all shows all", sort_key=1)
DATA: Panel = "Data and output"
SOURCE: Panel = "All settings at once"
RARE = Parameter(group=HEADINGS[DATA])

# ----------------------------------------------------------------------------- settings as options


@dataclass(frozen=True)
class Setting:
    """A field of a settings class that is an option, too."""

    name: str
    hint: Any
    default: Any
    help: str
    option: Option

    @property
    def flag(self) -> str:
        """The option: ``--llm`` for the field ``llms``."""
        return "--" + (self.option.name or self.name).replace("_", "-")

    @property
    def choices(self) -> tuple[str, ...]:
        """The words that it may have, if these are few."""
        hints = [self.hint]
        for hint in hints:
            if get_origin(hint) is Literal:
                return get_args(hint)
            hints += [part for part in get_args(hint) if part not in (None, ...)]
        return ()

    def parameter(self, *, headings: bool) -> Parameter:
        """Return how the command line takes and shows it, below the heading of its panel or not."""
        panel, completes = HEADINGS[self.option.panel], self.option.completes
        daily = (DAILY, panel) if self.option.daily else panel
        negative = self.flag.replace("--", "--no-")
        known = f" Installed: {', '.join(registry.names(completes))}." if completes else ""
        return Parameter(
            self.flag,
            help=self.help + known,
            group=daily if headings else OWN,
            negative=negative if self.hint is bool and self.option.in_file else (),
            show_default=show_default(self.default) or False,
            completer=model_names(completes) if completes else None,
            metavar="PATH" if Path in get_args(self.hint) else None,
        )


SETTINGS: dict[str, dict[str, Setting]] = {}
"""The settings of each command by field, in the order of their panels."""


def show_default(value: object) -> str | None:
    """Return a default as help shows it; None for one that says nothing."""
    if value in (MISSING, None, ()) or value is False:
        return None
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def with_settings(
    command_name: str, *sources: Any, unset: Sequence[str] = (), headings: bool = False
) -> Callable[[Command], Command]:
    """Give a command the options of settings classes; its ``options`` gets their values by field.

    Args:
        sources: settings classes or, for other defaults, settings; or tuples of one and the names
            of the fields to take. Of several fields with one name the first counts.
        unset: fields whose default depends on other fields.
        headings: whether ``--help`` shows the daily options alone, and ``--help-all`` all, below
            headings.
    """
    by_name: dict[str, Setting] = {}
    for source in sources:
        owner, *names = source if isinstance(source, tuple) else (source,)
        for setting in read_settings(owner):
            if not names or setting.name in names:
                default = None if setting.name in unset else setting.default
                by_name.setdefault(setting.name, replace(setting, default=default))
    panels = get_args(Panel)
    ordered = sorted(by_name.values(), key=lambda setting: panels.index(setting.option.panel))
    taken = SETTINGS[command_name] = {setting.name: setting for setting in ordered}

    def extend(command: Command) -> Command:
        def update() -> None:
            hints = {
                s.name: Annotated[s.hint, s.parameter(headings=headings)] for s in taken.values()
            }
            values = TypedDict("values", hints, total=False)  # type: ignore[misc]
            command.__annotations__["options"] = Annotated[values | None, Parameter("*")]

        update()
        if Settings in sources:
            PLUGGED.append((command_name, taken, update))
        return command

    return extend


PLUGGED: list[tuple[str, dict[str, Setting], Callable[[], None]]] = []
"""The commands that take the settings of plug-ins."""


@cache
def add_plugin_settings() -> None:
    """Give the commands that make runs the options of the plug-ins that are installed.

    It imports the plug-ins of other distributions, so it is called for these commands alone.
    """
    found = plugin_settings()
    for _, by_name, update in PLUGGED if found else ():
        by_name.update({setting.name: setting for setting in found if setting.name not in by_name})
        update()


def plugin_settings() -> list[Setting]:
    """Return the settings of plug-ins of other distributions, as ``length_longest``."""
    found = []
    for kind in ("chat", "encoder", "ranker"):
        for plugin_name in registry.foreign_names(kind):
            try:
                plugin = registry.find(kind, plugin_name)
            except registry.PluginError:
                continue  # said when it is used
            fields: dict[str, FieldInfo] = getattr(plugin.settings, "__pydantic_fields__", {})
            for name, field in fields.items():
                default = MISSING if field.is_required() else field.get_default()
                rules, kind_of_value = field.metadata, field.annotation
                hint: Any = Annotated[kind_of_value, *rules] if rules else kind_of_value
                about = " ".join((field.description or "").split()) or f"Of {plugin.title}."
                full = f"{plugin.name}_{name}".replace("-", "_")
                option = Option("Plug-ins", plugin=(plugin.name, name))
                found.append(Setting(full, hint, default, about, option))
    return found


def read_settings(owner: Any) -> list[Setting]:
    """Return the fields that are options of a settings class, or of settings, with their values."""
    kind: Any = owner if isinstance(owner, type) else type(owner)
    texts = descriptions(kind)
    fields_as_options = []
    for name, field in kind.__pydantic_fields__.items():
        rules = [rule for rule in field.metadata if not isinstance(rule, Option)]
        for option in (mark for mark in field.metadata if isinstance(mark, Option)):
            hint = Annotated[field.annotation, *rules] if rules else field.annotation
            default = MISSING if field.is_required() else getattr(owner, name)
            fields_as_options.append(Setting(name, hint, default, texts[name], option))
    return fields_as_options


def make(kind: type[SettingsClass], options: Options) -> SettingsClass:
    """Return settings with the options that were given for their fields; the rest are defaults."""
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in (options or {}).items() if name in names})


def flags(error: UserError) -> str:
    """Return the options that set what an error speaks of, in brackets."""
    flags = {name: setting.flag for row in SETTINGS.values() for name, setting in row.items()}
    wrong = [flags.get(name, "--" + name.replace("_", "-")) for name in error.settings]
    return f" ({', '.join(wrong)})" if wrong else ""


# ------------------------------------------------------------------------------------------ values


def convert(hint: Any, tokens: Sequence[Token]) -> Any:
    """Return the words of an option as its type says; lists of choices and numbers take commas."""
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
    """Return what completes the names of models of these kinds, or of all, in a shell."""

    def names(_: object) -> list[str]:
        if "ranker" in kinds:
            return registry.names("ranker")
        from admire.models.catalogue import models

        return [
            model.name.removesuffix(model.placeholder)
            for model in models()
            if not kinds or model.plugin.kind in kinds
        ]

    return names


# --------------------------------------------------------------------------- shared by commands


@settings(frozen=True, kw_only=True)
class SettingsSource:
    """The settings that options change."""

    profile: Annotated[ProfileName, Option(SOURCE, daily=True, in_file=False)] = "embedded"
    """Stack that the other options change. For paper, name other chat models or a server: OpenAI
    retires its GPTs by 2027-01-14."""
    config: Annotated[Path | None, Option(SOURCE, daily=True, in_file=False)] = None
    """TOML file of settings, as admire config prints them; options win over it."""
    like: Annotated[Path | None, Option(SOURCE, in_file=False)] = None
    """Run folder whose settings count instead of a profile's; options win over it."""


@settings(frozen=True, kw_only=True)
class WorkerOptions:
    """How many processes share the work, and where they are."""

    workers: Annotated[int | None, Option("Scale", in_file=False)] = None
    """Processes that share the work, by Ray; else this one alone."""
    ray_address: Annotated[str | None, Option("Scale", in_file=False)] = None
    """Ray cluster where they are, HOST:PORT or auto; else on this machine."""


CONFIG_FILE = (SettingsSource, "config")


def open_workers(options: Options, device: str | None) -> workers.Workers | None:
    """Return the workers that the options ask for; None where there are none."""
    sharing = make(WorkerOptions, options)
    if sharing.workers is None:
        if sharing.ray_address:
            raise UserError("Say how many workers the cluster gets.", "workers")
        return None
    check_extra("ray", "Work by several workers", "ray")
    from admire.base.workers import Workers, check_address

    if sharing.ray_address:
        check_address(sharing.ray_address)
    return Workers(sharing.workers, sharing.ray_address, gpus=device != "cpu")


Data = Annotated[
    Path,
    Parameter(help="AdMIRe TSV, manifest (.csv, .json, .jsonl), a folder, or a .txt of V-WSD."),
]
Lang = Annotated[
    str | None, Parameter(help="Language tag (en, pt, xe, pt-br); else the file's name tells.")
]
Json = Annotated[bool, Parameter(help="Print JSON for programs.")]
DryRun = Annotated[
    bool, Parameter(help="Only count what chat models would be asked, and estimate the price.")
]
Force = Annotated[bool, Parameter(help="Replace what lies there, even if admire did not write it.")]
FusionMethod = Annotated[
    Fusion,
    Parameter(help="How runs are fused: standardised scores, Borda's points, reciprocal ranks."),
]
Seed = Annotated[int, Parameter(help="Seed of resampling.")]
Published = Annotated[
    PublishedSet | None,
    Parameter(help="Set that the gold belongs to: also compare with its published figures."),
]
PublishedTrack = Annotated[BoardTrack | None, Parameter(help="Track of the board; else the run's.")]
