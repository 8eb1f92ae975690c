"""Finds items of a run that its head or detector saw in training; scores the others."""

from __future__ import annotations

import logging
from collections import defaultdict
from pathlib import Path

import pandas as pd

from admire.core.errors import UserError
from admire.metrics.leakage import Leaks, describe_leaks, merge_leaks
from admire.pipeline.past_runs import read_rows
from admire.pipeline.run_folder import ITEMS, RECORD

log = logging.getLogger("admire")


def warn_if_runs_leaked(scored: pd.DataFrame, *runs: Path) -> None:
    """Warn if the head or detector of runs saw parts of scored items in training.

    The warning contains the mean figures of the other items. If a run's rows cannot be read, the
    warning reports that.

    Args:
        scored: of :func:`score_items`, with ``compound`` and ``sentence``; or of
            :func:`admire.pipeline.scoring.summarise_run`, which has ``seen`` instead.
        runs: run folders, or files in them. Files elsewhere, such as another system's submission,
            are ignored.
    """
    places = dict.fromkeys(run if run.is_dir() else run.parent for run in runs)
    folders = [place for place in places if all(map(Path.is_file, (place / RECORD, place / ITEMS)))]
    if not folders:
        return
    name = " & ".join(map(str, folders))
    try:
        by_run = [_leaks_in(folder, scored) for folder in folders if "seen" not in scored]
    except UserError as error:
        log.warning("%s Overlap with training data is unknown.", error)
        return
    leaked = (
        [merge_leaks(kinds) for kinds in zip(*by_run, strict=True)] if by_run else scored["seen"]
    )
    for line in describe_leaks(scored, list(leaked)):
        log.warning("%s: %s", name, line)


def _leaks_in(folder: Path, scored: pd.DataFrame) -> list[Leaks]:
    """Return the leaks of each scored item in a run; repeated rows in order."""
    rows: dict[tuple[str, str], list[Leaks]] = defaultdict(list)
    for row in read_rows(folder):
        rows[row.compound, row.sentence].append(row.seen)
    remaining = {key: iter(leaks) for key, leaks in rows.items()}
    keys = zip(scored["compound"], scored["sentence"], strict=True)
    return [next(remaining.get(key, iter(())), {}) for key in keys]
