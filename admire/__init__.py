"""Which sense of a compound is meant, what it means, and which candidates show it best."""

from __future__ import annotations

import os
from typing import Any

import lazy_loader

# The hub's package reads it when it is imported, whichever part of admire does that.
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

# In a clone, prompts and augment lie beside this package; installed, they lie in it.
_clone = os.path.dirname(os.path.dirname(__file__))
if os.path.isfile(os.path.join(_clone, "pyproject.toml")):
    __path__.append(_clone)

# pandas and the rest are imported when they are used, so that `import admire` is instant.
_public, _, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib import metadata

        from admire.core.errors import DISTRIBUTION

        return metadata.version(DISTRIBUTION)
    return _public(name)
