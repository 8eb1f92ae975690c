"""Images in requests to chat servers: scaled and encoded."""

from __future__ import annotations

import base64
import hashlib
import io
from functools import lru_cache
from pathlib import Path

from admire.core.errors import needs_extra
from admire.data.image_files import read_bytes, read_image
from admire.llm.chat import Image

QUALITY = 90  #: quality of re-encoded JPEG files, from 1 to 95
SENT_AS_THEY_ARE = {"JPEG": "image/jpeg", "PNG": "image/png"}


def data_uri(image: Image) -> str:
    """Return the image as a ``data:`` address of type JPEG or PNG, independent of its file name.

    A JPEG or PNG file that is small enough is sent unchanged. Others are turned upright, put on
    white and scaled. A JPEG stays a JPEG; the first picture of an MPO, which phones write, becomes
    one; all others become a PNG.
    """
    with needs_extra("rankers", "A chat model that sees"):
        from PIL import Image as Pillow
    content = read_bytes(image.path)
    upright = read_image(image.path)  # always, because a truncated file would be sent unchanged
    with Pillow.open(io.BytesIO(content)) as opened:
        kind = opened.format or ""
        turned = opened.getexif().get(0x0112, 1) != 1
    if kind not in SENT_AS_THEY_ARE or turned or max(upright.size) > image.side:
        kind = "JPEG" if kind in ("JPEG", "MPO") else "PNG"
        upright.thumbnail((image.side, image.side), Pillow.Resampling.LANCZOS)
        written = io.BytesIO()
        upright.save(written, kind, quality=QUALITY)
        content = written.getvalue()
    return f"data:{SENT_AS_THEY_ARE[kind]};base64,{base64.b64encode(content).decode()}"


@lru_cache(maxsize=100_000)
def image_size(path: Path) -> tuple[int, int]:
    """Return the width and height of an image file in pixels, without decoding it."""
    with needs_extra("rankers", "A chat model that sees"):
        from PIL import Image as Pillow
    try:
        with Pillow.open(path) as opened:
            return opened.size
    except (OSError, Pillow.DecompressionBombError):
        return read_image(path).size  # this raises the error


@lru_cache(maxsize=100_000)
def digest(path: Path, changed: int) -> str:
    """Return the SHA-256 of an image file, which was ``changed`` last at that time."""
    return hashlib.sha256(read_bytes(path)).hexdigest()
