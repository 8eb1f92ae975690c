"""Looking for secrets where none may be: in files, in what was printed and logged, in messages.

with Watch() as watch:
    … what a test does …
assert watch.leaks(folders) == []
"""

from __future__ import annotations

import base64
import gzip
import io
import logging
import sqlite3
import traceback
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from chats import KEY, PASSWORD, TOKEN

from admire.base.errors import UserError

SECRETS = (KEY, PASSWORD, TOKEN)
SHOWN = 8
"""So much of a secret's beginning is too much to be shown."""


class Watch(logging.Handler):
    """What is logged, raised as UserError, or taken from pytest's capture while it is entered."""

    def __enter__(self) -> Watch:
        self._texts: list[tuple[str, str]] = []
        self._errors: list[UserError] = []
        self._patch = pytest.MonkeyPatch()
        raised, taken = UserError.__init__, pytest.CaptureFixture.readouterr

        def note_error(error: UserError, *arguments: Any) -> None:
            raised(error, *arguments)
            self._errors.append(error)

        def note_output(capture: pytest.CaptureFixture) -> Any:
            found = taken(capture)
            self._texts += [("stdout", str(found.out)), ("stderr", str(found.err))]
            return found

        self._patch.setattr(UserError, "__init__", note_error)
        self._patch.setattr(pytest.CaptureFixture, "readouterr", note_output)
        logging.getLogger().addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger().removeHandler(self)
        self._patch.undo()

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == "werkzeug":  # a test's server, which was given the address
            return
        said = [str(record.msg), record.getMessage(), repr(record.args)]
        if record.exc_info:
            said += traceback.format_exception(*record.exc_info)
        self._texts.append((f"the log of {record.name}", "\n".join(said)))

    def leaks(self, folders: Iterable[Path], secrets: Iterable[str] = SECRETS) -> list[str]:
        """Where secrets were found, one line each."""
        told = [(where, text.encode(errors="replace")) for where, text in self._texts]
        told += [("an error", _all_of(error).encode(errors="replace")) for error in self._errors]
        files = [path for one in folders for path in one.rglob("*") if path.is_file()]
        told += [found for path in files for found in _contents(str(path), path.read_bytes(), path)]
        wanted = {form for secret in secrets for form in forms(secret)}
        return [
            f"{where}: {form.decode()}"
            for where, content in told
            for form in sorted(wanted)
            if form in content
        ]


def forms(secret: str) -> set[bytes]:
    """A secret as it is, its beginning, and as headers, addresses and dumps write it."""
    raw = secret.encode()
    found = {raw, raw[:SHOWN], quote(secret, safe="").encode(), quote_plus(secret).encode()}
    found.add(raw.hex().encode())
    for before in range(3):  # base64, wherever it begins, as in "Basic base64(user:password)"
        coded = base64.b64encode(b"\0" * before + raw)
        found.add(coded[-(-before * 8 // 6) :].rstrip(b"=")[:-1])
    return found


def _all_of(error: BaseException | None) -> str:
    """What a traceback shows of an error and those that led to it, but no lines of source."""
    said, seen = [], set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        said += [str(error), repr(error), *getattr(error, "__notes__", [])]
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "\n".join(said)


def _contents(name: str, content: bytes, path: Path | None = None) -> Iterator[tuple[str, bytes]]:
    """A file's bytes; the values of a database and the members of an archive, too."""
    yield name, content
    if path and content.startswith(b"SQLite format 3"):  # long values lie in pieces
        with suppress(sqlite3.Error), sqlite3.connect(path) as database:
            tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            for (table,) in tables.fetchall():
                for row in database.execute(f'SELECT * FROM "{table}"'):
                    values = [value if isinstance(value, bytes) else str(value) for value in row]
                    for value in values:
                        yield (
                            f"{name}, table {table}",
                            value if isinstance(value, bytes) else value.encode(errors="replace"),
                        )
    elif content.startswith(b"PK\x03\x04"):
        with suppress(zipfile.BadZipFile), zipfile.ZipFile(io.BytesIO(content)) as archive:
            for member in archive.namelist():
                yield from _contents(f"{name}/{member}", archive.read(member))
    elif content.startswith(b"\x1f\x8b"):
        with suppress(OSError, EOFError):
            yield from _contents(f"{name}, unpacked", gzip.decompress(content))
