"""The name and the identity of chat models and encoders."""

from __future__ import annotations

from typing import Protocol


class Identified(Protocol):
    """A model with a name and an identity; both default to the class's name.

    Attributes:
        name: what the user calls it.
        identity: everything that its results depend on; by default the name.
    """

    name: str
    identity: str

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if Protocol not in cls.__bases__:
            cls.name = getattr(cls, "name", cls.__name__)
            cls.identity = getattr(cls, "identity", cls.name)
