"""Bodies of requests: counted as they arrive, and pictures checked before they are decoded."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import Request

from admire.apps.serve.guard import MEGABYTE
from admire.apps.serve.problems import LATER, Problem
from admire.data.image_files import FORMATS, OTHER_FORMAT, PLACEHOLDERS

PATIENCE = 30.0
"""Seconds after which a client is given up who sends nothing more of a body, or reads nothing."""


class Bodies:
    """The bodies of all requests that are in memory, of so many megabytes at most.

    Those of less than 1 % of this are let in all the same, so that who sends large ones cannot keep
    out everybody.
    """

    def __init__(self, megabytes: float):
        self._most = megabytes * MEGABYTE
        self._bodies: dict[int, bytearray] = {}

    @property
    def size(self) -> int:
        """Return the size of all of them, in bytes."""
        return sum(map(len, self._bodies.values()))

    @asynccontextmanager
    async def read(self, request: Request, megabytes: float) -> AsyncIterator[bytearray]:
        """Read a body, which counts as long as the block lasts; what is deleted of it does not.

        Its size is that of what arrives: ``Content-Length`` may be missing or wrong.
        """
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            raise Problem(415, "The body is compressed. Send it without Content-Encoding.")
        too_large = Problem(413, f"The body has more than {megabytes:g} MB, the limit.")
        if int(request.headers.get("content-length", 0)) > megabytes * MEGABYTE:
            raise too_large
        body, now = bytearray(), asyncio.get_running_loop().time
        self._bodies[id(body)] = body
        try:
            async with asyncio.timeout(PATIENCE) as limit:
                async for part in request.stream():
                    body += part
                    if len(body) > megabytes * MEGABYTE:
                        raise too_large
                    if self.size > self._most and len(body) > self._most / 100:
                        raise Problem(
                            503, "Other requests use all available memory. Try again later.", LATER
                        )
                    limit.reschedule(now() + PATIENCE)
            yield body
        except TimeoutError:
            raise Problem(408, "The body does not arrive. Send it again.") from None
        finally:
            del self._bodies[id(body)]


def check_json(body: bytearray, megabytes: float) -> None:
    """Refuse a row that has more than so many megabytes without its pictures.

    While it is parsed, no other thread runs, and a list takes far more memory than text does.
    """
    # A data URI ends with its string; no row has a thousand pictures.
    if len(re.sub(b';base64,[^"]*', b"", body, count=1000)) > megabytes * MEGABYTE:
        raise Problem(413, f"The row has more than {megabytes:g} MB besides its pictures.")


SIDE = 1024  #: the longest side of a picture's copy, in pixels


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
        start = path.read_bytes()[:100]
        kinds = (text for kind, text in PLACEHOLDERS.items() if re.match(kind, start, re.I))
        raise Problem(415, f"{name}: {next(kinds, OTHER_FORMAT)}") from None
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
    numbered: dict[str, str] = {}
    for name in names:
        path = Path(name)
        number, unique = 1, name
        while unique.casefold() in numbered:
            number += 1
            unique = f"{path.stem} ({number}){path.suffix}"
        numbered[unique.casefold()] = unique
    return list(numbered.values())
