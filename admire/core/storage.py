"""On disk: files that are read, files and folders that appear whole, one writer at a time."""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import re
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import platformdirs

from admire.core.errors import UserError

log = logging.getLogger("admire")

PATIENCE = 60.0  #: how many seconds to wait for another process where that can only take a moment


def cache_dir() -> Path:
    """Return the user's cache directory for admire; ``ADMIRE_CACHE`` overrides it."""
    return Path(os.environ.get("ADMIRE_CACHE") or platformdirs.user_cache_dir("admire"))


def file_sha256(path: Path) -> str:
    """Return a file's SHA-256."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def open_file(path: Path) -> BufferedReader:
    """Open a file of the user's in binary mode; a UserError if it cannot be read."""
    try:
        return split_sheet(path)[0].open("rb")
    except (OSError, ValueError) as error:  # ValueError: a NUL in a name from a file
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{path}: cannot be read ({reason}).") from None


def split_sheet(path: Path) -> tuple[Path, str]:
    """Return the file and the sheet of ``set.xlsx#Sheet``; any other path, and no sheet."""
    parts = re.fullmatch(r"(.+\.xlsx)#(.+)", str(path), re.IGNORECASE | re.DOTALL)
    return (Path(parts[1]), parts[2]) if parts and not os.path.lexists(path) else (path, "")


def suffix_of(path: Path) -> str:
    """Return a file's suffix in lower case; that of ``set.XLSX#Sheet`` is ``.xlsx``."""
    return split_sheet(path)[0].suffix.lower()


def unwritable(path: Path, error: Exception) -> UserError:
    """Return the error of a file or folder that cannot be written."""
    reason = getattr(error, "strerror", None) or error
    return UserError(
        f"{path}: cannot be written ({reason}). Free space on the disk or choose another place."
    )


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def writing(path: Path, only: Collection[int] = ()) -> Iterator[None]:
    """Turn the errors of writing, or only those with these numbers, into a UserError."""
    try:
        yield
    except OSError as error:
        if only and (error.errno not in only or error.filename):
            raise
        raise unwritable(path, error) from error


def check_place(path: Path) -> None:
    """Refuse a place where :func:`write_whole` could not write a file; call it before long work."""
    if os.path.exists(path) and not os.path.isfile(path):  # a device would be replaced
        raise UserError(f"{path}: is a folder or device. Name the file to write.", "out")
    with writing(path):
        _try_place(partial_of(path))


def _try_place(place: Path) -> None:
    """Raise OSError where no file or folder of this name can be made.

    A folder of this name is made in a temporary one, which shows a read-only disk, a name that is
    too long and missing permission.
    """
    place = Path(os.path.abspath(place))
    above = next(filter(os.path.lexists, place.parents))
    with TemporaryDirectory(prefix=".admire-", dir=above, ignore_cleanup_errors=True) as trial:
        (Path(trial) / place.relative_to(above)).mkdir(parents=True)


@contextmanager
def only_writer(place: Path, wait: float = 0.0) -> Iterator[None]:
    """Keep other commands from writing to a file or folder while this block does.

    A thread may enter again for the same place. The lock ends with the process, however that ends.
    It is in the cache directory; commands with another cache directory do not see it.

    Raises:
        UserError: another command is writing there, also after ``wait`` seconds, or the cache
            directory cannot be written.
    """
    from filelock import FileLock, Timeout

    name = hashlib.sha256(os.fsencode(os.path.realpath(place))).hexdigest()[:32]
    path = cache_dir() / "locks" / f"{name}.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path, is_singleton=True).acquire(timeout=wait)
    except Timeout:
        raise UserError(
            f"{place}: another admire process is writing here. Wait for it to finish, or "
            "choose another place.",
            "out",
        ) from None
    except OSError as error:
        raise UserError(
            f"{path}: cannot be locked ({error.strerror or error}). Free space, or set "
            "ADMIRE_CACHE to a folder on a disk of this machine."
        ) from error
    with lock:
        yield


def partial_of(path: Path, suffix: str = "part") -> Path:
    """Return the hidden file beside ``path`` that is written first, and renamed once complete."""
    return path.with_name(f".{path.name}.{suffix}")


