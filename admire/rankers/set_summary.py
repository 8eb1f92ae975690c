"""What a run must know about a whole set before it ranks the first item."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from admire.core.choices import TRACKS
from admire.core.errors import UserError
from admire.data.items import Candidate, Context, Item
from admire.rankers.settings import Settings

Lack = Literal["candidates", "sequence", "sentence", "context", "sentence_type"]


@dataclass
class SetSummary:
    """Counts of a set, and the first items that lack something.

    Attributes:
        items, candidates: how many there are.
        images, captions: how many candidates have one.
        without_caption: how many have an image and no caption.
        contexts: those that any item has.
        languages: in the order in which they come.
        first_missing: the first row that lacks something, with its item. A word in a phrase lacks
            neither a context nor a sense.
        without_content: by missing tracks (image, caption, both or none), the first candidate that
            lacks all of these, with its item's compound.
        largest: the first item with the most candidates.
    """

    items: int = 0
    candidates: int = 0
    images: int = 0
    captions: int = 0
    without_caption: int = 0
    contexts: set[Context] = field(default_factory=set)
    languages: list[str] = field(default_factory=list)
    first_missing: dict[Lack, tuple[int, Item]] = field(default_factory=dict)
    without_content: dict[tuple[str, ...], tuple[str, Candidate]] = field(default_factory=dict)
    largest: Item | None = None

    def add(self, item: Item) -> None:
        self.items += 1
        self.contexts.add(item.context)
        if item.language not in self.languages:
            self.languages.append(item.language)
        if self.largest is None or len(item.candidates) > len(self.largest.candidates):
            self.largest = item
        content: dict[Lack, object] = {
            "candidates": item.candidates,
            "sequence": item.sequence,
            "sentence": item.sentence,
            "context": item.shows_sense or not item.has_sense,
            "sentence_type": item.sentence_type or not item.has_sense,
        }
        for name, value in content.items():
            if not value:
                self.first_missing.setdefault(name, (self.items, item))
        for candidate in item.candidates:
            self.candidates += 1
            self.images += bool(candidate.image)
            self.captions += bool(candidate.caption)
            self.without_caption += bool(candidate.image and not candidate.caption)
            for tracks in ((), ("image",), ("caption",), TRACKS):
                if not any(getattr(candidate, track) for track in tracks):
                    self.without_content.setdefault(tracks, (item.compound, candidate))

    @property
    def tracks(self) -> list[str]:
        """The tracks that any candidate has: images, captions or both."""
        return [track for track in TRACKS if getattr(self, f"{track}s")]


def summarise_set(items: Iterable[Item]) -> SetSummary:
    """Summarise a set of items."""
    summary = SetSummary()
    for item in items:
        summary.add(item)
    return summary


def check_items(summary: SetSummary, settings: Settings) -> None:
    """Refuse items that cannot be ranked with these settings; the message names the first."""
    if "word" in summary.contexts and settings.looks:
        raise UserError(
            "For V-WSD only embeddings rank: the other rankers ask about idioms.", "rankers"
        )
    needs: dict[Lack, tuple[str, ...]] = {
        "candidates": ("has no candidates to rank. admire sense decides the sense without them.",)
    }
    if "sequence" in summary.contexts:
        needs["sequence"] = ("has no sequence, but others do. Rank the two kinds apart.",)
    if settings.query == "sentence" or settings.query == "sequence":
        text = f"has no {settings.query} to compare candidates with."
        needs.setdefault(settings.query, (text, "query"))
    lacks = [
        (*summary.first_missing[name], need)
        for name, need in needs.items()
        if name in summary.first_missing
    ]
    if lacks:
        number, item, (text, *places) = min(lacks, key=lambda lack: lack[0])
        raise UserError(f"row {number} ('{item.compound}') {text}", *places)
