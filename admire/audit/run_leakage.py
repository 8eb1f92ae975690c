"""Which items of a run its head or detector saw in training, and the figures of the others."""

from __future__ import annotations

import logging
from collections import defaultdict
from pathlib import Path

import pandas as pd

from admire.base.errors import UserError
from admire.runs.past_runs import read_rows
from admire.runs.run_folder import ITEMS, RECORD
from admire.scores.leakage import Seen, describe_seen, merge_seen

log = logging.getLogger("admire")


def warn_if_runs_saw(scored: pd.DataFrame, *runs: Path) -> None:
    """Warn if the head or detector of runs saw parts of scored items in training.

    The warning has the mean figures of the items that were not seen. If a run's rows cannot be
    read, it only says so.

    Args:
        scored: of :func:`score_items`, with ``compound`` and ``sentence``; or of
            :func:`admire.runs.scoring.summarise_run`, which has ``seen`` instead.
        runs: run folders, or files in them. Files elsewhere, such as another system's submission,
            are ignored.
    """
    places = dict.fromkeys(run if run.is_dir() else run.parent for run in runs)
    folders = [place for place in places if all(map(Path.is_file, (place / RECORD, place / ITEMS)))]
    if not folders:
        return
    name = " & ".join(map(str, folders))
    try:
        by_run = [_seen_in(folder, scored) for folder in folders if "seen" not in scored]
    except UserError as error:
        log.warning("%s What was seen in training is not known.", error)
        return
    seen = [merge_seen(kinds) for kinds in zip(*by_run, strict=True)] if by_run else scored["seen"]
    for line in describe_seen(scored, list(seen)):
        log.warning("%s: %s", name, line)


def _seen_in(folder: Path, scored: pd.DataFrame) -> list[Seen]:
    """Return what a run's head or detector saw of each scored item, repeated rows in order."""
    rows: dict[tuple[str, str], list[Seen]] = defaultdict(list)
    for row in read_rows(folder):
        rows[row.compound, row.sentence].append(row.seen)
    waiting = {key: iter(seen) for key, seen in rows.items()}
    keys = zip(scored["compound"], scored["sentence"], strict=True)
    return [next(waiting.get(key, iter(())), {}) for key in keys]
