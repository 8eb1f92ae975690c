"""Pictures: files read as a person sees them, encoded once, ahead of the model and in order."""

from __future__ import annotations

import itertools
import logging
import re
import struct
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest import mock
from weakref import WeakSet

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys import WordEncoder

from admire.encoders import ImageEncoder, Role, Vectors
from admire.encoders.cached import CachedEncoder, CachedTowers
from admire.encoders.images import read_image
from admire.errors import UserError

Image = pytest.importorskip("PIL.Image", reason="needs the extra 'clip'")

WHITE = [255, 255, 255]
RED, GREEN, BLUE, GREY = [255, 0, 0], [0, 255, 0], [0, 0, 255], [90, 90, 90]


def shown(path: Path) -> np.ndarray:
    """What read_image makes of a file, as an array (height, width, 3)."""
    picture = read_image(path)
    assert picture.mode == "RGB"
    return np.asarray(picture).astype(int)


def row(path: Path) -> list[list[int]]:
    """The pixels of a picture that is one pixel high."""
    (pixels,) = shown(path).tolist()
    return pixels


def noise(height: int = 12, width: int = 9, channels: int = 3) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (height, width, channels), dtype=np.uint8)


def complaint(path: Path) -> str:
    """What the user is told about a file, less the path that it starts with."""
    with pytest.raises(UserError) as caught:
        read_image(path)
    start, message = f"{path}: ", str(caught.value)
    assert message.startswith(start)
    for technical in ("\n", "Traceback", "Error:", "<_io", "<PIL", " object at 0x"):
        assert technical not in message
    return message.removeprefix(start)


# ----------------------------------------------------------------------------- reading: colours


def test_an_rgb_png_comes_as_it_is(tmp_path):
    Image.fromarray(noise()).save(tmp_path / "a.png")
    assert np.array_equal(shown(tmp_path / "a.png"), noise())


def test_a_jpeg_comes_as_pillow_decodes_it(tmp_path):
    Image.fromarray(noise(40, 56)).save(tmp_path / "a.jpg", quality=50)
    with Image.open(tmp_path / "a.jpg") as opened:
        assert np.array_equal(shown(tmp_path / "a.jpg"), np.asarray(opened))


def test_the_name_says_nothing_about_the_format(tmp_path):
    Image.fromarray(noise()).save(tmp_path / "a.jpg", format="PNG")
    assert np.array_equal(shown(tmp_path / "a.jpg"), noise())


@pytest.mark.parametrize(
    ("name", "options"),
    [("a.png", {}), ("a.tif", {}), ("a.webp", {"lossless": True, "exact": True})],
)
def test_what_is_transparent_is_white_whatever_colour_lies_under_it(tmp_path, name, options):
    pixels = [[[*RED, 255], [*RED, 0], [0, 0, 0, 0], [0, 0, 0, 128], [0, 0, 255, 51]]]
    Image.fromarray(np.array(pixels, dtype=np.uint8)).save(tmp_path / name, **options)
    opaque, hidden, hidden_black, half, fifth = row(tmp_path / name)
    assert (opaque, hidden, hidden_black) == (RED, WHITE, WHITE)
    assert half == pytest.approx([127] * 3, abs=1)
    assert fifth == pytest.approx([204, 204, 255], abs=1)


