"""The registry of plug-ins: chat models, encoders, rankers, metrics and the other kinds.

A class or function becomes one by :func:`register`, and a distribution's by an entry point of the
group ``admire``, as admire's own do: ``"ranker.length" = "admire_length:Length"``. So listing names
imports nothing; a plug-in is imported when it is used or described.
"""

from __future__ import annotations

import inspect
import logging
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import (
    AbstractContextManager,
    ExitStack,
    contextmanager,
    nullcontext,
    redirect_stdout,
    suppress,
)
from dataclasses import is_dataclass
from functools import cache
from importlib import metadata
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, get_args

from pydantic import ValidationError

from admire.core.choices import nearest
from admire.core.errors import DISTRIBUTION, UserError
from admire.core.schema import adapter, complaint, invalid_setting

log = logging.getLogger("admire")


class Identified(Protocol):
    """A model with a name, and an identity: all that its results depend on. Both default to the
    class's name."""

    name: str
    identity: str

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if Protocol not in cls.__bases__:
            cls.name = getattr(cls, "name", cls.__name__)
            cls.identity = getattr(cls, "identity", cls.name)


GROUP = "admire"  #: the group of entry points
Kind = Literal["chat", "encoder", "dictionary", "detector", "ranker", "reader", "metric", "task"]
KINDS: tuple[Kind, ...] = get_args(Kind)
NOUNS: dict[Kind, str] = {"chat": "chat model"}
SETTINGS: dict[Kind, tuple[str, ...]] = {
    "chat": ("llms",),
    "encoder": ("encoder",),
    "dictionary": ("dictionaries",),
    "detector": ("detector",),
    "ranker": ("rankers",),
}
"""The settings that contain names of plug-ins of a kind."""
PROTOCOLS: dict[Kind, tuple[str, ...]] = {
    "chat": ("admire.llm.ChatModel", "ask", "name", "parallel", "accepts_images"),
    "encoder": ("admire.encoders.TextEncoder", "encode_texts", "name", "batch"),
    "dictionary": ("admire.senses.dictionaries.Dictionary", "entries", "languages"),
    "detector": ("admire.senses.Detector", "classify"),
    "ranker": ("admire.rankers.Ranker", "scores"),
    "task": ("admire.tasks.task.Task", "settings", "run"),
}
"""The base class of a kind's plug-ins, and the attributes that they must have."""

Made = TypeVar("Made", bound=Callable[..., Any])


class PluginError(UserError):
    """A plug-in of another distribution failed, or returned something invalid."""


class Variant(NamedTuple):
    """A model of a family that is recommended by name, as a row of ``admire models``."""

    name: str  #: what follows the family's colon; empty for the plug-in itself
    about: str
    size: str  #: of the download
    licence: str  #: of the weights; NC in it forbids commercial use
    weights: tuple[str, ...] = ()  #: the repositories on the hub that contain them


