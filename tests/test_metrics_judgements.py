"""People's judgements: which item each is of, what it corrects, and what is refused."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import refused

from admire import SAMPLES, Candidate, Item, read_items
from admire.data.submission import Prediction
from admire.metrics.figures import summarise, summarise_languages
from admire.metrics.item_figures import score_items
from admire.metrics.judgements import correct_gold

ABC = tuple(Candidate(name, caption="x") for name in "abc")
OWL = Item("night owl", "He is a night owl.", "en", ABC, "idiomatic", ("a", "b", "c"))
BIRD = replace(OWL, sentence="A night owl hoots.", sentence_type=None, expected_order=None)
SEQUENCE = Item("cold feet", "", "en", ABC, "literal", None, (Candidate("s1"),), "a")
WORD = Item("river bank", "", "en", ABC, expected_item="b", word="bank")
ITEMS = [OWL, BIRD, SEQUENCE, WORD]


def of(item: Item, **said: object) -> dict[str, object]:
    return {"compound": item.compound, "sentence": item.sentence, **said}


@pytest.fixture
def saved(tmp_path: Path):
    def save(*judgements: object, **more: object) -> Path:
        path = tmp_path / "judgements.json"
        path.write_text(json.dumps({"judgements": judgements, **more}))
        return path

    return save


def test_a_judgement_corrects_the_sense_and_moves_the_best_to_the_front(saved):
    path = saved(
        of(OWL, candidates=["c", "b", "a"], verdict="disagree", sense="literal", best="b"),
        of(BIRD, verdict="agree", run="dev", sense="literal", best="c", number=2, language="en"),
        of(SEQUENCE, sense="literal", best="c", note="It is cold."),
        of(WORD) | {"sentence": WORD.compound, "note": "As a card has it, and it says nothing."},
        runs=["dev"],
    )
    found = correct_gold(ITEMS, path, "the run")
    assert found.items == [
        replace(OWL, sentence_type="literal", expected_order=("b", "a", "c")),
        replace(BIRD, sentence_type="literal", expected_order=("c",)),
        replace(SEQUENCE, expected_item="c"),
        WORD,
    ]
    assert (found.judged, found.senses, found.bests) == (4, 2, 3)
    again = correct_gold([OWL, OWL], saved(of(OWL, best="c")), "the run")
    assert [one.best for one in again.items] == ["c", "c"]  # the same item
    assert (again.judged, again.senses, again.bests) == (2, 0, 2)


def test_an_item_of_which_only_the_best_is_known_has_top1_alone():
    items = [OWL, replace(BIRD, expected_order=("c",)), replace(OWL, language="pt")]
    orders = ("b", "a", "c"), ("c", "a", "b"), ("a", "b", "c")
    predictions = [
        Prediction(item.compound, item.sentence, order, language=item.language)
        for item, order in zip(items, orders, strict=True)
    ]
    scored = score_items(items, predictions, "the run")
    summary = summarise(scored).set_index(["group", "metric"])
    assert summary.loc[("all", "top1"), ["n", "mean"]].tolist() == [3, pytest.approx(2 / 3)]
    assert summary.loc[("all", "dcg"), "n"] == 2
    dcg = scored["dcg"].dropna()
    assert summary.loc[("all", "dcg"), "mean"] == pytest.approx(dcg.mean())
    by_language = summarise_languages(scored, [item.language for item in items])
    assert set(by_language["metric"]) == {"top1"}


@pytest.mark.parametrize(
    ("judgements", "words"),
    [
        ([of(OWL), {"sentence": "x"}], ("judgement 2, compound: is missing",)),
        ([of(OWL, sense="ironic")], ("judgement 1, sense: cannot be 'ironic'",)),
        ([of(OWL, besst="a")], ("judgement 1, besst: is unknown",)),
        ([of(OWL, best="d.png")], ("judgement 1 ('night owl')", "'d.png'", "a, b, c")),
        ([of(OWL), of(OWL) | {"compound": "fat cat"}], ("judgement 2: 'fat cat'", "the run")),
        ([of(OWL, candidates=["a", "z"])], ("judgement 1: 'night owl'", "is not an item of")),
        ([of(OWL, best="a"), of(OWL, best="b")], ("judgement 2 ('night owl')", "judgement 1")),
    ],
)
def test_what_does_not_fit_is_refused_with_its_entry(saved, judgements, words):
    refused(saved(*judgements), *words, read=lambda path: correct_gold(ITEMS, path, "the run"))


def test_the_file_that_the_page_shows_fits_the_run_of_the_samples(tmp_path):
    page = (Path(__file__).parents[1] / "docs" / "report.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    path = tmp_path / "judgements.json"
    path.write_text(shown, encoding="utf-8")
    found = correct_gold(read_items(SAMPLES), path, "the run")
    assert (found.judged, found.bests) == (1, 1)
    assert "admire rank admire/data/samples --out runs/samples" in page