@contextmanager
def write_whole(path: Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a file beside ``path`` for writing and rename it to ``path`` once it is complete.

    If anything fails on the way, ``path`` is left as it was. What a killed process leaves beside it
    is overwritten by the next one.

    Raises:
        UserError: it cannot be written. Other errors of the block are raised as they are.
    """
    partial = partial_of(path)
    options: Any = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(partial, mode, **options)  # noqa: SIM115  closed below
    try:
        with writing(path, only=FULL):
            yield file
        with writing(path):
            file.flush()
            os.fsync(file.fileno())
            file.close()
            os.replace(partial, path)
    finally:
        for clean_up in (file.close, partial.unlink):
            with suppress(OSError):
                clean_up()


def check_file(path: Path, mark: str, *, force: bool = False) -> None:
    """Refuse to replace a file that admire did not write, unless ``force`` says so.

    Args:
        mark: what a file of this kind that admire wrote has in its first or last kilobyte.

    Raises:
        UserError: the file is another one, no file, or cannot be read or written.
    """
    check_place(path)
    if not path.exists():
        return
    with open_file(path) as file:
        ends = file.read(1024)
        file.seek(max(0, path.stat().st_size - 1024))
        ends += file.read()
    if ends and mark.encode() not in ends and not force:
        raise UserError(
            f"{path}: admire did not write this file. Choose another place, or let it be replaced.",
            "force",
        )


MARKER = ".admire.json"
"""The file by which admire recognises a folder that it wrote: its kind, and what it holds."""


@contextmanager
def replace_folder(folder: Path, kind: str) -> Iterator[Path]:
    """Yield a new folder to write into, which takes the place of ``folder`` when it is complete.

    If anything fails on the way, ``folder`` is left as it was. What a killed process leaves beside
    it is removed by the next one. The kind, such as "index", is in the marker and in messages.

    Raises:
        UserError: :func:`check_folder` refuses it, it cannot be written, or is being written. Other
            errors of the block are raised as they are.
    """
    check_folder(folder, kind)
    folder = Path(os.path.realpath(folder))
    part, old = partial_of(folder, "admire-part"), partial_of(folder, "admire-old")
    with only_writer(folder):
        try:
            with writing(folder):
                shutil.rmtree(part, ignore_errors=True)
                part.mkdir(parents=True)
            with writing(folder, only=FULL):
                yield part
            with writing(folder):
                mark_folder(part, kind, _names(part))
                check_folder(folder, kind)  # something may have been put there meanwhile
                gone = " and ".join(sorted(_names(folder) - _names(part)))
                shutil.rmtree(old, ignore_errors=True)
                if folder.exists():
                    folder.rename(old)
                part.rename(folder)
                shutil.rmtree(old, ignore_errors=True)
                if gone:
                    log.info("%s: replaced the %s before it, with its %s.", folder, kind, gone)
        except UserError as error:
            raise UserError(str(error).replace(str(part), str(folder)), *error.settings) from error
        finally:
            shutil.rmtree(part, ignore_errors=True)


def _names(folder: Path) -> set[str]:
    return set(os.listdir(folder)) if folder.exists() else set()


def check_folder(folder: Path, kind: str, *, adding: bool = False) -> None:
    """Refuse to replace a folder that admire did not write, or where nothing can be written.

    An empty folder, and one of this kind that has only what admire wrote, may be replaced.

    Args:
        adding: files are only added, so what admire wrote may contain others.

    Raises:
        UserError: it is another one; the message names what is in the way.
    """
    folder = Path(os.path.realpath(folder))
    try:
        adds = adding and folder.is_dir()
        _try_place(folder / MARKER if adds else partial_of(folder, "admire-part"))
        is_file = os.path.lexists(folder) and not folder.is_dir()
        reason = "is a file" if is_file else _why_kept(folder, kind, adding)
    except (OSError, ValueError) as error:  # a ValueError: no name is beside the root
        reason = f"cannot be written ({getattr(error, 'strerror', None) or error})"
    if reason:
        raise UserError(f"{folder}: {reason}. Choose another place for the {kind}.", "out")


def describe_other(path: Path, kind: str, command: str) -> str:
    """Return the message about a path that is not the folder that a command writes."""
    state = "is a file" if path.is_file() else "does not exist"
    if path.is_dir():
        state = f"contains no {kind}"
        with suppress(*DAMAGED):
            state = f"contains a {_read_marker(path)['what']}"
    return f"{path}: {state}. A {kind} is the folder that {command} writes."


def _why_kept(folder: Path, kind: str, adding: bool) -> str:
    """Return what in a folder must not be lost; empty if there is nothing."""
    names = sorted(_names(folder) - {partial_of(folder / MARKER).name})
    if not names:
        return ""
    if MARKER not in names:
        return f"admire did not write this folder, and it contains '{names[0]}'"
    try:
        marker = _read_marker(folder)
        wrote, holds = str(marker["what"]), {MARKER, *map(str, marker["holds"])}
    except DAMAGED:
        return f"its {MARKER} is damaged, so it may contain other files"
    if wrote != kind:
        return f"contains a {wrote}"
    holds |= {partial_of(folder / name).name for name in holds}
    if adding or holds.issuperset(names):
        return ""
    other = next(name for name in names if name not in holds)
    return f"contains '{other}', which admire did not write. Move it"


DAMAGED = (UserError, OSError, ValueError, KeyError, TypeError, RecursionError)
"""What a marker raises that is missing or damaged."""


def _read_marker(folder: Path) -> Any:
    with open_file(folder / MARKER) as file:
        return json.load(file)


def mark_folder(folder: Path, kind: str, holds: Iterable[str]) -> None:
    """Write the marker of a folder that admire writes, and that will hold these files."""
    with write_whole(folder / MARKER) as file:
        json.dump({"what": kind, "holds": sorted(holds)}, file)


def note_addition(file: Path) -> None:
    """Enter a file into the marker of a folder of admire's, before it is written.

    So the folder can be replaced, and the file with it.
    """
    try:
        folder = Path(os.path.realpath(file)).parent
        content = _read_marker(folder)
        kind, holds = content["what"], {*content["holds"], file.name}
    except DAMAGED:  # then the folder is not admire's
        return
    mark_folder(folder, kind, holds)
