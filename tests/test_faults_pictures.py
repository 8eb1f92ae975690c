"""Odd and broken pictures at every door that pictures come in by, and odd names of pictures.

How :func:`admire.data.image_files.read_image` reads pictures is proved in test_data_image_files.py;
here, that every door reads them so.
"""

import base64
import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from admire import UserError
from admire.apps.report import thumbnail
from admire.apps.serve.bodies import check_picture
from admire.apps.serve.problems import Problem
from admire.data.image_files import read_image
from admire.data.overlap import picture_hash
from admire.llm.chat import Image as Asked
from admire.llm.pictures import data_uri

Image = pytest.importorskip("PIL.Image", reason="needs the extra 'report'")


def turned() -> bytes:
    """A photo 8 pixels wide and 6 high, to be turned by 90 degrees."""
    exif = Image.Exif()
    exif[0x0112] = 6
    content = io.BytesIO()
    Image.new("RGB", (8, 6), "red").save(content, "JPEG", exif=exif, quality=100)
    return content.getvalue()


def bomb() -> bytes:
    """A PNG of less than a kilobyte whose header promises 30,000 x 30,000 pixels."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        crc = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", crc)

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 30_000, 30_000, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


DOORS: dict[str, Callable[[Path], Any]] = {
    "encoders": read_image,
    "chat models": lambda path: data_uri(Asked(path, 512)),
    "reports": thumbnail,
    "audit": picture_hash,
    "serve": lambda path: check_picture(path, str(path), 20),
}
REFUSED = {
    "half a JPEG": (turned()[:-200], "truncated"),
    "a bomb": (bomb(), "too many pixels"),
    "SVG": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "Save it as PNG"),
    "HTML": (b"\n<!DOCTYPE html><title>404</title>", "is a web page, not the picture"),
    "LFS": (b"version https://git-lfs.github.com/spec/v1\noid", "is a pointer of Git LFS"),
}


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_no_whole_picture_is_refused_at_every_door(tmp_path: Path, kind: str, door: str):
    content, words = REFUSED[kind]
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises((UserError, Problem)) as caught:
        DOORS[door](tmp_path / "a.png")
    if door != "serve":
        assert str(tmp_path / "a.png") in str(caught.value)
        assert words in str(caught.value)


def test_a_photo_that_was_turned_stands_upright_at_every_door(tmp_path: Path):
    (tmp_path / "a.jpg").write_bytes(turned())
    assert read_image(tmp_path / "a.jpg").size == (6, 8)
    assert thumbnail(tmp_path / "a.jpg")[1] == (6, 8)
    sent = base64.b64decode(data_uri(Asked(tmp_path / "a.jpg", 512)).partition(",")[2])
    assert Image.open(io.BytesIO(sent)).size == (6, 8)