def test_grey_with_transparency_lies_on_white(tmp_path):
    pixels = np.array([[[90, 255], [0, 0], [0, 128]]], dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    opaque, hidden, half = row(tmp_path / "a.png")
    assert (opaque, hidden) == (GREY, WHITE)
    assert half == pytest.approx([127] * 3, abs=1)


def in_palette() -> Image.Image:
    picture = Image.fromarray(np.array([[0, 1, 2, 1]], dtype=np.uint8)).convert("P")
    picture.putpalette(RED + GREEN + BLUE)
    return picture


@pytest.mark.parametrize("name", ["a.png", "a.gif", "a.tif", "a.bmp"])
def test_a_palette_is_looked_up(tmp_path, name):
    in_palette().save(tmp_path / name)
    assert row(tmp_path / name) == [RED, GREEN, BLUE, GREEN]


@pytest.mark.parametrize("name", ["a.png", "a.gif"])
def test_a_transparent_palette_entry_is_white(tmp_path, name):
    in_palette().save(tmp_path / name, transparency=1)
    assert row(tmp_path / name) == [RED, WHITE, BLUE, WHITE]


def test_palette_entries_may_be_half_transparent(tmp_path):
    in_palette().save(tmp_path / "a.png", transparency=bytes([255, 0, 128]))
    red, green, blue, again = row(tmp_path / "a.png")
    assert (red, green, again) == (RED, WHITE, WHITE)
    assert blue == pytest.approx([127, 127, 255], abs=1)


def test_a_colour_that_stands_for_transparent_is_white(tmp_path):
    Image.fromarray(np.array([[RED, BLUE]], dtype=np.uint8)).save(
        tmp_path / "rgb.png", transparency=(255, 0, 0)
    )
    assert row(tmp_path / "rgb.png") == [WHITE, BLUE]
    Image.fromarray(np.array([[0, 90]], dtype=np.uint8)).save(tmp_path / "grey.png", transparency=0)
    assert row(tmp_path / "grey.png") == [WHITE, GREY]
    Image.fromarray(SIXTEEN).save(tmp_path / "sixteen.png", transparency=257)
    assert [value for value, _, _ in row(tmp_path / "sixteen.png")] == [0, 255, 100, 127, 255]


@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.bmp"])
def test_grey_has_three_equal_channels(tmp_path, name):
    values = noise(channels=1)[..., 0]
    Image.fromarray(values).save(tmp_path / name)
    assert np.array_equal(shown(tmp_path / name), np.stack([values] * 3, axis=-1))


@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.bmp"])
def test_one_bit_is_black_and_white(tmp_path, name):
    Image.fromarray(np.array([[False, True, True]])).save(tmp_path / name)
    assert row(tmp_path / name) == [[0, 0, 0], WHITE, WHITE]


@pytest.mark.parametrize("name", ["a.jpg", "a.tif"])
@pytest.mark.parametrize(
    ("inks", "colour"),
    [((0, 255, 255, 0), RED), ((255, 255, 0, 0), BLUE), ((0, 0, 0, 0), WHITE)],
    ids=["red", "blue", "paper"],
)
def test_inks_become_colours(tmp_path, name, inks, colour):
    options = {"quality": 100} if name == "a.jpg" else {}
    Image.new("CMYK", (8, 8), inks).save(tmp_path / name, **options)
    assert np.abs(shown(tmp_path / name) - colour).max() <= 3


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


def test_a_portable_greymap_of_sixteen_bits_is_scaled_too(tmp_path):
    path = tmp_path / "a.pgm"  # Pillow opens it with 32 bits, unlike PNG and TIFF
    path.write_bytes(b"P5 5 1 65535\n" + SIXTEEN.astype(">u2").tobytes())
    assert [value for value, _, _ in row(path)] == [0, 1, 100, 127, 255]


def test_floating_point_pixels_are_refused(tmp_path):
    path = tmp_path / "a.tif"
    Image.fromarray(np.array([[0.0, 0.5, 1.0]], dtype=np.float32)).save(path)
    assert "floating-point" in complaint(path)


# -------------------------------------------------------------------- reading: upright, first frame


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
"""What the EXIF standard has a viewer do for each orientation."""


def turned(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


@pytest.mark.parametrize("orientation", UPRIGHT)
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("a.png", {}),
        ("a.webp", {"lossless": True}),
        ("a.tif", {}),
        ("lzw.tif", {"compression": "tiff_lzw"}),
    ],
)
def test_a_picture_is_turned_as_its_exif_data_say(tmp_path, name, options, orientation):
    Image.fromarray(noise()).save(tmp_path / name, exif=turned(orientation), **options)
    assert np.array_equal(shown(tmp_path / name), UPRIGHT[orientation](noise()))


def test_a_photograph_taken_sideways_stands_upright(tmp_path):
    stored = np.zeros((16, 32, 3), dtype=np.uint8)
    stored[:8, :16], stored[:8, 16:], stored[8:, :16], stored[8:, 16:] = RED, GREEN, BLUE, WHITE
    Image.fromarray(stored).save(tmp_path / "a.jpg", quality=95, subsampling=0, exif=turned(6))
    upright = read_image(tmp_path / "a.jpg")
    assert upright.size == (16, 32)
    corners = [upright.getpixel(place) for place in ((0, 0), (15, 0), (0, 31), (15, 31))]
    for corner, colour in zip(corners, [BLUE, RED, WHITE, GREEN], strict=True):
        assert corner == pytest.approx(colour, abs=6)


@pytest.mark.parametrize("orientation", [0, 9, 60000])
def test_an_orientation_that_does_not_exist_turns_nothing(tmp_path, orientation):
    Image.fromarray(noise()).save(tmp_path / "a.png", exif=turned(orientation))
    assert np.array_equal(shown(tmp_path / "a.png"), noise())


@pytest.mark.parametrize("name", ["a.png", "a.webp", "a.jpg"])
def test_exif_data_that_cannot_be_read_do_not_spoil_the_picture(tmp_path, name):
    Image.new("RGB", (8, 6), "white").save(tmp_path / name, exif=b"Exif\0\0garbage")
    assert shown(tmp_path / name).tolist() == [[WHITE] * 8] * 6


def test_a_turned_picture_keeps_its_transparency(tmp_path):
    in_palette().save(tmp_path / "palette.png", transparency=0, exif=turned(6))
    assert shown(tmp_path / "palette.png").tolist() == [[WHITE], [GREEN], [BLUE], [GREEN]]
    pixels = np.array([[[*RED, 0], [*BLUE, 255]]], dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "rgba.png", exif=turned(3))
    assert shown(tmp_path / "rgba.png").tolist() == [[BLUE, WHITE]]


