"""The name and the identity of chat models and encoders."""

from __future__ import annotations

from typing import Protocol


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
