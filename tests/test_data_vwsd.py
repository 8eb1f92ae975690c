from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import refused

from admire import Candidate, Item, UserError, read_items
from admire.data.reader import iter_items
from admire.data.rows import RowReader

NAMES = [f"image.{k}.jpg" for k in range(10)]
LINES = ["\t".join(row) for row in (("bank", "bank erosion", *NAMES), ("bat", "fruit bat", *NAMES))]
GOLD = ["image.3.jpg", "image.0.jpg"]


@pytest.fixture
def images(tmp_path: Path) -> Path:
    folder = tmp_path / "images"
    folder.mkdir()
    for name in NAMES:
        (folder / name).touch()
    return folder


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write(*lines, gold=(), name="train.data.v1.txt", start="", end="\n") -> Path:
        for kind, texts in (("data", lines), ("gold", gold)):
            if texts:
                path = tmp_path / name.replace("data", kind)
                path.write_bytes((start + end.join(texts) + end).encode())
        return tmp_path / name

    return write


def of_word(word: str, phrase: str, images: Path, best: str | None) -> Item:
    candidates = tuple(Candidate(name, images / name) for name in NAMES)
    return Item(phrase, "", candidates=candidates, expected_item=best, word=word)


@pytest.mark.parametrize(("start", "end"), [("", "\n"), ("\ufeff", "\r\n"), ("", "\n\n")])
def test_a_line_is_a_word_its_phrase_and_ten_images_and_the_gold_lies_beside(
    write, images, start, end
):
    data = write(*LINES, gold=GOLD, start=start, end=end)
    assert read_items(data, images=images) == [
        of_word("bank", "bank erosion", images, "image.3.jpg"),
        of_word("bat", "fruit bat", images, "image.0.jpg"),
    ]


def test_gold_and_language_can_be_named(write, images, tmp_path, caplog):
    caplog.set_level("WARNING", "admire")
    blind = write(*LINES, name="it.test.data.v1.1.txt")
    (item, _) = read_items(blind, images=images)
    assert (item.language, item.best) == ("it", None)
    other = tmp_path / "mine.txt"
    other.write_text("\n".join(GOLD))
    items = read_items(blind, "fa", images=images, gold=other)
    assert [(one.language, one.best) for one in items] == [("fa", best) for best in GOLD]
    data = write(*LINES, gold=GOLD, name="fa.test.data.txt")
    items = list(iter_items(data, rows=RowReader(whole=False)))  # to score, which needs no images
    assert [(one.language, one.best) for one in items] == [("fa", best) for best in GOLD]
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (LINES[1].removesuffix("\timage.9.jpg"), ("row 2", "11 cells")),
        (LINES[1].replace("fruit bat", " "), ("row 2", "compound: is empty")),
        (LINES[1].replace("image.4.jpg", "other.jpg"), ("row 2", "'other.jpg' is not in")),
        (LINES[1].replace("image.4.jpg", "../a.jpg"), ("row 2", "'../a.jpg' is not in")),
        (LINES[1].replace("image.4.jpg", "image.3.jpg"), ("row 2", "'image.3.jpg' appears more")),
    ],
)
def test_a_line_that_is_not_of_that_form_is_refused(write, images, line, words):
    data = write(LINES[0], line)
    refused(data, *words, read=lambda path: read_items(path, images=images))


@pytest.mark.parametrize(
    ("gold", "words"),
    [
        (GOLD[:1], ("train.gold.v1.txt: names 1 images", "has 2 items")),
        ([*GOLD, "image.1.jpg"], ("train.gold.v1.txt: names 3 images",)),
        (["image.3.jpg", "image.10.jpg"], ("train.gold.v1.txt", "item 2, 'image.10.jpg'", "bat")),
    ],
)
def test_gold_that_does_not_fit_is_refused(write, images, gold, words):
    data = write(*LINES, gold=gold)
    refused(data, *words, read=lambda path: read_items(path, images=images))


def test_gold_is_apart_in_v_wsd_alone(write, images, tmp_path):
    data = write(*LINES)
    with pytest.raises(UserError, match=r"none\.txt: cannot be read"):
        read_items(data, images=images, gold=tmp_path / "none.txt")
    table = tmp_path / "manifest.csv"
    table.write_text("compound,sentence\nnight owl,A night owl.\n")
    refused(table, "only for V-WSD", read=lambda path: read_items(path, gold=data))