def test_a_turned_picture_of_sixteen_bits_is_scaled(tmp_path):
    Image.fromarray(SIXTEEN).save(tmp_path / "a.png", exif=turned(2))
    assert [value for value, _, _ in row(tmp_path / "a.png")] == [255, 127, 100, 1, 0]


@pytest.mark.parametrize(
    ("name", "options"), [("a.gif", {}), ("a.png", {}), ("a.webp", {"lossless": True})]
)
def test_of_an_animation_the_first_frame_is_taken(tmp_path, name, options):
    first, *others = (Image.new("RGB", (6, 4), tuple(colour)) for colour in (RED, GREEN, BLUE))
    first.save(tmp_path / name, save_all=True, append_images=others, duration=50, **options)
    with Image.open(tmp_path / name) as opened:
        assert opened.n_frames == 3
    assert shown(tmp_path / name).tolist() == [[RED] * 6] * 4


# ------------------------------------------------------------------------ reading: what is no image


def saved(path: Path, format: str) -> bytes:
    Image.fromarray(noise(64, 64)).save(path, format=format)
    return path.read_bytes()


@pytest.mark.parametrize("format", ["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"])
@pytest.mark.parametrize("part", [0.5, 0.99])
def test_a_truncated_file_is_refused(tmp_path, format, part):
    path = tmp_path / "half.img"
    content = saved(path, format)
    assert shown(path).shape == (64, 64, 3)
    path.write_bytes(content[: int(len(content) * part)])
    assert "truncated" in complaint(path)


@pytest.mark.parametrize(
    "content",
    [b"This is a text.\n", b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"\0" * 500, b"\x89PNG"],
    ids=["text", "svg", "zeros", "four bytes of a PNG"],
)
def test_what_is_no_image_is_refused_whatever_its_name(tmp_path, content):
    path = tmp_path / "a.png"
    path.write_bytes(content)
    assert "not an image" in complaint(path)


