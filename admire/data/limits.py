"""How long texts may be, and what they may not contain: the same in files, over REST and in Python.

Without limits, one row could take the time and the memory of all others. They are at least twice
the longest text of AdMIRe, SemEval-2022 Task 2 and the other sets that admire reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from annotated_types import GroupedMetadata, MaxLen
from pydantic import BeforeValidator

LIMITS: Mapping[str, int] = {
    "compound": 300,
    "word": 300,
    "sentence": 4_000,  # so much fits the embedded models with their prompts
    "span": 1_000,
    "text": 20_000,
    "caption": 10_000,
    "image": 1_000,
    "id": 1_000,
    "language": 50,
    "sentence_type": 50,
    "expected_order": 20_000,
    "definition": 2_000,
    "scene": 5_000,  # of a dictionary, the sentence with a gloss in it
    "llm": 5_000,
    "reply": 20_000,
}
"""The most characters of a text, by its column. ``image`` is the name of an image or a candidate,
``text`` a document to search, ``llm`` the name of a chat model, a dictionary or another source, and
``reply`` what is kept of a chat model's reply that could not be read."""

_INVALID = re.compile("[\0\ud800-\udfff]")

CONTEXTS = ("sentence", "text")
"""The texts that a compound is in."""


def check_text(column: str, text: object) -> object:
    """Return a text, or a value of another type, as it is; refuse what no model can read.

    Raises:
        ValueError: the text is too long, or contains NUL or half a surrogate pair.
    """
    if not isinstance(text, str):
        return text
    if len(text) > LIMITS[column]:
        cure = "Keep what is around the compound" if column in CONTEXTS else "Shorten it"
        raise ValueError(f"has {len(text):,} characters, more than {LIMITS[column]:,}. {cure}")
    if invalid := _INVALID.search(text):
        nul, half = "a NUL character (\\u0000)", "half a surrogate pair (\\ud800 to \\udfff)"
        raise ValueError(f"contains {nul if invalid[0] == chr(0) else half}. Remove it")
    return text


def without_invalid(text: str) -> str:
    """Return a chat model's text without the characters that :func:`check_text` refuses.

    UTF-8 has no half of a surrogate pair, but JSON has escapes for it.
    """
    return _INVALID.sub("", text)


@dataclass(frozen=True)
class Limit(GroupedMetadata):
    """Makes pydantic check a text by :func:`check_text`: ``Annotated[str, Limit("caption")]``."""

    column: str

    def __iter__(self) -> Iterator[object]:
        """Yield the maximum for JSON schemas, and the check itself, which runs first."""
        yield MaxLen(LIMITS[self.column])
        yield BeforeValidator(partial(check_text, self.column))