class Plugin(NamedTuple):
    """A plug-in with its metadata.

    Attributes:
        distribution: the distribution that contains it; empty if it was only registered in Python.
        takes: placeholder for what follows the colon of its name, such as ``REPOSITORY``.
        about: one line of description (default: the first line of the docstring).
        needs: an extra of admire such as ``clip``, ``hub`` or ``key``, besides its distribution.
        packages: the importable names of what must be installed, such as ``PIL``.
        size: of the download or installation.
        licence, citation: of the model or the data. NC in a licence forbids commercial use.
        languages: the supported languages, as text; empty for any.
        heading: of a metric: its name in tables (default: its name).
        share: of a metric: whether it is 1 or 0 for each item, so that its mean is a proportion.
        ragged: of a reader: whether its rows may have fewer candidates than they have columns for.
        language: of a reader: returns the language of a file's rows by its path, None if it is to
            be detected (default: by the names of the file and its folders).
        settings: a pydantic model or settings class of its options, passed as ``settings``.
        status: returns whether it can be used now, or how to get it ("no: …").
        pull: downloads or prepares its files; returns their path, or why there is nothing to do.
    """

    kind: Kind
    name: str
    make: Callable[..., Any]
    distribution: str = ""
    takes: str = ""
    about: str = ""
    needs: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    size: str = ""
    licence: str = ""
    languages: str = ""
    citation: str = ""
    heading: str = ""
    share: bool = False
    ragged: bool = True
    language: Callable[[Path], str | None] | None = None
    settings: type | None = None
    status: Callable[[], str] | None = None
    pull: Callable[[], Path | str] | None = None
    variants: tuple[Variant, ...] = ()

    @property
    def written(self) -> str:
        """The name with its placeholder: ``sbert:REPOSITORY``."""
        return f"{self.name}:{self.takes}" if self.takes else self.name

    @property
    def title(self) -> str:
        """Its name in messages: "ranker 'length' of admire-length"."""
        origin = f" of {self.distribution}" if self.distribution else ""
        return f"{NOUNS.get(self.kind, self.kind)} '{self.name}'{origin}"

    @property
    def ships(self) -> bool:
        """Whether it ships with admire."""
        return self.distribution == DISTRIBUTION

    @property
    def arguments(self) -> set[str]:
        """The names of its arguments."""
        return set(inspect.signature(self.make).parameters)

    def open(self, source: str = "", **options: Any) -> Any:
        """Call the class or function and return the object that it makes.

        Args:
            source: what follows the colon of its name, passed as the first argument, if any.
            options: keyword arguments; only those that it accepts are passed. ``plugins`` contains
                the values of all plug-ins' settings by name; its own are passed as ``settings``.

        Raises:
            UserError: a setting is unknown or has an invalid value.
            PluginError: it fails, or makes an object that lacks an attribute of its kind.
        """
        options["settings"] = None
        if self.settings:
            try:
                options["settings"] = self.settings(**options.get("plugins", {}).get(self.name, {}))
            except ValidationError as error:
                raise invalid_setting(error, f"{self.name}_") from None
        chosen = {name: value for name, value in options.items() if name in self.arguments}
        with self.blamed():
            instance = self.make(*([source] if source else []), **chosen)
        if self.ships:
            return instance
        base, *needed = getattr(instance, "plugs_in_as", PROTOCOLS.get(self.kind, ("",)))
        missing = [name for name in needed if name != "name" and not hasattr(instance, name)]
        if missing:
            raise self.error(f"has no {' and no '.join(missing)}. Derive it from {base}.")
        name = f"{self.name}:{source}" if source else self.name
        version = metadata.version(self.distribution) if self.distribution else "here"
        default = type(instance).__name__  # see Identified
        with suppress(AttributeError):  # such as a tuple, which needs no name
            if getattr(instance, "name", default) == default:
                instance.name = name
            if getattr(instance, "identity", default) == default:
                instance.identity = f"{name}:{self.distribution}-{version}"
            instance._plugin = self
        return instance

    @contextmanager
    def blamed(self, where: str = "") -> Iterator[None]:
        """Turn an exception in this block into a :class:`PluginError`.

        One of a plug-in that ships with admire, or that is a message for users, stays as it is.
        ``where`` is the item or text that the plug-in was working on.
        """
        try:
            yield
        except (Exception, SystemExit) as error:
            if self.ships or isinstance(error, UserError | MemoryError):
                raise
            raise self.error(f"raised {type(error).__name__} ({error}).", where) from error

    def error(self, fault: str, where: str = "") -> PluginError:
        """Return the error of a plug-in: what it did wrong, and where."""
        place = f"{where}: " if where else ""
        return PluginError(f"{place}the {self.title} {fault}", *SETTINGS.get(self.kind, ()))


def plugin_of(instance: object) -> Plugin | None:
    """Return the plug-in of another distribution that made an object; None if there is none."""
    return getattr(instance, "_plugin", None)


def blamed(instance: object, where: str = "") -> AbstractContextManager[None]:
    """Do as :meth:`Plugin.blamed` in a block, if a plug-in made the object."""
    plugin = plugin_of(instance)
    return plugin.blamed(where) if plugin else nullcontext()


def checked(instance: object, result: Any, kind: Any, count: int | None = None) -> Any:
    """Return the objects of a dataclass that a model's method returned, as a list.

    Raises:
        UserError: it is no list of so many such objects (None for any number), or a field's value
            is invalid. A plug-in's is a :class:`PluginError`.
    """
    plugin = plugin_of(instance)
    try:
        objects: list[Any] = list(result)
        for thing in objects:
            if not isinstance(thing, kind):
                raise TypeError(f"{type(thing).__name__} instead of {kind.__name__}")
        if count not in (None, len(objects)):
            raise TypeError(f"{len(objects)} of {count} objects")
        for place, thing in enumerate(objects):
            own = dict[str, Any]()
            for name in vars(thing) if hasattr(thing, "__dict__") else thing._fields:
                value = getattr(thing, name)
                own[name] = vars(value) if is_dataclass(value) else value  # checked, too
            objects[place] = adapter(kind).validate_python(own, strict=False)
    except (TypeError, ValidationError) as error:
        why = str(error)
        if isinstance(error, ValidationError):
            field = error.errors()[0]["loc"][0]
            why = f"an invalid {kind.__name__}: {field} {complaint(error).rstrip('.')}"
        if plugin:
            raise plugin.error(f"returned {why}.") from None
        raise UserError(f"{type(instance).__name__} returned {why}.") from None
    return objects


_REGISTERED: dict[Kind, dict[str, Plugin]] = defaultdict(dict)
_LOADING = threading.RLock()  # sys.stdout is everybody's


