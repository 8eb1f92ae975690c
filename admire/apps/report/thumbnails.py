"""Small copies of pictures, to embed in a page."""

from __future__ import annotations

import base64
import io
import logging
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from admire.core.errors import UserError
from admire.core.machine import cores
from admire.core.progress import show_progress
from admire.data.image_files import read_image
from admire.pipeline.ranking import Run

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


def picture_files(runs: Iterable[Run]) -> list[Path]:
    """Return the pictures of the runs' items, each once."""
    things = (thing for run in runs for ranking in run.rankings for thing in ranking.item.things)
    return list(dict.fromkeys(thing.image for thing in things if thing.image))


def make_thumbnails(files: Sequence[Path]) -> tuple[dict[Path, Shown], dict[str, str]]:
    """Return thumbnails of picture files. A file that cannot be read is left out, with a warning.

    Returns:
        How each file is shown, and data URIs by id. The same picture under several names has one.
    """
    by_path: dict[Path, Shown] = {}
    ids: dict[str, str] = {}
    with ThreadPoolExecutor(cores()) as pool:
        scaled = [(file, pool.submit(thumbnail, file)) for file in files]
        for file, result in show_progress(scaled, "Scaling pictures", len(files)):
            try:
                content, (width, height) = result.result()
            except UserError as error:
                log.warning("%s The report shows its caption alone.", error)
                continue
            uri = data_uri(content)
            by_path[file] = Shown(f"#{ids.setdefault(uri, f'p{len(ids) + 1}')}", width, height)
    return by_path, {number: uri for uri, number in ids.items()}


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
