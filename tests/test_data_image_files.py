import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from admire.core.errors import UserError
from admire.data.image_files import read_image

Image = pytest.importorskip("PIL.Image", reason="needs the extra 'clip'")

WHITE = [255, 255, 255]
RED, GREEN, BLUE, GREY = [255, 0, 0], [0, 255, 0], [0, 0, 255], [90, 90, 90]


def shown(path: Path) -> np.ndarray:
    picture = read_image(path)
    assert picture.mode == "RGB"
    return np.asarray(picture).astype(int)


def row(path: Path) -> list[list[int]]:
    (pixels,) = shown(path).tolist()
    return pixels


def noise(height: int = 12, width: int = 9, channels: int = 3) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (height, width, channels), dtype=np.uint8)


def complaint(path: Path) -> str:
    with pytest.raises(UserError, match=f"^{path}: ") as caught:
        read_image(path)
    message = str(caught.value).removeprefix(f"{path}: ")
    assert not re.search("\n|Traceback|Error:|<_io|<PIL| object at 0x", message)
    return message


@pytest.mark.parametrize(
    ("name", "options"), [("a.png", {}), ("a.webp", {"lossless": True, "exact": True})]
)
def test_what_is_transparent_is_white_whatever_colour_lies_under_it(tmp_path, name, options):
    pixels = [[[*RED, 255], [*RED, 0], [0, 0, 0, 0], [0, 0, 0, 128], [0, 0, 255, 51]]]
    Image.fromarray(np.array(pixels, dtype=np.uint8)).save(tmp_path / name, **options)
    opaque, hidden, hidden_black, half, fifth = row(tmp_path / name)
    assert (opaque, hidden, hidden_black) == (RED, WHITE, WHITE)
    assert half == pytest.approx([127] * 3, abs=1)
    assert fifth == pytest.approx([204, 204, 255], abs=1)


def test_a_colour_that_stands_for_transparent_is_white(tmp_path):
    both = Image.fromarray(np.array([[RED, BLUE]], dtype=np.uint8))
    both.save(tmp_path / "rgb.png", transparency=(255, 0, 0))
    assert row(tmp_path / "rgb.png") == [WHITE, BLUE]
    Image.fromarray(np.array([[0, 90]], dtype=np.uint8)).save(tmp_path / "grey.png", transparency=0)
    assert row(tmp_path / "grey.png") == [WHITE, GREY]
    Image.fromarray(SIXTEEN).save(tmp_path / "sixteen.png", transparency=257)
    assert [value for value, _, _ in row(tmp_path / "sixteen.png")] == [0, 255, 100, 127, 255]


SIXTEEN = np.array([[0, 257, 25700, 32768, 65535]], dtype=np.uint16)


@pytest.mark.parametrize(
    ("name", "values"),
    [("a.png", SIXTEEN), ("a.tif", SIXTEEN), ("big-endian.tif", SIXTEEN.astype(">u2"))],
)
def test_sixteen_bits_are_scaled_not_clipped(tmp_path, name, values):
    Image.fromarray(values).save(tmp_path / name)
    black, first, hundred, middle, white = row(tmp_path / name)
    assert (black, first, hundred, white) == ([0] * 3, [1] * 3, [100] * 3, WHITE)
    assert middle in ([127] * 3, [128] * 3)


UPRIGHT: dict[int, Callable[[np.ndarray], np.ndarray]] = {
    1: lambda stored: stored,
    2: lambda stored: stored[:, ::-1],
    3: lambda stored: stored[::-1, ::-1],
    4: lambda stored: stored[::-1],
    5: lambda stored: stored.swapaxes(0, 1),
    6: lambda stored: np.rot90(stored, -1),
    7: lambda stored: stored[::-1, ::-1].swapaxes(0, 1),
    8: lambda stored: np.rot90(stored, 1),
}


@pytest.mark.parametrize("orientation", UPRIGHT)
@pytest.mark.parametrize(
    ("name", "options"), [("a.png", {}), ("lzw.tif", {"compression": "tiff_lzw"})]
)
def test_a_picture_is_turned_as_its_exif_data_say(tmp_path, name, options, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(noise()).save(tmp_path / name, exif=exif, **options)
    assert np.array_equal(shown(tmp_path / name), UPRIGHT[orientation](noise()))


@pytest.mark.parametrize(
    ("name", "options"), [("a.gif", {}), ("a.png", {}), ("a.webp", {"lossless": True})]
)
def test_of_an_animation_the_first_frame_is_taken(tmp_path, name, options):
    first, *others = (Image.new("RGB", (6, 4), tuple(colour)) for colour in (RED, GREEN, BLUE))
    first.save(tmp_path / name, save_all=True, append_images=others, duration=50, **options)
    with Image.open(tmp_path / name) as opened:
        assert opened.n_frames == 3
    assert shown(tmp_path / name).tolist() == [[RED] * 6] * 4


@pytest.mark.parametrize("format", ["PNG", "JPEG", "WEBP", "TIFF"])
def test_a_truncated_file_is_refused(tmp_path, format):
    path = tmp_path / "half.img"
    Image.fromarray(noise(64, 64)).save(path, format=format)
    content = path.read_bytes()
    assert shown(path).shape == (64, 64, 3)
    for part in (0.5, 0.99):
        path.write_bytes(content[: int(len(content) * part)])
        assert "truncated" in complaint(path)


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    (tmp_path / "empty.png").touch()
    assert "empty" in complaint(tmp_path / "empty.png")
    assert "No such file" in complaint(tmp_path / "no folder" / "a.png")
    assert "directory" in complaint(tmp_path)
