"""Variants of pictures: what is done to them, how often, and what is on the disk afterwards."""

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

from admire.core.errors import UserError
from admire.core.storage import MARKER

if find_spec("albumentations") is None:  # not importorskip: the import would ask the network
    pytest.skip("needs the extra 'augment'", allow_module_level=True)
Image = pytest.importorskip("PIL.Image", reason="needs the extra 'augment'")

from admire.augment.images import augment_folder, augment_image, contact_sheet  # noqa: E402

NOISE = (60, 200)


def drawing(width: int, height: int) -> np.ndarray:
    """Red grows to the right, green downwards and is above red, blue is noise of two values."""
    picture = np.empty((height, width, 3), np.uint8)
    picture[..., 0] = np.linspace(40, 120, width)
    picture[..., 1] = np.linspace(140, 220, height)[:, None]
    picture[..., 2] = np.random.default_rng(0).choice(NOISE, (height, width))
    return picture


def pixels(picture: Image.Image) -> np.ndarray:
    return np.asarray(picture).astype(int)


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
    corners = shown[[0, 0, -1, -1], [0, -1, 0, -1]]
    rotated = operations["rotate"] = bool((np.ptp(corners, axis=1) <= 1).all())
    blue = set(np.unique(shown[..., 2]).tolist())
    operations["blur"] = not rotated and len(blue) > 2
    operations["light"] = not rotated and len(blue) == 2 and blue != set(NOISE)
    return frozenset(name for name, seen in operations.items() if seen)


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


def test_operations_are_as_frequent_as_in_the_paper():
    picture = Image.fromarray(drawing(600, 500))
    histories = [done(augment_image(picture, seed)) for seed in range(200)]
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
    save(folder / ".hidden.png")
    save(folder / ".folder" / "a.png")
    (folder / "film.mpg").write_bytes(b"x")
    return folder


def state(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Content and time of every file below a folder but admire's marker, hidden ones too."""
    return {
        path.relative_to(folder).as_posix(): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file() and path.name != MARKER
    }


def test_variants_lie_as_their_pictures_do(pictures: Path, tmp_path: Path):
    out = tmp_path / "out"
    written = augment_folder(pictures, out, per_image=2)
    names = ["owl_1.png", "owl_2.png", "sub/a.b_1.png", "sub/a.b_2.png"]
    names += ["sub/deep/owl_1.png", "sub/deep/owl_2.png"]
    assert [path.relative_to(out).as_posix() for path in written] == names
    assert sorted(state(out)) == sorted(names)
    assert augment_folder(pictures, tmp_path / "few", limit=1) == [tmp_path / "few" / "owl_1.png"]
    assert contact_sheet(pictures, tmp_path / "few", 1, 1).is_file()
    for path in written:
        with Image.open(path) as opened:
            assert (opened.format, opened.mode, opened.size) == ("PNG", "RGB", (40, 30))


def test_a_second_run_makes_only_what_is_missing_or_would_be_different_now(pictures, tmp_path):
    out = tmp_path / "out"

    def again(**options: int) -> set[str]:
        before = state(out)
        augment_folder(pictures, out, **options)
        return {name for name, file in state(out).items() if before.get(name) != file}

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


def test_variants_do_not_go_where_other_files_are(pictures: Path, tmp_path: Path):
    for out in (pictures, pictures / "sub" / "out", tmp_path):
        before = state(out)
        with pytest.raises(UserError):
            augment_folder(pictures, out)
        assert state(out) == before


@pytest.mark.ci
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


def test_a_contact_sheet_has_a_row_a_picture(pictures: Path, tmp_path: Path):
    out, gap, label, height = tmp_path / "out", 8, 16, 160
    written = augment_folder(pictures, out, per_image=2)
    sheet = contact_sheet(pictures, out, 2)
    assert sheet == out / "contact_sheet.png"
    with Image.open(sheet) as opened:
        shown = pixels(opened)
    width = round(40 * height / 30)
    below = height + label + gap
    assert shown.shape == (3 * below + gap, 3 * (width + gap) + gap, 3)
    left, top = gap + 2 * (width + gap), gap + 2 * below  # the last variant of the last picture
    with Image.open(written[-1]) as opened:
        scaled = pixels(opened.resize((width, height)))
    assert (shown[top : top + height, left : left + width] == scaled).all()
    name = shown[top + height : top + height + label, left : left + width]
    assert (name < 100).all(2).sum() > 20