def test_an_empty_file_is_called_empty(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(b"")
    assert "empty" in complaint(path)


def test_a_missing_file_is_refused(tmp_path):
    assert "No such file" in complaint(tmp_path / "a.png")
    assert "No such file" in complaint(tmp_path / "no folder" / "a.png")


def test_a_folder_is_refused(tmp_path):
    assert "directory" in complaint(tmp_path)


SIGNATURE = b"\x89PNG\r\n\x1a\n"


def chunk(kind: bytes, content: bytes) -> bytes:
    crc = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", crc)


def png(width: int, height: int, rows: bytes = b"\0") -> bytes:
    """A 1-bit PNG that says that it is so large, with hardly a pixel in it."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress(rows))
    return SIGNATURE + header + pixels + chunk(b"IEND", b"")


def gif(width: int, height: int) -> bytes:
    screen = struct.pack("<HHBBB", width, height, 0, 0, 0)
    return b"GIF89a" + screen + b"," + struct.pack("<HHHHB", 0, 0, width, height, 0) + b"\2\0;"


@pytest.mark.parametrize("content", [png(40_000, 40_000), gif(65_535, 65_535)], ids=["PNG", "GIF"])
def test_a_decompression_bomb_is_refused_by_its_header(tmp_path, content):
    path = tmp_path / "bomb.png"
    path.write_bytes(content)
    began = time.process_time()
    # Had it been decoded, it would be called truncated: its pixels are not there.
    assert "too many pixels" in complaint(path)
    assert time.process_time() - began < 1


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_the_limit_against_bombs_is_pillows_own(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 50)
    (tmp_path / "within.png").write_bytes(png(8, 12, b"\0\xff" * 12))
    assert (shown(tmp_path / "within.png") == 255).all()
    (tmp_path / "beyond.png").write_bytes(png(8, 13, b"\0\xff" * 13))
    assert "too many pixels" in complaint(tmp_path / "beyond.png")


@pytest.mark.parametrize(
    "content",
    [
        SIGNATURE + chunk(b"IHDR", bytes(4)),
        SIGNATURE
        + chunk(b"zTXt", b"Comment\0\0" + zlib.compress(bytes(2_000_000)))
        + png(8, 8)[8:],
        b"P6 4 four 255 " + bytes(48),
    ],
    ids=["half a header", "a bomb in a comment", "a word for a number"],
)
def test_whatever_the_decoders_raise_ends_in_one_message(tmp_path, content):
    path = tmp_path / "a.png"
    path.write_bytes(content)
    assert "cannot be decoded" in complaint(path)


@pytest.mark.parametrize(
    ("error", "told"),
    [(MemoryError(), "does not fit into memory"), (EOFError(), r"cannot be decoded \(EOFError\)")],
)
def test_an_error_that_says_nothing_is_told_by_its_kind(tmp_path, monkeypatch, error, told):
    Image.fromarray(noise()).save(tmp_path / "a.png")

    def fail(path: Path) -> None:
        raise error

    monkeypatch.setattr(Image, "open", fail)
    assert re.search(told, complaint(tmp_path / "a.png"))


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Small files that are all right: grey, palette and colour, with EXIF data and without."""
    folder = tmp_path_factory.mktemp("sound")
    colour = Image.fromarray(noise())
    palette = colour.quantize(8)
    colour.save(folder / "rgb.png", exif=turned(6))
    palette.save(folder / "palette.png", transparency=bytes([0, 128]), exif=turned(3))
    Image.fromarray(noise()[..., 0].astype(np.uint16) * 257).save(folder / "sixteen.png")
    colour.save(folder / "rgb.jpg", exif=turned(8))
    colour.convert("CMYK").save(folder / "inks.jpg")
    palette.save(
        folder / "two.gif", save_all=True, append_images=[palette.rotate(180)], transparency=1
    )
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damaged") / "a.png"


def mended(content: bytes) -> bytes:
    """A PNG with check sums that fit, so that damage gets past the first look at it."""
    whole, place = content[:8], 8
    while place + 12 <= len(content):
        (length,) = struct.unpack(">I", content[place : place + 4])
        if place + 12 + length > len(content):
            break
        whole += chunk(content[place + 4 : place + 8], content[place + 8 : place + 8 + length])
        place += 12 + length
    return whole + content[place:]


@pytest.mark.filterwarnings("ignore")  # Pillow's, about what it finds damaged
@settings(max_examples=500)
@given(
    name=st.sampled_from(
        ["rgb.png", "palette.png", "sixteen.png", "rgb.jpg", "inks.jpg", "two.gif"]
    ),
    changes=st.lists(st.tuples(st.integers(0, 1500), st.integers(0, 255)), max_size=6),
    length=st.none() | st.integers(0, 1500),
    mend=st.booleans(),
)
def test_a_damaged_file_is_an_image_or_refused(sound, damaged, name, changes, length, mend):
    content = bytearray(sound[name])
    for place, byte in changes:
        content[place % len(content)] ^= byte
    changed = mended(bytes(content)) if mend and name.endswith(".png") else bytes(content)
    damaged.write_bytes(changed[:length])
    with mock.patch.object(Image, "MAX_IMAGE_PIXELS", 50_000):  # no need for large ones here
        try:
            picture = read_image(damaged)
        except UserError:
            complaint(damaged)
        else:
            assert picture.mode == "RGB"
            assert np.asarray(picture).shape == (picture.height, picture.width, 3)


# --------------------------------------------------------------------------------------- towers


class Prepared:
    def __init__(self, name: str, colour: Sequence[float]):
        self.name = name
        self.colour = colour


class Colours(WordEncoder):
    """A picture's vector is its mean colour. Remembers what it was given, and by which threads.

    ``during`` is called with the number of each batch while the model is at it; more than
    ``memory`` pictures at once are answered with ``error``.
    """

    name = "colours"

    def __init__(
        self,
        identity: str = "colours:1",
        batch: int = 2,
        during: Callable[[int], None] = lambda number: None,
        memory: int = 99,
        error: Exception | None = None,
    ):
        self.identity = identity
        self.batch = batch
        self.during = during
        self.memory = memory
        self.error = error or MemoryError()
        self.prepared: list[str] = []
        self.changed = threading.Condition()
        self.alive: WeakSet[Prepared] = WeakSet()
        self.preparing: set[threading.Thread] = set()
        self.encoding: set[threading.Thread] = set()
        self.tried: list[int] = []
        self.batches: list[list[str]] = []

    def prepare_image(self, path: Path) -> Prepared:
        mean = np.asarray(read_image(path), dtype=float).mean(axis=(0, 1))
        ready = Prepared(path.name, mean)
        with self.changed:
            self.preparing.add(threading.current_thread())
            self.alive.add(ready)
            self.prepared.append(path.name)
            self.changed.notify_all()
        return ready

    def encode_prepared(self, images: Sequence[Prepared]) -> Vectors:
        self.encoding.add(threading.current_thread())
        self.tried.append(len(images))
        if len(images) > self.memory:
            raise type(self.error)(*self.error.args)
        self.during(len(self.batches))
        self.batches.append([image.name for image in images])
        return np.array([image.colour for image in images], dtype=np.float32)

    @property
    def encoded(self) -> list[str]:
        return [name for batch in self.batches for name in batch]


def paint(path: Path, *colour: int) -> Path:
    Image.new("RGB", (4, 4), colour).save(path)
    return path


def colour(number: int) -> tuple[int, int, int]:
    return 5 + 6 * number, 250 - 6 * number, 60


def gallery(folder: Path, count: int, start: int = 0) -> list[Path]:
    return [paint(folder / f"{k}.png", *colour(k)) for k in range(start, start + count)]


def expected(numbers: Sequence[int]) -> np.ndarray:
    colours = np.array([colour(k) for k in numbers], dtype=float)
    return colours / np.linalg.norm(colours, axis=1, keepdims=True)


def names(*numbers: int) -> list[str]:
    return [f"{k}.png" for k in numbers]


def test_towers_with_a_cache_encode_images_and_an_encoder_does_not():
    assert isinstance(CachedTowers(Colours()), ImageEncoder)
    assert not isinstance(CachedEncoder(WordEncoder()), ImageEncoder)


def test_vectors_have_unit_length_and_the_order_of_the_images(tmp_path):
    images = gallery(tmp_path, 7)
    vectors = CachedTowers(Colours()).encode_images(images)
    assert vectors.dtype == np.float32
    assert vectors == pytest.approx(expected(range(7)), abs=1e-6)
    mixed = [3, 0, 6, 1]
    again = CachedTowers(Colours("colours:2"))
    assert again.encode_images([images[k] for k in mixed]) == pytest.approx(
        expected(mixed), abs=1e-6
    )


def test_known_and_new_images_may_be_mixed(tmp_path):
    images = gallery(tmp_path, 6)
    CachedTowers(Colours()).encode_images([images[4], images[1]])
    later = Colours()
    vectors = CachedTowers(later).encode_images(images[::-1])
    assert vectors == pytest.approx(expected([5, 4, 3, 2, 1, 0]), abs=1e-6)
    assert later.batches == [names(5, 3), names(2, 0)]


def test_an_image_is_prepared_and_encoded_once_under_however_many_names(tmp_path):
    red, blue = paint(tmp_path / "red.png", 255, 0, 0), paint(tmp_path / "blue.png", 0, 0, 255)
    copy = tmp_path / "copy.png"
    copy.write_bytes(red.read_bytes())
    towers = Colours()
    cached = CachedTowers(towers)
    vectors = cached.encode_images([red, blue, red, copy, blue])
    assert vectors.tolist() == [[1, 0, 0], [0, 0, 1], [1, 0, 0], [1, 0, 0], [0, 0, 1]]
    assert (len(towers.prepared), len(towers.encoded), cached.encoded) == (2, 2, 2)
    cached.encode_images([copy])
    assert (len(towers.prepared), cached.encoded) == (2, 2)


def test_nothing_is_prepared_where_everything_is_known(tmp_path):
    images = gallery(tmp_path, 5)
    fresh = CachedTowers(Colours()).encode_images(images)
    later = Colours()
    cached = CachedTowers(later)
    known = cached.encode_images(images)
    assert known.tobytes() == fresh.tobytes()
    assert (known.dtype, known.shape) == (np.float32, (5, 3))
    assert (later.prepared, later.tried, cached.encoded) == ([], [], 0)


def test_a_renamed_file_is_known_and_a_changed_one_is_not(tmp_path):
    images = gallery(tmp_path, 3)
    CachedTowers(Colours()).encode_images(images)
    images[0] = images[0].rename(tmp_path / "renamed.png")
    paint(images[2], 0, 255, 0)
    later = Colours()
    vectors = CachedTowers(later).encode_images(images)
    assert later.prepared == ["2.png"]
    assert vectors[:2] == pytest.approx(expected([0, 1]), abs=1e-6)
    assert vectors[2].tolist() == [0, 1, 0]


def test_towers_of_different_identity_are_kept_apart(tmp_path):
    images = gallery(tmp_path, 3)
    CachedTowers(Colours("colours:1")).encode_images(images)
    other = Colours("colours:2")
    CachedTowers(other).encode_images(images)
    assert other.encoded == names(0, 1, 2)


def test_no_images_give_no_vectors():
    towers = Colours()
    assert len(CachedTowers(towers).encode_images([])) == 0
    assert towers.tried == []


class Kinds:
    """Says of everything only what it was taken for."""

    name = "kinds"
    identity = "kinds:1"
    batch = 2

    def encode_texts(self, texts: Sequence[str], *, role: Role) -> Vectors:
        kind = [1, 0, 0] if role == "query" else [0, 1, 0]
        return np.array([kind] * len(texts), dtype=np.float32)

    def prepare_image(self, path: Path) -> bytes:
        return path.read_bytes()

    def encode_prepared(self, images: Sequence[bytes]) -> Vectors:
        return np.array([[0, 0, 1]] * len(images), dtype=np.float32)


@pytest.mark.parametrize("order", [*itertools.permutations(["query", "document", "image"])])
def test_texts_and_images_of_the_same_bytes_are_kept_apart(tmp_path, order):
    (tmp_path / "owl.png").write_text("an owl")
    cached = CachedTowers(Kinds())
    for kind in order * 2:
        if kind == "image":
            vectors = cached.encode_images([tmp_path / "owl.png"])
        else:
            vectors = cached.encode_texts(["an owl"], role=kind)
        assert vectors.tolist() == [[kind == "query", kind == "document", kind == "image"]]
    assert cached.encoded == 3


@pytest.mark.parametrize(
    ("batch", "sizes"), [(1, [1] * 7), (2, [2, 2, 2, 1]), (7, [7]), (9, [7]), (3, [3, 3, 1])]
)
def test_batches_are_no_larger_than_the_towers_like(tmp_path, batch, sizes):
    towers = Colours(batch=batch)
    CachedTowers(towers).encode_images(gallery(tmp_path, 7))
    assert towers.tried == sizes
    assert towers.encoded == names(*range(7))


# ----------------------------------------------------------------------------- towers: threads


def test_pictures_are_prepared_in_other_threads_and_encoded_in_the_callers(tmp_path):
    before = set(threading.enumerate())
    towers = Colours()
    CachedTowers(towers).encode_images(gallery(tmp_path, 9))
    assert towers.encoding == {threading.current_thread()}
    assert towers.preparing
    assert not towers.preparing & before
    assert set(threading.enumerate()) == before


def test_as_many_pictures_are_prepared_at_once_as_there_are_processors(tmp_path, monkeypatch):
    monkeypatch.setattr("admire.encoders.cached.cores", lambda: 3)
    together = threading.Barrier(3, timeout=30)

    class Together(Colours):
        def prepare_image(self, path: Path) -> Prepared:
            together.wait()
            return super().prepare_image(path)

    towers = Together()
    vectors = CachedTowers(towers).encode_images(gallery(tmp_path, 6))
    assert vectors == pytest.approx(expected(range(6)), abs=1e-6)
    assert len(towers.preparing) == 3


@pytest.mark.parametrize("batch", [1, 2, 4])
def test_pictures_are_prepared_ahead_of_the_model_by_two_batches_and_no_more(tmp_path, batch):
    count = 10 * batch

    def during(number: int) -> None:
        bound = min((number + 3) * batch, count)  # what is encoded, the batch at hand, two more
        with towers.changed:
            assert towers.changed.wait_for(lambda: len(towers.prepared) >= bound, timeout=30)
            if number == 0:  # time for one too many, if it were to come
                towers.changed.wait_for(lambda: len(towers.prepared) > bound, timeout=0.1)
            assert len(towers.prepared) == bound
        assert len(towers.alive) <= 4 * batch

    towers = Colours(batch=batch, during=during)
    vectors = CachedTowers(towers).encode_images(gallery(tmp_path, count))
    assert len(towers.batches) == 10
    assert vectors == pytest.approx(expected(range(count)), abs=1e-6)


def running_after(action: Callable[[], object], error: type[BaseException]) -> set[str]:
    """The names of the threads that run on at the moment when an action has failed."""
    before = set(threading.enumerate())
    try:
        action()
    except error:  # what holds the error, as a notebook does, holds no threads with it
        return {thread.name for thread in set(threading.enumerate()) - before}
    pytest.fail("it did not fail")


@pytest.mark.parametrize("error", [KeyboardInterrupt, UserError, RuntimeError, ZeroDivisionError])
def test_a_failure_in_the_model_leaves_no_threads_and_keeps_what_was_encoded(tmp_path, error):
    def during(number: int) -> None:
        if number == 2:
            raise error("stop")

    images = gallery(tmp_path, 30)
    towers = Colours(during=during)
    cached = CachedTowers(towers)
    assert running_after(lambda: cached.encode_images(images), error) == set()
    assert len(towers.prepared) <= 10  # what had not begun was dropped
    assert cached.encoded == 4
    rerun = Colours()
    assert CachedTowers(rerun).encode_images(images) == pytest.approx(expected(range(30)), abs=1e-6)
    assert rerun.encoded == names(*range(4, 30))


def test_a_failure_drops_the_pictures_that_are_not_begun(tmp_path, monkeypatch):
    monkeypatch.setattr("admire.encoders.cached.cores", lambda: 2)
    failing = threading.Event()

    class Slow(Colours):
        def prepare_image(self, path: Path) -> Prepared:
            if int(path.stem) >= self.batch:  # all of these would take a while
                failing.wait(30)
                threading.Event().wait(0.02)
            return super().prepare_image(path)

    def during(number: int) -> None:
        failing.set()
        raise KeyboardInterrupt

    towers = Slow(batch=20, during=during)
    cached = CachedTowers(towers)
    images = gallery(tmp_path, 40)
    assert running_after(lambda: cached.encode_images(images), KeyboardInterrupt) == set()
    assert len(towers.prepared) < 40


def test_the_same_towers_go_on_after_ctrl_c(tmp_path):
    def during(number: int) -> None:
        if number == 1 and not interrupted:
            interrupted.append(number)
            raise KeyboardInterrupt

    interrupted: list[int] = []
    images = gallery(tmp_path, 6)
    towers = Colours(during=during)
    cached = CachedTowers(towers)
    with pytest.raises(KeyboardInterrupt):
        cached.encode_images(images)
    assert cached.encode_images(images) == pytest.approx(expected(range(6)), abs=1e-6)
    assert towers.encoded == names(*range(6))


# ----------------------------------------------------------------------------- towers: bad pictures


def test_what_was_encoded_before_a_bad_picture_is_kept(tmp_path):
    images = gallery(tmp_path, 8)
    whole = images[5].read_bytes()
    images[5].write_bytes(whole[:-30])
    towers = Colours()
    cached = CachedTowers(towers)
    with pytest.raises(UserError) as caught:
        cached.encode_images(images)
    assert str(caught.value).startswith(f"{images[5]}: ")
    assert towers.batches == [names(0, 1), names(2, 3)]
    assert cached.encoded == 4

    images[5].write_bytes(whole)
    rerun = Colours()
    vectors = CachedTowers(rerun).encode_images(images)
    assert vectors == pytest.approx(expected(range(8)), abs=1e-6)
    assert rerun.batches == [names(4, 5), names(6, 7)]
    assert sorted(rerun.prepared) == names(4, 5, 6, 7)


def test_a_bad_picture_leaves_no_threads(tmp_path):
    images = gallery(tmp_path, 20)
    images[3].write_text("no picture")
    towers = Colours()
    cached = CachedTowers(towers)
    assert running_after(lambda: cached.encode_images(images), UserError) == set()
    assert len(towers.prepared) < 20


@pytest.mark.parametrize("what", ["missing", "empty", "folder"])
def test_a_file_that_cannot_be_read_is_named(tmp_path, what):
    images = gallery(tmp_path, 5)
    images[3].unlink()
    if what == "empty":
        images[3].touch()
    elif what == "folder":
        images[3].mkdir()
    with pytest.raises(UserError) as caught:
        CachedTowers(Colours()).encode_images(images)
    assert str(caught.value).startswith(f"{images[3]}: ")


def test_a_file_that_vanishes_on_the_way_is_named(tmp_path):
    images = gallery(tmp_path, 20)
    # By then every file was there to be looked up, and the last one is not yet prepared.
    towers = Colours(during=lambda number: images[-1].unlink(missing_ok=True))
    with pytest.raises(UserError, match="No such file") as caught:
        CachedTowers(towers).encode_images(images)
    assert str(caught.value).startswith(f"{images[-1]}: ")
    rerun = Colours()
    CachedTowers(rerun).encode_images(images[:-1])
    assert rerun.encoded == names(18)


def test_a_file_that_changes_on_the_way_is_not_kept_under_what_it_held_before(tmp_path):
    images = gallery(tmp_path, 20)
    before = images[-1].read_bytes()
    towers = Colours(during=lambda number: number or paint(images[-1], 0, 255, 0))
    with pytest.raises(UserError, match="changed while") as caught:
        CachedTowers(towers).encode_images(images)
    assert str(caught.value).startswith(f"{images[-1]}: ")
    images[-1].write_bytes(before)
    assert CachedTowers(Colours()).encode_images(images[-1:]) == pytest.approx(
        expected([19]), abs=1e-6
    )


@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf])
def test_an_image_vector_without_direction_is_refused_and_not_kept(tmp_path, bad):
    class Broken(Colours):
        def encode_prepared(self, images: Sequence[Prepared]) -> Vectors:
            vectors = super().encode_prepared(images)
            vectors[[image.name == "2.png" for image in images]] *= bad
            return vectors

    images = gallery(tmp_path, 4)
    with pytest.raises(UserError, match=r"colours: .*zero or not finite"):
        CachedTowers(Broken()).encode_images(images)
    sound = Colours()
    vectors = CachedTowers(sound).encode_images(images)
    assert vectors == pytest.approx(expected(range(4)), abs=1e-6)
    assert sound.encoded == names(2, 3)


