"""The registry of what plugs in: chat models, encoders, rankers, metrics and the other kinds.

A class or function becomes a plug-in by :func:`register`. A distribution announces its own by an
entry point of the group ``admire``, named after the kind and the plug-in, in its pyproject.toml::

    [project.entry-points.admire]
    "ranker.length" = "admire_length:Length"

What ships with admire is announced in the same way. Names come from the entry points, so listing
them imports nothing; a plug-in is imported when it is used or described.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import metadata
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from pydantic import ValidationError

from admire.base.choices import nearest
from admire.base.errors import DISTRIBUTION, UserError
from admire.base.schema import complaint

log = logging.getLogger("admire")

GROUP = "admire"
"""The group of entry points."""
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
"""The settings that name plug-ins of a kind."""
PROTOCOLS: dict[Kind, tuple[str, ...]] = {
    "chat": ("admire.models.llm.ChatModel", "ask", "name", "parallel", "accepts_images"),
    "encoder": ("admire.models.encoders.TextEncoder", "encode_texts", "name", "batch"),
    "dictionary": ("admire.senses.dictionaries.Dictionary", "entries", "languages"),
    "detector": ("admire.senses.Detector", "classify"),
    "ranker": ("admire.rankers.Ranker", "questions", "scores"),
}
"""What a plug-in of a kind derives from, and the attributes that it must have."""

Made = TypeVar("Made", bound=Callable[..., Any])


class PluginError(UserError):
    """A plug-in of another distribution failed, or returned what cannot be used."""


@dataclass(frozen=True)
class Variant:
    """A model of a family that is recommended by name, as a row of ``admire models``.

    Attributes:
        name: what follows the family's colon; empty for the plug-in itself.
        about: what it reads, in a few words.
        size: of the download.
        licence: of the weights. With NC in it, it forbids commercial use.
        weights: the repositories on the hub that contain them.
    """

    name: str
    about: str
    size: str
    licence: str
    weights: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plugin:
    """A plug-in and what must be known of it.

    Attributes:
        make: the registered class or function.
        distribution: the distribution that brings it; empty if it was registered in Python alone.
        takes: what stands after the colon of its name, such as ``REPOSITORY``; empty for nothing.
        about: one line of description; by default the docstring's first.
        needs: what it needs beside its distribution: an extra of admire such as ``clip``, ``hub``
            or ``key``.
        packages: those of the extra that must be installed.
        size: of what is downloaded or installed.
        licence, citation: of the model or the data. With NC in it, a licence forbids commercial
            use.
        languages: the languages that it reads, in words; empty if any.
        settings: a pydantic model or settings class of its options, passed as ``settings``.
        status: returns whether it can be used now, or how to get it ("no: …").
        pull: puts its files in place and returns where they are, or why nothing has to be fetched.
        variants: models of the family that are recommended by name.
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
    settings: type | None = None
    status: Callable[[], str] | None = field(default=None, repr=False)
    pull: Callable[[], Path | str] | None = field(default=None, repr=False)
    variants: tuple[Variant, ...] = field(default=(), repr=False)

    @property
    def written(self) -> str:
        """The name with its placeholder: ``sbert:REPOSITORY``."""
        return f"{self.name}:{self.takes}" if self.takes else self.name

    @property
    def title(self) -> str:
        """What messages call it: "ranker 'length' of admire-length"."""
        origin = f" of {self.distribution}" if self.distribution else ""
        return f"{noun(self.kind)} '{self.name}'{origin}"

    @property
    def ships(self) -> bool:
        """Whether it ships with admire."""
        return self.distribution == DISTRIBUTION

    @property
    def arguments(self) -> set[str]:
        """The names of the arguments that it takes."""
        return set(inspect.signature(self.make).parameters)

    def open(self, source: str = "", **options: Any) -> Any:
        """Call the class or function; return what it makes.

        Args:
            source: what follows the colon of its name, its first argument; empty for nothing.
            options: keyword arguments; only those that it accepts are passed. ``plugins`` contains
                the values of all plug-ins' settings by name; its own are passed as ``settings``.

        Raises:
            PluginError: it raises an exception, or what it makes cannot be used.
        """
        options["settings"] = self.read_settings(options.get("plugins", {}).get(self.name, {}))
        chosen = {name: value for name, value in options.items() if name in self.arguments}
        with self.blamed():
            made = self.make(*([source] if source else []), **chosen)
        if not self.ships:
            self.check(made)
            self._name(made, f"{self.name}:{source}" if source else self.name)
            with suppress(AttributeError):
                made._plugin = self
        return made

    def read_settings(self, values: Mapping[str, Any]) -> Any:
        """Return the plug-in's settings with these values; None if it has none.

        Raises:
            UserError: a setting is unknown or cannot have its value.
        """
        if self.settings is None:
            return None
        try:
            return self.settings(**values)
        except ValidationError as error:
            name = f"{self.name}_{error.errors()[0]['loc'][0]}".replace("-", "_")
            raise UserError(f"{name} {complaint(error)}", name) from None

    def check(self, made: Any) -> None:
        """Refuse an object that lacks what its kind must have.

        Raises:
            PluginError: it lacks an attribute.
        """
        base, *attributes = PROTOCOLS.get(self.kind, ("",))
        missing = [name for name in attributes if name != "name" and not hasattr(made, name)]
        if missing:
            raise self.error(f"has no {' and no '.join(missing)}. Derive it from {base}.")

    def _name(self, made: Any, name: str) -> None:
        """Give a model its full name, and an identity by version, unless it has its own."""
        default = type(made).__name__  # see admire.models.identity
        version = metadata.version(self.distribution) if self.distribution else "here"
        names = {"name": name, "identity": f"{name}:{self.distribution}-{version}"}
        for attribute, value in names.items():
            if getattr(made, attribute, default) == default:
                with suppress(AttributeError):  # a tuple, say, which needs no name
                    setattr(made, attribute, value)

    @contextmanager
    def blamed(self, where: str = "") -> Iterator[None]:
        """Turn an exception in this block into a :class:`PluginError`, unless it ships with admire.

        Args:
            where: the item or text that the plug-in was working on.
        """
        try:
            yield
        except Exception as error:
            blamed = self.blame(error, where)
            if blamed is error:
                raise
            raise blamed from error

    def blame(self, error: Exception, where: str = "") -> Exception:
        """Return an exception as a :class:`PluginError`, or itself if the plug-in ships with admire
        or worded it for users."""
        if self.ships or isinstance(error, UserError | MemoryError):
            return error
        return self.error(f"raised {type(error).__name__} ({error}).", where)

    def error(self, what: str, where: str = "") -> PluginError:
        """Return the error of a plug-in that did something wrong."""
        place = f"{where}: " if where else ""
        return PluginError(f"{place}the {self.title} {what}", *SETTINGS.get(self.kind, ()))


