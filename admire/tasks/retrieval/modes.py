"""The words of this room: splits, usages, what of a query is compared, forms of instructions."""

from __future__ import annotations

from typing import Literal, get_args

SplitName = Literal["train", "val", "test"]
SPLITS: tuple[str, ...] = get_args(SplitName)

Usage = Literal["literal", "idiomatic", "simplification", "sense", "distractor"]
USAGES: tuple[Usage, ...] = get_args(Usage)
"""Usages of documents. ``distractor`` is ours: a paraphrase that misses the meaning and is relevant
to no query. IdioLink's own files have none."""

Mode = Literal["sentence", "span", "instruction+sentence", "instruction+span"]
"""What of a query is encoded: the paper's four configurations (section 4.1)."""
MODES: tuple[Mode, ...] = get_args(Mode)

Compared = Literal["sentence", "span", "instruction+sentence", "instruction+span", "meaning"]
"""What of a query is compared with documents: one of the modes, or its sense and gloss."""

Format = Literal["auto", "instruct", "prompt", "plain"]
"""How an instruction is given: ``instruct`` as "Instruct: … Query: …"; ``prompt`` as the prompt
argument of sentence-transformers, which models like INSTRUCTOR leave out of the pooling; ``plain``
in front of the query; ``auto`` goes by the model's name."""
