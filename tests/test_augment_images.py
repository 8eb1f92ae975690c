"""Variants of pictures: what is done to them, how often, and what is on the disk afterwards."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admire.base.errors import UserError
from admire.base.storage import MARKER

if find_spec("albumentations") is None:  # not importorskip: the import would ask the network
    pytest.skip("needs the extra 'augment'", allow_module_level=True)
Image = pytest.importorskip("PIL.Image", reason="needs the extra 'augment'")

from admire.augment import images  # noqa: E402 - after the skips
from admire.augment.images import SHEET, augment_folder, augment_image, contact_sheet  # noqa: E402

NOISE = (60, 200)
WHITE = [255, 255, 255]


def drawing(width: int, height: int) -> np.ndarray:
    """Red grows to the right, green downwards and is above red, blue is noise of two values."""
    picture = np.empty((height, width, 3), np.uint8)
    picture[..., 0] = np.linspace(40, 120, width)
    picture[..., 1] = np.linspace(140, 220, height)[:, None]
    picture[..., 2] = np.random.default_rng(0).choice(NOISE, (height, width))
    return picture


def pixels(picture: Image.Image) -> np.ndarray:
    return np.asarray(picture).astype(int)


def corners(shown: np.ndarray) -> np.ndarray:
    return shown[[0, 0, -1, -1], [0, -1, 0, -1]]


def done(variant: Image.Image) -> frozenset[str]:
    """Which operations a variant of drawing(600, 500) went through.

    Light and blur cannot be told from a rotation, so they are looked for in other variants only.
    """
    shown = pixels(variant)
    operations = {"crop": shown.shape == (450, 450, 3)}
    # Inside the circle that a rotation leaves, its angle turns no slope round; a flip does.
    height, width = shown.shape[:2]
    middle = shown[height // 2 - 150 : height // 2 + 150, width // 2 - 150 : width // 2 + 150]
    operations["flip left to right"] = middle[:, :100, 0].mean() > middle[:, -100:, 0].mean()
    operations["flip upside down"] = middle[:100, :, 1].mean() > middle[-100:, :, 1].mean()
    # White, whatever light did to it; the drawing's own corners are greener than red.
    rotated = operations["rotate"] = bool((np.ptp(corners(shown), axis=1) <= 1).all())
    blue = set(np.unique(shown[..., 2]).tolist())
    operations["blur"] = not rotated and len(blue) > 2
    operations["light"] = not rotated and len(blue) == 2 and blue != set(NOISE)
    return frozenset(name for name, seen in operations.items() if seen)


@pytest.fixture(scope="module")
def variants() -> list[Image.Image]:
    picture = Image.fromarray(drawing(600, 500))
    return [augment_image(picture, seed) for seed in range(200)]


@pytest.fixture(scope="module")
def histories(variants: list[Image.Image]) -> list[frozenset[str]]:
    return [done(variant) for variant in variants]


# One variant


@settings(max_examples=15)
@given(st.integers(1, 60), st.integers(1, 60), st.integers(0, 2**64 - 1))
def test_a_seed_gives_one_variant(width: int, height: int, seed: int):
    picture = Image.fromarray(drawing(width, height))
    before = pixels(picture)
    surroundings = random.getstate(), np.random.get_state()[1].tolist()

    variant = augment_image(picture, seed)

    assert variant.mode == "RGB"
    assert (pixels(augment_image(picture, seed)) == pixels(variant)).all()
    assert (pixels(picture) == before).all()
    assert (random.getstate(), np.random.get_state()[1].tolist()) == surroundings


def test_operations_are_as_frequent_as_in_the_paper(histories: list[frozenset[str]]):
    share = Counter(name for history in histories for name in history)
    names = {"crop", "rotate", "flip left to right", "flip upside down"}
    for name in names:
        assert 0.4 < share[name] / 200 < 0.6, name
    combinations = Counter(history & names for history in histories)
    assert len(combinations) == 16  # each is drawn on its own
    assert max(combinations.values()) < 35
    still = [history for history in histories if "rotate" not in history]
    assert 0.12 < sum("blur" in history for history in still) / len(still) < 0.28
    sharp = [history for history in still if "blur" not in history]
    assert 0.12 < sum("light" in history for history in sharp) / len(sharp) < 0.28


def test_rotated_corners_are_white_and_the_middle_stays():
    picture = Image.fromarray(np.full((101, 101, 3), [10, 200, 90], np.uint8))
    shown = [pixels(augment_image(picture, seed)) for seed in range(200)]
    white = [one for one in shown if (corners(one) == WHITE).all()]
    # Half are rotated; in a tenth of these light then dims the white.
    assert 60 < len(white) < 110
    for one in white:
        assert one.shape == (101, 101, 3)
        assert (np.ptp(one[40:60, 40:60], axis=(0, 1)) == 0).all()
    # By no more than 45 degrees: beyond, less than half of the edge's middle would be white too.
    assert all((one.reshape(-1, 3) == WHITE).all(1).mean() < 0.18 for one in white)


# A folder


def save(path: Path, width: int = 40, height: int = 30, *, shade: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = drawing(width, height)
    picture[0, 0] = shade
    Image.fromarray(picture).save(path)
    return path


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = tmp_path / "pictures"
    save(folder / "owl.png", shade=1)
    save(folder / "sub" / "deep" / "owl.JPG", shade=2)
    save(folder / "sub" / "a.b.bmp", shade=3)
    return folder


def state(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Content and time of every file below a folder but admire's marker, hidden ones too."""
    return {
        path.relative_to(folder).as_posix(): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file() and path.name != MARKER
    }