# -------------------------------------------------------------------------------- out of memory


OUT_OF_MEMORY = [
    pytest.param(RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB."), id="CUDA"),
    pytest.param(RuntimeError("CUDA error: out of memory"), id="CUDA driver"),
    pytest.param(RuntimeError("MPS backend out of memory (MPS allocated: 9.0 GB)"), id="MPS"),
    pytest.param(
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:117] . DefaultCPUAllocator: can't allocate memory: "
            "you tried to allocate 8000000000 bytes."
        ),
        id="CPU",
    ),
    pytest.param(
        RuntimeError("[enforce fail at alloc_cpu.cpp:117] data. DefaultCPUAllocator: not enough "
                     "memory: you tried to allocate 8000000000 bytes."),
        id="CPU on Windows",
    ),
    pytest.param(MemoryError(), id="Python"),
    pytest.param(MemoryError("Unable to allocate 8.00 GiB for an array"), id="NumPy"),
]  # fmt: skip


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if (record.name, record.levelno) == ("admire", logging.WARNING)
    ]


@pytest.mark.parametrize("error", OUT_OF_MEMORY)
def test_where_images_do_not_fit_batches_are_halved(tmp_path, caplog, error):
    towers = Colours(batch=8, memory=2, error=error)
    cached = CachedTowers(towers)
    vectors = cached.encode_images(gallery(tmp_path, 13))
    assert vectors == pytest.approx(expected(range(13)), abs=1e-6)
    assert towers.tried == [8, 4, 2, 2, 2, 2, 2, 2, 1]
    assert towers.encoded == names(*range(13))
    assert (cached.batch, cached.encoded, len(towers.prepared)) == (2, 13, 13)
    four, two = warned(caplog)
    assert "colours: out of memory" in four
    assert "batches of 4" in four
    assert "batches of 2" in two


