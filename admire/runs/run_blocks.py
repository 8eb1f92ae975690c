"""Ranking a file of any size: read, asked about, compared and written block by block."""

from __future__ import annotations

import json
import logging
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from math import ceil
from pathlib import Path
from typing import Any

from admire.runs import run_folder
from admire.base.errors import UserError
from admire.senses.interpretation import sense_method
from admire.data.items import Item, iter_items
from admire.models.llm.ledger import Entry
from admire.models.llm.openai import PARALLEL, without_secrets
from admire.runs.past_runs import read_record
from admire.base.progress import SECONDS_BETWEEN_LINES, progress_told_to, show_progress
from admire.rankers.judge import recorded_orders
from admire.runs.record import source_record
from admire.senses.recorded import Recorded
from admire.runs.run import Opened, Ranking, open_run, rank_block
from admire.runs.run_folder import (
    ITEMS,
    RECORD,
    SCORES,
    UNFINISHED,
    Written,
    add_block,
    blocks,
    check_whole,
    cut_back,
    drop_parts,
    submission_names,
    write_record,
)
from admire.rankers.settings import Asking, Settings
from admire.base.storage import (
    MARKER,
    check_folder,
    mark_folder,
    only_writer,
    take_place,
    unwritable,
)
from admire.rankers.survey import Survey, take_survey
from admire.base.workers import Workers, check_same, over_workers

log = logging.getLogger("admire")

Ranked = Callable[[Iterable[Sequence[Item]], Opened, int], Iterator[list[Ranking]]]
"""Ranks blocks as :func:`_ranked_here` does."""

Seconds = dict[str, float]
RankUnit = Callable[[tuple[Sequence[Item], bool]], tuple[list[Ranking], Seconds, list[Entry]]]
"""Ranks a block, and tells what that took; with it, whether it is the first."""


def rank_file(
    data: str | Path,
    out: str | Path,
    settings: Settings | None = None,
    *,
    language: str | None = None,
    asking: Asking | None = None,
    workers: Workers | None = None,
) -> list[Path]:
    """Rank the items of a file or folder, and write a run folder; return the submissions in it.

    The folder is that of :func:`admire.write_run` for what :func:`admire.rank` makes of all items
    at once, but only a block of them is in memory. What is ranked so far is a run folder beside
    ``out`` with ``.unfinished`` behind its name. The same call goes on there. One with other data,
    settings, models, prompts or versions starts anew.

    Args:
        data, language: see :func:`admire.data.items.iter_items`.
        settings, asking: as for :func:`admire.rank`.
        workers: processes that rank the blocks; None is this one.

    Raises:
        UserError: the data cannot be read or were changed meanwhile, ``out`` cannot be written,
            holds something other than a run or is being written by another process, or as for
            :func:`admire.rank`.
    """
    out, asking = Path(out), asking or Asking()
    if workers:
        _check_for_workers(settings or Settings(), asking)
    check_folder(out, "run")
    part = out.with_name(f"{out.name}.unfinished")
    with only_writer(out):
        source = source_record(data)
        known = take_survey(iter_items(data, language))
        opened = open_run(known, settings, asking=asking, source=source)
        names = submission_names(opened.record, known.languages)
        ranked: Ranked = _ranked_here
        if workers:
            models = opened.record["models"]
            open_worker = partial(_open_worker, known, settings, asking, models, workers.count)
            ranked = partial(_ranked_by, workers, open_worker)
        _fill(part, data, language, known, opened, names, ranked)
        take_place(part, out, "run")
    return [out / name for name in names.values()]


def _check_for_workers(settings: Settings, asking: Asking) -> None:
    """Refuse what several processes cannot keep.

    Raises:
        UserError: there is a budget, or an address with a password.
    """
    if asking.budget is not None:
        raise UserError(
            "A budget is kept by one process. Ask without workers; parallel says how many "
            "questions a server gets at the same time.",
            "workers",
            "budget",
        )
    if settings.llm_url and without_secrets(settings.llm_url) != settings.llm_url:
        raise UserError(
            "The address holds a password, which Ray would keep. Set OPENAI_BASE_URL where the "
            "workers are, in place of the address.",
            "llm_url",
        )


def _fill(
    part: Path,
    data: str | Path,
    language: str | None,
    known: Survey,
    opened: Opened,
    names: Mapping[str, str],
    ranked: Ranked,
) -> None:
    """Rank and write what is not written yet.

    Args:
        names: of the submissions, by language.
        ranked: gives the rankings of each block.
    """

    def items(first: int = 0) -> Iterator[Item]:
        return islice(iter_items(data, language, warn=False), first, None)

    for llm in opened.models:
        if isinstance(llm, Recorded):
            _check_recorded(items, llm, opened.settings)
    this = {"language": language, "set": known.summary()}
    written = _begun(part, opened, this)
    if written is None:
        return
    kept = written.items
    try:
        for rankings in ranked(blocks(items(kept)), opened, kept):
            if not kept:
                _make(part, names)
            account = {"seconds": opened.timings, "asked": opened.ledger.saved()}
            record = {**opened.finished(), "finished": None, UNFINISHED: this | account}
            add_block(part, written, rankings, names, record)
            kept = written.items
    except (UserError, KeyboardInterrupt) as error:
        if not kept:
            raise
        said = (
            f"{kept} of {known.items} items are ranked and kept in {part}: the same command goes "
            "on there."
        )
        if isinstance(error, UserError):
            raise UserError(f"{error} {said}", *error.settings) from error
        log.warning("%s", said)
        raise
    if source_record(data) != opened.record["source"]:
        raise UserError(f"{data}: was changed while it was ranked. Rank it again.")
    check_whole(part, written)
    write_record(part, opened.finished())