def changed(before: dict[str, tuple[bytes, int]], after: dict[str, tuple[bytes, int]]) -> set[str]:
    """What was written anew."""
    return {name for name in after if before.get(name) != after[name]}


def test_variants_lie_as_their_pictures_do(pictures: Path, tmp_path: Path):
    out = tmp_path / "out"
    written = augment_folder(pictures, out, per_image=2)
    names = ["owl_1.png", "owl_2.png", "sub/a.b_1.png", "sub/a.b_2.png"]
    names += ["sub/deep/owl_1.png", "sub/deep/owl_2.png"]
    assert [path.relative_to(out).as_posix() for path in written] == names
    assert sorted(state(out)) == sorted(names)
    for path in written:
        with Image.open(path) as opened:
            assert (opened.format, opened.mode, opened.size) == ("PNG", "RGB", (40, 30))


def test_a_second_run_makes_only_what_is_missing_or_would_be_different_now(
    pictures: Path, tmp_path: Path
):
    out = tmp_path / "out"

    def again(**options: int) -> set[str]:
        before = state(out)
        augment_folder(pictures, out, **options)
        return changed(before, state(out))

    first = augment_folder(pictures, out, per_image=2)
    assert again(per_image=2) == set()
    assert again(per_image=3) == {"owl_3.png", "sub/a.b_3.png", "sub/deep/owl_3.png"}
    whole = first[2].read_bytes()
    for damage in (first[2].unlink, lambda: first[2].write_text("no picture")):
        damage()
        assert again(per_image=2) == {"sub/a.b_1.png"}
        assert first[2].read_bytes() == whole
    save(pictures / "owl.png", shade=99)
    assert again(per_image=2) == {"owl_1.png", "owl_2.png"}
    assert len(again(per_image=2, seed=-1)) == 6
    assert len({path.read_bytes() for path in first}) == 6


