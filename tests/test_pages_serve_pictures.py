from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
from serving import ASKED, Page, Served, drawn, problem, serving

from admire.pages.serve import Limits
from admire.pages.serve.pictures import distinct, label

Image = pytest.importorskip("PIL.Image")


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(limits=Limits(megabytes=0.05, megapixels=0.5)) as found:
        yield found


@pytest.fixture
def page(served: Served) -> Page:
    return served.visit()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "AVIF", "BMP"])
def test_a_picture_is_known_by_its_content_and_comes_back_as_it_was(page, kind):
    content = drawn(kind)
    answer = page.add(content, "photo.html")
    assert answer.status_code == 201
    told = answer.json()
    assert (told["name"], told["width"], told["height"]) == ("photo.html", 40, 30)
    back = page.client.get(f"/pictures/{told['id']}?visitor={page.visitor}")
    assert back.content == content
    assert back.headers["content-type"] == f"image/{kind.lower()}"


def test_a_tiff_comes_back_as_what_browsers_show(page):
    picture = page.add(drawn("TIFF")).json()["id"]
    assert page.get(f"/pictures/{picture}").headers["content-type"] == "image/webp"


def test_thumbnails_are_small_and_webp(page):
    picture = page.add(drawn(size=(400, 300))).json()["id"]
    for _ in range(2):  # made, and read from disk
        answer = page.get(f"/pictures/{picture}?side=32")
        assert answer.headers["content-type"] == "image/webp"
        with Image.open(io.BytesIO(answer.content)) as small:
            assert small.size == (32, 24)
    problem(page.get(f"/pictures/{picture}?side=5000"), 422)


@pytest.mark.parametrize(
    ("content", "status", "said"),
    [
        (b"I am a text.", 415, "is not a picture in PNG, JPEG, WebP, GIF, AVIF, TIFF or BMP"),
        (drawn("ICO"), 415, "is not a picture"),
        (drawn(size=(200, 200))[:-40], 422, "cut off"),
        (drawn(size=(1000, 501)), 413, "0.5 million pixels"),
        (drawn() + bytes(60_000), 413, "0.05 MB"),
    ],
)
def test_other_files_are_refused_and_not_kept(served, page, content, status, said):
    assert said in problem(page.add(content, "notes.png"), status)
    assert not list(served.service.find(page.visitor).folder.iterdir())


def test_a_picture_is_only_for_its_visitor(served, page):
    picture = page.add(drawn()).json()["id"]
    other = served.visit()
    problem(other.get(f"/pictures/{picture}"), 404)
    candidates = [{"picture": picture, "caption": None}, {"picture": None, "caption": "a"}]
    problem(other.post("/jobs", json=ASKED | {"candidates": candidates}), 404)


def test_names_are_shown_and_never_paths(served, page):
    told = page.add(drawn(), "../../etc/<b>\u202e\x00passwd.png").json()
    assert told["name"] == "<b> passwd.png"
    (file,) = served.service.find(page.visitor).folder.iterdir()
    assert file.name == told["id"]
    assert served.service.folder.stat().st_mode & 0o777 == 0o700
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert [label(name) for name in ("C:\\a b.png", "a/..", "x" * 500)] == [
        "a b.png",
        "picture",
        "x" * 100,
    ]
    assert distinct(["a.png", "b", "A.png", "b"]) == ["a.png", "b", "A (2).png", "b (2)"]
