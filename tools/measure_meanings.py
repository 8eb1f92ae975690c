"""How good the meanings of a run are: do they find a strong chat model's, and the best captions?

    python tools/measure_meanings.py runs/train ../shared/data/recorded/meanings_en.csv

Less noisy than top-1 of five candidates: each definition is looked for among the recorded ones of
all compounds, and each scene of an idiomatic use among all captions of the run. By e5.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from admire.encoders import TextEncoder, open_encoder
from admire.pipeline.past_runs import read_rows
from admire.senses.recorded import key_of, open_replies


def ranks(texts: Sequence[str], right: Sequence[str], encoder: TextEncoder) -> list[int]:
    """Return the place of each text's right one among all distinct ones."""
    among = list(dict.fromkeys(right))
    vectors, others = (encoder.encode_texts(part, role="query") for part in (texts, among))
    cosines = vectors @ others.T
    own = [cosines[k, among.index(place)] for k, place in enumerate(right)]
    return [1 + int((row > mine).sum()) for row, mine in zip(cosines, own, strict=True)]


def report(label: str, ranks_of_right: Sequence[int]) -> None:
    if ranks_of_right:
        places = np.array(ranks_of_right)
        first, mean = (places == 1).mean(), (1 / places).mean()
        print(f"{label}: {len(places)}, right one first {first:.3f}, MRR {mean:.3f}")


def main(run: Path, replies: Path) -> None:
    encoder = open_encoder("e5")
    replies_by_key = open_replies(replies).replies
    rows = {row.compound: row for row in read_rows(run)}
    captions = [c.caption for row in rows.values() for c in row.candidates if c.caption]
    recorded = {
        name: replies_by_key[key_of(name)].meanings["idiomatic"].definitions[0]
        for name in rows
        if key_of(name) in replies_by_key
    }
    readings = {name: row.interpretations[0] for name, row in rows.items()}
    in_dictionary = {n: r.known.idiomatic for n, r in readings.items() if r.known.idiomatic}
    texts = {
        "definitions": {name: reading.gloss for name, reading in readings.items()},
        "dictionary": {name: entries[0].gloss for name, entries in in_dictionary.items()},
        "definitions, where a dictionary has one": {n: readings[n].gloss for n in in_dictionary},
    }
    among = list(recorded.values())
    for label, meanings in texts.items():
        names = [name for name, text in meanings.items() if text and name in recorded]
        texts_there = [str(meanings[name]) for name in names] + among
        right = [recorded[name] for name in names] + among
        report(label, ranks(texts_there, right, encoder)[: len(names)])
    places = []
    vectors = encoder.encode_texts(captions, role="document")
    for name, reading in readings.items():
        row, text = rows[name], reading.idiomatic.scene
        if not text or row.sentence_type != "idiomatic" or not row.expected_order:
            continue
        best = next(c.caption for c in row.candidates if c.name == row.expected_order[0])
        cosines = vectors @ encoder.encode_texts([text], role="query")[0]
        places.append(1 + int((cosines > cosines[captions.index(best)]).sum()))
    report("scenes", places)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
