from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from admire.tasks.sts import mwes


def mark(sentence: str, *expressions: str) -> str:
    vocabulary = {mwes.token(mwe): k for k, mwe in enumerate(expressions)}
    model: Any = SimpleNamespace(tokenizer=SimpleNamespace(get_added_vocab=lambda: vocabulary))
    return mwes.reader(model, expressions)(sentence)


@pytest.mark.parametrize(
    ("mwe", "wanted"),
    [
        ("home run", "IDhomerunID"),
        ("Home-Run", "IDhomerunID"),
        ("pão duro", "IDpãoduroID"),
        ("devil's advocate", "IDdevilsadvocateID"),
    ],
)
def test_a_token_is_of_the_form_that_the_paper_prints(mwe, wanted):
    assert mwes.token(mwe) == wanted


@pytest.mark.parametrize(
    ("sentence", "wanted"),
    [
        ("Night Owl, NIGHT OWL", "IDnightowlID, IDnightowlID"),
        ("the night-owl’s lamp", "the IDnightowlID’s lamp"),
        ("“night  owl”", "“IDnightowlID”"),
        ("a night owls’ club", "a night owls’ club"),
        ("midnight owl", "midnight owl"),
        ("night owlé", "night owlé"),
    ],
)
def test_each_use_is_marked_and_no_part_of_a_longer_word(sentence, wanted):
    assert mark(sentence, "night owl") == mark(sentence, "Night-Owl") == wanted


def test_letters_beyond_ascii_and_characters_with_a_meaning_in_patterns_are_marked():
    assert mark("Um PÃO-DURO, um pão duro.", "pão duro") == "Um IDpãoduroID, um IDpãoduroID."
    assert mark("a c++ (d.) e", "c++ (d.)") == "a IDcdID e"
    assert mark("Two cat's  eyes.", "cat's eyes") == "Two IDcatseyesID."
    assert mark("abd", "a.d") == "abd"


@pytest.mark.parametrize("order", [1, -1])
def test_the_longest_of_overlapping_expressions_is_marked_first(order):
    names = ("night", "big night owl", "night owl")[::order]
    marked = mark("a big night owl, a night owl, a night", *names)
    assert marked == "a IDbignightowlID, a IDnightowlID, a IDnightID"


def test_each_expression_becomes_one_token_that_begins_as_the_mean_of_its_parts(tmp_path: Path):
    for package in ("torch", "sentence_transformers"):
        pytest.importorskip(package, reason="needs the extra 'clip'")
    from sentence_transformers import SentenceTransformer
    from towers import save_sentence_transformer

    saved = save_sentence_transformer(tmp_path / "plain")
    tiny: Any = SentenceTransformer(str(saved), device="cpu")

    def embeddings() -> np.ndarray:
        return tiny[0].model.get_input_embeddings().weight.detach().numpy().copy()

    def ids(text: str) -> list[int]:
        return list(tiny.tokenizer(text, add_special_tokens=False)["input_ids"])

    before, size = embeddings(), len(tiny.tokenizer)
    mwes.extend(tiny, ["night owl", "big red bird", "night owl"])
    assert len(tiny.tokenizer) == size + 2
    after = embeddings()
    assert len(after) == size + 2
    assert np.array_equal(after[:size], before)
    for mwe in ("night owl", "big red bird"):
        (token,) = ids(mwes.token(mwe))
        parts = ids(mwe)
        assert token >= size
        assert len(parts) == len(mwe.split()), "the words alone are still read as words"
        assert np.allclose(after[token], before[parts].mean(axis=0), atol=1e-7)
    marked = mwes.reader(tiny, ["night owl"])("a night owl writes")
    assert len(ids(marked)) == len(ids("a night owl writes")) - 1
