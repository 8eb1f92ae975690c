import io

import pytest
from serving import drawn, problem, shared_server, uri

from admire.apps.serve.bodies import distinct, label

Image = pytest.importorskip("PIL.Image")

served = shared_server(megabytes=0.05, megapixels=0.5)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "AVIF", "TIFF", "BMP"])
def test_the_page_gets_a_small_copy_that_every_browser_shows(served, kind):
    answer = served.client.post("/thumbnail", content=drawn(kind, size=(1500, 8)))
    assert answer.headers["content-type"] == "image/webp"
    with Image.open(io.BytesIO(answer.content)) as copy:
        assert (copy.format, copy.size) == ("WEBP", (1024, 6))
    assert not list(served.service.folder.iterdir())


@pytest.mark.parametrize(
    ("content", "status", "said"),
    [
        (b"I am a text.", 415, "is not a picture"),
        (b"version https://git-lfs.github.com/spec/v1\noid", 415, "is a pointer of Git LFS"),
        (drawn("ICO"), 415, "is not a picture"),
        (drawn(size=(200, 200))[:-40], 422, "truncated"),
        (drawn(size=(1000, 501)), 413, "0.5 million pixels"),
        (drawn() + bytes(60_000), 413, "0.05 MB"),
    ],
)
def test_other_files_are_refused_by_the_page_and_by_rank(served, content, status, said):
    assert said in problem(served.client.post("/thumbnail", content=content), status)
    candidates = [{"image": uri(content), "caption": "a"}, {"caption": "b"}]
    assert said in problem(served.rank(candidates=candidates), status)
    assert not list(served.service.folder.iterdir())


def test_names_are_shown_and_never_paths():
    names = ("../../etc/<b>\u202e\x00passwd.png", "C:\\a b.png", "a/..", "x" * 500)
    expected = ["<b> passwd.png", "a b.png", "picture", "x" * 100]
    assert [label(name) for name in names] == expected
    assert distinct(["a.png", "b", "A.png", "b"]) == ["a.png", "b", "A (2).png", "b (2)"]
