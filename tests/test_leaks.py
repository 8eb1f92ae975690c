"""The scan that follows every test with a server: it finds what leaks."""

from __future__ import annotations

import base64
import gzip
import logging
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest
from chats import KEY, PASSWORD
from leaks import Watch

from admire.base.errors import UserError
from admire.base.storage import cache_dir

pytest_plugins = ["pytester"]
log = logging.getLogger("admire")
ODD = "sk/of+a=test&more"


def raises(folder: Path) -> None:
    try:
        raise ValueError(f"Incorrect API key: {KEY}")
    except ValueError as error:
        UserError("no").__cause__ = error


def notes(folder: Path) -> None:
    UserError("no").add_note(f"asked with {KEY[:9]}…")


def logs_an_error(folder: Path) -> None:
    try:
        raise ValueError(KEY)
    except ValueError:
        log.warning("no", exc_info=True)


def keeps(folder: Path) -> None:
    """So that the key lies across two pages of the database, and is in no place as a whole."""
    path = folder / "replies.sqlite"
    for before in range(460, 490, 4):
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("CREATE TABLE entries (key TEXT PRIMARY KEY, value BLOB)")
            value = b"x" * before + KEY.encode() + b"x" * 4000
            database.execute("INSERT INTO entries VALUES ('k', ?)", [value])
        if KEY[:8].encode() not in path.read_bytes():
            return
    raise AssertionError("no such place was found")


def keeps_beside(folder: Path) -> None:
    """In the write-ahead log of a database that is still open, where what was removed stays."""
    database = sqlite3.connect(folder / "some.sqlite", isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("CREATE TABLE kept (text TEXT)")
    database.execute("INSERT INTO kept VALUES (?)", [KEY])
    database.execute("DELETE FROM kept")
    keeps_beside.open = database  # type: ignore[attr-defined]


def zips(folder: Path) -> None:
    with zipfile.ZipFile(folder / "run.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("run.json", f"{'x' * 99}{KEY}")


LEAKS: dict[str, Callable[[Path], object]] = {
    "printed": lambda folder: print(KEY),
    "logged": lambda folder: log.warning("asked %s", {"key": KEY}),
    "logged with its error": logs_an_error,
    "in a message": lambda folder: UserError(f"http://user:{PASSWORD}@host refused"),
    "in its cause": raises,
    "in a note": notes,
    "in a file": lambda folder: (folder / "run.json").write_text(f'{{"key": "{KEY}"}}'),
    "in a header": lambda folder: (folder / "log").write_bytes(
        b"Basic " + base64.b64encode(f"user:{PASSWORD}".encode())
    ),
    "in an address": lambda folder: (folder / "log").write_text(f"?key={quote(ODD, safe='')}&a"),
    "in a cache": keeps,
    "in its log": keeps_beside,
    "in an archive": zips,
    "packed": lambda folder: (folder / "log.gz").write_bytes(gzip.compress(KEY.encode())),
}


@pytest.mark.parametrize("leak", LEAKS)
def test_a_leak_is_found_wherever_it_is(tmp_path: Path, capsys, leak: str):
    with Watch() as watch:
        LEAKS[leak](tmp_path)
        log.warning("openai:tiny was asked")
        UserError("openai:tiny: http://host/v1 refused the key. Check OPENAI_API_KEY.")
        capsys.readouterr()
    assert watch.leaks([tmp_path, cache_dir()], [KEY, PASSWORD, ODD])
    assert watch.leaks([tmp_path, cache_dir()], ["sk-another-key"]) == []


def test_every_test_with_a_server_is_scanned(pytester: pytest.Pytester):
    """The fixture of conftest.py, at work in a session of its own."""
    pytester.makepyfile(
        """
        import os
        def test_leaks(strict, tmp_path):
            (tmp_path / "log").write_text(os.environ["OPENAI_API_KEY"])
        def test_says(httpserver, capsys):
            print(os.environ["OPENAI_API_KEY"])
        def test_is_clean(httpserver, tmp_path):
            (tmp_path / "log").write_text("openai:tiny")
        """
    )
    done = pytester.runpytest_inprocess("-p", "conftest", "-n", "0")
    done.assert_outcomes(passed=3, errors=2)
