"""Caches that survive a kill."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from admire.base.errors import UserError
from admire.base.storage import PATIENCE, only_writer


class Cache:
    """A table from keys to bytes in one SQLite file, written through at once.

    An entry is either there whole or not there, whenever the process dies. Threads of one process
    share a connection; several processes may use the file at the same time. Values are plain bytes:
    no pickle is ever read back, as diskcache would.

    Raises (when it is opened and used):
        UserError: the file cannot be written, or is damaged.
    """

    def __init__(self, path: Path):
        self.path = path
        self._lock = threading.Lock()
        with self._reporting():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, timeout=PATIENCE, check_same_thread=False)
            with only_writer(path, wait=PATIENCE):  # SQLite waits for a table, not for this mode
                self._db.execute("PRAGMA journal_mode=WAL")
            # No entry waits for the disk: a power cut may cost the last ones, a kill none.
            self._db.execute("PRAGMA synchronous=NORMAL")
            table = "entries (key TEXT PRIMARY KEY, value BLOB)"
            self._db.execute(f"CREATE TABLE IF NOT EXISTS {table}")

    def get(self, key: str) -> bytes | None:
        with self._reporting(), self._lock:
            row = self._db.execute("SELECT value FROM entries WHERE key = ?", (key,)).fetchone()
        return None if row is None else bytes(row[0])

    def put(self, key: str, value: bytes) -> None:
        self.put_all({key: value})

    def put_all(self, entries: Mapping[str, bytes]) -> None:
        """Put all of them, or none where the process dies on the way."""
        with self._reporting(), self._lock, self._db:
            self._db.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?)", entries.items())

    def drop(self, key: str) -> None:
        with self._reporting(), self._lock, self._db:
            self._db.execute("DELETE FROM entries WHERE key = ?", (key,))

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise UserError(
                f"{self.path}: the cache cannot be used ({error}). Free space, remove the file "
                "(what it held is asked for again), or set ADMIRE_CACHE to another folder."
            ) from error
