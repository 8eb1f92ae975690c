"""On disk: the cache directory, caches that survive a kill, files and folders that appear whole."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
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

    If anything fails on the way, the disk being full included, ``path`` is left as it was. What a
    process leaves beside ``path`` that is killed is removed by the next that writes in the folder.

    Raises:
        UserError: the folder cannot be made or written to, or the disk is full.
    """
    partial = partial_of(path)
    binary = "b" in mode
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        drop_partials(path.parent)
        with open(
            partial, mode, encoding=None if binary else "utf-8", newline=None if binary else ""
        ) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        with suppress(OSError):
            partial.unlink()


PARTIAL = re.compile(r"\..+\.([0-9a-f]{8})-(\d+)\.part")


def partial_of(path: Path) -> Path:
    """The file beside ``path`` that this process writes to become it."""
    return path.with_name(f".{path.name}.{_here()}-{os.getpid()}.part")


@lru_cache(1024)
def drop_partials(folder: Path) -> None:
    """Remove, once in each process, partial files of processes that have died on this machine."""
    if os.name != "posix":  # elsewhere one cannot ask for a process without harm
        return
    with suppress(OSError):
        for path in folder.iterdir():
            found = PARTIAL.fullmatch(path.name)
            if found and found[1] == _here() and not _lives(int(found[2])):
                path.unlink()


def temporary_folder() -> Path:
    """A new temporary folder; those of processes that have died on this machine are removed."""
    place = Path(tempfile.gettempdir())
    if os.name == "posix":
        for path in place.glob(f"admire-{_here()}-*"):
            process = path.name.split("-")[2]
            if process.isdecimal() and not _lives(int(process)):
                shutil.rmtree(path, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"admire-{_here()}-{os.getpid()}-"))


@cache
def _here() -> str:
    """What tells the processes of this machine, or of this container, from others."""
    space = ""
    with suppress(OSError):
        space = os.readlink("/proc/self/ns/pid")
    return hashlib.sha256(f"{platform.node()} {space}".encode()).hexdigest()[:8]


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # it is another user's
        return True
    return True


MARKER = ".admire.json"
"""The file by which admire knows a folder that it wrote: what the folder is and what it holds."""


@contextmanager
def replace_folder(folder: Path, what: str) -> Iterator[Path]:
    """Yield a new folder to write into, which takes the place of ``folder`` when it is complete.

    Only a folder that :func:`check_folder` accepts is replaced. If anything fails on the way,
    ``folder`` is left as it was. The old folder is renamed before the new one gets its name, and
    deleted last; if the process dies between, the old one comes back at the next call.

    Args:
        what: what is written, "index" say; it stands in the marker and in messages.

    Raises:
        UserError: ``folder`` may not be replaced, or cannot be written.
    """
    check_folder(folder, what)
    folder = folder.resolve()
    part = folder.with_name(f".{folder.name}.admire-part")
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        yield part
        take_place(part, folder, what)
    except OSError as error:
        raise unwritable(folder, error) from error
    except UserError as error:
        raise UserError(str(error).replace(str(part), str(folder)), *error.settings) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def take_place(part: Path, folder: Path, what: str) -> None:
    """Let a complete folder take the place of ``folder``, as :func:`replace_folder` does.

    Raises:
        UserError: ``folder`` may not be replaced, or cannot be written.
    """
    folder = folder.resolve()
    old = _old(folder)
    mark_folder(part, what)
    check_folder(folder, what)  # somebody may have put a file there meanwhile
    try:
        if folder.exists():
            shutil.rmtree(old, ignore_errors=True)  # of a process that died before it could
            folder.rename(old)
        try:
            part.rename(folder)
        except BaseException:
            _restore(folder)
            raise
    except OSError as error:
        raise unwritable(folder, error) from error
    shutil.rmtree(old, ignore_errors=True)


def unwritable(path: Path, error: OSError) -> UserError:
    """What to tell where a file or folder cannot be written."""
    return UserError(
        f"{path}: cannot be written ({error.strerror or error}). "
        "Free space on the disk or choose another place."
    )


