"""Triplets: what is an anchor, a positive and a negative, and which samples meet in training."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import refused
from hypothesis import given
from hypothesis import strategies as st
from toys import PictureEncoder, ScriptedChat, WordEncoder

from admire.core.errors import UserError
from admire.core.registry import register
from admire.data.items import Candidate, Item
from admire.tasks.training import (
    TripletSettings,
    caption_modalities,
    draw_soft_negatives,
    encode_triplets,
    image_modalities,
    open_triplets,
    split_compounds,
)


def captioned(compound: str, captions: Sequence[str | None], best: int = 0) -> Item:
    """An item whose candidates are a, b, c, … in this order, and whose gold order is rotated."""
    names = tuple("abcdefgh"[: len(captions)])
    candidates = [Candidate(n, caption=text) for n, text in zip(names, captions, strict=True)]
    order = names[best:] + names[:best]
    return Item(compound, f"A {compound}.", "en", tuple(candidates), "idiomatic", order)


def pictured(folder: Path, compound: str, shown: Sequence[str]) -> Item:
    """As captioned, with pictures a.png, b.png, … in the folder of the compound, no captions."""
    item = captioned(compound, [None] * len(shown))
    candidates = (
        replace(candidate, image=write(folder / compound / f"{candidate.name}.png", words))
        for candidate, words in zip(item.candidates, shown, strict=True)
    )
    return replace(item, candidates=tuple(candidates))


def words(text: str) -> np.ndarray:
    return WordEncoder().encode_texts([text], role="document")[0]


def test_each_candidate_has_its_place_and_the_gold_order_names_the_positive():
    items = [
        captioned("Night Owl", ["a bird", "a late worker", "a lamp"], best=1),
        captioned("bad apple", ["a red fruit", "a rogue"], best=1),
        captioned("NIGHT OWL", ["a bird", "an owl", "a lamp", "a moon"], best=3),
    ]
    queries = ["a late worker", "someone bad", "night owl"]
    found = encode_triplets(items, queries, WordEncoder(), caption_modalities(items, None))
    assert found.compounds == ("night owl", "bad apple", "night owl")
    assert found.modalities == ("caption",)
    assert found.positive.tolist() == [1, 1, 3]
    assert found.anchors.shape == (3, 512)
    assert found.documents.shape == (3, 4, 1, 512)
    assert found.documents.dtype == found.anchors.dtype == np.float32
    for s, item in enumerate(items):
        assert found.anchors[s] == pytest.approx(words(queries[s]))
        for c in range(4):
            there = c < len(item.candidates)
            assert found.present[s, c, 0] == there
            expected = words(item.candidates[c].caption or "") if there else np.zeros(512)
            assert found.documents[s, c, 0] == pytest.approx(expected)


def test_what_is_missing_is_zero_and_marked_in_each_modality(tmp_path):
    pictures = pictured(tmp_path, "night owl", ["bird", "desk", "lamp"])
    a, b, c = pictures.candidates
    item = replace(
        pictures,
        candidates=(replace(a, caption="a bird"), replace(b, image=None, caption="a desk"), c),
    )
    variant = tmp_path / "variant.png"
    variant.write_text("lamp reversed")
    images = {"image": {x.image: x.image for x in (a, c)}, "augmented image 1": {c.image: variant}}
    captions = {"caption": {"a bird": "a bird", "a desk": "a desk"}, "new": {"a desk": "a table"}}
    found = encode_triplets([item], ["bird"], PictureEncoder(), images | captions)
    assert found.modalities == ("image", "augmented image 1", "caption", "new")
    texts = [
        ["bird", "", "a bird", ""],
        ["", "", "a desk", "a table"],
        ["lamp", "lamp reversed", "", ""],
    ]
    assert found.present[0].tolist() == [[text != "" for text in row] for row in texts]
    expected = np.array([[words(text) for text in row] for row in texts])
    assert found.documents[0] == pytest.approx(expected)


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_the_kth_variants_of_pictures_are_found_in_folders_of_the_same_name(tmp_path):
    data, out = tmp_path / "data", tmp_path / "out"
    items = [pictured(data, name, ["x", "y"]) for name in ("night owl", "bad apple")]
    owl_a, owl_b = (c.image for c in items[0].candidates)
    apple_a, apple_b = (c.image for c in items[1].candidates)
    assert image_modalities(items, None) == {
        "image": {image: image for image in (owl_a, owl_b, apple_a, apple_b)}
    }
    owl = write(out / "night owl" / "a_1.png")
    apple = write(out / "train" / "bad apple" / "a_1.png")  # deeper down
    second = write(out / "night owl" / "a_2.png")
    write(out / "red tape" / "b_1.png")  # of another compound
    write(out / "night owl" / "b_12.png")
    write(out / "night owl" / "a_4.png")  # there is no third
    found = image_modalities(items, out)
    assert list(found) == ["image", "augmented image 1", "augmented image 2"]
    assert found["augmented image 1"] == {owl_a: owl, apple_a: apple}
    assert found["augmented image 2"] == {owl_a: second}


def test_captions_in_other_words_are_a_modality_for_each_maker(tmp_path):
    rewriting = pytest.importorskip("admire.augment.captions")
    items = [captioned("night owl", ["a bird\nin a tree", "a desk", None])]
    plain = {"caption": {"a bird\nin a tree": "a bird\nin a tree", "a desk": "a desk"}}
    assert caption_modalities(items, None) == plain

    path = tmp_path / "captions.csv"
    rows = [
        ("a bird\nin a tree", "back-translation", "opus:de", "a bird on a tree"),
        ("a desk", "back-translation", "opus:de", "a table"),
        ("a desk", "paraphrase", "t5:base", "some desk"),
        ("a lamp", "paraphrase", "openai:x", "some lamp"),  # of no candidate
    ]
    rewriting.write_rewritten(path, [rewriting.Rewritten(*row) for row in rows])
    assert caption_modalities(items, path) == plain | {
        "back-translation by opus:de": {
            "a bird\nin a tree": "a bird on a tree",
            "a desk": "a table",
        },
        "paraphrase by t5:base": {"a desk": "some desk"},
    }
    refused(path, read=lambda path: caption_modalities([captioned("apple", ["x", "y"])], path))


@pytest.mark.usefixtures("forgotten")
def test_anchors_are_the_gloss_or_the_compound_by_the_given_type(tmp_path):
    chat = ScriptedChat(lambda prompt: "a late worker")
    register("encoder", "toy")(PictureEncoder)
    register("chat", "toy")(lambda: chat)
    literal = replace(captioned("bad apple", ["one", "two"]), sentence_type="literal")
    items = [captioned("night owl", ["one", "two"]), literal]
    write(tmp_path / "gloss_en.j2", "My template about {{ compound }}.")
    found, encoder = open_triplets(
        items, TripletSettings(encoder="toy", llm="toy", prompts=tmp_path)
    )
    assert encoder.name == "pictures"
    assert found.anchors[0] == pytest.approx(words("a late worker"))
    assert found.anchors[1] == pytest.approx(words("bad apple"))
    assert [prompt.strip() for prompt in chat.prompts] == ["My template about night owl."]

    unknown = [replace(items[0], sentence_type=None)]
    with pytest.raises(UserError, match="'night owl'"):
        open_triplets(unknown, TripletSettings(encoder="toy", llm="toy"))


@st.composite
def repeated(draw: st.DrawFn, least: int = 3) -> list[str]:
    """Compounds with one to four samples each, in any order."""
    counts = draw(st.lists(st.integers(1, 4), min_size=least, max_size=40))
    return draw(st.permutations([f"c{k}" for k, n in enumerate(counts) for _ in range(n)]))


@given(repeated(), st.integers(0, 2**32))
def test_no_compound_is_on_two_sides_and_no_sample_is_lost(compounds, seed):
    parts = split_compounds(compounds, seed)
    assert sorted(k for part in parts for k in part.tolist()) == list(range(len(compounds)))
    training, validation, test = ({compounds[k] for k in part} for part in parts)
    assert min(map(len, (training, validation, test)))
    assert not training & validation | training & test | validation & test
    number = len(set(compounds))
    assert abs(len(test) - number / 5) <= 1
    assert abs(len(validation) - 0.1 * (number - len(test))) <= 1
    again = split_compounds(compounds, seed)
    assert all((a == b).all() for a, b in zip(parts, again, strict=True))


@given(repeated(least=2), st.integers(1, 5), st.integers(1, 3), st.integers(0, 999), st.data())
def test_soft_negatives_are_candidates_of_other_compounds(compounds, c, m, seed, draw):
    made = pytest.importorskip("heads", reason="needs the extra 'train'").made
    data = made(len(compounds), each=1, candidates=c, modalities=m, seed=seed)
    data = replace(data, compounds=tuple(compounds))
    chosen = st.lists(st.sampled_from(range(len(compounds))), unique=True, min_size=1)
    anchors, pool = (np.array(draw.draw(chosen)) for _ in range(2))
    others = [sum(compounds[k] != compounds[a] for k in pool) for a in anchors]
    k = draw.draw(st.integers(0, min(others)) | st.just(min(others)))
    samples, candidates = draw_soft_negatives(data, anchors, pool, k, np.random.default_rng(seed))
    assert samples.shape == candidates.shape == (len(anchors), k)
    for anchor, row, chosen_candidates in zip(anchors, samples, candidates, strict=True):
        assert set(row.tolist()) <= set(pool.tolist())
        assert len(set(row.tolist())) == k
        for sample, candidate in zip(row, chosen_candidates, strict=True):
            assert compounds[sample] != compounds[anchor]
            assert data.present[sample, candidate].any()
    again = draw_soft_negatives(data, anchors, pool, k, np.random.default_rng(seed))
    assert (again[0] == samples).all()
    assert (again[1] == candidates).all()
    with pytest.raises(UserError, match=f"has only {min(others)} other items"):
        draw_soft_negatives(data, anchors, pool, min(others) + 1, np.random.default_rng(seed))