def plugin_of(made: object) -> Plugin | None:
    """Return the plug-in of another distribution that made an object; None if there is none."""
    return getattr(made, "_plugin", None)


def blamed(made: object, where: str = "") -> AbstractContextManager[None]:
    """Turn an exception in a block into a :class:`PluginError` if a plug-in made the object.

    Args:
        where: see :meth:`Plugin.blamed`.
    """
    plugin = plugin_of(made)
    return plugin.blamed(where) if plugin else nullcontext()


_REGISTERED: dict[tuple[Kind, str], Plugin] = {}


def register(kind: Kind, name: str, **facts: Any) -> Callable[[Made], Made]:
    """Register a class or function as a plug-in of a kind, under a name.

    Args:
        facts: the fields of :class:`Plugin` from ``takes`` on.
    """
    if kind not in KINDS:
        raise UserError(f"'{kind}' is not a kind of plug-in. Available: {', '.join(KINDS)}.")

    def decorate(make: Made) -> Made:
        about = (inspect.getdoc(make) or "").partition("\n")[0]
        _REGISTERED[kind, name] = Plugin(kind, name, make, **{"about": about} | facts)
        return make

    return decorate


def noun(kind: Kind) -> str:
    """Return what messages call a kind of plug-in."""
    return NOUNS.get(kind, kind)


