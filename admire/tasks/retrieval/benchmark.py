"""A retrieval benchmark in IdioLink's shape, from the files of SemEval-2022 Task 2."""

from __future__ import annotations

import logging
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from pathlib import Path

import numpy as np
import pandas as pd

from admire.base.errors import UserError
from admire.base.schema import Count, check_setting
from admire.base.storage import replace_folder
from admire.data.items import Item
from admire.senses.task2a import read_idiomaticity
from admire.tasks.retrieval.modes import SPLITS, Usage
from admire.tasks.retrieval.passages import Passage, Split, locate, write_split
from admire.tasks.sts.pairs import Pair, read_pairs

log = logging.getLogger("admire")

SHARES = (0.5, 0.15, 0.35)
"""Shares of the MWEs for training, validation and testing."""

SENSES: tuple[Usage, ...] = ("idiomatic", "literal")
"""Usages of queries."""

KINDS: tuple[Usage, ...] = ("literal", "idiomatic", "simplification", "distractor")
"""Usages of documents that a benchmark of Task 2 can have."""


def build_benchmark(
    folder: Path, lang: str, *, queries: int = 3, seed: int = 0
) -> dict[str, Split]:
    """The splits of a benchmark, made from the files of Task 2. No MWE is in two splits.

    An MWE is taken if it has at least two sentences in each sense. Of each sense up to ``queries``
    sentences become queries, but at most half of them. The others become documents, literal or
    idiomatic as Task 2A labels them. A correct paraphrase of an idiomatic document (Task 2B) joins
    them as its ``simplification``, and an incorrect one of any document as a ``distractor``, which
    is relevant to no query. Paraphrases of queries are left out.

    Args:
        folder: has ``subtask_a`` and ``subtask_b``.
        lang: ``en`` or ``pt``.

    Raises:
        UserError: a file is missing or cannot be used, or has nothing in this language.
    """
    check_setting("queries", queries, Count)
    a, b = folder / "subtask_a", folder / "subtask_b"
    items = read_idiomaticity(a / "train_zero_shot.csv") + read_idiomaticity(
        a / "train_one_shot.csv"
    )
    items += read_idiomaticity(a / "dev.csv", a / "dev_gold.csv")
    pairs = read_pairs(b / "train_data.csv") + read_pairs(b / "dev.csv", b / "dev.gold.csv")
    uses = _uses([item for item in items if item.language == lang])
    if not uses:
        known = ", ".join(sorted({item.language for item in items}))
        raise UserError(f"{folder}: has no sentences in '{lang}'. There are: {known}.", "lang")
    of: dict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        # Pairs without a gold similarity are only there for other pairs to be compared with.
        if pair.language == lang and pair.mwe and pair.gold:
            of[pair.first].append(pair)
    rng = np.random.default_rng(seed)
    both = sorted(m for m, found in uses.items() if all(len(found[u]) >= 2 for u in SENSES))
    if len(both) < 3:
        raise UserError(
            f"{folder}: has {len(both)} MWEs that are used in both senses in '{lang}'. "
            "Three splits need at least three."
        )
    dealt = [both[k] for k in rng.permutation(len(both))]
    first, second = np.cumsum(np.array(SHARES) * len(dealt)).round().astype(int)[:2]
    bounds = [max(1, first), min(max(first + 1, second), len(dealt) - 1)]
    splits = {}
    for split, mwes in zip(SPLITS, np.split(np.array(dealt, dtype=object), bounds), strict=True):
        asked: list[Passage] = []
        indexed: list[Passage] = []
        for mwe in mwes:
            for usage in SENSES:
                sentences = uses[mwe][usage]
                order = [sentences[k] for k in rng.permutation(len(sentences))]
                share = min(queries, len(order) // 2)
                asked += [_passage(mwe, s, mwe, usage) for s in order[:share]]
                hidden = {one.second for s in order[:share] for one in of[s]}
                for sentence in order[share:]:
                    indexed.append(_passage(mwe, sentence, mwe, usage))
                    indexed += [
                        one
                        for one in _paraphrased(of[sentence], usage)
                        if one.sentence not in hidden
                    ]
        splits[split] = Split(
            tuple(_numbered(asked, f"{lang}-{split}-q")),
            tuple(_numbered(indexed, f"{lang}-{split}-d")),
        )
    return splits


def write_benchmark(folder: Path, splits: Mapping[str, Split]) -> None:
    """Write a folder that :func:`admire.tasks.retrieval.passages.read_split` reads.

    Raises:
        UserError: the folder holds something else, or cannot be written.
    """
    with replace_folder(folder, "benchmark") as part:
        for name, content in splits.items():
            write_split(part, name, content)


def count_benchmark(splits: Mapping[str, Split]) -> pd.DataFrame:
    """How much each split has: ``split, MWEs, queries`` and documents by usage."""
    rows = []
    for split, content in splits.items():
        found = Counter(document.usage for document in content.documents)
        mwes = len({query.idiom for query in content.queries})
        rows.append((split, mwes, len(content.queries), *(found[kind] for kind in KINDS)))
    return pd.DataFrame(rows, columns=["split", "MWEs", "queries", *KINDS])


def _uses(items: Sequence[Item]) -> dict[str, dict[str, list[str]]]:
    """The sentences of each MWE by usage, without repetitions and those that lack the MWE."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: {usage: [] for usage in SENSES})
    skipped = 0
    seen: set[str] = set()
    for item in items:
        mwe, sentence = item.compound.casefold(), item.sentence.strip()
        if sentence in seen:
            continue
        seen.add(sentence)
        try:
            locate(sentence, mwe)
        except ValueError:
            skipped += 1
            continue
        found[mwe][str(item.sentence_type)].append(sentence)
    if skipped:
        log.info("Left out %d sentences that do not contain the MWE in its base form", skipped)
    return found


def _passage(mwe: str, sentence: str, wanted: str, usage: Usage) -> Passage:
    """The sentence with the wanted words marked, up to the end of the last word ("home runs")."""
    start, end = locate(sentence, wanted)
    while end < len(sentence) and sentence[end].isalnum():
        end += 1
    return _marked(mwe, sentence, start, end, usage)


def _marked(mwe: str, sentence: str, start: int, end: int, usage: Usage) -> Passage:
    span = sentence[start:end]
    before = [m.start() for m in re.finditer(f"(?={re.escape(span)})", sentence)]
    return Passage("?", sentence, mwe, span, usage, occurrence=before.index(start) + 1)


def _paraphrased(pairs: Sequence[Pair], usage: Usage) -> list[Passage]:
    """A correct paraphrase of an idiomatic document, and an incorrect one of any."""
    found = []
    right = {pair.second for pair in pairs if pair.similarity == 1}
    kinds: tuple[tuple[Usage, bool], ...] = (("simplification", True), ("distractor", False))
    for kind, correct in kinds:
        if correct and usage == "literal":
            continue
        for pair in pairs:
            place = _replaced(pair.first, pair.second)
            if place and (pair.second in right if correct else pair.second not in right):
                found.append(_marked((pair.mwe or "").casefold(), pair.second, *place, kind))
                break
    return found


def _replaced(sentence: str, paraphrase: str) -> tuple[int, int] | None:
    """Position in the paraphrase of the first words that replace words of the sentence."""
    words = [list(re.finditer(r"\w+", text)) for text in (sentence, paraphrase)]
    texts = [[match[0] for match in matches] for matches in words]
    matcher = SequenceMatcher(None, texts[0], texts[1], autojunk=False)
    for tag, _, _, first, last in matcher.get_opcodes():
        if tag in ("replace", "insert"):
            return words[1][first].start(), words[1][last - 1].end()
    return None


def _numbered(passages: Sequence[Passage], prefix: str) -> list[Passage]:
    return [replace(one, id=f"{prefix}{k}") for k, one in enumerate(passages, start=1)]
