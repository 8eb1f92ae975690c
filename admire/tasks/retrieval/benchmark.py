"""A retrieval benchmark in IdioLink's shape, from the files of SemEval-2022 Task 2."""

from __future__ import annotations

import itertools
import logging
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from pathlib import Path

import numpy as np
import pandas as pd

from admire.core.errors import UserError
from admire.core.schema import Count, check_setting
from admire.core.storage import replace_folder
from admire.data.items import Item
from admire.senses.task2a import read_idiomaticity
from admire.tasks.retrieval.passages import Passage, Split, locate, occurrences, write_split
from admire.tasks.retrieval.settings import SPLITS, Usage
from admire.tasks.sts.pairs import Pair, read_pairs

log = logging.getLogger("admire")

SHARES = (0.5, 0.15, 0.35)
"""Shares of the MWEs for training, validation and testing."""

SENSES: tuple[Usage, ...] = ("idiomatic", "literal")

COMPARED = 250
"""How many words of a sentence are compared with its paraphrase, in a time that can grow with their
third power. The longest sentence of Task 2 has 98."""

KINDS: tuple[Usage, ...] = ("literal", "idiomatic", "simplification", "distractor")
"""Usages of documents that a benchmark of Task 2 can have."""


def build_benchmark(
    folder: Path, lang: str, *, queries: int = 3, seed: int = 0
) -> dict[str, Split]:
    """Make the splits of a benchmark from the files of Task 2. No MWE is in two splits.

    An MWE is taken if it has at least two sentences in each sense. Of each sense up to ``queries``
    sentences become queries, but at most half of them. The others become documents, literal or
    idiomatic as Task 2A labels them. A correct paraphrase of an idiomatic document (Task 2B) joins
    them as its ``simplification``, and an incorrect one of any document as a ``distractor``, which
    is relevant to no query. Paraphrases of queries are left out.

    Args:
        folder: has ``subtask_a`` and ``subtask_b``.
        lang: ``en`` or ``pt``.

    Raises:
        UserError: a file is missing or cannot be used, or has too little in this language.
    """
    check_setting("queries", queries, Count)
    a, b = folder / "subtask_a", folder / "subtask_b"
    items = read_idiomaticity(a / "train_zero_shot.csv")
    items += read_idiomaticity(a / "train_one_shot.csv")
    items += read_idiomaticity(a / "dev.csv", a / "dev_gold.csv")
    sentences = _sentences([item for item in items if item.language == lang])
    if not sentences:
        languages = ", ".join(sorted({item.language for item in items}))
        raise UserError(f"{folder}: has no sentences in '{lang}'. Available: {languages}.", "lang")
    paraphrases: dict[str, list[Pair]] = defaultdict(list)
    for pair in read_pairs(b / "train_data.csv") + read_pairs(b / "dev.csv", b / "dev.gold.csv"):
        # Pairs without a gold similarity are only there for other pairs to be compared with.
        if pair.language == lang and pair.mwe and pair.gold:
            paraphrases[pair.first].append(pair)
    rng = np.random.default_rng(seed)
    mwes = sorted(mwe for mwe, uses in sentences.items() if all(len(uses[s]) > 1 for s in SENSES))
    if len(mwes) < 3:
        raise UserError(
            f"{folder}: has {len(mwes)} MWEs that are used in both senses in '{lang}'. "
            "Three splits need at least three."
        )
    shuffled = np.array([mwes[k] for k in rng.permutation(len(mwes))], dtype=object)
    first, second = np.cumsum(np.array(SHARES) * len(mwes)).round().astype(int)[:2]
    bounds = [max(1, first), min(max(first + 1, second), len(mwes) - 1)]
    splits = {}
    for split, part in zip(SPLITS, np.split(shuffled, bounds), strict=True):
        chosen: list[Passage] = []
        documents: list[Passage] = []
        for mwe, usage in itertools.product(part, SENSES):
            uses = sentences[mwe][usage]
            order = [uses[k] for k in rng.permutation(len(uses))]
            count = min(queries, len(order) // 2)
            chosen += [_use(mwe, sentence, usage) for sentence in order[:count]]
            documents += _documents(mwe, usage, order[:count], order[count:], paraphrases)
        splits[split] = Split(
            _numbered(chosen, f"{lang}-{split}-q"), _numbered(documents, f"{lang}-{split}-d")
        )
    return splits


def write_benchmark(folder: Path, splits: Mapping[str, Split]) -> None:
    """Write a folder that :func:`admire.tasks.retrieval.passages.read_split` reads.

    Raises:
        UserError: the folder holds something else, or cannot be written.
    """
    with replace_folder(folder, "benchmark") as part:
        for name, split in splits.items():
            write_split(part, name, split)


def count_benchmark(splits: Mapping[str, Split]) -> pd.DataFrame:
    """Count the passages of each split: ``split, MWEs, queries`` and documents by usage."""
    rows = []
    for name, split in splits.items():
        usages = Counter(document.usage for document in split.documents)
        mwes = {query.idiom for query in split.queries}
        rows.append((name, len(mwes), len(split.queries), *(usages[kind] for kind in KINDS)))
    return pd.DataFrame(rows, columns=["split", "MWEs", "queries", *KINDS])


def _sentences(items: Sequence[Item]) -> dict[str, dict[str, list[str]]]:
    """Collect the distinct sentences of each MWE by usage, without those that lack the MWE."""
    sentences: dict[str, dict[str, list[str]]] = defaultdict(lambda: {s: [] for s in SENSES})
    skipped = 0
    first: dict[str, Item] = {}
    for item in items:
        first.setdefault(item.sentence.strip(), item)
    for sentence, item in first.items():
        mwe = item.compound.casefold()
        try:
            locate(sentence, mwe)
        except ValueError:
            skipped += 1
        else:
            sentences[mwe][str(item.sentence_type)].append(sentence)
    if skipped:
        log.info("Left out %d sentences that do not contain the MWE in its base form", skipped)
    return sentences


def _documents(
    mwe: str,
    usage: Usage,
    queries: Sequence[str],
    sentences: Sequence[str],
    paraphrases: Mapping[str, Sequence[Pair]],
) -> list[Passage]:
    """Make documents of sentences and their paraphrases, without paraphrases of queries."""
    hidden = {pair.second for query in queries for pair in paraphrases[query]}
    documents = []
    for sentence in sentences:
        marked = _paraphrases(paraphrases[sentence], usage)
        documents += [_use(mwe, sentence, usage), *(p for p in marked if p.sentence not in hidden)]
    return documents


def _use(mwe: str, sentence: str, usage: Usage) -> Passage:
    """Mark the MWE in a sentence, up to the end of its last word ("home runs")."""
    start, end = locate(sentence, mwe)
    while end < len(sentence) and sentence[end].isalnum():
        end += 1
    return _marked(mwe, sentence, start, end, usage)


def _marked(mwe: str, sentence: str, start: int, end: int, usage: Usage) -> Passage:
    """Make a passage without an id, whose span stands at this place of the sentence."""
    span = sentence[start:end]
    occurrence = occurrences(sentence, span).index(start) + 1
    return Passage("?", sentence, mwe, span, usage, occurrence=occurrence)


def _paraphrases(pairs: Sequence[Pair], usage: Usage) -> list[Passage]:
    """Mark the first correct paraphrase of an idiomatic sentence, and the first incorrect one."""
    passages = []
    correct = {pair.second for pair in pairs if pair.similarity == 1}
    kinds: tuple[Usage, ...] = ("simplification", "distractor")
    for kind in kinds if usage == "idiomatic" else ("distractor",):
        for pair in pairs:
            place = _replacement(pair.first, pair.second)
            if place and (pair.second in correct) == (kind == "simplification"):
                passages.append(_marked((pair.mwe or "").casefold(), pair.second, *place, kind))
                break
    return passages


def _replacement(sentence: str, paraphrase: str) -> tuple[int, int] | None:
    """Return the place in the paraphrase of the first words that replace words of the sentence."""
    matches = [list(re.finditer(r"\w+", text))[:COMPARED] for text in (sentence, paraphrase)]
    words = [[match[0] for match in text] for text in matches]
    matcher = SequenceMatcher(None, words[0], words[1], autojunk=False)
    for tag, _, _, first, last in matcher.get_opcodes():
        if tag in ("replace", "insert"):
            return matches[1][first].start(), matches[1][last - 1].end()
    return None


def _numbered(passages: Sequence[Passage], prefix: str) -> tuple[Passage, ...]:
    return tuple(replace(passage, id=f"{prefix}{k}") for k, passage in enumerate(passages, start=1))
