"""Makes ``detector.json``, the light detector that comes with admire, from its three sources.

The library never imports this file. Run it to make the detector again:

    pip install '.[embedded,train]'
    python tools/make_detector.py ../shared/data

The folder holds ``semeval2022_task2/subtask_a``, ``senses`` and ``leave_out_compounds.txt``, whose
compounds are kept unseen. Every text is read once and then cached. With ``--evaluate`` nothing is
written: a cross-validation over the expressions is printed, and the figures of the detector as it
is on sentences of other sources and languages.
"""

from __future__ import annotations

import logging
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedGroupKFold

from admire.core.files import read_table, read_text
from admire.data.compounds import find_compound
from admire.data.items import Item
from admire.data.overlap import plain, stem
from admire.embedded.light_detector import BUILT_IN, LightDetector, open_built_in
from admire.encoders import QueryEncoder, open_context_encoder, open_encoder
from admire.metrics.leakage import summarise_card
from admire.senses.detector import OTHER_LANGUAGES
from admire.senses.dictionaries import look_up, open_dictionaries
from admire.senses.evidence import add_evidence, likeness
from admire.senses.sense import Sense
from admire.senses.settings import Use
from admire.senses.task2a import LABELS, read_compounds, read_idiomaticity
from admire.tasks.training.light_detector import sample_items, train_detector
from admire.tasks.training.settings import DetectorData, DetectorTraining

SOURCES = {
    "SemEval-2022 Task 2A": "Tayyar Madabushi et al. 2022, the task's own release; English and "
    "Portuguese compounds",
    "Geometry of Compositionality": "Gong et al. 2017, no licence stated; English compounds",
    "MAGPIE": "Haagsma et al. 2020, CC-BY-4.0; English idioms that occur in both senses",
}
OTHERS = "multicopie_even.tsv", "dodiom_even.tsv"
"""Sentences in languages without training data. Their licences keep them out of the training."""
ADMIRE = (
    "admire_pt/train_targets.tsv",
    "admire_pt/dev_targets.tsv",
    "admire_en/train/subtask_a_train.tsv",
    "admire_en/dev/subtask_a_dev.tsv",
)
"""Sentences to report on, never to choose on."""
SETTINGS = DetectorTraining(per_compound=3)
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
            text = " ".join(text.split())  # without full stops to cut at
            start, end = find_compound(text, compound) or (0, len(text))
            first = text.rfind(" ", 0, max(0, start - REACH)) + 1
            last = text.find(" ", end + REACH)
            text = text[first : last if last >= 0 else None]
            yield Item(compound, text, sentence_type=LABELS[seen[compound] == 1])


def read_magpie(path: Path) -> tuple[list[Item], dict[str, str]]:
    """Return sentences with their spans as compounds, and the expression that each span is of.

    Only expressions that occur in both senses are read, and no sentences of 400 characters.
    """
    items: dict[str, list[Item]] = defaultdict(list)
    columns = "expression", "span", "sentence", "sentence_type"
    for row in read_table(path, columns).to_dict("records"):
        item = Item(row["span"], row["sentence"], sentence_type=row["sentence_type"])
        if item.compound in item.sentence and len(item.sentence) < 400 and not is_name(item):
            items[row["expression"]].append(item)
    both = [
        (item, expression)
        for expression, uses in items.items()
        if len({item.sentence_type for item in uses}) == 2
        for item in uses
    ]
    return [item for item, _ in both], {item.compound: expression for item, expression in both}


def is_name(item: Item) -> bool:
    """Return whether the sentence writes the compound as a name, like "the band Silver Spoon"."""
    start, end = find_compound(item.sentence, item.compound) or (0, len(item.sentence))
    words = item.sentence[start:end].split()
    return len(words) > 1 and all(word[0].isupper() for word in words)


def read_sources(data: Path) -> tuple[dict[str, list[Item]], dict[str, str]]:
    """Return the labelled sentences of each source, and the expressions of their compounds.

    Names are left out, and what has a compound of ``leave_out_compounds.txt`` in it.
    """
    task, senses = data / "semeval2022_task2" / "subtask_a", data / "senses"
    magpie, expressions = read_magpie(senses / "magpie.tsv")
    sources = {
        "SemEval-2022 Task 2A": [
            *read_idiomaticity(task / "train_zero_shot.csv"),
            *read_idiomaticity(task / "train_one_shot.csv"),
        ],
        "Geometry of Compositionality": list(read_bicontext(senses / "bicontext_English.txt")),
        "MAGPIE": magpie,
    }
    compounds = map(plain, read_compounds(data / "leave_out_compounds.txt"))
    left_out = re.compile("|".join(rf"\b{compound.removesuffix('s')}" for compound in compounds))

    def keep(item: Item) -> bool:
        names = f"{item.compound} / {expressions.get(item.compound, '')}"
        return not left_out.search(plain(names)) and not is_name(item)

    return {source: list(filter(keep, items)) for source, items in sources.items()}, expressions


def what_each_gave(
    sources: Mapping[str, Sequence[Item]], expressions: Mapping[str, str]
) -> dict[str, Any]:
    """Return what each source is, and how many sentences and expressions are learned from it."""
    items = [item for part in sources.values() for item in part]
    sample = {*sample_items(items, SETTINGS, expressions=expressions)}
    kept = {source: sample.intersection(part) for source, part in sources.items()}
    return {
        source: {
            "from": SOURCES[source],
            "sentences": len(part),
            "expressions": len({stem(expressions.get(i.compound, i.compound)) for i in part}),
        }
        for source, part in kept.items()
    }


