"""Finds a compound in its sentence."""

from __future__ import annotations

import re


def find_compound(sentence: str, compound: str) -> tuple[int, int] | None:
    """Return where a sentence has a compound, in characters; None if it is not there.

    Words count as the same if they begin alike, so an inflected compound is found. Up to two other
    words may stand between them.
    """
    match = re.search(re.escape(compound) + r"[a-zà-öø-ÿ]{0,3}", sentence, re.IGNORECASE)
    if match is None:
        stems = [re.escape(word[: max(3, len(word) - 3)]) for word in re.findall(r"\w+", compound)]
        between = r"\W+(?:\w+\W+){0,2}?"
        match = re.search(between.join(rf"\b{stem}\w*" for stem in stems), sentence, re.IGNORECASE)
    return match.span() if match else None


def replace_compound(sentence: str, compound: str, text: str) -> str | None:
    """Return the sentence with a text in place of the compound; None if it is not there."""
    place = find_compound(sentence, compound)
    return sentence[: place[0]] + text + sentence[place[1] :] if place else None