def test_the_smaller_batch_stays(tmp_path, caplog):
    towers = Colours(batch=8, memory=3)
    cached = CachedTowers(towers)
    cached.encode_images(gallery(tmp_path, 8))
    towers.tried.clear()
    caplog.clear()
    cached.encode_images(gallery(tmp_path, 5, start=8))
    assert towers.tried == [2, 2, 1]
    assert warned(caplog) == []


def test_a_last_batch_that_does_not_fit_is_halved_too(tmp_path):
    towers = Colours(batch=5, memory=2)
    vectors = CachedTowers(towers).encode_images(gallery(tmp_path, 3))
    assert vectors == pytest.approx(expected(range(3)), abs=1e-6)
    assert towers.tried == [3, 1, 1, 1]


def test_what_was_encoded_before_memory_ran_short_is_kept(tmp_path):
    def during(number: int) -> None:
        if number == 2:
            towers.memory = 0
            raise MemoryError

    images = gallery(tmp_path, 8)
    towers = Colours(during=during)
    with pytest.raises(UserError, match="memory"):
        CachedTowers(towers).encode_images(images)
    rerun = Colours()
    CachedTowers(rerun).encode_images(images)
    assert rerun.encoded == names(4, 5, 6, 7)


@pytest.mark.parametrize("error", OUT_OF_MEMORY)
def test_where_not_even_one_image_fits_it_says_what_to_do(tmp_path, error):
    towers = Colours(batch=4, memory=0, error=error)
    cached = CachedTowers(towers)
    with pytest.raises(UserError, match=r"colours: .*one of the images.*--device cpu"):
        cached.encode_images(gallery(tmp_path, 4))
    assert towers.tried == [4, 2, 1]


