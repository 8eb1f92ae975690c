"""Pictures that people send: told by their content, checked before they are decoded."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from admire.pages.serve.problems import Problem

TYPES = {
    "PNG": "image/png",
    "JPEG": "image/jpeg",
    "MPO": "image/jpeg",  # a JPEG with more pictures behind the first, as some cameras write it
    "WEBP": "image/webp",
    "GIF": "image/gif",
}
"""What is taken, by Pillow's names."""

NAMED = "PNG, JPEG, WebP or GIF"

LONGEST_NAME = 100


@dataclass(frozen=True)
class Picture:
    """A picture that a visitor sent.

    Attributes:
        name: what it is called, to be shown; never a path.
        path: its file, which is called by its id.
        type: its media type, by its content.
        width, height: in pixels, as it is seen upright.
        bytes: of its file.
    """

    id: str
    name: str
    path: Path
    type: str
    width: int
    height: int
    bytes: int


def check_picture(path: Path, called: str, megapixels: float) -> tuple[str, int, int]:
    """A picture's media type, width and height.

    The size is read from the head of the file and checked before anything is decoded.

    Args:
        called: what messages call it.

    Raises:
        Problem: it is no picture of a type that is taken, is too large, or damaged.
    """
    from PIL import Image, UnidentifiedImageError

    too_large = Problem(
        413,
        f"{called}: has more than {megapixels:g} million pixels, the most that is taken. "
        "Scale it down.",
    )
    try:
        with Image.open(path, formats=["PNG", "JPEG", "WEBP", "GIF"]) as opened:
            width, height = opened.size
            if width * height > megapixels * 1_000_000:
                raise too_large
            turned = opened.getexif().get(0x0112, 1) in (5, 6, 7, 8)
            opened.load()
            found = TYPES[opened.format or ""]
    except Problem:
        raise
    except Image.DecompressionBombError:
        raise too_large from None
    except UnidentifiedImageError:
        raise Problem(
            415, f"{called}: is not a picture in {NAMED}, whatever its name says. Save it as one."
        ) from None
    except MemoryError:
        raise too_large from None
    except Exception:  # damaged files make the decoders raise nearly anything
        raise Problem(
            422, f"{called}: cannot be decoded. It may be cut off: copy or download it again."
        ) from None
    return (found, height, width) if turned else (found, width, height)


def label(name: str) -> str:
    """A file's name without folders and without characters that cannot be seen."""
    last = re.split(r"[/\\]", name)[-1]
    seen = "".join(" " if unicodedata.category(c)[0] in "CZ" else c for c in last)
    shown = " ".join(seen.split()).strip(".")
    return shown[:LONGEST_NAME].strip() or "picture"


def distinct(names: list[str]) -> list[str]:
    """The names, each told from those before it that are alike by a number."""
    taken: set[str] = set()
    found = []
    for name in names:
        stem, dot, suffix = name.rpartition(".")
        if not stem:
            stem, dot, suffix = name, "", ""
        number, one = 1, name
        while one.casefold() in taken:
            number += 1
            one = f"{stem} ({number}){dot}{suffix}"
        taken.add(one.casefold())
        found.append(one)
    return found