@cache
def _announced() -> Mapping[tuple[str, str], tuple[EntryPoint, ...]]:
    """Return the entry points of all distributions by kind and name, in alphabetical order."""
    by_name: dict[tuple[str, str], tuple[EntryPoint, ...]] = {}
    # A distribution that is found twice on the path announces the same thing twice.
    points = {(p.name, _distribution(p), p.value): p for p in metadata.entry_points(group=GROUP)}
    for _, point in sorted(points.items()):
        kind, _, name = point.name.partition(".")
        by_name[kind, name] = (*by_name.get((kind, name), ()), point)
    if not by_name:  # in a clone that was never installed, or while pip replaces it
        raise UserError("admire is not installed: its plug-ins are unknown. Run pip install -e .")
    return by_name


def _distribution(point: EntryPoint) -> str:
    return point.dist.name if point.dist else ""


def names(kind: Kind) -> list[str]:
    """Return the names of all plug-ins of a kind, in alphabetical order. Imports none of them."""
    known = {name for of_kind, name in (*_announced(), *_REGISTERED) if of_kind == kind}
    return sorted(known)


def foreign_names(kind: Kind) -> list[str]:
    """Return the names of plug-ins of a kind that do not ship with admire. Imports none of them."""
    return [
        name
        for name in names(kind)
        if [_distribution(p) for p in _announced().get((kind, name), ())] != [DISTRIBUTION]
    ]


def find(kind: Kind, name: str) -> Plugin:
    """Return the plug-in of a kind by its name, without what follows a colon.

    Raises:
        UserError: the name is unknown, two distributions have it, or it cannot be imported.
    """
    points = _announced().get((kind, name), ())
    owners = sorted({_distribution(point) for point in points})
    if len(points) > 1:
        raise PluginError(
            f"The name '{name}' is taken by more than one {noun(kind)}: those of "
            f"{' and '.join(owners)}. Uninstall one of these distributions.",
            *SETTINGS.get(kind, ()),
        )
    registered = _REGISTERED.get((kind, name))
    if not points:
        if registered is None:
            raise unknown(kind, name)
        return registered
    (point,) = points
    try:
        make = point.load()
    except Exception as error:
        raise PluginError(
            f"The {noun(kind)} '{name}' of {owners[0]} cannot be imported ({point.value}: "
            f"{type(error).__name__}: {error}). Repair or uninstall {owners[0]}.",
            *SETTINGS.get(kind, ()),
        ) from error
    if (registered := _REGISTERED.get((kind, name))) is None:
        register(kind, name)(make)
        registered = _REGISTERED[kind, name]
    elif registered.make is not make:
        raise PluginError(
            f"The name '{name}' is taken: {owners[0]} has a {noun(kind)} of this name. Register "
            f"{registered.make.__qualname__} under another one.",
            *SETTINGS.get(kind, ()),
        )
    if registered.distribution != owners[0]:
        registered = _REGISTERED[kind, name] = replace(registered, distribution=owners[0])
    return registered


def plugins(kind: Kind, *, foreign: bool = False) -> list[Plugin]:
    """Return all plug-ins of a kind; a warning names those that cannot be imported.

    Args:
        foreign: whether to leave out those that ship with admire, and not to import them.
    """
    found = []
    for name in foreign_names(kind) if foreign else names(kind):
        try:
            found.append(find(kind, name))
        except PluginError as error:
            log.warning("%s", error)
    return found


def unknown(kind: Kind, name: str) -> UserError:
    """Return the error about a name that no plug-in of a kind has."""
    close = nearest(name.partition(":")[0], names(kind))
    forms = ", ".join(plugin.written for plugin in plugins(kind))
    return UserError(
        f"Unknown {noun(kind)} '{name}'.{close} Available: {forms}.",
        *SETTINGS.get(kind, ()),
    )


def resolve(kind: Kind, name: str) -> tuple[Plugin, str]:
    """Return the plug-in of a full name, and what follows the colon there.

    Raises:
        UserError: the name is unknown, lacks what the plug-in takes after a colon, or the plug-in
            cannot be imported.
    """
    family, colon, source = name.partition(":")
    if family not in names(kind):
        raise unknown(kind, name)
    plugin = find(kind, family)
    if bool(plugin.takes) != bool(source) or (colon and not plugin.takes):
        raise unknown(kind, name)
    return plugin, source
