"""``admire batch``: ask what a run will need by OpenAI's Batch API."""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from admire.base.choices import SenseMethod
from admire.cli import options as opt
from admire.cli.config import run_settings
from admire.cli.output import print_forecasts
from admire.cli.panels import HelpAll

log = logging.getLogger("admire")


def batch(
    data: opt.Data,
    profile: opt.Profile = None,
    config: opt.ConfigFile = None,
    like: opt.LikeRun = None,
    ranker: opt.Rankers = None,
    shuffles: opt.Shuffles = None,
    image_side: opt.ImageSide = None,
    llm: opt.Llm = None,
    llm_url: opt.LlmUrl = None,
    lang: opt.Lang = None,
    images: opt.ImageFolder = None,
    sense: Annotated[SenseMethod | None, opt.SENSE_OPTION] = None,
    votes: Annotated[int | None, opt.VOTES_OPTION] = None,
    meanings: opt.MeaningsWanted = None,
    dictionary: opt.Dictionaries = None,
    track: opt.TrackWanted = None,
    gate: opt.GateWanted = None,
    prompts: opt.PromptFolder = None,
    detector: opt.DetectorFile = None,
    seed: opt.RunSeed = None,
    dry_run: opt.DryRun = False,
    budget: opt.Budget = None,
    help_all: HelpAll = False,
) -> None:
    """Ask by OpenAI's Batch API, at half the price and within a day, what admire rank will need.

    What the cache lacks is submitted, and what has been answered is put into the cache. Call it
    again, with the same options, until it says that admire rank can begin; it ends with exit code 3
    while questions are under way.
    """
    from admire.data.items import read_items
    from admire.rankers.settings import Asking
    from admire.runs.batch import batch as submit
    from admire.runs.forecast import plan

    settings = run_settings(locals())
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
