"""How good the meanings of a run are: do they find a strong chat model's, and the best captions?

    python tools/measure_meanings.py runs/train ../shared/data/recorded/meanings_en.csv

Less noisy than top-1 of five candidates: each definition is looked for among the recorded ones of
all compounds, and each scene of an idiomatic use among all captions of the run. By e5.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from admire.encoders import Role, open_encoder
from admire.pipeline.past_runs import read_rows
from admire.pipeline.ranking import Row
from admire.senses.interpretation import Interpretation
from admire.senses.recorded import key_of, open_replies


def ranks(
    texts: Sequence[str], right: Sequence[str], among: Sequence[str], role: Role
) -> list[int]:
    """Return the place of each text's right one among others, which are encoded in a role."""
    encoder = open_encoder("e5")
    cosines = encoder.encode_texts(texts, role="query") @ encoder.encode_texts(among, role=role).T
    own = [row[among.index(text)] for row, text in zip(cosines, right, strict=True)]
    return [1 + int((row > mine).sum()) for row, mine in zip(cosines, own, strict=True)]


def report(label: str, ranks_of_right: Sequence[int]) -> None:
    if ranks_of_right:
        places = np.array(ranks_of_right)
        first, mean = (places == 1).mean(), (1 / places).mean()
        print(f"{label}: {len(places)}, right one first {first:.3f}, MRR {mean:.3f}")


def main(run: Path, replies: Path) -> None:
    rows = {row.compound: row for row in read_rows(run)}
    by_key = open_replies(replies).replies
    recorded = {
        name: by_key[key_of(name)].meanings["idiomatic"].definitions[0]
        for name in rows
        if key_of(name) in by_key
    }
    report_definitions({n: row.interpretations[0] for n, row in rows.items()}, recorded)
    report_scenes(list(rows.values()))


def report_definitions(readings: Mapping[str, Interpretation], recorded: Mapping[str, str]) -> None:
    in_dictionary = {n: r.known.idiomatic for n, r in readings.items() if r.known.idiomatic}
    texts: dict[str, dict[str, str | None]] = {
        "definitions": {name: reading.gloss for name, reading in readings.items()},
        "dictionary": {name: entries[0].gloss for name, entries in in_dictionary.items()},
        "definitions, where a dictionary has one": {n: readings[n].gloss for n in in_dictionary},
    }
    among = list(dict.fromkeys(recorded.values()))
    for label, meanings in texts.items():
        found = {name: text for name, text in meanings.items() if text and name in recorded}
        right = [recorded[name] for name in found]
        report(label, ranks([str(text) for text in found.values()], right, among, "query"))


def report_scenes(rows: Sequence[Row]) -> None:
    captions = [c.caption for row in rows for c in row.candidates if c.caption]
    scenes = {}
    for row in rows:
        scene = row.interpretations[0].idiomatic.scene
        if scene and row.sentence_type == "idiomatic" and row.expected_order:
            best = row.expected_order[0]
            scenes[scene] = next(str(c.caption) for c in row.candidates if c.name == best)
    if scenes:
        report("scenes", ranks([*scenes], [*scenes.values()], captions, "document"))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
