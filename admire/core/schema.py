"""Settings and rows as pydantic classes, and one wording of what is wrong with a value."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache, partial, wraps
from operator import is_, not_
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import pydantic.dataclasses
from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
)

from admire.core.choices import nearest, not_among
from admire.core.errors import UserError

__all__ = ["settings"]  # else mypy takes it for an import, which other modules may not use

T = TypeVar("T")

Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0)]
Weight = Annotated[float, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    return text


Text = Annotated[str, AfterValidator(_not_blank)]


def as_tuple(value: Any) -> Any:
    """Return one name as a tuple of names, and None as an empty one; other values as they are."""
    if value is None or isinstance(value, str | Path):
        return () if value is None else (value,)
    return tuple(value) if isinstance(value, list) else value


SEVERAL = BeforeValidator(as_tuple)  #: accepts one name where several are possible


def check_once(field: str, names: tuple[str, ...]) -> None:
    """Raise a UserError if there is no name, or one twice."""
    if not names or len(set(names)) < len(names):
        raise UserError(f"{field} cannot be {names!r}: name one or more, each once.", field)


UNLESS_EMPTY = Field(exclude_if=not_)  #: a key that is written only where there is something to say
UNLESS_NONE = Field(exclude_if=partial(is_, None))

STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, arbitrary_types_allowed=True)
"""Converts nothing: "1" is not a number, and True is not 1. Numbers are finite."""

SETTINGS = STRICT | ConfigDict(use_attribute_docstrings=True)
"""The text below a field is its description."""

if TYPE_CHECKING:
    from dataclasses import dataclass as settings
else:

    def settings(cls: type | None = None, **options: Any) -> Any:
        """Make a :func:`dataclasses.dataclass` whose fields are checked in each instance.

        A wrong value is a UserError that has the field's name among its ``settings``.
        """
        if cls is None:
            return partial(settings, **options)
        checked: Any = pydantic.dataclasses.dataclass(cls, config=SETTINGS, **options)
        for parent in cls.__mro__:  # an inherited field has lost the text below it
            for name, field in getattr(parent, "__pydantic_fields__", {}).items():
                if own := checked.__pydantic_fields__.get(name):  # else it is a ClassVar now
                    own.description = own.description or field.description
        init = checked.__init__

        @wraps(init)
        def checked_init(self: Any, *values: Any, **keywords: Any) -> None:
            try:
                init(self, *values, **keywords)
            except ValidationError as error:
                place = error.errors()[0]["loc"][0]  # a number for arguments without a name
                names = [field.name for field in fields(self)]
                name = names[place] if isinstance(place, int) else place
                hint = "" if name in names else nearest(str(name), names)
                raise UserError(f"{name} {complaint(error)}{hint}", name) from None

        checked.__init__ = checked_init
        return checked


def check_setting(name: str, value: object, kind: Any) -> None:
    """Refuse a wrong value of an argument, as of a field of a settings class."""
    try:
        adapter(kind).validate_python(value)
    except ValidationError as error:
        raise UserError(f"{name} {complaint(error)}", name) from None


def read_as(kind: Callable[..., T], value: object, where: object) -> T:
    """Return a file's or a reply's content as a pydantic model or any type that pydantic checks.

    Args:
        value: Python values, or JSON as text or bytes.
        where: what the message begins with: the file and, if there is one, the row.

    Raises:
        UserError: a field is missing, unknown or has an invalid value.
    """
    rules: TypeAdapter[T] = adapter(kind)
    try:
        if isinstance(value, str | bytes):
            return rules.validate_json(value)
        return rules.validate_python(value)
    except ValidationError as error:
        field = ".".join(str(step) for step in error.errors()[0]["loc"])
        field = re.sub(r"\.(\d+)", r"[\1]", field)
        raise UserError(f"{where}{field and f', {field}'}: {complaint(error)}") from None


def invalid_setting(error: ValidationError, prefix: str = "") -> UserError:
    """Return the error of a pydantic model's first wrong value, as of a setting of this name."""
    name = f"{prefix}{error.errors()[0]['loc'][0]}".replace("-", "_")
    return UserError(f"{name} {complaint(error)}", name)


def complaint(error: ValidationError) -> str:
    """Return what is wrong with the first wrong value, to follow its field: "cannot be 0: …"."""
    details = error.errors()
    kind, value, message = (details[0][key] for key in ("type", "input", "msg"))
    if kind == "literal_error":
        words = re.findall(r"'([^']*)'", details[0]["ctx"]["expected"])
        return not_among(value, words)
    if message.startswith("Input should be "):
        # Each branch of a union has an error of its own.
        messages = [detail["msg"] for detail in details if detail["input"] is value]
        needed = [m.removeprefix("Input should be ").partition(", unable to")[0] for m in messages]
        either = " or ".join(dict.fromkeys(needed))
        text = repr(value)
        return f"cannot be {text[:80]}{'…' * (len(text) > 80)}: it should be {either}."
    if kind == "missing":
        return "is missing."
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        return "is unknown here."
    return f"{message.removeprefix('Value error, ').rstrip('.')}."


@cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    """Return a type's strict validator; pydantic models and dataclasses have own rules."""
    own = is_dataclass(kind) or hasattr(kind, "model_config")
    return TypeAdapter(kind) if own else TypeAdapter(kind, config=STRICT)
