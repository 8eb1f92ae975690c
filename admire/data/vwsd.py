"""Visual-WSD (SemEval-2023 Task 1): a word in a phrase and ten images; one shows it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from admire.core import registry
from admire.core.errors import UserError
from admire.core.files import open_text

CELLS = 12  #: in a line: the word, its phrase and ten images


def language_of_words(path: Path) -> str:
    """Return the language that the name of a file begins with, such as fa.test.data.txt; or en."""
    prefix = re.match(r"([a-z]{2})\.", path.name.lower())
    return prefix[1] if prefix else "en"


@registry.register("reader", "vwsd", takes="PATH", language=language_of_words)
def word_rows(source: str, gold: Path | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """A file of V-WSD, whose lines are a word, its phrase and ten images.

    Yields rows of a manifest with ``word``, numbered. The gold has an image name a line; None is
    the file of the same name with ``gold`` in place of ``data`` beside it, if there is one.
    """
    path = Path(source)
    beside = path.with_name(re.sub(r"\bdata\b", "gold", path.name))
    gold = gold or (beside if beside != path and beside.is_file() else None)
    best = [name for _, name in text_lines(gold)] if gold else []
    count = 0
    for count, (number, line) in enumerate(text_lines(path), start=1):
        where = f"{path}, row {number}"
        cells = [cell.strip() for cell in line.split("\t")]
        if len(cells) != CELLS:
            raise UserError(
                f"{where}: has {len(cells)} cell{'s' * (len(cells) != 1)}, not the {CELLS} of "
                "V-WSD: a word, its phrase and ten images, with tabs between them."
            )
        word, phrase, *images = cells
        expected = best[count - 1] if count <= len(best) else ""
        if expected and expected not in images:
            raise UserError(
                f"{gold}: item {count}, '{expected}', is not an image of '{phrase}' in {where}.",
                "gold",
            )
        row = {"word": word, "compound": phrase, "expected_item": expected}
        yield number, row | {"candidates": [{"image": image} for image in images]}
    if gold and count != len(best):
        raise UserError(f"{gold}: names {len(best)} images, but {path} has {count} items.", "gold")


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Read the lines that are not empty, numbered."""
    with open_text(path) as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield number, line.strip("\r\n ")
