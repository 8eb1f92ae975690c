"""A data format: lines of a compound, its sentence and captions, with tabs between."""

from collections.abc import Iterator
from pathlib import Path

from admire.core.registry import register
from admire.data.items import Candidate, Item


@register("reader", "lines", takes="PATH")
def read_lines(path: str) -> Iterator[Item]:
    """Lines with a compound, a sentence and captions, the best caption first."""
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        compound, sentence, *captions = line.split("\t")
        candidates = [Candidate(f"{k}.png", caption=text) for k, text in enumerate(captions)]
        order = tuple(candidate.name for candidate in candidates)
        yield Item(compound, sentence, candidates=tuple(candidates), expected_order=order)
