"""The sources of the detector that comes with admire: their odd files, read as items."""

from pathlib import Path

import pytest

pytest.importorskip("sklearn")

from make_detector import SETTINGS, read_sources, what_each_gave

from admire.data.overlap import digests, parts_of, plain
from admire.senses import open_detector, read_compounds
from admire.tasks.training import sample_items


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
