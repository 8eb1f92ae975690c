"""A retrieval benchmark in IdioLink's shape, from the files of SemEval-2022 Task 2."""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from pathlib import Path

import numpy as np

from admire.errors import UserError
from admire.items import Item
from admire.retrieval.passages import SPLITS, Passage, Split, locate
from admire.senses.task2a import read_idiomaticity
from admire.sts.pairs import Pair, read_pairs

log = logging.getLogger("admire")

SHARES = (0.5, 0.15, 0.35)
"""Of the MWEs, for training, validation and testing."""

USAGES = ("idiomatic", "literal")


def build(folder: Path, language: str, *, queries: int = 3, seed: int = 0) -> dict[str, Split]:
    """Splits of a benchmark, no MWE in two of them, from a folder with ``subtask_a`` and ``_b``.

    Of each MWE that is used in both senses at least twice: up to ``queries`` sentences of each as
    queries, but at most half of them; the others as documents, literal or idiomatic as Task 2A
    labels them; of an idiomatic document a correct paraphrase of Task 2B as its ``simplification``,
    and of any document an incorrect one as a ``distractor``, which is relevant to no query. The
    paraphrases of queries are left out.

    Raises:
        UserError: a file is missing or cannot be used, or has nothing in this language.
    """
    a, b = folder / "subtask_a", folder / "subtask_b"
    items = read_idiomaticity(a / "train_zero_shot.csv") + read_idiomaticity(
        a / "train_one_shot.csv"
    )
    items += read_idiomaticity(a / "dev.csv", a / "dev_gold.csv")
    pairs = read_pairs(b / "train_data.csv") + read_pairs(b / "dev.csv", b / "dev.gold.csv")
    uses = _uses([item for item in items if item.language == language])
    if not uses:
        known = ", ".join(sorted({item.language for item in items}))
        raise UserError(f"{folder}: has no sentences in '{language}'. There are: {known}.")
    of: dict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        # Pairs that the gold file lacks are only there for others to be compared with.
        if pair.language == language and pair.mwe and pair.gold:
            of[pair.first].append(pair)
    rng = np.random.default_rng(seed)
    both = sorted(m for m, found in uses.items() if all(len(found[u]) >= 2 for u in USAGES))
    if len(both) < 3:
        raise UserError(
            f"{folder}: has {len(both)} MWEs that are used in both senses in '{language}'. "
            "Three splits need three at least."
        )
    dealt = [both[k] for k in rng.permutation(len(both))]
    first, second = np.cumsum(np.array(SHARES) * len(dealt)).round().astype(int)[:2]
    bounds = [max(1, first), min(max(first + 1, second), len(dealt) - 1)]
    splits = {}
    for split, mwes in zip(SPLITS, np.split(np.array(dealt, dtype=object), bounds), strict=True):
        asked: list[Passage] = []
        indexed: list[Passage] = []
        for mwe in mwes:
            for usage in USAGES:
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
            tuple(_numbered(asked, f"{language}-{split}-q")),
            tuple(_numbered(indexed, f"{language}-{split}-d")),
        )
    return splits


def _uses(items: Sequence[Item]) -> dict[str, dict[str, list[str]]]:
    """The sentences of each MWE by usage, each once; those that lack the MWE are left out."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: {usage: [] for usage in USAGES})
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
        log.info("Left out, because the MWE does not stand in them as it is: %d sentences", skipped)
    return found


def _passage(mwe: str, sentence: str, wanted: str, usage: str) -> Passage:
    """The sentence with the wanted words marked, to the ends of the words ("home runs")."""
    start, end = locate(sentence, wanted)
    while end < len(sentence) and sentence[end].isalnum():
        end += 1
    return _marked(mwe, sentence, start, end, usage)


def _marked(mwe: str, sentence: str, start: int, end: int, usage: str) -> Passage:
    span = sentence[start:end]
    before = [m.start() for m in re.finditer(f"(?={re.escape(span)})", sentence)]
    return Passage("", sentence, mwe, span, "", usage, True, before.index(start) + 1)


def _paraphrased(pairs: Sequence[Pair], usage: str) -> list[Passage]:
    """A correct paraphrase of an idiomatic document, and an incorrect one of any."""
    found = []
    right = {pair.second for pair in pairs if pair.similarity == 1}
    for kind, correct in (("simplification", True), ("distractor", False)):
        if correct and usage == "literal":
            continue
        for pair in pairs:
            place = _replaced(pair.first, pair.second)
            if place and (pair.second in right if correct else pair.second not in right):
                found.append(_marked((pair.mwe or "").casefold(), pair.second, *place, kind))
                break
    return found


def _replaced(sentence: str, paraphrase: str) -> tuple[int, int] | None:
    """Where the first words stand that the paraphrase has in place of others."""
    words = [list(re.finditer(r"\w+", text)) for text in (sentence, paraphrase)]
    texts = [[match[0] for match in matches] for matches in words]
    matcher = SequenceMatcher(None, texts[0], texts[1], autojunk=False)
    for tag, _, _, first, last in matcher.get_opcodes():
        if tag in ("replace", "insert"):
            return words[1][first].start(), words[1][last - 1].end()
    return None


def _numbered(passages: Sequence[Passage], prefix: str) -> list[Passage]:
    return [replace(one, id=f"{prefix}{k}") for k, one in enumerate(passages, start=1)]
