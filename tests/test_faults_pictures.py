"""Odd pictures at every door that pictures come in by, and odd names of pictures.

How :func:`admire.data.pictures.read_image` reads pictures is proved in test_encoders_images.py;
here, that every door reads them so.
"""

from __future__ import annotations

import base64
import io
import json
import struct
import unicodedata
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_faults_files import check_message, little_memory, soon
from toys import WordEncoder, explains

from admire import Settings, UserError, rank, read_items, read_submission, write_run
from admire.data.overlap import picture_hash
from admire.data.pictures import read_image
from admire.models.llm.chat import Image as Asked
from admire.models.llm.pictures import data_uri, image_size
from admire.pages.report import thumbnail, write_report
from admire.pages.serve.pictures import check_picture
from admire.pages.serve.problems import Problem
from admire.runs.past_runs import read_run
from admire.tasks.collections import open_index, write_index

Image = pytest.importorskip("PIL.Image", reason="needs the extra 'report'")

RED, BLUE, WHITE, GREY = (255, 0, 0), (0, 0, 255), (255, 255, 255), (90, 90, 90)
PNG = b"\x89PNG\r\n\x1a\n"


def chunk(kind: bytes, content: bytes) -> bytes:
    crc = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", crc)


def png(width: int, height: int, bits: int, colours: int, rows: bytes, *more: bytes) -> bytes:
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, colours, 0, 0, 0))
    data = chunk(b"IDAT", zlib.compress(rows))
    return PNG + head + b"".join(more) + data + chunk(b"IEND", b"")


def written(picture: Image.Image, kind: str, **options: Any) -> bytes:
    content = io.BytesIO()
    picture.save(content, kind, **options)
    return content.getvalue()


def drawn(mode: str, colour: Any) -> Image.Image:
    return Image.new(mode, (8, 6), colour)


def frames(kind: str, **options: Any) -> bytes:
    others = [drawn("RGB", BLUE), drawn("RGB", WHITE)]
    return written(
        drawn("RGB", RED), kind, save_all=True, append_images=others, duration=50, **options
    )


def turned() -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6
    return written(drawn("RGB", RED), "JPEG", exif=exif, quality=100)


def palette() -> bytes:
    picture = drawn("P", 1)
    picture.putpalette([*RED, *BLUE])
    return written(picture, "PNG", transparency=bytes([255, 0]))


def sixteen() -> bytes:
    row = b"\0" + struct.pack(">HHH", 65535, 128, 0) * 8
    return png(8, 6, 16, 2, row * 6)


def sixteen_tiff() -> bytes:
    """Pillow reads such a file and writes none: RGB with sixteen bits, little-endian."""
    data = struct.pack("<HHH", 65535, 128, 0) * 48
    entries = [
        *((256, 3, 1, 8), (257, 3, 1, 6), (258, 3, 3, 8), (259, 3, 1, 1), (262, 3, 1, 2)),
        *((273, 4, 1, 14), (277, 3, 1, 3), (278, 3, 1, 6), (279, 4, 1, len(data))),
    ]
    bits, table = struct.pack("<HHH", 16, 16, 16), 14 + len(data)
    listed = b"".join(struct.pack("<HHII", *one) for one in entries)
    return (
        b"II*\0" + struct.pack("<I", table) + bits + data
        + struct.pack("<H", len(entries)) + listed + bytes(4)
    )  # fmt: skip


COLOURS: dict[str, tuple[bytes, tuple[int, int, int]]] = {
    "CMYK": (written(drawn("CMYK", (0, 255, 255, 0)), "JPEG", quality=100), RED),
    "LAB": (written(drawn("LAB", (136, 208, 195)), "TIFF"), RED),
    "one bit": (written(drawn("1", 1), "PNG"), WHITE),
    "grey of 16 bits": (written(drawn("I;16", 90 * 257), "PNG"), GREY),
    "RGB of 16 bits": (sixteen(), RED),
    "TIFF of 16 bits": (sixteen_tiff(), RED),
    "transparent palette": (palette(), WHITE),
    "GIF of three frames": (frames("GIF"), RED),
    "WebP of three frames": (frames("WEBP", lossless=True), RED),
    "PNG of three frames": (frames("PNG"), RED),
    "TIFF of three pages": (frames("TIFF"), RED),
    "icon": (written(Image.new("RGB", (16, 16), RED), "ICO"), RED),
}
"""Pictures of one colour, and what a person sees."""


def sent(path: Path) -> Image.Image:
    """What a chat model is sent, as it sees it."""
    content = base64.b64decode(data_uri(Asked(path, 512)).partition(",")[2])
    return Image.open(io.BytesIO(content)).convert("RGBA")


def small(path: Path) -> Image.Image:
    return Image.open(io.BytesIO(thumbnail(path)[0]))


