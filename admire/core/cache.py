"""Caches that survive a kill; and what a process opens once and uses again, such as networks."""

from __future__ import annotations

import atexit
import os
import sqlite3
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from math import inf
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from admire.core.errors import UserError
from admire.core.storage import PATIENCE, cache_dir, only_writer

Thing = TypeVar("Thing")


class CacheError(UserError):
    """The cache cannot be used: it is damaged, or the disk is full."""


class Opened(Generic[Thing]):
    """The things that were used last, by key. Others end once nobody refers to them.

    Threads may share it. A forked process uses nothing that it inherits, whose threads are missing.

    Args:
        most: how many things stay open.
        works: whether a thing can still be used; otherwise it is opened again.
    """

    def __init__(self, most: int, works: Callable[[Thing], bool] = lambda thing: True):
        self._most, self._works = most, works
        self._things: OrderedDict[Hashable, Thing] = OrderedDict()
        self._process, self._inherited = os.getpid(), dict[Hashable, Thing]()
        self._lock = threading.Lock()

    def get(self, key: Hashable, open_thing: Callable[[], Thing]) -> Thing:
        """Return the thing with this key; open it if it is not open."""
        with self._lock:
            if self._process != os.getpid():
                self._inherited, self._things = self._things, OrderedDict()
                self._process = os.getpid()
            thing = self._things.pop(key, None)
            if thing is None or not self._works(thing):
                while len(self._things) >= self._most:
                    self._things.popitem(last=False)
                thing = open_thing()
            self._things[key] = thing
            return thing

    def clear(self) -> None:
        """Drop all things, so that others can use their memory."""
        with self._lock:
            self._things.clear()


TABLES = (
    "entries (key TEXT PRIMARY KEY, value BLOB)",
    "origins (key TEXT PRIMARY KEY, model TEXT, written REAL) WITHOUT ROWID",
)
"""The values, and for each the model and the time of writing (seconds since 1970)."""


class Share(NamedTuple):
    """What a cache holds of a model; times are those of :func:`time.time`."""

    entries: int
    bytes: int
    oldest: float
    newest: float


class Cache:
    """A table from keys to bytes in one SQLite file, written through at once.

    An entry is there whole or not at all, whenever the process dies. Threads share a connection;
    several processes may use the file. No pickle is ever read back, as diskcache would.

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
            for table in TABLES:
                self._db.execute(f"CREATE TABLE IF NOT EXISTS {table}")
            self._file = path.stat()

    def in_place(self) -> bool:
        """Return whether its file is still the one at its path."""
        with suppress(OSError):
            return os.path.samestat(self.path.stat(), self._file)
        return False

    def get(self, key: str) -> bytes | None:
        """Return the value; None if there is none, or another program put something else."""
        query = "SELECT value FROM entries WHERE key = ?"
        with self._reporting(), self._lock:
            row = self._db.execute(query, (key,)).fetchone()
        return row[0] if row and isinstance(row[0], bytes) else None

    def put(self, key: str, value: bytes, model: str) -> None:
        self.put_all({key: value}, model)

    def put_all(self, entries: Mapping[str, bytes], model: str) -> None:
        """Put all of them, or none where the process dies on the way."""
        origins = [(key, model, time.time()) for key in entries]
        with self._reporting(), self._lock, self._db:
            self._db.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?)", entries.items())
            self._db.executemany("INSERT OR REPLACE INTO origins VALUES (?, ?, ?)", origins)

    def by_model(self) -> dict[str, Share]:
        """Return what there is of each model."""
        sums = "COUNT(*), SUM(LENGTH(value)), MIN(written), MAX(written)"
        query = f"SELECT model, {sums} FROM entries JOIN origins USING (key) GROUP BY model"
        with self._reporting(), self._lock:
            return {model: Share(*values) for model, *values in self._db.execute(query)}

    def clear(self, model: str | None, before: float = inf) -> int:
        """Remove what is of a model, or of all, and older than a time; return how many entries."""
        chosen = (
            "key IN (SELECT key FROM origins "
            "WHERE written < :before AND (:model IS NULL OR model = :model))"
        )
        values = {"before": before, "model": model}
        with self._reporting(), self._lock:
            with self._db:
                count = self._db.execute(f"DELETE FROM entries WHERE {chosen}", values).rowcount
                self._db.execute(f"DELETE FROM origins WHERE {chosen}", values)
            self._db.execute("VACUUM")
        return count

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
            raise CacheError(
                f"{self.path}: the cache cannot be used ({error}). Free space, remove the file "
                "(what it held is asked for again), or set ADMIRE_CACHE to another folder."
            ) from error


_CACHES: Opened[Cache] = Opened(4, works=Cache.in_place)
atexit.register(_CACHES.clear)  # SQLite removes the files beside a database when it is closed


def open_cache(name: str) -> Cache:
    """Return the cache of this name in the cache directory, which a process opens once."""
    path = cache_dir() / name
    return _CACHES.get(path, partial(Cache, path))
