"""Finds a compound in its sentence."""

from __future__ import annotations

import re
from functools import cache

BETWEEN = 2
"""How many other words may be between two words of a compound."""


def find_compound(sentence: str, compound: str) -> tuple[int, int] | None:
    """Return where a sentence has a compound, in characters; None if it is not there.

    Words count as the same if they begin alike, so an inflected compound is found. Up to
    :data:`BETWEEN` other words may be between them.
    """
    match = re.search(re.escape(compound) + r"[a-zà-öø-ÿ]{0,3}", sentence, re.IGNORECASE)
    if match:
        return match.span()
    words = re.findall(r"\w+", compound)
    return _find_stems(sentence, [word[: max(3, len(word) - 3)] for word in words])


def _find_stems(sentence: str, stems: list[str]) -> tuple[int, int] | None:
    """Return the first place with words that begin with these stems, and the shortest there.

    One regular expression for all stems would try 3 ** len(stems) ways to skip words.
    """
    spans = [word.span() for word in re.finditer(r"\w+", sentence)]

    @cache
    def words_with(stem: str) -> list[int]:
        begins = re.compile(re.escape(stem), re.IGNORECASE).match
        return [k for k, (start, end) in enumerate(spans) if begins(sentence, start, end)]

    *others, last = stems or [""]
    ends = {k: spans[k][1] for k in words_with(last)} if last else {}
    for stem in reversed(others):
        # The nearest of the words that may follow comes last, and overwrites the others.
        pairs = ((k, n) for k in words_with(stem) for n in range(k + 1 + BETWEEN, k, -1))
        ends = {k: ends[n] for k, n in pairs if n in ends}
    return next(((spans[k][0], end) for k, end in ends.items()), None)


def replace_compound(sentence: str, compound: str, text: str) -> str | None:
    """Return the sentence with a text in place of the compound; None if it is not there."""
    place = find_compound(sentence, compound)
    return sentence[: place[0]] + text + sentence[place[1] :] if place else None
