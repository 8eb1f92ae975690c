"""What several runs share: which items, and on these, how far their orders agree."""

from __future__ import annotations

import logging
import math
from collections.abc import Hashable, Iterable, Sequence
from itertools import chain

import pandas as pd

from admire.core.errors import UserError
from admire.data.items import Candidate, Item, item_keys
from admire.data.submission import Prediction
from admire.metrics import metrics
from admire.metrics.figures import summarise

log = logging.getLogger("admire")

KEYS = ["compound", "sentence"]


def shared_items(tables: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    """Return from each table the rows of the items that all have, in the order of the first.

    Items are told apart by their compound and sentence; repetitions are paired in their order.
    """
    numbered = [
        table.set_index([table["compound"], table["sentence"], table.groupby(KEYS).cumcount()])
        for table in tables
    ]
    shared = numbered[0].index
    for table in numbered[1:]:
        shared = shared.intersection(table.index, sort=False)
    return [table.loc[shared].reset_index(drop=True) for table in numbered]


def describe_shared(names: Sequence[object], items: Sequence[Iterable[Hashable]]) -> str:
    """Say how many items runs share, and how many each lacks; empty if all have the same.

    Args:
        items: for each run the keys of its items.
    """
    own = [*map(set, items)]
    every, shared = set.union(*own), set.intersection(*own)
    if len(every) == len(shared):
        return ""
    lacks = [
        f"{name} lacks {len(every) - len(keys):,}"
        for name, keys in zip(names, own, strict=True)
        if len(keys) < len(every)
    ]
    shares = f"The runs share {len(shared):,} of their {len(every):,} items ({', '.join(lacks)})."
    return f"{shares} {'Only these are' if shared else 'They cannot be'} compared."


def shared_places(
    runs: Sequence[Sequence[Prediction]], names: Sequence[object]
) -> list[tuple[int, ...]]:
    """Return where in each run the items are that all of them have; warn if one lacks some.

    Args:
        runs: the predictions of each.
        names: what messages call them.

    Raises:
        UserError: they have no item with the same candidates in common.
    """
    has_sentences = all(row.sentence is not None for row in chain(*runs))
    has_orders = all(row.order for row in chain(*runs))

    def as_item(row: Prediction) -> Item:
        candidates = tuple(map(Candidate, row.order)) if has_orders else ()
        sentence = (row.sentence or "") if has_sentences else ""
        return Item(row.compound, sentence, candidates=candidates)

    by_item = [
        {key: place for place, key in enumerate(item_keys([*map(as_item, predictions)]))}
        for predictions in runs
    ]
    note = describe_shared(names, by_item)
    shared = [key for key in by_item[0] if all(key in places for places in by_item)]
    if not shared:
        raise UserError(f"{note} Name runs of the same items.")
    if note:
        log.warning("%s", note)
    return [tuple(places[key] for places in by_item) for key in shared]


def order_agreement(
    first: Sequence[Prediction], second: Sequence[Prediction], *, seed: int = 0
) -> pd.DataFrame:
    """Return how far two runs' predictions of the same items agree, without any gold.

    Returns:
        As :func:`admire.metrics.figures.summarise`: ``same_first``, the share of items with the
        same candidate first; and ``kendall_tau``, the mean of Kendall's tau of their orders, which
        submissions to Subtask B do not have.
    """
    figures, rows = ["same_first", "kendall_tau"], []
    for pair in zip(first, second, strict=True):
        # A submission to Subtask B names the first candidate alone.
        order, other = (row.order or (row.expected_item or "",) for row in pair)
        tau = metrics.kendall_tau(order, other) if min(len(order), len(other)) > 1 else math.nan
        rows.append((order[0] == other[0], tau))
    scored = pd.DataFrame(rows, columns=figures, dtype=float).assign(sentence_type=None)
    return summarise(scored, columns=figures, seed=seed, shares=["same_first"])