def score(items: Sequence[Item], senses: Sequence[Sense], groups: Sequence[str]) -> dict[str, Any]:
    """Return how many senses are right, and the area under ROC.

    Each group has the same weight in each sense. Groups in one sense do not count.
    """
    sizes = Counter((group, item.sentence_type) for group, item in zip(groups, items, strict=True))
    rows = [
        (item.sentence_type, sense, 1 / sizes[group, item.sentence_type])
        for item, sense, group in zip(items, senses, groups, strict=True)
        if all(sizes[group, label] for label in LABELS)
    ]
    right = [sense.label == label for label, sense, _ in rows]
    idiomatic = [label == "idiomatic" for label, _, _ in rows]
    probabilities = [sense.probability_idiomatic for _, sense, _ in rows]
    weights = [weight for _, _, weight in rows]
    area = roc_auc_score(idiomatic, probabilities, sample_weight=weights)
    return {
        "sentences": len(rows),
        "accuracy": round(float(np.average(right, weights=weights)), 4),
        "auc": round(float(area), 4),
    }


def measure(
    detector: LightDetector, encoders: Sequence[QueryEncoder], *paths: Path
) -> dict[str, Any]:
    """Return the :func:`score` of all sentences in some files, by language, as one group each."""
    languages: dict[str, list[Item]] = defaultdict(list)
    for item in chain.from_iterable(map(read_idiomaticity, paths)):
        languages[item.language].append(item)
    return {
        language: score(items, detector.classify([*map(Use, items)], *encoders), [""] * len(items))
        for language, items in sorted(languages.items())
    }


def decide_unseen(
    items: Sequence[Item],
    groups: Sequence[str],
    expressions: Mapping[str, str],
    encoders: Sequence[QueryEncoder],
) -> list[Sense]:
    """Return the senses of items by detectors that were trained on four fifths of the groups."""
    labels = [item.sentence_type for item in items]
    senses: dict[int, Sense] = {}
    folds = StratifiedGroupKFold(5, shuffle=True, random_state=SETTINGS.seed)
    for train, test in folds.split(labels, labels, groups):
        learned = [items[k] for k in train]
        detector = train_detector(learned, encoders, SETTINGS, expressions=expressions)
        uses = [Use(items[k]) for k in test]
        senses |= zip(test, detector.classify(uses, *encoders), strict=True)
    return [senses[k] for k in range(len(items))]


def cross_validate(
    sources: Mapping[str, Sequence[Item]],
    expressions: Mapping[str, str],
    encoders: Sequence[QueryEncoder],
) -> dict[str, Any]:
    """Return the :func:`score` of each source and language, with WordNet and without.

    The constants of :mod:`admire.senses.evidence` are printed as well.
    """
    names = {
        item: f"{source}, {item.language}" for source, items in sources.items() for item in items
    }
    items = sample_items(list(names), SETTINGS, expressions=expressions)
    groups = np.array([stem(expressions.get(item.compound, item.compound)) for item in items])
    alone = decide_unseen(items, groups, expressions, encoders)
    wordnet = open_dictionaries(["wordnet"])
    entries = {
        item: look_up(wordnet, expressions.get(item.compound, item.compound), item.language)
        for item in items
    }
    helped = add_evidence(items, alone, entries)
    changed = [item for item, a, b in zip(items, alone, helped, strict=True) if a is not b]
    alike = likeness(changed, entries, open_encoder("e5"))
    print(f"Likeness: mean {alike.mean():.4f}, deviation {alike.std():.4f}, of {len(changed)}")
    places: dict[str, list[int]] = defaultdict(list)
    for k, item in enumerate(items):
        parts = "all", names[item], *(["with an entry"] if alone[k] is not helped[k] else [])
        for name in parts:
            places[name].append(k)
    return {
        name: [
            score([items[k] for k in some], [decided[k] for k in some], groups[some].tolist())
            for decided in (alone, helped)
        ]
        for name, some in sorted(places.items())
    }


def main(data: Path, *, evaluate: bool) -> None:
    """Train on the sources below the folder, and write the detector; or print figures instead."""
    sources, expressions = read_sources(data)
    encoders = [*map(open_context_encoder, DetectorData().encoder)]
    others = [data / "senses" / name for name in OTHERS]
    if evaluate:
        print("Cross-validation over expressions, without WordNet and with it:")
        print(cross_validate(sources, expressions, encoders))
        detector = open_built_in()
        for path in [*others, *(data / name for name in ADMIRE)]:
            print(path.name, measure(detector, encoders, path))
        return
    items = [item for part in sources.values() for item in part]
    detector = train_detector(items, encoders, SETTINGS, expressions=expressions)
    other = {OTHER_LANGUAGES: measure(detector, encoders, *others)}
    card = detector.card | {"sources": what_each_gave(sources, expressions)} | other
    detector._replace(card=card).save(BUILT_IN)
    print(summarise_card(card))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    main(Path(sys.argv[1]), evaluate="--evaluate" in sys.argv[2:])
