"""Where weights lie: a local folder, the Hugging Face hub's cache, or the hub itself."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from admire.errors import UserError

Loaded = TypeVar("Loaded")


def local_folder(source: str, what: str = "a model") -> Path | None:
    """The folder that a name points at; None where it is a name on the hub.

    ``what`` is what messages say that the folder should be of.

    Raises:
        UserError: it is written like a path, but no folder is there.
    """
    path = Path(source).expanduser()
    if path.is_dir():
        return path
    if source.startswith((".", "/", "~")) or path.is_file():
        raise UserError(f"{source}: is no folder of {what}.")
    return None


def hub_file(
    repository: str, *names: str, revision: str | None = None, kind: str = "model"
) -> Path:
    """The first of the named files that the repository has, from the hub's cache or the hub.

    The cache goes first: what is in it is taken without asking the hub. ``kind`` is ``model`` or
    ``dataset``.

    Raises:
        UserError: it is not in the cache, and the hub cannot be reached or has no such file.
    """
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import (
        EntryNotFoundError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    download = partial(hf_hub_download, repository, revision=revision)
    if kind != "model":
        download = partial(download, repo_type=kind)
    for name in names:
        try:
            return Path(download(name, local_files_only=True))
        except (LocalEntryNotFoundError, ValueError):  # ValueError: no name of a repository
            continue
    reason = "has no " + " or ".join(names)
    for name in names:
        try:
            return Path(download(name))
        except LocalEntryNotFoundError:
            reason = "cannot be reached"
            break
        except RepositoryNotFoundError:
            reason = "does not know it, or it asks for a login"
            break
        except RevisionNotFoundError:
            reason = f"does not know its revision '{revision}'"
            break
        except EntryNotFoundError:
            continue
        except Exception as error:  # a connection lost on the way raises the HTTP client's own
            reason = f"does not give it ({type(error).__name__})"
            break
    raise UserError(
        f"The {kind} '{repository}' is not here, and the hub {reason}. Where the hub can be "
        f"reached, run: hf download {repository}{' --repo-type dataset' * (kind == 'dataset')}. "
        f"Then copy its folder here and name that instead{' (FAMILY:FOLDER)' * (kind == 'model')}, "
        "or copy the hub's cache (HF_HOME)."
    )


def commit(path: Path) -> str:
    """The commit that a file in the hub's cache is of."""
    *_, snapshots = (k for k, part in enumerate(path.parts) if part == "snapshots")
    return path.parts[snapshots + 1]


@contextmanager
def from_disk() -> Iterator[None]:
    """Let libraries load what is there without asking the hub again, and without progress bars.

    Where the hub cannot be reached, each question would be tried for half a minute.
    """
    from huggingface_hub import constants
    from transformers.utils import logging

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before
        logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def load_cached_first(load: Callable[[], Loaded], source: str) -> Loaded:
    """What ``load`` makes of a model's files: those in the hub's cache, else fetched as well.

    ``source`` is the repository or folder that it loads; a folder is never looked for on the hub.
    """
    try:
        with from_disk():
            return load()
    except Exception:  # what a file that is not in the cache yet raises differs by file
        if Path(source).is_dir():
            raise
        return load()


def folder_digest(folder: Path) -> str:
    """A digest of all that a local model's folder holds, names and contents."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(str(path.relative_to(folder)).encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def base_folder(folder: Path, base: str) -> Path:
    """The folder with the configuration of the model that another one is built on.

    A checkpoint names it, ``xlm-roberta-large`` say. It is looked for in a subfolder of that name,
    then where the name itself points, then on the hub; only its configuration is needed.
    """
    for place in (folder / Path(base).name, Path(base)):
        if (place / "config.json").is_file():
            return place
    return hub_file(base, "config.json").parent
