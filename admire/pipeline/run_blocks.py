"""Ranks a file of any size, block by block, with one process or several."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import islice
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from admire.core.errors import UserError
from admire.core.progress import show_progress
from admire.core.storage import check_folder
from admire.data.check import check_set, report_faults
from admire.data.image_files import check_header, check_image
from admire.data.items import Item
from admire.data.settings import ItemFiles
from admire.llm.bound_model import BoundModel, Entry
from admire.llm.chat import PARALLEL
from admire.pipeline import ranking
from admire.pipeline.chat_stage import ResolvedModels, check_recorded, resolve_models
from admire.pipeline.ranking import Ranking
from admire.pipeline.record import source_record
from admire.pipeline.run import RankingPipeline
from admire.pipeline.run_folder import submission_names, write_blocks
from admire.rankers.run_encoders import reads_pictures, that_compare
from admire.rankers.settings import RequestOptions, SetSummary, Settings

if TYPE_CHECKING:
    from admire.core.workers import Workers

log = logging.getLogger("admire")

Ranked = tuple[list[Ranking], dict[str, float], list[Entry], list[str]]
"""The rankings of a block, the seconds of each stage, the account, and what was skipped."""


def rank_file(
    data: str | Path,
    out: str | Path,
    settings: Settings | None = None,
    files: ItemFiles | None = None,
    *,
    asking: RequestOptions | None = None,
    workers: Workers | None = None,
) -> list[Path]:
    """Rank the items of a file or folder, and write a run folder; return the submissions in it.

    The folder is the same as :func:`admire.write_run` writes after :func:`admire.rank`, but only
    one block of items is in memory. After an interruption, the same call resumes from the caches.

    Args:
        files: how the data are read. ``limit`` and ``left_out`` in run.json list what was not read.
        workers: processes that rank the blocks; None for this one.

    Raises:
        UserError: the data cannot be read, have faults or were changed meanwhile, ``out`` cannot be
            written or contains something other than a run, or as for :func:`admire.rank`.
    """
    out, resolved, files = Path(out), resolve_models(settings, asking), files or ItemFiles()
    if workers:
        _check_for_workers(resolved)
    check_folder(out, "run")
    source = source_record(data, images=files.images, gold=files.gold)
    read = partial(files.read, data)
    looks = partial(reads_pictures, settings=resolved.settings)
    look = check_image if files.skip_bad else check_header
    summary, faults, items = check_set(read, SetSummary, looks, look)
    report_faults(data, faults, skip=files.skip_bad)
    if not summary.items:
        raise UserError(f"{data}: no item is left.")
    run = RankingPipeline(summary, resolved, source, skips_bad=files.skip_bad)
    if faults:
        run.record["left_out"] = [fault.what for fault in faults]
    if files.limit:
        run.record["limit"] = files.limit
    for speaker in run.stage.speakers:
        if not isinstance(speaker.model, BoundModel):  # before anything is asked or encoded
            check_recorded(speaker, list(items()))
    if workers:
        ranked = _rank_by_workers(items, run, workers, summary, resolved)
    else:
        ranked = run.rank_blocks(items())

    def finish() -> dict[str, Any]:
        if source_record(data, images=files.images, gold=files.gold) != source:
            raise UserError(f"{data}: changed while it was being ranked. Rank it again.")
        if not run.done:
            raise UserError(f"{data}: no item is left.")
        return run.finish()

    try:
        return write_blocks(ranked, out, submission_names(run.record, summary.languages), finish)
    except KeyboardInterrupt:
        log.warning("%d of %d items are done.", run.done, summary.items)
        raise


def _check_for_workers(resolved: ResolvedModels) -> None:
    """Refuse what several processes do not support: a budget, or an address with a password."""
    for limit in ("budget", "most_requests"):
        if getattr(resolved.asking, limit) is not None:
            raise UserError(
                "A limit of costs needs a single process: run without workers.", "workers", limit
            )
    from admire.llm.address import Address

    url = resolved.settings.llm_url
    if url and Address.parse(url).secrets:
        raise UserError(
            "Ray would store the address's password: set OPENAI_BASE_URL on workers instead.",
            "llm_url",
        )


def _rank_by_workers(
    items: Callable[[], Iterator[Item]],
    run: RankingPipeline,
    workers: Workers,
    summary: SetSummary,
    resolved: ResolvedModels,
) -> Iterator[list[Ranking]]:
    """Rank like :meth:`admire.pipeline.run.RankingPipeline.rank_blocks`, with several processes."""
    from admire.core.workers import map_processes

    first = list(islice(items(), ranking.BLOCK))
    for encoder in run.encoders:
        if encoder.unmeasured:
            encoder.encode([item for item in first if encoder in that_compare(run.encoders, item)])
    noise, models = [encoder.noise for encoder in run.encoders], run.record["models"]
    shared = summary, resolved, models, noise, workers.count, run.skips_bad
    open_worker = partial(_open_worker, *shared)
    units = ((block, not number) for number, block in enumerate(ranking.blocks(items())))
    count = ceil(run.record["items"] / ranking.BLOCK)
    with closing(map_processes(units, open_worker, workers)) as ranked:
        task = f"Ranking {count} blocks of items by {workers.count} workers"
        for rankings, seconds, account, skipped in show_progress(ranked, task, count):
            for stage, spent in seconds.items():
                run.seconds[stage] += spent
            run.session.add_entries(account)
            run.skipped += skipped
            yield rankings
            run.count(rankings)


def _open_worker(
    summary: SetSummary,
    resolved: ResolvedModels,
    models: Mapping[str, Any],
    noise: list[dict[str, float]],
    count: int,
    skips_bad: bool,
) -> Callable[[tuple[Sequence[Item], bool]], Ranked]:
    """Return the function that ranks blocks in one of ``count`` processes."""
    from admire.core.workers import check_same

    share = ceil((resolved.asking.parallel or PARALLEL) / count)
    shared = resolved._replace(asking=replace(resolved.asking, parallel=share))
    run = RankingPipeline(summary, shared, skips_bad=skips_bad)
    for encoder, own in zip(run.encoders, noise, strict=True):
        encoder.noise = own
    for kind, expected in models.items():
        check_same(kind, expected, run.record["models"][kind])

    def rank_unit(unit: tuple[Sequence[Item], bool]) -> Ranked:
        block, first = unit
        rankings = run.rank_block(block, first=first)
        seconds, run.seconds = run.seconds, defaultdict(float)
        skipped, run.skipped = run.skipped, []
        return rankings, seconds, run.session.pop_entries(), skipped

    return rank_unit
