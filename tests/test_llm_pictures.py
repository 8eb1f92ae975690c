import base64
import io
from pathlib import Path

import pytest
from PIL import Image as Pillow

from admire.llm import Image
from admire.llm.pictures import data_uri


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


@pytest.mark.parametrize("side", [768, 100])
def test_of_a_phones_mpo_the_first_picture_goes_as_a_jpeg(tmp_path: Path, side: int):
    depth = Pillow.effect_noise((300, 200), 99).convert("RGB")
    path = drawn(tmp_path / "p.jpg", kind="MPO", save_all=True, append_images=[depth])
    assert Pillow.open(path).format == "MPO"
    format, seen, raw = sent(path, side)
    assert (format, seen.width) == ("JPEG", min(side, 300))
    assert len(raw) < path.stat().st_size
    assert seen.getpixel((10, 25))[0] > 200


def test_other_formats_become_png_on_white(tmp_path: Path):
    Pillow.new("RGBA", (20, 10), (0, 0, 0, 0)).save(tmp_path / "p.gif", "GIF")
    format, seen, _ = sent(tmp_path / "p.gif")
    assert format == "PNG"
    assert seen.getpixel((5, 5)) == (255, 255, 255)