def check_folder(folder: Path, what: str) -> None:
    """Refuse a place where a folder would be lost that admire did not write.

    A place where nothing is, an empty folder, and a folder that admire wrote as ``what`` and that
    nobody has put other files into may be replaced.

    Raises:
        UserError: it is another one; the message names what is in the way.
    """
    others = _not_ours(folder, what)
    if others:
        raise UserError(
            f"{folder.resolve()}: holds '{others[0]}', which admire did not write. Move it, or "
            f"choose another place for the {what}.",
            "out",
        )


def check_addition(folder: Path, what: str) -> None:
    """As :func:`check_folder`, for a folder that files are added to and none taken from.

    So it does not matter if somebody has put other files into what admire wrote.

    Raises:
        UserError: as for :func:`check_folder`.
    """
    _not_ours(folder, what)


def _not_ours(folder: Path, what: str) -> list[str]:
    """What somebody else has put into a folder that admire wrote; refuses any other folder."""
    folder = folder.resolve()
    _restore(folder)
    try:
        if not folder.exists():
            return []
        if not folder.is_dir():
            raise UserError(f"{folder}: is a file. Choose another place for the {what}.", "out")
        there = sorted(_names(folder))
    except OSError as error:
        raise UserError(f"{folder}: cannot be read ({error.strerror or error}).", "out") from None
    if not there:
        return []
    if MARKER not in there:
        raise UserError(
            f"{folder}: admire did not write this folder, and it is not empty (it holds "
            f"'{there[0]}'). Choose another place for the {what}.",
            "out",
        )
    try:
        marker = json.loads((folder / MARKER).read_text(encoding="utf-8"))
        wrote, holds = str(marker["what"]), set(map(str, marker["holds"]))
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(
            f"{folder / MARKER}: is damaged, so nobody knows whether this folder may be replaced. "
            f"Choose another place for the {what}.",
            "out",
        ) from None
    if wrote != what:
        raise UserError(f"{folder}: holds a {wrote}. Choose another place for the {what}.", "out")
    return [name for name in there if name not in holds and name != MARKER]


def mark_folder(folder: Path, what: str, holds: Iterable[str] | None = None) -> None:
    """Write the marker: the folder is what it is said to be, and all in it is admire's own.

    Args:
        holds: names of files that it will have; None are those that it has.
    """
    if holds is None:
        holds = [name for name in _names(folder) if name != MARKER]
    with write_whole(folder / MARKER) as file:
        json.dump({"what": what, "holds": sorted(holds)}, file)


def note_addition(file: Path) -> None:
    """Put down a file as admire's own, if it lies in a folder that admire wrote.

    So the folder can be replaced, and the file with it. Call it before the file is written.

    Raises:
        UserError: the marker cannot be written.
    """
    marker = file.resolve().parent / MARKER
    with suppress(OSError, ValueError, KeyError, TypeError):  # no folder of admire's
        known = json.loads(marker.read_text(encoding="utf-8"))
        known["holds"] = sorted({*known["holds"], file.name})
        with write_whole(marker) as written:
            json.dump(known, written)


def _names(folder: Path) -> list[str]:
    """What lies in a folder, without partial files."""
    return [path.name for path in folder.iterdir() if not PARTIAL.fullmatch(path.name)]


def _old(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.admire-old")


def _restore(folder: Path) -> None:
    """Give the old folder its name back where a replacement ended between its two renames."""
    with suppress(OSError):
        if (_old(folder) / MARKER).is_file() and not folder.exists():
            _old(folder).rename(folder)


@contextmanager
def alone(path: Path, what: str, patience: float = 60) -> Iterator[None]:
    """Keep other processes out of a block; the lock ends with the process, however that ends.

    Args:
        path: a file for the lock, of no other use.
        what: what another process is doing, for the message.
        patience: how many seconds to wait for it.

    Raises:
        UserError: another process is in the block for longer.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = sqlite3.connect(path, timeout=patience, isolation_level=None)
    try:
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError:
            raise UserError(f"Another run is {what}. Try again when it has ended.") from None
        yield
    finally:
        lock.close()


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
            # No entry waits for the disk: a power cut may cost the last ones, a kill none.
            self._db.execute("PRAGMA synchronous=NORMAL")
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
