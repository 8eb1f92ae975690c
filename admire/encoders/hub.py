"""Finds a model's files: in a local folder, the Hugging Face hub's cache, or on the hub."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Literal, TypeVar

from admire.core.errors import UserError, needs_extra
from admire.core.storage import MARKER

Loaded = TypeVar("Loaded")


@dataclass(frozen=True)
class Source:
    """The location and version of a model's files."""

    place: str  #: the folder or the repository, for libraries
    revision: str | None  #: the commit; None for a folder
    identity: str  #: the digest of a folder's content, or ``REPOSITORY@COMMIT``
    folder: Path | None = None  #: the local folder; None for a repository

    def file(self, *names: str) -> Path:
        """Find the first of these files that the model has, see :func:`hub_file`."""
        if self.folder is None:
            return hub_file(self.place, *names, revision=self.revision)
        for name in names:
            if (self.folder / name).is_file():
                return self.folder / name
        raise UserError(f"{self.folder}: contains no {' or '.join(names)}.")


def resolve_source(source: str, *names: str, revision: str | None = None) -> Source:
    """Find a model by the name of a folder, which takes precedence, or of a repository on the hub.

    If a repository is not cached yet, one small file of it is downloaded to get the commit.

    Args:
        names: a repository has one of these files (default: ``config.json``).
        revision: branch, tag or commit of a repository.
    """
    if folder := local_folder(source):
        return Source(str(folder), None, folder_digest(folder), folder)
    path = hub_file(source, *(names or ("config.json",)), revision=revision).as_posix()
    commit = path.rpartition("/snapshots/")[2].partition("/")[0]
    return Source(source, commit, f"{source}@{commit}")


def local_folder(source: str, kind: str = "a model") -> Path | None:
    """Return the folder with this name; None for a name on the hub. Other paths are refused."""
    path = Path(source).expanduser()
    if path.is_dir():
        return path
    if source.startswith((".", "/", "~")) or path.is_file():
        raise UserError(f"{source}: is not a folder of {kind}.")
    return None


def hub_file(
    repository: str,
    *names: str,
    revision: str | None = None,
    kind: Literal["model", "dataset"] = "model",
) -> Path:
    """Find the first of these files that the repository has, in the hub's cache or else on the hub.

    A UserError says what is missing: the file, the hub or its client.
    """
    with needs_extra("clip", f"The {kind} '{repository}' of the Hugging Face hub"):
        from huggingface_hub import errors, hf_hub_download

    download = partial(hf_hub_download, repository, revision=revision, repo_type=kind)
    for name in names:
        with suppress(errors.LocalEntryNotFoundError, ValueError):  # ValueError: not a valid name
            return Path(download(name, local_files_only=True))
    reason = ""
    for name in names:
        try:
            return Path(download(name))
        except Exception as error:  # a lost connection raises the HTTP client's own errors
            if isinstance(error, OSError) and error.filename:  # of the cache
                raise
            reason = f"gives no {' or '.join(names)} ({type(error).__name__})"
            if isinstance(error, errors.LocalEntryNotFoundError):
                reason = "cannot be reached"
            if not isinstance(error, errors.RemoteEntryNotFoundError):
                break
    raise UserError(
        f"The {kind} '{repository}' is not on this machine, and the hub {reason}. Where the hub "
        f"can be reached, run: hf download {repository}"
        f"{' --repo-type dataset' * (kind == 'dataset')}. "
        f"Then copy its folder here and give its path{' (FAMILY:FOLDER)' * (kind == 'model')}, "
        "or copy the hub's cache (HF_HOME)."
    )


@contextmanager
def from_disk() -> Iterator[None]:
    """Let libraries load cached files without progress bars, and without asking the hub again."""
    from huggingface_hub import constants
    from transformers.utils import logging

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    logging.disable_progress_bar()
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before
        logging.enable_progress_bar()


def load_cached_first(load: Callable[[], Loaded], source: str) -> Loaded:
    """Call ``load`` with the hub's cache only; if that fails for a repository, with the hub."""
    try:
        with from_disk():
            return load()
    except Exception:  # which error a missing file raises depends on the file
        if Path(source).is_dir():
            raise
        return load()


def folder_digest(folder: Path) -> str:
    """Compute a digest of the names and contents of a model's files, without admire's marker."""
    paths = sorted(p for p in folder.rglob("*") if p.is_file() and p != folder / MARKER)
    stats = [path.stat() for path in paths]
    return _digest(folder, tuple(paths), tuple((s.st_size, s.st_mtime_ns) for s in stats))


@lru_cache(maxsize=32)
def _digest(folder: Path, paths: Sequence[Path], versions: Sequence[tuple[int, int]]) -> str:
    """Compute the digest of files, which takes seconds, once for each of their ``versions``."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(str(path.relative_to(folder)).encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def base_folder(folder: Path, base: str) -> Path:
    """Find the folder of a base model's configuration: a subfolder, a path, or on the hub."""
    for place in (folder / Path(base).name, Path(base)):
        if (place / "config.json").is_file():
            return place
    return hub_file(base, "config.json").parent