def register(kind: Kind, name: str, **facts: Any) -> Callable[[Made], Made]:
    """Register a class or function as a plug-in; ``facts`` are fields of :class:`Plugin`."""
    if kind not in KINDS:
        raise UserError(f"'{kind}' is not a kind of plug-in. Available: {', '.join(KINDS)}.")

    def decorate(make: Made) -> Made:
        about = (inspect.getdoc(make) or "").partition("\n")[0]
        _REGISTERED[kind][name] = Plugin(kind, name, make, **{"about": about} | facts)
        return make

    return decorate


@cache
def _announced() -> Mapping[str, Mapping[str, Mapping[str, EntryPoint]]]:
    """Return the entry points by kind, name and distribution."""
    owners: dict[int, str] = {}  # names of distributions, which take milliseconds to read
    by_kind: dict[str, dict[str, dict[str, EntryPoint]]] = {}
    for point in metadata.entry_points(group=GROUP):
        place = id(point.dist)
        if place not in owners:
            owners[place] = point.dist.name if point.dist else ""
        kind, _, name = point.name.partition(".")
        by_kind.setdefault(kind, {}).setdefault(name, {})[owners[place]] = point
    return by_kind


def names(kind: Kind, *, foreign: bool = False) -> list[str]:
    """Return the sorted names of a kind's plug-ins, or of foreign ones. Imports none of them."""
    announced = _announced().get(kind, {})
    registered = {*announced, *_REGISTERED[kind]}
    for name, points in announced.items() if foreign else ():
        if [*points] == [DISTRIBUTION]:
            registered.remove(name)
    return sorted(registered)


def find(kind: Kind, name: str) -> Plugin:
    """Return the plug-in of a kind by its name, without the colon and what follows.

    Raises:
        UserError: the name is unknown, two distributions have it, or it cannot be imported.
    """
    points, noun = _announced().get(kind, {}).get(name, {}), NOUNS.get(kind, kind)
    if len(points) > 1:
        raise PluginError(
            f"The name '{name}' is taken by more than one {noun}: those of "
            f"{' and '.join(sorted(points))}. Uninstall one of these distributions.",
            *SETTINGS.get(kind, ()),
        )
    registered = _REGISTERED[kind].get(name)
    if not points:
        if registered is None:
            raise unknown(kind, name)
        return registered
    ((owner, point),) = points.items()
    try:
        with ExitStack() as quiet:
            if owner != DISTRIBUTION:  # what it prints must not get into a command's output
                quiet.enter_context(_LOADING)
                quiet.enter_context(redirect_stdout(sys.stderr))
            make = point.load()
    except (Exception, SystemExit) as error:
        raise PluginError(
            f"The {noun} '{name}' of {owner} cannot be imported ({point.value}: "
            f"{type(error).__name__}: {error}). Repair or uninstall {owner}.",
            *SETTINGS.get(kind, ()),
        ) from error
    if name not in _REGISTERED[kind]:
        register(kind, name)(make)
    registered = _REGISTERED[kind][name]
    if registered.make is not make:
        raise PluginError(
            f"The name '{name}' is taken: {owner} has a {noun} of this name. Register "
            f"{registered.make.__qualname__} under another one.",
            *SETTINGS.get(kind, ()),
        )
    if registered.distribution != owner:
        registered = _REGISTERED[kind][name] = registered._replace(distribution=owner)
    return registered


def plugins(kind: Kind, *, foreign: bool = False) -> list[Plugin]:
    """Return a kind's plug-ins, or the foreign ones; warn of those that cannot be imported."""
    listed = []
    for name in names(kind, foreign=foreign):
        try:
            listed.append(find(kind, name))
        except PluginError as error:
            log.warning("%s", error)
    return listed


def unknown(kind: Kind, name: str) -> UserError:
    """Return the error about a name that no plug-in of a kind has."""
    if not _announced():  # in a clone that was never installed, or while pip replaces it
        return UserError("admire is not installed: its plug-ins are unknown. Run pip install -e .")
    close = nearest(name.partition(":")[0], names(kind))
    forms = ", ".join(plugin.written for plugin in plugins(kind))
    return UserError(
        f"Unknown {NOUNS.get(kind, kind)} '{name}'.{close} Available: {forms}.",
        *SETTINGS.get(kind, ()),
    )


def resolve(kind: Kind, name: str) -> tuple[Plugin, str]:
    """Return the plug-in of a full name, and what follows the colon there.

    Raises:
        UserError: as :func:`find`, or the part after the colon is missing or too much.
    """
    family, colon, source = name.partition(":")
    if family not in names(kind):
        raise unknown(kind, name)
    plugin = find(kind, family)
    if bool(plugin.takes) != bool(source) or (colon and not plugin.takes):
        raise unknown(kind, name)
    return plugin, source
