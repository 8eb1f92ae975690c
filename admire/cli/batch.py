"""``admire batch``: ask what a run will need by OpenAI's Batch API."""

from __future__ import annotations

import logging
import sys

from admire.cli import options as opt
from admire.cli.config import run_settings
from admire.cli.output import print_forecasts
from admire.rankers.settings import Asking, Scoring, Settings

log = logging.getLogger("admire")


@opt.with_settings(
    "batch",
    Settings,
    Scoring,
    (Asking, "budget"),
    (opt.ItemFiles, "lang", "images"),
    opt.SettingsSource,
    headings=True,
)
def batch(data: opt.Data, /, *, dry_run: opt.DryRun = False, options: opt.Options = None) -> None:
    """Ask by OpenAI's Batch API, at half the price and within a day, what admire rank will need.

    What the cache lacks is submitted, and what has been answered is put into the cache. Call it
    again, with the same options, until it says that admire rank can begin; it ends with exit code 3
    while questions are under way.
    """
    from admire.data.reader import read_items
    from admire.runs.batch import batch as submit
    from admire.runs.forecast import plan

    settings, files = run_settings(options), opt.make(opt.ItemFiles, options)
    items = read_items(data, files.lang, images=files.images)
    if dry_run:
        print_forecasts(plan(items, settings, batch=True))
        return
    under_way = submit(items, settings, budget=opt.make(Asking, options).budget)
    for line in under_way:
        log.info("%s.", line)
    if under_way:
        log.info("Call the same command again later: answers come within 24 hours as a rule.")
        sys.exit(3)
    log.info("The cache has all that batches can answer. Now run admire rank with these options.")
