"""Caches that survive a kill, and notice what the disk has changed."""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from admire.base.errors import UserError
from admire.base.storage import PATIENCE, is_busy

log = logging.getLogger("admire")


class Cache:
    """A table from keys to bytes in one SQLite file, written through at once.

    An entry is either there whole or not there, whenever the process dies. Threads of one process
    share a connection; several processes may use the file at the same time.

    SQLite does not notice a byte that the disk has changed in a value. So each entry has a digest
    beside it, in a table of its own, which older versions of admire do not see. An entry that does
    not fit its digest is not there; nor is one without a digest, unless an older version has made
    the file.

    SQLite from the standard library rather than diskcache: values stay plain bytes (no pickle is
    ever read back) and nothing is evicted.
    """

    def __init__(self, path: Path):
        self.path = path
        self._warned = False
        self._lock = threading.Lock()
        with self._reporting():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(
                path, timeout=PATIENCE, check_same_thread=False, isolation_level=None
            )
            self._use_wal()
            # No entry waits for the disk: a power cut may cost the last ones, a kill none.
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._make_tables()
            self._all = self._db.execute("PRAGMA user_version").fetchone()[0] > 0

    def _use_wal(self) -> None:
        """Several processes may want it of a new file at once; for this SQLite does not wait."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                self._db.execute("PRAGMA journal_mode=WAL")
                return
            except sqlite3.OperationalError as error:
                if not is_busy(error) or time.monotonic() > until:
                    raise
                time.sleep(0.005)

    def _make_tables(self) -> None:
        """Make those that are missing; ``user_version`` is 1 where every entry has a digest."""
        there = "SELECT name FROM sqlite_master WHERE name IN ('entries', 'digests')"
        if len(self._db.execute(there).fetchall()) == 2:
            return
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            if not self._db.execute(there).fetchall():
                self._db.execute("PRAGMA user_version = 1")
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY, value BLOB)"
            )
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS digests (key TEXT PRIMARY KEY, digest BLOB) "
                "WITHOUT ROWID"
            )

    def get(self, key: str) -> bytes | None:
        with self._reporting(), self._lock:
            row = self._db.execute(
                "SELECT value, digest FROM entries LEFT JOIN digests USING (key) WHERE key = ?",
                (key,),
            ).fetchone()
        if row is None:
            return None
        value, digest = row
        of_older = digest is None and not self._all
        if isinstance(value, bytes) and (of_older or digest == _digest(key, value)):
            return value
        if not self._warned:
            self._warned = True
            log.warning(
                "%s: is damaged. What is not as it was written is computed or asked for again.",
                self.path,
            )
        return None

    def put(self, key: str, value: bytes) -> None:
        self.put_all({key: value})

    def put_all(self, entries: Mapping[str, bytes]) -> None:
        """Put all of them, or none where the process dies on the way."""
        with self._reporting(), self._lock, self._db:
            if not self.path.exists():  # SQLite would go on writing to what nobody can find
                raise FileNotFoundError("it was removed while it was used")
            self._db.execute("BEGIN")
            for key, value in entries.items():
                self._db.execute("INSERT OR REPLACE INTO entries VALUES (?, ?)", (key, value))
                digest = _digest(key, value)
                self._db.execute("INSERT OR REPLACE INTO digests VALUES (?, ?)", (key, digest))

    def __len__(self) -> int:
        with self._reporting(), self._lock:
            return int(self._db.execute("SELECT COUNT(*) FROM entries").fetchone()[0])

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:  # of a damaged schema
            raise UserError(
                f"{self.path}: the cache cannot be used ({error}). Free space, remove the file "
                "(what it held is asked for again), or set ADMIRE_CACHE to another folder."
            ) from error


def _digest(key: str, value: bytes) -> bytes:
    return hashlib.blake2b(key.encode() + b"\0" + value, digest_size=8).digest()
