"""What a task is: it makes figures of data. How the values of its settings are read."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, create_model

from admire.core.choices import ProfileName, nearest
from admire.core.errors import UserError, check_extra
from admire.core.options import Option, Panel, make, plugin_settings, take_settings
from admire.core.schema import STRICT, Count, read_as, settings
from admire.rankers.settings import RequestOptions

if TYPE_CHECKING:
    import pandas as pd

    from admire.core.workers import Workers
    from admire.llm.session import Session
    from admire.pipeline.forecast import DryRun

Values = Mapping[str, Any]  #: values of settings by field; the others have their defaults
Data = str | Path  #: a file or folder, or a dataset on the hub


@dataclass(frozen=True)
class Result:
    """What a task made."""

    figures: list[dict[str, Any]]
    """A row for each figure, or for each group with all of its figures, as in JSON."""
    record: dict[str, Any] = field(default_factory=dict)
    """How it was made; of a training, the card of the model."""
    files: Sequence[Path] = ()
    items: Sequence[dict[str, Any]] = ()  #: a row for each item, for tasks that have them


class Task(ABC):
    """A task, a plug-in of the kind ``task``.

    Attributes:
        settings: its settings classes, or tuples of one and the names of the fields to take.
            :func:`admire.core.options.make` makes one of them from the values that ``run`` gets.
        learns: what ``train`` makes; a recipe says ``train head``.
        uses: settings of ``run`` that use it, with its path in place of ``{}``.
        variants: settings of ``train`` with variants of the data, which can be left out.
        takes: what of a recipe's data ``run`` gets: a file, all of a set, or the whole folder.
        splits, parts: folders of a benchmark, which a training reads, and the files in each.
        written: what ``run`` writes in a recipe's folder, with the file's number in place of
            ``{}``; empty if nothing need be written.
    """

    settings: ClassVar[Sequence[Any]] = ()
    learns: ClassVar[str] = ""
    uses: ClassVar[Mapping[str, str]] = {"encoder": "sbert:{}"}
    variants: ClassVar[Sequence[str]] = ()
    takes: ClassVar[Literal["file", "files", "benchmark"]] = "file"
    splits: ClassVar[Sequence[str]] = ()
    parts: ClassVar[Sequence[str]] = ()
    written: ClassVar[str] = ""

    @abstractmethod
    def run(self, data: Data, settings: Values, session: Session | None = None) -> Result:
        """Make figures of data.

        Args:
            session: asks the chat models; None is a session of the task's own.

        Raises:
            UserError: a setting is wrong, or something cannot be read, opened, asked or written.
        """

    def rehearse(self, data: Data, settings: Values, session: DryRun) -> None:  # noqa: B027
        """Ask in a dry run, which counts, what :meth:`run` would ask; nothing by default."""

    def rehearse_training(  # noqa: B027
        self, data: Sequence[Path], settings: Values, session: DryRun
    ) -> None:
        """Ask in a dry run what :meth:`train` would ask chat models; nothing by default."""

    def train(self, data: Sequence[Path], settings: Values) -> Result:
        """Train a model for the task and write it to ``settings["out"]``."""
        raise UserError(f"{type(self).__name__} cannot be trained.")

    def trained(self, model: Path) -> Result:
        """Return the figures of a model that :meth:`train` wrote; the items are its history."""
        return Result([])

    @classmethod
    def training(cls) -> Sequence[Any]:
        """Return the settings classes of :meth:`train`, for tasks that learn."""
        return ()

    def effective(self, settings: Values) -> Values:
        """Return the settings that count; models that are not used are None."""
        return settings

    def join(self, results: Sequence[Result], metrics: Sequence[str] = ()) -> Result:
        """Return the figures of several files together, further metrics among them."""
        if len(results) > 1:
            raise UserError(f"{type(self).__name__} measures one file. Give each a set of its own.")
        return results[0]


@settings(frozen=True, kw_only=True)
class Output:
    """Where a task writes."""

    out: Path | None = None
    """File or folder to write; None writes none."""
    force: bool = False
    """Replace a file there even if admire did not write it."""


SOURCE: Panel = "All settings at once"


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


CONFIG_FILE = (SettingsSource, "config")


@settings(frozen=True, kw_only=True)
class WorkerOptions:
    """How many worker processes to use, and where they run."""

    workers: Annotated[Count | None, Option("Scale", in_file=False)] = None
    """Number of Ray worker processes (default: none)."""
    ray_address: Annotated[str | None, Option("Scale", in_file=False)] = None
    """Address of the Ray cluster, HOST:PORT or auto (default: this machine)."""


def open_workers(values: Mapping[str, Any] | None, device: str | None) -> Workers | None:
    """Return the workers that settings request; None for none."""
    sharing = make(WorkerOptions, values)
    if sharing.workers is None:
        if sharing.ray_address:
            raise UserError("A Ray cluster needs the number of workers.", "workers")
        return None
    check_extra("ray", "Work by several workers", "ray")
    from admire.core.workers import Workers, check_address

    if sharing.ray_address:
        check_address(sharing.ray_address)
    return Workers(sharing.workers, sharing.ray_address, gpus=device != "cpu")


def known_settings(sources: Sequence[Any]) -> dict[str, Option]:
    """Return the options by field; if chat models are asked, also those of plug-ins."""
    own = take_settings(*sources)
    return own | plugin_settings(own) if RequestOptions in sources else own


def session_options(values: Values | None) -> dict[str, Any]:
    """Return the arguments of the session by which a task asks chat models, from its settings."""
    plugins: dict[str, dict[str, Any]] = {}
    for name, option in plugin_settings().items():
        if option.plugin and values and name in values:
            plugins.setdefault(option.plugin[0], {})[option.plugin[1]] = values[name]
    return vars(make(RequestOptions, values)) | {"plugins": plugins}


def open_session(values: Values | None) -> Session:
    """Return a session by which a task asks chat models, as its settings say."""
    from admire.llm.session import Session

    return Session(**session_options(values))


def as_rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table as in JSON, where NaN is None."""
    rows: list[Any] = table.astype(object).where(table.notna(), None).to_dict("records")
    return rows