@pytest.mark.parametrize("kind", COLOURS)
@pytest.mark.parametrize("door", [read_image, small])
def test_a_picture_is_seen_alike_at_every_door(tmp_path: Path, kind: str, door: Any):
    content, colour = COLOURS[kind]
    path = tmp_path / "a.jpg"  # whatever it is called, its content counts
    path.write_bytes(content)
    picture = door(path)
    assert picture.mode == "RGB"
    pixels = np.asarray(picture).reshape(-1, 3).astype(int)
    assert np.abs(pixels - colour).max() <= 16
    assert image_size(path) == read_image(path).size


@pytest.mark.parametrize("kind", [one for one in COLOURS if one not in ("CMYK", "LAB")])
def test_a_chat_model_is_sent_what_a_person_sees(tmp_path: Path, kind: str):
    content, colour = COLOURS[kind]
    path = tmp_path / "a.png"
    path.write_bytes(content)
    seen = Image.alpha_composite(Image.new("RGBA", sent(path).size, "white"), sent(path))
    if "16 bits" not in kind or "TIFF" in kind:  # a PNG of 16 bits goes as it is
        pixels = np.asarray(seen)[..., :3].reshape(-1, 3).astype(int)
        assert np.abs(pixels - colour).max() <= 3


def test_pictures_that_differ_in_their_form_alone_have_the_same_hash(tmp_path: Path):
    ramp = Image.fromarray(np.tile(np.arange(0, 240, 5, dtype=np.uint8), (48, 1)))
    found = set()
    for name, content in (
        ("a.png", written(ramp, "PNG")),
        ("b.jpg", written(ramp.convert("CMYK"), "TIFF")),
        ("c.gif", written(ramp, "GIF", save_all=True, append_images=[ramp.rotate(180)])),
    ):
        (tmp_path / name).write_bytes(content)
        found.add(picture_hash(tmp_path / name))
    assert len(found) == 1


def test_a_photo_that_was_turned_stands_upright_at_every_door(tmp_path: Path):
    (tmp_path / "a.jpg").write_bytes(turned())
    assert read_image(tmp_path / "a.jpg").size == (6, 8)
    assert thumbnail(tmp_path / "a.jpg")[1] == (6, 8)
    assert check_picture(tmp_path / "a.jpg", "a", 1)[1:] == (6, 8)
    assert sent(tmp_path / "a.jpg").size == (6, 8)


# -------------------------------------------------------------------------------------- refused


def icon(content: bytes) -> bytes:
    return struct.pack("<HHHBBBBHHII", 0, 1, 1, 16, 16, 0, 0, 1, 32, len(content), 22) + content


BOMB = png(30_000, 30_000, 8, 2, bytes(10**6))
REFUSED = {
    "half a JPEG": (turned()[:-200], "truncated"),
    "a bomb": (BOMB, "too many pixels"),
    "a bomb in an icon": (icon(BOMB), "too many pixels|cannot be decoded"),
    "a bomb in iTXt": (
        png(8, 6, 8, 0, bytes(54), chunk(b"iTXt", b"a\0\1\0\0\0" + zlib.compress(bytes(10**8)))),
        "cannot be decoded",
    ),
    "SVG": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "Save it as PNG"),
    "HTML": (b"<!doctype html><title>404</title>", "Save it as PNG"),
    "floating point": (written(drawn("F", 0.5), "TIFF"), "floating-point"),
}

DOORS: dict[str, Callable[[Path], Any]] = {
    "encoders": read_image,
    "chat models": lambda path: data_uri(Asked(path, 512)),
    "reports": thumbnail,
    "audit": picture_hash,
    "serve": lambda path: check_picture(path, str(path), 20),
}


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize("door", DOORS)
def test_what_is_no_whole_picture_is_refused_at_every_door(tmp_path: Path, kind: str, door: str):
    content, words = REFUSED[kind]
    path = tmp_path / "a.png"
    path.write_bytes(content)
    read_image(_right(tmp_path / "right.png"))  # Pillow's plugins are loaded
    with little_memory(1 << 28), soon(5), pytest.raises((UserError, Problem)) as caught:
        DOORS[door](path)
    if door != "serve":
        check_message(caught.value, tmp_path)  # type: ignore[arg-type]
        assert any(word in str(caught.value) for word in words.split("|"))


def _right(path: Path) -> Path:
    path.write_bytes(written(drawn("RGB", RED), "PNG"))
    return path


def test_a_profile_and_exif_data_that_swell_take_no_memory(tmp_path: Path):
    profile = chunk(b"iCCP", b"a\0\0" + zlib.compress(bytes(10**8)))
    exif = chunk(
        b"eXIf", b"MM\0*" + struct.pack(">I", 8) + struct.pack(">H", 60_000) + bytes(10**6)
    )
    path = tmp_path / "a.png"
    path.write_bytes(png(8, 6, 8, 0, bytes(54), profile))
    with little_memory(1 << 26), soon(2), pytest.raises(UserError) as caught:
        read_image(path)
    check_message(caught.value, tmp_path)
    path.write_bytes(png(8, 6, 8, 0, bytes(54), exif))
    with little_memory(1 << 26), soon(5):
        assert read_image(path).size == (8, 6)


