"""BERT's tokenizer, WordPiece.

It is written here, because the package ``tokenizers`` brings the hub's client with it.
"""

from __future__ import annotations

import unicodedata
from pathlib import Path

LONGEST = 100
"""Characters of a word; a longer one is unknown."""
UNKNOWN, FIRST, LAST = "[UNK]", "[CLS]", "[SEP]"
CONTINUED = "##"
"""Before pieces that continue a word."""
IDEOGRAPHS = (
    *((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F)),
    *((0x2B740, 0x2B81F), (0x2B920, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)),
)
"""Characters that are words of their own, as BERT has them."""


class WordPiece:
    """A lower-case vocabulary of BERT.

    Args:
        vocabulary: a file with one piece per line.
        limit: how many tokens of a text are read.
    """

    def __init__(self, vocabulary: Path, limit: int):
        pieces = vocabulary.read_text(encoding="utf-8").splitlines()
        self._pieces = {piece: token for token, piece in enumerate(pieces)}
        self._limit = limit
        self._normal = _Normal()

    def tokens(self, text: str) -> list[int]:
        """Split a text as BERT's WordPiece does; the end beyond the limit is cut.

        Special tokens in the text, such as ``[SEP]``, are read as plain text.
        """
        tokens: list[int] = []
        for word in text.translate(self._normal).split():
            if len(tokens) >= self._limit - 2:
                break
            tokens += self._split(word)
        return [self._pieces[FIRST], *tokens[: self._limit - 2], self._pieces[LAST]]

    def _split(self, word: str) -> list[int]:
        """Return a word's pieces, each the longest that fits; if none fits, it is unknown."""
        tokens, start = [], 0
        while start < len(word) <= LONGEST:
            prefix = CONTINUED if start else ""
            for end in range(len(word), start, -1):
                if (token := self._pieces.get(prefix + word[start:end])) is not None:
                    break
            else:
                break
            tokens.append(token)
            start = end
        return tokens if start == len(word) else [self._pieces[UNKNOWN]]


class _Normal(dict[int, str]):
    """What each character becomes before words are split: BERT's lower case without accents."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        if letter in "\t\n\r":
            normal = " "
        elif letter == "\ufffd" or unicodedata.category(letter) in ("Cc", "Cf", "Co", "Cs"):
            normal = ""
        elif letter.isspace():
            normal = " "
        else:
            parts = unicodedata.normalize("NFD", letter)
            plain = "".join(part for part in parts if unicodedata.category(part) != "Mn")
            alone = any(first <= code <= last for first, last in IDEOGRAPHS)
            normal = "".join(
                f" {part} " if alone or _is_punctuation(part) else part for part in plain.lower()
            )
        self[code] = normal
        return normal


def _is_punctuation(letter: str) -> bool:
    symbol = letter.isascii() and letter.isprintable() and not letter.isalnum() and letter != " "
    return symbol or unicodedata.category(letter).startswith("P")
