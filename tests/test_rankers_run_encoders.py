from collections.abc import Sequence
from dataclasses import replace
from math import sqrt
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from toys import (
    OWL,
    Reader,
    WordEncoder,
    opener,
    says,
)

from admire import Candidate, Item, Scoring, Settings, UserError, rank, read_run, write_run
from admire.apps.cli.output import print_rankings
from admire.encoders import Role, TextEncoder, Vectors
from admire.rankers.settings import PROFILES


class Seer(Reader):
    """As Reader, and knows the vectors of some files by their names."""

    def encode_images(self, images: Sequence[Path]) -> Vectors:
        self.read += [("image", image.name) for image in images]
        return np.array([self.vectors[image.name] for image in images], dtype=np.float32)


def like(compound: float, gloss: float = 0.0, width: int = 3) -> list[float]:
    """A unit vector with these cosines to the compound's and the gloss's."""
    rest = sqrt(1 - compound**2 - gloss**2)
    return [compound, gloss, rest, *[0.0] * (width - 3)]


def queries(width: int) -> dict[str, list[float]]:
    return {"night owl": like(1, 0, width), "late person": like(0, 1, width)}


def eyes() -> Seer:
    """Of 3 dimensions; over a, b and c its cosines standardise to multiples of √1.5."""
    pictures = {"a.png": like(0.8, 0.0), "b.png": like(0.0, 0.8), "c.png": like(0.4, 0.4)}
    return Seer("eyes", queries(3) | pictures)


def reader() -> Reader:
    """Of 4 dimensions; over A, B and C its cosines standardise to multiples of √0.5."""
    captions = {"A": like(0.0, 0.6, 4), "B": like(0.6, 0.6, 4), "C": like(0.6, 0.0, 4)}
    return Reader("reader", queries(4) | captions)


def one_space() -> Seer:
    """The pictures of ``eyes`` and the captions of ``reader`` in the same 3 dimensions."""
    captions = {"A": like(0.0, 0.6), "B": like(0.6, 0.6), "C": like(0.6, 0.0)}
    return Seer("both", eyes().vectors | captions)


def item(*candidates: str, compound: str = "night owl") -> Item:
    """``aA`` is a candidate with the image a.png and the caption A, ``a-`` and ``-A`` lack one."""
    return Item(
        compound,
        f"A {compound}.",
        candidates=tuple(
            Candidate(
                f"{image}{caption}",
                None if image == "-" else Path(f"{image}.png"),
                None if caption == "-" else caption,
            )
            for image, caption in candidates
        ),
    )


PAIRS = item("aA", "bB", "cC")
WEIGHTED = Scoring.paper(image_weight=2, caption_weight=0.5, contrast=0.5, standardise="item")
BASELINE = Settings(query="compound")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str]]:
    """Name, device and precision of each encoder that a run opens."""
    opened: list[tuple[str, str, str]] = []

    def open_encoder(name: str, *, device: str, precision: str, **_: object) -> TextEncoder:
        opened.append((name, device, precision))
        made = {"eyes": eyes, "reader": reader, "sight": one_space}.get(name, reader)
        return opener(made())(name)

    monkeypatch.setattr("admire.rankers.run_encoders.open_encoder", open_encoder)
    return opened


def test_images_and_captions_are_compared_by_encoders_of_their_own(opened):
    settings = Settings(
        encoder="eyes",
        caption_encoder="reader",
        sense="vote",
        meanings="gloss",
        scoring=WEIGHTED,
        device="cpu",
    )
    run = rank([PAIRS], settings, llms=[says("Idiomatic", "late person")])
    parts = pd.DataFrame(run.rankings[0].parts).set_index("candidate")
    for column, cosines in [
        ("image_compound", [0.8, 0, 0.4]),
        ("image_gloss", [0, 0.8, 0.4]),
        ("caption_compound", [0, 0.6, 0.6]),
        ("caption_gloss", [0.6, 0.6, 0]),
    ]:
        assert parts[column].tolist() == pytest.approx(cosines, abs=1e-6)
    # Standardised: image ±√1.5 and 0, caption -√2 = -2√½ and √½; gloss less half of the compound.
    half = sqrt(0.5)
    a = 2 * (-1.5 * sqrt(1.5)) + 0.5 * (half + half)
    b = 2 * (1.5 * sqrt(1.5)) + 0.5 * (half - half / 2)
    c = 0.5 * (-2 * half - half / 2)
    assert run.rankings[0].scores == pytest.approx([a, b, c], abs=1e-5)
    assert run.rankings[0].order == ("bB", "cC", "aA")
    assert run.record["models"]["encoders"] == {
        "image": [{"name": "eyes", "identity": "eyes:1"}],
        "caption": [{"name": "reader", "identity": "reader:1"}],
    }