OTHER_ERRORS = [
    RuntimeError("mat1 and mat2 shapes cannot be multiplied (2x512 and 768x512)"),
    RuntimeError(),
    ValueError("out of range"),
]


@pytest.mark.parametrize("error", OTHER_ERRORS, ids=repr)
def test_another_error_of_the_model_passes_through(tmp_path, caplog, error):
    def during(number: int) -> None:
        raise error

    towers = Colours(during=during)
    cached = CachedTowers(towers)
    images = gallery(tmp_path, 5)
    with pytest.raises(type(error)) as caught:
        cached.encode_images(images)
    assert caught.value is error
    assert (towers.tried, cached.batch, warned(caplog)) == ([2], 2, [])


class Short(WordEncoder):
    """Texts as their words, a few at once: more are answered with an error."""

    name = "short"
    batch = 8

    def __init__(self, memory: int, error: Exception):
        self.memory = memory
        self.error = error
        self.tried: list[int] = []

    def encode_texts(self, texts: Sequence[str], *, role: Role) -> Vectors:
        self.tried.append(len(texts))
        if len(texts) > self.memory:
            raise type(self.error)(*self.error.args)
        return super().encode_texts([f"{role} {text}" for text in texts], role=role)


TEXTS = [f"word{k} in text {k}" for k in range(11)]


