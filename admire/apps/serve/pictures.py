"""Pictures that people send: checked by their content before they are decoded."""

from __future__ import annotations

import re
from pathlib import Path

from admire.apps.serve.problems import Problem
from admire.data.image_files import FORMATS, OTHER_FORMAT

SIDE = 1024
"""The longest side of a picture's copy, in pixels."""


def check_picture(path: Path, name: str, megapixels: float) -> None:
    """Refuse a file that is not a picture. Its size is checked before anything is decoded."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path, formats=FORMATS) as opened:
            if opened.width * opened.height > megapixels * 1_000_000:
                raise Image.DecompressionBombError
            opened.load()
    except Image.DecompressionBombError:
        most = f"{megapixels:g} million pixels, the limit"
        raise Problem(413, f"{name}: has more than {most}. Scale it down.") from None
    except UnidentifiedImageError:
        raise Problem(415, f"{name}: {OTHER_FORMAT}") from None
    except Exception:  # damaged files make the decoders raise nearly anything
        raise Problem(
            422, f"{name}: cannot be decoded. It may be truncated: copy or download it again."
        ) from None


def label(name: str) -> str:
    """Return a file's name without folders and without characters that cannot be seen."""
    last = re.split(r"[/\\]", name)[-1]
    visible = "".join(letter if letter.isprintable() else " " for letter in last)
    return " ".join(visible.split()).strip(".")[:100].strip() or "picture"


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