def test_encoders_are_averaged_with_their_noise_or_by_their_standardised_scores(caplog):
    """Noise that is not stated is measured on other items; of a single item its own counts."""
    apart = reader()
    apart.noise = {"caption": 8.0}
    run = rank([PAIRS], BASELINE, encoder=[one_space(), apart])
    images, captions = np.array([sqrt(1.5), -sqrt(1.5), 0]), np.array([-sqrt(2), *[sqrt(0.5)] * 2])
    usual = sqrt(1 + 1 / 16)
    own = sqrt(0.08)  # of the captions' cosines
    expected = (images / usual + captions / usual + captions * own / sqrt(0.08 + 4)) / 2
    assert run.rankings[0].scores == pytest.approx(expected, abs=1e-5)
    assert run.record["noise"] == {"both": {}, "reader": {"caption": 8.0}}
    alone = rank([PAIRS], BASELINE, encoder=apart)
    assert alone.rankings[0].margin == pytest.approx(0, abs=1e-5)
    other = replace(PAIRS, compound="late person")
    measured = rank([PAIRS, other], BASELINE, encoder=one_space()).record["noise"]["both"]
    assert measured == pytest.approx({"image": 0.4 * sqrt(2 / 3), "caption": own}, abs=1e-5)

    # Each encoder's sum over its tracks is standardised over the item.
    within = replace(BASELINE, scoring=Scoring(standardise="item"))
    run = rank([PAIRS], within, encoder=[one_space(), reader()])
    both = images + captions
    expected = (both / both.std() + captions) / 2
    assert run.rankings[0].scores == pytest.approx(expected, abs=1e-5)
    parts = pd.DataFrame(run.rankings[0].parts)
    assert parts["encoder"].tolist() == ["both"] * 3 + ["reader"] * 3
    counted = parts.filter(like="part_").join(parts["candidate"]).groupby("candidate").sum()
    assert counted.sum(axis=1).tolist() == pytest.approx(expected, abs=1e-5)
    encoders = run.record["models"]["encoders"]
    assert [e["name"] for e in encoders["image"]] == ["both"]
    assert [e["name"] for e in encoders["caption"]] == ["both", "reader"]
    assert run.record["settings"]["encoder"] == ["both", "reader"]


def test_an_encoder_leaves_out_what_it_cannot_see(caplog):
    """A language that it does not know, and candidates with pictures alone."""
    english = reader()
    english.languages = ("en",)
    ranked = [replace(PAIRS, language="pt-br"), item("a-", "b-"), PAIRS]
    run = rank(ranked, BASELINE, encoder=[one_space(), english])
    by_item = [{part.get("encoder") for part in r.parts} for r in run.rankings]
    assert by_item == [{None}, {None}, {"both", "reader"}]
    alone = rank(ranked[:2], BASELINE, encoder=one_space())
    for found, expected in zip(run.rankings, alone.rankings, strict=False):
        assert found.order == expected.order
    assert english.read.count(("document", "A")) == 1, "of the item in English alone"
    caplog.clear()
    with caplog.at_level("INFO"):
        rank([ranked[0]], BASELINE, encoder=[one_space(), english])
    assert "'reader' does not compare texts in Portuguese" in caplog.text
    # Alone it compares what it does not know, because something must.
    assert rank([ranked[0]], BASELINE, encoder=english).rankings[0].order[0] == "bB"


