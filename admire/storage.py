"""On disk: the cache directory, caches that survive a kill, files that appear whole."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import platformdirs

from admire.errors import UserError


def cache_dir() -> Path:
    """The user's cache directory for admire; ``ADMIRE_CACHE`` overrides it."""
    return Path(os.environ.get("ADMIRE_CACHE") or platformdirs.user_cache_dir("admire"))


@contextmanager
def write_whole(path: Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a file beside ``path`` for writing and rename it to ``path`` once it is complete.

    If anything fails on the way, the disk being full included, ``path`` is left as it was.

    Raises:
        UserError: the folder cannot be made or written to, or the disk is full.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    binary = "b" in mode
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(
            partial, mode, encoding=None if binary else "utf-8", newline=None if binary else ""
        ) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        raise UserError(
            f"{path}: cannot be written ({error.strerror or error}). "
            "Free space on the disk or choose another place."
        ) from error
    finally:
        with suppress(OSError):
            partial.unlink()


class Cache:
    """A table from keys to bytes in one SQLite file, written through at once.

    An entry is either there whole or not there, whenever the process dies. Threads of one process
    share a connection; several processes may use the file at the same time.

    SQLite from the standard library rather than diskcache: values stay plain bytes (no pickle is
    ever read back) and nothing is evicted.
    """

    def __init__(self, path: Path):
        self.path = path
        self._lock = threading.Lock()
        with self._reporting():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(
                path, timeout=60, check_same_thread=False, isolation_level=None
            )
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY, value BLOB)"
            )

    def get(self, key: str) -> bytes | None:
        with self._reporting(), self._lock:
            row = self._db.execute("SELECT value FROM entries WHERE key = ?", (key,)).fetchone()
        return None if row is None else row[0]

    def put(self, key: str, value: bytes) -> None:
        self.put_all({key: value})

    def put_all(self, entries: Mapping[str, bytes]) -> None:
        """Put all of them, or none where the process dies on the way."""
        with self._reporting(), self._lock, self._db:
            self._db.execute("BEGIN")
            self._db.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?)", entries.items())

    def __len__(self) -> int:
        with self._reporting(), self._lock:
            return int(self._db.execute("SELECT COUNT(*) FROM entries").fetchone()[0])

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
