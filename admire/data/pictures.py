"""Image files as a person sees them: upright, on white, in RGB with eight bits a channel."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from admire.base.errors import UserError

if TYPE_CHECKING:
    from PIL.Image import Image


def read_bytes(path: Path) -> bytes:
    """The file's content.

    Raises:
        UserError: it cannot be read, or is empty.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: the image cannot be read ({error.strerror or error}).") from None
    if not content:
        raise UserError(f"{path}: the image file is empty. Copy or download it again.")
    return content


def read_image(path: Path) -> Image:
    """The image in RGB, turned as its EXIF data say, with transparent parts on white.

    The first frame of an animation is taken. 16-bit greyscale is scaled to 8 bits.

    Raises:
        UserError: the file is not an image, is truncated, or has more pixels than Pillow's limit
            against decompression bombs (about 179 million).
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    content = io.BytesIO(read_bytes(path))
    try:
        with Image.open(content) as opened:
            opened.load()
            try:
                picture = ImageOps.exif_transpose(opened)
            except Exception:  # damaged EXIF data do not matter
                picture = opened.copy()
    except Image.DecompressionBombError:
        raise UserError(
            f"{path}: the image has too many pixels to be decoded safely. Scale it down."
        ) from None
    except UnidentifiedImageError:
        raise UserError(
            f"{path}: is not an image in a format that Pillow knows. Save it as PNG or JPEG."
        ) from None
    except MemoryError:
        raise UserError(f"{path}: the image does not fit into memory. Scale it down.") from None
    except Exception as error:  # damaged files make the decoders raise nearly anything
        reason = str(error) or type(error).__name__
        raise UserError(
            f"{path}: the image cannot be decoded ({reason}). It may be truncated: copy or "
            "download it again."
        ) from None
    if picture.mode.startswith("I"):
        picture = _eight_bits(picture)
    if picture.mode == "F":
        raise UserError(f"{path}: holds floating-point pixels. Save it with 8 bits a channel.")
    if picture.has_transparency_data:
        picture = picture.convert("RGBA")
        white = Image.new("RGBA", picture.size, "white")
        picture = Image.alpha_composite(white, picture)
    return picture.convert("RGB")


def _eight_bits(picture: Image) -> Image:
    """A 16-bit greyscale image in 8 bits; Pillow's own conversion would clip at 255."""
    import numpy as np
    from PIL import Image

    values = np.asarray(picture).clip(0, 65535)
    grey = Image.fromarray((values // 257).astype(np.uint8))
    transparent = picture.info.get("transparency")
    if transparent is not None:
        grey.putalpha(Image.fromarray(np.where(values == transparent, 0, 255).astype(np.uint8)))
    return grey