@pytest.mark.parametrize("error", OUT_OF_MEMORY)
def test_where_texts_do_not_fit_batches_are_halved(caplog, error):
    encoder = Short(3, error)
    cached = CachedEncoder(encoder)
    vectors = cached.encode_texts(TEXTS, role="query")
    assert vectors == pytest.approx(Short(99, error).encode_texts(TEXTS, role="query"))
    assert encoder.tried == [8, 4, 2, 2, 2, 2, 2, 1]
    four, two = warned(caplog)
    assert "short: out of memory" in four
    assert "batches of 4" in four
    assert "batches of 2" in two
    encoder.tried.clear()
    cached.encode_texts(TEXTS[:5], role="document")
    assert encoder.tried == [2, 2, 1]
    assert len(warned(caplog)) == 2


def test_where_not_even_one_text_fits_it_says_what_to_do():
    encoder = Short(0, MemoryError())
    with pytest.raises(UserError, match=r"short: .*one of the texts.*--device cpu"):
        CachedEncoder(encoder).encode_texts(TEXTS, role="query")
    assert encoder.tried == [8, 4, 2, 1]


@pytest.mark.parametrize("error", OTHER_ERRORS, ids=repr)
def test_another_error_of_a_text_encoder_passes_through(error):
    encoder = Short(0, error)
    cached = CachedEncoder(encoder)
    with pytest.raises(type(error)) as caught:
        cached.encode_texts(TEXTS, role="query")
    assert caught.value.args == error.args
    assert (encoder.tried, cached.batch) == ([8], 8)
