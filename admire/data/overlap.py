"""Digests of compounds, sentences, captions and pictures, by which sets are compared."""

from __future__ import annotations

import hashlib
import html
import os
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np

from admire.core.errors import UserError, needs_extra
from admire.core.progress import show_progress
from admire.data.items import Item

Kind = Literal["compound", "sentence", "caption", "picture"]
KINDS: tuple[Kind, ...] = get_args(Kind)

Digests = Mapping[str, Collection[str]]
"""Digests by kind. Cards of heads and detectors list those of their training data."""

SIDE = 16  #: a picture's hash has SIDE × SIDE bits
NEAR = 40
"""Pictures look alike if their hashes differ in at most so many bits. Any two different drawings of
AdMIRe's 425 differ in 55 or more; copies at another scale, saved as JPEG of quality 40, cropped by
5 pixels or darkened differ in 33 at most."""


class Part(NamedTuple):
    """A compound, sentence, caption or picture of an item, which has a place in its set, from 0.

    The digest of a text is 16 hexadecimal digits of the SHA-256 of :func:`plain`; of a picture, its
    :func:`picture_hash`.
    """

    kind: Kind
    digest: str
    item: int
    name: str


def parts_of(
    items: Iterable[Item], *, pictures: bool = True, hashes: Mapping[Path, str] | None = None
) -> Iterator[Part]:
    """Iterate over the parts of items, in their order. A sequence's pictures count like candidates.

    Args:
        pictures: whether they are read, which raises a UserError where one cannot be.
        hashes: from :func:`picture_hashes`; pictures without a hash are left out.
    """
    for number, item in enumerate(items):
        yield Part("compound", _digest(stem(item.phrase)), number, item.phrase)
        if item.sentence:
            yield Part("sentence", _digest(plain(item.sentence)), number, item.sentence)
        for candidate in item.things:
            if candidate.caption:
                digest = _digest(plain(candidate.caption))
                yield Part("caption", digest, number, candidate.caption)
            if candidate.image and pictures:
                image = candidate.image
                digest = picture_hash(image) if hashes is None else hashes.get(image, "")
                if digest:
                    yield Part("picture", digest, number, candidate.name)


def digests(parts: Iterable[Part]) -> dict[str, list[str]]:
    """Collect the digests of parts by kind, each once, sorted."""
    parts = list(parts)
    return {kind: sorted({p.digest for p in parts if p.kind == kind}) for kind in KINDS}


def shared(parts: Iterable[Part], others: Digests) -> list[Part]:
    """Return the parts whose digests are among others; pictures count if they look alike."""
    matches: dict[str, Collection[str]] = dict(zip(others, map(set, others.values()), strict=True))
    parts = list(parts)
    if pictures := [part.digest for part in parts if part.kind == "picture"]:
        matches["picture"] = alike(pictures, others.get("picture", ()))
    return [part for part in parts if part.digest in matches.get(part.kind, ())]


def alike(hashes: Iterable[str], others: Iterable[str]) -> dict[str, list[str]]:
    """Map each picture's hash that has any like it among others to those."""
    distinct = list(dict.fromkeys(others))
    words = _words(distinct)
    near = {}
    for digest in dict.fromkeys(hashes):
        bits = np.bitwise_count(words ^ _words([digest])).sum(axis=0, dtype=np.uint16)
        if (bits <= NEAR).any():
            near[digest] = [distinct[k] for k in np.flatnonzero(bits <= NEAR)]
    return near


def _words(hashes: Collection[str]) -> np.ndarray:
    """Turn hashes into words of 64 bits, shape (words of a hash, hashes)."""
    joined = b"".join(map(bytes.fromhex, hashes))
    rows = np.frombuffer(joined, dtype=np.uint64).reshape(-1, SIDE * SIDE // 64)
    return np.ascontiguousarray(rows.T)


def plain(text: str) -> str:
    r"""Return a text's words; copies may differ in case, spaces, punctuation, Markdown and HTML."""
    text = unicodedata.normalize("NFKC", html.unescape(text)).casefold().replace("\\n", " ")
    return " ".join(re.findall(r"\w+", text.replace("_", " ")))


def stem(compound: str) -> str:
    """Return a compound without spaces, hyphens and the plural's s."""
    return plain(compound).replace(" ", "").removesuffix("s")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def picture_hash(path: Path) -> str:
    """Compute the difference hash (dHash) of a picture, in hexadecimal; copies have nearly it."""
    with needs_extra("report", "Comparing pictures"):
        import imagehash

    from admire.data.image_files import read_image

    return str(imagehash.dhash(read_image(path), SIDE))


def picture_hashes(paths: Iterable[Path]) -> tuple[dict[Path, str], dict[Path, str]]:
    """Compute the :func:`picture_hash` of each picture, and say why others cannot be read."""
    hashes, unread = {}, {}

    def read(path: Path) -> None:
        try:
            hashes[path] = picture_hash(path)
        except UserError as error:
            unread[path] = str(error)

    distinct = list(dict.fromkeys(paths))
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # Pillow lets other threads run
        list(show_progress(pool.map(read, distinct), "Reading pictures", len(distinct)))
    return hashes, unread
