"""Image files as a person sees them: upright, on white, in RGB with eight bits a channel."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from admire.core.errors import UserError, needs_extra
from admire.core.storage import cache_dir, open_file, write_whole

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFile import ImageFile

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "AVIF", "TIFF", "BMP")
"""The formats that are read, by Pillow's names; others are rare or, like EPS, need a program."""

SUFFIXES = (
    *(".avif", ".bmp", ".gif", ".jpe", ".jpeg", ".jfif", ".jpg", ".mpo", ".png", ".tif", ".tiff"),
    ".webp",
)
"""Those by which pictures are known in folders."""

PLACEHOLDERS = {
    rb"version https://git-lfs": "is a pointer of Git LFS, not the picture. Run git lfs pull.",
    rb"(\xef\xbb\xbf)?\s*<(!doctype )?html": "is a web page, not the picture. Download it again.",
}
"""What files in place of a picture begin with, and what they are."""

FORMAT_NAMES = "PNG, JPEG, WebP, GIF, AVIF, TIFF or BMP"
OTHER_FORMAT = f"is not a picture in {FORMAT_NAMES}. Save it as PNG or JPEG."


def read_bytes(path: Path) -> bytes:
    """Read the content of an image file; refuse one that cannot be read."""
    with open_file(path) as file:
        return file.read()


def read_sidecar(path: Path) -> str | None:
    """Read the caption in the text file beside a picture, if there is one."""
    from admire.core.files import read_text
    from admire.data.limits import LIMITS, check_text

    sidecar = path.with_suffix(".txt")
    if not sidecar.exists():
        return None
    with open_file(sidecar) as file:
        if not file.read(4 * LIMITS["caption"]).strip():
            return None
    try:
        return str(check_text("caption", " ".join(read_text(sidecar).splitlines()).strip()))
    except ValueError as error:
        raise UserError(f"{sidecar}: {error}.") from None


def read_image(path: Path) -> Image:
    """Read an image in RGB, turned as its EXIF data say, with transparent parts on white.

    The first frame of an animation is taken. 16-bit greyscale is scaled to 8 bits.

    Raises:
        UserError: the file is not an image, is truncated, has floating-point pixels, or has more
            pixels than Pillow's limit (about 179 million).
    """
    from PIL import Image, ImageOps

    with _decoding(path) as opened:
        opened.load()
        try:
            picture = ImageOps.exif_transpose(opened)
        except Exception:  # damaged EXIF data do not matter
            picture = opened.copy()
        if picture.mode.startswith("I"):  # Pillow's own conversion would clip at 255
            import numpy as np

            values = np.asarray(picture).clip(0, 65535)
            transparent = picture.info.get("transparency")
            picture = Image.fromarray((values // 257).astype(np.uint8))
            if transparent is not None:
                seen = np.where(values == transparent, 0, 255).astype(np.uint8)
                picture.putalpha(Image.fromarray(seen))
        if picture.has_transparency_data:
            picture = picture.convert("RGBA")
            white = Image.new("RGBA", picture.size, "white")
            picture = Image.alpha_composite(white, picture)
        return picture.convert("RGB")


def store_picture(picture: object) -> Path:
    """Store the bytes of an image file, or one of PIL's images, in ``pictures`` in admire's cache.

    Raises:
        ValueError: it is neither, or no picture that can be read.
    """
    with needs_extra("embedded", "A picture in memory"):
        from PIL.Image import Image
        from PIL.ImageOps import exif_transpose
    if isinstance(picture, Image):
        if not all(picture.size):
            raise ValueError("has no pixels")
        if picture.mode == "F":
            raise ValueError("has floating-point pixels. Convert it")
        written = io.BytesIO()
        try:
            upright = exif_transpose(picture)
            if upright.mode not in ("1", "L", "LA", "I", "I;16", "P", "RGB", "RGBA"):  # PNG's
                upright = upright.convert("RGB")
            upright.save(written, "PNG")
        except Exception as error:  # for closed or damaged files decoders may raise anything
            reason = str(error) or type(error).__name__
            raise ValueError(
                f"cannot be read ({reason}). It may be closed: pass its path, or load it first "
                "(image.load())"
            ) from error
        picture = written.getvalue()
    if not isinstance(picture, bytes):
        is_array = isinstance(picture, list)  # what rows make of one
        kind = "an array" if is_array else f"a {type(picture).__name__}"
        hint = ". Use PIL.Image.fromarray" * is_array
        raise ValueError(f"is {kind}, not a name, bytes or PIL's{hint}")
    path = cache_dir() / "pictures" / sha256(picture).hexdigest()
    if not path.exists():
        with write_whole(path, "wb") as file:
            file.write(picture)
    try:
        check_image(path)
    except UserError as error:
        path.unlink(missing_ok=True)
        raise ValueError(str(error).removeprefix(f"{path}: ").rstrip(".")) from None
    return path


def check_header(path: Path) -> None:
    """Refuse a file whose beginning shows that :func:`read_image` cannot read it. Fast."""
    with _decoding(path):
        pass


def check_image(path: Path) -> None:
    """Refuse a file that :func:`read_image` cannot read. Each is decoded once in a process."""
    state = path.stat()
    if fault := _image_fault(path, state.st_size, state.st_mtime_ns):
        raise UserError(fault)


@lru_cache(maxsize=100_000)
def _image_fault(path: Path, size: int, changed: int) -> str | None:
    try:
        read_image(path)
    except UserError as error:
        return str(error)
    return None


@contextmanager
def _decoding(path: Path) -> Iterator[ImageFile]:
    """Open a picture, and turn whatever Pillow raises into an error that names it."""
    from PIL import Image, UnidentifiedImageError

    with open_file(path) as file:
        try:
            if not file.peek():
                raise UserError(f"{path}: the image file is empty. Copy or download it again.")
            with Image.open(file, formats=FORMATS) as opened:
                if opened.mode == "F":
                    raise UserError(
                        f"{path}: contains floating-point pixels. Save it with 8 bits a channel."
                    )
                yield opened
        except UserError:
            raise
        except Image.DecompressionBombError:
            raise UserError(f"{path}: the image has too many pixels. Scale it down.") from None
        except UnidentifiedImageError:
            file.seek(0)
            start = file.read(100)
            kinds = (text for kind, text in PLACEHOLDERS.items() if re.match(kind, start, re.I))
            raise UserError(f"{path}: {next(kinds, OTHER_FORMAT)}") from None
        except Exception as error:  # damaged files make the decoders raise nearly anything
            reason = str(error) or type(error).__name__
            raise UserError(
                f"{path}: the image cannot be decoded ({reason}). If truncated, copy it again."
            ) from None
