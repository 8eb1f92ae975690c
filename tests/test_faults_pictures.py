"""Odd and broken pictures at every door that pictures come in by.

That of ``admire serve`` is in test_serve_pictures.py, more kinds are in test_data_image_files.py.
"""

import base64
import io
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import refused

from admire.apps.report import thumbnail
from admire.data.image_files import read_image
from admire.data.overlap import picture_hash
from admire.llm.chat import Image as Asked
from admire.llm.pictures import data_uri

Image = pytest.importorskip("PIL.Image", reason="needs the extra 'report'")


def picture(kind: str, **options: Any) -> bytes:
    """A file of 8 by 6 pixels."""
    content = io.BytesIO()
    Image.new("RGB", (8, 6), "red").save(content, kind, **options)
    return content.getvalue()


DOORS: dict[str, Callable[[Path], Any]] = {
    "encoders": read_image,
    "chat models": lambda path: data_uri(Asked(path, 512)),
    "reports": thumbnail,
    "audit": picture_hash,
}
BMP = picture("BMP")
BOMB = BMP[:18] + struct.pack("<ii", 30_000, 30_000) + BMP[26:]
"""Its header promises 30,000 by 30,000 pixels."""
REFUSED = {
    "half a JPEG": (picture("JPEG", quality=100)[:-200], "truncated"),
    "a bomb": (BOMB, "too many pixels"),
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
    refused(tmp_path / "a.png", words, read=DOORS[door])


def test_a_photo_that_was_turned_stands_upright_at_every_door(tmp_path: Path):
    exif = Image.Exif()
    exif[0x0112] = 6
    (tmp_path / "a.jpg").write_bytes(picture("JPEG", exif=exif))
    assert thumbnail(tmp_path / "a.jpg")[1] == (6, 8)
    sent = base64.b64decode(data_uri(Asked(tmp_path / "a.jpg", 512)).partition(",")[2])
    assert Image.open(io.BytesIO(sent)).size == (6, 8)