def _ranked_here(
    parts: Iterable[Sequence[Item]], opened: Opened, before: int
) -> Iterator[list[Ranking]]:
    """The rankings of each block.

    Args:
        before: how many items come before the first block.
    """
    for block in parts:
        with _told(before, len(block), opened.record["items"]):
            rankings = rank_block(block, opened, first=not before)
        yield rankings
        before += len(block)


def _ranked_by(
    workers: Workers,
    open_worker: Callable[[], RankUnit],
    parts: Iterable[Sequence[Item]],
    opened: Opened,
    before: int,
) -> Iterator[list[Ranking]]:
    """As :func:`_ranked_here`, by several processes."""
    units = ((block, not before and not number) for number, block in enumerate(parts))
    left = ceil((opened.record["items"] - before) / run_folder.BLOCK)
    with closing(over_workers(units, open_worker, workers)) as ranked:
        what = f"Ranking {left} blocks of items by {workers.count} workers"
        for rankings, seconds, asked in show_progress(ranked, what, left):
            for stage, spent in seconds.items():
                opened.timings[stage] = opened.timings.get(stage, 0.0) + spent
            opened.ledger.take(asked)
            yield rankings


def _open_worker(
    known: Survey, settings: Settings | None, asking: Asking, models: Mapping[str, Any], count: int
) -> RankUnit:
    """What ranks blocks in one of several processes.

    Args:
        models: what the record of the run says of them.
        count: how many processes there are. They share what a server is asked at the same time.
    """
    share = ceil((asking.parallel or PARALLEL) / count)
    opened = open_run(known, settings, asking=replace(asking, parallel=share))
    for kind, made in models.items():
        check_same(kind, made, opened.record["models"][kind])

    def rank_unit(unit: tuple[Sequence[Item], bool]) -> tuple[list[Ranking], Seconds, list[Entry]]:
        block, first = unit
        rankings = rank_block(block, opened, first=first)
        seconds = dict(opened.timings)
        opened.timings.clear()
        return rankings, seconds, opened.ledger.hand_over()

    return rank_unit


def _check_recorded(items: Callable[[], Iterator[Item]], llm: Recorded, settings: Settings) -> None:
    """Refuse recorded replies that lack something, before anything is asked or encoded.

    Args:
        items: gives the items from the first on.
    """
    llm.check(items())
    if sense_method(settings.sense, llm) == "vote":
        llm.senses(items())
    if settings.looks:
        recorded_orders(items(), llm)


# ------------------------------------------------------------------------- what is under way


def _begun(part: Path, opened: Opened, this: Mapping[str, Any]) -> Written | None:
    """What an earlier call has left of the same run; nothing where it was another one.

    None means that the run is complete, and only has to take its place.

    Args:
        this: what tells the run apart besides its record.

    Raises:
        UserError: there is a folder of that name that is no run.
    """
    if not part.exists():
        return Written()
    found: dict[str, Any] = {}
    why = "is of other data or settings"
    if (part / MARKER).is_file():
        with suppress(UserError):
            found = read_record(part)
    state = found.pop(UNFINISHED, None)
    if _same(found, opened.record):
        if state is None:
            drop_parts(part)
            return None
        if all(state[name] == value for name, value in this.items()):
            written = Written(state["items"], state["columns"], state["lengths"])
            if cut_back(part, written):
                return _go_on(part, opened, found, state, written)
            why = "lacks something that was written"
    if (part / MARKER).is_file():
        drop_parts(part)
    check_folder(part, "run")
    log.info("%s: %s, so the run starts anew.", part, why)
    shutil.rmtree(part, ignore_errors=True)
    return Written()


def _same(found: Mapping[str, Any], record: Mapping[str, Any]) -> bool:
    """Whether two runs are of the same data, made with the same settings, models and versions."""
    told = json.loads(json.dumps(record))
    return all(found.get(name) == value for name, value in told.items() if name != "started")


def _go_on(
    part: Path,
    opened: Opened,
    found: Mapping[str, Any],
    state: Mapping[str, Any],
    written: Written,
) -> Written:
    opened.record["started"] = found["started"]
    opened.timings.update(state["seconds"])
    opened.ledger.restore(state["asked"])
    log.info("%s: goes on after %d of %d items.", part, written.items, found["items"])
    return written


def _make(part: Path, names: Mapping[str, str]) -> None:
    try:
        part.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(part, error) from error
    mark_folder(part, "run", (SCORES, ITEMS, RECORD, *names.values()))


def _told(before: int, count: int, total: int) -> AbstractContextManager[None]:
    """Where there are several blocks, tell now and then how far all of them have come."""
    if count == total:
        return nullcontext()
    return progress_told_to(_Lines(f"Items {before + 1} to {before + count} of {total}"))


class _Lines:
    """Tells of progress in a line at most every so many seconds."""

    said = 0.0

    def __init__(self, where: str):
        self.where = where

    def __call__(self, what: str, done: int, total: int) -> None:
        if time.monotonic() - _Lines.said > SECONDS_BETWEEN_LINES:
            _Lines.said = time.monotonic()
            log.info("%s. %s: %d of %d", self.where, what, done, total)