def test_plain_sums_need_one_encoder_of_images_and_captions(opened):
    plain = Settings(query="compound", encoder="eyes", scoring=Scoring.paper())
    with pytest.raises(UserError, match=r"two encoders.*standardise"):
        rank([PAIRS], plain, caption_encoder=reader())
    # of one encoder, opened twice
    rank([PAIRS], plain, encoder=one_space(), caption_encoder=one_space())
    # where the other one has nothing to say
    by_image = rank([item("a-", "b-")], plain, caption_encoder=reader())
    assert by_image.rankings[0].scores == pytest.approx([0.8, 0], abs=1e-6)
    by_caption = rank([item("-A", "-B")], plain, caption_encoder=reader())
    assert by_caption.rankings[0].scores == pytest.approx([0, 0.6], abs=1e-6)


@pytest.mark.parametrize(
    ("track", "ranked", "needed"),
    [
        (None, PAIRS, {"image": "eyes", "caption": "reader"}),
        ("image", PAIRS, {"image": "eyes"}),
        ("caption", PAIRS, {"caption": "reader"}),
        (None, item("-A", "-B"), {"caption": "reader"}),
    ],
)
def test_only_the_encoders_that_are_needed_are_opened(opened, track, ranked, needed):
    settings = Settings(
        query="compound",
        track=track,
        encoder="eyes",
        caption_encoder="reader",
        device="cuda",
        precision="bfloat16",
    )
    run = rank([ranked], settings)
    assert sorted(opened) == sorted((name, "cuda", "bfloat16") for name in needed.values())
    found = {kind: one["name"] for kind, (one,) in run.record["models"]["encoders"].items()}
    assert found == needed
    kept = run.record["settings"]
    assert kept["track"] == "+".join(needed)
    assert (kept["encoder"], kept["caption_encoder"]) == (["eyes"], "reader")
    assert (kept["device"], kept["precision"]) == ("cuda", "bfloat16")


def test_pictures_without_any_caption_are_looked_at(opened, caplog):
    run = rank([item("a-", "b-", "c-")], BASELINE)
    assert run.rankings[0].order == ("a-", "c-", "b-")
    assert [name for name, *_ in opened] == ["sight", "minilm"]
    assert run.record["settings"]["encoder"] == ["sight", "minilm"]
    assert run.record["settings"]["scoring"]["image_weight"] == 1
    assert caplog.messages[0].startswith("3 of 3 candidates have no caption: the encoder sight")
    looking = replace(BASELINE, encoder=("e5", "sight"))
    assert rank([item("a-", "b-")], looking).record["settings"]["encoder"] == ["e5", "sight"]


@pytest.mark.parametrize(
    ("candidates", "order", "uncompared"),
    [
        (("a-", "b-", "-A"), ("a-", "b-", "-A"), ("-A",)),  # its score is the mean of the others
        (("-B", "b-", "-A", "-C"), ("-B", "-C", "-A", "b-"), ("b-",)),
        (("a-", "-A"), ("-A", "a-"), ("-A", "a-")),
        (("a-", "b-", "-A", "-B"), ("a-", "b-", "-B", "-A"), ("-A", "-B")),  # nothing joins them
    ],
)
def test_what_nothing_compares_is_last_and_marked(
    capsys, caplog, tmp_path, candidates, order, uncompared
):
    run = rank([item(*candidates)], BASELINE, encoder=one_space())
    (ranking,) = run.rankings
    assert (ranking.order, sorted(ranking.uncompared)) == (order, sorted(uncompared))
    assert not {*ranking.tied} & {*uncompared}
    assert ranking.prediction.tied_first or len(uncompared) < len(candidates)
    assert f"compares {', '.join(ranking.uncompared)} with the other candidates" in caplog.text
    table = run.to_frame().set_index("candidate")["compared"]
    assert [name for name in table.index if not table[name]] == [*order[-len(uncompared) :]]
    write_run(run, tmp_path / "run")
    read = read_run(tmp_path / "run").rankings[0]
    assert (read.order, read.uncompared, read.tied) == (order, ranking.uncompared, ranking.tied)
    print_rankings([read], 1)
    assert capsys.readouterr().out.count("(not compared)") == len(uncompared)


def test_a_track_without_weight_compares_nothing():
    settings = replace(BASELINE, scoring=replace(BASELINE.scoring, image_weight=0.0))
    (ranking,) = rank([item("aA", "bB", "c-")], settings, encoder=one_space()).rankings
    assert (ranking.order[-1], ranking.uncompared) == ("c-", ("c-",))


