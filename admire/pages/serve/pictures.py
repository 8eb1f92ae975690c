"""Pictures that people send: checked by their content before they are decoded."""

from __future__ import annotations

import re
from pathlib import Path

from admire.data.image_files import FORMATS, OTHER_FORMAT
from admire.pages.serve.problems import Problem

LONGEST_NAME = 100


def check_picture(path: Path, name: str, megapixels: float) -> None:
    """Refuse a file that is no picture. Its size is checked before anything is decoded.

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
            opened.load()
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
    """Return a file's name without folders and without characters that cannot be seen."""
    last = re.split(r"[/\\]", name)[-1]
    visible = "".join(letter if letter.isprintable() else " " for letter in last)
    return " ".join(visible.split()).strip(".")[:LONGEST_NAME].strip() or "picture"


def distinct(names: list[str]) -> list[str]:
    """Return the names; those that appeared before, in whatever case, get a number."""
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
