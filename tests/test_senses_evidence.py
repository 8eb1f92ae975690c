from dataclasses import replace
from math import exp, log, sqrt

import numpy as np
import pytest
from toys import WordEncoder

from admire import Candidate, Item
from admire.senses.dictionaries import Entries, Entry
from admire.senses.evidence import add_evidence, likeness, nearness, read_sequences
from admire.senses.sense import Sense

USE = Item("night owl", "The night owl is an owl, an owl who writes.")
ENTRIES = Entries(tuple(Entry("night owl", gloss, "wn") for gloss in ("who writes", "late", "owl")))
LIKENESS = (2 / sqrt(2) / 2 - 2 / sqrt(2)) / sqrt(13)
"""Of the two definitions that count one is in the context, of the compound one word, twice."""


def test_likeness_is_to_the_mean_of_two_definitions_less_that_to_the_compound():
    assert likeness([USE], {USE: ENTRIES}, WordEncoder()) == pytest.approx([LIKENESS], abs=1e-6)


def test_evidence_moves_the_log_odds_of_english_uses_that_have_an_entry(monkeypatch):
    monkeypatch.setattr("admire.senses.evidence.open_encoder", lambda name: WordEncoder())
    foreign, absent = replace(USE, language="pt"), replace(USE, sentence="It flew.")
    bare = replace(USE, compound="night bird", sentence="A night bird.")
    items = [USE, foreign, absent, bare]
    entries = dict.fromkeys(items, ENTRIES) | {bare: Entries((), ENTRIES.idiomatic)}
    senses = [Sense("idiomatic", p, by="detector") for p in (0.6, 0.7, 0.8, 0.9)]
    moved, *others = add_evidence(items, senses, entries)
    odds = log(0.6 / 0.4) + 0.5 * (LIKENESS - 0.0038) / 0.0315
    assert moved.probability_idiomatic == pytest.approx(1 / (1 + exp(-odds)), abs=1e-6)
    assert (moved.label, moved.by) == ("literal", "detector")
    assert others == senses[1:]


ITEM = Item(
    "night owl",
    "",
    candidates=(Candidate("a", caption="owl"), Candidate("b", caption="desk")),
    sequence=(Candidate("1", caption="night"), Candidate("2", caption="owl")),
)


def test_nearness_is_worked_out_by_hand():
    # Their mean vector is (1/4, 1/2, 1/4), so the spread is √(1 - 3/8). The sequence is the
    # compound's own words; of the candidates one has half of them.
    expected = (1 - 1 / sqrt(2) / 2) / sqrt(5 / 8)
    assert nearness([ITEM, ITEM], WordEncoder()) == pytest.approx([expected] * 2, abs=1e-6)


def test_a_sequence_is_likelier_literal_the_nearer_it_is(monkeypatch):
    monkeypatch.setattr("admire.senses.evidence.nearness", lambda *_: np.array([0.0811, 0.0711]))
    literal, tie = read_sequences([ITEM, ITEM], WordEncoder())
    assert literal.probability_idiomatic == pytest.approx(1 / (1 + exp(53.5 * 0.01)))
    assert (literal.label, tie.probability_idiomatic) == ("literal", pytest.approx(0.5))
