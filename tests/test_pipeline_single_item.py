"""One item ranked, and models that are given by name or as objects of one's own."""

import io
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from toys import OWL, PAPER, WordEncoder, explains, says

from admire import Settings, UserError, rank, rank_one
from admire.core.registry import register
from admire.core.storage import cache_dir
from admire.encoders import TextEncoder, Vectors
from admire.llm import ChatModel, Question, Reply

ASKED = "night owl", "My sister is a night owl."


class ByBlue(TextEncoder):
    """The bluer a picture, the nearer to any text."""

    def encode_texts(self, texts, *, role) -> Vectors:
        return np.tile(np.array([[1, 0]], dtype=np.float32), (len(texts), 1))

    def encode_images(self, images) -> Vectors:
        from PIL import Image

        blues = [Image.open(path).convert("RGB").getpixel((0, 0))[2] / 255 for path in images]
        return np.array([(blue, np.sqrt(1 - blue**2)) for blue in blues], dtype=np.float32)


class Literal(ChatModel):
    def ask(self, question: Question) -> Reply:
        meaning = '{"definitions": ["a bird"]}'
        return Reply("Literal" if "or literally" in question.text else meaning)


def test_pictures_are_paths_bytes_or_pils_and_models_of_ones_own_need_one_method(tmp_path):
    Image = pytest.importorskip("PIL.Image")  # noqa: N806
    pictures = {blue: Image.new("RGBA", (4, 3), (0, 0, blue)) for blue in (10, 200, 90)}
    (tmp_path / "a").mkdir()
    for name in ("owl.png", "a/owl.png"):
        pictures[10].save(tmp_path / name)
    written = io.BytesIO()
    pictures[200].save(written, "PNG")
    images = [tmp_path / "owl.png", written.getvalue(), pictures[90], str(tmp_path / "a/owl.png")]
    settings = Settings(sense="vote", votes=1)
    run = rank_one(*ASKED, images, settings=settings, llms=[Literal()], encoder=ByBlue())
    (ranking,) = run.rankings
    assert ranking.order[:2] == ("image2", "image3")
    assert set(ranking.order) == {"owl.png", "owl.png (2)", "image2", "image3"}
    assert ranking.predicted_type == "literal"
    assert run.record["models"]["llms"][0] == {
        "name": "Literal",
        "identity": "Literal",
        "sense": "vote",
        "meanings": "both",
    }
    assert "data:image/webp" in run._repr_html_()
    again = rank_one(*ASKED, images, settings=settings, llms=[Literal()], encoder=ByBlue())
    kept = [candidate.image for candidate in again.rankings[0].item.candidates]
    assert kept == [candidate.image for candidate in ranking.item.candidates]  # by content


@pytest.mark.parametrize("series", [tuple, pd.Series, lambda them: np.array(them, dtype=object)])
def test_captions_and_pictures_may_be_columns_or_arrays(series):
    Image = pytest.importorskip("PIL.Image")  # noqa: N806
    captions, pictures = series(["An owl.", "A lamp."]), [Image.new("L", (4, 4)), np.nan]
    models = {"settings": PAPER, "llms": [says("Literal")], "encoder": WordEncoder()}
    item = rank_one(*ASKED, series(pictures), captions, **models).rankings[0].item
    assert [candidate.caption for candidate in item.candidates] == ["An owl.", "A lamp."]
    assert [bool(candidate.image) for candidate in item.candidates] == [True, False]
    (alone,) = rank_one(*ASKED, captions=captions, language="pt-br", **models).rankings
    assert (alone.order[0], alone.item.language) == ("candidate1", "pt-br")


def closed(of_file: bool, folder: Path) -> object:
    Image = pytest.importorskip("PIL.Image")  # noqa: N806
    picture = Image.new("RGB", (4, 4))
    picture.save(folder / "a.png")
    if of_file:
        picture = Image.open(folder / "a.png")
    picture.close()
    return picture


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (partial(closed, True), "cannot be read .* It may be closed: pass its path"),
        (lambda _: new_image("F", (4, 4)), "has floating-point pixels"),
        (lambda _: b"", "the image file is empty"),
        (lambda _: b"<svg/>", ".*Save it as PNG or JPEG"),
        (lambda _: np.zeros((4, 4, 3), np.uint8), "is an array.* Use PIL.Image.fromarray"),
    ],
)
def test_a_picture_in_memory_that_cannot_be_used_is_told_by_its_number(tmp_path, make, message):
    with pytest.raises(UserError, match=f"candidate 2, image: {message}"):
        rank_one(*ASKED, [new_image("L", (4, 4)), make(tmp_path)])
    assert len([*cache_dir().glob("pictures/*")]) == 1


def new_image(mode: str, size: tuple[int, int]) -> object:
    return pytest.importorskip("PIL.Image").new(mode, size)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"captions": {"a": "b"}}, "captions must be a list, not a dict"),
        ({"captions": "ab"}, "captions must be a list, not a str"),
        ({"images": ["none.png", None]}, "candidate 1: the picture none.png does not exist"),
        ({"images": [b"1", b"2"], "captions": ["a"]}, "there are 1 captions for 2 images"),
        ({"images": [None, 3], "captions": ["a", "b"]}, "candidate 2, image: is a int"),
    ],
)
def test_what_is_not_taken_names_the_argument(arguments, message):
    with pytest.raises(UserError, match=message):
        rank_one(**{"compound": "owl", "sentence": "An owl."} | arguments)


@pytest.mark.usefixtures("forgotten")
def test_a_name_in_place_of_an_object_stands_in_the_settings():
    register("encoder", "toy")(WordEncoder)
    run = rank([OWL], Settings(sense="vote"), llms=[explains("Idiomatic")], encoder="toy")
    assert run.record["settings"]["encoder"] == ["toy"]
    assert run.record["models"]["encoders"]["caption"][0]["identity"] == "words:1"


def test_a_function_hears_the_progress_of_a_run():
    told = []
    for progress in (lambda *what: told.append(what), False):
        rank([OWL], PAPER, llms=[says("Literal")], encoder=WordEncoder(), progress=progress)
    first, *_, last = told
    assert first == ("Asking for the sense (model says Literal)", 0, 5)
    assert last[1] == last[2]
