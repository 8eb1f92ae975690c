"""What sets have in common: compounds, sentences, captions, and pictures that look alike."""

from __future__ import annotations

import hashlib
import html
import os
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from admire.base.errors import UserError, needs_extra
from admire.base.progress import show_progress
from admire.data.items import Item

Kind = Literal["compound", "sentence", "caption", "picture"]
KINDS: tuple[Kind, ...] = get_args(Kind)

Digests = Mapping[str, Collection[str]]
"""By kind, digests of what a set holds; the card of a head or detector has those of what it saw."""

SIDE = 16
"""A picture's hash has SIDE × SIDE bits."""
NEAR = 40
"""Pictures whose hashes differ in no more bits than this look alike. Any two of AdMIRe's drawings
(425) differ in 55 or more, unless they are the same; a copy at another scale, saved as JPEG of
quality 40, cropped by 5 pixels or darkened, in 33 at most."""


@dataclass(frozen=True)
class Part:
    """A compound, sentence, caption or picture of an item.

    Attributes:
        digest: of a text, 16 hexadecimal digits of the SHA-256 of :func:`plain`; of a picture, its
            :func:`picture_hash`.
        item: the item's place in its set, from 0.
        name: the text, or the picture's name.
    """

    kind: Kind
    digest: str
    item: int
    name: str


def parts_of(
    items: Iterable[Item], *, pictures: bool = True, hashes: Mapping[Path, str] | None = None
) -> Iterator[Part]:
    """The parts of items, in their order. Things of a sequence count as candidates do.

    Args:
        pictures: whether pictures are read.
        hashes: of pictures that were read before; those that are not among them are left out.

    Raises:
        UserError: a picture cannot be read.
    """
    for number, item in enumerate(items):
        yield Part("compound", _digest(_stem(item.phrase)), number, item.phrase)
        if item.sentence:
            yield Part("sentence", _digest(plain(item.sentence)), number, item.sentence)
        for candidate in (*item.candidates, *item.sequence):
            if candidate.caption:
                digest = _digest(plain(candidate.caption))
                yield Part("caption", digest, number, candidate.caption)
            if candidate.image and pictures:
                image = candidate.image
                found = picture_hash(image) if hashes is None else hashes.get(image)
                if found:
                    yield Part("picture", found, number, candidate.name)


def digests(parts: Iterable[Part]) -> dict[str, list[str]]:
    """The digests of parts by kind, each once, sorted."""
    found: dict[str, set[str]] = {kind: set() for kind in KINDS}
    for part in parts:
        found[part.kind].add(part.digest)
    return {kind: sorted(of_kind) for kind, of_kind in found.items()}


def shared(parts: Iterable[Part], others: Digests) -> list[Part]:
    """Those of the parts that are among others, too; pictures if they look alike."""
    parts = list(parts)
    known = {kind: set(others.get(kind, ())) for kind in KINDS}
    pictures = (part.digest for part in parts if part.kind == "picture")
    known["picture"] |= alike(pictures, known["picture"]).keys()
    return [part for part in parts if part.digest in known[part.kind]]


def alike(hashes: Iterable[str], others: Iterable[str]) -> dict[str, list[str]]:
    """Of pictures' hashes those that have any like them among others, and which."""
    there = list(dict.fromkeys(others))
    words = _words(there)
    found = {}
    for one in dict.fromkeys(hashes):
        differ = np.bitwise_count(words ^ _words([one])).sum(axis=0, dtype=np.uint16)
        near = differ <= NEAR
        if near.any():
            found[one] = [there[k] for k in np.flatnonzero(near)]
    return found


def _words(hashes: Collection[str]) -> np.ndarray:
    """Hashes as words of 64 bits, shape (words of a hash, hashes)."""
    joined = b"".join(map(bytes.fromhex, hashes))
    rows = np.frombuffer(joined, dtype=np.uint64).reshape(-1, SIDE * SIDE // 64)
    return np.ascontiguousarray(rows.T)


def plain(text: str) -> str:
    r"""A text without what copies differ in: case, spaces, punctuation, Markdown, ``\n``, HTML."""
    text = unicodedata.normalize("NFKC", html.unescape(text)).casefold().replace("\\n", " ")
    return " ".join(re.findall(r"\w+", text.replace("_", " ")))


def _stem(compound: str) -> str:
    """A compound without spaces and hyphens, and in the singular."""
    return plain(compound).replace(" ", "").removesuffix("s")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def picture_hash(path: Path) -> str:
    """The difference hash of a picture (dHash, as ImageHash computes it), in hexadecimal.

    Copies that were scaled, saved again or recoloured have nearly the same.

    Raises:
        UserError: the picture cannot be read, or Pillow is not installed.
    """
    with needs_extra("report", "Comparing pictures"):
        from PIL import Image

    from admire.data.pictures import read_image

    grey = read_image(path).convert("L").resize((SIDE + 1, SIDE), Image.Resampling.LANCZOS)
    pixels = np.asarray(grey, dtype=int)
    return np.packbits(pixels[:, 1:] > pixels[:, :-1]).tobytes().hex()


def picture_hashes(paths: Iterable[Path]) -> tuple[dict[Path, str], dict[Path, str]]:
    """The :func:`picture_hash` of each picture, and of those that cannot be read, why not."""

    def read(path: Path) -> tuple[str, str]:
        try:
            return picture_hash(path), ""
        except UserError as error:
            return "", str(error)

    distinct = list(dict.fromkeys(paths))
    hashes, unread = {}, {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # Pillow lets other threads run
        told = show_progress(pool.map(read, distinct), "Reading pictures", len(distinct))
        for path, (digest, why) in zip(distinct, told, strict=True):
            if digest:
                hashes[path] = digest
            else:
                unread[path] = why
    return hashes, unread
