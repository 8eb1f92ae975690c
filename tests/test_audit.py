from dataclasses import replace

import pytest
from conftest import admire_row
from judges import ITEM, WORTHS, Judge, settings
from lexica import SYNSETS, wordnet
from PIL import Image
from scipy import stats
from toys import OWL

from admire import SAMPLES, Candidate, Item, UserError, rank, read_items, write_run
from admire.apps.audit.audit import Audit, audit, check_order, evenness
from admire.data.reader import iter_items
from admire.data.rows import RowReader
from admire.senses.dictionaries import WordNet


def matches(found: Audit) -> dict[tuple[str, int], tuple[set[int], str | None]]:
    """By kind and item, the other items of the matches and their sense."""
    sides = [found.matches[found.matches["side"] == side] for side in ("here", "there")]
    pairs = sides[0].merge(sides[1], on=["kind", "digest"], how="left", suffixes=("", "_there"))
    return {
        key: (set(rows["item_there"].dropna()), *rows["sense"].unique())
        for key, rows in pairs.groupby(["kind", "item"], sort=False)
    }


def counts(found: Audit) -> dict[str, tuple[int, int, int]]:
    (other,) = found.against
    return {kind: tuple(of_kind.values()) for kind, of_kind in other["kinds"].items()}


def items(*rows: tuple[str, str, str | None, str]) -> list[Item]:
    made = []
    for k, (compound, sentence, sense, captions) in enumerate(rows):
        texts = enumerate(captions.split(","))
        shown = tuple(Candidate(f"{k}-{j}.png", caption=text) for j, text in texts)
        made.append(Item(compound, sentence, "en", shown, sense))
    return made


SET = items(
    ("night owl", "A night owl flew.", "literal", "an owl,a desk"),
    ("cold feet", "He got cold feet.", "idiomatic", "a groom,a foot"),
    ("fat cat", "A fat cat sat.", None, "a cat,a banker"),
    ("red tape", "Red tape again.", "idiomatic", "a tape,An Owl!"),
)


def test_shared_parts_are_counted_by_kind_and_item_and_their_senses_compared():
    other = items(
        ("Night Owls", "Two night owls.", "idiomatic", "a lamp,a tree"),
        ("night-owl", "One night owl.", "literal", "a branch,a moon"),
        ("old hat", "He got cold feet!", "idiomatic", "a hat,A FOOT."),
        ("white lie", "A lie.", None, "a cat,a mouth"),
    )
    found = audit(SET, {"other": other})
    assert [(one["name"], one["items"]) for one in found.against] == [("other", 4)]
    assert counts(found) == {
        "compound": (4, 1, 1),
        "sentence": (4, 1, 1),
        "caption": (7, 2, 2),  # "an owl" stands twice
        "picture": (0, 0, 0),
    }
    assert matches(found) == {
        ("compound", 1): ({1, 2}, "both"),
        ("sentence", 2): ({3}, "same"),
        ("caption", 2): ({3}, "same"),
        ("caption", 3): ({4}, None),
    }


def test_what_the_set_itself_repeats_is_found(tmp_path):
    for name, source in (("a", 0), ("b", 0), ("c", 1)):
        path = sorted((SAMPLES / "images").iterdir())[source]
        Image.open(path).convert("L").save(tmp_path / f"{name}.png")
    repeats = items(
        ("night owl", "A night owl flew.", None, "an owl,a desk"),
        ("fat cat", "A fat cat sat.", None, "a cat,A cat!,a lamp"),
        ("Night owls", "a NIGHT owl flew", None, "a tree,a Desk"),
    )
    pictures = tuple(
        Candidate(f"{name}.png", tmp_path / f"{name}.png", f"picture {name}") for name in "abc"
    )
    repeats[0] = replace(repeats[0], candidates=(*repeats[0].candidates, pictures[0], pictures[2]))
    repeats[1] = replace(repeats[1], candidates=(*repeats[1].candidates, *pictures[:2]))
    found = audit(repeats)
    repeats = found.repeats.groupby(["kind", "digest"], sort=False)
    assert [(kind, rows["item"].tolist()) for (kind, _), rows in repeats] == [
        ("compound", [1, 3]),
        ("sentence", [1, 3]),
        ("caption", [1, 3]),
        ("caption", [1, 2]),  # "picture a", that of the picture in both
        ("picture", [1, 2, 2]),
        ("caption", [2, 2]),
    ]
    assert found.repeats.groupby("kind")["name"].unique()["picture"].tolist() == ["a.png", "b.png"]
    assert found.different == {"compound": 2, "sentence": 2, "caption": 8, "picture": 2}


