"""What a run is made with: a profile or a run, changed by a TOML file, changed by options."""

from __future__ import annotations

import inspect
import json
import re
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from admire.base.choices import ProfileName, nearest
from admire.base.errors import UserError
from admire.cli import options as opt

if TYPE_CHECKING:
    from admire.rankers.settings import Settings


def config(
    profile: opt.Profile = None, config: opt.ConfigFile = None, like: opt.LikeRun = None
) -> None:
    """Print the settings of a profile, a file or a run, as the TOML that rank --config takes."""
    print(settings_text(run_settings(locals())), end="")


def run_settings(options: Mapping[str, Any]) -> Settings:
    """The settings of a profile or a run, changed by a file, changed by the options given.

    Args:
        options: ``locals()`` of a command: all of its options.

    Raises:
        UserError: a setting cannot have its value, the file or the run cannot be read, or a
            profile and a run are both named.
    """
    from admire.rankers.scorer import Scoring
    from admire.rankers.settings import PROFILES, Settings
    from admire.runs.past_runs import read_settings

    file, like = options.get("config"), options.get("like")
    told = _read(file) if file else {}
    in_file = told.pop("profile", None)
    profile = options.get("profile") or in_file
    if like and profile:
        raise UserError("Begin with a profile or with a run, not with both.", "profile", "like")
    settings = read_settings(like) if like else PROFILES[profile or "embedded"]
    with _errors_of(file):
        settings = _changed(settings, told)
    return _changed(settings, opt.given(options, Settings) | opt.given(options, Scoring))


def _changed(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    """Settings with other values of some, by the names of fields of Settings and Scoring."""
    own = {field.name for field in fields(settings)}
    changes = dict(changes)
    if "encoder" in changes:  # else a profile's would go on reading the captions
        changes.setdefault("caption_encoder", None)
    scoring = replace(settings.scoring, **{n: v for n, v in changes.items() if n not in own})
    return replace(settings, scoring=scoring, **{n: v for n, v in changes.items() if n in own})


def _read(file: Path) -> dict[str, Any]:
    """The settings in a TOML file, and the profile where it names one.

    Raises:
        UserError: the file cannot be read, is not TOML, or has a key that is no setting.
    """
    from admire.base.files import read_text
    from admire.base.schema import check_setting

    try:
        found = tomllib.loads(read_text(file).replace("\r\n", "\n"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{file}: is not TOML ({error}).") from None
    names = ["profile", *_types()]
    for name in found:
        if name not in names:
            raise UserError(
                f"{file}: '{name}' is no setting.{nearest(name, names)} admire config lists all."
            )
    if "profile" in found:
        with _errors_of(file):
            check_setting("profile", found["profile"], ProfileName)
    return {n: tuple(value) if isinstance(value, list) else value for n, value in found.items()}


@contextmanager
def _errors_of(file: Path | None) -> Iterator[None]:
    try:
        yield
    except UserError as error:
        raise UserError(f"{file}: {error}") from None


def _types() -> dict[str, Any]:
    """The type of each setting of a run, in the order of the file."""
    from admire.rankers.scorer import Scoring
    from admire.rankers.settings import Settings

    own = get_type_hints(Settings)
    at = list(own).index("scoring")
    types = list(own.items())
    return dict([*types[:at], *get_type_hints(Scoring).items(), *types[at + 1 :]])


def settings_text(settings: Settings) -> str:
    """A TOML file that makes these settings, with what each is, takes and has by default."""
    from admire.rankers.scorer import Scoring
    from admire.rankers.settings import Settings

    values, defaults = vars(settings) | vars(settings.scoring), vars(Settings()) | vars(Scoring())
    docs = _docs(Settings) | _docs(Scoring)
    return "\n".join(
        _entry(name, kind, docs[name], values[name], defaults[name])
        for name, kind in _types().items()
    )


def _entry(name: str, kind: Any, doc: str, value: Any, default: Any) -> str:
    """A setting's lines; what is not set stands there as a comment."""
    words = [word for word in _leaves(kind) if isinstance(word, str)]
    if words:
        doc += f" {'Any' if get_origin(kind) is tuple else 'One'} of: {', '.join(words)}."
    if value != default:
        doc += f" Default: {'not set' if default is None else _toml(default)}."
    comment = textwrap.fill(doc, 88, initial_indent="# ", subsequent_indent="# ")
    line = f"# {name} =" if value is None else f"{name} = {_toml(value)}"
    return f"{comment}\n{line}\n"


def _toml(value: Any) -> str:
    """A flat value as TOML, which writes texts, numbers and lists of them as JSON does."""
    text = json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)
    return text.replace("\x7f", "\\u007f")


def _leaves(kind: Any) -> Iterator[Any]:
    """The words that a type names, and the types that it is made of."""
    inner = get_args(kind)
    if not inner:
        yield kind
    for one in inner:
        yield from _leaves(one)


def _docs(kind: type) -> dict[str, str]:
    """What a settings class's docstring says of each attribute, without markup."""
    text = inspect.cleandoc(kind.__doc__ or "").partition("Attributes:\n")[2]
    text = re.sub(r",? see :\w+:`[^`]*`|``|`|:\w+:`~?", "", text)
    found: dict[str, str] = {}
    for names, doc in re.findall(r"^    (\w[\w, ]*): (.*(?:\n        .*)*)", text, re.MULTILINE):
        doc = re.sub(r"(\. )?\bNone\b", r"\1unset", " ".join(doc.split())).replace(". u", ". U")
        found |= dict.fromkeys(names.split(", "), doc[0].upper() + doc[1:])
    return found
