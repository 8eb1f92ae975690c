"""Dictionaries in files: Wiktionary's as on kaikki.org, read once into an index; your own table."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import sqlite3
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel

from admire.core.errors import UserError
from admire.core.files import numbered_rows, read_table
from admire.core.progress import show_progress
from admire.core.schema import Text, read_as
from admire.core.storage import (
    cache_dir,
    file_sha256,
    only_writer,
    open_file,
    partial_of,
    unwritable,
)
from admire.data.limits import LIMITS, limited, without_invalid
from admire.senses.dictionaries.entries import GLOSS, Entry, code_of, key_of
from admire.senses.sense_table import LanguageTag

VERSION = 1  #: the version of the index; other versions are rebuilt
EXAMPLES = 3  #: maximum number of examples of a sense
PATIENCE = 3600.0  #: seconds to wait for another process that builds the same index
POINTERS = frozenset({"alt-of", "form-of", "no-gloss"})
"""Tags of senses that only point to another word."""
POINTING = "used other than figuratively or idiomatically"
"""Beginnings of glosses that only point to the expression's own words."""


class _Example(BaseModel, strict=True):
    text: str = ""


class _Sense(BaseModel, strict=True):
    glosses: list[str] = []
    tags: list[str] = []
    examples: list[_Example] = []
    alt_of: object = None
    form_of: object = None


class _Word(BaseModel, strict=True):
    word: str = ""
    lang_code: str = ""
    pos: str = ""
    senses: list[_Sense] = []


class Kaikki:
    """A file of JSON lines with word, lang_code, pos and senses; ``.gz`` if it is compressed.

    It is read into an index in the cache directory, and again when its size or time have changed.
    """

    def __init__(self, path: Path):
        self.name = f"kaikki:{path}"
        name = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:32]
        self._index = cache_dir().resolve() / "dictionaries" / f"{name}.sqlite"
        stat = path.stat()
        stamp = f"{VERSION} {stat.st_size} {stat.st_mtime_ns}"
        about = self._about(stamp)
        if about is None:
            with only_writer(self._index, wait=PATIENCE):
                about = self._about(stamp)
                if about is None:
                    partial = partial_of(self._index)
                    try:
                        partial.parent.mkdir(parents=True, exist_ok=True)
                        partial.unlink(missing_ok=True)
                        with closing(sqlite3.connect(partial, isolation_level=None)) as database:
                            about = _fill(database, path, stamp)
                        os.replace(partial, self._index)
                    except (sqlite3.Error, OSError) as error:
                        raise unwritable(self._index, error) from error
                    finally:
                        partial.unlink(missing_ok=True)
        digest, languages = about
        self.identity = f"kaikki:{digest}"
        self.languages = frozenset(languages.split())
        self._database = _connect(self._index)
        self._lock = threading.Lock()

    def _about(self, stamp: str) -> tuple[str, str] | None:
        """Return the digest of the index's content, and its languages; None without an index."""
        query = "SELECT digest, languages FROM about WHERE stamp = ?"
        with suppress(sqlite3.Error), closing(_connect(self._index)) as database:
            row: tuple[str, str] | None = database.execute(query, (stamp,)).fetchone()
            return row
        return None

    def entries(self, key: str, language: str) -> Sequence[Entry]:
        """See :class:`Dictionary`."""
        query = "SELECT word, part, senses FROM words WHERE key = ? AND language = ? ORDER BY rowid"
        with self._lock:
            rows = self._database.execute(query, (key, language)).fetchall()
        return [
            Entry(word, gloss, self.name, part, tuple(tags), tuple(examples))
            for word, part, senses in rows
            for gloss, tags, examples in json.loads(senses)
        ]


def _connect(index: Path) -> sqlite3.Connection:
    address = f"{index.as_uri()}?mode=ro&immutable=1"  # it is never changed, only replaced
    return sqlite3.connect(address, uri=True, check_same_thread=False)