def test_where_some_captions_are_missing_pictures_count_half(opened, caplog):
    # The compound's cosines: images 0.8, 0 and 0.4; captions B and C 0.6, A 0.
    mixed = item("a-", "bB", "cA")
    run = rank([mixed], BASELINE)
    half, usual = sqrt(1.5) / 2, sqrt(1 + 1 / 16)  # with a quarter of the item's own as the noise
    expected = np.array([half, 1 - half, -1]) / usual
    assert run.rankings[0].scores == pytest.approx(expected, abs=1e-5)
    assert [name for name, *_ in opened] == ["sight", "minilm"]
    kept = run.record["settings"]
    assert (kept["track"], kept["scoring"]["image_weight"]) == ("image+caption", 0.5)
    assert "1 of 3 candidates have no caption" in caplog.text
    assert "with weight 0.5 relative to captions" in caplog.text
    # A weight of the user's own is halved, not replaced.
    heavy = Settings(query="compound", scoring=Scoring.paper(image_weight=4, standardise="item"))
    assert rank([mixed], heavy).rankings[0].scores[0] == pytest.approx(2 * sqrt(1.5), abs=1e-5)


def test_towers_of_two_widths_are_refused():
    broken = one_space()
    broken.vectors |= {"a.png": like(0.8, 0, 5), "b.png": like(0.8, 0, 5)}
    with pytest.raises(UserError, match=r"'both' returned vectors of 3 and 5.*cannot be compared"):
        rank([item("aA", "bB")], Settings(query="compound", track="image"), encoder=broken)


QUERIES = [("query", "night owl"), ("query", "late person")]
CAPTIONS = [("document", "A"), ("document", "B"), ("document", "C")]
IMAGES = [("image", "a.png"), ("image", "b.png"), ("image", "c.png")]


def test_two_encoders_are_given_each_text_and_image_once():
    see, read = eyes(), reader()
    llms = [says("Idiomatic", "late person"), says("Literal", "late person")]
    rank(
        [PAIRS, replace(PAIRS, sentence="Another night owl.")],
        Settings(sense="vote", meanings="gloss"),
        llms=llms,
        encoder=see,
        caption_encoder=read,
    )
    assert sorted(see.read) == sorted(QUERIES + IMAGES)
    assert sorted(read.read) == sorted(QUERIES + CAPTIONS)


class EightWords(WordEncoder):
    """Reads eight words of a text."""

    name = "eight"
    identity = "eight:1"
    max_tokens = 8

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def encode_texts(self, texts: Sequence[str], *, role: Role) -> Vectors:
        cut = [" ".join(text.split()[:8]) for text in texts]
        return super().encode_texts(cut, role=role)


def test_long_captions_are_read_to_their_end_and_counted():
    beginning = "There is a picture with someone in it. "
    late = Item(
        "night owl",
        "My sister is a night owl.",
        candidates=(
            Candidate("1", caption=f"{beginning}It is a red bicycle."),
            Candidate("2", caption=f"{beginning}It is a night owl."),
            Candidate("3", caption="a boat"),
        ),
    )
    settings = Settings(query="compound")
    parts = rank([late], settings, encoder=EightWords())
    assert parts.rankings[0].order[0] == "2"
    counted = {"encoder": "eight", "tokens": 8, "texts": 3, "longer": 2}
    assert parts.record["long_texts"] == [counted | {"read": "parts"}]
    cut = rank([late], replace(settings, long_texts="cut"), encoder=EightWords())
    assert cut.rankings[0].scores[0] == cut.rankings[0].scores[1]
    assert cut.record["long_texts"] == [counted | {"read": "cut"}]
    assert PROFILES["paper"].long_texts == "cut"


def test_an_encoder_given_as_an_object_may_not_return_nan():
    broken = WordEncoder()
    broken.encode_texts = lambda texts, role: np.full((len(texts), 3), np.nan)
    with pytest.raises(UserError, match="words: returned a vector that is zero or not finite"):
        rank([OWL], Settings(query="compound"), encoder=broken)
