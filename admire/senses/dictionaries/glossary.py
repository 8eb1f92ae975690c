"""A table with expressions, senses and glosses, as a dictionary."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel

from admire.core.files import numbered_rows, read_table
from admire.core.schema import Text, read_as
from admire.core.storage import open_file
from admire.data.limits import Limit, without_invalid
from admire.senses.dictionaries.entries import GLOSS, Entry, code_of, key_of
from admire.senses.sense import LanguageTag


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
