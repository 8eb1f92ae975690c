"""The sources of the detector that comes with admire: their odd files, read as items."""

from pathlib import Path

import pytest

pytest.importorskip("sklearn")

from make_detector import SETTINGS, read_bicontext, read_magpie, read_sources, what_each_gave

from admire import Item
from admire.data.overlap import digests, parts_of, plain
from admire.senses import open_detector, read_compounds
from admire.tasks.training import sample_items


def test_a_compound_has_a_literal_use_and_then_an_idiomatic_one(tmp_path: Path):
    path = tmp_path / "bicontext.txt"
    path.write_text(
        "night owl\tan owl that hunts at night is a night owl\n"
        "night owl\tmy sister is a night owl\n"
        "night owl\t\n"
        "damaged line\n"
        "night owl\ta third one does not count\n"
    )
    assert list(read_bicontext(path)) == [
        Item("night owl", "an owl that hunts at night is a night owl", sentence_type="literal"),
        Item("night owl", "my sister is a night owl", sentence_type="idiomatic"),
    ]


def test_a_long_text_is_cut_around_the_compound_between_words(tmp_path: Path):
    path = tmp_path / "bicontext.txt"
    path.write_text(f"night owl\t{'before ' * 50}night owl{' after' * 50}\n")
    (item,) = read_bicontext(path)
    assert item.sentence.startswith("before before")
    assert item.sentence.endswith("after after")
    assert 150 < len(item.sentence) < 220
    assert "night owl" in item.sentence


def test_expressions_in_both_senses_are_read_with_the_span_in_each_sentence(tmp_path: Path):
    rows = [
        ("spill the beans", "spilled the beans", "She spilled the beans.", "idiomatic"),
        ("spill the beans", "spill all the beans", "Don't spill all the beans.", "literal"),
        ("spill the beans", "Spill The Beans", "We heard Spill The Beans.", "literal"),
        ("spill the beans", "spilt the beans", "The span is elsewhere.", "literal"),
        ("piece of cake", "piece of cake", "It was a piece of cake.", "idiomatic"),
    ]
    path = tmp_path / "magpie.tsv"
    header = ("expression", "span", "sentence", "sentence_type")
    path.write_text("\n".join(map("\t".join, [header, *rows])))
    items, expressions = read_magpie(path)
    assert items == [Item(span, text, sentence_type=sense) for _, span, text, sense in rows[:2]]
    assert expressions == dict.fromkeys(["spilled the beans", "spill all the beans"], rows[0][0])


@pytest.mark.ci
def test_the_built_in_detector_lists_what_the_real_sources_give_today(shared: Path):
    sources, expressions = read_sources(shared)
    items = [item for part in sources.values() for item in part]
    sample = sample_items(items, SETTINGS, expressions=expressions)
    card = open_detector().card
    assert len(sample) == card["items"]
    assert digests(parts_of(sample))["sentence"] == card["saw"]["sentence"]
    assert card["sources"] == what_each_gave(sources, expressions)

    names = {
        f" {plain(name)}"
        for item in sample
        for name in (item.compound, expressions.get(item.compound, ""))
    }
    left_out = map(plain, read_compounds(shared / "leave_out_compounds.txt"))
    assert not [name for compound in left_out for name in names if f" {compound}" in name]
