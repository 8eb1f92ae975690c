"""On disk: files and folders that appear whole, one writer at a time, the cache directory."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import platformdirs

from admire.base.errors import UserError

log = logging.getLogger("admire")

PATIENCE = 60.0
"""How many seconds to wait for another process where that can only take a moment."""


def cache_dir() -> Path:
    """Return the user's cache directory for admire; ``ADMIRE_CACHE`` overrides it."""
    return Path(os.environ.get("ADMIRE_CACHE") or platformdirs.user_cache_dir("admire"))


def temporary_folder() -> Path:
    """Return a new temporary folder, which the caller removes."""
    return Path(tempfile.mkdtemp(prefix="admire-"))


def unwritable(path: Path, error: Exception) -> UserError:
    """Return the error of a file or folder that cannot be written."""
    reason = getattr(error, "strerror", None) or error
    return UserError(
        f"{path}: cannot be written ({reason}). Free space on the disk or choose another place."
    )


@contextmanager
def only_writer(place: Path, wait: float = 0.0) -> Iterator[None]:
    """Keep other commands from writing to a file or folder while this block does.

    A thread may enter again for the same place. The lock ends with the process, however that ends.
    It lies in the cache directory, so nothing is put beside what is written, and commands with
    another cache directory do not see it. For another command it waits so many seconds.

    Raises:
        UserError: another command is writing there, or the cache directory cannot be written.
    """
    from filelock import FileLock, Timeout

    path = _lock_path(place)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path, is_singleton=True)
        lock.acquire(timeout=wait)
    except Timeout:
        raise UserError(
            f"{place}: two commands cannot write to one place at once. Wait until the other has "
            "ended, or choose another place.",
            "out",
        ) from None
    except OSError as error:
        raise UserError(
            f"{path}: cannot be locked ({error.strerror or error}). Free space, or set "
            "ADMIRE_CACHE to a folder on a disk of this machine."
        ) from error
    try:
        yield
    finally:
        lock.release()


def _lock_path(place: Path) -> Path:
    name = hashlib.sha256(str(place.resolve()).encode()).hexdigest()[:32]
    return cache_dir() / "locks" / f"{name}.lock"


def partial_of(path: Path) -> Path:
    """Return the file beside ``path`` that is written first, and renamed once complete."""
    return path.with_name(f".{path.name}.part")


