"""Which sense of a compound is meant, what it means, and which candidates show it best."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import lazy_loader

# The hub's package reads it when it is imported, whichever part of admire does that.
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

# The names stand in __init__.pyi. pandas and the rest are imported when they are used, so that
# `import admire` is instant.
_public, _, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib import metadata

        from admire.errors import DISTRIBUTION

        return metadata.version(DISTRIBUTION)
    return _public(name)


class _Checkout:
    """Finds ``admire.prompts`` and ``admire.augment`` where they lie in a source checkout, beside
    this package; installed, they lie in it."""

    root = Path(__file__).parent.parent

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, module = name.partition(".")
        if package != __name__ or module not in ("prompts", "augment"):
            return None
        found = PathFinder.find_spec(module, [str(cls.root)])
        if found is None or found.origin is None:
            return None
        from importlib.util import spec_from_file_location

        return spec_from_file_location(
            name, found.origin, submodule_search_locations=found.submodule_search_locations
        )


if (_Checkout.root / "pyproject.toml").is_file():
    sys.meta_path.append(_Checkout)
