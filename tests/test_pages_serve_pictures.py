from __future__ import annotations

import io
import resource
import struct
import zlib
from collections.abc import Iterator

import pytest
from serving import Page, Served, drawn, problem, serving

from admire.pages.serve import Limits
from admire.pages.serve.pictures import distinct, label

Image = pytest.importorskip("PIL.Image")


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(limits=Limits(pictures=3, megabytes=0.05, megapixels=0.5, stored=0.3)) as found:
        yield found


@pytest.fixture
def page(served: Served) -> Iterator[Page]:
    found = served.visit()
    yield found
    clear(served, found)


def clear(served: Served, page: Page) -> None:
    for picture in list(served.service.visitors.find(page.visitor).pictures):
        page.delete(f"/pictures/{picture}")


def bomb(side: int = 40_000) -> bytes:
    """A PNG file of a few kilobytes whose rows are all black."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        crc = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + crc

    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    rows = zlib.compress(bytes(1_000_000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF"])
def test_a_picture_is_known_by_its_content_and_comes_back_as_it_was(page, kind):
    content = drawn(kind)
    answer = page.add(content, "photo.html")
    assert answer.status_code == 201
    told = answer.json()
    assert (told["name"], told["width"], told["height"]) == ("photo.html", 40, 30)
    back = page.client.get(f"/pictures/{told['id']}?visitor={page.visitor}")
    assert back.content == content
    assert back.headers["content-type"] == f"image/{kind.lower()}"
    assert back.headers["content-disposition"] == "inline"
    assert back.headers["x-content-type-options"] == "nosniff"
    assert back.headers["cache-control"].startswith("private")


def test_a_picture_is_measured_upright(page):
    written = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (40, 30)).save(written, "JPEG", exif=exif)
    told = page.add(written.getvalue()).json()
    assert (told["width"], told["height"]) == (30, 40)


def test_thumbnails_are_small_and_webp(page):
    picture = page.add(drawn(size=(400, 300))).json()["id"]
    for _ in range(2):  # made, and found
        answer = page.get(f"/pictures/{picture}?side=32")
        assert answer.headers["content-type"] == "image/webp"
        with Image.open(io.BytesIO(answer.content)) as small:
            assert small.size == (32, 24)
    for side in ("5000", "0", "-1", "big", "", "9" * 5000):
        assert "16 to 1024" in problem(page.get(f"/pictures/{picture}?side={side}"), 422)


@pytest.mark.parametrize(
    ("content", "status", "said"),
    [
        (b"I am a text.", 415, "is not a picture in PNG, JPEG, WebP or GIF"),
        (b'<svg xmlns="http://www.w3.org/2000/svg"><script/></svg>', 415, "is not a picture"),
        (drawn("TIFF"), 415, "is not a picture"),
        (drawn("BMP"), 415, "is not a picture"),
        (b"", 422, "is empty"),
        (drawn(size=(200, 200))[:-40], 422, "cut off"),
        (drawn("JPEG", size=(200, 200))[:-400], 422, "cut off"),
        (drawn("WEBP", size=(200, 200))[:-20], 422, "cut off"),
        (drawn(size=(1000, 501)), 413, "0.5 million pixels"),
        (drawn() + bytes(60_000), 413, "0.05 MB"),
    ],
)
def test_other_files_are_refused_and_not_kept(served, page, content, status, said):
    assert said in problem(page.add(content, "notes.png"), status)
    assert not list(served.service.visitors.find(page.visitor).folder.iterdir())


@pytest.mark.filterwarnings("ignore:Image size")
def test_a_pixel_bomb_is_refused_before_it_is_decoded(page):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for side in (40_000, 12_000):  # beyond Pillow's limit, and below it
        assert "million pixels" in problem(page.add(bomb(side)), 413)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 20_000  # kilobytes; decoded it would be 4.8 GB, or 430 MB


def test_a_page_has_so_many_pictures_and_all_pages_so_many_bytes(served, page):
    added = [page.add(drawn()) for _ in range(5)]
    assert [one.status_code for one in added] == [201, 201, 201, 409, 409]
    assert "Remove one" in problem(added[-1], 409)
    assert page.delete(f"/pictures/{added[0].json()['id']}").status_code == 204
    problem(page.get(f"/pictures/{added[0].json()['id']}"), 404)
    assert len(list(served.service.visitors.find(page.visitor).folder.iterdir())) == 2
    assert page.add(drawn()).status_code == 201
    others = [served.visit() for _ in range(4)]
    large = drawn() + bytes(45_000)
    assert [other.add(large).status_code for other in others for _ in range(2)][-1] == 507
    for other in others:
        clear(served, other)


def test_a_picture_is_only_for_who_sent_it(served, page):
    picture = page.add(drawn()).json()["id"]
    other = served.visit()
    problem(other.get(f"/pictures/{picture}"), 404)
    problem(other.delete(f"/pictures/{picture}"), 404)
    candidates = [{"picture": picture, "caption": None}, {"picture": None, "caption": "a"}]
    asked = {"kind": "rank", "compound": "a", "sentence": "a", "candidates": candidates}
    problem(other.post("/jobs", json=asked), 404)


def test_names_are_shown_and_never_paths(served, page):
    told = page.add(drawn(), "../../etc/<b>\u202e\x00passwd.png").json()
    assert told["name"] == "<b> passwd.png"
    (file,) = served.service.visitors.find(page.visitor).folder.iterdir()
    assert file.name == told["id"]
    assert served.service.folder.stat().st_mode & 0o777 == 0o700
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_labels():
    assert label("C:\\fotos\\ein Bild.png") == "ein Bild.png"
    assert [label(name) for name in ("", "..", "a/..", "/")] == ["picture"] * 4
    assert label("x" * 500) == "x" * 100
    assert distinct(["a.png", "b", "A.png", "b", "a (2).png"]) == [
        "a.png",
        "b",
        "A (2).png",
        "b (2)",
        "a (2) (2).png",
    ]
