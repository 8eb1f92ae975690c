"""Pictures that people send: checked by their content before they are decoded."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from admire.data.image_files import FORMATS, OTHER_FORMAT
from admire.pages.serve.problems import Problem

TIFF = "image/tiff"
"""Most browsers do not show these."""

TYPES = {
    "PNG": "image/png",
    "JPEG": "image/jpeg",
    "MPO": "image/jpeg",  # a JPEG followed by further pictures, as some cameras write it
    "WEBP": "image/webp",
    "GIF": "image/gif",
    "AVIF": "image/avif",
    "TIFF": TIFF,
    "BMP": "image/bmp",
}
"""What is taken, by Pillow's names: all of :data:`admire.data.image_files.FORMATS`."""

LONGEST_NAME = 100


@dataclass(frozen=True)
class Picture:
    """A picture that a visitor sent.

    Attributes:
        name: what it is called, to be shown; never a path.
        path: its file, which is named by its id.
        type: its media type, by its content.
        width, height: in pixels, upright.
    """

    name: str
    path: Path
    type: str
    width: int
    height: int

    @property
    def id(self) -> str:
        return self.path.name


def check_picture(path: Path, name: str, megapixels: float) -> Picture:
    """The picture in a file. Its size is checked before anything is decoded.

    Args:
        name: what messages call it.

    Raises:
        Problem: it is not a picture of an accepted type, is too large, or damaged.
    """
    from PIL import Image, UnidentifiedImageError

    too_large = Problem(
        413,
        f"{name}: has more than {megapixels:g} million pixels, the most that is taken. "
        "Scale it down.",
    )
    try:
        with Image.open(path, formats=FORMATS) as opened:
            width, height = opened.size
            if width * height > megapixels * 1_000_000:
                raise too_large
            if opened.getexif().get(0x0112, 1) in (5, 6, 7, 8):  # turned by a quarter
                width, height = height, width
            opened.load()
            return Picture(name, path, TYPES[opened.format or ""], width, height)
    except Problem:
        raise
    except Image.DecompressionBombError:
        raise too_large from None
    except UnidentifiedImageError:
        raise Problem(415, f"{name}: {OTHER_FORMAT}") from None
    except Exception:  # damaged files make the decoders raise nearly anything
        raise Problem(
            422, f"{name}: cannot be decoded. It may be cut off: copy or download it again."
        ) from None


def label(name: str) -> str:
    """A file's name without folders and without characters that cannot be seen."""
    last = re.split(r"[/\\]", name)[-1]
    seen = "".join(letter if letter.isprintable() else " " for letter in last)
    return " ".join(seen.split()).strip(".")[:LONGEST_NAME].strip() or "picture"


def distinct(names: list[str]) -> list[str]:
    """The names; those that appeared before, in whatever case, get a number."""
    taken: set[str] = set()
    numbered = []
    for name in names:
        path = Path(name)
        number, unique = 1, name
        while unique.casefold() in taken:
            number += 1
            unique = f"{path.stem} ({number}){path.suffix}"
        taken.add(unique.casefold())
        numbered.append(unique)
    return numbered
