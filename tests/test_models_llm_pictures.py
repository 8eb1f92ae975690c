"""Images on their way to a chat server."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import pytest
from PIL import Image as Pillow

from admire.base.errors import UserError
from admire.models.llm import Image
from admire.models.llm.pictures import data_uri


def drawn(path: Path, size: tuple[int, int] = (300, 200), kind: str = "PNG", **more) -> Path:
    """A picture whose left half is red and right half blue."""
    picture = Pillow.new("RGB", size, "blue")
    picture.paste("red", (0, 0, size[0] // 2, size[1]))
    picture.save(path, kind, **more)
    return path


def sent(path: Path, side: int = 768) -> tuple[str, Pillow.Image, bytes]:
    """The type that is told, the image that a server would see, and its bytes."""
    head, _, content = data_uri(Image(path, side)).partition(";base64,")
    raw = base64.b64decode(content, validate=True)
    opened = Pillow.open(io.BytesIO(raw))
    opened.load()
    assert head == f"data:image/{opened.format.lower()}"
    return opened.format, opened, raw


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_a_small_file_goes_as_it_is_and_by_its_content_not_its_name(tmp_path: Path, kind: str):
    path = drawn(tmp_path / "picture.gif", kind=kind)
    format, _, raw = sent(path)
    assert (format, raw) == (kind, path.read_bytes())


@pytest.mark.parametrize(("kind", "becomes"), [("PNG", "PNG"), ("JPEG", "JPEG"), ("WEBP", "PNG")])
def test_a_large_image_is_scaled_to_the_side_that_is_wanted(tmp_path: Path, kind, becomes):
    format, seen, _ = sent(drawn(tmp_path / "p", (900, 300), kind), side=150)
    assert (format, seen.size) == (becomes, (150, 50))
    assert seen.convert("RGB").getpixel((10, 25))[0] > 200
    assert seen.convert("RGB").getpixel((140, 25))[2] > 200


def test_a_turned_photo_is_sent_upright(tmp_path: Path):
    exif = Pillow.Exif()
    exif[0x0112] = 6  # the camera was held upright: turn by 90 degrees clockwise
    _, seen, _ = sent(drawn(tmp_path / "p.jpg", kind="JPEG", exif=exif))
    assert seen.size == (200, 300)
    assert seen.getexif().get(0x0112, 1) == 1
    assert seen.getpixel((100, 10))[0] > 200  # what was left is at the top now


def test_other_formats_become_png_on_white(tmp_path: Path):
    Pillow.new("RGBA", (20, 10), (0, 0, 0, 0)).save(tmp_path / "p.gif", "GIF")
    format, seen, _ = sent(tmp_path / "p.gif")
    assert format == "PNG"
    assert seen.getpixel((5, 5)) == (255, 255, 255)


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "cannot be read"), (b"", "empty"), (b"an owl", "not an image"), ("cut", "truncated")],
)
def test_what_is_no_whole_image_is_never_sent(tmp_path: Path, content, words: str):
    path = tmp_path / "owl.png"
    if content == "cut":
        content = drawn(path).read_bytes()[:-40]
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=f"{path}.*{words}"):
        data_uri(Image(path))