def _fill(database: sqlite3.Connection, path: Path, stamp: str) -> tuple[str, str]:
    digest, languages = hashlib.sha256(), set()
    for command in (
        "PRAGMA journal_mode = OFF",  # the file is used after it is renamed
        "PRAGMA synchronous = OFF",
        "CREATE TABLE about (stamp TEXT, digest TEXT, languages TEXT)",
        "CREATE TABLE words (key TEXT, language TEXT, word TEXT, part TEXT, senses TEXT)",
        "BEGIN",
    ):
        database.execute(command)
    for row, line in _lines(path):
        digest.update(line)
        word = read_as(_Word, line, f"{path}, row {row}") if line.strip() else _Word()
        # No item has a longer compound.
        key = key_of(word.word) if len(word.word) <= LIMITS["compound"] else ""
        language = code_of(word.lang_code)
        senses = [*filter(None, map(_shorten, word.senses))]
        if key and language and senses:
            languages.add(language)
            cells = key, language, word.word, word.pos, json.dumps(senses, ensure_ascii=False)
            database.execute("INSERT INTO words VALUES (?, ?, ?, ?, ?)", cells)
    if not languages:
        raise UserError(
            f"{path}: contains no words with glosses. Use wiktextract's JSON lines.", "dictionaries"
        )
    database.execute("CREATE INDEX by_key ON words (key, language)")
    about = digest.hexdigest(), " ".join(sorted(languages))
    database.execute("INSERT INTO about VALUES (?, ?, ?)", (stamp, *about))
    database.execute("COMMIT")
    return about


def _shorten(sense: _Sense) -> tuple[str, list[str], list[str]] | None:
    """Return a sense's gloss, tags and examples, cut; None if it only points to other words."""
    tags = [tag.lower() for tag in sense.tags]
    gloss = without_invalid(sense.glosses[-1]).strip() if sense.glosses else ""  # the narrowest
    points = sense.alt_of or sense.form_of or POINTERS & set(tags)
    if points or not gloss or gloss.lower().startswith(POINTING):
        return None
    examples = [example.text[:GLOSS] for example in sense.examples if example.text][:EXAMPLES]
    return gloss[:GLOSS], tags, examples


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file with their numbers; progress is shown."""
    row, zipped = 0, path.suffix.lower() == ".gz"
    try:
        with open_file(path) as raw, gzip.open(raw) if zipped else raw as file:
            size = os.fstat(raw.fileno()).st_size
            ends = [*(size * hundredth // 100 for hundredth in range(1, 100)), size + 1]
            for end in show_progress(ends, f"Indexing {path.name}"):
                while raw.tell() < end and (line := file.readline()):
                    row += 1
                    yield row, line.removeprefix(b"\xef\xbb\xbf") if row == 1 else line
    except (OSError, EOFError, zlib.error) as error:
        message = f"{path}, row {row + 1}: cannot be read ({error})."
        raise UserError(message, "dictionaries") from None


class _Row(BaseModel, strict=True):
    expression: Annotated[Text, *limited("compound")]
    language: LanguageTag
    sense: Literal["idiomatic", "literal", ""]
    gloss: Text


class Glossary:
    """A table with the columns expression, language, sense (which may be empty) and gloss."""

    def __init__(self, path: Path):
        self.name = f"glossary:{path}"
        self._entries: dict[tuple[str, str], list[Entry]] = {}
        for number, cells in numbered_rows(read_table(path, _Row.model_fields)):
            row = read_as(_Row, cells, f"{path}, row {number}")
            key = code_of(row.language), key_of(row.expression)
            tags = (row.sense,) if row.sense else ()
            gloss = without_invalid(row.gloss).strip()[:GLOSS]
            entry = Entry(row.expression.strip(), gloss, self.name, tags=tags)
            self._entries.setdefault(key, []).append(entry)
        self.languages = frozenset(language for language, _ in self._entries)
        self.identity = f"glossary:{file_sha256(path)}"

    def entries(self, key: str, language: str) -> Sequence[Entry]:
        """See :class:`Dictionary`."""
        return self._entries.get((language, key), ())
