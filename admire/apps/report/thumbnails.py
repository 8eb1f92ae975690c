"""Small copies of pictures, to embed in a page."""

from __future__ import annotations

import base64
import io
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from admire.core.errors import UserError
from admire.core.machine import cores
from admire.core.progress import show_progress
from admire.core.threads import prefetch
from admire.data.image_files import read_image

log = logging.getLogger("admire")

SIDE = 320
"""The longest side of a thumbnail, in pixels."""


@dataclass(frozen=True)
class Shown:
    """A picture as a page shows it.

    Attributes:
        picture: its address, or ``#`` and the id under which the page holds it.
        width, height: in pixels.
    """

    picture: str
    width: int
    height: int


def make_thumbnails(files: Sequence[Path]) -> tuple[dict[Path, Shown], dict[str, str]]:
    """Return thumbnails of picture files. A file that cannot be read is left out, with a warning.

    Returns:
        How each file is shown, and data URIs by id. The same picture under several names has one.
    """
    by_path: dict[Path, Shown] = {}
    ids: dict[str, str] = {}
    scaled = zip(files, prefetch(_scaled, files, 2 * cores()), strict=True)
    for file, result in show_progress(scaled, "Scaling pictures", len(files)):
        if isinstance(result, UserError):
            log.warning("%s The report shows its caption alone.", result)
            continue
        content, (width, height) = result
        uri = data_uri(content)
        by_path[file] = Shown(f"#{ids.setdefault(uri, f'p{len(ids) + 1}')}", width, height)
    return by_path, {number: uri for uri, number in ids.items()}


def _scaled(file: Path) -> tuple[bytes, tuple[int, int]] | UserError:
    try:
        return thumbnail(file)
    except UserError as error:
        return error


def thumbnail(file: Path, side: int = SIDE) -> tuple[bytes, tuple[int, int]]:
    """Return a picture as WebP with at most so many pixels on a side, and its width and height.

    Raises:
        UserError: the file cannot be read or is not an image.
    """
    from PIL import Image

    image = read_image(file)
    image.thumbnail((side, side), Image.Resampling.LANCZOS)
    written = io.BytesIO()
    image.save(written, "WEBP", quality=75)
    return written.getvalue(), image.size


def data_uri(content: bytes) -> str:
    """Return the data URI of a WebP file."""
    return f"data:image/webp;base64,{base64.b64encode(content).decode()}"
