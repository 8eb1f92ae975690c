"""What chat models and encoders have in common: a name and an identity."""

from __future__ import annotations

from typing import Protocol


class Named(Protocol):
    """A model with a name.

    A class that derives from this one and says neither is called as the class is.

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
