"""``admire batch``: ask what a run will need by OpenAI's Batch API."""

from __future__ import annotations

import logging
from typing import Any

import typer

from admire.cli import options as opt
from admire.cli.config import run_options, run_settings
from admire.cli.output import print_forecasts
from admire.cli.panels import HelpAll

log = logging.getLogger("admire")


@opt.with_options(run_options)
def batch(
    data: opt.Data,
    lang: opt.Lang = None,
    images: opt.ImageFolder = None,
    dry_run: opt.DryRun = False,
    budget: opt.Budget = None,
    help_all: HelpAll = False,
    **options: Any,
) -> None:
    """Ask by OpenAI's Batch API, at half the price and within a day, what admire rank will need.

    What the cache lacks is submitted, and what has been answered is put into the cache. Call it
    again, with the same options, until it says that admire rank can begin; it ends with exit code 3
    while questions are under way.
    """
    from admire.data.reader import read_items
    from admire.rankers.settings import Asking
    from admire.runs.batch import batch as submit
    from admire.runs.forecast import plan

    settings = run_settings(options)
    items = read_items(data, lang, images=images)
    if dry_run:
        print_forecasts(plan(items, settings, batch=True))
        return
    under_way = submit(items, settings, budget=Asking(budget=budget).budget)
    for line in under_way:
        log.info("%s.", line)
    if under_way:
        log.info("Call the same command again later: answers come within 24 hours as a rule.")
        raise typer.Exit(3)
    log.info("The cache has all that batches can answer. Now run admire rank with these options.")