def field_types(sources: Sequence[Any]) -> dict[str, Any]:
    """Return the types of all fields of settings classes, options or not."""
    return {
        name: field.annotation
        for owner, *names in (s if isinstance(s, tuple) else (s,) for s in sources)
        for name, field in owner.__pydantic_fields__.items()
        if not names or name in names
    }


def check_entries(
    entries: Values, command: str, allowed: Mapping[str, Option], where: object
) -> dict[str, Any]:
    """Return a command's settings by name, of entries as in TOML, with the types that they have.

    ``allowed`` are the command's options, and messages say ``where`` the entries are.
    """
    types = {option.name: option.hint for option in allowed.values() if option.in_file}
    if "profile" in allowed:
        types |= {"profile": ProfileName, "lang": str | None}
    if unknown := [name for name in entries if name not in types]:
        lists = f" admire config {command} lists all." if "config" in allowed else ""
        close = nearest(unknown[0], [*types])
        raise UserError(f"{where}: '{unknown[0]}' is not a setting.{close}{lists}")
    kind = _entries(*((name, types[name]) for name in entries))
    return dict(read_as(kind, json.dumps(entries, default=str), where))  # JSON, for paths


@cache  # a model takes milliseconds to make, and the rows of recipes have few
def _entries(*types: tuple[str, Any]) -> type[BaseModel]:
    fields: dict[str, Any] = {name: (kind, ...) for name, kind in types}
    return create_model("Entries", __config__=STRICT, **fields)


def read_options(
    file: Path, command: str, allowed: Mapping[str, Option], options: Values
) -> dict[str, Any]:
    """Return the settings of a command in a TOML file, by field.

    The file may come from a stranger. It cannot choose who gets the key or whose code runs (a
    UserError), unless the options of the command line say the same.
    """
    from admire.core.files import read_toml
    from admire.llm.address import check_named_in_file

    values = check_entries(read_toml(file), command, allowed, file)
    if "llm_url" not in options:
        check_named_in_file(values.get("llm_url"), file)
    if values.get("trust_remote_code") and not options.get("trust_remote_code"):
        raise UserError(
            f"{file}: trust_remote_code lets a model's code run. Read the code; then allow it on "
            "the command line.",
            "trust_remote_code",
        )
    return values
