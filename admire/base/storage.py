"""On disk: files and folders that appear whole, one writer at a time, the cache directory."""

from __future__ import annotations

import glob
import hashlib
import json
import logging
import os
import platform
import re
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

import platformdirs

from admire.base.errors import UserError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

log = logging.getLogger("admire")


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
    deleted last; if the process dies between, the old one comes back at the next call. Of several
    processes at the same time each writes a folder of its own, and the last one's stays.

    Args:
        what: what is written, "index" say; it stands in the marker and in messages.

    Raises:
        UserError: ``folder`` may not be replaced, or cannot be written.
    """
    check_folder(folder, what)
    folder = folder.resolve()
    part = folder.with_name(f".{folder.name}.{uuid4().hex[:8]}.admire-part")
    held = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _turn(folder.parent) as locked:
            if locked:
                _drop_deserted(folder)
            part.mkdir()
            held = _lock(part)
        yield part
        take_place(part, folder, what)
    except OSError as error:
        raise unwritable(folder, error) from error
    except UserError as error:
        raise UserError(str(error).replace(str(part), str(folder)), *error.settings) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
        if held is not None:
            os.close(held)


def _drop_deserted(folder: Path) -> None:
    """Remove what processes that died left of folders that they were writing."""
    for part in folder.parent.glob(f".{glob.escape(folder.name)}.*admire-part"):
        with suppress(BlockingIOError):  # else another process is writing it
            held = _lock(part)
            shutil.rmtree(part, ignore_errors=True)
            if held is not None:
                os.close(held)


def take_place(part: Path, folder: Path, what: str) -> None:
    """Let a complete folder take the place of ``folder``, as :func:`replace_folder` does.

    Raises:
        UserError: ``folder`` may not be replaced, or cannot be written.
    """
    folder = folder.resolve()
    old = _old(folder)
    mark_folder(part, what)
    try:
        with _turn(folder.parent):
            _restore(folder)
            _refuse(folder, what, _not_ours(folder, what))  # put there meanwhile
            if folder.exists():
                shutil.rmtree(old, ignore_errors=True)  # of a process that died before it could
                folder.rename(old)
            try:
                part.rename(folder)
            except BaseException:
                _restore(folder)
                raise
            shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise unwritable(folder, error) from error


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
    settle(folder)
    _refuse(folder, what, _not_ours(folder, what))


def _refuse(folder: Path, what: str, others: list[str]) -> None:
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
    settle(folder)
    _not_ours(folder, what)


def _not_ours(folder: Path, what: str) -> list[str]:
    """What somebody else has put into a folder that admire wrote; refuses any other folder."""
    folder = folder.resolve()
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
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
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
    damaged = (ValueError, KeyError, TypeError, RecursionError)
    with suppress(OSError, *damaged), _turn(marker.parent):
        # If there is no such file or it is damaged, the folder is not admire's.
        known = json.loads(marker.read_text(encoding="utf-8"))
        known["holds"] = sorted({*known["holds"], file.name})
        with write_whole(marker) as written:
            json.dump(known, written)


def _names(folder: Path) -> list[str]:
    """What lies in a folder, without partial files."""
    return [path.name for path in folder.iterdir() if not PARTIAL.fullmatch(path.name)]


def _old(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.admire-old")


def settle(folder: Path) -> None:
    """Wait while another process replaces the folder; give the old one its name back if that one
    died between its two renames."""
    folder = folder.resolve()
    with suppress(OSError):
        if not folder.exists() and (_old(folder) / MARKER).is_file():
            with _turn(folder.parent):
                _restore(folder)


def _restore(folder: Path) -> None:
    """As :func:`settle`, where no other process can be at it."""
    with suppress(OSError):
        if (_old(folder) / MARKER).is_file() and not folder.exists():
            _old(folder).rename(folder)


# ---------------------------------------------------------------------------- one process at a time


PATIENCE = 60.0
"""How many seconds to wait for another process where that can only take a moment."""


def _lock(folder: Path) -> int | None:
    """Lock a folder for this process, without a file; closing what is returned ends the lock.

    None where the file system has no such locks, as NFS.

    Raises:
        BlockingIOError: another process has it.
    """
    if fcntl is None:
        return None
    held = None
    try:
        held = os.open(folder, os.O_RDONLY)
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if held is not None:
            os.close(held)
        if isinstance(error, BlockingIOError):
            raise
        return None
    return held


@contextmanager
def _turn(folder: Path) -> Iterator[bool]:
    """Keep other processes out of a block of some milliseconds that renames things in a folder.

    Yields whether it does: on a file system without locks nothing is kept out, and of two
    processes that replace a folder at the same moment one may find that it cannot be written.
    """
    until = time.monotonic() + PATIENCE
    while True:
        try:
            held = _lock(folder)
            break
        except BlockingIOError:
            if time.monotonic() > until:
                raise UserError(
                    f"{folder}: another process is renaming things in it, and does not end. Try "
                    "again when it has ended."
                ) from None
            time.sleep(0.005)
    try:
        yield held is not None
    finally:
        if held is not None:
            os.close(held)


@contextmanager
def only_writer(place: Path) -> Iterator[None]:
    """Refuse to write to a place while another process does, in a block that takes long.

    The lock lies in the cache directory, so that nothing is put beside what is written. Processes
    with another cache directory do not see it.

    Raises:
        UserError: another process writes there, or the cache directory cannot hold locks.
    """
    name = hashlib.sha256(str(place.resolve()).encode()).hexdigest()[:32]
    with alone(cache_dir() / "locks" / f"{name}.sqlite", f"writing to {place}", patience=0):
        yield


@contextmanager
def only_holder(folder: Path) -> Iterator[None]:
    """Let one process at a time into a block that writes to this folder, whatever its cache is.

    Where the file system has no such locks, as NFS, all are let in.

    Raises:
        UserError: another process is in the block.
    """
    try:
        held = _lock(folder)
    except BlockingIOError:
        raise _at_work(f"writing to {folder}") from None
    try:
        yield
    finally:
        if held is not None:
            os.close(held)


@contextmanager
def alone(path: Path, what: str, patience: float = PATIENCE) -> Iterator[None]:
    """Keep other processes out of a block; the lock ends with the process, however that ends.

    Args:
        path: a file for the lock, of no other use. A note beside it says who has the lock.
        what: what another process is doing, for the message.
        patience: how many seconds to wait for it.

    Raises:
        UserError: another process is in the block for longer, or the file cannot be locked, as on
            some network file systems.
    """
    note = path.with_suffix(".txt")
    lock = _locked(path, what, patience, note)
    try:
        with suppress(OSError):
            since = time.strftime("%Y-%m-%d %H:%M")
            note.write_text(f" (process {os.getpid()} on {platform.node()}, since {since})")
        yield
    finally:
        with suppress(OSError):
            note.unlink()
        lock.close()


def _locked(path: Path, what: str, patience: float, note: Path) -> sqlite3.Connection:
    lock = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = sqlite3.connect(path, timeout=patience, isolation_level=None)
        # Of two that begin an exclusive one at the same moment, both may be refused.
        lock.execute("BEGIN IMMEDIATE")
    except (sqlite3.Error, OSError) as error:
        if lock:
            lock.close()
        if is_busy(error):
            who = ""
            with suppress(OSError, ValueError):
                who = note.read_text()
            raise _at_work(f"{what}{who}") from None
        raise UserError(
            f"{path}: cannot be locked ({error}). Free space, remove the file, or set ADMIRE_CACHE "
            "to a folder on a disk of this machine."
        ) from error
    return lock


def _at_work(what: str) -> UserError:
    return UserError(
        f"Another run is {what}. Try again when it has ended, or choose another place."
    )


def is_busy(error: Exception) -> bool:
    """Whether SQLite tells that another process has the lock."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