@contextmanager
def write_whole(path: Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a file beside ``path`` for writing and rename it to ``path`` once it is complete.

    If anything fails on the way, such as a full disk, ``path`` is left as it was. What a killed
    process leaves beside ``path`` is written over by the next one.

    Raises:
        UserError: the folder cannot be made or written to, or the disk is full.
    """
    partial = partial_of(path)
    options: Any = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(partial, mode, **options) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        with suppress(OSError):
            partial.unlink()


def check_file(path: Path, mark: str, *, force: bool = False) -> None:
    """Refuse to replace a file that admire did not write, unless ``force`` says so.

    Args:
        mark: what a file of this kind that admire wrote has in its first or last kilobyte.

    Raises:
        UserError: the file is another one, or a folder, or cannot be read.
    """
    if path.is_dir():
        raise UserError(f"{path}: is a folder. Name the file to write.", "out")
    try:
        with path.open("rb") as file:
            ends = file.read(1024)
            file.seek(max(0, path.stat().st_size - 1024))
            ends += file.read()
    except FileNotFoundError:
        return
    except OSError as error:
        raise unwritable(path, error) from None
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

    Only a folder that :func:`check_folder` accepts is replaced. If anything fails on the way,
    ``folder`` is left as it was. What a killed process leaves is removed by the next one that
    writes beside it. The kind, such as "index", stands in the marker and in messages.

    Raises:
        UserError: ``folder`` may not be replaced, cannot be written, or is being written by another
            command.
    """
    folder = folder.resolve()
    check_folder(folder, kind)
    _remove_leftovers(folder.parent)
    part = folder.with_name(f".{folder.name}.admire-part")
    with only_writer(folder):
        try:
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(parents=True)
            yield part
            mark_folder(part, kind, _names(part))
            check_folder(folder, kind)  # something may have been put there meanwhile
            gone = " and ".join(sorted(_names(folder) - _names(part)))
            old = folder.with_name(f".{folder.name}.admire-old")
            shutil.rmtree(old, ignore_errors=True)
            if folder.exists():
                folder.rename(old)
            part.rename(folder)
            shutil.rmtree(old, ignore_errors=True)
            if gone:
                log.info("%s: replaced the %s before it, with its %s.", folder, kind, gone)
        except OSError as error:
            raise unwritable(folder, error) from error
        except UserError as error:
            raise UserError(str(error).replace(str(part), str(folder)), *error.settings) from error
        finally:
            shutil.rmtree(part, ignore_errors=True)


def _remove_leftovers(folder: Path) -> None:
    """Remove what killed commands left in a folder: parts that no command is writing any more.

    Of commands with another cache directory it cannot tell, so theirs stay.
    """
    for part in folder.glob(".*.admire-*"):
        place = part.with_name(part.name[1:].rpartition(".")[0])
        if _lock_path(place).exists():
            with suppress(UserError), only_writer(place):
                shutil.rmtree(part, ignore_errors=True)


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def check_folder(folder: Path, kind: str, *, adding: bool = False) -> None:
    """Refuse to replace a folder that admire did not write, or where nothing can be written.

    A place where nothing is, an empty folder, and a folder of this kind that admire wrote and that
    nobody has put other files into may be replaced.

    Args:
        adding: files are only added, so others may lie in what admire wrote.

    Raises:
        UserError: it is another one; the message names what is in the way.
    """
    folder = folder.resolve()

    def refusal(reason: str) -> UserError:
        return UserError(f"{folder}: {reason}. Choose another place for the {kind}.", "out")

    above = next(place for place in folder.parents if os.path.lexists(place))
    if not above.is_dir():
        raise refusal(f"{above} is no folder")
    effective = os.access in os.supports_effective_ids
    if not os.access(above, os.W_OK | os.X_OK, effective_ids=effective):
        raise refusal(f"cannot be written ({above} lets nobody write there)")
    try:
        if not folder.exists():
            return
        if not folder.is_dir():
            raise refusal("is a file")
        _remove_leftovers(folder)
        names = sorted(_names(folder) - {partial_of(folder / MARKER).name})
    except OSError as error:
        raise refusal(f"cannot be read ({error.strerror or error})") from None
    if not names:
        return
    if MARKER not in names:
        raise refusal(f"admire did not write this folder, and it holds '{names[0]}'")
    try:
        marker = json.loads((folder / MARKER).read_text(encoding="utf-8"))
        wrote, holds = str(marker["what"]), {MARKER, *map(str, marker["holds"])}
    except (OSError, ValueError, KeyError, TypeError):
        raise refusal(f"its {MARKER} is damaged, so it may hold what is not admire's") from None
    if wrote != kind:
        raise refusal(f"holds a {wrote}")
    holds |= {partial_of(folder / name).name for name in holds}
    others = [name for name in names if name not in holds]
    if others and not adding:
        raise refusal(f"holds '{others[0]}', which admire did not write. Move it")


def mark_folder(folder: Path, kind: str, holds: Iterable[str]) -> None:
    """Write the marker of a folder that admire writes, and that will hold these files."""
    with write_whole(folder / MARKER) as file:
        json.dump({"what": kind, "holds": sorted(holds)}, file)


def note_addition(file: Path) -> None:
    """Enter a file into the marker, if it lies in a folder that admire wrote.

    So the folder can be replaced, and the file with it. Call it before the file is written.
    """
    marker = file.resolve().parent / MARKER
    with suppress(OSError, ValueError, KeyError, TypeError):
        # If there is no such file or it is damaged, the folder is not admire's.
        content = json.loads(marker.read_text(encoding="utf-8"))
        mark_folder(marker.parent, content["what"], {*content["holds"], file.name})
