"""Makes ``detector.json``, the light detector that comes with admire, from its three sources.

The library never imports this file. Run it to make the detector again:

    pip install '.[embedded,train]' wordninja
    python tools/make_detector.py ../shared/data

The folder holds ``semeval2022_task2/subtask_a``, ``senses`` and ``leave_out_compounds.txt``, whose
compounds are kept unseen. Every text is read once and then cached.
"""

from __future__ import annotations

import logging
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import wordninja

from admire.core.files import read_table, read_text
from admire.data.compounds import find_compound
from admire.data.items import Item
from admire.embedded.light_detector import BUILT_IN
from admire.encoders import open_context_encoder
from admire.metrics.leakage import summarise_card
from admire.senses.task2a import LABELS, read_compounds, read_idiomaticity
from admire.tasks.training.light_detector import train_detector

SOURCES = {
    "SemEval-2022 Task 2A": "Tayyar Madabushi et al. 2022, the task's own release; English and "
    "Portuguese compounds",
    "Geometry of Compositionality": "Gong et al. 2017, no licence stated; English compounds",
    "MAGPIE": "Haagsma et al. 2020, CC-BY-4.0; English idioms that occur in both senses",
}
SHIFT = 0.7
"""For languages other than English, see ``docs/method.md``."""
REACH = 100
"""Characters that are kept on either side of a compound in texts of several sentences."""


def read_bicontext(path: Path) -> Iterator[Item]:
    """Yield a literal and an idiomatic use of each compound: ``compound<TAB>text``."""
    seen: dict[str, int] = defaultdict(int)
    for line in read_text(path).splitlines():
        compound, _, text = (part.strip() for part in line.partition("\t"))
        if not text:
            continue  # some lines are damaged
        seen[compound] += 1
        if seen[compound] <= 2:
            text = _window(text, compound)
            yield Item(compound, text, sentence_type=LABELS[seen[compound] == 1])


def _window(text: str, compound: str) -> str:
    """Return the words around the compound; these texts have no full stops to cut at."""
    text = " ".join(text.split())
    start, end = find_compound(text, compound) or (0, len(text))
    first = text.rfind(" ", 0, max(0, start - REACH)) + 1
    last = text.find(" ", end + REACH)
    return text[first : last if last >= 0 else None]


def read_magpie(*paths: Path) -> list[Item]:
    """Return sentences of MAGPIE's idioms that occur in both senses, idioms put back."""
    examples = defaultdict(list)
    for path in paths:
        for row in read_table(path, ("sentence_0", "label")).to_dict("records"):
            marked = re.search(r"\bID(\S+?)ID(?!\w)", row["sentence_0"])
            if marked is None:
                continue
            idiom = " ".join(wordninja.split(marked[1]))
            sentence = row["sentence_0"].replace(marked[0], idiom)
            item = Item(idiom, sentence, sentence_type=LABELS[int(row["label"])])
            examples[marked[1].casefold()].append(item)
    return [
        item
        for items in examples.values()
        if len({item.sentence_type for item in items}) == 2
        for item in items
        if len(item.sentence) < 400
    ]


def is_name(item: Item) -> bool:
    """Return whether the sentence writes the compound as a name, like "the band Silver Spoon"."""
    start, end = find_compound(item.sentence, item.compound) or (0, len(item.sentence))
    words = item.sentence[start:end].split()
    return len(words) > 1 and all(word[0].isupper() for word in words)


def read_sources(data: Path) -> list[Item]:
    """Return the labelled sentences of all sources, without names."""
    task, senses = data / "semeval2022_task2" / "subtask_a", data / "senses"
    items = [
        *read_idiomaticity(task / "train_zero_shot.csv"),
        *read_idiomaticity(task / "train_one_shot.csv"),
        *read_bicontext(senses / "bicontext_English.txt"),
        *read_magpie(*(senses / f"magpie_typebased_{part}.csv" for part in ("dev", "test"))),
    ]
    return [item for item in items if not is_name(item)]


def main(data: Path) -> None:
    """Train on the sources below the folder, and write the detector where admire reads it."""
    unseen = read_compounds(data / "leave_out_compounds.txt")
    encoder = open_context_encoder("embedded-state")
    detector = train_detector(read_sources(data), encoder, leave_out=unseen)
    card = detector.card | {"sources": SOURCES}
    detector = replace(detector, shift=SHIFT, card=card, identity="")
    detector.save(BUILT_IN)
    print(summarise_card(detector.card))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    main(Path(sys.argv[1]))
