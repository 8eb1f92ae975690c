"""Training a light detector: its sample, and what the heads learn."""

import importlib.util
import zlib
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from toys import MarkedEncoder
from toys import marked as items

from admire import Item
from admire.senses import Use
from admire.tasks.training import DetectorTraining, sample_items, train_detector

learning = pytest.mark.skipif(
    importlib.util.find_spec("sklearn") is None, reason="needs the extra 'train'"
)


class Blind(MarkedEncoder):
    """Sees nothing: noise alone."""

    def vector(self, text: str) -> np.ndarray:
        return np.random.default_rng(zlib.crc32(text.encode())).normal(size=2)


@learning
def test_without_neutral_sentences_what_is_usual_counts_and_with_them_it_does_not():
    # Eight of nine sentences are idiomatic, and the context says nothing.
    mostly = [
        Item(f"c{k}", f"A c{k} {j}.", sentence_type="idiomatic" if j else "literal")
        for k in range(40)
        for j in range(9)
    ]

    def mean_probability(neutral: bool) -> float:
        settings = DetectorTraining(per_compound=9, neutral=neutral)
        detector = train_detector(mostly, [Blind()], settings)
        senses = detector.classify([Use(item) for item in mostly], Blind())
        return np.mean([sense.probability_idiomatic for sense in senses])

    assert mean_probability(True) == pytest.approx(0.5, abs=0.05)
    assert mean_probability(False) == pytest.approx(8 / 9, abs=0.05)


def test_the_sample_is_capped_for_each_compound_and_sense_and_leaves_out_what_it_is_told():
    def chosen(seed: int) -> list[Item]:
        settings = DetectorTraining(per_compound=2, seed=seed)
        return sample_items(items(each=8), settings, leave_out=["C3", "c 4s"])

    assert len(chosen(0)) == 18 * 2 * 2
    assert {"c3", "c4"}.isdisjoint(item.compound for item in chosen(0))
    assert chosen(0) == chosen(0) != chosen(1)


def test_forms_of_one_expression_count_as_one_and_are_left_out_with_it():
    forms = [replace(item, compound=f"{item.compound}{k % 2}") for k, item in enumerate(items())]
    expressions = {form.compound: item.compound for form, item in zip(forms, items(), strict=True)}
    settings = DetectorTraining(per_compound=2)
    sample = sample_items(forms, settings, leave_out=["c3"], expressions=expressions)
    assert Counter(expressions[item.compound] for item in sample) == {
        f"c{k}": 4 for k in range(20) if k != 3
    }