def test_what_is_missing_is_counted_and_named_and_no_error(tmp_path, write_table):
    cut = (SAMPLES / "images" / "night_owl_1.png").read_bytes()[:500]
    (tmp_path / "a.png").write_bytes(cut)
    (tmp_path / "b.png").write_bytes((SAMPLES / "images" / "night_owl_1.png").read_bytes())
    blank = {f"image{k}_caption": "" for k in range(1, 6)}
    path = write_table(
        admire_row(),
        admire_row("fat cat", sentence="   ", sentence_type="", expected_order="", **blank),
        admire_row("cold feet", sentence="Nobody was afraid."),
        admire_row("red tapes", sentence="The red, sticky tape tore."),
    )
    with pytest.raises(UserError, match="row 2"):
        read_items(path)
    found = audit(list(iter_items(path, rows=RowReader(whole=False))))
    lacks = {lack["what"]: lack for lack in found.lacks}
    assert {name: (lack["count"], lack["of"], lack["items"]) for name, lack in lacks.items()} == {
        "a sentence or sequence": (1, 4, [2]),
        "a sense": (1, 4, [2]),
        "a gold order": (1, 4, [2]),
        "candidates": (0, 4, []),
        "the compound in the sentence": (1, 3, [3]),
        "a caption": (5, 20, [2]),
        "a picture": (0, 20, []),
        "the picture's file": (12, 20, [1, 2, 3, 4]),
        "a readable picture": (4, 8, [1, 2, 3, 4]),
    }
    assert lacks["the picture's file"]["which"][:3] == ["c.png", "d.png", "e.png"]
    (why,) = lacks["a readable picture"]["which"]
    assert f"{tmp_path / 'a.png'}: the image cannot be decoded" in why
    assert found.different["picture"] == 1


def test_senses_are_counted_by_language_and_lengths_in_words():
    found = audit([*SET, replace(SET[0], language="pt", sentence="Um mocho.")])
    assert [tuple(row.values()) for row in found.senses] == [("en", 4, 2, 1, 1), ("pt", 1, 0, 1, 0)]
    assert [tuple(row.values()) for row in found.lengths] == [
        ("words of a sentence", 2, 4, 4),
        ("words of a caption", 2, 2, 2),
        ("candidates of an item", 2, 2, 2),
    ]


def test_compounds_are_told_apart_by_the_senses_of_their_entries(tmp_path):
    words = [*SYNSETS, ("noun", "noun.act", ["fat_cat"], "a cat that is fat")]
    asked = [WordNet(wordnet(tmp_path, synsets=words))]
    compounds = ["Night-owl", "black sheep", "red tape", "night owls", "fat cats"]
    found = items(*((compound, "", None, "") for compound in compounds))
    found.append(replace(found[1], compound="flea market", language="pt"))
    known = audit(found, dictionaries=asked).known
    assert known == {
        "dictionaries": ["wordnet"],
        "idiomatic": ["Night-owl"],
        "literal": ["fat cats"],
        "both": ["black sheep"],
        "neither": ["red tape", "flea market"],
    }
    assert audit(found).known is None


def test_evenness_is_judged_as_a_chi_square_test_does():
    places = [(0, 4)] * 60 + [(1, 4)] * 45 + [(2, 4)] * 40 + [(3, 4)] * 55
    found = evenness(places, draws=20000)
    assert found.p == pytest.approx(stats.chisquare(found.counts).pvalue, abs=0.02)
    mixed = evenness([(0, 2), (0, 2), (3, 4), (2, 4)])
    assert (mixed.counts, mixed.expected) == ((2, 0, 1, 1), (1.5, 1.5, 0.5, 0.5))
    assert evenness([(0, 2), (1, 2)]).p == 1  # no draw is more even


def test_the_place_of_the_best_candidate_is_compared_with_chance():
    gold = [replace(OWL, expected_order=("bird.png", "person.png", "bike.png"))] * 9
    best = audit([*gold, OWL]).best
    assert best
    assert best.counts == (9, 1, 0)
    assert best.p < 0.01
    assert audit([replace(OWL, expected_order=None)]).best is None


@pytest.mark.usefixtures("words")
def test_equal_scores_are_counted_in_what_can_be_ranked():
    alike = replace(
        OWL,
        candidates=tuple(Candidate(f"{k}.png", caption="a night owl" + k * "!") for k in range(5)),
    )
    bare = Item("owl", "An owl.")
    unseen = replace(OWL, candidates=(*OWL.candidates[:2], Candidate("bike.png")))
    found = check_order([bare, OWL, unseen, alike])
    assert (found.items, found.tied, found.tied_first, found.unchecked) == (2, (4,), (4,), None)
    assert found.by == "embeddings, with the sentence as the query"
    assert check_order([bare]).unchecked == "No item has candidates to rank."


def test_a_chat_model_that_takes_the_first_that_it_is_shown_is_noticed(tmp_path):
    told = {}
    for bias in (0.0, 10.0):
        judge = Judge(WORTHS, first=bias)
        write_run(rank([ITEM], settings("listwise", "pairwise"), llms=[judge]), tmp_path / "run")
        found = check_order([ITEM], tmp_path / "run")
        assert (found.items, found.tied, found.unchecked) == (1, (), None)
        told[bias] = {
            one["ranker"]: (one["llm"], one["answers"], one["places"].counts) for one in found.shown
        }
    assert told == {
        0.0: {"listwise": ("judge", 5, (1, 1, 1, 1, 1)), "pairwise": ("judge", 20, (10, 10))},
        10.0: {"listwise": ("judge", 5, (5, 0, 0, 0, 0)), "pairwise": ("judge", 20, (20, 0))},
    }
    with pytest.raises(UserError, match="is a run of other items"):
        check_order([ITEM, OWL], tmp_path / "run")
