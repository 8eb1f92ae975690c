import hashlib

import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageOps

from admire import SAMPLES, Candidate, Item, UserError
from admire.data.image_files import read_image
from admire.data.overlap import alike, digests, parts_of, picture_hash, picture_hashes, plain

PICTURES = sorted((SAMPLES / "images").iterdir())


@pytest.mark.parametrize(
    "copy",
    [
        "a cat’s  eyes glow: at night",
        "A CAT'S EYES GLOW AT NIGHT.",
        "a cat&#39;s eyes\\nglow at night",
        "**a cat's eyes**\n\n* glow_at night",
        "ａ cat's eyes glow at night",
    ],
)
def test_copies_of_a_text_are_plainly_the_same(copy):
    assert plain(copy) == "a cat s eyes glow at night"


def test_an_items_parts_have_digests_that_stay_what_cards_say():
    item = Item(
        "Night-Owls 2",
        "They are night owls.",
        candidates=(Candidate("a.png", caption="A desk."), Candidate("b.png", caption="a DESK")),
        sequence=(Candidate("sequence1", caption="a lamp"),),
    )

    def sha(text: str) -> str:
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    # The number stands behind the compound alone, so it is none of its words.
    assert digests(parts_of([item])) == {
        "compound": [sha("nightowl")],
        "sentence": [sha("they are night owls")],
        "caption": sorted([sha("a desk"), sha("a lamp")]),
        "picture": [],
    }
    assert sha("nightowl") == "882099af2b09373f"  # cards that are written hold such


def test_a_pictures_digest_stays_what_cards_say(tmp_path):
    ramp = np.tile(np.linspace(0, 255, 170, dtype=np.uint8), (160, 1))
    Image.fromarray(ramp).save(tmp_path / "ramp.png")
    assert picture_hash(tmp_path / "ramp.png") == "f" * 64
    assert picture_hash(PICTURES[0])[:32] == "04c0196017102d4a4aac496d055c2698"


@pytest.mark.parametrize("path", PICTURES[::5], ids=lambda path: path.name)
def test_copies_of_a_picture_are_found_and_no_other_drawing_is(path, tmp_path):
    others = {picture_hash(other) for other in PICTURES if other != path}
    picture = read_image(path)
    made = {
        "twice.png": picture.resize((picture.width * 2, picture.height * 2)),
        "saved.jpg": picture,
        "dark.png": ImageEnhance.Brightness(picture).enhance(0.6),
        "sepia.png": ImageOps.colorize(picture.convert("L"), "#201000", "#fff0d0"),
    }
    for name, copy in made.items():
        copy.save(tmp_path / name, **({"quality": 40} if name.endswith(".jpg") else {}))
        found = picture_hash(tmp_path / name)
        assert alike([found], [picture_hash(path)]), name
        assert not alike([found], others), name


def test_pictures_look_alike_up_to_the_limit_of_bits():
    def bits(count: int) -> str:
        return f"{(1 << count) - 1:064x}"

    assert alike([bits(0)], [bits(40), bits(41), bits(1)]) == {bits(0): [bits(40), bits(1)]}
    assert alike([bits(0)], [bits(41)]) == {}
    assert alike([bits(0)], []) == {}


def test_pictures_are_read_once_and_those_that_cannot_be_are_told(tmp_path):
    cut = tmp_path / "cut.png"
    cut.write_bytes(PICTURES[0].read_bytes()[:400])
    hashes, unread = picture_hashes([PICTURES[0], cut, PICTURES[0]])
    assert hashes == {PICTURES[0]: picture_hash(PICTURES[0])}
    assert list(unread) == [cut]
    assert f"{cut}: the image cannot be decoded" in unread[cut]
    item = Item("owl", "An owl.", candidates=(Candidate("a", PICTURES[0]), Candidate("b", cut)))
    assert len(digests(parts_of([item], hashes=hashes))["picture"]) == 1
    with pytest.raises(UserError, match=r"cut\.png"):
        list(parts_of([item]))
    assert not digests(parts_of([item], pictures=False))["picture"]
