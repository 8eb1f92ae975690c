"""Summarises a run by language: its items, their senses, and what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from admire.data.compounds import find_compound
from admire.data.languages import language_name
from admire.pipeline.ranking import Row
from admire.senses.detector import list_languages

Tallies = dict[str, dict[str, Any]]
"""By language the counts of its items, and the sum of their confidences."""


MISSING = {
    "unsure": ("Unsure", ""),  # printed in a separate line, with the threshold
    "without_meaning": ("Without meaning", "without a meaning"),
    "compound_not_found": ("Compound not found", "without the compound in the sentence"),
}
"""Counts that are printed if they are not 0: the heading of a column, and words in a sentence."""


def count_items(tallies: Tallies, rows: Iterable[Row]) -> None:
    """Add rows of a run to the tallies of their languages."""
    for row in rows:
        item, readings = row.item, row.interpretations
        decided_by = {reading.sense.by for reading in readings}
        confidence = row.confidence
        needs_meaning = row.predicted_type == "idiomatic" or bool(readings and not item.has_sense)
        added = {
            "items": 1,
            "unsure": row.unsure,
            "by_detector": "detector" in decided_by,
            "with_sense": row.predicted_type is not None,
            "idiomatic": row.predicted_type == "idiomatic",
            "confidence": confidence or 0.0,
            "with_confidence": confidence is not None,
            "without_meaning": needs_meaning and not any(r.idiomatic for r in readings),
            "compound_not_found": bool(item.sentence)
            and find_compound(item.sentence, item.phrase) is None,
        }
        tally = tallies.setdefault(item.language, dict.fromkeys(added, 0))
        for name, value in added.items():
            tally[name] += value


def summarise_languages(
    tallies: Tallies, trained: Mapping[str, bool | None]
) -> list[dict[str, Any]]:
    """Return the summary of a run by language, as in run.json.

    For each language: ``items``; ``share_idiomatic``, of the items with a sense; ``confidence``,
    the mean; how many items are ``unsure``, how many that are predicted as idiomatic are
    ``without_meaning``, and in how many the ``compound_not_found`` in the sentence; and
    ``detector_trained``. Unknown values are None.

    Args:
        trained: by language, whether the detector that decided senses was trained on it.
    """
    return [
        {
            "language": language,
            "items": tally["items"],
            "share_idiomatic": _share(tally["idiomatic"], tally["with_sense"]),
            "confidence": _share(tally["confidence"], tally["with_confidence"]),
            **{name: tally[name] for name in MISSING},
            "detector_trained": trained.get(language),
        }
        for language, tally in tallies.items()
    ]


def _share(part: float, count: int) -> float | None:
    return round(part / count, 4) if count else None


def language_cells(
    summary: Sequence[Mapping[str, Any]],
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the headings and rows of a summary by language.

    A ``*`` marks languages that the detector was not trained on, see :func:`untrained_note`.
    """
    missing = [name for name in MISSING if any(row[name] for row in summary)]
    headings = "Language", "Items", "Idiomatic", "Confidence"
    rows = [
        (
            _named(row) + "*" * (row["detector_trained"] is False),
            f"{row['items']:,}",
            _percent(row),
            "–" if row["confidence"] is None else f"{row['confidence']:.2f}",
            *(f"{row[name]:,}" for name in missing),
        )
        for row in summary
    ]
    return (*headings, *(MISSING[name][0] for name in missing)), rows


def language_line(row: Mapping[str, Any]) -> str:
    """Return the summary of one language as a sentence."""
    parts = [f"{_named(row)}: {row['items']:,} item{'s' * (row['items'] != 1)}"]
    if row["share_idiomatic"] is not None:
        parts.append(f"{_percent(row)} idiomatic")
    if row["confidence"] is not None:
        parts.append(f"mean confidence {row['confidence']:.2f}")
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


def _named(row: Mapping[str, Any]) -> str:
    tag, name = row["language"], language_name(row["language"])
    return tag if name == tag else f"{name} ({tag})"


def _percent(row: Mapping[str, Any]) -> str:
    share = row["share_idiomatic"]
    return "–" if share is None else f"{share:.0%}"