def test_of_ten_thousand_frames_one_is_read(tmp_path: Path):
    first = b"GIF89a" + struct.pack("<HHBBB", 800, 800, 0x80, 0, 0) + bytes([*RED, *BLUE])
    frame = b"," + struct.pack("<HHHHB", 0, 0, 2, 2, 0) + b"\x02\x03\x04\x04\x05\x00"
    path = tmp_path / "a.gif"
    path.write_bytes(first + frame * 10_000 + b";")
    with soon(2):
        assert read_image(path).size == (800, 800)
        assert data_uri(Asked(path, 512))


# ---------------------------------------------------------------------------------------- names


NAMES = [
    *("-rf.png", "a\u202egnp.png", "a\x1b[31m.png", "a\tb.png", "a\nb.png", "a\rb.png"),
    *("a\x85.png", "a\u2028b.png", "a\"b'.png", "a,b;c.png", "=1+1.png", "\u200f.png"),
    *("%41&amp;<b>.png", "a\\nb.png", "C:\\a.png", "a", "{{ 1 }}.png", "é" * 110 + ".png"),
]


@pytest.fixture
def odd_names(tmp_path: Path) -> Path:
    """An image set of one item, whose pictures have odd names."""
    folder = tmp_path / "set"
    folder.mkdir()
    names = NAMES
    for k, name in enumerate(names):
        Image.new("RGB", (8, 6), (10 * k, 0, 0)).save(folder / name, "PNG")
    row = {
        "compound": "night owl",
        "sentence": "A night owl.",
        "sentence_type": "idiomatic",
        "candidates": [{"image": name, "caption": f"thing {k}"} for k, name in enumerate(names)],
        "expected_order": names,
    }
    (folder / "manifest.jsonl").write_text(json.dumps(row) + "\n")
    return folder


def test_odd_names_go_through_a_run_its_files_and_its_report(odd_names: Path, tmp_path: Path):
    names = tuple(NAMES)
    items = read_items(odd_names)
    assert tuple(one.name for one in items[0].candidates) == names
    settings = Settings(sense="vote", track="caption")
    run = rank(
        items, settings, llms=[explains("Idiomatic")], encoder=WordEncoder(), source=odd_names
    )
    submission, *_ = write_run(run, tmp_path / "run")
    (order,) = (one.order for one in read_submission(submission))
    assert order == run.rankings[0].order
    assert sorted(order) == sorted(names)
    (ranking,) = read_run(tmp_path / "run").rankings
    assert ranking.order == order
    assert ranking.scores.tolist() == pytest.approx(run.rankings[0].scores.tolist())
    for images in ("embed", "link"):
        page = write_report([tmp_path / "run"], tmp_path / f"{images}.html", images=images)
        text = page.read_text(encoding="utf-8")
        assert "\x1b" not in text
        assert "<b>.png" not in text


def test_odd_names_are_listed_and_indexed(odd_names: Path, tmp_path: Path):
    class Colours(WordEncoder):
        identity = name = "colours"

        def encode_images(self, images: Any) -> Any:
            seen = [f"red {read_image(one).getpixel((0, 0))}" for one in images]
            return self.encode_texts(seen, role="document")

    (odd_names / b"\xff.png".decode(errors="surrogateescape")).write_bytes(b"no name")
    write_index(odd_names, Colours(), tmp_path / "index")
    found = open_index(tmp_path / "index")
    there = {one.name for one in found.things(range(found.size))}
    assert there == {name for name in NAMES if name != "a"}
    listed = sorted(name for name in there if unicodedata.normalize("NFC", name).isprintable())
    (odd_names / "some.lst").write_text("\n".join(listed) + "\n", encoding="utf-8")
    write_index(odd_names / "some.lst", Colours(), tmp_path / "listed")
    found = open_index(tmp_path / "listed")
    assert {one.name for one in found.things(range(found.size))} == set(listed)


def test_links_that_leave_are_followed_where_a_manifest_names_them(tmp_path: Path):
    (tmp_path / "set").mkdir()
    outside = _right(tmp_path / "outside.png")
    (tmp_path / "set" / "a.png").symlink_to(outside)
    (tmp_path / "set" / "b.png").symlink_to("/dev/zero")
    (tmp_path / "set" / "c.png").symlink_to(tmp_path / "nowhere.png")
    row = {
        "compound": "night owl",
        "sentence": "A night owl.",
        "candidates": [{"image": f"{one}.png", "caption": one} for one in "abc"],
    }
    (tmp_path / "set" / "manifest.jsonl").write_text(json.dumps(row) + "\n")
    (item,) = read_items(tmp_path / "set")
    assert [one.image and one.image.name for one in item.candidates] == ["a.png", None, None]
    for name in ("../outside.png", str(outside)):
        row["candidates"][0]["image"] = name  # type: ignore[index]
        (tmp_path / "set" / "manifest.jsonl").write_text(json.dumps(row) + "\n")
        with pytest.raises(UserError, match="lies outside the data folder"):
            read_items(tmp_path / "set")
