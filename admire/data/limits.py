"""What texts may be, and how they are folded: the same in files, over REST and in Python.

Without limits, one row could take the time and memory of all others. They are at least twice the
longest text of the sets that admire reads.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import partial

from annotated_types import MaxLen
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

CONTEXTS = ("sentence", "text")  #: the texts that a compound is in

_ODD = re.compile(
    r"[\x01-\t\x0b-\x1f\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200b"
    r"\u200e\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""All blanks but the space and the line break, and what nobody sees. ZWNJ and ZWJ are not among
these, because Persian and Hindi are spelt with them."""

FILE_NAMES = ("image", "expected_order")
ONE_LINE = ("compound", "word", "sentence", "span")
"""Texts in which every run of white space is one space."""
OF_LINES = ("caption", "definition", "text")
"""Texts that keep their lines and spaces, because Markdown has them."""


def fold(text: str, *, lines: bool = False) -> str:
    """Return a text as it looks: in NFC, with spaces for other blanks, without unseen characters.

    Args:
        lines: keep line breaks and runs of spaces.
    """
    if not (text.isascii() and (text.isprintable() or text.replace("\n", "").isprintable())):
        text = _ODD.sub(_plain, text.replace("\r\n", "\n"))
        text = unicodedata.normalize("NFC", text)
    return text if lines else " ".join(text.split())


def _plain(odd: re.Match[str]) -> str:
    if odd[0] in "\r\v\f\x85\u2028\u2029":
        return "\n"
    return " " if odd[0].isspace() or odd[0] in "\u115f\u1160\u2800\u3164\uffa0" else ""


def check_text(column: str, text: object) -> object:
    """Return a text as it is read into an item, and a value of another type as it is.

    Raises:
        ValueError: the text is too long, or contains NUL or half a surrogate pair.
    """
    if not isinstance(text, str):
        return text
    if len(text) <= LIMITS[column]:
        if column in FILE_NAMES:
            text = unicodedata.normalize("NFC", text)
        elif column in OF_LINES:
            text = fold(text, lines=True)
        elif column in ONE_LINE:
            text = fold(text)
        if text.isascii() and text.isprintable():
            return text
    if len(text) > LIMITS[column]:
        cure = "Keep what is around the compound" if column in CONTEXTS else "Shorten it"
        raise ValueError(f"has {len(text):,} characters, more than {LIMITS[column]:,}. {cure}")
    if invalid := _INVALID.search(text):
        nul, half = "a NUL character (\\u0000)", "half a surrogate pair (\\ud800 to \\udfff)"
        raise ValueError(f"contains {nul if invalid[0] == chr(0) else half}. Remove it")
    return text


without_invalid = partial(_INVALID.sub, "")
"""Return a chat model's text without the characters that :func:`check_text` refuses."""


def limited(column: str) -> tuple[MaxLen, BeforeValidator]:
    """Return what makes pydantic check a text: ``Annotated[str, *limited("caption")]``.

    It is the maximum for JSON schemas, and :func:`check_text`, which runs first.
    """
    return MaxLen(LIMITS[column]), BeforeValidator(partial(check_text, column))
