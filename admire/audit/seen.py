"""Which items of a run its head or detector saw in training, and the figures of the others."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from admire.base.errors import UserError
from admire.runs.past_runs import read_record, read_rows
from admire.runs.record import UNLISTED
from admire.runs.run_folder import ITEMS, RECORD, SEEN
from admire.scores.cards import Seen, merged, told_of_seen

log = logging.getLogger("admire")


def warn_of_seen(scored: pd.DataFrame, *runs: Path) -> None:
    """Warn if the head or the detector of runs saw parts of scored items in training.

    It also tells the mean figures of the items that were not seen. Where a card is too old to list
    what was seen, it says so. Where a run's rows cannot be read, it says that, and no more: the
    figures stand without them.

    Args:
        scored: of :func:`score_items`, with ``compound`` and ``sentence``; or of
            :func:`admire.runs.past_runs.score_run`, which has ``seen`` in their place.
        runs: folders of the runs; or files in them, of which those that are no runs are passed
            over, as a submission of another system is.
    """
    folders = list(dict.fromkeys(run if run.is_dir() else run.parent for run in runs))
    folders = [one for one in folders if (one / RECORD).is_file() and (one / ITEMS).is_file()]
    if not folders:
        return
    name = " & ".join(map(str, folders))
    try:
        old = {who for folder in folders for who in _unlisted(read_record(folder))}
        by_run = [_seen_in(folder, scored) for folder in folders if SEEN not in scored]
    except UserError as error:
        log.warning("%s What was seen in training is not known.", error)
        return
    seen = [merged(of_item) for of_item in zip(*by_run, strict=True)] if by_run else scored[SEEN]
    for line in told_of_seen(scored, list(seen)):
        log.warning("%s: %s", name, line)
    for who in sorted(old):
        log.warning(
            "%s: The %s was made before cards listed what was seen in training, so whether it saw "
            "these items is not known.",
            name,
            who,
        )


def _seen_in(folder: Path, scored: pd.DataFrame) -> list[Seen]:
    """What was seen of each scored item by a run. Where it has the same compound and sentence
    several times, the first belongs to the first, and so on."""
    rows: dict[tuple[str, str], list[Seen]] = defaultdict(list)
    for row in read_rows(folder):
        rows[row.get("compound", ""), row.get("sentence", "")].append(row.get(SEEN, {}))
    waiting = {key: iter(found) for key, found in rows.items()}
    keys = zip(scored["compound"], scored["sentence"], strict=True)
    return [next(waiting.get(key, iter(())), {}) for key in keys]


def _unlisted(record: Mapping[str, Any]) -> Iterator[str]:
    """Whose card lists nothing, in a run or in those that it is fused from."""
    yield from record.get(UNLISTED, ())
    for one in record.get("fused", ()):
        yield from _unlisted(one["record"])
