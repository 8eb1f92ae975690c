"""How good the meanings of a run are: do they find a strong chat model's?

    python tools/measure_meanings.py runs/train ../shared/data/recorded/meanings_en.csv

Less noisy than top-1 of five candidates: each definition is looked for, by e5, among the recorded
ones of all compounds.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from admire.encoders import open_encoder
from admire.pipeline.run_folder import read_rows
from admire.senses.recorded_replies import key_of, open_replies


def report(label: str, written: Mapping[str, str], recorded: Mapping[str, str]) -> None:
    """Print the place of each compound's recorded definition among all, by one of its own."""
    encoder, names = open_encoder("e5"), [name for name in written if name in recorded]
    among = list(dict.fromkeys(recorded.values()))
    texts, others = [written[name] for name in names], encoder.encode_texts(among, role="query")
    cosines = encoder.encode_texts(texts, role="query") @ others.T
    right = [row[among.index(recorded[name])] for row, name in zip(cosines, names, strict=True)]
    places = 1 + (cosines > np.array(right)[:, None]).sum(axis=1)
    first, mean = (places == 1).mean(), (1 / places).mean()
    print(f"{label}: {len(places)}, right one first {first:.3f}, MRR {mean:.3f}")


def main(run: Path, replies: Path) -> None:
    readings = {row.compound: row.interpretations[0] for row in read_rows(run)}
    by_key = open_replies(replies).replies
    recorded = {
        name: by_key[key_of(name)].meanings["idiomatic"].definitions[0]
        for name in readings
        if key_of(name) in by_key
    }
    listed = {n: r.known.idiomatic[0].gloss for n, r in readings.items() if r.known.idiomatic}
    glosses = {name: reading.gloss for name, reading in readings.items() if reading.gloss}
    report("definitions", glosses, recorded)
    if listed:
        report("dictionary", listed, recorded)
        both = {name: gloss for name, gloss in glosses.items() if name in listed}
        report("definitions, where a dictionary has one", both, recorded)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