def test_a_killed_run_goes_on(pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    out, calls = tmp_path / "out", []

    def kill_at_fourth(picture: Image.Image, seed: int) -> Image.Image:
        calls.append(seed)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return augment_image(picture, seed)

    with monkeypatch.context() as patch:
        patch.setattr(images, "augment_image", kill_at_fourth)
        with pytest.raises(KeyboardInterrupt):
            augment_folder(pictures, out, per_image=2)
    before = state(out)
    assert sorted(before) == ["owl_1.png", "owl_2.png", "sub/a.b_1.png"]
    augment_folder(pictures, out, per_image=2)
    after = state(out)
    assert changed(before, after) == {"sub/a.b_2.png", "sub/deep/owl_1.png", "sub/deep/owl_2.png"}
    whole = augment_folder(pictures, tmp_path / "at once", per_image=2)
    assert {path.read_bytes() for path in whole} == {content for content, _ in after.values()}


def test_hidden_files_and_other_files_are_left_alone(pictures: Path, tmp_path: Path):
    save(pictures / ".hidden.png")
    save(pictures / ".folder" / "a.png")
    save(pictures / "sub" / ".folder" / "deep" / "a.png")
    for name in ("notes.txt", "film.mpg", "table.h5", "paper.pdf", "no suffix"):
        (pictures / name).write_bytes(b"x")
    (pictures / "folder.png").mkdir()
    save(pictures / "folder.png" / "c.webp")
    written = augment_folder(pictures, tmp_path / "out")
    assert [path.relative_to(tmp_path / "out").as_posix() for path in written] == [
        "folder.png/c_1.png",
        "owl_1.png",
        "sub/a.b_1.png",
        "sub/deep/owl_1.png",
    ]


# Mistakes


def refused(folder: Path, out: Path, **asked: int) -> str:
    """What the user is told; nothing may have been written."""
    before = state(out)
    with pytest.raises(UserError) as caught:
        augment_folder(folder, out, **asked)
    assert state(out) == before
    return str(caught.value)


def test_pictures_with_the_same_variants_are_refused(pictures: Path, tmp_path: Path):
    save(pictures / "sub" / "deep" / "owl.png")
    message = refused(pictures, tmp_path / "out")
    assert str(pictures / "sub" / "deep" / "owl.png") in message
    assert "owl.JPG" in message
    assert "Rename" in message


@pytest.mark.parametrize("inside", [".", "sub/out"])
def test_variants_among_the_pictures_are_refused(pictures: Path, inside: str):
    assert "among the pictures" in refused(pictures, pictures / inside)


@pytest.mark.parametrize("there", ["thesis.txt", "pictures"])
def test_a_folder_that_admire_did_not_write_is_refused(pictures, tmp_path, there):
    out = tmp_path if there == "pictures" else tmp_path / "out"
    if there == "thesis.txt":
        out.mkdir()
        (out / there).write_text("years of work")
    message = refused(pictures, out)
    assert f"(it holds '{there}'). Choose another place" in message
    assert not (out / MARKER).exists()


def test_no_folder_and_no_picture(tmp_path: Path):
    assert str(tmp_path / "none") in refused(tmp_path / "none", tmp_path / "out")
    empty = tmp_path / "empty"
    (empty / "sub").mkdir(parents=True)
    (empty / "sub" / "notes.txt").write_text("nothing to see")
    save(empty / ".hidden.png")
    save(empty / SHEET)
    assert f"{empty}: there is no picture" in refused(empty, tmp_path / "out")
    assert "not a folder" in refused(empty / ".hidden.png", tmp_path / "out")


@pytest.mark.parametrize("content", ["nothing", "half"])
def test_a_damaged_picture_is_named_and_what_was_made_stays(
    pictures: Path, tmp_path: Path, content: str
):
    damaged, out = pictures / "sub" / "a.b.bmp", tmp_path / "out"
    whole = damaged.read_bytes()
    broken = {"nothing": b"", "half": whole[: len(whole) // 2]}
    damaged.write_bytes(broken[content])
    with pytest.raises(UserError, match=r"a\.b\.bmp"):
        augment_folder(pictures, out, per_image=2)
    before = state(out)
    assert sorted(before) == ["owl_1.png", "owl_2.png"]
    damaged.write_bytes(whole)
    assert len(augment_folder(pictures, out, per_image=2)) == 6
    assert not changed(before, state(out)) & set(before)


def test_the_library_asks_no_network():
    code = (
        "import sys, os, urllib.request\n"
        "def refuse(*_, **__): sys.exit('asks the network')\n"
        "urllib.request.OpenerDirector.open = refuse\n"
        "from admire.augment import images\n"
        "from PIL import Image\n"
        "images.augment_image(Image.new('RGB', (9, 9)), 0)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert "warn" not in ended.stderr.lower()


# A contact sheet

ROW, GAP, THUMB, LABEL = 160 + 16 + 8, 8, 160, 16


def test_a_contact_sheet_has_a_row_a_picture(pictures: Path, tmp_path: Path):
    out = tmp_path / "out"
    written = augment_folder(pictures, out, per_image=2)
    sheet = contact_sheet(pictures, out, 2)
    assert sheet == out / "contact_sheet.png"
    with Image.open(sheet) as opened:
        shown = pixels(opened)
    thumb = round(40 * 160 / 30)
    assert shown.shape == (3 * ROW + GAP, 3 * (thumb + GAP) + GAP, 3)
    # Each thumbnail is its file, in its place; the names are below, the rest is white.
    sources = [pictures / "owl.png", pictures / "sub/a.b.bmp", pictures / "sub/deep/owl.JPG"]
    for row, source in enumerate(sources):
        top = GAP + row * ROW
        for column, path in enumerate([source, *written[2 * row : 2 * row + 2]]):
            left = GAP + column * (thumb + GAP)
            with Image.open(path) as opened:
                scaled = pixels(opened.resize((thumb, THUMB)))
            assert (shown[top : top + THUMB, left : left + thumb] == scaled).all()
            label = shown[top + THUMB : top + THUMB + LABEL, left : left + thumb]
            assert (label < 100).all(2).sum() > 20
            assert (label == 255).all(2).mean() > 0.7
            assert (shown[top : top + ROW, left - GAP : left] == 255).all()
    before = sheet.read_bytes()
    assert contact_sheet(pictures, out, 2).read_bytes() == before
